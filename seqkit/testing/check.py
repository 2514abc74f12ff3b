"""`check_view`: every law, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import cloudpickle

from ..view import View
from . import copying, failing, laziness, reading, writing
from .subject import Build, Dumps, Model, Reads, Subject, Writes, forms

__all__ = ["check_view"]

# Lengths that meet the corners of index arithmetic; first one that makes for a clear message.
SIZES = (3, 0, 1, 2, 5, 8)


def check_view(
    build: Build,
    model: Model,
    source: Sequence[Any] | None = None,
    *,
    reads: Reads = "exact",
    writes: Writes = None,
    length_reads: bool = False,
    dumps: Dumps = cloudpickle.dumps,
) -> None:
    """Hold a view against the list that it must equal.

    Parameters
    ----------
    build : callable
        Makes the view over a source. It is called many times, with sources of several kinds, also one
        without a length: a view that needs one refuses it with a TypeError.
    model : callable
        Makes the list that the view must equal from the list of the source's items.
    source : sequence, optional
        The items to lay the view over. None (the default) means lists of 0 to 8 ints.
    reads : "exact", "any" or "ahead"
        ``"exact"`` (the default): reading an item reads each item of the source at most once for each time
        it is part of the item, and no other. ``"any"``: not so. ``"ahead"``: the view works ahead of its
        reader, perhaps in other processes, so that reads cannot be counted; fewer questions are asked.
    writes : bool or "elsewhere", optional
        Can every item be written (True), or none (False)? None (the default) leaves it open.
        ``"elsewhere"``: what is written does not go into the source, or changes more than its own item, so
        that no law holds for it.
    length_reads : bool
        May finding the length read items?
    dumps : callable
        Turns the view into a pickle; `cloudpickle.dumps` by default, which allows lambdas in `build`.

    Raises
    ------
    AssertionError
        Naming the law that does not hold, the view, and what was found.
    TypeError
        If `source` has no length.
    ValueError
        If `reads` or `writes` is something else.

    Notes
    -----
    Below a second for a view that computes little.

    Examples
    --------
    >>> import seqkit as sk
    >>> check_view(lambda s: sk.collate([s, s]), lambda items: [(item, item) for item in items])
    >>> check_view(lambda s: sk.view(s)[1:], lambda items: items)
    Traceback (most recent call last):
    AssertionError: length_is_that_of_the_list: len(view) is 2, must be 3 ...
    """
    if reads not in ("exact", "any", "ahead"):
        raise ValueError(f"check_view: reads must be 'exact', 'any' or 'ahead', got {reads!r}")
    if writes not in (None, True, False, "elsewhere"):
        raise ValueError(f"check_view: writes must be a bool, 'elsewhere' or None, got {writes!r}")
    if source is None:
        samples = [list(range(10, 10 + n)) for n in SIZES]
    else:
        samples = [[source[i] for i in range(len(source))]]
    subjects = [Subject(build, model, items, reads, writes, length_reads, dumps) for items in samples]
    for subject in subjects:
        _check_reading(subject)
    for subject in subjects:
        for law in (*laziness.LAWS, *failing.LAWS, *writing.LAWS, *copying.LAWS):
            with _named(law, subject):
                law(subject)


def _check_reading(subject: Subject) -> None:
    for number, (_, source) in enumerate(forms(subject.items)):
        with subject.view(source) as view:
            for law in reading.LAWS:
                with _named(law, subject, view):
                    law(view, subject.expected, subject.ahead or number > 0)


@contextmanager
def _named(law: Callable[..., None], subject: Subject, view: View[Any] | None = None) -> Iterator[None]:
    """Turn any exception into an AssertionError that says which law does not hold, and for what."""
    try:
        yield
    except Exception as error:
        what = "a view" if view is None else repr(view)
        items = repr(subject.items) if len(subject.items) <= 20 else f"{len(subject.items)} items"
        raise AssertionError(f"{law.__name__}: {error}\n  for {what} over {items}") from error
