"""`SideBySide`: the base of views that read several sources side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from ...core.errors import EndOfSequence
from ...core.indices import UNBOUNDED, UNKNOWN, Indices, Length, Plan, Unsized, as_list
from ...core.iteration import surviving
from ...core.once import cached
from ...core.view import View

__all__ = ["SideBySide", "Zip", "Zipped", "common_length"]

Zip = Literal["strict", "shortest"]


class SideBySide(View[Any]):
    """A view whose item i is made of item i of each source."""

    def __init__(self, sources: tuple[View[Any], ...], zip: Zip = "strict", who: str = "") -> None:
        super().__init__(sources)
        self._zip: Zip = zip
        self._who = who or self._name

    def _length(self) -> Length:
        return common_length(self._sources, self._zip, self._who)

    @cached
    def _by_index(self) -> bool:
        return _are_read_by_index([source._n for source in self._sources])

    def _at(self, source: View[Any], i: int) -> Any:
        """Return item `i` of a source. The end of the source ends this view, unless that has a length."""
        if not self._by_index:
            return source._get(i)
        if i >= source._n:
            raise EndOfSequence(f"the sequence ends before index {i}")
        try:
            return source._get(i)
        except EndOfSequence as end:
            if self._n is UNKNOWN:
                raise
            raise ValueError(f"{self._who}: the lengths differ: of {source!r}, {end}") from None

    def _row(self, i: int) -> list[Any]:
        """Return item `i` of each source."""
        row: list[Any] = []
        try:
            for source in self._sources:
                row.append(self._at(source, i))
        except EndOfSequence:
            ended = len(row)
            if i == 0 or self._has(ended, i - 1):  # it is the first item that the source lacks
                self._check_others(i, ended, lambda which: which < ended or self._has(which, i))
            raise
        return row

    def _has(self, which: int, i: int) -> bool:
        """Does a source have an item `i`? One that fails exists."""
        return _exists(lambda: self._sources[which]._get(i))

    def _check_others(self, i: int, ended: int, has: Callable[[int], bool]) -> None:
        """Raise ValueError if a source ended before item `i`, and another one of unknown length has it."""
        if self._zip == "shortest":
            return
        for which, source in enumerate(self._sources):
            if which != ended and source._n is UNKNOWN and has(which):
                raise ValueError(
                    f"{self._who}: the sequences must have one length, but sequence {ended} ends after"
                    f" {i} items and sequence {which} does not. Cut it with .head({i})."
                )

    def _columns(self, indices: Indices) -> list[Sequence[Any]]:
        """Return the items of each source at some indices."""
        if self._by_index or self._n is UNKNOWN:
            rows = [self._row(i) for i in as_list(indices)]
            return list(zip(*rows, strict=True)) if rows else [[] for _ in self._sources]
        return [source._getmany(indices) for source in self._sources]

    def _rows(self, plan: Plan, make: Callable[[list[Any]], Any]) -> Iterator[Any]:
        """Iterate ``make([an item of each source])`` over a plan."""
        if self._by_index:
            return self._rows_by_index(plan, make)
        iterators = [source._iter(plan) for source in self._sources]
        has_ended = False

        def read(i: int) -> Any:
            nonlocal has_ended
            row: list[Any] = []
            try:
                row.extend(map(next, iterators))
            except Exception:
                for iterator in iterators[len(row) + 1 :]:  # each must be at the next item afterwards
                    _step_over(iterator)
                raise
            if len(row) < len(iterators):
                if not has_ended:
                    has_ended, ended = True, len(row)
                    self._check_others(
                        i, ended, lambda which: which < ended or _exists(lambda: next(iterators[which]))
                    )
                raise EndOfSequence(f"the sequence ends before index {i}")
            return make(row)

        return surviving(self, plan, read)

    def _rows_by_index(self, plan: Plan, make: Callable[[list[Any]], Any]) -> Iterator[Any]:
        n = self._n
        if isinstance(n, Unsized) or not (isinstance(plan, range) and plan == range(n)):
            return surviving(self, plan, lambda i: make(self._row(i)))
        known = [isinstance(source._n, int) for source in self._sources].index(True)

        def read(i: int) -> Any:
            if i < n:
                return make(self._row(i))
            self._check_others(n, known, lambda which: self._has(which, n))
            raise EndOfSequence(f"the sequence ends before index {n}")

        return surviving(self, range(n + 1), read)


class Zipped(SideBySide):
    """Lists of item i of each source."""

    def _get(self, i: int) -> list[Any]:
        return self._row(i)

    def _getmany(self, indices: Indices) -> list[list[Any]]:
        return list(map(list, zip(*self._columns(indices), strict=True)))

    def _iter(self, plan: Plan) -> Iterator[list[Any]]:
        return self._rows(plan, list)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Zipped(sources, self._zip, self._who)


def common_length(sources: Sequence[View[Any]], zip: Zip, who: str) -> Length:
    """Return the length of views that are read side by side, or refuse different lengths."""
    lengths = [source._n for source in sources]
    known = [n for n in lengths if not isinstance(n, Unsized)]
    if zip == "strict" and len(set(known)) > 1:
        raise ValueError(f"{who}: the sequences must have one length, got {', '.join(map(str, known))}")
    if known and (zip == "strict" or not _are_read_by_index(lengths)):
        return min(known)
    return UNKNOWN if any(n is UNKNOWN for n in lengths) else UNBOUNDED


def _are_read_by_index(lengths: list[Length]) -> bool:
    """Does one source have a length, and another one an unknown end? They are then read by index."""
    return any(n is UNKNOWN for n in lengths) and not all(isinstance(n, Unsized) for n in lengths)


def _exists(read: Callable[[], Any]) -> bool:
    """Does reading an item find one, before the end of its sequence? One that fails exists."""
    try:
        read()
    except (StopIteration, EndOfSequence):
        return False
    except Exception:
        pass
    return True


def _step_over(iterator: Iterator[Any]) -> None:
    """Skip one item of an iterator and ignore its error."""
    try:
        next(iterator, None)
    except Exception:
        pass
