"""The timeline of a profile, as a trace file for Perfetto and Chrome."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from typing import Any

from .measurement import Stage
from .probe import Event, Thread

__all__ = ["save_trace"]

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


def _begin_s(threads: Threads) -> float:
    return min((event.begun_s for _, events in threads for event in events), default=0.0)


def _title(thread: Thread) -> str:
    return "consumer" if thread.worker < 0 else f"worker {thread.worker} ({thread.pid})"
