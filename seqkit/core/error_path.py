"""Where an item failed: the path through the expression to the failing view."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from .errors import EvaluationError
from .tracebacks import hide_frames

__all__ = ["locate"]


def locate(error: Exception, asked: Any, index: Any) -> None:
    """Prepare an exception that leaves a view: hide the frames of seqkit, and complete the path of the error.

    The path leads from the requested item to the item that failed. It is found by walking the expression
    again, so items that succeed cost nothing. Follow this call with a bare ``raise``.
    """
    hide_frames(error)
    if not isinstance(error, EvaluationError) or error.view is None:
        return
    if not error.path or error.path[0] != (asked, index):
        with suppress(Exception):  # `_parts` of a view may read items, and fail again
            below = error.path or ((error.view, error.index),)
            error.path = _path(asked, index, error.view, error.index) or ((asked, index), *below)


def _path(node: Any, i: Any, target: Any, wanted: Any) -> tuple[tuple[Any, Any], ...]:
    trail: list[tuple[Any, Any]] = []
    pending: list[tuple[int, Any, Any]] = [(0, node, i)]
    seen: set[tuple[Any, Any]] = set()
    while pending:
        depth, node, i = pending.pop()
        del trail[depth:]
        trail.append((node, i))
        if node is target and i == wanted:
            return tuple(trail)
        if isinstance(i, int):  # a sampler's keys may be lists, which cannot be in a set
            if (node, i) in seen:
                continue  # the same item of a view that occurs twice
            seen.add((node, i))
        parts = [(depth + 1, source, j) for source, indices in node._parts(i) for j in indices]
        pending.extend(reversed(parts))
    return ()
