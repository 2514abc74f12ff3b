"""Results through process workers: stacked batches, arrays, ints; beside torch, Grain, SPDL and SeqTools.

Every run has a process of its own and reads for about half a second, in which the slowest peer still hands
over some fifty results. None of them counts before the first `WARM` have been read, nor the end of the
iteration, which takes some peers a second: in between rates are steady. The first result and the last are
compared with what they should be.

SPDL passes large results through its segment pool. One process fills such a pool, so beside its row there is
one of two processes with a pool each, read in turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from multiprocessing import get_context
from time import perf_counter, process_time
from typing import Any

import numpy as np

import seqkit as sk

from .measure import apart, in_turn, table
from .peers import BATCH, SHAPE, WORKERS, Images, Peer, installed

WARM = 16
SECONDS = 0.5


def check(found: Any, expected: Any) -> None:
    if not np.array_equal(np.asarray(found), expected):
        raise AssertionError("a result is wrong")


def rate(
    results: Iterable[Any], count: int, expected: Callable[[int], Any], touch: Callable[[Any], Any], held: int
) -> tuple[float, float]:
    """Read all results and keep the last `held`; return how many a second, and the reader's CPU us each."""
    iterator: Iterator[Any] = iter(results)
    check(next(iterator), expected(0))
    kept = deque(islice(iterator, WARM - 1), maxlen=held)
    begun, worked = perf_counter(), process_time()
    for item in islice(iterator, count - WARM - 1):
        touch(item)
        kept.append(item)
        del item
    taken, worked = perf_counter() - begun, process_time() - worked
    check(next(iterator), expected(count - 1))
    assert not list(iterator), "there are more results than items"
    timed = count - WARM - 1
    return timed / taken, worked / timed * 1e6


class Run:
    """A run in a process of its own, of as many results as the round before would have read in so long."""

    def __init__(
        self, measured: Callable[[int], tuple[float, float]], count: int = 64, seconds: float = SECONDS
    ) -> None:
        self.measured, self.count, self.seconds, self.cpu = measured, count, seconds, 0.0

    def __call__(self) -> float:
        figure, self.cpu = apart(partial(self.measured, self.count))
        self.count = max(64, WARM + int(figure * self.seconds))
        return figure


def stacked(samples: list[Any]) -> Any:
    return np.stack(samples, out=sk.empty((len(samples), *SHAPE), np.float32))


def nobody_reads(images: Images, buffers: int, count: int) -> tuple[float, float]:
    """Stack in two processes, each into memory of its own that is there already, and hand nothing over."""
    context = get_context("fork")
    gate = context.Barrier(WORKERS + 1)

    def work(first: int) -> None:
        outs = [np.ones((BATCH, *SHAPE), np.float32) for _ in range(buffers)]
        gate.wait()
        for k in range(count // WORKERS):
            images.stacked(first + k, outs[k % buffers])
        gate.wait()

    processes = [context.Process(target=work, args=(first,)) for first in range(WORKERS)]
    for process in processes:
        process.start()
    gate.wait()
    begun = perf_counter()
    gate.wait()
    taken = perf_counter() - begun
    for process in processes:
        process.join()
    return count // WORKERS * WORKERS / taken, 0.0


LIMIT = "two processes, nobody reads, {} each"


def batches(peers: dict[str, Peer]) -> None:
    resident = Images(0).images

    def reading(make: Callable[[Images], Iterable[Any]], count: int) -> tuple[float, float]:
        images = Images(count, resident)
        return rate(make(images), count, images.stacked, lambda batch: batch.reshape(-1)[0], held=1)

    def serial(images: Images) -> sk.View[Any]:
        return sk.batch(images, BATCH, collate_fn=stacked)

    makers: dict[str, Callable[[Images], Iterable[Any]]] = {
        "serial": serial,
        "seqkit": lambda images: sk.prefetch(serial(images), WORKERS, "process"),
        "seqkit DataLoader": lambda images: sk.DataLoader(images, BATCH, num_workers=WORKERS),
        **{name: peer.batches for name, peer in peers.items()},
    }
    runs = {name: Run(partial(reading, make)) for name, make in makers.items()}
    one, three = LIMIT.format("1 buffer"), LIMIT.format("3 buffers")
    runs[one] = Run(partial(nobody_reads, Images(0, resident), 1))
    runs[three] = Run(partial(nobody_reads, Images(0, resident), 3))
    found = in_turn(runs)
    ours = found["seqkit"]
    rows: list[tuple[str, ...]] = [
        ("18 MiB stacked batches, 2 workers", "per second", "seqkit is", "reader CPU us")
    ]
    rows += [
        (name, f"{value:.0f}", f"{ours / value:.2f}x", f"{runs[name].cpu:.0f}")
        for name, value in found.items()
    ]
    table("stacked batches", rows)
    print(f"  A reader needs some to be alive: seqkit reaches {ours / found[three]:.0%} of {three}.")


def arrays(peers: dict[str, Peer]) -> None:
    def measured(mebibytes: int, held: int) -> dict[str, float]:
        array = np.arange(mebibytes * 2**18, dtype=np.float32)

        def make(_: int) -> Any:
            return array

        def reading(items: Callable[[Any, int, int], Iterable[Any]], count: int) -> tuple[float, float]:
            results = items(make, count, array.nbytes)
            return rate(results, count, make, lambda item: item[::1024].sum(), held)

        def ours(make: Callable[[int], Any], count: int, _: int) -> Iterable[Any]:
            return sk.prefetch(sk.smap(make, range(count)), WORKERS, "process")

        makers = {"seqkit": ours, **{name: peer.items for name, peer in peers.items()}}
        found = in_turn({name: Run(partial(reading, items)) for name, items in makers.items()}, rounds=3)
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


def ints(peers: dict[str, Peer]) -> None:
    def reading(results: Callable[[int], Iterable[Any]], count: int) -> tuple[float, float]:
        iterator = iter(results(count))
        total = sum(islice(iterator, WARM))
        begun = perf_counter()
        total += sum(islice(iterator, count - WARM - 1))
        taken = perf_counter() - begun
        check(total + sum(iterator), count * (count - 1) // 2)
        return (count - WARM - 1) / taken, 0.0

    def ours(chunk: Any, count: int) -> Iterable[int]:
        return sk.prefetch(range(count), WORKERS, "process", chunk_size=chunk, max_buffered=None)

    def theirs(peer: Peer, count: int) -> Iterable[int]:
        return peer.items(int, count, 0)

    counts = {
        "seqkit, automatic chunks": (partial(ours, "auto"), 2_000_000),
        "seqkit, chunks of one": (partial(ours, 1), 20_000),
        **{name: (partial(theirs, peer), 2_000) for name, peer in peers.items()},
    }
    # For a tenth of a second the system shifts processes that cost next to nothing between the cores.
    runs = {
        name: Run(partial(reading, results), count, seconds=2.0) for name, (results, count) in counts.items()
    }
    found = in_turn(runs, rounds=3)
    table("one int per item, per second", [(name, f"{value:,.0f}") for name, value in found.items()])


def main() -> None:
    peers = installed()
    batches(peers)
    arrays(peers)
    ints(peers)
