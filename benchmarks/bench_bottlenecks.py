"""The cause that `profile` names, for real pipelines whose bottleneck is known.

These are the causes that `bench_profile` leaves out because their remedy changes the view: stages above a
node, kept arrays, slots, caches, start-up, failures, nested nodes and loaders.
"""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import Any

import numpy as np

import seqkit as sk

from .bench_profile import N, python, rate, waits
from .measure import apart, in_turn, table

kept: list[Any] = []


def keep(item: Any) -> None:
    kept.append(item)
    sleep(0.001)


def augment(item: Any, rng: Any) -> Any:
    sleep(0.002)
    return item


def fail(i: Any) -> Any:
    raise ValueError("bad file")


def large(i: Any) -> Any:
    return np.ones((256, 1024))


def growing(i: Any) -> Any:
    return np.ones(10 if i < 8 else 300_000)


def train(item: Any) -> None:
    sleep(0.02)


class Records:
    """Many small objects, which are pickled for workers that are not forked."""

    def __init__(self) -> None:
        self.items = [{"name": str(i), "values": [i] * 10} for i in range(400_000)]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]["values"]


def cached(view: Any) -> Any:
    return sk.prefetch(sk.add_cache(view, 3000), 2)


def nested(lower: int, upper: int) -> Any:
    downloaded = sk.prefetch(sk.smap(waits, range(N)), lower)
    return sk.prefetch(sk.smap(python, downloaded), upper, "process")


def loader(**settings: Any) -> Any:
    return sk.DataLoader(sk.smap(waits, range(200_000)), batch_size=8, **settings)


# The pipeline, the cause, the consumer's step, and the pipeline after the remedy, if its rate is predicted.
Case = tuple[Callable[[], Any], str, Callable[[Any], None] | None, Callable[[], Any] | None]
CASES: dict[str, Case] = {
    "a stage above the node": (
        lambda: sk.smap(waits, sk.prefetch(sk.smap(abs, range(N)), 2)),
        "stage above the node",
        None,
        lambda: sk.prefetch(sk.smap(waits, sk.smap(abs, range(N))), 2),
    ),
    "a chunk of 100 slow items": (
        lambda: sk.prefetch(sk.smap(waits, range(600)), 4, chunk_size=100, max_buffered=400),
        "large chunks",
        None,
        lambda: sk.prefetch(sk.smap(waits, range(N)), 4, max_buffered=400),
    ),
    "nodes, the upper one computes": (lambda: nested(32, 1), "few workers", None, lambda: nested(32, 2)),
    "nodes, the lower one sleeps": (lambda: nested(4, 2), "few workers", None, lambda: nested(32, 2)),
    "nodes, the lower one sleeps, then the upper": (
        lambda: nested(4, 1),
        "few workers",
        None,
        lambda: nested(32, 1),
    ),
    "a loader that sleeps, 1 worker": (
        lambda: loader(num_workers=1, method="thread"),
        "few workers",
        None,
        lambda: loader(num_workers=32, method="thread"),
    ),
    "a loader, and a slow step": (
        lambda: sk.DataLoader(sk.smap(abs, range(200_000)), batch_size=4, num_workers=2),
        "slow consumer",
        train,
        None,
    ),
    "arrays that are kept": (
        lambda: sk.prefetch(sk.smap(large, range(1000)), 2, "process"),
        "kept arrays",
        keep,
        None,
    ),
    "slots that are too small": (
        lambda: sk.prefetch(sk.smap(growing, range(N)), 2, "process", shm_size=1 << 20),
        "small slots",
        None,
        None,
    ),
    "a cache above random items": (
        lambda: cached(sk.random_map(augment, range(3000), seed=0)),
        "cache above shuffle",
        None,
        None,
    ),
    "a cache above a shuffle": (
        lambda: cached(sk.shuffle(sk.smap(waits, range(3000)), seed=0)),
        "cache above shuffle",
        None,
        None,
    ),
    "objects that are copied": (
        lambda: sk.prefetch(Records(), 2, "process", context="spawn"),
        "copied at start",
        None,
        None,
    ),
    "items that all fail": (lambda: sk.prefetch(sk.smap(fail, range(N)), 2), "failures", None, None),
}


def diagnosed(case: Case) -> tuple[str, float]:
    """Return the cause and the predicted rate."""
    found = sk.profile(case[0](), step=case[2])
    return found.diagnosis.cause, found.diagnosis.rate or found.rate


def row(title: str, case: Case) -> tuple[str, ...]:
    """Return a row of the table. Predicted rates are measured in turn with those after the remedy."""
    _, cause, step, after = case
    if after is None:
        return title, cause, apart(lambda: diagnosed(case))[0], "", "", ""
    causes: list[str] = []

    def predict() -> float:
        found, predicted = apart(lambda: diagnosed(case))
        causes.append(found)
        return predicted

    figures = in_turn({"predicted": predict, "after": lambda: apart(lambda: rate(after(), step))}, 3)
    predicted, reached = figures["predicted"], figures["after"]
    names = ", ".join(dict.fromkeys(causes))
    return title, cause, names, f"{predicted:,.4g}", f"{reached:,.4g}", f"{predicted / reached:.2f}"


def main() -> None:
    head = ("pipeline", "cause", "found", "predicted items/s", "after", "ratio")
    table("diagnoses of pipelines with a known bottleneck", [head, *(row(*pair) for pair in CASES.items())])
