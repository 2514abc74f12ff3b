"""`verify`: read a pipeline in several ways, and compare the items bit for bit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from itertools import zip_longest
from time import perf_counter
from typing import Any, Self

from ..core.arguments import optional_number, positive_int
from ..core.errors import ItemTimeout, WorkerDied, summary
from ..core.randomness import generators_kept
from ..core.source import as_view
from ..core.tracebacks import hiding_frames
from ..core.view import Indexable, View
from .differences import Difference, explained
from .remedy import refuse_one_shots
from .ways import (
    REFERENCE,
    EpochOf,
    Way,
    digests,
    of_loaders,
    of_views,
    shortened,
    without_nodes,
    without_stores,
)

__all__ = ["Check", "Verification", "verify"]

# How long one item may take before it counts as hanging.
LIMIT_S = 30.0


@hiding_frames()
def verify(sequence: Indexable[Any] | Any, n: int = 64, seconds: float | None = None) -> Verification:
    """Read a view or loader in several ways, and say whether all give the same items.

    It is read without workers, with one and two threads and processes, forked and spawned, item by item,
    from the middle on, and from a pickled copy, in epochs 0 and 1. Items are compared bit for bit. If they
    differ, the report names the first index, the view that makes the difference, what is known of the cause,
    and a remedy.

    Parameters
    ----------
    sequence : View, indexable, DataLoader or StreamLoader
        A view is read without the `prefetch` views in it, and with empty caches. A loader is copied with
        other workers.
    n : int
        How many items to compare, from the first one on (1 or more).
    seconds : float, optional
        Compare fewer items if all ways would take longer than this. None (the default): 20 seconds.

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
    Each item is computed about ten times in each epoch. Functions run in this process too, with their side
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
    until_s = optional_number(seconds, "verify: seconds", "seconds") or 20.0
    with warnings.catch_warnings(), generators_kept():
        warnings.simplefilter("ignore", RuntimeWarning)  # the report says more
        if hasattr(sequence, "with_workers"):
            refuse_one_shots(sequence, "verify")
            found = _verified(repr(sequence), _epochs_of_loader(sequence), of_loaders(), count, until_s)
            return replace(found, remarks=_remarks(sequence))
        view = without_nodes(as_view(sequence, "verify"))
        refuse_one_shots(view, "verify")
        return _verified(repr(view), _epochs_of_view(view), of_views(), count, until_s)


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
        The view or loader, as its `repr`.
    items : int
        How many items of each epoch were compared.
    checks : tuple of Check
        One for each way and epoch.
    difference : Difference or None
        The first difference: `index`, `stage`, `cause` and `remedy`.
    remarks : tuple of str
        Other differences from run to run.
    """

    subject: str
    items: int
    checks: tuple[Check, ...] = ()
    difference: Difference | None = None
    remarks: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Were all items equal that could be compared, and could any be compared?"""
        return self.is_compared and all(check.first is None for check in self.checks)

    @property
    def is_compared(self) -> bool:
        """Could items be compared in at least one way to read?"""
        others = [check for check in self.checks if check.way != REFERENCE]
        return any(not check.note or check.first is not None for check in others)

    def __bool__(self) -> bool:
        return self.ok

    def check(self) -> Self:
        """Return the report, or raise AssertionError with its text unless `ok`: for tests."""
        if not self.ok:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        head = f"verify: {self.items} items of {self.subject}: " + self._result()
        ends = [] if self.difference is None else ["", str(self.difference)]
        return "\n".join([head, *self._table(), *self.remarks, *ends])

    def _result(self) -> str:
        if not self.is_compared:
            return "nothing could be compared"
        return "all equal" if self.ok else "they differ"

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
        return f"<pre>{escape(str(self))}</pre>"


def _epochs_of_loader(loader: Any) -> Iterator[tuple[int, Any]]:
    dataset = getattr(loader, "dataset", None)
    own = without_stores(dataset) if isinstance(dataset, View) else None
    return ((epoch, EpochOf(loader, epoch, own)) for epoch in (0, 1))


def _remarks(loader: Any) -> tuple[str, ...]:
    if not loader.draws_its_order():
        return ()
    return ("The order is drawn anew in every run of the program. Pass `seed` to repeat it.",)


def _epochs_of_view(view: View[Any]) -> Iterator[tuple[int, Any]]:
    return ((epoch, view.at_epoch(epoch)) for epoch in ((0, 1) if view._varies else (0,)))


def _verified(
    subject: str, epochs: Iterator[tuple[int, Any]], to_read: list[Way], count: int, seconds: float
) -> Verification:
    checks, difference, compared = list[Check](), None, count
    for epoch, source in epochs:
        found: dict[str, list[bytes]] = {}
        notes: dict[str, str] = {}
        if isinstance(source, View):
            source = shortened(source, count, seconds / (2 * len(to_read)))
        until = perf_counter() + seconds / (2 * len(to_read))
        for way in to_read:
            try:
                found[way.name] = digests(way.read(source, compared, LIMIT_S), until)
            except (ItemTimeout, WorkerDied) as error:
                return Verification(subject, 0, (Check(way.name, epoch, 0, summary(error)),))
            except Exception as error:
                notes[way.name] = f"not compared ({summary(error)})"
                continue
            if until < float("inf"):
                compared, until = min(compared, len(found[way.name])), float("inf")
        if REFERENCE not in found:  # there is nothing to compare with
            notes = {way.name: notes.get(way.name, notes[REFERENCE]) for way in to_read}
        for way in to_read:
            is_read = way.name not in notes
            first = _first_difference(way, found[REFERENCE], found[way.name]) if is_read else None
            checks.append(Check(way.name, epoch, first, notes.get(way.name, "")))
        if difference is None and any(check.first is not None for check in checks):
            firsts = {c.way: c.first for c in checks if c.epoch == epoch and c.first is not None}
            difference = explained(source, epoch, firsts)
    report = Verification(subject, compared, tuple(checks), difference)
    return report if report.is_compared else replace(report, items=0)


def _first_difference(way: Way, expected: list[bytes], found: list[bytes]) -> int | None:
    """Return the first index at which a way gave another item, or None."""
    start = way.skips(len(expected))
    pairs = zip_longest(expected[start:], found[::-1] if way.is_backwards else found)
    return next((start + i for i, (one, other) in enumerate(pairs) if one != other), None)
