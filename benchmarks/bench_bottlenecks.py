"""The cause that `profile` names, for real pipelines whose bottleneck is known, each profiled three times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import sleep
from typing import Any

import numpy as np

import seqkit as sk

from .measure import apart, table

N = 10**8
ROUNDS = 3
LARGE = np.random.default_rng(0).random(100_000)


def python(i: Any) -> int:
    return sum(k & 3 for k in range(20_000))


def released(i: Any) -> Any:
    return np.sort(LARGE)[:3]


def waits(i: Any) -> Any:
    sleep(0.01)
    return i


def fail(i: Any) -> Any:
    raise ValueError("bad file")


def large(i: Any) -> Any:
    return np.ones((256, 1024))


def growing(i: Any) -> Any:
    return np.ones(10 if i < 8 else 300_000)


class Rows:
    """A data set that can only be iterated."""

    def __iter__(self) -> Iterator[int]:
        for i in range(10**6):
            sleep(0.002)
            yield i


def node(f: Callable[[Any], Any], *workers: Any, **settings: Any) -> Any:
    return sk.prefetch(sk.smap(f, range(N)), *workers, **settings)


def nested(lower: int, upper: int) -> Any:
    return sk.prefetch(sk.smap(python, node(waits, lower)), upper, "process")


def loader(data: Any, **settings: Any) -> Any:
    return sk.DataLoader(data, batch_size=8, **settings)


# The pipeline, and its cause.
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "sleep, without workers": (lambda: sk.smap(waits, range(N)), "few workers"),
    "Python, without workers": (lambda: sk.smap(python, range(N)), "few workers"),
    "numpy, without workers": (lambda: sk.smap(released, range(N)), "few workers"),
    "sleep, 2 threads": (lambda: node(waits, 2), "few workers"),
    "Python, 1 process": (lambda: node(python, 1, "process"), "few workers"),
    "Python, 2 threads": (lambda: node(python, 2), "interpreter lock"),
    "Python, 2 processes": (lambda: node(python, 2, "process"), "slow stage"),
    "sleep, 32 threads": (lambda: node(waits, 32), "slow stage"),
    "tiny items, 2 processes": (lambda: node(abs, 2, "process"), "tiny items"),
    "tiny items, chunks of 1": (lambda: node(abs, 2, "process", chunk_size=1), "tiny items"),
    "a loader that sleeps, 1 thread": (
        lambda: loader(sk.smap(waits, range(N)), num_workers=1, method="thread"),
        "few workers",
    ),
    "a loader of Python, without workers": (
        lambda: loader(sk.smap(python, range(N))),
        "few workers",
    ),
    "a stage above the node": (
        lambda: sk.smap(waits, node(abs, 2)),
        "stage above the node",
    ),
    "nodes, the upper one computes": (lambda: nested(32, 1), "few workers"),
    "nodes, the lower one sleeps": (lambda: nested(4, 2), "few workers"),
    "an iterable": (lambda: sk.uniter(Rows()), "one worker reads it"),
    "an iterable below a node": (lambda: sk.prefetch(sk.uniter(Rows()), 2), "one worker reads it"),
    "a loader of an iterable": (lambda: loader(Rows(), num_workers=1), "one worker reads it"),
    "slots that are too small": (lambda: node(growing, 2, "process", shm_size=1 << 20), "small slots"),
    "items that all fail": (lambda: node(fail, 2), "failures"),
    "no items": (lambda: sk.prefetch([], 2), "no items"),
}


def main() -> None:
    rows = [("pipeline", "cause", "found", "right")]
    for title, (build, cause) in CASES.items():
        found = [
            apart(lambda b=build: sk.profile(b()).diagnosis.cause)  # type: ignore[misc]
            for _ in range(ROUNDS)
        ]
        rows.append((title, cause, ", ".join(dict.fromkeys(found)), f"{found.count(cause)} of {ROUNDS}"))
        print(rows[-1], flush=True)
    table("diagnoses of pipelines with a known bottleneck", rows)
