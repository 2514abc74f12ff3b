"""The batch of a `StreamLoader`, and how rows become arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..collation.base import Place
from ..collation.casting import holds
from ..collation.leaves import DType, common_dtype, is_tensor, padded, plain_arrays
from .lanes import Row

__all__ = ["STACKED", "Collation", "StreamBatch", "like"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NUMBERS = (int, float, complex, np.number, np.bool_)
STACKED = "biufcmM"  # the kinds of dtypes whose arrays are stacked. Others are listed


class StreamBatch(NamedTuple):
    """One chunk of each of several streams. Row r goes on where row r of the batch before ended.

    Attributes
    ----------
    data : Any
        The chunks side by side: arrays, in the structure of one chunk; or the result of `collate_fn`.
    lane : array of int
        The lane of each row: ``0, 1, 2, …`` unless rows are dropped. Index the state of a recurrent model
        with it.
    stream : array of int
        The place of each row's stream in the streams that the loader was given; -1 for a padding value.
    chunk : array of int
        The number of each chunk in its stream; -1 for a padding value.
    is_first : array of bool
        True where a stream begins. Reset the state of a recurrent model there.
    is_padding : array of bool
        True where a row only fills the batch: it holds the padding value, or a stream that is read again.
    lengths : array of int, or None
        Steps of each chunk, before short ones were filled up; 0 for a padding value. None if chunks have no
        length.
    mask : array of bool
        True where `data` comes from a stream, False in padding: the weights of a loss. Of shape (rows,
        steps), or (rows,) if there are no `lengths`.

    Examples
    --------
    >>> import seqkit as sk
    >>> loader = sk.streams.StreamLoader(["abc", "d"], list, 2, padding="drop_rows")
    >>> [(batch.data, batch.lane.tolist()) for batch in loader]
    [(['a', 'd'], [0, 1]), (['b'], [0]), (['c'], [0])]
    """

    data: Any
    lane: Ints
    stream: Ints
    chunk: Ints
    is_first: Flags
    is_padding: Flags
    lengths: Ints | None
    mask: Flags


@dataclass
class Collation:
    """Makes batches of rows.

    Parameters
    ----------
    collate_fn : callable or None
        Makes the data from a list of chunks. None stacks arrays.
    pad_value : number or None
        Fills rows of padding, and short chunks. None fills rows with 0, and refuses short chunks.
    """

    collate_fn: Callable[[list[Any]], Any] | None
    pad_value: Any

    def batch(self, rows: list[Row], form: Any) -> StreamBatch:
        """Return the batch of some rows. Rows without a stream have the form of a chunk."""
        values = [self._filled(form) if row.stream is None else row.value for row in rows]
        lengths = _lengths(values)  # before a collate function may change the chunks
        if self.collate_fn is None:
            data = self._stacked(values, Place("StreamLoader", batch="chunks"))
        else:
            data = self.collate_fn(values)
        chunk = np.array([row.chunk for row in rows])
        is_padding = np.array([row.is_padding for row in rows])
        known, mask = None, ~is_padding
        if lengths is not None:
            known = np.where(chunk < 0, 0, lengths)
            mask = (np.arange(max(lengths)) < known[:, None]) & mask[:, None]
        return StreamBatch(
            data,
            np.array([row.lane for row in rows]),
            np.array([-1 if row.stream is None else row.stream.id for row in rows]),
            chunk,
            chunk == 0,
            is_padding,
            known,
            mask,
        )

    def _stacked(self, values: list[Any], place: Place) -> Any:
        first = values[0]
        if isinstance(first, dict):
            if any(not isinstance(value, dict) or value.keys() != first.keys() for value in values):
                raise ValueError("StreamLoader: chunks of one batch are dicts with different keys")
            return {key: self._stacked([value[key] for value in values], place.item(key)) for key in first}
        if isinstance(first, tuple):
            if any(not isinstance(value, tuple) or len(value) != len(first) for value in values):
                raise ValueError("StreamLoader: chunks of one batch are tuples of different lengths")
            columns = enumerate(zip(*values, strict=True))
            return like(first, [self._stacked(list(column), place.item(k)) for k, column in columns])
        arrays: list[Any] = [as_array(value) for value in values]
        kinds = {None if array is None else array.dtype.kind in "mM" and array.dtype.kind for array in arrays}
        if None in kinds or len(kinds) > 1:
            return values
        # An array would lose names of columns and masks, so they are refused. Padding has no names.
        plain_arrays([value for value in values if type(value) is not np.ndarray], place)
        dtype = common_dtype([array for array in arrays if array.size] or arrays, place)
        return self._as_one(arrays, dtype)

    def _as_one(self, arrays: list[Array], dtype: DType) -> Array:
        shapes = sorted({array.shape for array in arrays})
        if len(shapes) == 1:
            return np.stack(arrays, dtype=dtype, casting="unsafe")
        if len({shape[1:] for shape in shapes}) > 1 or () in shapes:
            raise ValueError(
                f"StreamLoader: chunks of one batch have shapes {shapes}. Only the first axis may differ"
            )
        if self.pad_value is None:
            raise ValueError(
                f"StreamLoader: chunks of one batch have {shapes[0][0]} to {shapes[-1][0]} steps. Set"
                " pad_value to fill up the short ones, or pass a collate_fn"
            )
        return padded(arrays, shapes[-1], dtype, self._filler(dtype))

    # ---------------------------------------------------------------- padding

    def _filled(self, form: Any) -> Any:
        """Return a chunk of padding. Text and other objects are None.

        >>> Collation(None, 7)._filled({"x": np.arange(3), "name": "a"})
        {'x': array([7, 7, 7]), 'name': None}
        """
        if isinstance(form, dict):
            return {key: self._filled(part) for key, part in form.items()}
        if isinstance(form, tuple):
            return like(form, [self._filled(part) for part in form])
        if is_tensor(type(form)):
            made = form.new_full(form.shape, self.pad_value or 0)
            self._check(made.is_floating_point() or bool((made == (self.pad_value or 0)).all()), form.dtype)
            return made
        array = as_array(form)
        return None if array is None else np.full(array.shape, self._filler(array.dtype), array.dtype)

    def _filler(self, dtype: DType) -> Array:
        """Return the padding value as an array without axes. Unlike numpy, refuse one that it cannot hold."""
        value = np.asarray(0 if self.pad_value is None else self.pad_value)
        is_zero_date = dtype.kind in "mM" and self.pad_value is None
        self._check(is_zero_date or holds(dtype, value), dtype)
        return value.astype(dtype)

    def _check(self, is_held: bool, dtype: Any) -> None:
        if not is_held:
            raise ValueError(
                f"StreamLoader: chunks of {dtype} cannot hold pad_value={self.pad_value!r}. Set one that they"
                " can hold, such as 0, and find padding by batch.mask"
            )


def as_array(value: Any) -> Array | None:
    """Return a chunk, or a part of one, as an array if it is an array, a number, or a list of numbers.

    >>> as_array([1, 2]), as_array([1, "b"]), as_array("b")
    (array([1, 2]), None, None)
    """
    is_list = isinstance(value, list) and (not value or isinstance(value[0], NUMBERS))
    if not is_list and not isinstance(value, NUMBERS) and not hasattr(value, "__array__"):
        return None
    try:
        array = np.asarray(value)
    except Exception as error:  # of a list of several kinds, a tensor on a device, or a type unknown to numpy
        if is_list:
            return None
        raise TypeError(
            f"StreamLoader: numpy makes no array of a chunk of type {type(value).__name__}: {error}. Convert"
            " it in open_fn, or pass a collate_fn"
        ) from error
    return array if array.dtype.kind in STACKED else None


def like(value: tuple[Any, ...], parts: list[Any]) -> Any:
    """Return a tuple of the same type with other parts."""
    return value._make(parts) if hasattr(value, "_make") else type(value)(parts)


def _lengths(chunks: list[Any]) -> list[int] | None:
    """Return the lengths of the first array of each chunk that has one, or None."""
    lengths = [next(_lengths_in(chunk), None) for chunk in chunks]
    return None if None in lengths else cast(list[int], lengths)


def _lengths_in(value: Any) -> Iterator[int]:
    if isinstance(value, dict | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _lengths_in(part)
    elif isinstance(shape := getattr(value, "shape", None), tuple):
        yield from shape[:1]
    elif isinstance(value, list) and as_array(value) is not None:
        yield len(value)
