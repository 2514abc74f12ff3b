"""`verify`: read a pipeline in several ways, and compare the items bit for bit."""

from __future__ import annotations

import random
import reprlib
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Self

import numpy as np

from ..core.arguments import positive_int
from ..core.errors import ItemTimeout, WorkerDied, summary
from ..core.source import as_view
from ..core.tracebacks import hiding_frames
from ..core.units import plural
from ..core.view import Indexable, View
from ..engine.seeding import generators_kept
from . import html
from .digest import digest
from .explain import text_of
from .rewriting import without_nodes
from .subject import is_loader, refuse_one_shots
from .ways import PROCESSES, REFERENCE, RESUMED, THREADS, EpochOf, Way, ways

__all__ = ["Check", "Difference", "Verification", "explained", "verify"]


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
    index, view, way = firsts[name], _viewed(epoch), ways(False).get(name)
    lowest = None if view is None or way is None else _lowest(view, index, way)
    kind = type(epoch.sequence).__name__
    text = kind if is_loader(epoch.sequence) else text_of(epoch.sequence)
    stage, expected, found, part, count = lowest or (text, "", "", epoch, index + 1)
    before = _global_states()
    with suppress(Exception):
        for _ in part.read(count):
            pass
    drawn = " and ".join(f"`{generator}`" for generator in _changed_generators(before))
    return Difference(index, epoch.number, name, stage, expected, found, *_cause_of(drawn, set(firsts)))


def _viewed(epoch: EpochOf) -> View[Any] | None:
    """Return the view of an epoch, or None if there is none."""
    if isinstance(epoch.sequence, View):
        return epoch.sequence
    has_view = hasattr(type(epoch.sequence), "view")
    return without_nodes(epoch.sequence.view.at_epoch(epoch.number)) if has_view else None


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


def _global_states() -> dict[str, Any]:
    """Return the states of the global generators of libraries, in a form that can be compared.

    >>> before = _global_states()
    >>> _ = np.random.rand()
    >>> [name for name, state in _global_states().items() if state != before[name]]
    ['numpy.random']
    """
    kind, words, *rest = np.random.get_state(legacy=True)
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    return {
        "random": random.getstate(),
        "numpy.random": (kind, np.asarray(words).tobytes(), *rest),
        "torch": None if generator is None else bytes(generator.get_state().numpy()),
    }


def _changed_generators(before: dict[str, Any]) -> list[str]:
    """Return the names of the global generators that have drawn or were seeded since `_global_states`.

    A library that was imported since does not count.
    """
    return sorted(name for name, state in _global_states().items() if before[name] not in (None, state))


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


def _below(view: View[Any], indices: range) -> list[tuple[View[Any], list[int]]]:
    """Return the views that some items are made of, with the indices that are read: the sources first.

    A view may read other views than its sources, such as those of another epoch.
    """
    found: dict[int, tuple[View[Any], list[int]]] = {}
    seen: set[tuple[int, int]] = set()

    def visit(part: View[Any], i: int) -> None:
        if (id(part), i) not in seen:
            seen.add((id(part), i))
            with suppress(Exception):  # it cannot tell: its sources are left out
                for source, parts in part._parts(i):
                    for j in parts:
                        visit(source, j)
            found.setdefault(id(part), (part, []))[1].append(i)

    for i in indices:
        visit(view, i)
    return list(found.values())


@hiding_frames()
def verify(sequence: Indexable[Any] | Any, n: int = 64) -> Verification:
    """Read a view or loader in several ways, and say whether all give the same items.

    It is read twice without workers, with two threads, two forked and two spawned processes and, if it is a
    loader, from a state in the middle, in epochs 0 and 1. Items are compared bit for bit. If they differ, the
    report names the first index, the view that makes the difference, what is known of the cause, and a
    remedy.

    Parameters
    ----------
    sequence : View, indexable, DataLoader or StreamLoader
        A view is read without the `prefetch` views in it, and with empty caches. A loader is copied with
        other workers.
    n : int
        How many items to compare, from the first one on (1 or more).

    Returns
    -------
    Verification
        Print it. `ok` says whether all items were equal. `check` raises if they were not, or if nothing could
        be compared.

    Raises
    ------
    TypeError
        If `sequence` is neither a sequence nor a loader, or a number has the wrong type.
    ValueError
        If a number is out of range, or a one-shot iterator would be read.

    Notes
    -----
    Each item is computed about five times in each epoch. Functions run in this process too, with their side
    effects, and generators and samplers of yours are drawn from. The global random generators are put back
    afterwards. Objects without content, such as open files, count as their class.

    Examples
    --------
    >>> import random, seqkit as sk
    >>> bool(verify(sk.random_map(lambda x, rng: x + rng.random(), range(8), seed=0)))
    True
    >>> report = verify(sk.smap(lambda x: x + random.random(), range(8)))
    >>> report.ok, report.difference.stage
    (False, 'smap(<lambda>)')
    >>> print(report.difference.cause)
    It draws from the global generator of `random`
    """
    count = positive_int(n, "verify: n")
    with warnings.catch_warnings(), generators_kept():
        warnings.simplefilter("ignore", RuntimeWarning)  # the report says more
        refuse_one_shots(sequence, "verify")
        if is_loader(sequence):
            dataset = getattr(sequence, "dataset", None)
            own = without_nodes(dataset, nodes=True) if isinstance(dataset, View) else None
            epochs = [EpochOf(sequence, epoch, own) for epoch in (0, 1)]
            return _verified(type(sequence).__name__, epochs, ways(True), count)
        view = without_nodes(as_view(sequence, "verify"))
        epochs = [EpochOf(view.at_epoch(epoch), epoch) for epoch in ((0, 1) if view._varies else (0,))]
        return _verified(text_of(view), epochs, ways(False), count)


