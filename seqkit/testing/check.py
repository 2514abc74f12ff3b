"""`check_view`: every law, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import cloudpickle

from ..core.arguments import check_callable
from ..core.view import View
from . import copying, failing, laziness, reading, writing
from .subject import Build, Dumps, Model, Reads, Subject, Writes, forms

__all__ = ["check_view"]

# Lengths for the corner cases of index arithmetic. The first one gives readable messages.
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
    """Check that a view behaves like the list that it must equal.

    Parameters
    ----------
    build : callable
        Returns the view over a source. It is called many times, with sources of several kinds. One has no
        length: a view that needs a length must raise TypeError for it.
    model : callable
        Returns the list that the view must equal, for the list of the source's items.
    source : sequence, optional
        The items of the source. None (the default) means lists of 0 to 8 ints.
    reads : "exact", "any" or "ahead"
        ``"exact"`` (the default): reading an item reads only the source items that it is made of, each once.
        ``"any"``: reads are not checked. ``"ahead"``: the view works ahead of its consumer, perhaps in other
        processes, so reads cannot be counted. Fewer laws are checked.
    writes : bool or "elsewhere", optional
        Can all items be assigned (True), or none (False)? None (the default) does not check this.
        ``"elsewhere"``: an assignment does not change the source, or changes other items too, so no law is
        checked.
    length_reads : bool
        May finding the length read items?
    dumps : callable
        Pickles the view. The default, `cloudpickle.dumps`, allows lambdas in `build`.

    Raises
    ------
    AssertionError
        If a law does not hold. The message names the law, the view and the result.
    TypeError
        If `source` has no length.
    ValueError
        If `reads` or `writes` is something else.

    Notes
    -----
    Takes less than a second for a view that computes little.

    Examples
    --------
    >>> import seqkit as sk
    >>> check_view(lambda s: sk.collate([s, s]), lambda items: [(item, item) for item in items])
    >>> check_view(lambda s: sk.view(s)[1:], lambda items: items)
    Traceback (most recent call last):
    AssertionError: length_is_that_of_the_list: len(view) is 2, must be 3 ...
    """
    check_callable(build, "check_view: build")
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
    for number, source in enumerate(forms(subject.items)):
        with subject.view(source) as view:
            for law in reading.LAWS:
                with _named(law, subject, view):
                    law(view, subject.expected, subject.ahead or number > 0)


@contextmanager
def _named(law: Callable[..., None], subject: Subject, view: View[Any] | None = None) -> Iterator[None]:
    """Turn any exception into an AssertionError that names the law and the view."""
    try:
        yield
    except Exception as error:
        what = "a view" if view is None else repr(view)
        items = repr(subject.items) if len(subject.items) <= 20 else f"{len(subject.items)} items"
        raise AssertionError(f"{law.__name__}: {error}\n  for {what} over {items}") from error
