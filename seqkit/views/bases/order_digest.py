"""`order_digest`: a short text that differs if the items of two views stand in different orders."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ...core.epoch import EpochPair, at_epoch, upwards
from ...core.expression import only_selects, walk
from ...core.randomness import digest
from ...core.source import Source
from ...core.view import View

__all__ = ["index_facts", "order_digest", "refuse_other_order"]

_BLOCK = 1 << 20


def order_digest(data: Any, *, items: bool = False) -> str | None:
    """Return a digest of the order of a view, or None for other objects, whose order is unknown.

    The digest is made of the structure, seeds, given names, lengths and index arrays: see `View._ordered`. No
    item is read, and no name of a class or function of the user counts. Maps and caches change no order.
    Streams have a method `_order_digest`. The digest does not depend on the epoch of the view, except on that
    of the orders that a selection keeps.

    Parameters
    ----------
    data : object
    items : bool
        False (the default): of the order that all ranks share, in any epoch. True: of the items themselves,
        so the rank of each `shard`, the epoch of each view and the seed of each `random_map` count too.

    >>> import seqkit as sk
    >>> one, same, other = (sk.smap(abs, sk.shuffle(range(99), seed)) for seed in (1, 1, 2))
    >>> order_digest(one) == order_digest(same), order_digest(one) == order_digest(other)
    (True, False)
    >>> shares = [sk.shard(one, rank, 2) for rank in (0, 1)]
    >>> len(set(map(order_digest, shares))), len({order_digest(share, items=True) for share in shares})
    (1, 2)
    """
    if not isinstance(data, View):
        return cast(str, data._order_digest()) if hasattr(data, "_order_digest") else None
    found: dict[Any, str] = {}
    for node, key, sources in upwards(data if items else at_epoch(data, EpochPair(0, 0))):
        facts, below = node._ordered(items), [found[source] for source in sources]
        if facts is None and len(below) == 1:
            if node._length_reads or node._n == node._sources[0]._n:
                found[key] = below[0]
                continue
            facts = (node._n,)  # a view of the user that does not tell its order
        if facts is None and not below:
            facts = (None if node._length_reads else node._n,)
        name = "" if facts is None or not below else node._name
        found[key] = digest(_text((name, facts or (), *below))).hex()
    return found[key]


def index_facts(indices: View[Any]) -> tuple[Any, ...]:
    """Return what the items of a view of indices depend on, for `View._ordered`. Nothing is computed."""
    leaves = [node._data for node in walk(indices) if isinstance(node, Source) and only_selects(node)]
    return order_digest(indices, items=True), *(data if _are_ints(data) else len(data) for data in leaves)


def _are_ints(data: Any) -> bool:
    if isinstance(data, np.ndarray):
        return data.dtype.kind in "biu"
    return isinstance(data, range) or {int}.issuperset(map(type, data))


def _text(fact: Any) -> str:
    if isinstance(fact, tuple):
        return f"({','.join(map(_text, fact))})"
    if not isinstance(fact, np.ndarray):
        return repr(fact)
    kind = np.dtype("<i8") if fact.dtype.kind in "iu" else fact.dtype  # whatever the type of the indices
    blocks = (fact[start : start + _BLOCK] for start in range(0, len(fact), _BLOCK))
    hashes = (digest(np.ascontiguousarray(block, kind).tobytes()).hex() for block in blocks)
    return f"{kind.str}{fact.shape}{''.join(hashes)}"


def refuse_other_order(who: str, saved: str | None, found: str | None) -> None:
    """Raise ValueError if an order is not the one that was saved, as far as both are known."""
    if None not in (saved, found) and saved != found:
        raise ValueError(
            f"{who} has another order than when the state was saved. Build it as it was then, with the same"
            " seeds: without a seed, shuffle and random_split draw another order in each program. A shard is"
            " for one number of processes: deal the order with seqkit.samplers.ShardedSampler to change it"
        )
