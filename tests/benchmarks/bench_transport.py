"""Results through process workers: arrays that exist already, and ints; beside other libraries.

Every run has a process of its own and reads for about half a second, in which the slowest peer still hands
over some fifty results. None of them counts before the first `WARM` have been read, nor the end of the
iteration, which takes some peers a second: in between rates are steady. The first result and the last are
compared with what they should be. Whole pipelines are in `bench_pipelines`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np

import seqkit as sk

from .measure import apart, in_turn, table
from .peers import WORKERS, Work, installed, seqkit

WARM = 16
SECONDS = 0.5
# Hugging Face has no such items. The others move less than a tenth of the fastest.
LEFT_OUT = {"Hugging Face datasets", "joblib", "mpire", "multiprocessing.Pool"}

Make = Callable[[Work], Iterable[Any]]
Peers = dict[str, Make]


def check(found: Any, expected: Any) -> None:
    if not np.array_equal(np.asarray(found), expected):
        raise AssertionError("a result is wrong")


def rate(
    results: Iterable[Any], count: int, expected: Callable[[int], Any], touch: Callable[[Any], Any], held: int
) -> float:
    """Read all results and keep the last `held`; return how many a second."""
    iterator: Iterator[Any] = iter(results)
    check(next(iterator), expected(0))
    kept = deque(islice(iterator, WARM - 1), maxlen=held)
    begun = perf_counter()
    for item in islice(iterator, count - WARM - 1):
        touch(item)
        kept.append(item)
        del item
    taken = perf_counter() - begun
    check(next(iterator), expected(count - 1))
    assert not list(iterator), "there are more results than items"
    return (count - WARM - 1) / taken


class Run:
    """A run in a process of its own, of as many results as the round before would have read in so long."""

    def __init__(self, measured: Callable[[int], float], count: int = 64, seconds: float = SECONDS) -> None:
        self.measured, self.count, self.seconds = measured, count, seconds

    def __call__(self) -> float:
        figure = apart(partial(self.measured, self.count))
        self.count = max(64, WARM + int(figure * self.seconds))
        return figure


class Same:
    """One array, over and over."""

    def __init__(self, array: Any, count: int) -> None:
        self.array, self.count = array, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Any:
        return self.array


def arrays(peers: Peers) -> None:
    def measured(mebibytes: int, held: int) -> dict[str, float]:
        array = np.arange(mebibytes * 2**18, dtype=np.float32)

        def reading(make: Make, count: int) -> float:
            results = make(Work(Same(array, count), nbytes=array.nbytes))
            return rate(results, count, lambda _: array, lambda item: item[::1024].sum(), held)

        makers = {"seqkit": seqkit, **peers}
        found = in_turn({name: Run(partial(reading, make)) for name, make in makers.items()}, rounds=3)
        return {name: value * mebibytes / 1024 for name, value in found.items()}

    rows = [("GB/s", "held", "seqkit", *peers, "seqkit to the best")]
    for mebibytes in (4, 32):
        for held in (0, 2, 6):
            ours, *theirs = measured(mebibytes, held).values()
            ratio = f"{ours / max(theirs):.2f}" if theirs else "-"
            rows.append(
                (f"{mebibytes} MiB", str(held), f"{ours:.1f}", *(f"{value:.1f}" for value in theirs), ratio)
            )
    table("arrays that exist already", rows)


def ints(peers: Peers) -> None:
    def reading(make: Make, count: int) -> float:
        iterator = iter(make(Work(range(count))))
        total = sum(islice(iterator, WARM))
        begun = perf_counter()
        total += sum(islice(iterator, count - WARM - 1))
        taken = perf_counter() - begun
        check(total + sum(iterator), count * (count - 1) // 2)
        return (count - WARM - 1) / taken

    def ours(chunk: Any, work: Work) -> Iterable[int]:
        return sk.prefetch(work.dataset, WORKERS, "process", chunk_size=chunk)  # type: ignore[no-any-return]

    counts = {
        "seqkit, automatic chunks": (partial(ours, "auto"), 2_000_000),
        "seqkit, chunks of one": (partial(ours, 1), 20_000),
        **{name: (peer, 2_000) for name, peer in peers.items()},
    }
    # For a tenth of a second the system shifts processes that cost next to nothing between the cores.
    runs = {name: Run(partial(reading, make), count, seconds=2.0) for name, (make, count) in counts.items()}
    found = in_turn(runs, rounds=3)
    table("one int per item, per second", [(name, f"{value:,.0f}") for name, value in found.items()])


def main() -> None:
    peers = {name: peer for name, peer in installed().items() if name not in LEFT_OUT}
    arrays(peers)
    ints(peers)