@dataclass(frozen=True)
class Check:
    """One way to read one epoch.

    Attributes
    ----------
    way : str
    epoch : int
    first : int or None
        The first index whose item differs from that without workers, or None.
    note : str
        Why it could not be compared, or "".
    """

    way: str
    epoch: int
    first: int | None = None
    note: str = ""

    def __str__(self) -> str:
        return self.note or ("equal" if self.first is None else f"differs from item {self.first} on")


@dataclass(frozen=True, repr=False)
class Verification:
    """The result of `verify`.

    Attributes
    ----------
    subject : str
        The view with its arguments, or the class of the loader.
    items : int
        How many items of each epoch were compared.
    checks : tuple of Check
        One for each way and epoch.
    difference : Difference or None
        The first difference: `index`, `stage`, `cause` and `remedy`.
    """

    subject: str
    items: int
    checks: tuple[Check, ...] = ()
    difference: Difference | None = None

    @property
    def ok(self) -> bool:
        """Were all items equal that could be compared, and could any be compared?"""
        return self.is_compared and all(check.first is None for check in self.checks)

    @property
    def is_compared(self) -> bool:
        """Are there items, and could they be compared in at least one way to read?"""
        others = [check for check in self.checks if check.way != REFERENCE]
        return any(check.first is not None or (self.items and not check.note) for check in others)

    def __bool__(self) -> bool:
        return self.ok

    def check(self) -> Self:
        """Return the report, or raise AssertionError with its text unless `ok`: for tests."""
        if not self.ok:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        result = "all equal" if self.ok else "they differ"
        if not self.is_compared:
            result = "nothing could be compared"
        head = f"verify: {plural(self.items, 'item')} of {self.subject}: {result}"
        ends = [] if self.difference is None else ["", str(self.difference)]
        return html.visible("\n".join([head, *self._table(), *ends]))

    def _table(self) -> list[str]:
        """Return a line for each way to read, with one column if its epochs are alike."""
        found: dict[str, list[str]] = {}
        for check in self.checks:
            found.setdefault(check.way, []).append(str(check))
        width = max(map(len, found), default=0)
        return [
            f"  {way:<{width}}  {texts[0]}"
            + "".join(f"; epoch {epoch}: {text}" for epoch, text in enumerate(texts) if text != texts[0])
            for way, texts in found.items()
        ]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html.text(self)


def _verified(subject: str, epochs: list[EpochOf], to_read: dict[str, Way], count: int) -> Verification:
    checks, difference, compared, most = list[Check](), None, count, count
    for epoch in epochs:
        found: dict[str, list[bytes]] = {}
        notes: dict[str, str] = {}
        for name, way in to_read.items():
            try:
                found[name] = [digest(item) for item in way(epoch, most)]
            except (ItemTimeout, WorkerDied) as error:
                return Verification(subject, 0, (Check(name, epoch.number, 0, summary(error)),))
            except Exception as error:
                notes[name] = f"not compared ({summary(error)})"
                continue
            if len(found) == 1:
                most = min(most, len(found[name]) or most)
        expected = found.get(REFERENCE)
        compared = min(compared, len(expected or ()))
        for name in to_read:
            first, note = None, notes.get(name, "")
            if expected is None:  # there is nothing to compare with
                note = note or notes[REFERENCE]
            elif not note:
                start = len(expected) // 2 if name == RESUMED else 0
                pairs = enumerate(zip_longest(expected[start:], found[name]), start)
                first = next((i for i, (one, other) in pairs if one != other), None)
            checks.append(Check(name, epoch.number, first, note))
        firsts = {c.way: c.first for c in checks if c.epoch == epoch.number and c.first is not None}
        if difference is None and firsts:
            difference = explained(epoch, firsts)
    return Verification(subject, compared, tuple(checks), difference)
