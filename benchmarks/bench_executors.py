"""What a task of an executor costs, and an array that it hands over: beside workers of the node's own.

Dask and Ray where they are installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np

import seqkit as sk

from .measure import consume, in_turn, seconds, table

WORKERS = 2
TASKS = 1000
ARRAYS = 20
ARRAY_BYTES = 18 << 20


@contextmanager
def dask() -> Iterator[str]:
    import distributed

    with distributed.Client(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None):
        yield "dask"


@contextmanager
def ray() -> Iterator[str]:
    import ray

    ray.init(num_cpus=WORKERS, include_dashboard=False, logging_level="ERROR", object_store_memory=10**9)
    yield "ray"
    ray.shutdown()


@contextmanager
def own(method: str) -> Iterator[str]:
    yield method


METHODS: dict[str, Any] = {
    "own threads": lambda: own("thread"),
    "own processes": lambda: own("process"),
    "pool of threads": lambda: ThreadPoolExecutor(WORKERS),
    "pool of processes": lambda: ProcessPoolExecutor(WORKERS, get_context("spawn")),
    "Dask": dask,
    "Ray": ray,
}
NEEDED = {"Dask": "distributed", "Ray": "ray"}


def array(i: int) -> Any:
    return np.full(ARRAY_BYTES // 8, i, np.float64)


def measured(method: Any) -> tuple[float, float]:
    """Return how many microseconds an int takes that comes singly, and how many arrays come in a second."""
    with (
        sk.prefetch(range(TASKS), WORKERS, method, chunk_size=1) as ints,
        sk.prefetch(sk.smap(array, range(ARRAYS)), WORKERS, method) as arrays,
    ):
        runs = {
            "ints": lambda: seconds(lambda: consume(ints)),
            "arrays": lambda: seconds(lambda: consume(arrays)),
        }
        took = in_turn(runs, rounds=3)
    return took["ints"] / TASKS * 1e6, ARRAYS / took["arrays"]


def main() -> None:
    rows: list[tuple[str, ...]] = [("", "µs per int", "18 MiB arrays/s")]
    for name, open_method in METHODS.items():
        if name in NEEDED and importlib.util.find_spec(NEEDED[name]) is None:
            continue
        with open_method() as method:
            per_int, per_second = measured(method)
        rows.append((name, f"{per_int:.0f}", f"{per_second:.0f}"))
    table(f"items by executors, {WORKERS} workers, chunks of one", rows)
