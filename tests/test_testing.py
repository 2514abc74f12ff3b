"""`seqkit.testing` finds what is wrong: for every law, a view that breaks it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import seqkit as sk
from seqkit.testing import (
    CountingSource,
    ExplodingSource,
    FailingSource,
    NarrowSource,
    UnsizedSource,
    check_view,
    copying,
    failing,
    laziness,
    reading,
    writing,
)

LAWS = {law.__name__ for part in (reading, laziness, failing, writing, copying) for law in part.LAWS}


class Same(sk.View[Any]):
    """The least that makes a view: the same items as the source."""

    def __init__(self, source: Any) -> None:
        view = sk.view(source)
        super().__init__((view,), view._n)

    def _get(self, i: int) -> Any:
        return self._sources[0]._get(i)

    def _rebuild(self, sources: tuple[sk.View[Any], ...]) -> sk.View[Any]:
        return type(self)(*sources)


def broken(**hooks: Any) -> type[Same]:
    """Make a class that is `Same` but for some methods."""
    index = hooks.pop("__getitem__", Same.__getitem__)  # refused where a class is defined
    changed = type("Same", (Same,), hooks)
    changed.__getitem__ = index  # type: ignore[method-assign]
    return changed


def test_a_view_with_the_required_hooks_alone_obeys_every_law() -> None:
    check_view(Same, list)


def test_a_view_that_only_stores_its_source_may_write() -> None:
    writing_too = broken(_set=lambda self, i, value: self._sources[0]._set(i, value))
    check_view(writing_too, list, writes=True)
    with pytest.raises(AssertionError, match="written_items_are_read_back_or_refused"):
        check_view(Same, list, writes=True)
    with pytest.raises(AssertionError, match="written_items_are_read_back_or_refused"):
        check_view(writing_too, list, writes=False)


def generator(self: Any, plan: Any) -> Iterator[Any]:
    for i in plan:
        yield self._get(int(i))


def whole_list(self: Any, plan: Any) -> Iterator[Any]:
    return iter([self._get(int(i)) for i in plan])


def through_zip(self: Any, plan: Any) -> Iterator[Any]:
    return (item for item, _ in zip(map(self._get, plan), plan, strict=False))


def read_all(self: Any, i: int) -> Any:
    return list(self._sources[0])[i]


def read_twice(self: Any, i: int) -> Any:
    self._sources[0]._get(i)
    return self._sources[0]._get(i)


def swallow(self: Any, i: int) -> Any:
    try:
        return self._sources[0]._get(i)
    except sk.EvaluationError:
        return None


def rename(self: Any, i: int) -> Any:
    try:
        return self._sources[0]._get(i)
    except sk.EvaluationError as error:
        raise sk.EvaluationError(f"{error}, sorry", index=0, view=sk.view([0])) from error


def constructor(length: Callable[[int], int]) -> Any:
    def construct(self: Any, source: Any) -> None:
        Same.__init__(self, source)
        self._n = self._known = length(self._n)

    return construct


def eager(self: Any, source: Any) -> None:
    Same.__init__(self, source)
    list(self._sources[0])


def counted_as_random(self: Any, source: Any) -> None:
    Same.__init__(self, source)
    self._random_count = 1


def rotated(self: Any, sources: Any, epoch: Any) -> sk.View[Any]:
    """Return the same items in another order."""
    return sk.view([*sources[0][1:], *sources[0][:1]])


CLASSES_AND_LAWS = [
    (broken(__init__=constructor(lambda n: n + 1)), "length_is_that_of_the_list"),
    (
        broken(__len__=lambda self: self._n, __init__=constructor(lambda n: max(n - 1, 0))),
        "length_is_that_of",
    ),
    (
        broken(_get=lambda self, i: self._sources[0]._get(self._n - 1 - i)),
        "iteration_gives_every_item_in_order",
    ),
    (broken(__iter__=lambda self: iter(range(self._n))), "iteration_gives_every_item_in_order"),
    (broken(__getitem__=lambda self, key: self._sources[0][abs(key)]), "ints_index_as_in_a_list"),
    (
        broken(_take=lambda self, indices: Same([self._get(i) for i in indices])),
        "selections_out_of_range_fail",
    ),
    (broken(_take=lambda self, indices: sk.smap(abs, sk.smap(abs, self))), "slices_are_those_of_the_list"),
    (
        broken(_getmany=lambda self, indices: list(map(self._get, sorted(map(int, indices))))),
        "batched_reads_are",
    ),
    (
        broken(_getmany=lambda self, indices: [self._get(int(i)) for i in {*indices}]),
        "batched_reads_are_single",
    ),
    (broken(_iter=lambda self, plan: iter(self._sources[0])), "plans_are_followed|iteration_gives|slices"),
    (broken(_iter=generator), "iteration_goes_on_behind_failures"),
    (broken(_iter=whole_list), "selecting_reads_nothing"),
    (broken(_iter=through_zip), "plans_are_followed|iteration_goes_on_behind_failures"),
    (broken(_get=read_all), "reading_an_item_reads_what_it_needs"),
    (broken(_get=swallow), "failures_concern_their_items_only"),
    (broken(_get=rename), "errors_name_their_items"),
    (broken(__init__=eager), "building_reads_nothing"),
    (broken(__repr__=lambda self: f"Same({list(self)})"), "building_reads_nothing"),
    (broken(__repr__=lambda self: "x" * 10**4), "repr_is_short"),
    (broken(_parts=lambda self, i: ()), "parts_name_what|reading_an_item|failures_concern"),
    (broken(_varies=1, _keyed=lambda self, sources, epoch: self[1:]), "epochs_are_absolute"),
    (
        broken(
            __init__=counted_as_random,
            _varies=1,
            _keyed=rotated,
            _named=lambda self, indices: self._take(indices),
        ),
        "selections_keep_their_orders",
    ),
    (broken(_rebuild=lambda self, sources: sk.view([])), "rebuilding_changes_nothing"),
    (broken(__reduce__=lambda self: (Same, ([],))), "building_reads_nothing"),
    (broken(_set=lambda self, i, value: None), "written_items_are_read_back_or_refused"),
]


@pytest.mark.parametrize(
    ("kind", "law"), CLASSES_AND_LAWS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_broken_view_is_found_and_its_law_named(kind: Any, law: str) -> None:
    with pytest.raises(AssertionError, match=f"^({law})") as caught:
        check_view(kind, list)
    named = str(caught.value).split(":")[0]
    assert named in LAWS
    assert re.search(r"\n  for .* over \[", str(caught.value))


def test_a_view_that_supports_only_list_indices_is_found() -> None:
    slicing = broken(
        _iter=lambda self, plan: iter(self._sources[0]._data[plan.start : plan.stop : plan.step])
    )
    with pytest.raises(AssertionError):
        check_view(slicing, list)


def test_a_build_that_makes_no_view_is_refused() -> None:
    with pytest.raises(AssertionError, match="build must return a View, got list"):
        check_view(list, list)  # type: ignore[arg-type]


def test_an_iterator_without_end_is_cut_off() -> None:
    with pytest.raises(AssertionError, match="went on"):
        failing.by_iteration(iter(int, 1), most=10)


def test_a_length_that_reads_must_be_declared() -> None:
    def build(source: Any) -> sk.View[Any]:
        return sk.flatten(sk.batch(source, 2))

    check_view(build, list, length_reads=True)
    with pytest.raises(AssertionError, match="selecting_reads_nothing"):
        check_view(build, list)


def test_a_view_that_reads_ahead_must_be_declared() -> None:
    check_view(lambda source: sk.prefetch(source, 1), list, [3, 1, 2], reads="ahead")


def test_the_items_of_the_source_may_be_given() -> None:
    check_view(
        lambda source: sk.starmap(pow, source), lambda items: [a**b for a, b in items], [(2, 3), (3, 2)]
    )


def test_arguments_of_check_view_are_checked() -> None:
    with pytest.raises(ValueError, match="check_view: reads"):
        check_view(sk.view, list, reads="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="check_view: writes"):
        check_view(sk.view, list, writes="no")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cycle has no length"):
        check_view(sk.view, list, sk.cycle([1]))


def test_a_view_may_read_more_than_it_needs_if_that_is_declared() -> None:
    check_view(broken(_get=read_twice), list, reads="any")
    with pytest.raises(AssertionError, match=r"reading_an_item.* view\[0\] reads and .* is \{0: 1\}"):
        check_view(broken(_get=read_twice), list)


# -------------------------------------------------------------------- the sources


def test_a_narrow_source_answers_nothing_but_ints_in_range() -> None:
    source = NarrowSource("ab")
    assert (len(source), source[1]) == (2, "b")
    for key in (-1, 2, True, 1.0, slice(0, 1)):
        with pytest.raises(AssertionError):
            source[key]  # type: ignore[index]


def test_the_other_sources_fail_count_and_end_as_they_say() -> None:
    with pytest.raises(AssertionError, match="item 1 was read"):
        ExplodingSource("ab")[1]
    with pytest.raises(KeyError):
        FailingSource("ab", [1], KeyError)[1]
    counting = CountingSource("ab")
    list(sk.view(counting)[::-1])
    assert counting.reads == {0: 1, 1: 1}
    with pytest.raises(IndexError):
        UnsizedSource("ab")[2]
