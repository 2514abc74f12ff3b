"""`interleave`: several sequences in turn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, cycle, islice, pairwise
from typing import Any, Literal

import numpy as np

from ..indices import UNBOUNDED, UNKNOWN, Endless, Indices, Length, Plan, Selected, Unsized, as_list, each
from ..source import as_view
from ..view import Indexable, T, View
from .grouped import iterate_in_turn, read_grouped

__all__ = ["Interleave", "interleave"]

Stop = Literal["longest", "shortest"]


def interleave(*sequences: Indexable[T], stop: Stop = "longest") -> View[T]:
    """Return the view of the items of several sequences in turn: first items, then second ones, and so on.

    Parameters
    ----------
    *sequences : View or indexable
        Of known length, or unbounded. None at all gives an empty view.
    stop : "longest" or "shortest"
        What follows when a sequence is exhausted: the others go on without it (default), or the view ends
        with the last round in which all take part.

    Returns
    -------
    View
        As long as all sequences together; with ``"shortest"``, their number times the shortest length.

    Raises
    ------
    TypeError
        If a sequence cannot be indexed, or ends nobody knows where.
    ValueError
        If `stop` is neither of the two.

    Notes
    -----
    Some binary searches among the sequences per access, whatever their lengths. After ``interleave`` of
    SeqTools; known elsewhere as ``roundrobin``, ``interleave_datasets``. `mix` draws in given proportions.

    Examples
    --------
    >>> list(interleave("abcd", [1, 2]))
    ['a', 1, 'b', 2, 'c', 'd']
    >>> list(interleave("abcd", [1, 2], stop="shortest"))
    ['a', 1, 'b', 2]
    """
    if stop not in ("longest", "shortest"):
        raise ValueError(f"interleave: stop must be 'longest' or 'shortest', got {stop!r}")
    sources = tuple(as_view(s, "interleave") for s in sequences)
    for source in sources:
        if source._n is UNKNOWN:
            raise TypeError(
                f"interleave: a sequence must have a length or be unbounded, of {source!r} {UNKNOWN.reason}"
            )
    return Interleave(sources, stop)


class Interleave(View[Any]):
    """The view behind `interleave`.

    In round r every sequence of more than r items has a turn. A *stretch* is a run of rounds in which the
    same sequences take part: `_rounds` holds the first round of each, `_starts` its first item, and at last
    the length of all.
    """

    def __init__(self, sources: tuple[View[Any], ...], stop: Stop) -> None:
        lengths = [source._n for source in sources]
        if stop == "shortest":
            lengths = [min(lengths)] * len(lengths) if lengths else []
        endless = any(isinstance(n, Unsized) for n in lengths)
        super().__init__(sources, UNBOUNDED if endless else int(sum(lengths)))
        self._stop = stop

    @cached_property
    def _longer(self) -> _Longer:
        return _Longer([source._n for source in self._sources])

    @cached_property
    def _ends(self) -> list[Length]:
        lengths = {source._n for source in self._sources}
        return sorted({0, *lengths}) if self._stop == "longest" else [0, min(lengths, default=0)]

    @cached_property
    def _rounds(self) -> list[int]:
        return [int(end) for end in self._ends[:-1]]

    @cached_property
    def _starts(self) -> list[Length]:
        starts: list[Length] = [0]
        for first, end in pairwise(self._ends):
            size = self._longer.count(int(first)) * (end - first)
            starts.append(end if isinstance(end, Unsized) else int(starts[-1] + size))
        return starts

    def _stretch(self, i: int) -> tuple[int, int]:
        """Return the number of the stretch that item `i` lies in, and how far it is from its start."""
        stretch = bisect_right(self._starts, i) - 1
        return stretch, i - int(self._starts[stretch])

    def _place(self, i: int) -> tuple[int, int]:
        """Return which sequence has the turn of item `i`, and in which round."""
        stretch, offset = self._stretch(i)
        done = self._rounds[stretch]
        rounds, turn = divmod(offset, self._longer.count(done))
        return self._longer.nth(turn, done), done + rounds

    def _get(self, i: int) -> Any:
        which, j = self._place(i)
        return self._sources[which]._get(j)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        places = np.array([self._place(i) for i in as_list(indices)], np.int64).reshape(-1, 2)
        sources, inner = self._sources, places[:, 1]
        return read_grouped(places[:, 0], lambda which, positions: sources[which]._getmany(inner[positions]))

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if isinstance(plan, Endless):
            shares: list[Plan] = [source._plan() for source in self._sources]
            return iterate_in_turn(self, plan, self._turns(0, self._n), self._sources, shares)
        if isinstance(plan, range) and plan.step == 1 and plan:
            shares = [*map(range, self._before(plan.start), self._before(plan.stop))]
            return iterate_in_turn(self, plan, self._turns(plan.start, plan.stop), self._sources, shares)
        if self._reads_ahead:
            turns = (self._place(i)[0] for i in each(plan))
            shares = [self._share(plan, which) for which in range(len(self._sources))]
            return iterate_in_turn(self, plan, turns, self._sources, shares)
        return super()._iter(plan)

    def _turns(self, start: int, stop: Length) -> Iterator[int]:
        """Yield which sequence has the turn, for every item from `start` to `stop`."""
        while start < stop:
            stretch, offset = self._stretch(start)
            members = [
                which for which, source in enumerate(self._sources) if source._n > self._rounds[stretch]
            ]
            end = min(stop, self._starts[stretch + 1])
            first = offset % len(members)
            yield from islice(
                cycle(members), first, None if isinstance(end, Unsized) else first + end - start
            )
            start = int(end)

    def _before(self, i: int) -> list[int]:
        """Return how many items of each sequence come before item `i`."""
        which, j = self._place(i - 1) if i else (-1, 0)
        return [int(min(s._n, j + (number <= which))) for number, s in enumerate(self._sources)]

    def _share(self, plan: Plan, which: int) -> Plan:
        def local(i: int) -> int | None:
            number, j = self._place(i)
            return j if number == which else None

        return Selected(plan, local)

    def _set(self, i: int, value: Any) -> None:
        which, j = self._place(i)
        self._sources[which]._set(j, value)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        which, j = self._place(i)
        return ((self._sources[which], (j,)),)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Interleave(sources, self._stop)

    def _arguments(self, sources: list[str]) -> list[str]:
        return sources if self._stop == "longest" else [*sources, f"stop={self._stop!r}"]


class _Longer:
    """Counts and finds the sequences longer than n, among any number of them.

    `_rows` are the rows of a tree, the root first. A node holds the lengths of some neighbours, sorted, and
    its two children those of either half.
    """

    def __init__(self, lengths: Sequence[Length]) -> None:
        row = [[n] for n in lengths] or [[]]
        self._rows = [row]
        while len(row) > 1:
            row = [sorted(chain(*row[i : i + 2])) for i in range(0, len(row), 2)]
            self._rows.insert(0, row)

    def count(self, n: int) -> int:
        """Return how many sequences are longer than `n`."""
        return _above(n, self._rows[0][0])

    def nth(self, turn: int, n: int) -> int:
        """Return which sequence has turn number `turn` among those longer than `n`."""
        node = 0
        for row in self._rows[1:]:
            node *= 2
            left = _above(n, row[node])
            if turn >= left:
                turn -= left
                node += 1
        return node


def _above(n: int, lengths: list[Length]) -> int:
    return len(lengths) - bisect_right(lengths, n)
