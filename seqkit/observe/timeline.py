"""Timelines of a profile: a plot, and a trace file for Perfetto and Chrome."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from typing import Any

from .measurement import Stage
from .probe import Event, Thread

__all__ = ["plot", "save_trace"]

Threads = Sequence[tuple[Thread, list[Event]]]


def save_trace(threads: Threads, stages: Sequence[Stage], path: str | PathLike[str]) -> None:
    """Write the events of threads in the format of Chrome's traces."""
    begin_s = _begin_s(threads)
    found: list[dict[str, Any]] = []
    for row, (thread, events) in enumerate(threads):
        place = {"pid": thread.pid, "tid": row}
        found.append({"ph": "M", "name": "thread_name", **place, "args": {"name": _title(thread)}})
        found.append({"ph": "M", "name": "thread_sort_index", **place, "args": {"sort_index": row}})
        for event in events:
            about = {"index": event.at, "own_us": 1e6 * event.own_s, "cpu_us": 1e6 * event.cpu_s}
            times = {"ts": 1e6 * (event.begun_s - begin_s), "dur": 1e6 * event.taken_s}
            name = stages[event.stage].view
            found.append({"ph": "X", "name": name, "cat": "stage", **place, **times, "args": about})
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": found, "displayTimeUnit": "ms"}, file)


def plot(threads: Threads, stages: Sequence[Stage], ax: Any = None) -> Any:
    """Draw a row for each thread. Views lie above the views that read them."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(10, 1.2 + 0.5 * len(threads)), layout="constrained")
    begin_s, colours = _begin_s(threads), plt.get_cmap("tab10")
    drawn = {event.stage for _, events in threads for event in events}
    for row, (_, events) in enumerate(threads):
        for stage in sorted(drawn):
            spans = [(event.begun_s - begin_s, event.taken_s) for event in events if event.stage == stage]
            ax.broken_barh(spans, (row - 0.4, 0.8), facecolors=colours(stage % 10))
    for stage in sorted(drawn):
        ax.broken_barh([], (0, 0), facecolors=colours(stage % 10), label=stages[stage].view)
    ax.set_yticks(range(len(threads)), [_title(thread) for thread, _ in threads])
    ax.invert_yaxis()
    ax.set_xlabel("seconds")
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return ax


def _begin_s(threads: Threads) -> float:
    return min((event.begun_s for _, events in threads for event in events), default=0.0)


def _title(thread: Thread) -> str:
    return "consumer" if thread.worker < 0 else f"worker {thread.worker} ({thread.pid})"
