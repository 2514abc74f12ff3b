"""The same work in every library, in one run.

Every run has a process of its own. It reads for `SECONDS` after the first `WARM` results. In one run are
measured: results per second, seconds to the first result, CPU time of the consumer's process for a result,
and memory of a worker. The first result and the last are checked.

The limit is measured in the same rounds: two processes that compute the same and hand nothing over.

After each ratio stands that of the last tag in parentheses, if the tag has one.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from .last_tag import compared, last_tag
from .measure import apart, in_rounds, keep, table
from .peers import installed, loop, seqkit
from .work import WORKERS, Unsuited, Work

SECONDS, ROUNDS, WARM, BUFFERS = 0.3, 2, 8, 3
RATIOS = ("seqkit / it: rate", "first", "CPU", "memory")  # of the figures
LIMIT = f"bare processes, {BUFFERS} buffers each"
ENDLESS = 10**7


class Endless:
    """A data set that no run reads to its end."""

    def __len__(self) -> int:
        return ENDLESS


class Found(NamedTuple):
    """The figures of one run."""

    per_second: float
    first_ms: float
    consumer_us: float  # CPU time of the consumer's process for a result
    worker_mib: float  # PSS: memory shared by n processes counts as 1/n in each


def leaf(result: Any) -> Any:
    return np.asarray(next(iter(result.values())) if isinstance(result, dict) else result)


def descendants(pid: int) -> Iterator[int]:
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield int(child)
            yield from descendants(int(child))


def memory_of_workers() -> float:
    """Return the proportional set size of all processes below this one, in MiB."""
    texts = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in descendants(os.getpid()))
    return sum(int(text.split("Pss:")[1].split()[0]) for text in texts) / 1024


def read(
    make: Callable[[Work], Iterable[Any]],
    work: Work,
    seconds: float = SECONDS,
    held: int = 1,
    block: int = 1,
) -> Found:
    """Read for some seconds, look at the clock after each block of results, and keep the last `held`."""
    begun = perf_counter()
    iterator: Iterator[Any] = iter(make(work))
    item = next(iterator)
    first = perf_counter() - begun
    np.testing.assert_allclose(leaf(item), leaf(work.result(0)), 1e-6)  # Hugging Face has float32
    del item
    kept: deque[Any] = deque(islice(iterator, WARM), held)
    number = WARM
    begun, worked = perf_counter(), process_time()
    while perf_counter() - begun < seconds:
        before = number
        for item in islice(iterator, block):
            kept.append(item)
            number += 1
        if number == before:
            break
        if work.nbytes:
            leaf(item).ravel()[::1024].sum()
    taken, worked = perf_counter() - begun, process_time() - worked
    memory = memory_of_workers() / WORKERS
    np.testing.assert_allclose(leaf(item), leaf(work.result(number)), 1e-6)
    timed = number - WARM
    return Found(timed / taken, first * 1e3, worked / max(timed, 1) * 1e6, memory)


def bare(work: Work) -> Found:
    """Compute in two processes, each into buffers that are there already, and hand nothing over."""
    context = get_context("fork")
    gate, counts = context.Barrier(WORKERS + 1), context.Array("q", WORKERS)

    def compute(worker: int) -> None:
        buffers = [work.result(k) for k in range(BUFFERS)]
        gate.wait()
        begun, k = perf_counter(), worker
        while perf_counter() - begun < SECONDS:
            buffers[k % BUFFERS] = work.result(k, buffers[k % BUFFERS])
            counts[worker] += 1
            k += WORKERS

    processes = [context.Process(target=compute, args=(worker,)) for worker in range(WORKERS)]
    for process in processes:
        process.start()
    gate.wait()
    for process in processes:
        process.join()
    return Found(sum(counts) / SECONDS, 0.0, 0.0, 0.0)


def compare(title: str, work: Work, limit: bool = True, around: Any = None, **options: Any) -> None:
    """Measure every library that can do the work. The first of `ROUNDS` shows which can."""
    runs: dict[str, Callable[[], Found | None]] = {}
    for name, make in {"seqkit": seqkit, "a loop": loop, **installed()}.items():
        run = partial(read, make, work, **options)
        runs[name] = partial(tried, f"{title}, {name}", partial(around, run) if around else run)
    if limit:
        runs[LIMIT] = partial(apart, partial(bare, work))
    rounds = in_rounds(runs, ROUNDS)
    found = {name: each for name, each in rounds.items() if None not in each}
    figures = {
        name: {field: [float(getattr(one, field)) for one in each] for field in Found._fields}
        for name, each in found.items()
    }
    keep(title, figures)
    now, before = ratios(figures), ratios(compared().get(title, {}))
    rows = []
    for name, fields in figures.items():
        shown = (f"{median(values):.4g}" for values in fields.values())
        rows.append((name, *shown, *map(beside, now[name], before.get(name, [""] * len(RATIOS)))))
    table(title, [(title, *Found._fields, *RATIOS), *rows])
    if before:
        print(f"  In parentheses: ratios of {last_tag()}.")


def ratios(figures: dict[str, dict[str, list[float]]]) -> dict[str, list[str]]:
    """Return seqkit's medians as multiples of those of each library, or "" where there is none."""
    medians = {
        name: [median(fields.get(field) or [0.0]) for field in Found._fields]
        for name, fields in figures.items()
    }
    return {
        name: [f"{ours / its:.2f}" if its else "" for ours, its in zip(medians["seqkit"], one, strict=True)]
        for name, one in medians.items()
    }


def beside(now: str, before: str) -> str:
    """Return a ratio with that of the last tag.

    >>> beside("1.90", "1.85"), beside("1.90", "")
    ('1.90 (1.85)', '1.90')
    """
    return f"{now} ({before})" if before else now


def tried(who: str, run: Callable[[], Found]) -> Found | None:
    """Return None if the library cannot do the work, and say how it failed if it did not say so itself."""
    try:
        return apart(run)
    except RuntimeError as error:
        if Unsuited.__name__ not in str(error):
            print(f"{who}: {error}", file=sys.stderr)
        return None
