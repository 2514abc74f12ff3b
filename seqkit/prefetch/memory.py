"""Results in private memory, wherever they came from: a pipe, a copied slot, another machine.

Guarantees
----------
- arrays over it belong to the reader: writable, valid for as long as they are kept, aligned as in a slot.

Relies on
---------
- nothing that needs Linux.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .backend import Unreadable
from .codec import ALIGNMENT, Block, address, decode
from .outcome import Outcomes

__all__ = ["Memory", "opened", "private"]


@dataclass(slots=True)
class Memory:
    """A result in private memory: its frame, and where the tail of that begins."""

    block: Block | bytes
    head: int
    nbytes: int

    def must_copy(self) -> bool:
        return False

    def claim(self) -> None:
        pass

    def open(self) -> Outcomes:
        return opened(self.block, self.head)

    def detach(self) -> bool:
        return False

    def discard(self) -> None:
        pass


def private(size: int) -> Block:
    """Return memory of our own, aligned like a slot."""
    block = np.empty(size + ALIGNMENT, np.uint8)
    skip = -address(block) % ALIGNMENT
    return block[skip : skip + size]


def opened(block: Block | bytes, head: int, memory: Block | None = None) -> Outcomes:
    """Decode outcomes; `Unreadable` if what they are made of refuses."""
    try:
        return Outcomes(*decode(block, head, len(block), memory=memory))
    except (Exception, SystemExit) as error:
        raise Unreadable(error) from None
