"""`EpochPair`: the pass that a view reads, with one number for its orders, and one for its draws.

A selection by index keeps the orders below it: ``order[:8]`` has the same items in every epoch. Random
draws follow the epoch, such as the numbers of `random_map`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .view import View

__all__ = ["AS_IT_STANDS", "DRAWS", "ORDER", "EpochPair", "at_epoch", "upwards"]

# The bits of `View._varies`.
ORDER = 1  # another item stands at each position in each epoch
DRAWS = 2  # the items themselves differ from epoch to epoch

_BITS = 31


class EpochPair(NamedTuple):
    """An epoch for the orders of a view, and one for its draws. None: the epoch in which each stands.

    Examples
    --------
    >>> EpochPair(3, 3).kept, EpochPair(None, 5).after(EpochPair(3, 3))
    (EpochPair(order=None, draws=3), EpochPair(order=3, draws=5))
    """

    order: int | None
    draws: int | None

    @property
    def kept(self) -> EpochPair:
        """The same epoch below a selection, which keeps its orders."""
        return EpochPair(None, self.draws)

    def after(self, before: EpochPair) -> EpochPair:
        """Return the epoch of a view that was keyed for `before`, and then for this epoch."""
        return EpochPair(
            before.order if self.order is None else self.order,
            before.draws if self.draws is None else self.draws,
        )

    @property
    def number(self) -> int:
        """One int for both numbers, for the messages of workers. If both are e, it is e.

        >>> EpochPair(7, 7).number, EpochPair.of(EpochPair(2, 7).number)
        (7, EpochPair(order=2, draws=7))
        """
        order, draws = self
        if draws is None:
            return -1
        return draws if order == draws else -2 - ((0 if order is None else order + 1) << _BITS | draws)

    @classmethod
    def of(cls, number: int) -> EpochPair:
        """Return the epoch of a number."""
        if number >= -1:
            return AS_IT_STANDS if number < 0 else cls(number, number)
        order, draws = divmod(-2 - number, 1 << _BITS)
        return cls(order - 1 if order else None, draws)


AS_IT_STANDS = EpochPair(None, None)


def at_epoch(root: View[Any], epoch: EpochPair) -> View[Any]:
    """Key the views of an expression for an epoch. Views that do not vary are not visited."""
    path: list[tuple[View[Any], EpochPair]] = []
    while _follows(root) and len(root._sources) == 1:
        path.append((root, epoch))
        epoch = epoch.kept if root._keeps else epoch
        (root,) = root._sources
    found = _all_at_epoch(root, epoch) if _follows(root) else root
    for node, own in reversed(path):
        found = _keyed(node, (found,), own)
    return found


def _all_at_epoch(root: View[Any], epoch: EpochPair) -> View[Any]:
    keyed: dict[Key, View[Any]] = {}
    for node, key, sources in upwards(root, _follows):
        follows = tuple([keyed[source] for source in sources])
        keyed[key] = _keyed(node, follows, epoch.kept if key[1] else epoch) if _follows(node) else node
    return keyed[id(root), False]


def _keyed(node: View[Any], sources: tuple[View[Any], ...], epoch: EpochPair) -> View[Any]:
    new = node._keyed(sources, epoch)
    if node._site is not None and new is not node:
        new._site = node._site
    return new


def _follows(view: View[Any]) -> bool:
    """May a view differ from epoch to epoch? A node with workers seeds their generators from the epoch."""
    return bool(view._varies) or view._reads_ahead


Key = tuple[int, bool]  # the id of a view, and whether a selection above it keeps its orders


def upwards(
    root: View[Any], goes_below: Callable[[View[Any]], bool] = lambda view: True
) -> Iterator[tuple[View[Any], Key, list[Key]]]:
    """Yield the views of an expression, each after its sources, with its key and those of its sources.

    A view occurs twice if one selection keeps its orders, and another view follows them.

    >>> import seqkit as sk
    >>> order = sk.shuffle(range(4), seed=0)
    >>> [node._name for node, _, _ in upwards(sk.collate([order, order[:4]]))]
    ['source', 'shuffle', 'source', 'shuffle', 'gather', 'collate']
    """
    seen: set[Key] = set()
    pending = [(root, False)]
    while pending:
        node, kept = pending[-1]
        below = node._sources if goes_below(node) else ()
        parts = [(source, kept or (node._keeps and place == 0)) for place, source in enumerate(below)]
        keys = [(id(source), is_kept) for source, is_kept in parts]
        if waiting := [part for part, key in zip(parts, keys, strict=True) if key not in seen]:
            pending.extend(waiting[::-1])
            continue
        pending.pop()
        key = id(node), kept
        if key not in seen:
            seen.add(key)
            yield node, key, keys
