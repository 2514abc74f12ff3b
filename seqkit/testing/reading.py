"""Laws of reading: a view gives the items of its list, in every way of reading.

Each law takes the view, the list, and a flag to check fewer cases, for views that work ahead and are slower
to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, product
from math import gcd
from typing import Any

import numpy as np

from ..core.epoch import DRAWS
from ..core.indices import Expanded, Plan, Selected, Translated, as_array
from ..core.view import View
from .subject import depth, expect, refused

__all__ = ["LAWS", "OPTIONAL_HOOKS", "hidden", "index_batches", "pick", "plans", "some_slices"]

Law = Callable[[View[Any], list[Any], bool], None]

OPTIONAL_HOOKS = ("_iter", "_getmany", "_take")
_END = object()


def length_is_that_of_the_list(view: View[Any], expected: list[Any], few: bool) -> None:
    expect("len(view)", len(view), len(expected))
    expect("len(view), asked again", len(view), len(expected))
    expect("bool(view)", bool(view), bool(expected))


def iteration_gives_every_item_in_order(view: View[Any], expected: list[Any], few: bool) -> None:
    expect("list(view)", list(view), expected)
    expect("list(view), made again", list(view), expected)
    expect("list(reversed(view))", list(reversed(view)), expected[::-1])
    iterator = iter(view)
    for i, item in enumerate(expected):
        expect(f"item {i} of iter(view)", next(iterator), item)
    for _ in range(2):
        expect("a further item of iter(view)", next(iterator, _END), _END)


def ints_index_as_in_a_list(view: View[Any], expected: list[Any], few: bool) -> None:
    n = len(expected)
    for i in range(-n - 2, n + 2):
        if -n <= i < n:
            expect(f"view[{i}]", view[i], expected[i])
        else:
            error = refused(f"view[{i}]", IndexError, view.__getitem__, i)
            expect("its message", f"index {i} out of range for length {n}" in str(error), True)


def slices_are_those_of_the_list(view: View[Any], expected: list[Any], few: bool) -> None:
    for key in some_slices(len(expected), 60 if few else 900):
        wanted = expected[key]
        part = view[key]
        expect("type of view[{}]", isinstance(part, View), True, key)
        expect("len(view[{}])", len(part), len(wanted), key)
        expect("list(view[{}])", list(part), wanted, key)
        if wanted:
            expect("view[{}][-1]", part[-1], wanted[-1], key)


def selections_compose(view: View[Any], expected: list[Any], few: bool) -> None:
    for first in _selections(len(expected), few):
        once, wanted = view[first], pick(expected, first)
        expect("list(view[{!r}])", list(once), wanted, first)
        for second in _selections(len(wanted), few):
            twice = once[second]
            expect("list(view[{!r}][{!r}])", list(twice), pick(wanted, second), first, second)
            expect("depth of view[{!r}][{!r}]", depth(twice) <= depth(view) + 1, True, first, second)


def selections_out_of_range_fail_when_read(view: View[Any], expected: list[Any], few: bool) -> None:
    n = len(expected)
    for i in (n, -n - 1):
        part = view[[i]]
        refused(f"view[[{i}]][0]", IndexError, part.__getitem__, 0)
        iterator = iter(part)
        refused(f"next(iter(view[[{i}]]))", IndexError, next, iterator)
    refused("a mask of another length", IndexError, view.__getitem__, np.ones(n + 1, bool))
    refused("view[[0.5]]", TypeError, view.__getitem__, [0.5])
    refused("view[[[0]]]", TypeError, view.__getitem__, np.zeros((1, 1), int))


def batched_reads_are_single_reads(view: View[Any], expected: list[Any], few: bool) -> None:
    for batch in index_batches(len(expected)):
        wanted = [expected[i] for i in batch]
        found = view._getmany(batch)
        expect("len(view._getmany({!r}))", len(found), len(wanted), batch)
        expect("view._getmany({!r})", list(found), wanted, batch)
        expect("view.__getitems__({!r})", view.__getitems__(batch), wanted, batch)


def batched_reads_normalise_their_indices(view: View[Any], expected: list[Any], few: bool) -> None:
    n = len(expected)
    backwards = [-i - 1 for i in range(n)]
    expect(f"view.__getitems__({backwards})", view.__getitems__(backwards), expected[::-1])
    refused(f"view.__getitems__([{n}])", IndexError, view.__getitems__, [n])
    refused(f"view.__getitems__([{-n - 1}])", IndexError, view.__getitems__, [-n - 1])
    refused("view.__getitems__(['0'])", TypeError, view.__getitems__, ["0"])


def plans_are_followed(view: View[Any], expected: list[Any], few: bool) -> None:
    for name, plan in plans(len(expected)):
        expect(f"the items of {name}", list(view._iter(plan)), [expected[i] for i in plan])


def iterators_are_independent(view: View[Any], expected: list[Any], few: bool) -> None:
    ahead, behind, backwards = iter(view), iter(view), reversed(view)
    found: tuple[list[Any], ...] = ([], [], [])
    for _ in range(len(expected) + 1):
        found[0].extend(item for item in (next(ahead, _END), next(ahead, _END)) if item is not _END)
        found[1].extend(item for item in (next(behind, _END),) if item is not _END)
        found[2].extend(item for item in (next(backwards, _END),) if item is not _END)
    expect("the quick one of two iterators", found[0], expected)
    expect("the slow one of two iterators", found[1], expected)
    expect("a reversed iterator beside them", found[2], expected[::-1])


def threads_read_alike(view: View[Any], expected: list[Any], few: bool) -> None:
    def read(turn: int) -> tuple[list[Any], list[Any]]:
        order = [*range(len(expected))][turn:] + [*range(len(expected))][:turn]
        by_index = {i: view[i] for i in order}
        return [by_index[i] for i in range(len(expected))], list(view)

    with ThreadPoolExecutor(4) as pool:
        for by_index, by_iteration in pool.map(read, range(4)):
            expect("what a thread reads by index", by_index, expected)
            expect("what a thread reads by iteration", by_iteration, expected)


def hooks_agree_with_their_defaults(view: View[Any], expected: list[Any], few: bool) -> None:
    overridden = [hook for hook in OPTIONAL_HOOKS if _defined(view, hook) is not getattr(View, hook)]
    for hooks in [[hook] for hook in overridden] + [overridden]:
        plain = hidden(view, hooks)
        for law in (iteration_gives_every_item_in_order, batched_reads_are_single_reads, plans_are_followed):
            law(plain, expected, few)
        for key in some_slices(len(expected), 16):
            expect("list(view[{}]) without {}", list(plain[key]), expected[key], key, hooks)


def epochs_are_absolute(view: View[Any], expected: list[Any], few: bool) -> None:
    first = list(view.at_epoch(1))
    expect("view.at_epoch(5).at_epoch(1)", list(view.at_epoch(5).at_epoch(1)), first)
    expect("len(view.at_epoch(1))", len(first), len(expected))
    expect("view, after at_epoch", list(view), expected)
    if not view._random_count:
        expect("view.at_epoch(1), where nothing is random", first, expected)


def selections_keep_their_orders(view: View[Any], expected: list[Any], few: bool) -> None:
    if not view._varies & DRAWS:
        for key in (slice(None), slice(1, None, 2)):
            expect("list(view[{}].at_epoch(1))", list(view[key].at_epoch(1)), expected[key], key)


LAWS: tuple[Law, ...] = (
    length_is_that_of_the_list,
    iteration_gives_every_item_in_order,
    ints_index_as_in_a_list,
    slices_are_those_of_the_list,
    selections_compose,
    selections_out_of_range_fail_when_read,
    batched_reads_are_single_reads,
    batched_reads_normalise_their_indices,
    plans_are_followed,
    iterators_are_independent,
    threads_read_alike,
    hooks_agree_with_their_defaults,
    epochs_are_absolute,
    selections_keep_their_orders,
)


# -------------------------------------------------------------------- keys, batches and plans


def some_slices(n: int, most: int) -> Iterable[slice]:
    """Return slices with bounds in and around a sequence of n items, about `most` of them.

    >>> len(list(some_slices(3, 10_000))), len(list(some_slices(3, 100)))
    (864, 79)
    """
    bounds, steps = [None, *range(-n - 2, n + 3)], (None, 1, 2, -1, -2, -3)
    stride = -(-(len(bounds) ** 2 * len(steps)) // most)
    while stride > 1 and gcd(stride, len(steps) * len(bounds)) > 1:  # so that all bounds and steps occur
        stride += 1
    return [slice(*key) for key in islice(product(bounds, bounds, steps), 0, None, stride)]


def _selections(n: int, few: bool) -> Iterator[Any]:
    yield from (slice(1, None), slice(None, None, -1), [-1, 0, 0] if n else [])
    if few:
        return
    yield from (slice(None, None, 2), slice(-3, -1), slice(6, 0, -2), slice(n, None))
    yield np.arange(n, dtype=np.uint8)[::-1]
    yield range(-n, 0)
    yield np.arange(n) % 2 == 0
    yield [i % 3 > 0 for i in range(n)]
    yield []


def pick(items: list[Any], key: Any) -> list[Any]:
    """Return the items of a list at a slice, at indices, or at the true flags of a mask.

    >>> pick(["a", "b", "c"], [-1, 0]), pick(["a", "b"], [False, True])
    (['c', 'a'], ['b'])
    """
    if isinstance(key, slice):
        return items[key]
    if len(key) and isinstance(key[0], bool | np.bool_):
        return [item for item, wanted in zip(items, key, strict=True) if wanted]
    return [items[i] for i in key]


def index_batches(n: int) -> Iterator[Any]:
    """Yield batches of indices in ``[0, n)``: lists, ranges and arrays, with repeats and in any order."""
    yield from ([], range(0), np.array([], np.int64))
    if n:
        scattered = [(i * 5 + 2) % n for i in range(n)]
        yield from ([0], [n - 1, 0, n - 1], scattered, np.array(scattered), np.array(scattered, np.uint8))
        yield from (range(n), range(n - 1, -1, -1), range(0, n, 2), range(n - 1, -1, -3))


def plans(n: int) -> Iterator[tuple[str, Plan]]:
    """Yield access plans over ``[0, n)`` of all kinds, with names.

    >>> [list(plan) for name, plan in plans(2)][-2:]
    [[0, 1, 1, 0], [1]]
    """
    yield "an empty range", range(0)
    yield from ((f"{part}", part) for part in (range(n)[1:], range(n)[::-1], range(n)[::2], range(n)[::-3]))
    yield "a list", [i * 3 % n for i in range(2 * n)]
    yield "an array", np.array([n - 1 - i for i in range(n)] * 2, np.int64)
    yield "a translated plan", Translated(range(n), lambda block: n - 1 - as_array(block))
    yield "an expanded plan", Expanded(range(n), lambda i: (i, n - 1 - i))
    yield "a selected plan", Selected(range(n), lambda i: i if i % 2 else None)


def _defined(view: View[Any], hook: str) -> Any:
    return getattr(type(view), hook)


def hidden(view: View[Any], hooks: Sequence[str]) -> View[Any]:
    """Return a copy of a view in which some hooks are the defaults of `View`."""
    defaults = {hook: getattr(View, hook) for hook in hooks}
    kind = type(type(view).__name__, (type(view),), defaults)
    plain: View[Any] = object.__new__(kind)
    plain.__dict__.update(view.__dict__)
    return plain
