"""The little machinery of the benchmarks: rounds in turn, medians, ratios, a table."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from time import perf_counter, sleep
from typing import Any, TypeVar

T = TypeVar("T")


def consume(items: Iterable[Any]) -> None:
    """Draw everything, in C."""
    deque(items, maxlen=0)


def seconds(run: Callable[[], Any]) -> float:
    """Return how long one call takes."""
    begun = perf_counter()
    run()
    return perf_counter() - begun


def apart(run: Callable[[], T]) -> T:
    """Run in a forked process and return its result: no thread and no finaliser outlives the run."""
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        try:
            sender.send((run(), ""))
        except BaseException:
            sender.send((None, traceback.format_exc()))
        gc.collect()

    process = context.Process(target=work)
    process.start()
    sender.close()
    result: Any
    result, error = receiver.recv()
    process.join()
    if error:
        raise RuntimeError(error)
    return result  # type: ignore[no-any-return]


def in_turn(runs: dict[str, Callable[[], float]], rounds: int = 5, pause_s: float = 0.0) -> dict[str, float]:
    """Measure every run `rounds` times, in turn, so that drift affects all alike. Return the medians.

    Each run returns its own figure. One round before the counted ones warms up. A pause before each run
    keeps the end of the previous run's processes out of the figure.
    """
    figures: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            sleep(pause_s)
            figure = run()
            if number:
                figures[name].append(figure)
    _figures.append(figures)
    return {name: statistics.median(values) for name, values in figures.items()}


# What was measured since `recorded` was last called: tables as printed, and the figures of each round.
_figures: list[dict[str, list[float]]] = []
_tables: list[dict[str, Any]] = []


def recorded() -> dict[str, Any]:
    """Return what was measured and printed since the last call, for a file of results."""
    found = {"tables": list(_tables), "figures": list(_figures)}
    _tables.clear()
    _figures.clear()
    return found


def machine() -> str:
    """Say where this was measured."""
    cores = len(os.sched_getaffinity(0))
    return f"Python {platform.python_version()}, {cores} cores, {platform.system()} {platform.release()}"


def table(title: str, rows: list[tuple[str, ...]]) -> None:
    """Print rows in columns under a title."""
    _tables.append({"title": title, "rows": rows})
    print(f"\n{title}")
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  " + "   ".join([first, *rest]))
