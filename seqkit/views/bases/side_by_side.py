"""`SideBySide`: the rows of several sources, which `smap`, `collate`, `case` and `switch` are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from ...core.errors import EndOfSequence
from ...core.indices import Endless, Indices, Plan, as_list
from ...core.iteration import surviving
from ...core.lengths import UNBOUNDED, UNKNOWN, Length, Unsized
from ...core.view import View

__all__ = ["SideBySide", "Zip"]

Zip = Literal["strict", "shortest"]


class SideBySide(View[Any]):
    """A view whose item i is made of item i of each source. It ends where the first source ends.

    A source of unknown length makes the length of the view unknown. Errors about lengths name the function
    `who`.
    """

    def __init__(self, sources: tuple[View[Any], ...], zip: Zip = "strict", who: str = "") -> None:
        super().__init__(sources)
        self._zip: Zip = zip
        self._who = who or self._name

    def _length(self) -> Length:
        lengths = [source._n for source in self._sources]
        known = [n for n in lengths if not isinstance(n, Unsized)]
        if self._zip == "strict" and len(set(known)) > 1:
            raise ValueError(
                f"{self._who}: the sequences must have one length, got {', '.join(map(str, known))}"
            )
        return UNKNOWN if any(n is UNKNOWN for n in lengths) else min(known, default=UNBOUNDED)

    def _item(self, row: Sequence[Any]) -> Any:
        """Return the item that a row makes."""
        return tuple(row)

    def _get(self, i: int) -> Any:
        return self._item(self._row(i))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return list(map(self._item, zip(*self._columns(indices), strict=True)))

    def _row(self, i: int) -> list[Any]:
        """Return item `i` of each source."""
        for source in self._sources:
            if i >= source._n:  # another source has no known length
                raise EndOfSequence(f"the sequence ends before index {i}")
        return [source._get(i) for source in self._sources]

    def _columns(self, indices: Indices) -> list[Sequence[Any]]:
        """Return the items of each source at some indices."""
        if self._n is UNKNOWN:
            rows = [self._row(i) for i in as_list(indices)]
            return list(zip(*rows, strict=True)) if rows else [[] for _ in self._sources]
        return [source._getmany(indices) for source in self._sources]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        if self._n is UNKNOWN and not isinstance(plan, Endless):
            return super()._iter(plan)
        plans = [source._plan() if isinstance(plan, Endless) else plan for source in self._sources]
        iterators = [source._iter(own) for source, own in zip(self._sources, plans, strict=True)]

        def read(i: int) -> Any:
            row: list[Any] = []
            try:
                row.extend(map(next, iterators))
            except Exception:
                for iterator in iterators[len(row) + 1 :]:  # each must be at the next item afterwards
                    _step_over(iterator)
                raise
            if len(row) < len(iterators):
                self._check_ends(i, len(row), iterators)
                raise EndOfSequence(f"the sequence ends before index {i}")
            return self._item(row)

        return surviving(self, plan, read)

    def _check_ends(self, i: int, ended: int, iterators: list[Iterator[Any]]) -> None:
        """Raise ValueError if a source ended before item `i`, and another one has it."""
        if self._zip == "shortest":
            return
        for which, source in enumerate(self._sources):
            has_more = source._n is not UNBOUNDED and which != ended
            if has_more and (which < ended or _step_over(iterators[which])):
                iterators[:] = [iter(()) for _ in iterators]  # the error is raised once
                raise ValueError(
                    f"{self._who}: the sequences must have one length, but sequence {ended} ends after"
                    f" {i} items and sequence {which} does not. Cut it with .head({i})."
                )

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return SideBySide(sources, self._zip, self._who)


SideBySide._name = "zip"


def _step_over(iterator: Iterator[Any]) -> bool:
    """Skip one item of an iterator, and ignore its error. Return whether there was one."""
    try:
        for _ in iterator:
            return True
        return False
    except Exception:
        return True
