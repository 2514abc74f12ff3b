"""How soon: the first item, the next epoch, the end of a straggler, closing, threads."""

from __future__ import annotations

import subprocess
import sys
import time
from time import perf_counter
from typing import Any

import seqkit as sk

from .measure import in_turn, seconds, table


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


def importing_numpy() -> float:
    return seconds(lambda: subprocess.run([sys.executable, "-c", "import numpy"], check=True)) * 1e3


def straggler() -> float:
    def work(i: int) -> int:
        time.sleep(0.05 if i else 1.0)
        return i

    with sk.prefetch(sk.smap(work, range(24)), 2, "process") as node:
        node.start()
        return seconds(lambda: list(node))


def threads_tiny() -> float:
    with sk.prefetch(range(10**6), 2, "thread") as node:
        return seconds(lambda: sum(node))


def threads_io() -> float:
    def work(i: int) -> int:
        time.sleep(0.001)
        return i

    with sk.prefetch(sk.smap(work, range(64 * 200)), 64, "thread") as node:
        begun = perf_counter()
        assert sum(1 for _ in node) == 64 * 200
        return 0.2 / (perf_counter() - begun)


def small_arrays() -> float:
    import numpy as np

    with sk.prefetch(
        sk.smap(lambda _: [np.zeros(16)] * 1 + [np.ones(16) for _ in range(127)], range(2000)), 2, "process"
    ) as node:
        iterator = iter(node)
        next(iterator)
        return seconds(lambda: sum(1 for _ in iterator)) / 1999 * 1e3


def main() -> None:
    found = in_turn(
        {
            "first item, fork, ms": lambda: first_item("fork"),
            "first item, forkserver, ms": lambda: first_item("forkserver"),
            "first item, spawn, ms": lambda: first_item("spawn"),
            "an interpreter importing numpy, ms": importing_numpy,
            "next epoch's first item, processes, ms": lambda: next_epoch("process"),
            "next epoch's first item, threads, ms": lambda: next_epoch("thread"),
            "closing an idle node, ms": closing,
            "straggler of 1 s among 24 x 50 ms, s": straggler,
            "thread method, tiny items, us": threads_tiny,
            "64 threads of 1 ms I/O, share of ideal": threads_io,
            "128 small arrays per item, ms": small_arrays,
        },
        rounds=3,
    )
    table("latency", [(name, f"{value:.2f}") for name, value in found.items()])
