"""`StreamLoader` beside a parallel read without batches, the lock-step bound, and lanes split over workers.

Chunks cost waiting time (a sleep), and times are scaled by how long the chunks took. So the figures say how
well work is spread, also on a busy machine. What the loader itself costs is measured apart: chunks that cost
nothing, and the main process's CPU for large rows.
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from multiprocessing import get_context
from typing import Any

import numpy as np

import seqkit as sk
from seqkit.streams import StreamLoader

from .measure import apart, consume, in_turn, seconds, table

LANES, WORKERS = 8, 2
BUFFERED = 16  # the default of StreamLoader
UNIT_S = 0.008
SEEDS = 3

Stream = tuple[int, float]  # number of chunks, and seconds per chunk


def read(stream: Stream) -> Iterator[float]:
    """Yield for each chunk how long it took, which is longer than told on a busy machine."""
    length, cost_s = stream
    for _ in range(length):
        yield seconds(lambda: time.sleep(cost_s))


def as_told_s(streams: list[Stream], batches: Iterable[np.ndarray]) -> float:
    """Return how long it takes to read all batches, if chunks took as long as told."""
    begun, waited_s = time.perf_counter(), 0.0
    for batch in batches:
        waited_s += float(batch.sum())
    took_s = time.perf_counter() - begun
    return took_s * sum(length * cost_s for length, cost_s in streams) / waited_s


# -------------------------------------------------------------------- the sets of streams


def similar(rng: random.Random) -> list[Stream]:
    return [(rng.randint(35, 45), UNIT_S) for _ in range(4 * LANES)]


def lengths(rng: random.Random) -> list[Stream]:
    return [(1 + round(rng.expovariate(1 / 20)), UNIT_S) for _ in range(6 * LANES)]


def tenfold(rng: random.Random) -> list[Stream]:
    return [(rng.randint(10, 30), UNIT_S * rng.choice([0.3, 3])) for _ in range(8 * LANES)]


SETS = {"similar streams": similar, "any length": lengths, "tenfold cost per chunk": tenfold}


# -------------------------------------------------------------------- ways to read


def loader_s(streams: list[Stream], method: Any) -> float:
    loader = StreamLoader(streams, read, LANES, WORKERS, padding="drop_rows", method=method)
    return as_told_s(streams, (batch.data for batch in loader))


def unbatched_s(streams: list[Stream]) -> float:
    """Read chunk by chunk in as many workers, each of which takes the next stream that no worker has
    taken."""
    taken = get_context("fork").Value("i", 0)
    return parts_s(streams, [_Part(streams, taken, 1) for _ in range(WORKERS)], BUFFERED)


def shared(streams: list[Stream], taken: Any) -> Iterator[Stream]:
    """Yield the streams that no other worker has taken."""
    while True:
        with taken.get_lock():
            number, taken.value = taken.value, taken.value + 1
        if number >= len(streams):
            return
        yield streams[number]


def split_s(streams: list[Stream]) -> float:
    """Read as pytorch-stream-dataloader does: every worker has a part of the lanes, and collates its rows."""
    taken = get_context("fork").Value("i", 0)
    return parts_s(streams, [_Part(streams, taken, LANES // WORKERS) for _ in range(WORKERS)], 2)


def parts_s(streams: list[Stream], parts: list[_Part], ahead: int) -> float:
    """Read some parts in a worker each, in step, and put their rows together."""
    nodes = [
        sk.prefetch(sk.uniter(part), 1, "process", ahead, context="fork", chunk_size=1) for part in parts
    ]

    def batches() -> Iterator[np.ndarray]:
        rest: list[Iterator[Any]] = [iter(node) for node in nodes]
        while rest:
            rows = [(iterator, next(iterator, None)) for iterator in rest]
            yield np.concatenate([row for _, row in rows if row is not None] or [[0]])
            rest = [iterator for iterator, row in rows if row is not None]

    try:
        return as_told_s(streams, batches())
    finally:
        for node in nodes:
            node.close()


class _Part:
    """The rows of one worker: each takes the next stream that no row has taken."""

    def __init__(self, streams: list[Stream], taken: Any, rows: int) -> None:
        self.streams = streams
        self.taken = taken
        self.rows = rows

    def __iter__(self) -> Iterator[np.ndarray]:
        lanes = [chain.from_iterable(map(read, shared(self.streams, self.taken))) for _ in range(self.rows)]
        while True:
            chunks = [chunk for chunk in (next(lane, None) for lane in lanes) if chunk is not None]
            if not chunks:
                return
            yield np.array(chunks)


# -------------------------------------------------------------------- the bound


def bound_s(streams: list[Stream]) -> float:
    """Return how long the best schedule takes that reads in lock step.

    Any worker computes any chunk, and nothing but the chunk costs time. So no loader that keeps a stream
    with its worker reaches it. The chunks of a stream follow each other. At most `BUFFERED` chunks of a
    stream are ahead of the batch that the consumer waits for. Workers take the chunk that is needed first.
    """
    lanes = [(0, row) for row in range(LANES)]
    needed = []  # for each stream, the batch in which it begins, and its row
    for length, _ in streams:
        batch, row = lanes[0]
        needed.append((batch, row))
        heapq.heapreplace(lanes, (batch + length, row))
    batches = max(lanes)[0]
    missing = [0] * batches  # chunks of each batch that are not computed
    for (batch, _), (length, _) in zip(needed, streams, strict=True):
        for chunk in range(length):
            missing[batch + chunk] += 1
    done, busy = [0] * len(streams), [False] * len(streams)
    free, now, delivered = WORKERS, 0.0, 0
    running: list[tuple[float, int]] = []
    while delivered < batches:
        begun = sum(batch < delivered or not delivered for batch, _ in needed)
        open_up_to = max(LANES, begun + LANES)
        ready = [
            (needed[s][0] + done[s], needed[s][1], s)
            for s, (length, _) in enumerate(streams[:open_up_to])
            if not busy[s] and done[s] < length and done[s] < max(delivered - needed[s][0], 0) + BUFFERED
        ]
        heapq.heapify(ready)
        while free and ready:
            _, _, s = heapq.heappop(ready)
            busy[s], free = True, free - 1
            heapq.heappush(running, (now + streams[s][1], s))
        now, s = heapq.heappop(running)
        free, busy[s] = free + 1, False
        missing[needed[s][0] + done[s]] -= 1
        done[s] += 1
        while delivered < batches and not missing[delivered]:
            delivered += 1
    return now


def spread() -> None:
    rows: list[tuple[str, ...]] = [
        ("", "chunks/s", "of unbatched", "of the bound", "of split lanes", "threads, of the bound")
    ]
    for name, make in SETS.items():
        ratios: dict[str, list[float]] = {
            "unbatched": [],
            "bound": [],
            "split": [],
            "threads": [],
            "rate": [],
        }
        for seed in range(SEEDS):
            streams = make(random.Random(seed))
            took, bound = apart(lambda streams=streams: loader_s(streams, "process")), bound_s(streams)
            ratios["rate"].append(sum(length for length, _ in streams) / took)
            ratios["unbatched"].append(apart(lambda streams=streams: unbatched_s(streams)) / took)
            ratios["bound"].append(bound / took)
            ratios["split"].append(apart(lambda streams=streams: split_s(streams)) / took)
            ratios["threads"].append(bound / apart(lambda streams=streams: loader_s(streams, "thread")))
        medians = {key: float(np.median(values)) for key, values in ratios.items()}
        rows.append(
            (
                name,
                f"{medians['rate']:.0f}",
                *(f"{medians[key]:.2f}" for key in ("unbatched", "bound", "split", "threads")),
            )
        )
    table(f"{LANES} lanes, {WORKERS} workers, chunks that wait some ms (1 is as fast; more is faster)", rows)


# -------------------------------------------------------------------- what the loader costs


def constant(stream: tuple[int, Any]) -> Iterator[Any]:
    length, chunk = stream
    for _ in range(length):
        yield chunk


def empty_ms(method: Any, workers: int, length: int) -> float:
    loader = StreamLoader(
        [(length, 0)] * (LANES * 2000 // length), constant, LANES, workers, pad_value=0, method=method
    )
    iterator = iter(loader)
    next(iterator)
    return 1e3 * seconds(lambda: consume(iterator)) / 1999


def overhead() -> None:
    runs = {
        f"{workers} {method}, streams of {length}": (
            lambda method=method, workers=workers, length=length: apart(
                lambda: empty_ms(method, workers, length)
            )
        )
        for workers, method in ((0, "process"), (2, "thread"), (2, "process"))
        for length in (1000, 10)
    }
    rows: list[tuple[str, ...]] = [("workers", "ms per batch")]
    rows += [(name, f"{figure:.3f}") for name, figure in in_turn(runs).items()]
    table(f"{LANES} lanes, chunks that cost nothing", rows)


def main_cpu_ms(nbytes: int) -> float:
    """Return CPU milliseconds of the main process per batch, each of which is kept until the next one."""
    chunk = np.ones(nbytes, np.uint8)
    loader = StreamLoader([(120, chunk)] * LANES, _fresh, LANES, WORKERS, padding="drop_rows")
    iterator = iter(loader)
    for _ in range(20):
        batch = next(iterator)
    begun = time.thread_time()
    for batch in iterator:  # noqa: B007
        pass
    return 1e3 * (time.thread_time() - begun) / 100


def _fresh(stream: tuple[int, Any]) -> Iterator[Any]:
    length, chunk = stream
    for _ in range(length):
        yield chunk.copy()


def stacking_ms(nbytes: int) -> float:
    """Return CPU milliseconds of the main process for `np.stack` of the same rows, as they come from workers.

    Each result is kept until the next one, as a training loop does.
    """
    chunk = np.ones(nbytes, np.uint8)
    loader = StreamLoader([(120, chunk)] * LANES, _fresh, LANES, WORKERS, list, padding="drop_rows")
    taken = []
    for batch in loader:
        begun = time.thread_time()
        kept = np.stack(batch.data)  # noqa: F841
        taken.append(time.thread_time() - begun)
    return 1e3 * float(np.mean(taken[20:]))


def cpu() -> None:
    rows: list[tuple[str, ...]] = [("bytes per row", "stacking", "loader", "ratio")]
    for kib in (256, 1024, 4096):
        figures = in_turn(
            {
                "stacking": lambda kib=kib: apart(lambda: stacking_ms(kib << 10)),
                "loader": lambda kib=kib: apart(lambda: main_cpu_ms(kib << 10)),
            }
        )
        ratio = figures["loader"] / figures["stacking"]
        rows.append((f"{kib} KiB", *(f"{figure:.2f} ms" for figure in figures.values()), f"{ratio:.2f}"))
    table(f"CPU of the main process for a batch of {LANES} rows", rows)


def plain_rate(chunk: Any) -> float:
    """Return batches per second of a loop that stacks a chunk of each of `LANES` streams."""
    streams = [_fresh((200, chunk)) for _ in range(LANES)]
    return 200 / seconds(lambda: consume(map(np.stack, zip(*streams, strict=True))))


def loader_rate(chunk: Any, method: Any, workers: int) -> float:
    loader = StreamLoader([(200, chunk)] * LANES, _fresh, LANES, workers, padding="drop_rows", method=method)
    iterator = iter(loader)
    next(iterator)
    return 199 / seconds(lambda: consume(iterator))


def limit() -> None:
    chunk = np.ones(1 << 20, np.uint8)
    runs = {"plain loop": lambda: plain_rate(chunk)}
    for workers, method in ((0, "thread"), (2, "thread"), (2, "process")):
        runs[f"{workers} {method}"] = lambda method=method, workers=workers: apart(  # type: ignore[misc]
            lambda: loader_rate(chunk, method, workers)
        )
    rows: list[tuple[str, ...]] = [("workers", "batches per second")]
    rows += [(name, f"{figure:.0f}") for name, figure in in_turn(runs).items()]
    table(f"{LANES} rows of 1 MiB that cost nothing but a copy", rows)


def main() -> None:
    overhead()
    limit()
    cpu()
    spread()
