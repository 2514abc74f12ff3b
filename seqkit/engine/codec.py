"""Encode a value as bytes and out-of-band buffers, and decode it again.

An encoded value has two parts. Its *tail* is a short byte string. Its *buffers* are the memory of arrays,
and lie in a block of memory. Either the worker wrote them there (`seqkit.empty`), or `encode` asks the
caller to copy them there.

Most items are numbers, strings, arrays, or a tuple, list or dict of those. They need no pickle: the tail is
the output of `marshal`, with an outline (dtype, shape, offset) in place of each array. After megabytes were
copied, the processor's caches hold nothing else. Then `marshal` takes half the time of a pickle (`python -m
benchmarks codec`).

Guarantees
----------
- A buffer that already lies in the block is not copied. Only its place is recorded.
- Decoded arrays lie in the block, or in a copy of the block. The code is the same for both.

Relies on
---------
- The block stays unchanged for as long as decoded arrays over it live (the slot's lease).

Units: offsets and sizes in bytes from the start of the block.
"""

from __future__ import annotations

import marshal
import pickle
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core.buffers import INLINE_BYTES, pickle_apart
from . import pickling

Block = npt.NDArray[np.uint8]

ALIGNMENT = 64


class Form:
    """The form of a tail. Plain numbers, because Python 3.11 looks them up faster than enum members."""

    MARSHAL: Final = 0  # the value
    OUTLINE: Final = 1  # the value, with outlines in place of arrays
    PICKLE: Final = 2
    BUFFERS: Final = 3  # number, offsets and sizes of buffers, then the pickle that refers to them


