"""Find the view that makes items differ between two ways to read a pipeline."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..view import View, only_selects
from .causes import Evidence, cause_of
from .ways import REFERENCE, EpochOf, Way, digests, of_loaders, of_views, without_nodes

__all__ = ["Difference", "explained"]

LIMIT_S = 30.0
# How many items before the differing one are read again, and how often: not every race shows at once.
MOST_ITEMS = 64
TRIES = 3
# The ways to be explained first: the simplest one explains the others.
_SIMPLEST = ("no workers, again", "item by item, backwards", "1 process", "2 processes", "2 spawned processes")


@dataclass(frozen=True)
class Difference:
    """The first item that differs, and why.

    Attributes
    ----------
    index, epoch : int
        Where the whole pipeline differs first.
    way : str
        How it was read.
    stage : str
        The lowest view that differs, as its `repr`.
    expected, found : str
        An item of this view without workers, and read this way, shortened.
    cause, remedy : str
        Sentences.
    """

    index: int
    epoch: int
    way: str
    stage: str
    expected: str
    found: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        values = f"\n  {REFERENCE}: {self.expected}\n  {self.way}: {self.found}" if self.expected else ""
        return (
            f"Item {self.index} of epoch {self.epoch} differs first ({self.way}). The difference arises in"
            f" {self.stage}:{values}\nProbable cause: {self.cause}.\nRemedy: {self.remedy}."
        )


def explained(source: Any, epoch: int, firsts: dict[str, int]) -> Difference:
    """Explain a difference. `firsts` has the first differing index for each way to read that differs."""
    name = next((way for way in _SIMPLEST if way in firsts), next(iter(firsts)))
    index = firsts[name]
    view = _view_of(source)
    way = next((way for way in of_views() if way.name == name), None)
    found = None if view is None or way is None else _lowest(view, index, way)
    if found is None:
        subject = source if isinstance(source, View) else source.loader
        reference = of_views() if isinstance(source, View) else of_loaders()
        here = next(way for way in reference if way.name == REFERENCE)
        stage, values = repr(subject), ("", "")
        evidence = Evidence(subject, lambda: list(here.read(source, index + 1, LIMIT_S)), name, firsts)
    else:
        stage, values, evidence = _describe(found, way, name, firsts)  # type: ignore[arg-type]
    cause, remedy = cause_of(evidence)
    return Difference(index, epoch, name, stage, *values, cause, remedy)


def _view_of(source: Any) -> View[Any] | None:
    """Return the view behind a view or an epoch of a loader, or None if there is none."""
    if isinstance(source, View):
        return source
    assert isinstance(source, EpochOf)
    view = getattr(source.loader, "view", None)
    return without_nodes(view.at_epoch(source.epoch)) if isinstance(view, View) else None


@dataclass(frozen=True)
class _Found:
    """A view that differs, and the items that it was read at, of which number `at` differs first."""

    view: View[Any]
    indices: list[int]
    at: int

    def selected(self) -> View[Any]:
        return self.view[np.array(self.indices, np.int64)]


def _lowest(view: View[Any], index: int, way: Way) -> _Found | None:
    """Return the lowest view whose items differ, or None if none differs when it is read again."""
    for _ in range(TRIES):
        for part, indices in _below(view, range(max(0, index + 1 - MOST_ITEMS), index + 1)):
            at = None if only_selects(part) else _differs(part[np.array(indices, np.int64)], len(indices), way)
            if at is not None:
                return _Found(part, indices, at)
    return None


def _differs(view: View[Any], count: int, way: Way) -> int | None:
    """Return the number of the first item that differs between no workers and another way."""
    expected = digests(_reference().read(view, count, LIMIT_S))
    found = digests(way.read(view, count, LIMIT_S))
    found = found[::-1] if way.is_backwards else found
    start = way.skips(count)
    return next((at for at, one in enumerate(expected[start:], start) if [one] != found[at - start :][:1]), None)


def _reference() -> Way:
    return next(way for way in of_views() if way.name == REFERENCE)


def _below(view: View[Any], indices: range) -> list[tuple[View[Any], list[int]]]:
    """Return the views of an expression with the indices that some items read: the sources first."""
    reads: dict[int, tuple[View[Any], dict[int, None]]] = {id(view): (view, dict.fromkeys(indices))}
    order = _order(view)
    for part in reversed(order):
        for i in list(reads[id(part)][1]) if id(part) in reads else ():
            try:
                for source, parts in part._parts(i):
                    reads.setdefault(id(source), (source, {}))[1].update(dict.fromkeys(parts))
            except Exception:  # it cannot tell: its sources are left out
                break
    return [(part, list(reads[id(part)][1])) for part in order if id(part) in reads and reads[id(part)][1]]


def _order(view: View[Any]) -> list[View[Any]]:
    """Return the views of an expression, each once, behind its sources."""
    order, seen, pending = list[View[Any]](), set[int](), [(view, False)]
    while pending:
        part, is_done = pending.pop()
        if is_done:
            order.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            pending.append((part, True))
            pending.extend((source, False) for source in part._sources)
    return order


def _describe(found: _Found, way: Way, name: str, firsts: dict[str, int]) -> Any:
    """Return the text of a view, its two items, and what speaks for a cause."""
    selected, count = found.selected(), len(found.indices)
    expected = list(_reference().read(selected, count, LIMIT_S))[found.at]
    others = list(way.read(selected, count, LIMIT_S))
    others = others[::-1] if way.is_backwards else others
    other = others[found.at - way.skips(count)]
    evidence = Evidence(
        found.view, lambda: found.view[found.indices[found.at]], name, firsts, (expected, other), selected
    )
    stage = found.view._described(["…"] * bool(found.view._sources)).replace("(…)", "()").replace(", …", "")
    return stage, (reprlib.repr(expected), reprlib.repr(other)), evidence
