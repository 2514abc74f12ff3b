"""Expressions in which some views are replaced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..core.view import View
from ..engine.prefetch import Prefetch
from ..stores.add_cache.add_cache import AddCache

__all__ = ["rewritten", "without_nodes"]

# Returns what takes the place of a view whose sources may be others now, or None to leave it.
Change = Callable[[View[Any], tuple[View[Any], ...]], View[Any] | None]


def without_nodes(view: View[Any], nodes: bool = False) -> View[Any]:
    """Return an expression whose caches begin empty, and have no stores, and without `prefetch` views.

    `nodes`: keep these.
    """

    def change(view: View[Any], sources: tuple[View[Any], ...]) -> View[Any] | None:
        if isinstance(view, Prefetch) and not nodes:
            return sources[0]
        if not isinstance(view, AddCache):
            return None
        return AddCache(sources[0], replace(view.settings, cache=None, store=None))

    return rewritten(view, change)


def rewritten(view: View[Any], change: Change, copies: dict[int, View[Any]] | None = None) -> View[Any]:
    """Return an expression in which some views are changed. Those above are rebuilt, the others remain."""
    copies = {} if copies is None else copies
    if id(view) not in copies:
        sources = tuple(rewritten(source, change, copies) for source in view._sources)
        changed = change(view, sources)
        if changed is None:
            are_same = all(map(operator.is_, sources, view._sources))
            changed = view if are_same else view._rebuild(sources)
        copies[id(view)] = changed
    return copies[id(view)]
