"""Chunks of padding: the structure, shapes and types of a real chunk, full of the padding value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from ..collation.leaves import is_tensor
from ..core.casting import holds

__all__ = ["FillValue", "as_array", "as_filler", "fields", "filled", "form_of", "group_of", "like"]

_NUMBERS = "biufc"
_TEXT: dict[str, type] = {"U": str, "T": str, "S": bytes}


class FillValue(NamedTuple):
    """The value that fills rows of padding and short chunks: one for all fields, or a dict of them.

    >>> FillValue({"x": {"y": 3}}).of("x").of("y")
    FillValue(value=3, is_of_field=True)
    """

    value: Any
    is_of_field: bool = False

    def of(self, field: Any) -> FillValue:
        """Return the padding of a field: a key of a dict, a name or a place in a tuple."""
        if not isinstance(self.value, dict):
            return self
        if field not in self.value:
            raise ValueError(
                f"StreamLoader: pad_value={self.value!r} has no value for the field {field!r} of the chunks."
                " Add one"
            )
        return FillValue(self.value[field], True)


def as_array(value: Any) -> npt.NDArray[Any] | None:
    """Return a chunk, or a part of one, as an array if it is an array, a number, or a list of numbers.

    >>> as_array([1, 2]), as_array([1, "b"]), as_array("b")
    (array([1, 2]), None, None)
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, int | float | complex | np.generic) or hasattr(value, "__array__"):
        try:
            return np.asarray(value)
        except Exception as error:  # of a tensor on a device, or of a type that numpy does not have
            raise TypeError(
                f"StreamLoader: numpy makes no array of a chunk of type {type(value).__name__}: {error}."
                " Convert it in open_fn, or pass a collate_fn"
            ) from error
    if not isinstance(value, list) or not (
        not value or isinstance(value[0], int | float | complex | np.number | np.bool_)
    ):
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # a number beside a list
        return None
    return array if array.dtype.kind in _NUMBERS else None


def group_of(dtype: np.dtype[Any]) -> str:
    """Return a name for the types that numpy can stack without changing what values mean."""
    return "number" if dtype.kind in _NUMBERS else dtype.kind.replace("T", "U")


def fields(value: tuple[Any, ...]) -> Iterable[Any]:
    """Return the names of the fields of a tuple, or their places."""
    return getattr(value, "_fields", None) or range(len(value))


def like(value: tuple[Any, ...], parts: list[Any]) -> Any:
    """Return a tuple of the same type with other parts."""
    return value._make(parts) if hasattr(value, "_make") else type(value)(parts)


def each_leaf(f: Callable[[Any, FillValue], Any], value: Any, pad: FillValue) -> Any:
    """Return a structure of dicts and tuples with ``f(leaf, its fill value)`` in place of each leaf."""
    if isinstance(value, dict):
        return {key: each_leaf(f, part, pad.of(key)) for key, part in value.items()}
    if isinstance(value, tuple):
        parts = zip(fields(value), value, strict=True)
        return like(value, [each_leaf(f, part, pad.of(field)) for field, part in parts])
    return f(value, pad)


def form_of(chunk: Any) -> Any:
    """Return a chunk of the same structure, shapes and types that holds no memory of the other one.

    >>> form_of({"x": np.ones((2, 1000)), "name": "a"})["x"].strides
    (0, 0)
    """
    return each_leaf(_form, chunk, FillValue(None))


def _form(leaf: Any, pad: FillValue) -> Any:
    if is_tensor(type(leaf)):
        return leaf.new_empty(()).expand(leaf.shape)
    array = as_array(leaf) if isinstance(leaf, np.ndarray | list) else None  # others may be costly
    return leaf if array is None else np.broadcast_to(np.zeros((), array.dtype), array.shape)


def filled(form: Any, pad: FillValue) -> Any:
    """Return a chunk of padding with the structure, shapes and types of another one.

    Text and other objects become the padding value, unless that is a number meant for all fields: then None.

    >>> filled({"x": np.arange(3), "name": "a"}, FillValue(7))
    {'x': array([7, 7, 7]), 'name': None}
    >>> filled({"x": np.arange(3), "name": "a"}, FillValue({"x": 7, "name": ""}))
    {'x': array([7, 7, 7]), 'name': ''}
    """
    return each_leaf(_filled, form, pad)


def _filled(leaf: Any, pad: FillValue) -> Any:
    if is_tensor(type(leaf)):
        return _full_tensor(leaf, pad.value)
    array = as_array(leaf)
    if array is not None:
        filler = as_filler(pad.value, array.dtype)
        return np.full(array.shape, filler, filler.dtype)
    is_number = isinstance(pad.value, int | float | complex | np.number | np.bool_)
    return None if is_number and not pad.is_of_field else pad.value


def as_filler(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a padding value as an array without axes. Unlike numpy, refuse one that the type cannot hold.

    Types of text become as wide as the value.

    >>> as_filler(float("nan"), np.dtype(np.int64))
    Traceback (most recent call last):
    ValueError: StreamLoader: chunks of int64 cannot hold pad_value=nan. Set one that they can ...
    """
    if dtype.kind in "US" and isinstance(value, _TEXT[dtype.kind]):
        dtype = np.result_type(dtype, np.asarray(value).dtype)
    if not _holds(dtype, value):
        _refuse(dtype, value)
    return np.full((), value, dtype)


def _full_tensor(form: Any, value: Any) -> Any:
    try:
        made = form.new_full(form.shape, value)
    except (RuntimeError, TypeError):
        _refuse(form.dtype, value)
    if not (made.is_floating_point() or made.is_complex() or bool((made == value).all())):
        _refuse(form.dtype, value)
    return made


def _refuse(dtype: Any, value: Any) -> NoReturn:
    raise ValueError(
        f"StreamLoader: chunks of {dtype} cannot hold pad_value={value!r}. Set one that they can hold, such"
        " as 0 for numbers or '' for text, and find padding by batch.mask. A dict has a pad_value for each"
        " field"
    )


def _holds(dtype: np.dtype[Any], value: Any) -> bool:
    """Return whether a type holds a value exactly, or nearly if it is a type of floats.

    >>> [_holds(np.dtype(kind), 0) for kind in ("u1", "f2", "U3", "M8[s]", "O")]
    [True, True, False, False, True]
    """
    if dtype.kind in _TEXT:
        return isinstance(value, _TEXT[dtype.kind])
    given = np.asarray(value)
    if dtype.kind in "mM":
        return given.dtype.kind in (dtype.kind, "O")
    if dtype.kind not in _NUMBERS:
        return True
    return given.dtype.kind in _NUMBERS and not given.ndim and holds(dtype, given)
