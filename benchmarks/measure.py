"""The machinery of the benchmarks: a process for each run, rounds in turn, medians, a table."""

from __future__ import annotations

import gc
import os
import platform
import signal
import statistics
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing import get_context
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")
END_S = 10.0  # seconds in which a run must have ended its workers


def consume(items: Iterable[Any]) -> None:
    """Draw everything, in C."""
    deque(items, maxlen=0)


def seconds(run: Callable[[], Any]) -> float:
    """Return how long one call takes."""
    begun = perf_counter()
    run()
    return perf_counter() - begun


def apart(run: Callable[[], T]) -> T:
    """Run in a forked process and return its result. No thread, process or finaliser outlives the run."""
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        os.setsid()
        try:
            sender.send((run(), ""))
        except BaseException:
            sender.send((None, traceback.format_exc()))
        gc.collect()

    sys.stdout.flush()
    process = context.Process(target=work)
    process.start()
    sender.close()
    result: Any
    result, error = receiver.recv()
    process.join(END_S)
    with suppress(ProcessLookupError):  # processes that some libraries leave
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    if error:
        raise RuntimeError(error)
    return result  # type: ignore[no-any-return]


def in_turn(runs: dict[str, Callable[[], float]], rounds: int = 5) -> dict[str, float]:
    """Measure every run `rounds` times, in turn, so that drift affects all alike. Return the medians.

    Each run returns its own figure. One round before the counted ones warms up.
    """
    figures = in_rounds(runs, rounds + 1, skip=1)
    _figures.append(figures)
    return {name: statistics.median(values) for name, values in figures.items()}


def in_rounds(runs: dict[str, Callable[[], T]], rounds: int, skip: int = 0) -> dict[str, list[T]]:
    """Return the results of every run, in turn, without the first `skip` rounds."""
    found: dict[str, list[T]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(run())
    return {name: values[skip:] for name, values in found.items()}


# What was measured since `recorded` was last called: tables as printed, and the figures of each round.
_figures: list[dict[str, list[float]]] = []
_tables: list[dict[str, Any]] = []
_compared: dict[str, Any] = {}


def keep(title: str, figures: dict[str, dict[str, list[float]]]) -> None:
    """Keep the figures of each library for the file of results."""
    _compared[title] = figures


def recorded() -> dict[str, Any]:
    """Return what was measured and printed since the last call, for a file of results."""
    found = {"tables": list(_tables), "figures": list(_figures), "compared": dict(_compared)}
    _tables.clear()
    _figures.clear()
    _compared.clear()
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
