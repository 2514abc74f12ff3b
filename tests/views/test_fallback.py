"""`fallback`: by a function, by the next item, by leaving the item out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import seqkit as sk
from seqkit.testing import CountingSource
from seqkit.testing.sources import UnsizedSource


def fragile(i: int) -> int:
    if i in (1, 4, 5):
        raise ValueError(f"item {i} is broken")
    return i


ITEMS = sk.smap(fragile, range(6))


@pytest.mark.parametrize("policy", ["wrap", "passthrough"])
@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda error: -error.index, [0, -1, 2, 3, -4, -5]),
        ("replace", [0, 2, 2, 3, 0, 0]),
        ("skip", [0, 2, 3]),
    ],
    ids=["function", "replace", "skip"],
)
def test_another_item_stands_in_for_one_that_fails(policy: Any, f: Any, expected: list[int]) -> None:
    with sk.errstate(policy):
        view = sk.fallback(f, ITEMS)
        assert list(view) == list(iter(view)) == expected
        assert len(view) == len(expected)
        assert [view[i] for i in range(len(view))] == expected
        assert list(view[::-1]) == expected[::-1]
        assert list(sk.batch(view, 2)) == [expected[i : i + 2] for i in range(0, len(expected), 2)]


def test_an_error_for_which_nothing_stands_in_is_raised_as_the_policy_says() -> None:
    view = sk.fallback("replace", sk.smap(fragile, [1, 4, 5]))
    with pytest.raises(sk.EvaluationError):
        view[0]
    with sk.errstate("passthrough"), pytest.raises(ValueError, match="item 1 is broken"):
        view[0]


def test_it_is_a_method_of_views() -> None:
    assert list(ITEMS.fallback("skip")) == [0, 2, 3]
    assert repr(ITEMS.fallback("replace")) == "fallback('replace', smap(fragile, <range of 6>))"


def test_the_function_gets_the_error_with_its_cause_and_place() -> None:
    seen = []
    shuffled = sk.shuffle(ITEMS, seed=0)
    list(sk.fallback(seen.append, shuffled))
    assert sorted(error.index for error in seen) == [1, 4, 5]
    assert all(error.view is ITEMS and isinstance(error.__cause__, ValueError) for error in seen)


@pytest.mark.parametrize("method", ["thread", "process"])
def test_items_computed_ahead_fall_back_too(method: Any) -> None:
    with sk.prefetch(ITEMS, 2, method) as ahead:
        assert list(sk.fallback(lambda error: -1, ahead)) == [0, -1, 2, 3, -1, -1]
    with sk.prefetch(sk.fallback("replace", ITEMS), 2, method) as ahead:
        assert list(ahead) == [0, 2, 2, 3, 0, 0]


def test_an_error_of_the_function_is_the_error_of_the_item() -> None:
    def refuse(error: sk.EvaluationError) -> int:
        raise error

    items = iter(sk.fallback(refuse, ITEMS))
    assert next(items) == 0
    with pytest.raises(sk.EvaluationError, match="item 1 is broken"):
        next(items)
    assert next(items) == 2


def test_without_an_item_that_can_be_read_the_error_is_raised() -> None:
    broken = sk.smap(fragile, [1, 4])
    with pytest.raises(sk.EvaluationError, match="item 4 is broken"):
        sk.fallback("replace", broken)[1]
    assert list(sk.fallback("skip", broken)) == []


def test_items_are_read_once_and_no_others() -> None:
    source = CountingSource(range(6))
    view = sk.fallback("replace", sk.smap(fragile, source))
    assert (view[0], view[1], view[3]) == (0, 2, 3)
    assert source.reads == dict.fromkeys(range(4), 1)


def test_a_sequence_of_unknown_length_ends_where_it_ends() -> None:
    items = sk.smap(fragile, UnsizedSource(range(6)))
    assert list(iter(sk.fallback(lambda error: -1, items))) == [0, -1, 2, 3, -1, -1]
    assert list(iter(sk.fallback("skip", items))) == [0, 2, 3]


def test_nothing_follows_an_iterable_that_breaks() -> None:
    def lines() -> Iterator[int]:
        yield 0
        raise OSError("connection lost")

    items = iter(sk.fallback(lambda error: -1, sk.uniter(lines)))
    assert next(items) == 0
    with pytest.raises(sk.EvaluationError, match="connection lost"):
        next(items)


def test_ctrl_c_is_no_failure() -> None:
    def struck(i: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sk.fallback("replace", sk.smap(struck, range(3)))[0]


async def later(error: sk.EvaluationError) -> int:
    return 0


@pytest.mark.parametrize("f", ["ignore", None, 3, later, ITEMS], ids=str)
def test_what_is_neither_a_function_nor_a_word_is_refused(f: Any) -> None:
    with pytest.raises(ValueError if f == "ignore" else TypeError, match=r"fallback: f must be"):
        sk.fallback(f, ITEMS)


def test_the_repr_of_skip_is_its_call() -> None:
    view = sk.fallback("skip", [1, 2])
    assert repr(view) == "fallback('skip', <list of 2>)"
    assert repr(view.head(1)) == repr(view)


@pytest.mark.parametrize("policy", ["wrap", "passthrough"])
def test_an_item_that_fails_after_the_scan_is_an_error(policy: Any) -> None:
    broken: set[int] = {1}

    def read(i: int) -> int:
        if i in broken:
            raise OSError(f"item {i} is broken")
        return i

    view = sk.fallback("skip", sk.smap(read, range(4)))
    items = iter(view)
    assert next(items) == 0
    broken.add(0)
    with sk.errstate(policy):
        again = iter(view)  # a second scan
        with pytest.raises(Exception, match="item 0 is broken"):
            next(again)
        assert [*again] == [*items] == [2, 3]
        broken.clear()
        assert list(view) == [0, 2, 3]
        broken.add(2)
        for read_it in (
            lambda: view[1],
            lambda: view[::-1][1],
            lambda: sk.batch(view, 3)[0],
            lambda: list(view),
        ):
            with pytest.raises(Exception, match="item 2 is broken"):
                read_it()
        items = iter(view)
        assert next(items) == 0
        with pytest.raises(Exception, match="item 2 is broken"):
            next(items)
        assert next(items) == 3
