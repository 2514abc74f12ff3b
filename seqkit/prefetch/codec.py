"""A value to bytes in a block of memory, and back: pickle protocol 5 with its buffers beside it.

The layout of a frame in a block::

    | what the worker wrote itself | further buffers … | table: count, (offset, size)… | pickle |
                                     64-byte aligned     ^ head                                ^ end

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

import pickle
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from . import tensors
from .tensors import dumps_by_value

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
]

Block = npt.NDArray[np.uint8]

ALIGNMENT = 64
_COUNT = struct.Struct("<q")
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
        Where table and pickle begin and end.
    moved : list of (offset, memoryview)
        Buffers to be copied into the block.
    placed : int
        Number of buffers that travel beside the pickle, copied or already in place.
    """

    head: int
    end: int
    moved: list[tuple[int, memoryview]]
    table: bytes
    pickled: bytes
    placed: int

    def write(self, block: Block) -> None:
        """Write the frame into the block it was encoded for."""
        for offset, buffer in self.moved:
            block[offset : offset + buffer.nbytes] = np.frombuffer(buffer, np.uint8)
        body = self.head + len(self.table)
        block[self.head : body] = np.frombuffer(self.table, np.uint8)
        block[body : self.end] = np.frombuffer(self.pickled, np.uint8)

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
        yield memoryview(self.table)
        yield memoryview(self.pickled)


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
    table = struct.pack(f"<{len(spans) + 1}q", len(spans) // 2, *spans)
    end = free + len(table) + len(pickled)
    return Frame(free, end, moved, table, pickled, len(spans) // 2)


def decode(
    block: Block | bytes,
    head: int,
    end: int,
    loads: Callable[..., Any] = pickle.loads,
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
    raw = memoryview(cast(Any, block))[head:end]
    (count,) = _COUNT.unpack_from(raw)
    if not count:
        return loads(raw[8:], buffers=())
    spans = struct.unpack_from(f"<{2 * count}q", raw, 8)
    memory = cast(Block, block) if memory is None else memory
    buffers = [memory[spans[i] : spans[i] + spans[i + 1]] for i in range(0, 2 * count, 2)]
    return loads(raw[8 + 16 * count :], buffers=buffers)


def dumps_plain(value: Any, **options: Any) -> bytes:
    """Pickle, tensors by their memory."""
    if "torch" in sys.modules:
        return tensors.dumps(value, **options)
    return pickle.dumps(value, **options)
