"""How long the consumer waits when the cost of items changes.

python -m benchmarks delivery
"""

from __future__ import annotations

import time
from time import perf_counter
from typing import Any

import seqkit as sk

from .measure import table

INSTANT, SLOW = 30_000, 2_000


def waits(node: Any) -> tuple[list[float], float]:
    """Return the wait before each item after the first, in seconds, and the time of all of them."""
    with node:
        iterator = iter(node)
        next(iterator)
        begun = before = perf_counter()
        found = []
        for _ in iterator:
            now = perf_counter()
            found.append(now - before)
            before = now
        return found, before - begun


def slow_tail(i: int) -> int:
    if i >= INSTANT:
        time.sleep(0.001)
    return i


def one_slow(i: int) -> int:
    if i == 20_000:
        time.sleep(3)
    return i


def straggler(i: int) -> int:
    time.sleep(1 if i == 2 else 0.05)
    return i


def main() -> None:
    begun = perf_counter()
    for i in range(INSTANT, INSTANT + 200):
        slow_tail(i)
    ideal = (perf_counter() - begun) / 200 * SLOW / 2
    rows = []
    for method in ("thread", "process"):
        found, taken = waits(sk.prefetch(sk.smap(slow_tail, range(INSTANT + SLOW)), 2, method))  # type: ignore[call-overload]
        rows.append((f"{method}: instant, then 1 ms: longest wait, ms", f"{max(found) * 1e3:.0f}"))
        rows.append((f"{method}: instant, then 1 ms: total beside ideal", f"{taken / ideal:.2f}"))
        found, _ = waits(sk.prefetch(sk.smap(one_slow, range(40_000)), 2, method))  # type: ignore[call-overload]
        slowest = max(range(len(found)), key=found.__getitem__)
        rows.append((f"{method}: one item of 3 s: items before it that came in time", f"{slowest} of 19999"))
        others = sorted(found)[-2]
        rows.append((f"{method}: one item of 3 s: longest other wait, ms", f"{others * 1e3:.0f}"))
        _, taken = waits(sk.prefetch(sk.smap(straggler, range(24)), 4, method))  # type: ignore[call-overload]
        rows.append((f"{method}: 1 s among 24 items of 50 ms, 4 workers, after the first, s", f"{taken:.2f}"))
    table("delivery", rows)
