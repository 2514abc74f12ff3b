"""`method="auto"` against the best of many settings, for several kinds of items.

A run reads a node for some time, without the start of its workers. It holds an item until the next one comes,
as a loop does. The search tries every setting once. The best one and "auto", which chooses anew in each run,
are then measured in turn.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from time import perf_counter, sleep
from typing import Any

import numpy as np
from PIL import Image

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


def tiny(i: Any) -> Any:
    return i


def augment(item: Any, rng: Any) -> Any:
    return item + rng.random()


def batches() -> Any:
    """Return batches of items that sleep, augmented."""
    return sk.batch(sk.random_map(augment, sk.smap(waits, range(N)), seed=0), 8)


JPEG = io.BytesIO()
Image.fromarray(np.random.default_rng(0).integers(0, 255, (256, 256, 3), np.uint8)).save(JPEG, "jpeg")


def image(i: Any) -> Any:
    return np.asarray(Image.open(io.BytesIO(JPEG.getvalue())))


TABLE = {"id": np.arange(1000), "value": np.random.default_rng(0).random(1000)}


def row(i: Any) -> Any:
    return {name: column[i % 1000] for name, column in TABLE.items()}


def stages() -> Any:
    """Return items that compute, above a node of threads that wait."""
    return sk.smap(python, sk.prefetch(sk.smap(waits, range(N)), 16))


KINDS: dict[str, Callable[[], Any]] = {
    "Python that computes": lambda: sk.smap(python, range(N)),
    "numpy that releases the lock": lambda: sk.smap(released, range(N)),
    "sleep, as for I/O": lambda: sk.smap(waits, range(N)),
    "tiny items": lambda: sk.smap(tiny, range(N)),
    "sleep, then Python": lambda: sk.smap(waits_then_computes, range(N)),
    "arrays of 8 MiB": lambda: sk.smap(large, range(N)),
    "batches that sleep, augmented": batches,
    "a decoded image": lambda: sk.smap(image, range(N)),
    "a table row by row": lambda: sk.smap(row, range(N)),
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
