"""The batch of a `StreamLoader`, and how rows become arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..casting import holds
from .lanes import Row
from .memory import Memory

__all__ = ["Collation", "StreamBatch", "Unequal"]

Unequal = Literal["pad", "refuse"]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


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
        length, or with `collate_fn`.
    steps : int or None
        Steps of the longest chunk.
    time_first : bool
        Whether the axis of time comes before that of rows.

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
    steps: int | None
    time_first: bool

    @property
    def mask(self) -> Flags:
        """True where `data` comes from a stream, False in padding: the weights of a loss.

        Of shape (rows, steps), or (steps, rows) with `time_first`; (rows,) if there are no `lengths`.
        """
        is_real = ~self.is_padding
        if self.lengths is None or self.steps is None:
            return is_real
        mask = (np.arange(self.steps) < self.lengths[:, None]) & is_real[:, None]
        return mask.T if self.time_first else mask


class Collation:
    """Makes the batches of one epoch.

    Parameters
    ----------
    collate_fn : callable or None
        Makes the data from a list of chunks. None stacks arrays.
    pad_value : Any
        Fills rows of padding, and short chunks.
    unequal : "pad" or "refuse"
        Whether chunks of one batch may differ in length.
    time_first : bool
        Whether the axis of time comes before that of rows.
    """

    def __init__(
        self,
        collate_fn: Callable[[list[Any]], Any] | None,
        pad_value: Any,
        unequal: Unequal,
        time_first: bool,
    ) -> None:
        self._collate_fn = collate_fn
        self._pad_value = pad_value
        self._unequal = unequal
        self._time_first = time_first
        self._memory = Memory()

    def batch(self, rows: list[Row], template: Any) -> StreamBatch:
        """Return the batch of some rows. Rows of the padding value have the form of
        the chunk `template`."""
        values = [filled(template, self._pad_value) if row.number < 0 else row.value for row in rows]
        data = (self._collate_fn or self._stacked)(values)
        lengths = None if self._collate_fn else _lengths(values)
        chunk = np.array([row.chunk for row in rows])
        return StreamBatch(
            data,
            np.array([row.lane for row in rows]),
            np.array([row.id for row in rows]),
            chunk,
            chunk == 0,
            np.array([row.is_padding for row in rows]),
            None if lengths is None else np.where(chunk < 0, 0, lengths),
            None if lengths is None else max(lengths),
            self._time_first,
        )

    def _stacked(self, values: list[Any]) -> Any:
        first = values[0]
        if isinstance(first, dict):
            return {key: self._stacked([value[key] for value in values]) for key in first}
        if isinstance(first, tuple):
            if any(len(value) != len(first) for value in values):
                raise ValueError("StreamLoader: chunks of one batch are tuples of different lengths")
            fields = [self._stacked(list(field)) for field in zip(*values, strict=True)]
            return type(first)(*fields) if hasattr(first, "_fields") else type(first)(fields)
        if not _is_array(first):
            return values
        return self._stacked_arrays([np.asarray(value) for value in values])

    def _stacked_arrays(self, arrays: list[Any]) -> Any:
        axis = int(self._time_first and arrays[0].ndim > 0)
        shape = arrays[0].shape
        if all(array.shape == shape for array in arrays):
            sizes = (*shape[:axis], len(arrays), *shape[axis:])
            return np.stack(arrays, axis, out=self._memory.empty(sizes, np.result_type(*arrays)))
        shapes = sorted({array.shape for array in arrays})
        if len({shape[1:] for shape in shapes}) > 1 or () in shapes:
            raise ValueError(
                f"StreamLoader: chunks of one batch have shapes {shapes}. Only the first axis may differ"
            )
        if self._unequal == "refuse":
            raise ValueError(
                f"StreamLoader: chunks of one batch have {shapes[0][0]} to {shapes[-1][0]} steps. Set"
                " pad_value and"
                " unequal='pad' to fill up the short ones, or pass a collate_fn"
            )
        steps, rest = shapes[-1][0], shapes[0][1:]
        dtype = np.result_type(*arrays)
        together = full((len(arrays), steps, *rest), self._pad_value, dtype)
        for row, array in zip(together, arrays, strict=True):
            row[: len(array)] = array
        return np.ascontiguousarray(together.swapaxes(0, 1)) if axis else together


def _is_array(value: Any) -> bool:
    """Return whether a chunk, or a part of one, becomes an array: arrays, numbers, and lists of numbers."""
    if isinstance(value, list):
        return not value or isinstance(value[0], int | float | complex | np.number | np.bool_)
    return isinstance(value, int | float | complex | np.generic) or hasattr(value, "__array__")


def _lengths(chunks: list[Any]) -> list[int] | None:
    """Return the lengths of the first array of each chunk that has one, or None."""
    lengths = [next(_lengths_in(chunk), None) for chunk in chunks]
    return None if None in lengths else cast(list[int], lengths)


def _lengths_in(value: Any) -> Iterator[int]:
    if isinstance(value, dict | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _lengths_in(part)
    elif _is_array(value) and np.ndim(value):
        yield len(value)


def filled(template: Any, value: Any) -> Any:
    """Return a chunk like another one, in which arrays and numbers are `value`, and everything else is None.

    >>> filled({"x": np.arange(3), "name": "a"}, 7)
    {'x': array([7, 7, 7]), 'name': None}
    """
    if isinstance(template, dict):
        return {key: filled(part, value) for key, part in template.items()}
    if isinstance(template, tuple):
        fields = [filled(part, value) for part in template]
        return type(template)(*fields) if hasattr(template, "_fields") else type(template)(fields)
    if not _is_array(template):
        return None
    array = np.asarray(template)
    return full(array.shape, value, array.dtype)


def full(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array full of a padding value. Unlike numpy, refuse a value that the type cannot hold.

    >>> full((2,), float("nan"), np.dtype(np.int64))
    Traceback (most recent call last):
    ValueError: StreamLoader: chunks of int64 cannot hold pad_value=nan. Set one that they can ...
    """
    if not holds(dtype, value):
        raise ValueError(
            f"StreamLoader: chunks of {dtype} cannot hold pad_value={value!r}. Set one that they can hold,"
            " such as 0, and tell padding by batch.mask; or let open_fn return floats"
        )
    return np.full(shape, value, dtype)
