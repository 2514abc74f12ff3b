"""Find the view that makes items differ between two ways to read a pipeline."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..core.randomness import changed_generators, global_states
from ..core.view import View
from .digest import digest
from .remedy import is_loader
from .tree import text_of
from .ways import PROCESSES, REFERENCE, THREADS, EpochOf, Way, ways, without_nodes

__all__ = ["Difference", "explained"]

# How many items before the differing one are read again, and how often: not every race shows at once.
MOST_ITEMS = 64
TRIES = 3
# The ways to be explained first: the simplest one explains the others.
_SIMPLEST = ("no workers, again", "2 processes", "2 spawned processes")
_RANDOM_MAP = "Use sk.random_map(f, items), which calls f(item, rng) with a generator for each item"


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
        The lowest view that differs.
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


def explained(epoch: EpochOf, firsts: dict[str, int]) -> Difference:
    """Explain a difference. `firsts` has the first differing index for each way to read that differs."""
    name = next((way for way in _SIMPLEST if way in firsts), next(iter(firsts)))
    index, sequence = firsts[name], epoch.sequence
    view = None
    if isinstance(sequence, View):
        view = sequence
    elif hasattr(type(sequence), "view"):
        view = without_nodes(sequence.view.at_epoch(epoch.number))
    of_views = ways(False)
    found = _lowest(view, index, of_views[name]) if view is not None and name in of_views else None
    if found is None:
        text = type(sequence).__name__ if is_loader(sequence) else text_of(sequence)
        found = text, "", "", epoch, index + 1
    stage, expected, other, part, count = found
    before = global_states()
    with suppress(Exception):
        for _ in part.read(count):
            pass
    drawn = " and ".join(f"`{generator}`" for generator in changed_generators(before))
    return Difference(index, epoch.number, name, stage, expected, other, *_cause_of(drawn, set(firsts)))


def _cause_of(drawn: str, differing: set[str]) -> tuple[str, str]:
    """Return the cause of a difference as far as it is known, and a remedy.

    `drawn` names the global generators that an item moves. `differing` are the ways to read that differ.
    """
    if drawn:
        return f"It draws from the global generator of {drawn}", _RANDOM_MAP
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


def _lowest(view: View[Any], index: int, way: Way) -> tuple[str, str, str, EpochOf, int] | None:
    """Return the lowest view whose items differ, two items, and where to read it again; or None."""
    for _ in range(TRIES):
        for part, indices in _below(view, range(max(0, index + 1 - MOST_ITEMS), index + 1)):
            try:
                selected = EpochOf(part, 0, indices=indices)
                expected = [*ways(False)[REFERENCE](selected, len(indices))]
                others = [*way(selected, len(indices))]
            except Exception:  # such as items that cannot be sent by a process
                continue
            for number, (one, other) in enumerate(zip(expected, others, strict=False), 1):
                if digest(one) != digest(other):
                    return text_of(part), reprlib.repr(one), reprlib.repr(other), selected, number
    return None


def _below(view: View[Any], indices: range) -> Iterator[tuple[View[Any], list[int]]]:
    """Yield the views that some items are made of, with the indices that are read: the sources first.

    A view may read other views than its sources, such as those of another epoch.
    """
    reads: dict[int, tuple[View[Any], dict[int, None], dict[int, View[Any]]]] = {}
    pending: list[tuple[View[Any], Iterable[int]]] = [(view, indices)]
    while pending:
        part, wanted = pending.pop()
        _, known, below = reads.setdefault(id(part), (part, {}, {}))
        with suppress(Exception):  # it cannot tell: its sources are left out
            for i in [i for i in wanted if i not in known]:
                known[i] = None
                for source, parts in part._parts(i):
                    pending.append((source, list(parts)))
                    below[id(source)] = source

    def upwards(part: View[Any]) -> Iterator[tuple[View[Any], list[int]]]:
        _, known, below = reads.pop(id(part), (part, {}, {}))
        for source in below.values():
            yield from upwards(source)
        if known:
            yield part, sorted(known)

    return upwards(view)
