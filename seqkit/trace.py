"""Where an item failed: the path through the expression, and the line that created the failing view."""

from __future__ import annotations

import os
import sys
from typing import Any

from .errors import EvaluationError

__all__ = ["creation_site", "locate"]

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TESTING = _HERE + "testing" + os.sep


def locate(error: EvaluationError, asked: Any, index: Any) -> None:
    """Complete the path of an error, from the requested item to the item that failed.

    The path is found by walking the expression again, so items that succeed cost nothing.
    """
    if error.view is None or (error.path and error.path[0] == (asked, index)):
        return
    error.path = _path(asked, index, error.view, error.index) or error.path


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


def creation_site() -> tuple[str, int, str]:
    """Return file, line and function of the user's code that is creating a view."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith(_HERE) or filename.startswith(_TESTING):
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
