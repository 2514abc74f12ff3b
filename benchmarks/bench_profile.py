"""The rate that a diagnosis predicts, against the rate after following its remedy, for real pipelines.

A pipeline is profiled and then measured with the remedy, in turn, each time in a process of its own. The
table has medians.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter, sleep
from typing import Any

import numpy as np

import seqkit as sk

from .measure import apart, consume, in_turn, table

N = 10**8
RUN_S = 1.5
LARGE = np.random.default_rng(0).random(100_000)


def python(i: Any) -> int:
    return sum(k & 3 for k in range(20_000))


def released(i: Any) -> Any:
    return np.sort(LARGE)[:3]


def waits(i: Any) -> Any:
    sleep(0.01)
    return i


def straggles(i: Any) -> Any:
    sleep(0.3 if i % 60 == 59 else 0.005)
    return i


def load(file: int) -> int:
    sleep(0.005)
    return file


def step(item: Any) -> None:
    sleep(0.003)


def prefetched(view: Any, **settings: Any) -> Callable[..., Any]:
    """Return a function that builds the node of a view, with settings of a remedy over these."""

    def build(**changes: Any) -> Any:
        return sk.prefetch(view, **(settings | changes))

    return build


def optionally(view: Any) -> Callable[..., Any]:
    """Return a function that builds the node of a view with settings, or returns the view without them."""
    return lambda **settings: sk.prefetch(view, **settings) if settings else view


FILES = np.arange(200) % 8  # the file of each item


def files(**changes: Any) -> Any:
    return sk.smap(load, range(8))[FILES]


def cached(**changes: Any) -> Any:
    return sk.add_cache(sk.smap(load, range(8)), 8)[FILES]


# The function that builds a pipeline, the cause, the consumer's step, and the pipeline after the remedy.
Case = tuple[Callable[..., Any], str, Callable[[Any], None] | None, Callable[..., Any] | None]
CASES: dict[str, Case] = {
    "sleep, without workers": (
        optionally(sk.smap(waits, range(N))),
        "few workers",
        None,
        None,
    ),
    "Python, without workers": (
        optionally(sk.smap(python, range(N))),
        "few workers",
        None,
        None,
    ),
    "numpy, without workers": (
        optionally(sk.smap(released, range(N))),
        "few workers",
        None,
        None,
    ),
    "sleep, 2 threads": (prefetched(sk.smap(waits, range(N)), nworkers=2), "few workers", None, None),
    "sleep, 1 thread, with a step": (
        prefetched(sk.smap(waits, range(N)), nworkers=1),
        "few workers",
        step,
        None,
    ),
    "Python, 1 process": (
        prefetched(sk.smap(python, range(N)), nworkers=1, method="process"),
        "few workers",
        None,
        None,
    ),
    "Python, 2 threads": (prefetched(sk.smap(python, range(N)), nworkers=2), "interpreter lock", None, None),
    "tiny items, 2 processes": (
        prefetched(sk.smap(abs, range(N)), nworkers=2, method="process"),
        "tiny items",
        None,
        None,
    ),
    "tiny items, chunks of 1": (
        prefetched(sk.smap(abs, range(N)), nworkers=2, method="process", chunk_size=1),
        "small chunks",
        None,
        None,
    ),
    "a slow consumer": (prefetched(sk.smap(abs, range(N)), nworkers=1), "slow consumer", step, None),
    "files loaded again": (files, "loaded again", None, cached),
    "a straggler": (
        prefetched(sk.smap(straggles, range(N)), nworkers=4, max_buffered=8),
        "straggler",
        None,
        None,
    ),
}


def rate(view: Any, work: Callable[[Any], None] | None) -> float:
    """Return the items per second, without the start."""
    begun = perf_counter()
    items = iter(view) if work is None else map(work, view)
    if len(view) <= len(FILES):
        consume(items)
        return len(view) / (perf_counter() - begun)
    consume(islice(items, 4))
    read_for(items, 0.3)
    count, taken = read_for(items, RUN_S)
    return count / taken


def read_for(items: Iterator[Any], least_s: float) -> tuple[int, float]:
    """Read items in C, in ever longer runs. Return how many came, and the seconds that they took."""
    count, size, begun = 0, 1, perf_counter()
    while (now := perf_counter()) - begun < least_s:
        consume(islice(items, size))
        count, size = count + size, size if perf_counter() - now > 0.01 else 2 * size
    return count, now - begun


def diagnosed(case: Case) -> tuple[str, float, float, dict[str, Any]]:
    """Return the cause, the rates that were measured and predicted, and the settings of the remedy."""
    found = sk.profile(case[0](), step=case[2])
    return found.diagnosis.cause, found.rate, found.diagnosis.rate or found.rate, found.diagnosis.settings


def compared(title: str, case: Case) -> tuple[str, ...]:
    """Return a row of the table."""
    causes, settings = [], {}

    def predict() -> float:
        nonlocal settings
        cause, _, predicted, settings = apart(lambda: diagnosed(case))
        causes.append(cause)
        return predicted

    def follow() -> float:
        return apart(lambda: rate((case[3] or case[0])(**settings), case[2]))

    figures = in_turn({"predicted": predict, "after": follow}, 3)
    ratio = figures["predicted"] / figures["after"]
    right = f"{causes.count(case[1])} of {len(causes)}"
    return title, case[1], right, *(f"{figure:,.4g}" for figure in figures.values()), f"{ratio:.2f}"


def main() -> None:
    head = ("pipeline", "cause", "found", "predicted items/s", "after", "ratio")
    table("diagnoses of real pipelines", [head, *(compared(title, case) for title, case in CASES.items())])
