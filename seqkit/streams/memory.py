"""BatchMemory of large batches, used again as soon as no array refers to it.

The system hands out large memory as new pages, which it clears one by one. For a batch of 32 MiB that takes
longer than copying the rows.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from sys import getrefcount
from typing import Any

import numpy as np

__all__ = ["BatchMemory"]

Block = np.ndarray[Any, np.dtype[np.uint8]]

# Python keeps smaller memory, and uses it again itself.
LEAST_BYTES = 1 << 20
# How many blocks to keep: for the batch that is made, the one that the consumer has, and another one.
MOST = 3


class BatchMemory:
    """Makes arrays for batches.

    >>> memory = BatchMemory()
    >>> def place(array):
    ...     return array.ctypes.data
    >>> first = memory.empty((2, 1 << 20), np.dtype(np.uint8))
    >>> was, part = place(first), first[0]
    >>> del first
    >>> place(memory.empty((2, 1 << 20), np.dtype(np.uint8))) == was
    False
    >>> del part
    >>> place(memory.empty((1 << 19,), np.dtype(np.float32))) == was
    True
    """

    def __init__(self) -> None:
        self._blocks: deque[Block] = deque(maxlen=MOST)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an array with any content, as `numpy.empty` does."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes < LEAST_BYTES or dtype.hasobject:
            return np.empty(shape, dtype)
        for block, references in _counted(self._blocks):
            if references == _ALONE and block.nbytes == nbytes:
                break
        else:
            block = np.empty(nbytes, np.uint8)
            self._blocks.append(block)
        return block.view(dtype).reshape(shape)  # it refers to the block, and so do all its views


def _counted(blocks: Iterable[Block]) -> Iterator[tuple[Block, int]]:
    """Yield blocks, each with the number of references to it, those of this function included.

    Another thread that looks at a block is a reference, too. So two threads never find the same block unused.
    """
    for block in tuple(blocks):
        yield block, getrefcount(block)


_ALONE = next(_counted([np.empty(1, np.uint8)]))[1]
