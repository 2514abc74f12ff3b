"""Results of two process workers in every library: stacked images, arrays that exist already, and ints.

Workers hand over an array that they did not compute, so the table of arrays shows transport alone. The
consumer keeps some results. SPDL passes large results through its segment pool, which one process fills: its
rows are one process with two threads, and two processes with a pool each, read in turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compare import ENDLESS, Endless, compare
from .work import Work


class Images(Endless):
    """64 resident images, over and over."""

    def __init__(self) -> None:
        self.images = np.random.default_rng(0).random((64, 3, 224, 224), np.float32)

    def __getitem__(self, i: int) -> Any:
        return self.images[i % 64]


class Same(Endless):
    """One array, over and over."""

    def __init__(self, mebibytes: int) -> None:
        self.array = np.arange(mebibytes << 18, dtype=np.float32)

    def __getitem__(self, i: int) -> Any:
        return self.array


def main() -> None:
    compare("stacked images, 18 MiB", Work(Images(), 32, 32 * 3 * 224 * 224 * 4))
    for mebibytes, held in ((4, 0), (4, 6), (32, 0), (32, 2), (32, 6)):
        work = Work(Same(mebibytes), nbytes=mebibytes << 20)
        compare(f"arrays of {mebibytes} MiB, {held} held", work, limit=False, held=held)
    compare("one int per item", Work(range(ENDLESS)), limit=False, block=100)
    compare("one int per item, chunks of one", Work(range(ENDLESS), chunk=1), limit=False, block=100)
