"""`shard`: one of several equal parts of a sequence."""

from __future__ import annotations

from typing import Any, Literal

from ..core.arguments import as_bool, int_at_least, positive_int
from ..core.processes import warn_of_drawn_seed
from ..core.source import as_view
from ..core.view import Indexable, T, View, needed_length
from .bases.random import reorderings
from .concatenate import concatenate

__all__ = ["Even", "as_even", "shard"]

Even = Literal["pad", "drop"]


def shard(
    sequence: Indexable[T], rank: int, world_size: int, contiguous: bool = True, *, even: Even | None = None
) -> View[T]:
    """Return the view of part number `rank` of a sequence that is divided into `world_size` parts.

    Parameters
    ----------
    sequence : View or indexable
        Of known length n.
    rank : int
        Number of the part, in ``[0, world_size)``.
    world_size : int
        Number of parts, 1 or more. If there are fewer items, some parts are empty.
    contiguous : bool
        True (the default): neighbouring items, one more in the first ``n % world_size`` parts. False: every
        `world_size`-th item, from item `rank` on.
    even : "pad" or "drop", optional
        Make all parts equally long: repeat the first items after the end of the sequence, or drop the last
        ones. None (the default): lengths differ by at most one.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `rank` or `world_size` is not an int, `contiguous` not a bool, or `sequence` cannot be indexed or
        has no length.
    ValueError
        If `rank` or `world_size` is out of range, or `even` is unknown.

    Notes
    -----
    A slice, or two with ``even="pad"``: no memory, one addition per access. Needs the length at
    once. After ``shard`` of Gluon and tf.data. PyTorch's ``DistributedSampler`` is ``contiguous=False,
    even="pad"``. To shuffle across all parts, shuffle the sequence first, with the same seed for each part.

    Examples
    --------
    >>> [list(shard("abcdefg", rank, 3)) for rank in range(3)]
    [['a', 'b', 'c'], ['d', 'e'], ['f', 'g']]
    >>> [list(shard("abcdefg", rank, 3, contiguous=False, even="pad")) for rank in range(3)]
    [['a', 'd', 'g'], ['b', 'e', 'a'], ['c', 'f', 'b']]
    """
    source = as_view(sequence, "shard")
    world_size = positive_int(world_size, "shard: world_size")
    rank = as_rank(rank, world_size, "shard", "world_size")
    contiguous = as_bool(contiguous, "shard: contiguous")
    even = as_even(even, "shard")
    for node in reorderings(source) if world_size > 1 else ():
        warn_of_drawn_seed(node._seed, f"shard: {node._name} below", "shares overlap and leave out items")
    n = needed_length(source, "shard")
    parts = [source._take(part) for part in _part(n, rank, world_size, contiguous, even)]
    share = parts[0] if len(parts) == 1 else concatenate(parts)
    if share is not source:
        share._is_share = True
    return share


def as_rank(rank: Any, count: int, who: str, name_of_count: str) -> int:
    """Return the number of one of several processes, checked.

    >>> as_rank(3, 3, "shard", "world_size")
    Traceback (most recent call last):
    ValueError: shard: rank must be below world_size 3, got 3
    """
    number = int_at_least(rank, f"{who}: rank", 0)
    if number >= count:
        raise ValueError(f"{who}: rank must be below {name_of_count} {count}, got {number}")
    return number


def as_even(even: Any, who: str) -> Even | None:
    """Return an argument `even`, checked.

    >>> as_even("pad", "shard")
    'pad'
    """
    if even not in (None, "pad", "drop"):
        raise ValueError(f"{who}: even must be 'pad', 'drop' or None, got {even!r}")
    return even  # type: ignore[no-any-return]


def _part(n: int, rank: int, world_size: int, contiguous: bool, even: Even | None) -> list[range]:
    """Return the items of the part: ranges in ``[0, n)``, two if the part wraps around the end."""
    size, rest = divmod(n, world_size)
    if even == "pad":
        size, rest = -(-n // world_size), 0
    elif even == "drop":
        n, rest = n - rest, 0
    if contiguous:
        start = rank * size + min(rank, rest)
        part = range(start, start + size + (rank < rest))
    else:
        part = range(rank, size * world_size if even == "pad" else n, world_size)
    if not part or part[-1] < n:
        return [part]
    # The part has at most n items. Those from n on are the first items again.
    inside = part[: max(-(-(n - part.start) // part.step), 0)]
    wrapped = range(part[len(inside)] % n, part[-1] % n + 1, part.step)
    return [piece for piece in (inside, wrapped) if piece]
