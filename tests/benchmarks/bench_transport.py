"""Results through process workers: stacked batches, arrays, ints; beside torch and SeqTools."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np

import seqkit as sk

from .measure import in_turn, seconds, table

WORKERS = 2
BATCH = 32
BATCHES = 600
SHAPE = (3, 224, 224)


class Images:
    """A data set without work of its own: 64 resident images, over and over."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.images = [rng.random(SHAPE, np.float32) for _ in range(64)]

    def __len__(self) -> int:
        return BATCH * BATCHES

    def __getitem__(self, i: int) -> Any:
        return self.images[i % 64]


def stacked(samples: list[Any]) -> Any:
    return np.stack(samples, out=sk.empty((len(samples), *SHAPE), np.float32))


def rate(batches: Iterable[Any], count: int, cpu: dict[str, float], name: str) -> float:
    """Return results per second after the first; note the reading process's CPU per result, in us."""
    iterator = iter(batches)
    next(iterator)
    begun, worked = perf_counter(), process_time()
    for batch in iterator:
        batch.reshape(-1)[0]
    cpu[name] = (process_time() - worked) / (count - 1) * 1e6
    return (count - 1) / (perf_counter() - begun)


def batches() -> None:
    import seqtools
    import torch

    images, cpu = Images(), {}

    def serial() -> float:
        return rate(sk.batch(images, BATCH, collate_fn=stacked), BATCHES, cpu, "serial")

    def ours() -> float:
        with sk.prefetch(sk.batch(images, BATCH, collate_fn=stacked), WORKERS, "process") as node:
            return rate(node, BATCHES, cpu, "seqkit")

    def loader() -> float:
        with sk.DataLoader(images, BATCH, num_workers=WORKERS) as node:
            return rate(node, BATCHES, cpu, "seqkit DataLoader")

    def theirs() -> float:
        node = seqtools.prefetch(
            seqtools.batch(seqtools.smap(images.__getitem__, range(len(images))), BATCH, collate_fn=np.stack),
            WORKERS,
            "process",
            max_buffered=8,
            shm_size=8 * 20 * 2**20,
        )
        result = rate(node, BATCHES, cpu, "SeqTools")
        del node
        gc.collect()
        return result

    def torchs() -> float:
        node = torch.utils.data.DataLoader(images, BATCH, num_workers=WORKERS)  # type: ignore[arg-type]
        return rate(node, BATCHES, cpu, "torch DataLoader")

    runs = [serial, ours, loader, theirs, torchs]
    names = ["serial", "seqkit", "seqkit DataLoader", "SeqTools", "torch DataLoader"]
    found = in_turn(dict(zip(names, runs, strict=True)), rounds=5)
    rows = [("18 MiB stacked batches, 2 workers", "per second", "seqkit is", "reader CPU us")]
    rows += [
        (name, f"{value:.0f}", f"{found['seqkit'] / value:.2f}x", f"{cpu[name]:.0f}")
        for name, value in found.items()
    ]
    table("stacked batches", rows)


def arrays() -> None:
    import seqtools

    def measured(mebibytes: int, held: int) -> dict[str, float]:
        array = np.ones(mebibytes * 2**18, np.float32)
        count = 4096 // mebibytes

        def holding(node: Iterable[Any]) -> float:
            kept: list[Any] = []
            iterator = iter(node)
            kept.append(next(iterator))
            begun = perf_counter()
            for item in iterator:
                item[::1024].sum()
                kept.append(item)
                del kept[: max(0, len(kept) - held)], item
            return (count - 1) * mebibytes / 1024 / (perf_counter() - begun)

        def ours() -> float:
            with sk.prefetch(sk.smap(lambda _: array, range(count)), WORKERS, "process") as node:
                return holding(node)

        def theirs() -> float:
            node = seqtools.prefetch(
                seqtools.smap(lambda _: array, range(count)),
                WORKERS,
                "process",
                max_buffered=8,
                shm_size=8 * (mebibytes + 1) * 2**20,
            )
            result = holding(node)
            del node
            gc.collect()  # its finalisers must not run in processes that others fork
            return result

        return in_turn({"seqkit": ours, "SeqTools": theirs}, rounds=3)

    rows = [("resident arrays", "held", "seqkit GB/s", "SeqTools GB/s", "ratio")]
    for mebibytes, held in ((4, 0), (4, 2), (4, 6), (32, 0), (32, 6)):
        found = measured(mebibytes, held)
        ours, theirs = found["seqkit"], found["SeqTools"]
        rows.append((f"{mebibytes} MiB", str(held), f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}"))
    table("arrays that exist already", rows)


def ints() -> None:
    import seqtools

    def ours(chunk: Any, count: int) -> Callable[[], float]:
        def run() -> float:
            with sk.prefetch(range(count), WORKERS, "process", chunk_size=chunk, max_buffered=None) as node:
                next(iter(node))
                return count / seconds(lambda: sum(node))

        return run

    def theirs() -> float:
        node = seqtools.prefetch(seqtools.smap(int, range(20_000)), WORKERS, "process", max_buffered=64)
        result = 20_000 / seconds(partial(sum, iter(node)))
        del node
        gc.collect()
        return result

    found = in_turn(
        {
            "seqkit, automatic chunks": ours("auto", 2_000_000),
            "seqkit, chunks of one": ours(1, 200_000),
            "SeqTools": theirs,
        },
        rounds=3,
    )
    table("one int per item, per second", [(name, f"{value:,.0f}") for name, value in found.items()])


def main() -> None:
    batches()
    arrays()
    ints()