def aligned(offset: int) -> int:
    """Return the next offset that is a multiple of the alignment.

    >>> aligned(65)
    128
    """
    return -(-offset // ALIGNMENT) * ALIGNMENT


def address(block: npt.NDArray[Any]) -> int:
    """Return the memory address of the first byte of an array."""
    return int(block.__array_interface__["data"][0])


# A tuple of: the form of the tail; the tail; the buffers that the caller must copy into the block, by
# offset; the first offset after all buffers; the number of buffers in the block, copied or in place. A
# plain tuple, because one is made for every item.
Encoded = tuple[int, bytes, list[tuple[int, memoryview]], int, int]
Dumps = Callable[..., bytes]

_ATOMS = frozenset({int, float, bool, type(None), str, bytes})
_KINDS = frozenset({np.ndarray, tuple, list, dict})
# The start of a block that does not exist: beyond every address, so that no buffer seems to lie in the block.
_NOWHERE = 1 << 64


def encode(value: Any, block: Block | None = None, used: int = 0, dumps: Dumps | None = None) -> Encoded:
    """Encode a value for a block whose first `used` bytes are occupied.

    Parameters
    ----------
    value : Any
    block : uint8 array or None
        None if no buffer can be in place already.
    used : int
        First free offset.
    dumps : callable
        A function of `pickling`. By default plain values are not pickled, and other values by its `dumps`.
        `marshal` has no text or bytes of 2 GiB.

    Returns
    -------
    tuple
        See `Encoded`.

    Raises
    ------
    Exception
        Any exception that pickling the value raises.
    """
    kind = type(value)
    if kind in _ATOMS and dumps is None:
        return (Form.MARSHAL, marshal.dumps(value), [], used, 0)
    start = _NOWHERE if block is None else address(block)
    if kind in _KINDS and dumps is None and (outlined := _outlined(value, kind, start, used)) is not None:
        return outlined
    stop = start + used
    moved: list[tuple[int, memoryview]] = []
    spans: list[int] = []
    free = used

    def place(buffer: pickle.PickleBuffer) -> bool:
        nonlocal free
        raw = buffer.raw()
        if raw.nbytes < INLINE_BYTES:
            return True
        at = address(np.frombuffer(raw, np.uint8))
        if start <= at and at + raw.nbytes <= stop:
            spans.extend((at - start, raw.nbytes))
        else:
            free = aligned(free)
            spans.extend((free, raw.nbytes))
            moved.append((free, raw))
            free += raw.nbytes
        return False

    pickled = (dumps or pickling.dumps)(value, protocol=5, buffer_callback=place)
    if not spans:
        return (Form.PICKLE, pickled, moved, free, 0)
    tail = struct.pack(f"<{len(spans) + 1}q", len(spans) // 2, *spans) + pickled
    return (Form.BUFFERS, tail, moved, free, len(spans) // 2)


def _outlined(value: Any, kind: type, start: int, free: int) -> Encoded | None:
    """Encode an array, or a flat tuple, list or dict, without a pickle. Return None if that is
    impossible."""
    # This is one function on purpose: the code of each further function would be missing in the caches.
    if kind is np.ndarray:
        parts: Any = (value,)
    elif kind is dict:
        if not _ATOMS.issuperset(map(type, value)):
            return None
        parts = value.values()
    else:
        parts = value
    if _ATOMS.issuperset(map(type, parts)):
        return (Form.MARSHAL, marshal.dumps(value), [], free, 0)
    used, buffers = free, 0
    moved: list[tuple[int, memoryview]] = []
    outline: list[Any] = []
    seen: list[int] = []
    for part in parts:
        if type(part) in _ATOMS:
            outline.append(part)
            continue
        if type(part) is not np.ndarray:
            return None
        dtype, nbytes = part.dtype, part.nbytes
        if dtype.isbuiltin != 1 or dtype.kind not in "biufc" or not part.flags.carray:
            return None  # not a contiguous, writable array of native numbers
        seen.append(id(part))
        if nbytes < INLINE_BYTES:
            outline.append((..., dtype.str, part.shape, part.tobytes()))
            continue
        buffers += 1
        offset = address(part) - start
        if offset < 0 or offset + nbytes > used:
            offset = aligned(free)
            moved.append((offset, part.reshape(-1).view(np.uint8).data))
            free = offset + nbytes
        outline.append((..., dtype.str, part.shape, offset))
    if len(set(seen)) < len(seen):
        return None  # an array that occurs twice must arrive as one array
    if kind is np.ndarray:
        shown: Any = outline[0]
    else:
        shown = dict(zip(value, outline, strict=True)) if kind is dict else kind(outline)
    return (Form.OUTLINE, marshal.dumps(shown), moved, free, buffers)


def decode(form: int, tail: bytes | memoryview, memory: Block | None = None) -> Any:
    """Return the value of a tail whose buffers lie in `memory`.

    >>> block = np.zeros(20_000, np.uint8)
    >>> form, tail, moved, end, buffers = encode({"x": np.arange(1000)})
    >>> for offset, buffer in moved:
    ...     block[offset : offset + buffer.nbytes] = buffer
    >>> x = decode(form, tail, block)["x"]
    >>> x.sum(), np.shares_memory(x, block)
    (np.int64(499500), True)
    """
    if form == Form.PICKLE:
        return pickle.loads(tail, buffers=())
    if form == Form.MARSHAL:
        return marshal.loads(tail)
    if form == Form.OUTLINE:
        return _filled(marshal.loads(tail), memory)
    assert memory is not None
    (count,) = struct.unpack_from("<q", tail)
    spans = struct.unpack_from(f"<{2 * count}q", tail, 8)
    buffers = [memory[spans[i] : spans[i] + spans[i + 1]] for i in range(0, 2 * count, 2)]
    return pickle.loads(memoryview(tail)[8 + 16 * count :], buffers=buffers)


def _filled(outline: Any, memory: Block | None) -> Any:
    """Return the value of an outline."""
    kind = type(outline)
    if kind is dict:
        return {key: _array(part, memory) if type(part) is tuple else part for key, part in outline.items()}
    if kind is tuple and outline[0] is ...:
        return _array(outline, memory)
    return kind([_array(part, memory) if type(part) is tuple else part for part in outline])


def _array(outline: tuple[Any, ...], memory: Block | None) -> npt.NDArray[Any]:
    _, dtype, shape, place = outline
    if type(place) is bytes:
        return np.ndarray(shape, dtype, bytearray(place))
    return np.ndarray(shape, dtype, memory, place)


def encode_shared(value: Any) -> tuple[bytes, list[tuple[int, memoryview]], int]:
    """Encode a value for other processes on this machine, and for a block of its own.

    Returns a tail of the form `BUFFERS`, the buffers to copy, and the first offset after them. Memory that
    several buffers share is stored once, and is shared again after decoding.
    """
    pickled, buffers = pickle_apart(value, pickling.dumps_for_workers)
    starts = [address(np.frombuffer(raw, np.uint8)) for raw in buffers]
    spans = [0] * (2 * len(buffers))
    moved: list[tuple[int, memoryview]] = []
    # `stop` is the address after all buffers so far. An address plus `shift` is an offset in the block.
    stop = shift = 0
    for start, number in sorted(zip(starts, range(len(buffers)), strict=True)):
        raw = buffers[number]
        if start >= stop:  # shares nothing with the buffers before: leave a gap that keeps the alignment
            shift, stop = aligned(stop + shift) + start % ALIGNMENT - start, start
        if start + raw.nbytes > stop:
            moved.append((stop + shift, raw[stop - start :]))
            stop = start + raw.nbytes
        spans[2 * number : 2 * number + 2] = start + shift, raw.nbytes
    tail = struct.pack(f"<{len(spans) + 1}q", len(buffers), *spans) + pickled
    return tail, moved, aligned(stop + shift)
