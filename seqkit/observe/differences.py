"""Find the view that makes items differ between two ways to read a pipeline."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.randomness import changed_generators, global_states
from ..core.view import View, only_selects
from .digest import digest
from .ways import (
    PROCESSES,
    REFERENCE,
    THREADS,
    EpochOf,
    Way,
    fresh,
    of_loaders,
    of_views,
    without_nodes,
)

__all__ = ["Difference", "explained"]

LIMIT_S = 30.0
# How many items before the differing one are read again, and how often: not every race shows at once.
MOST_ITEMS = 64
TRIES = 3
# The ways to be explained first: the simplest one explains the others.
_SIMPLEST = (
    "no workers, again",
    "item by item, backwards",
    "1 process",
    "2 processes",
    "2 spawned processes",
)


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
            f" {self.stage}:{values}\nCause: {self.cause}.\nRemedy: {self.remedy}."
        )


def explained(source: Any, epoch: int, firsts: dict[str, int]) -> Difference:
    """Explain a difference. `firsts` has the first differing index for each way to read that differs."""
    name = next((way for way in _SIMPLEST if way in firsts), next(iter(firsts)))
    index = firsts[name]
    view = _view_of(source)
    way = next((way for way in of_views() if way.name == name), None)
    found = None if view is None or way is None else _lowest(view, index, way)
    read: Callable[[], Any]
    if found is None:
        subject = source if isinstance(source, View) else source.loader
        reference = of_views() if isinstance(source, View) else of_loaders()
        here = next(way for way in reference if way.name == REFERENCE)
        stage, values = repr(subject), ("", "")
        read = lambda: list(here.read(source, index + 1, LIMIT_S))  # noqa: E731
    else:
        part, i = found.view, found.indices[found.at]
        stage, values = found.stage(), found.values()
        read = lambda: fresh(part)[i]  # noqa: E731
    return Difference(index, epoch, name, stage, *values, *_cause_of(read, set(firsts)))


def _cause_of(read: Callable[[], Any], differing: set[str]) -> tuple[str, str]:
    """Return the cause of a difference as far as it is known, and a remedy.

    `read` computes a differing item here. `differing` are the ways to read that differ.
    """
    before = global_states()
    try:
        read()
    except Exception:
        pass
    if drawn := [f"`{name}`" for name in changed_generators(before)]:
        return f"It draws from the global generator of {' and '.join(drawn)}", _RANDOM_MAP
    if differing <= THREADS:
        return (
            "Only threads differ: they change an object that they share while others use it",
            "Make a new object for each item, or use processes",
        )
    if differing <= PROCESSES:
        return (
            "Only other processes differ: the item depends on the process, on the order of a set or the hash"
            " of a text, or on a variable that the program has set at run time",
            "Sort sets. Pass variables as arguments, with functools.partial, or set them in start_hook",
        )
    return (
        "It keeps state from item to item, such as a generator of its own, or depends on the clock or the"
        " system",
        f"Compute an item from its index and its data only. {_RANDOM_MAP}",
    )


_RANDOM_MAP = "Use sk.random_map(f, items), which calls f(item, rng) with a generator for each item"


def _view_of(source: Any) -> View[Any] | None:
    """Return the view behind a view or an epoch of a loader, or None if there is none."""
    if isinstance(source, View):
        return source
    assert isinstance(source, EpochOf)
    view = getattr(source.loader, "view", None)
    return without_nodes(view.at_epoch(source.epoch)) if isinstance(view, View) else None


@dataclass(frozen=True)
class _Found:
    """A view that differs, the indices at which it was read, and which of them differs first.

    `expected` and `others` are the items there without workers, and read the other way.
    """

    view: View[Any]
    indices: list[int]
    at: int
    expected: list[Any]
    others: list[Any]

    def stage(self) -> str:
        """Return the view without the views below it, as text."""
        text = self.view._described(["…"] * bool(self.view._sources))
        return text.replace("(…)", "()").replace(", …", "")

    def values(self) -> tuple[str, str]:
        other = self.others[self.at - len(self.expected)]
        return reprlib.repr(self.expected[self.at]), reprlib.repr(other)


def _lowest(view: View[Any], index: int, way: Way) -> _Found | None:
    """Return the lowest view whose items differ, or None if none differs when it is read again."""
    for _ in range(TRIES):
        for part, indices in _below(view, range(max(0, index + 1 - MOST_ITEMS), index + 1)):
            if not only_selects(part) and (found := _compared(part, indices, way)):
                return found
    return None


def _compared(view: View[Any], indices: list[int], way: Way) -> _Found | None:
    """Read some items of a view without workers and in another way. Return what differs, or None."""
    count = len(indices)
    try:
        selected = fresh(view)[np.array(indices, np.int64)]
        expected = [(digest(item), item) for item in _reference().read(selected, count, LIMIT_S)]
        others = [(digest(item), item) for item in way.read(selected, count, LIMIT_S)]
    except Exception:  # such as items that cannot be sent by a process
        return None
    others = others[::-1] if way.is_backwards else others
    start = way.skips(count)
    for at, (one, other) in enumerate(zip(expected[start:], others, strict=False), start):
        if one[0] != other[0]:
            return _Found(view, indices, at, [item for _, item in expected], [item for _, item in others])
    return None


def _reference() -> Way:
    return next(way for way in of_views() if way.name == REFERENCE)


def _below(view: View[Any], indices: range) -> list[tuple[View[Any], list[int]]]:
    """Return the views that some items are made of, with the indices that are read: the sources first.

    A view may read other views than its sources, such as those of another epoch.
    """
    reads: dict[int, tuple[View[Any], dict[int, None], list[View[Any]]]] = {}
    pending: list[tuple[View[Any], Iterable[int]]] = [(view, indices)]
    while pending:
        part, wanted = pending.pop()
        _, known, below = reads.setdefault(id(part), (part, {}, []))
        for i in [i for i in wanted if i not in known]:
            known[i] = None
            try:
                for source, parts in part._parts(i):
                    pending.append((source, list(parts)))
                    below.append(source)
            except Exception:  # it cannot tell: its sources are left out
                break
    order, seen, waiting = list[tuple[View[Any], list[int]]](), set[int](), [(view, False)]
    while waiting:
        part, is_done = waiting.pop()
        if is_done:
            order.append((part, sorted(reads[id(part)][1])))
        elif id(part) not in seen:
            seen.add(id(part))
            waiting.append((part, True))
            waiting.extend((source, False) for source in reads[id(part)][2])
    return [(part, read) for part, read in order if read]
