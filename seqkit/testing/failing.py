"""Laws of failure: an item that fails affects no other item, and never looks like the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from ..core.errors import EvaluationError, errstate
from ..core.expression import walk
from ..core.view import View
from .reading import OPTIONAL_HOOKS, hidden
from .sources import FailingSource, TwoArgumentsError, UnsizedSource
from .subject import Subject, expect, needed, refused

__all__ = ["LAWS", "Failure", "by_index", "by_iteration"]

_ERRORS: tuple[type[Exception], ...] = (IndexError, StopIteration, KeyError, TwoArgumentsError)


@dataclass(frozen=True)
class Failure:
    """The outcome of an item that failed: the class of its error, and the cause."""

    kind: type[BaseException]
    cause: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        return cls(type(error), repr(error.__cause__ if isinstance(error, EvaluationError) else error))


def by_index(view: View[Any]) -> list[Any]:
    """Read each item by its index. Return the items, and a `Failure` for each item that fails.

    >>> import seqkit as sk
    >>> by_index(sk.smap(lambda x: 1 / x, [1, 0]))[1].cause
    "ZeroDivisionError('division by zero')"
    """
    return [_outcome(view.__getitem__, i) for i in range(len(view))]


def by_iteration(items: Iterator[Any], most: int = 10_000) -> list[Any]:
    """Return the items of an iterator, and a `Failure` for each item that fails."""
    found: list[Any] = []
    end = object()
    while len(found) < most:
        outcome = _outcome(next, items, end)
        if outcome is end:
            return found
        found.append(outcome)
    raise AssertionError(f"an iterator gave {most} items and errors and went on")


def _outcome(read: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except Exception as error:
        return Failure.of(error)


def failures_concern_their_items_only(subject: Subject) -> None:
    for view, kind, failing in _failing_views(subject):
        found = by_index(view)
        expected = subject.expected
        for i, outcome in enumerate(found):
            if _touches(view, i, failing):
                expect(f"view[{i}]", isinstance(outcome, Failure), True)
                expect(f"the error of view[{i}]", _is_of(outcome, kind), True)
            else:
                expect(f"view[{i}] beside failing items", outcome, expected[i])


def iteration_goes_on_behind_failures(subject: Subject) -> None:
    for view, _, failing in _failing_views(subject):
        found = by_index(view)
        name = f"with items {sorted(failing)} failing, "
        expect(name + "iter(view)", by_iteration(iter(view), len(found) + 9), found)
        expect(name + "reversed(view)", by_iteration(reversed(view), len(found) + 9), found[::-1])
        order = [*[*range(len(found))][::-2], *range(len(found))]
        expect(name + "a plan", by_iteration(view._iter(order)), [found[i] for i in order])
        for hook in OPTIONAL_HOOKS[: 0 if subject.ahead else None]:
            plain = hidden(view, [hook])
            expect(name + f"iter(view) without {hook}", by_iteration(iter(plain)), found)


def errors_name_their_items(subject: Subject) -> None:
    for view, kind, failing in _failing_views(subject):
        for i in range(len(view)):
            if _touches(view, i, failing):
                error = refused(f"view[{i}]", EvaluationError, view.__getitem__, i)
                assert isinstance(error, EvaluationError)
                _expect_names(error, view, i, kind)


def _expect_names(error: EvaluationError, view: View[Any], i: int, kind: type[Exception]) -> None:
    expect("error.__cause__ exists", error.__cause__ is not None, True)
    expect(f"{kind.__name__} in the text", kind.__name__ in str(error), True)
    expect("error.view is part of the view", any(node is error.view for node in walk(view)), True)
    expect("ends of error.path", error.path[:1] + error.path[-1:], ((view, i), (error.view, error.index)))


def batched_reads_fail_if_an_item_does(subject: Subject) -> None:
    for view, _, failing in _failing_views(subject):
        n = len(view)
        if any(_touches(view, i, failing) for i in range(n)):
            refused("view._getmany(…)", EvaluationError, view._getmany, range(n))


def passed_through_errors_are_the_original_ones(subject: Subject) -> None:
    if subject.length_reads:
        return
    with errstate("passthrough"):
        for view, kind, failing in _failing_views(subject):
            if subject.ahead and kind is TwoArgumentsError:
                continue  # it cannot be unpickled in another process
            found, again = by_index(view), by_iteration(iter(view))
            expect("items and errors of iter(view)", len(again), len(found))
            for i, (one, other) in enumerate(zip(found, again, strict=True)):
                if _touches(view, i, failing):
                    expect(f"the error of view[{i}]", _is_original(one, kind), True)
                    expect(f"the error of item {i} of iter(view)", _is_original(other, kind), True)
                else:
                    expect(f"item {i} of iter(view)", other, one)


def _is_original(failure: Failure, kind: type[Exception]) -> bool:
    # A generator turns a StopIteration into a RuntimeError.
    return failure.kind in (kind, RuntimeError if kind is StopIteration else kind)


def sources_without_length_give_the_same_items(subject: Subject) -> None:
    try:
        with subject.view(UnsizedSource(subject.items)) as view:
            expect("list(view)", list(view), subject.expected)
            expect("list(view.head(2))", list(view.head(2)), subject.expected[:2])
    except (TypeError, IndexError):
        return  # this view needs a length


def _failing_views(subject: Subject) -> Iterator[tuple[View[Any], type[Exception], Collection[int]]]:
    """Yield views of sources that fail, with the error and the items that raise it: one, two neighbours, all.

    A view is left out if finding its length reads an item that fails.
    """
    n = len(subject.items)
    sets: list[Collection[int]] = [*({j} for j in range(n)), *({j, j + 1} for j in range(n - 1))]
    if subject.ahead:
        sets = [{n // 2}, {1, 2}] if n > 2 else []
    sets = sets[:: 1 + len(sets) // 16]  # a sample for long sources
    if n:
        sets.append(range(n))
    for kind, failing in product(_ERRORS, sets):
        with subject.view(FailingSource(subject.items, failing, kind)) as view:
            try:
                len(view)
            except EvaluationError:
                if not subject.length_reads:
                    raise
                continue
            yield view, kind, failing


def _touches(view: View[Any], i: int, failing: Collection[int]) -> bool:
    datas = [node._data for node in walk(view) if hasattr(node, "_data")]
    sources = [data for data in datas if isinstance(data, FailingSource)]
    return any(j in failing for data in sources for j in needed(view, i, data))


def _is_of(failure: Failure, kind: type[Exception]) -> bool:
    return issubclass(failure.kind, EvaluationError) and kind.__name__ in failure.cause


LAWS: tuple[Callable[[Subject], None], ...] = (
    failures_concern_their_items_only,
    iteration_goes_on_behind_failures,
    errors_name_their_items,
    batched_reads_fail_if_an_item_does,
    passed_through_errors_are_the_original_ones,
    sources_without_length_give_the_same_items,
)
