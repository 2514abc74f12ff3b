"""The batch of a `StreamLoader`, and how rows become arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..collation.base import Place
from ..collation.leaves import common_dtype, padded, plain_arrays
from ..core.chaining import facts_as_html
from ..core.lazy import load
from .lanes import Row
from .memory import BatchMemory
from .padding import FillValue, as_array, as_filler, fields, filled, group_of, like

__all__ = ["Collation", "StreamBatch", "Unequal"]

Unequal = Literal["pad", "refuse"]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_MOST_ROWS = 16  # shown of each field of a batch


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
    steps : int or None
        Steps of the longest chunk.
    time_first : bool
        Whether the axis of time comes before that of rows.
    is_last : array of bool, or None
        True where a stream ends. None if the loader was not given `lengths`.

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
    is_last: Flags | None = None

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

    def _repr_html_(self) -> str:
        return facts_as_html(self)

    def __repr__(self) -> str:
        title, facts = self._facts()
        return f"{title}({', '.join(f'{name}: {text}' for name, text in facts)})"

    def _facts(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the form of the data, and the streams and chunks of the rows."""
        found = [
            ("data", load("structure of a value")(self.data)),
            ("stream", _shown(self.stream)),
            ("chunk", _shown(self.chunk)),
        ]
        if self.lengths is not None:
            found.append(("lengths", _shown(self.lengths)))
        flags = {"is_first": self.is_first, "is_last": self.is_last, "is_padding": self.is_padding}
        rows = {name: [r for r, holds in enumerate(f) if holds] for name, f in flags.items() if f is not None}
        found += [(name, f"rows {_shown(true)}") for name, true in rows.items() if true]
        return type(self).__name__, found


def _shown(numbers: Any) -> str:
    shown = ", ".join(str(int(n)) for n in numbers[:_MOST_ROWS])
    return f"[{shown}, … {len(numbers)} in all]" if len(numbers) > _MOST_ROWS else f"[{shown}]"


@dataclass
class Collation:
    """Makes the batches of one epoch.

    Parameters
    ----------
    collate_fn : callable or None
        Makes the data from a list of chunks. None stacks arrays.
    pad_value : Any
        Fills rows of padding, and short chunks. A dict has a value for each field.
    unequal : "pad" or "refuse"
        Whether chunks of one batch may differ in length.
    time_first : bool
        Whether the axis of time comes before that of rows.
    chunks : list of int or None
        How many chunks the stream with each id has, if that is known.
    """

    collate_fn: Callable[[list[Any]], Any] | None
    pad_value: Any
    unequal: Unequal
    time_first: bool
    chunks: list[int] | None = None

    def __post_init__(self) -> None:
        self._pad = FillValue(self.pad_value)
        self._memory = BatchMemory()

    def batch(self, rows: list[Row], form: Any) -> StreamBatch:
        """Return the batch of some rows. Rows of the padding value have a form that `form_of` returned."""
        values = [filled(form, self._pad) if row.number < 0 else row.value for row in rows]
        lengths = _lengths(values)  # before a collate function may change the chunks
        if self.collate_fn is None:
            data = self._stacked(values, self._pad, Place("StreamLoader", batch="chunks"))
        else:
            data = self.collate_fn(values)
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
            self.time_first,
            None if self.chunks is None else np.array([row.chunk == self._last(row.id) for row in rows]),
        )

    def _last(self, stream: int) -> int | None:
        """Return the number of the last chunk of a stream; None for a row of the padding value."""
        assert self.chunks is not None
        return None if stream < 0 else self.chunks[stream] - 1

    def _stacked(self, values: list[Any], pad: FillValue, place: Place) -> Any:
        first = values[0]
        if isinstance(first, dict):
            if any(not isinstance(value, dict) or value.keys() != first.keys() for value in values):
                raise ValueError("StreamLoader: chunks of one batch are dicts with different keys")
            return {
                key: self._stacked([value[key] for value in values], pad.of(key), place.item(key))
                for key in first
            }
        if isinstance(first, tuple):
            if any(not isinstance(value, tuple) or len(value) != len(first) for value in values):
                raise ValueError("StreamLoader: chunks of one batch are tuples of different lengths")
            parts = zip(fields(first), zip(*values, strict=True), strict=True)
            return like(
                first,
                [self._stacked(list(part), pad.of(field), place.item(field)) for field, part in parts],
            )
        arrays: list[Any] = [as_array(value) for value in values]
        groups = {"none" if array is None else group_of(array.dtype) for array in arrays}
        if "none" in groups or len(groups - {"O"}) > 1:
            return values  # numpy would turn numbers beside text into text
        typed = [array for array in arrays if array.size] or arrays
        if groups != {"number"}:
            return self._stacked_arrays(arrays, np.result_type(*typed), pad)
        # An array would lose names of columns, units and masks, so they are refused. Padding has no names.
        plain_arrays([value for value in values if type(value) is not np.ndarray], place)
        return self._stacked_arrays(arrays, common_dtype(typed, place), pad)

    def _stacked_arrays(self, arrays: list[Any], dtype: np.dtype[Any], pad: FillValue) -> Any:
        axis = int(self.time_first and arrays[0].ndim > 0)
        shape = arrays[0].shape
        if all(array.shape == shape for array in arrays):
            sizes = (*shape[:axis], len(arrays), *shape[axis:])
            return np.stack(arrays, axis, out=self._memory.empty(sizes, dtype))
        shapes = sorted({array.shape for array in arrays})
        if len({shape[1:] for shape in shapes}) > 1 or () in shapes:
            raise ValueError(
                f"StreamLoader: chunks of one batch have shapes {shapes}. Only the first axis may differ"
            )
        if self.unequal == "refuse":
            raise ValueError(
                f"StreamLoader: chunks of one batch have {shapes[0][0]} to {shapes[-1][0]} steps. Set"
                " pad_value and"
                " unequal='pad' to fill up the short ones, or pass a collate_fn"
            )
        filler = as_filler(pad.value, dtype)
        together = padded(arrays, shapes[-1], filler.dtype, filler)
        return np.ascontiguousarray(together.swapaxes(0, 1)) if axis else together


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
