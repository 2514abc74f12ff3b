"""What workers cost in memory that read a million small objects, from a list and from the list packed."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import seqkit as sk
from seqkit.stores.pack.pack import pack

from .bench_views import per_call
from .measure import consume, in_turn, seconds, table

COUNT = 10**6
WORKERS = 2
MAKERS: dict[str, Callable[[int], Any]] = {
    "str": lambda i: f"images/train/class-{i % 1000:04d}/{i:08d}.jpg",
    "dict": lambda i: {"path": f"images/{i:08d}.jpg", "label": i % 1000, "box": (i, i + 1, 64, 64)},
}


def touch(item: Any) -> int:
    """Look at every part of an item, like a function that loads what it names."""
    return sum(map(touch, item.values())) if isinstance(item, dict) else len(str(item))


def children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def memory(pid: int | str = "self") -> tuple[float, float]:
    """Return how many MiB are a process's own, and its share of all that it uses."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {name: float(size.split()[0]) / 1024 for name, size in (line.split(":") for line in lines)}
    return sizes["Private_Clean"] + sizes["Private_Dirty"], sizes["Pss"]


def epoch(items: Any) -> tuple[float, float]:
    """Read one epoch with forked workers; return how much a worker's own memory grew, and that of all."""
    gc.collect()
    others = set(children())
    pipeline = sk.smap(touch, sk.shuffle(items, seed=0))
    with sk.prefetch(pipeline, WORKERS, "process", context="fork") as node:
        iterator = iter(node)
        next(iterator)
        workers = [pid for pid in children() if pid not in others]
        own, total = max(memory(pid)[0] for pid in workers), sum(memory(pid)[1] for pid in [*workers, "self"])
        consume(iterator)
        return (
            max(memory(pid)[0] for pid in workers) - own,
            sum(memory(pid)[1] for pid in [*workers, "self"]) - total,
        )


def growing(kind: str) -> list[tuple[str, ...]]:
    before = memory()[0]
    items = [MAKERS[kind](i) for i in range(COUNT)]
    size = memory()[0] - before
    rows = []
    packed = pack(items)
    for name, mebibytes, sequence in (("list of", size, items), ("packed", packed.nbytes / 2**20, packed)):
        grown, total = epoch(sequence)
        rows.append(
            (f"{name} {kind}", f"{mebibytes:.0f}", f"{grown:.0f}", f"{total:.0f}", f"{total / size:.1%}")
        )
    return rows


def timing(kind: str) -> tuple[str, ...]:
    items = [MAKERS[kind](i) for i in range(COUNT // 10)]
    plain, packed = sk.view(items), pack(items)
    found = in_turn(
        {
            "packing": lambda: seconds(lambda: pack(items)) / len(items) * 1e9,
            "index": lambda: per_call(lambda: packed[77]) * 1e9,
            "iterating": lambda: seconds(lambda: consume(packed)) / len(items) * 1e9,
            "list": lambda: per_call(lambda: plain[77]) * 1e9,
        }
    )
    return (kind, *(f"{value:.0f}" for value in found.values()))


def main() -> None:
    rows = [
        (f"MiB, {COUNT:,} items, {WORKERS} workers", "size", "one worker grows", "all grow", "of the list")
    ]
    table("memory in one shuffled epoch", rows + [row for kind in MAKERS for row in growing(kind)])
    head = ("packed items", "packing", "indexing", "iterating", "indexing a list")
    table("nanoseconds an item", [head, *map(timing, MAKERS)])
