"""The CPU time that `profile`, `watch` and SEQKIT_PROFILE_EVERY take, in all processes of a program.

A run reads a fixed number of items with two workers, in an interpreter of its own, because the places of code
and objects in memory change the speed by several percent. A run that looks and a run that does not look take
place at the same time, because the speed of a virtual CPU changes from second to second. A row has the median
of the ratios of fifteen rounds, and the smallest and the largest.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import sleep
from typing import Any

import numpy as np

import seqkit as sk
from seqkit.observe import every
from seqkit.observe.probe import Recording
from seqkit.observe.profile import _ProbedPipeline

from .measure import consume, table

ROUNDS = 15


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
PIPELINES: dict[str, tuple[Callable[[], Any], int, Any]] = {
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
        pipeline = _ProbedPipeline(node, Recording(directory))
        yield from pipeline.view
        for _, copy in pipeline.nodes:
            copy.close()


def with_watch(node: Any) -> Any:
    return sk.watch(node, lambda status: None)


def with_lines(node: Any) -> Any:
    every.install("1000")
    return node


WAYS: dict[str, Callable[[Any], Any]] = {
    "profile": with_probes,
    "watch": with_watch,
    "SEQKIT_PROFILE_EVERY=1000": with_lines,
    "nobody": not_at_all,
}


@contextmanager
def silent() -> Iterator[None]:
    """Send what is printed on standard error nowhere."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        yield


def cpu_s(pipeline: str, way: str) -> float:
    """Return the CPU seconds that reading all items takes, in this process and in its workers."""
    build, workers, method = PIPELINES[pipeline]
    began_s = sum(os.times()[:4])
    with silent(), sk.prefetch(build(), workers, method) as node:
        consume(WAYS[way](node))
    return sum(os.times()[:4]) - began_s


def apart(pipeline: str, way: str) -> float:
    """Return the CPU seconds in a fresh interpreter."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.bench_looking", pipeline, way]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def compared(pipeline: str, way: str) -> tuple[str, str]:
    """Return the median of the ratios, and their spread, as percentages above 1."""
    ratios = []
    for number in range(ROUNDS):
        with ThreadPoolExecutor(2) as pool:  # the first one to start may get the better CPU
            turn = (way, "nobody") if number % 2 else ("nobody", way)
            runs = {each: pool.submit(apart, pipeline, each) for each in turn}
        ratios.append(100 * (runs[way].result() / runs["nobody"].result() - 1))
    return f"{statistics.median(ratios):+.1f} %", f"{min(ratios):+.1f} to {max(ratios):+.1f} %"


def main() -> None:
    rows = []
    for pipeline in PIPELINES:
        for way in list(WAYS)[:-1]:
            rows.append((pipeline, way, *compared(pipeline, way)))
            print(rows[-1], flush=True)
    table("CPU time of looking", [("pipeline", "looked at by", "median", "rounds"), *rows])


if __name__ == "__main__":
    print(cpu_s(*sys.argv[1:]))
