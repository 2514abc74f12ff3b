"""The CPU time that `profile`, `watch` and SEQKIT_PROFILE_EVERY take, in all processes of a program.

A run reads a fixed number of items with two workers, in a process of its own. A run that looks and a run that
does not look take place at the same time, because the speed of a virtual CPU changes from second to second. A
row has the median of the ratios of ten rounds, and the smallest and the largest.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from time import perf_counter, sleep
from typing import Any

import numpy as np

import seqkit as sk
from seqkit.observe import every
from seqkit.observe.probe import Recording
from seqkit.observe.profile import _ProbedPipeline

from .measure import apart, consume, table

ROUNDS = 10


def python(i: Any) -> int:
    return sum(k & 3 for k in range(10_000))


def sample(i: Any) -> int:
    return sum(k & 3 for k in range(1000))


def image(i: Any) -> Any:
    return np.full((256, 256, 3), i & 255, np.uint8)


def waits(i: Any) -> Any:
    sleep(0.005)
    return i


# The items to read, and the workers.
PIPELINES: dict[str, tuple[Callable[[], Any], int, str]] = {
    "Python of 0.3 ms, 2 processes": (lambda: sk.smap(python, range(12_000)), 2, "process"),
    "batches of 32 samples of 30 µs, 2 processes": (
        lambda: sk.batch(sk.smap(sample, sk.shuffle(range(120_000), seed=0)), 32, collate_fn=np.array),
        2,
        "process",
    ),
    "batches of 16 images, 2 processes": (
        lambda: sk.batch(sk.smap(image, range(60_000)), 16, collate_fn=np.stack),
        2,
        "process",
    ),
    "sleep of 5 ms, 16 threads": (lambda: sk.smap(waits, range(12_000)), 16, "thread"),
}


def not_at_all(node: Any) -> Any:
    return node


def with_probes(node: Any) -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as directory:
        pipeline = _ProbedPipeline.of(node, Recording(directory, perf_counter))
        yield from pipeline.view
        for _, copy in pipeline.nodes:
            copy.close()


def with_watch(node: Any) -> Any:
    return sk.watch(node, lambda status: None)


def with_lines(node: Any) -> Any:
    every.install("100")
    return node


WAYS = {"profile": with_probes, "watch": with_watch, "SEQKIT_PROFILE_EVERY=100": with_lines}


@contextmanager
def silent() -> Iterator[None]:
    """Send what is printed on standard error nowhere."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        yield


def cpu_s(build: Callable[[], Any], workers: int, method: Any, looking: Callable[[Any], Any]) -> float:
    """Return the CPU seconds of a program that reads all items: of this process, and of its workers."""
    with silent(), sk.prefetch(build(), workers, method) as node:
        consume(looking(node))
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def compared(pipeline: tuple[Callable[[], Any], int, str], looking: Callable[[Any], Any]) -> tuple[str, str]:
    """Return the median of the ratios, and their spread, as percentages above 1."""
    ratios, ways = [], (not_at_all, looking)
    for number in range(ROUNDS):
        with ThreadPoolExecutor(2) as pool:  # the first one to start may get the better CPU
            turn = ways if number % 2 else ways[::-1]
            runs = {way: pool.submit(apart, partial(cpu_s, *pipeline, way)) for way in turn}
        without, with_it = (runs[way].result() for way in ways)
        ratios.append(100 * (with_it / without - 1))
    return f"{statistics.median(ratios):+.1f} %", f"{min(ratios):+.1f} to {max(ratios):+.1f} %"


def main() -> None:
    rows = []
    for title, pipeline in PIPELINES.items():
        for way, looking in WAYS.items():
            rows.append((title, way, *compared(pipeline, looking)))
            print(rows[-1], flush=True)
    table("CPU time of looking", [("pipeline", "looked at by", "median", "rounds"), *rows])
