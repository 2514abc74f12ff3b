"""Items of a chunk, which are sent as they were when each of them was made."""

from __future__ import annotations

import pickle
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from seqkit.prefetch.snapshot import snapshots

import seqkit as sk

from .kinds import PROCESSES, Kind

every_kind_of_process = pytest.mark.parametrize("kind", PROCESSES, ids=str)

LARGE = 2000


def nowhere(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    return None


def anywhere(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.empty(shape, dtype)


def received(items: Iterator[Any], allocate: Any = nowhere) -> list[Any]:
    """Return the items as they arrive."""
    return pickle.loads(pickle.dumps(list(snapshots(items, allocate)), protocol=5))  # type: ignore[no-any-return]


class Counter:
    def __init__(self) -> None:
        self.count = 0


Pair = namedtuple("Pair", "number array")


def an_array() -> Callable[[int], Any]:
    buffer = np.zeros(LARGE, np.int64)

    def make(i: int) -> Any:
        buffer[:] = i
        return buffer

    return make


def a_small_array() -> Callable[[int], Any]:
    make = an_array()
    return lambda i: make(i)[:3]


def a_list() -> Callable[[int], Any]:
    buffer = [0]

    def make(i: int) -> Any:
        buffer[0] = i
        return buffer

    return make


def a_key() -> Callable[[int], Any]:
    key = Counter()

    def make(i: int) -> Any:
        key.count = i
        return {key: i}

    return make


def an_object() -> Callable[[int], Any]:
    buffer = Counter()

    def make(i: int) -> Any:
        buffer.count = i
        return buffer

    return make


def in_a(container: Callable[[Any], Any]) -> Callable[[], Callable[[int], Any]]:
    def maker() -> Callable[[int], Any]:
        make = an_array()
        return lambda i: container(make(i))

    return maker


REUSING = {
    "array": (an_array, lambda item: item[-1]),
    "small array": (a_small_array, lambda item: item[-1]),
    "list": (a_list, lambda item: item[0]),
    "object": (an_object, lambda item: item.count),
    "key": (a_key, lambda item: next(iter(item)).count),
    "tuple": (in_a(lambda array: (array, "label")), lambda item: item[0][-1]),
    "dict": (in_a(lambda array: {"x": array}), lambda item: item["x"][-1]),
    "nested": (in_a(lambda array: [{"x": (array, array)}]), lambda item: item[0]["x"][1][-1]),
    "named tuple": (in_a(lambda array: Pair(1, array)), lambda item: item.array[-1]),
    "array of objects": (in_a(lambda array: np.array([array, None], object)), lambda item: item[0][-1]),
}
every_reuse = pytest.mark.parametrize(("maker", "number_of"), REUSING.values(), ids=REUSING)


@every_reuse
@pytest.mark.parametrize("allocate", [nowhere, anywhere])
def test_what_is_filled_for_every_item_is_sent_as_it_was(maker: Any, number_of: Any, allocate: Any) -> None:
    items = received(map(maker(), range(5)), allocate)
    assert [number_of(item) for item in items] == list(range(5))


@every_kind_of_process
@every_reuse
def test_a_function_may_use_its_memory_again(kind: Kind, maker: Any, number_of: Any) -> None:
    with kind.ahead(sk.smap(maker(), range(60)), 1, chunk_size=20) as node:
        assert [number_of(item) for item in list(node)] == list(range(60))


@every_kind_of_process
def test_items_of_a_chunk_share_no_memory(kind: Kind) -> None:
    table = [np.full(LARGE, 0), np.full(3, 1), [2]]
    with kind.ahead(sk.smap(lambda i: table[i % 3], range(30)), 1, chunk_size=10) as node:
        for i, item in enumerate(node):
            assert item[0] == i % 3
            item[0] = 99


def test_an_array_twice_in_an_item_is_one_array_of_the_reader() -> None:
    array = np.zeros(LARGE)
    (item,) = received(iter([[array, array]]))
    assert item[0] is item[1]


@pytest.mark.parametrize("allocate", [nowhere, anywhere])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(LARGE).reshape(40, -1),
        np.asfortranarray(np.arange(LARGE).reshape(40, -1)),
        np.arange(2 * LARGE)[::-2],
        np.broadcast_to(np.arange(10), (500, 10)),
        np.array(3.5),
        np.zeros((0, 4)),
        np.array(["a", "bc"]),
        np.zeros(LARGE, [("x", "f4"), ("y", "i2", (3,))]),
        np.arange(LARGE).astype(">i4"),
        np.array(["2026-01-01"], "datetime64[D]"),
    ],
    ids=lambda array: f"{array.dtype} {array.shape} {array.strides}",
)
def test_arrays_of_every_kind_arrive_as_without_a_chunk(array: Any, allocate: Any) -> None:
    array.flags.writeable = False
    expected = pickle.loads(pickle.dumps(array, protocol=5))
    (item,) = received(iter([array]), allocate)
    assert np.array_equal(item, expected)
    assert (item.dtype, item.flags.fnc, item.flags.writeable) == (
        expected.dtype,
        expected.flags.fnc,
        expected.flags.writeable,
    )


def test_what_lies_between_the_fields_of_an_array_comes_along() -> None:
    whole = np.arange(6000, dtype=np.uint8).view([("x", "i1"), ("y", "f8"), ("z", "3i2")])
    for array in whole[["x", "z"]], whole.reshape(20, -1)[["x", "z"]].T:
        (item,) = received(iter([array]), anywhere)
        assert (item.dtype, item.tobytes("A")) == (array.dtype, array.tobytes("A"))


def test_what_cannot_be_pickled_is_left_to_who_tries() -> None:
    class Exits:
        def __reduce__(self) -> Any:
            raise SystemExit

    items = [Exits(), (x for x in ()), lambda: None]
    first, second, third = snapshots(iter(items), nowhere)
    assert [first, second] == items[:2]
    assert third is not items[2]  # cloudpickle can
