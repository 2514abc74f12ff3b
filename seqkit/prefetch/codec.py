"""A value to bytes in a block of memory, and back: pickle protocol 5 with its buffers beside it.

The layout of a frame in a block::

    | what the worker wrote itself | further buffers … | table: count, (offset, size)… | pickle |
                                     64-byte aligned     ^ head                                ^ end

One array, or a tuple or list of arrays, as most batches are, needs no pickle. An outline of dtypes, shapes
and offsets takes the place of table and pickle: just after megabytes were copied, when nothing else is in the
processor's caches, that takes half the time (`python -m tests.benchmarks codec`). A number, which is to cost
next to nothing, is its own outline.

Guarantees
----------
- a buffer that already lies in the block is not copied, only its place is recorded;
- `decode` gives arrays over the block, or over a copy of it, with the same code;
- nothing is written before the whole frame is known to fit.

Relies on
---------
- the block staying as it is for as long as decoded arrays over it live (the slots' leases).

Units: offsets and sizes in bytes from the start of the block.
"""

from __future__ import annotations

import marshal
import pickle
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import pickling
from .pickling import dumps_by_value, dumps_for_workers

__all__ = [
    "ALIGNMENT",
    "Block",
    "Frame",
    "address",
    "aligned",
    "decode",
    "dumps_by_value",
    "dumps_plain",
    "encode",
    "encode_shared",
]

Block = npt.NDArray[np.uint8]

ALIGNMENT = 64
_COUNT = struct.Struct("<q")
_OUTLINE = _COUNT.pack(-1)  # in the place of a count
_NUMBERS = frozenset({int, float, bool, type(None)})
# A buffer below this travels inside the pickle: copying it twice costs less than tracking it once.
INLINE_BYTES = 4096


