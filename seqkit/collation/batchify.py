"""Functions that make a batch of samples of one part: `Stack`, `Pad`, `Append`, `List`.

Those of several parts are put together of them in `composed`. Each is a ``collate_fn``, can be pickled, and
writes its arrays where `seqkit.empty` says: in a process worker, into the slot of the current item.

A function may also have a method ``collate_at(samples, place)``. It returns the same as a call, and its error
messages name the place in the samples.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..checks import as_flag, optional_int, positive_int
from .leaves import (
    Array,
    DType,
    Place,
    as_arrays,
    check_not_empty,
    common_dtype,
    copied,
    holds_objects,
    inside,
    is_array_of_samples,
    padded,
    plain_arrays,
    stack,
)

__all__ = ["Append", "Batchify", "List", "Pad", "Stack", "shown"]


class Batchify:
    """What all functions here are: callable with a batch, or for a part of the samples of one."""

    _given: Mapping[str, Any] = {}

    def __call__(self, batch: Iterable[Any]) -> Any:
        """Return one batch of samples."""
        return self.collate_at(batch if isinstance(batch, list) else list(batch), Place(""))

    def collate_at(self, samples: Sequence[Any], place: Place) -> Any:
        """Return one batch of what lies at a place in samples, as a part of what another function makes."""
        place = place.by(type(self).__name__)
        check_not_empty(samples, place)
        return self._collate(samples, place)

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(shown(type(self), dict(self._given)))})"


# -------------------------------------------------------------------- leaves


class Stack(Batchify):
    """Stack arrays, numbers or nested lists of one shape.

    Parameters
    ----------
    dtype : dtype-like, optional
        Dtype of the batch; values are converted as by ``numpy.ndarray.astype``. None (the default) is the
        one that numpy promotes all samples to, whatever their order.

    Raises
    ------
    TypeError
        If `dtype` is none of numbers, bools, dates or records of them; for samples that are no arrays of
        these, and for dtypes without a common one.
    ValueError
        For an empty batch, different shapes, and numbers that do not fit.

    Notes
    -----
    One copy of the data, into memory of `seqkit.empty`. Masked arrays keep their mask; tensors become
    arrays. After ``Stack`` of GluonNLP.

    Examples
    --------
    >>> Stack()([[1, 2], [3.5, 4]])
    array([[1. , 2. ],
           [3.5, 4. ]])
    >>> Stack("float32")([1, 2]).dtype
    dtype('float32')
    """

    takes_arrays = True  # see `Batch`

    def __init__(self, dtype: npt.DTypeLike | None = None) -> None:
        self._given = {"dtype": dtype}
        self.dtype = _as_dtype(dtype, "Stack")

    def __call__(self, batch: Iterable[Any]) -> Any:
        return copied(batch, self.dtype) if is_array_of_samples(batch) else super().__call__(batch)

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        return stack(as_arrays(samples, place), place, self.dtype)


class Pad(Batchify):
    """Stack arrays or nested lists of different lengths, the shorter ones filled up.

    Parameters
    ----------
    axis : int or "all"
        Axis of a sample along which lengths may differ, -1 being its last; ``"all"`` for every axis. 0 by
        default.
    pad_val : number
        What to fill with, 0 by default. It takes the dtype of the samples, never the other way round.
    ret_length : bool
        Return the lengths of the samples too? An int64 array of shape ``(n,)``, or ``(n, ndim)`` with
        ``axis="all"``, ndim being the number of axes of a sample. False by default.
    dtype : dtype-like, optional
        Dtype of the batch; values are converted as by ``numpy.ndarray.astype``. None (the default) is the
        one that numpy promotes all samples to.
    round_to : int, optional
        Fill up to a multiple of this, at least 1.
    to_length : int or sequence of int, optional
        Fill up to this length, at least 1; with ``axis="all"`` one for each axis, or one for all of them.
        None (the default) is the length of the longest sample in the batch.
    mask : bool
        Return too where the data lie? A bool array, True for data: of shape ``(n, length)``, or with
        ``axis="all"`` of the shape of the batch. False by default.

    Returns
    -------
    numpy.ndarray or tuple
        The batch; or ``(batch, lengths)``, ``(batch, mask)``, ``(batch, lengths, mask)``, as asked for.

    Raises
    ------
    TypeError
        For arguments of a wrong type; for samples that are no arrays, or are masked.
    ValueError
        For arguments out of range, `round_to` beside `to_length`, and a `pad_val` that the dtype cannot
        hold; for an empty batch, numbers of axes or lengths that differ where they may not, and a sample
        longer than `to_length`.

    Notes
    -----
    One copy of the data, into memory of `seqkit.empty`, and about 2 µs per sample. Samples may be empty: an
    empty list has the dtype and the other lengths of the rest of the batch. After ``Pad`` of
    GluonNLP, whose lengths are int32.

    Examples
    --------
    >>> Pad()([[1.5, 2], [3]])
    array([[1.5, 2. ],
           [3. , 0. ]])
    >>> Pad(pad_val=-1, ret_length=True, to_length=3)([[1, 2], []])
    (array([[ 1,  2, -1],
           [-1, -1, -1]]), array([2, 0]))
    >>> Pad(axis="all")([np.ones((1, 2)), np.ones((2, 1))])
    array([[[1., 1.],
            [0., 0.]],
    <BLANKLINE>
           [[1., 0.],
            [1., 0.]]])
    """

    def __init__(
        self,
        axis: int | Literal["all"] = 0,
        pad_val: Any = 0,
        ret_length: bool = False,
        dtype: npt.DTypeLike | None = None,
        round_to: int | None = None,
        *,
        to_length: int | Sequence[int] | None = None,
        mask: bool = False,
    ) -> None:
        self._given = {
            "axis": axis,
            "pad_val": pad_val,
            "ret_length": ret_length,
            "dtype": dtype,
            "round_to": round_to,
            "to_length": to_length,
            "mask": mask,
        }
        every = isinstance(axis, str) and axis == "all"
        self.axis = "all" if every else _as_axis(axis, "Pad: axis", " or 'all'")
        self.pad_val = _as_number(pad_val, "Pad: pad_val")
        self.ret_length = as_flag(ret_length, "Pad: ret_length")
        self.dtype = _as_dtype(dtype, "Pad")
        self.round_to = optional_int(round_to, "Pad: round_to")
        self.to_length = None if to_length is None else self._as_lengths(to_length)
        self.mask = as_flag(mask, "Pad: mask")
        if self.round_to is not None and self.to_length is not None:
            raise ValueError("Pad: to_length is a length already; leave out it or round_to")
        if self.dtype is not None:
            self._filler(self.dtype, "an array")

    def _as_lengths(self, to_length: int | Sequence[int]) -> int | tuple[int, ...]:
        if self.axis == "all" and isinstance(to_length, list | tuple):
            return tuple(positive_int(length, "Pad: each to_length") for length in to_length)
        return positive_int(to_length, "Pad: to_length")

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        arrays = _alike(samples, plain_arrays(samples, place))
        _check_dimensions(arrays, place)
        axes = self._axes(arrays[0].ndim, place)
        _check_other_axes(arrays, axes, place)
        dtype = common_dtype(arrays, place, self.dtype)
        filler = self._filler(dtype, place.at("..."))
        lengths = np.array([[array.shape[axis] for axis in axes] for array in arrays])
        shape = list(arrays[0].shape)
        for axis, length in zip(axes, self._padded_lengths(lengths, axes, place), strict=True):
            shape[axis] = length
        parts = [padded(arrays, shape, dtype, filler)]
        if self.ret_length:
            parts.append(copied(lengths if self.axis == "all" else lengths[:, 0]))
        if self.mask:
            parts.append(inside(lengths, [shape[axis] for axis in axes]))
        return tuple(parts) if len(parts) > 1 else parts[0]

    def _filler(self, dtype: DType, what: str) -> Array:
        """Return what to fill with, as that dtype."""
        if not _holds(dtype, self.pad_val):
            raise ValueError(
                f"Pad: {what} of dtype {dtype} cannot hold pad_val={self.pad_val}; choose another one, or"
                " another dtype"
            )
        return self.pad_val.astype(dtype)

    def _axes(self, dimensions: int, place: Place) -> list[int]:
        """Return the axes to pad along."""
        if isinstance(self.axis, str):
            return list(range(dimensions))
        if not -dimensions <= self.axis < dimensions:
            raise ValueError(
                f"{place.who}: {place.at(0)} has {_counted(dimensions)}, so there is no axis {self.axis}"
            )
        return [self.axis % dimensions]

    def _padded_lengths(self, lengths: Array, axes: list[int], place: Place) -> list[int]:
        """Return how long the batch is to be along each of some axes."""
        if self.to_length is None:
            multiple = self.round_to or 1
            return [-(-int(longest) // multiple) * multiple for longest in lengths.max(axis=0)]
        wanted = self.to_length if isinstance(self.to_length, tuple) else (self.to_length,) * len(axes)
        if len(wanted) != len(axes):
            raise ValueError(
                f"{place.who}: to_length has {len(wanted)} lengths, {place.at(0)} has {_counted(len(axes))}"
            )
        too_long = np.argwhere(lengths > wanted)
        if len(too_long):
            i, k = too_long[0]
            raise ValueError(
                f"{place.who}: {place.at(i)} has length {lengths[i, k]} along axis {axes[k]}, to_length is"
                f" {wanted[k]}; cut it (ClipSequence), or raise to_length"
            )
        return list(wanted)


class Append(Batchify):
    """Make a list of arrays, one per sample, whatever their shapes.

    Parameters
    ----------
    expand : bool
        Give each array an axis of length 1 for the batch? True by default.
    batch_axis : int
        Where that axis comes to lie, -1 being last; 0 by default.

    Raises
    ------
    TypeError
        If `batch_axis` is no int; for samples that are no arrays of numbers, or are masked.
    ValueError
        If `expand` is no bool; for an empty batch, and an axis that there is no place for.

    Notes
    -----
    One copy of the data, into memory of `seqkit.empty`. Each array keeps its own dtype. After ``Append``
    of Gluon.

    Examples
    --------
    >>> Append()([[1, 2], [3.5]])
    [array([[1, 2]]), array([[3.5]])]
    >>> Append(expand=False)([[1, 2], [3.5]])
    [array([1, 2]), array([3.5])]
    """

    def __init__(self, expand: bool = True, batch_axis: int = 0) -> None:
        self._given = {"expand": expand, "batch_axis": batch_axis}
        self.expand = as_flag(expand, "Append: expand")
        self.batch_axis = _as_axis(batch_axis, "Append: batch_axis")

    def _collate(self, samples: Sequence[Any], place: Place) -> list[Array]:
        arrays = plain_arrays(samples, place)
        return [copied(self._expanded(array, i, place)) for i, array in enumerate(arrays)]

    def _expanded(self, array: Array, i: int, place: Place) -> Array:
        if not self.expand:
            return array
        if not -array.ndim - 1 <= self.batch_axis <= array.ndim:
            raise ValueError(
                f"{place.who}: {place.at(i)} has {_counted(array.ndim)}, so there is no place for"
                f" batch_axis={self.batch_axis}"
            )
        return np.expand_dims(array, self.batch_axis)


class List(Batchify):
    """Make a list of the samples as they are.

    Raises
    ------
    ValueError
        For an empty batch.

    Notes
    -----
    No copy. After ``List`` of GluonNLP, ``AsList`` of Gluon.

    Examples
    --------
    >>> List()(["a", None])
    ['a', None]
    """

    def _collate(self, samples: Sequence[Any], place: Place) -> list[Any]:
        return list(samples)


# -------------------------------------------------------------------- arguments


def _as_dtype(value: npt.DTypeLike | None, who: str) -> DType | None:
    try:
        dtype = None if value is None else np.dtype(value)
    except TypeError:
        dtype = np.dtype(object)
    if dtype is not None and holds_objects(dtype):
        raise TypeError(
            f"{who}: dtype must be one of numbers, bools, dates or records of them, got {value!r}"
        )
    return dtype


def _as_axis(value: Any, who: str, other: str = "") -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(f"{who} must be an int{other}, got {value!r}")
    return int(value)


def _as_number(value: Any, who: str) -> Array:
    """Return a number as an array without axes."""
    number = np.asarray(value)
    if number.ndim or holds_objects(number.dtype):
        raise TypeError(f"{who} must be a number, got {value!r}")
    return number


def _holds(dtype: DType, number: Array) -> bool:
    """Can arrays of a dtype hold a number, rounded to their precision but not changed otherwise?

    >>> _holds(np.dtype("f4"), np.array(0.1)), _holds(np.dtype("u1"), np.array(-1))
    (True, False)
    """
    if np.can_cast(number.dtype, dtype):
        return True
    with np.errstate(all="ignore"):
        if dtype.kind in "fc":
            of_its_kind = np.can_cast(number.dtype, dtype, "same_kind")
            return of_its_kind and bool(np.isfinite(number.astype(dtype)) or not np.isfinite(number))
        numeric = dtype.kind in "biu" and number.dtype.kind in "biuf"
        return numeric and bool(number.astype(dtype) == number)


# -------------------------------------------------------------------- arrays


def _alike(samples: Sequence[Any], arrays: list[Array]) -> list[Array]:
    """Return the arrays, those of lists without elements with the dtype of the others.

    Such a list does not say what its elements would be; a flat one not even how many axes they would have.
    """
    bare = [
        isinstance(sample, list | tuple) and not array.size
        for sample, array in zip(samples, arrays, strict=True)
    ]
    if all(bare):
        return arrays
    like = np.atleast_1d(arrays[bare.index(False)])[:0]
    return [
        (like if array.ndim == 1 else np.empty(array.shape, like.dtype)) if is_bare else array
        for array, is_bare in zip(arrays, bare, strict=True)
    ]


def _check_dimensions(arrays: Sequence[Array], place: Place) -> None:
    """Refuse numbers, and samples of different numbers of axes."""
    for i, array in enumerate(arrays):
        if not array.ndim:
            raise ValueError(f"{place.who}: {place.at(i)} is a single number; Stack makes an array of such")
        if array.ndim != arrays[0].ndim:
            raise ValueError(
                f"{place.who}: {place.at(i)} has {_counted(array.ndim)}, {place.at(0)} has {arrays[0].ndim};"
                " the samples of a batch must have as many, reshape them or pass another collate_fn"
            )


def _check_other_axes(arrays: Sequence[Array], axes: Sequence[int], place: Place) -> None:
    """Refuse samples of different lengths along an axis that is not padded."""
    first = arrays[0].shape
    others = [axis for axis in range(len(first)) if axis not in axes]
    for i, array in enumerate(arrays if others else ()):
        if any(array.shape[axis] != first[axis] for axis in others):
            raise ValueError(
                f"{place.who}: {place.at(i)} has shape {array.shape}, {place.at(0)} has {first}; they may"
                f" differ along axis {axes[0]} only: make them equal, or pad with axis='all'"
            )


def _counted(dimensions: int) -> str:
    return f"{dimensions} dimension{'s' * (dimensions != 1)}"


def shown(function: Callable[..., Any], given: dict[str, Any]) -> list[str]:
    """Return those keyword arguments of a call, as text, that are not the defaults.

    >>> shown(sorted, {"key": abs, "reverse": False})
    ['key=abs']
    """
    parameters = inspect.signature(function).parameters
    options = []
    for name, value in given.items():
        default = parameters[name].default
        if default is inspect.Parameter.empty or (type(value) is type(default) and value == default):
            continue
        options.append(f"{name}={_short(value)}")
    return options


def _short(value: Any) -> str:
    if callable(value):
        return getattr(value, "__name__", None) or f"<{type(value).__name__}>"
    text = reprlib.repr(value)
    return f"<{type(value).__name__}>" if text.startswith("<") else text
