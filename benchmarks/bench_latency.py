"""How soon: the first item, the next epoch, closing, threads."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from itertools import islice
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

import seqkit as sk

from .bench_coroutines import AT_ONCE, REQUEST_S, REQUESTS, alone, request
from .measure import consume, in_turn, seconds, table


def first_item(context: Any) -> float:
    node = sk.prefetch(sk.smap(abs, range(1000)), 2, "process", context=context)
    taken = seconds(lambda: next(iter(node)))
    node.close()
    return taken * 1e3


def next_epoch(method: Any) -> float:
    with sk.prefetch(sk.shuffle(range(1000), seed=0), 2, method) as node:
        list(node)
        return seconds(lambda: next(iter(node.at_epoch(1)))) * 1e3


def closing() -> float:
    node = sk.prefetch(range(1000), 2, "process").start()
    list(node)
    return seconds(node.close) * 1e3


def importing(modules: str) -> float:
    return seconds(lambda: subprocess.run([sys.executable, "-c", f"import {modules}"], check=True)) * 1e3


def importing_seqkit() -> float:
    """Return how much longer it takes to import seqkit than numpy alone, from .pyc files."""
    pairs = [(importing("numpy"), importing("numpy, seqkit")) for _ in range(20)]
    alone, both = map(median, zip(*pairs, strict=True))
    return both - alone


def threads_tiny() -> float:
    with sk.prefetch(range(10**6), 2, "thread") as node:
        return seconds(lambda: sum(node))


def threads_io(workers: int, ms: float, sleeps: int) -> float:
    """Return the share of what waiting threads could do that is done, without the first and last tenth."""

    def work(i: int) -> int:
        time.sleep(ms / 1e3)
        return i

    tenth = workers * sleeps // 10
    with sk.prefetch(sk.smap(work, range(10 * tenth)), workers, "thread") as node:
        iterator = iter(node)
        consume(islice(iterator, tenth))
        begun = perf_counter()
        consume(islice(iterator, 8 * tenth))
        taken = perf_counter() - begun
        assert sum(1 for _ in iterator) == tenth
    return 0.8 * threads_that_only_wait(workers, ms, sleeps) / taken


def threads_that_only_wait(workers: int, ms: float, sleeps: int) -> float:
    """Return how long the same number of sleeps takes in threads that hand nothing over."""
    gate = threading.Barrier(workers + 1)

    def work() -> None:
        gate.wait()
        for _ in range(sleeps):
            time.sleep(ms / 1e3)
        gate.wait()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    gate.wait()
    taken = seconds(gate.wait)
    for thread in threads:
        thread.join()
    return taken


def small_arrays() -> float:
    with sk.prefetch(
        sk.smap(lambda _: [np.zeros(16)] * 1 + [np.ones(16) for _ in range(127)], range(2000)), 2, "process"
    ) as node:
        iterator = iter(node)
        next(iterator)
        return seconds(lambda: sum(1 for _ in iterator)) / 1999 * 1e3


def large_array() -> float:
    """Return the CPU time of the consumer's process for an item."""
    made = np.ones(1 << 20)  # 8 MiB
    with sk.prefetch(sk.smap(lambda _: made, range(500)), 2, "process") as node:
        iterator = iter(node)
        next(iterator)
        begun = process_time()
        consume(iterator)
        return (process_time() - begun) / 499 * 1e3


def coroutines() -> tuple[float, float]:
    """Return the share of the ideal rate of coroutines in a node, and the CPU time of an item in µs."""
    with sk.prefetch(sk.smap(request, range(REQUESTS)), AT_ONCE, "async") as node:
        node[0]
        begun = process_time()
        taken = seconds(lambda: consume(iter(node)))
        return REQUESTS / AT_ONCE * REQUEST_S / taken, (process_time() - begun) / REQUESTS * 1e6


def coroutines_alone() -> float:
    """Return the CPU time in µs of one of the same coroutines in tasks that hand nothing over."""
    begun = process_time()
    alone()
    return (process_time() - begun) / REQUESTS * 1e6


def spawned() -> float:
    """Return how long the first item of two spawned workers takes, as a multiple of an import of numpy."""
    return first_item("spawn") / importing("numpy")


def main() -> None:
    found = in_turn(
        {
            "first item, fork, ms": lambda: first_item("fork"),
            "first item, forkserver, ms": lambda: first_item("forkserver"),
            "first item, spawn, ms": lambda: first_item("spawn"),
            "an interpreter importing numpy, ms": lambda: importing("numpy"),
            "first item, spawn, of an interpreter importing numpy": spawned,
            "import seqkit beyond numpy, ms": importing_seqkit,
            "next epoch's first item, processes, ms": lambda: next_epoch("process"),
            "next epoch's first item, threads, ms": lambda: next_epoch("thread"),
            "closing an idle node, ms": closing,
            "thread method, tiny items, us": threads_tiny,
            "64 threads of 1 ms I/O, of threads that only wait": lambda: threads_io(64, 1, 1000),
            "128 threads of 20 ms I/O, of threads that only wait": lambda: threads_io(128, 20, 100),
            "500 coroutines of 50 ms, of ideal": lambda: coroutines()[0],
            "the same, CPU beyond coroutines alone, us": lambda: coroutines()[1] - coroutines_alone(),
            "128 small arrays per item, ms": small_arrays,
            "one array of 8 MiB per item, CPU of the consumer, ms": large_array,
        },
        rounds=3,
    )
    table("latency", [(name, f"{value:.2f}") for name, value in found.items()])
