"""`default_collate`, one call of numpy for each field, and PyTorch. CPU time, the best of many runs."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time_ns
from typing import Any

import numpy as np

import seqkit as sk

from .measure import table


def best_us(run: Callable[[], Any]) -> float:
    """Return the least CPU time of a call, in µs."""

    def once() -> int:
        begun = process_time_ns()
        for _ in range(5):
            run()
        return process_time_ns() - begun

    return min(once() for _ in range(200)) / 5000


def row(name: str, samples: list[Any], numpy: Callable[[], Any]) -> tuple[str, ...]:
    from torch.utils.data import default_collate as of_torch

    ours, theirs = best_us(lambda: sk.default_collate(samples)), best_us(numpy)
    return (
        name,
        f"{ours:.1f}",
        f"{theirs:.1f}",
        f"{best_us(lambda: of_torch(samples)):.0f}",
        f"{ours / theirs:.2f}",
    )


def main() -> None:
    rows: list[tuple[str, ...]] = [("us a batch", "seqkit", "numpy", "torch", "seqkit / numpy")]
    dicts = [
        {"a": np.float32(i), "b": np.int64(i), "c": np.bool_(i % 2), "d": np.float64(i)} for i in range(256)
    ]
    rows.append(
        row(
            "256 dicts of 4 scalars",
            dicts,
            lambda: {key: np.array([d[key] for d in dicts]) for key in dicts[0]},
        )
    )
    for shape in ((3,), (16,), (8, 8)):
        arrays = [np.ones(shape, np.float32) for _ in range(64)]
        rows.append(row(f"64 arrays of {shape}", arrays, lambda arrays=arrays: np.stack(arrays)))  # type: ignore[misc]
    table("default_collate", rows)