def aligned(offset: int) -> int:
    """Return the next offset that is a multiple of the alignment.

    >>> aligned(65)
    128
    """
    return -(-offset // ALIGNMENT) * ALIGNMENT


def address(block: npt.NDArray[Any]) -> int:
    """Return where in memory an array begins."""
    return int(block.__array_interface__["data"][0])


@dataclass(slots=True)
class Frame:
    """An encoded value: what to write where.

    Attributes
    ----------
    head, end : int
        Where the tail begins and ends.
    moved : list of (offset, memoryview)
        Buffers to be copied into the block.
    tail : bytes
        Table and pickle, or an outline.
    placed : int
        Number of buffers that travel beside the tail, copied or already in place.
    """

    head: int
    end: int
    moved: list[tuple[int, memoryview]]
    tail: bytes
    placed: int

    def write(self, block: Block, tail: bool = True) -> None:
        """Write the frame into the block it was encoded for, unless the tail travels another way."""
        for offset, buffer in self.moved:
            block[offset : offset + buffer.nbytes] = np.frombuffer(buffer, np.uint8)
        if tail:
            block[self.head : self.end] = np.frombuffer(self.tail, np.uint8)

    def stream(self, block: Block | None) -> Iterator[memoryview]:
        """Yield the same bytes in order, for a block that is too small or does not exist.

        `block` is the one that buffers "already in place" lie in.
        """
        position = self.moved[0][0] if self.moved else self.head
        if position and block is not None:
            yield block[:position].data
        for offset, buffer in self.moved:
            yield memoryview(bytes(offset - position))
            yield buffer
            position = offset + buffer.nbytes
        yield memoryview(bytes(self.head - position))
        yield memoryview(self.tail)


Dumps = Callable[..., bytes]


def encode(value: Any, block: Block | None, used: int = 0, dumps: Dumps | None = None) -> Frame:
    """Encode a value for a block whose first `used` bytes are taken.

    Parameters
    ----------
    value : Any
    block : uint8 array or None
        None where nothing can be in place already.
    used : int
        First free offset.
    dumps : callable
        `dumps_plain` (the default) or `dumps_by_value`.

    Raises
    ------
    Exception
        Whatever pickling the value raises.
    """
    start = 0 if block is None else address(block)
    if (outlined := _outlined(value, start, used)) is not None:
        return outlined
    stop = start + used
    moved: list[tuple[int, memoryview]] = []
    spans: list[int] = []
    free = aligned(used)

    def place(buffer: pickle.PickleBuffer) -> bool:
        nonlocal free
        raw = buffer.raw()
        if raw.nbytes < INLINE_BYTES:
            return True
        at = address(np.frombuffer(raw, np.uint8))
        if start <= at and at + raw.nbytes <= stop:
            spans.extend((at - start, raw.nbytes))
        else:
            spans.extend((free, raw.nbytes))
            moved.append((free, raw))
            free = aligned(free + raw.nbytes)
        return False

    pickled = (dumps or dumps_plain)(value, protocol=5, buffer_callback=place)
    tail = struct.pack(f"<{len(spans) + 1}q", len(spans) // 2, *spans) + pickled
    return Frame(free, free + len(tail), moved, tail, len(spans) // 2)


def _outlined(value: Any, start: int, used: int) -> Frame | None:
    """Return the frame of a job's only outcome, if that is a number or made of arrays; else None."""
    # In one go: every function more would be one more that is in no cache.
    if type(value) is not tuple or len(value) != 2 or type(value[0]) is not list or len(value[0]) != 1:
        return None
    (item,), failures = value
    if type(failures) is not dict or failures:
        return None
    kind = type(item)
    free, placed = aligned(used), 0
    moved: list[tuple[int, memoryview]] = []
    if kind in _NUMBERS:
        tail = _OUTLINE + marshal.dumps(item)
        return Frame(free, free + len(tail), moved, tail, placed)
    if kind is not np.ndarray and kind is not tuple and kind is not list:
        return None
    arrays = [item] if kind is np.ndarray else item
    outline: list[tuple[str, tuple[int, ...], int | bytes]] = []
    for array in arrays:
        if type(array) is not np.ndarray:
            return None
        dtype, nbytes = array.dtype, array.nbytes
        if dtype.isbuiltin != 1 or dtype.kind not in "biufc" or not array.flags.carray:
            return None  # other than numbers of the machine's own kinds, in one piece and writable
        if nbytes < INLINE_BYTES:
            outline.append((dtype.str, array.shape, array.tobytes()))
            continue
        placed += 1
        offset = address(array) - start
        if offset < 0 or offset + nbytes > used:
            offset = free
            moved.append((free, array.reshape(-1).view(np.uint8).data))
            free = aligned(free + nbytes)
        outline.append((dtype.str, array.shape, offset))
    if not outline or len(set(map(id, arrays))) < len(outline):
        return None  # the same array twice is to come back so
    tail = _OUTLINE + marshal.dumps(outline[0] if kind is np.ndarray else kind(outline))
    return Frame(free, free + len(tail), moved, tail, placed)


def _filled(outline: Any, memory: Block | None) -> Any:
    """Return what an outline is of."""
    kind = type(outline)
    if kind is not tuple and kind is not list:
        return outline
    if type(outline[0]) is str:
        return _array(outline, memory)
    return kind([_array(part, memory) for part in outline])


def _array(outline: tuple[Any, ...], memory: Block | None) -> npt.NDArray[Any]:
    dtype, shape, place = outline
    if type(place) is bytes:
        return np.ndarray(shape, dtype, bytearray(place))
    return np.ndarray(shape, dtype, memory, place)


def decode(
    block: Block | bytes,
    head: int,
    end: int,
    memory: Block | None = None,
) -> Any:
    """Return the value of a frame; its arrays lie in the block, or in `memory` where that is another one.

    A frame without arrays beside the pickle may come as bytes.

    >>> block = np.zeros(20_000, np.uint8)
    >>> frame = encode({"x": np.arange(1000)}, block)
    >>> frame.write(block)
    >>> x = decode(block, frame.head, frame.end)["x"]
    >>> x.sum(), np.shares_memory(x, block)
    (np.int64(499500), True)
    """
    whole: Any = block
    raw = memoryview(whole)
    (count,) = _COUNT.unpack_from(raw, head)
    table = head + 8
    if not count:
        return pickle.loads(raw[table:end], buffers=())
    memory = whole if memory is None else memory
    if count < 0:
        return [_filled(marshal.loads(raw[table:end]), memory)], {}
    spans = struct.unpack_from(f"<{2 * count}q", raw, table)
    buffers = [memory[spans[i] : spans[i] + spans[i + 1]] for i in range(0, 2 * count, 2)]
    return pickle.loads(raw[table + 16 * count : end], buffers=buffers)


def dumps_plain(value: Any, **options: Any) -> bytes:
    """Pickle, tensors by their memory."""
    if "torch" in sys.modules:
        return pickling.dumps(value, **options)
    return pickle.dumps(value, **options)


def encode_shared(value: Any) -> Frame:
    """Encode a value for other processes on this machine, and for a block of its own.

    Buffers with memory in common are stored once. They have it in common again when they are decoded.
    """
    buffers: list[memoryview] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= INLINE_BYTES:
            buffers.append(raw)
        return raw.nbytes < INLINE_BYTES

    pickled = dumps_for_workers(value, protocol=5, buffer_callback=keep)
    starts = [address(np.frombuffer(raw, np.uint8)) for raw in buffers]
    spans = [0] * (2 * len(buffers))
    moved: list[tuple[int, memoryview]] = []
    stop = shift = 0  # address behind all buffers so far; from an address to its offset in the block
    for start, number in sorted(zip(starts, range(len(buffers)), strict=True)):
        raw = buffers[number]
        if start >= stop:  # nothing in common with the buffers before: leave a gap that keeps the alignment
            shift, stop = aligned(stop + shift) + start % ALIGNMENT - start, start
        if start + raw.nbytes > stop:
            moved.append((stop + shift, raw[stop - start :]))
            stop = start + raw.nbytes
        spans[2 * number : 2 * number + 2] = start + shift, raw.nbytes
    head = aligned(stop + shift)
    tail = struct.pack(f"<{len(spans) + 1}q", len(buffers), *spans) + pickled
    return Frame(head, head + len(tail), moved, tail, len(buffers))
