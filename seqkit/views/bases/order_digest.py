"""`order_digest`: a short text that differs if a view gives the items of its sources in another order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from ...core.randomness import digest
from ...core.source import Source
from ...core.tracebacks import warn
from ...core.view import View, is_measured, walk
from .random import reorderings

__all__ = ["is_other_order", "order_digest", "warn_of_other_order"]

_PROBES = 7
_MOST_ORIGINS = 64


def order_digest(data: Any, epoch: int) -> str | None:
    """Return a digest of the order of a view in an epoch, or None for other objects, whose order is unknown.

    It has two parts. The first comes from the seeds of the views that shuffle. The second comes from the
    source indices of some items, and is empty if finding them would read items. All shares of one view have
    the same digest. A subset of PyTorch is treated as a view of its data set. Streams have a method
    `_order_digest`.

    >>> import seqkit as sk
    >>> one, same, other = (sk.smap(abs, sk.shuffle(range(99), seed)) for seed in (1, 1, 2))
    >>> order_digest(one, 0) == order_digest(same, 0), order_digest(one, 0) == order_digest(other, 0)
    (True, False)
    >>> order_digest(sk.filter(bool, one), 0).endswith("-")
    True
    """
    if not isinstance(data, View):
        if hasattr(data, "_order_digest"):
            return cast("str | None", data._order_digest(epoch))
        if not is_subset(data):
            return None
    view = data if isinstance(data, View) else Source(data)
    seeds = [(node._name, node._seed, node._given_name) for node in reorderings(view)]
    return f"{_short(seeds)}-{_short(origins) if (origins := _some_origins(view, epoch)) else ''}"


def _short(value: Any) -> str:
    return digest(repr(value)).hex()[:8]


def _some_origins(view: View[Any], epoch: int) -> list[Any] | None:
    """Return the origins of items from the first to the last, or None if they are not known."""
    if not is_measured(view) or not all(node._has_parts for node in walk(view)):
        return None
    shared = [node._sources[0] for node in walk(view) if node._is_share] or [view]
    try:
        return [origins for base in shared for origins in _origins_of(base.at_epoch(epoch))]
    except Exception:
        return None  # a view of the user has no `_parts` of its own, or `indices` are no indices


def _origins_of(view: View[Any]) -> Iterator[list[Any]]:
    """Yield the sources and indices of some items. The views between do not matter."""
    leaves = (node for node in walk(view) if not node._sources)
    numbers = {id(leaf): number for number, leaf in enumerate(leaves)}
    for i in _probes(view._n):
        yield [(numbers[id(leaf)], j) for leaf, j in islice(_origins(view, i), _MOST_ORIGINS)]


def _probes(n: Any) -> range:
    """Return some indices from the first to the last, or the first one of a view without a length."""
    return range(0, n, max(1, n // _PROBES)) if isinstance(n, int) else range(1)


def _origins(view: View[Any], i: int) -> Iterator[tuple[View[Any], int]]:
    """Yield the sources and indices of the items that make item `i`; of a batch, those of its last item."""
    pending = [(view, i)]
    while pending:
        node, j = pending.pop()
        if not node._sources:
            data: Any = getattr(node, "_data", None)
            while is_subset(data):
                data, j = data.dataset, int(data.indices[j])
            yield node, j
        parts = [(source, last) for source, indices in node._parts(j) for last in deque(indices, maxlen=1)]
        pending.extend(reversed(parts))


def is_subset(data: Any) -> bool:
    """Is it a subset of PyTorch, or alike?"""
    return hasattr(data, "dataset") and hasattr(data, "indices") and not isinstance(data, View)


def warn_of_other_order(who: str, saved: str | None, found: str | None) -> None:
    """Warn if an order is not the one that was saved, as far as both are known."""
    if is_other_order(saved, found):
        warn(
            f"{who} has another order than when the state was saved, so items may come twice or be missed."
            " Without a seed, each program draws an order of its own. Pass the same seed to shuffle,"
            " random_split or whatever draws it",
            UserWarning,
        )


def is_other_order(saved: str | None, found: str | None) -> bool:
    """Are two digests of different orders, as far as both are known?

    >>> is_other_order("a-b", "a-c"), is_other_order("a-b", "a-"), is_other_order("a-b", None)
    (True, False, False)
    """
    if saved is None or found is None:
        return False
    parts = zip(saved.split("-"), found.split("-"), strict=False)
    return any(one != other and one and other for one, other in parts)
