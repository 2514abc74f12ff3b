"""Compute something about a view in a worker process of its own, which is killed if it takes too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.view import View
from .node import prefetch
from .settings import Context

# A process that measures is killed after this multiple of the measuring time, and at least this many seconds.
PATIENCE = 4
LEAST_LIMIT_S = 2.0


def limit_s(seconds: float) -> float:
    """Return after how many seconds a process is killed that measures for so long."""
    return max(LEAST_LIMIT_S, PATIENCE * seconds)


def in_child(
    view: View[Any], work: Callable[[View[Any]], Any], limit_s: float, hook: Callable[..., Any] | None = None
) -> Any:
    """Return `work(view)`, computed by a worker process, which is killed after some seconds."""
    # `retries=0`: an item that kills the process would kill the next one, too.
    ahead = prefetch(
        Child(view, work), 1, "process", 1, hook, context=start_method(), timeout=limit_s, retries=0
    )
    with ahead:
        ahead.engine().said.add("generator")  # the node that is chosen warns
        return ahead[0]


def start_method() -> Context | None:
    """Return how processes start that measure. An explicit start method is not announced."""
    from .processes.forking import is_safe  # imported here because other systems lack what it needs

    return None if is_safe() else "forkserver"


class Child(View[Any]):
    """A view of one item: the result of a function of the view below."""

    def __init__(self, source: View[Any], work: Callable[[View[Any]], Any]) -> None:
        super().__init__((source,), 1)
        self._work = work

    def _get(self, i: int) -> Any:
        return self._work(self._sources[0])

    def _needs(self, i: int) -> tuple[()]:
        return ()

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Child(sources[0], self._work)
