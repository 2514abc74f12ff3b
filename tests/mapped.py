"""A file of rows that is mapped into memory, and a system that records which of its bytes it is asked for."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.core import ahead

PAGE = mmap.PAGESIZE
N = 4096  # rows of a page each


class System:
    """Stands for the system: records the calls, and says that each of them read from a disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[int, int]] = []
        self.reads = True
        self.free = 0
        monkeypatch.setattr(ahead, "_will_need", self.ask)
        monkeypatch.setattr(ahead, "_blocks", lambda: len(self.calls) if self.reads else 0)
        monkeypatch.setattr(ahead, "_free_memory", lambda: self.free)

    def ask(self, file: Any, start: int, size: int) -> None:
        self.calls.append((start, size))

    def pages(self) -> set[int]:
        pages = (range(start // PAGE, -(-(start + size) // PAGE)) for start, size in self.calls)
        return set().union(*pages)


def rows_in(folder: Path) -> Any:
    """Return a memory map of rows. Row i, a page, begins with the number i."""
    rows = np.memmap(folder / "rows.bin", np.int64, "w+", shape=(N, PAGE // 8))
    rows[:, 0] = np.arange(N)
    rows.flush()
    return np.memmap(folder / "rows.bin", np.int64, "r").reshape(N, -1)


def numbers_in(item: Any) -> set[int]:
    """Return the rows that an item was made of."""
    if isinstance(item, np.ndarray):
        return set(item.reshape(-1, PAGE // 8)[:, 0].tolist())
    return set().union(*map(numbers_in, item)) if isinstance(item, list | tuple) else set()


def shuffled(rows: Any, count: int = 400) -> sk.View[Any]:
    return sk.shuffle(rows, seed=0)[:count]
