"""Loaders and files that an earlier version of seqkit saved.

``python -m tests.upgrade.cases FOLDER`` saves them with the version that is imported. The folder `made` was
saved by the version before states named the order that they belong to (commit de5206a).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import seqkit as sk
from seqkit.samplers import BatchSampler, DistributedSampler, RandomSampler, WeightedRandomSampler
from seqkit.streams import StreamLoader

N = 22


class Lines:
    """Can only be iterated."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(100, 100 + N))


class Shards(Lines):
    """Splits itself."""

    parts = 3

    def split(self, part: int, parts: int) -> Iterator[int]:
        return iter(range(100 * part, 100 * part + 4 + part))


def chunks(length: int, start: int = 0) -> Iterator[int]:
    yield from (10 * length + chunk for chunk in range(start, length))


def noisy() -> Any:
    return sk.random_map(lambda i, rng: (i, int(rng.integers(1000))), range(N), seed=5)


def triple(i: int) -> int:
    return 3 * i


# Batches that were read, and the loader that had read them.
LOADERS: dict[str, tuple[int, Callable[[], Any]]] = {
    "in order": (2, lambda: sk.DataLoader(range(N), 4)),
    "shuffled": (8, lambda: sk.DataLoader(noisy(), 4, shuffle=True, seed=1)),
    "without a seed": (2, lambda: sk.DataLoader(range(N), 4, shuffle=True)),
    "generator": (3, lambda: sk.DataLoader(range(N), 4, shuffle=True, generator=7)),
    "end of an epoch": (6, lambda: sk.DataLoader(range(N), 4, shuffle=True, seed=1)),
    "single samples": (5, lambda: sk.DataLoader(range(N), None, shuffle=True, seed=1)),
    "rollover": (7, lambda: sk.DataLoader(range(N), 4, shuffle=True, seed=1, last_batch="rollover")),
    "list": (1, lambda: sk.DataLoader(range(N), 2, sampler=[7, 3, 1, 20, 5])),
    "random": (8, lambda: sk.DataLoader(range(N), 4, sampler=RandomSampler(N, seed=2))),
    "weighted": (2, lambda: sk.DataLoader(range(N), 4, sampler=WeightedRandomSampler(range(N), 17, seed=2))),
    "distributed": (1, lambda: sk.DataLoader(range(N), 2, sampler=DistributedSampler(N, 3, 1, seed=2))),
    "batches": (7, lambda: sk.DataLoader(range(N), batch_sampler=BatchSampler(RandomSampler(N, seed=3), 4))),
    "iterable": (3, lambda: sk.DataLoader(Lines(), 4)),
    "parts": (3, lambda: sk.DataLoader(Shards(), 2)),
    "streams": (2, lambda: StreamLoader([3, 5, 2, 4], chunks, 2, padding="drop_rows", seed=3, shuffle=True)),
    "ranks of streams": (
        1,
        lambda: StreamLoader(
            [3, 5, 2, 4], chunks, 1, pad_value=0, rank=1, world_size=2, lengths=[3, 5, 2, 4]
        ),
    ),
}


def plain(batch: Any) -> Any:
    if hasattr(batch, "stream"):
        return [plain(batch.data), plain(batch.stream), plain(batch.chunk)]
    if isinstance(batch, np.ndarray | np.generic):
        return batch.tolist()
    return [plain(part) for part in batch] if isinstance(batch, tuple | list) else batch


def rest(loader: Any) -> list[Any]:
    """Return the rest of an epoch and the next epoch."""
    return [[plain(batch) for batch in loader] for _ in range(2)]


def after(count: int, loader: Any) -> None:
    """Read a number of batches, over the ends of epochs."""
    while count:
        epoch = iter(loader)
        for _ in islice(epoch, count):
            count -= 1


def cached(folder: Path) -> Any:
    return sk.add_cache(sk.smap(lambda i: {"i": i, "row": np.full(3, i)}, range(5)), store=folder / "cache")


def items() -> list[Any]:
    return [{"text": f"line {i}", "row": np.arange(i, dtype="f4")} for i in range(6)]


class Interrupted(Exception):
    pass


def save(folder: Path) -> None:
    """Save the states of all loaders, and the files of each kind."""
    folder.mkdir()
    states = {}
    for name, (count, build) in LOADERS.items():
        loader = build()
        after(count, loader)
        state = loader.state_dict()
        loader.load_state_dict(state)
        states[name] = {"state": state, "rest": rest(loader)}
    (folder / "states.json").write_text(json.dumps(states, separators=(",", ":")))
    list(cached(folder))
    sk.pack(items()).save(folder / "items.pack")
    sk.pack(list(np.arange(12).reshape(4, 3))).save(folder / "array.pack")
    sk.materialize(sk.smap(triple, range(10)), folder / "whole.npy", nworkers=0)
    rows = sk.smap(lambda i: {"i": i, "text": str(i)}, range(10))
    sk.materialize(rows, folder / "rows.parquet", nworkers=0, chunk_size=4)

    def stop(done: int, total: int | None) -> None:
        if done >= 4:
            raise Interrupted

    try:
        sk.materialize(
            sk.smap(triple, range(10)), folder / "half.npy", nworkers=0, chunk_size=4, progress=stop
        )
    except Interrupted:
        pass


if __name__ == "__main__":
    save(Path(sys.argv[1]))
