"""`interleave`: several sequences in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from ...core.arguments import as_sequences
from ...core.errors import EndOfSequence
from ...core.indices import UNBOUNDED, UNKNOWN, Endless, Indices, Length, Plan, Unsized
from ...core.iteration import surviving
from ...core.once import cached
from ...core.source import as_view
from ...core.view import Indexable, T, View, sized
from ..bases.one_of_several import Lengths, OneOfSeveral
from .rounds import Rounds

__all__ = ["Interleave", "interleave"]

Stop = Literal["longest", "shortest"]


def interleave(*sequences: Indexable[T], stop: Stop = "longest") -> View[T]:
    """Return the view of the items of several sequences in turn: all first items, then all second items, ….

    Parameters
    ----------
    *sequences : View or indexable
        One list of sequences may take their place, as in `concatenate`, `collate` and `mix`. A list of tuples
        is one sequence. If one has an unknown length, so has the view. Without sequences, the view is empty.
    stop : "longest" or "shortest"
        When one sequence ends, continue with the others (default), or end with the last complete round.

    Returns
    -------
    View
        The sum of all lengths, or with ``"shortest"`` the shortest length times the number of sequences.

    Raises
    ------
    TypeError
        If a sequence cannot be indexed, or has an unknown length with ``"shortest"``.
    ValueError
        If `stop` is something else.

    Notes
    -----
    A few binary searches among the sequences per access. An index reads sequences of unknown
    length to find out whether they reach it. After ``interleave`` of SeqTools; known elsewhere as
    ``roundrobin``, ``interleave_datasets``. See `mix` for given proportions.

    Examples
    --------
    >>> list(interleave("abcd", [1, 2]))
    ['a', 1, 'b', 2, 'c', 'd']
    >>> list(interleave("abcd", [1, 2], stop="shortest"))
    ['a', 1, 'b', 2]
    """
    if stop not in ("longest", "shortest"):
        raise ValueError(f"interleave: stop must be 'longest' or 'shortest', got {stop!r}")
    sources = tuple(as_view(s, "interleave") for s in as_sequences(sequences))
    return sized(Interleave(sources, stop))


class Interleave(OneOfSeveral):
    """The view that `interleave` returns."""

    def __init__(self, sources: tuple[View[Any], ...], stop: Stop) -> None:
        super().__init__(sources)
        self._stop = stop

    def _length(self) -> Length:
        lengths = [source._n for source in self._sources]
        if all(n is not UNKNOWN for n in lengths):
            return UNBOUNDED if isinstance(self._rounds.length, Unsized) else self._rounds.length
        if self._stop == "shortest":
            raise TypeError(
                f"interleave: stop='shortest' needs sequences with a length, or unbounded: {UNKNOWN.reason}"
            )
        return UNBOUNDED if any(n is UNBOUNDED for n in lengths) else UNKNOWN

    @cached
    def _rounds(self) -> Rounds:
        return self._made(self._ends.lengths)

    @cached
    def _ends(self) -> Lengths:
        return Lengths(self._sources)

    @cached
    def _is_clear(self) -> bool:
        """Do all sources have a length, or none because they are unbounded?"""
        return all(source._n is not UNKNOWN for source in self._sources)

    def _made(self, lengths: Sequence[Length]) -> Rounds:
        return Rounds(lengths, min(lengths, default=0) if self._stop == "shortest" else UNBOUNDED)

    def _place(self, i: int) -> tuple[int, int]:
        if self._is_clear:
            return self._rounds.place(i)
        while True:  # until no further end is found
            known = list(self._ends.lengths)
            rounds = self._made(known)
            if i >= rounds.length:
                raise EndOfSequence(f"the sequence ends before index {i}")
            which, j = rounds.place(i)
            for other in range(len(known)):
                if other != which and j - (other > which) >= 0:
                    self._ends.length(other, j - (other > which))
            if known == self._ends.lengths:
                return which, j

    def _get(self, i: int) -> Any:
        which, j = self._place(i)
        try:
            item = self._sources[which]._get(j)
        except EndOfSequence:
            if self._is_clear or self._ends.length(which, j) > j:
                raise
            return self._get(i)
        if not self._is_clear:
            self._ends.reach(which, j)
        return item

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return super()._getmany(indices) if self._is_clear else View._getmany(self, indices)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if not self._is_clear:
            return self._in_rounds(plan) if isinstance(plan, Endless) else View._iter(self, plan)
        rounds = self._rounds
        if isinstance(plan, Endless):
            return self._in_turn(plan, rounds.turns(0, self._n), [s._plan() for s in self._sources])
        if isinstance(plan, range) and plan.step == 1 and plan:
            shares = [*map(range, rounds.before(plan.start), rounds.before(plan.stop))]
            return self._in_turn(plan, rounds.turns(plan.start, plan.stop), shares)
        return super()._iter(plan)

    def _in_rounds(self, plan: Plan) -> Iterator[Any]:
        """Iterate all sources in turn, each as far as it goes."""
        waiting = deque(source._iter(source._plan()) for source in self._sources)

        def read(i: int) -> Any:
            while waiting:
                items = waiting.popleft()
                try:
                    item = next(items)
                except StopIteration:
                    continue
                except Exception:
                    waiting.append(items)
                    raise
                waiting.append(items)
                return item
            raise EndOfSequence(f"the sequence ends before index {i}")

        return surviving(self, plan, read)

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return (self._stop,)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Interleave(sources, self._stop)

    def _arguments(self, sources: list[str]) -> list[str]:
        return sources if self._stop == "longest" else [*sources, f"stop={self._stop!r}"]
