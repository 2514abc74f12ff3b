"""Add up the events of probes to figures of stages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .probe import Event, Thread

__all__ = ["stage_times"]


def stage_times(threads: Iterable[tuple[Thread, list[Event]]]) -> dict[int, dict[str, Any]]:
    """Return the figures of each stage, by its number, as keyword arguments of `Stage`."""
    events: dict[int, list[Event]] = {}
    for _, of_thread in threads:
        for event in of_thread:
            events.setdefault(event.stage, []).append(event)
    return {stage: _figures(found) for stage, found in events.items()}


def _figures(events: list[Event]) -> dict[str, Any]:
    first = min(events, key=lambda event: event.begun_s)
    each = np.array([float(event.own_s) / max(event.items, 1) for event in events])
    sizes = [event.nbytes / max(event.items, 1) for event in events if event.nbytes >= 0]
    kinds = list(dict.fromkeys(event.kind for event in events if event.kind))
    indices = [event.at for event in events if event.at >= 0 and event.items == 1]
    return {
        "items": sum(event.items * event.weight for event in events if not event.failed),
        "failed": sum(event.weight for event in events if event.failed),
        "seconds": sum(event.own_s * event.weight for event in events),
        "cpu_s": sum(event.cpu_s * event.weight for event in events),
        "first_s": first.own_s / max(first.items, 1),
        "median_s": float(np.median(each)),
        "p95_s": float(np.quantile(each, 0.95)),
        "longest_s": float(each.max()),
        "nbytes": int(np.mean(sizes)) if sizes else 0,
        "kind": kinds[0] + (", …" if len(kinds) > 1 else "") if kinds else "",
        "indices": len(set(indices)),
        "timed": len(indices),
    }
