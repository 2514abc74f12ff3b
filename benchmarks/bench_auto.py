"""`method="auto"` against the best of many settings, for several kinds of items.

A run reads a node for some time, without the start of its workers. It holds an item until the next one comes,
as a loop does. The search tries every setting once. The best one and "auto", which chooses anew in each run,
are then measured in turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import perf_counter, sleep
from typing import Any

import numpy as np

import seqkit as sk

from .measure import apart, in_turn, table

WARM_S, RUN_S = 0.3, 0.6
WORKERS = (1, 2, 4, 8, 16, 32)
N = 10**7

noise = np.random.default_rng(0).random(100_000)


def python(i: Any) -> int:
    return sum(k & 3 for k in range(20_000))


def released(i: Any) -> Any:
    return np.sort(noise)[:3]


def waits(i: Any) -> Any:
    sleep(0.01)
    return i


def large(i: Any) -> Any:
    return np.full((1024, 1024), i, np.float64)


def waits_then_computes(i: Any) -> int:
    sleep(0.004)
    return python(i)


def stages() -> Any:
    """Return items that compute, above a node of threads that wait."""
    return sk.smap(python, sk.prefetch(sk.smap(waits, range(N)), 16))


KINDS: dict[str, Callable[[], Any]] = {
    "Python that computes": lambda: sk.smap(python, range(N)),
    "numpy that releases the lock": lambda: sk.smap(released, range(N)),
    "sleep, as for I/O": lambda: sk.smap(waits, range(N)),
    "tiny items": lambda: sk.smap(abs, range(N)),
    "arrays of 8 MiB": lambda: sk.smap(large, range(N)),
    "sleep, then Python": lambda: sk.smap(waits_then_computes, range(N)),
    "Python above a node that sleeps": stages,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "none": {"nworkers": 0},
    **{f"{n} {m}": {"nworkers": n, "method": m} for m in ("thread", "process") for n in WORKERS},
    "2 process, 64 ahead": {"nworkers": 2, "method": "process", "max_buffered": 64},
}


def rate(build: Callable[[], Any], settings: dict[str, Any]) -> tuple[float, str]:
    """Return the items per second of a node, and its workers as text."""
    with sk.prefetch(build(), **settings).start() as node:
        choice = node.choice
        items = iter(node)
        begun = now = perf_counter()
        while now - begun < WARM_S:
            held = next(items)
            now = perf_counter()
        count, since = 0, now
        while now - since < RUN_S:
            held = next(items)  # noqa: F841 - as in a loop
            count, now = count + 1, perf_counter()
    text = "" if choice is None else f"{choice.workers} {choice.method}"
    return count / (now - since), text


def main() -> None:
    rows = []
    for title, build in KINDS.items():
        found = {name: apart(lambda b=build, s=s: rate(b, s)[0]) for name, s in SETTINGS.items()}
        best = max(found, key=lambda name: found[name])
        chosen: Counter[str] = Counter()

        def auto(build: Callable[[], Any] = build, chosen: Counter[str] = chosen) -> float:
            speed, text = apart(lambda: rate(build, {"method": "auto"}))
            chosen[text] += 1
            return speed

        figures = in_turn(
            {"best": lambda b=build, s=SETTINGS[best]: apart(lambda: rate(b, s)[0]), "auto": auto}
        )
        names = ", ".join(f"{text} ({times})" for text, times in chosen.most_common())
        ratio = figures["auto"] / figures["best"]
        rows.append(
            (title, best, f"{figures['best']:,.0f}", names, f"{figures['auto']:,.0f}", f"{ratio:.2f}")
        )
        print(rows[-1], flush=True)
    head = ("items", "best", "items/s", "auto chose (times)", "items/s", "of the best")
    table("auto, and the best of 14 settings", [head, *rows])
