"""Outlines beside pickles: the same outcome encoded and decoded, in empty caches and in warm ones."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from seqkit.engine.codec import decode, encode

from .measure import seconds, table

MIB = 1 << 20
BLOCK = np.ones(18 * MIB, np.uint8)
OTHER = np.ones(64 * MIB, np.uint8)


def figures(outcome: Any, used: int) -> tuple[float, float]:
    """Return the us that writing and reading a frame takes."""
    form, tail, *_ = encode(outcome, BLOCK, used)
    decoded: Callable[[], Any] = lambda: decode(form, tail, BLOCK)

    def cold(run: Callable[[], Any]) -> float:
        OTHER[: 32 * MIB] = OTHER[32 * MIB :]  # which leaves nothing else in the caches
        return seconds(run) * 1e6

    def warm(run: Callable[[], Any]) -> float:
        return seconds(lambda: [run() for _ in range(100)]) * 1e4

    def taken(clock: Callable[[Any], float]) -> float:
        writing = median(clock(lambda: encode(outcome, BLOCK, used)) for _ in range(100))
        return writing + median(clock(decoded) for _ in range(100))

    return taken(cold), taken(warm)


def main() -> None:
    images = BLOCK.view(np.float32).reshape(32, -1)
    labels = np.arange(32)
    rows: list[tuple[str, ...]] = [("us to write and read", "cold", "warm")]
    for name, item, used in [
        ("18 MiB, where they lie", images, BLOCK.nbytes),
        ("18 MiB and 32 labels", (images, labels), BLOCK.nbytes),
        ("32 ints", labels, 0),
        ("an int", 5, 0),
    ]:
        # A frozenset has no outline.
        for way, outcome in [("outline", item), ("pickle", [{"a": [item]}, frozenset()])]:
            rows.append((f"{name}: {way}", *(f"{figure:.1f}" for figure in figures(outcome, used))))
    table("a frame", rows)
