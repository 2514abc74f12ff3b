"""What arguments may be, and who refuses the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.core.arguments import (
    as_bool,
    check_callable,
    check_sequences,
    int_at_least,
    optional_int,
    optional_number,
    positive_int,
)
from tests.helpers import for_each


@pytest.mark.parametrize("value", [3, np.int16(3), np.array(3)])
def test_any_kind_of_int_is_accepted(value: Any) -> None:
    assert type(positive_int(value, "batch: k")) is int


@pytest.mark.parametrize("value", [True, np.True_, 1.0, "1", None, [1]])
def test_other_types_than_ints_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="batch: k"):
        positive_int(value, "batch: k")


def test_ints_too_small_are_refused() -> None:
    with pytest.raises(ValueError, match="cycle: limit"):
        int_at_least(-1, "cycle: limit", 0)


def test_none_and_other_values_can_be_allowed() -> None:
    assert optional_int(None, "cycle: limit") is None
    with pytest.raises(ValueError, match="cycle: limit"):
        optional_int(0, "cycle: limit")
    with pytest.raises(TypeError, match="prefetch: chunk_size"):
        positive_int("all", "prefetch: chunk_size", other=" or 'auto'")


@pytest.mark.parametrize("value", [2, 0.5, np.float32(0.5), np.int8(2)])
def test_any_kind_of_number_above_0_is_accepted(value: Any) -> None:
    number = optional_number(value, "debug: max_rate", "calls per second")
    assert type(number) is float
    assert number == value


@pytest.mark.parametrize(
    ("value", "kind"),
    [(0, ValueError), (-1.5, ValueError), (float("nan"), ValueError), (True, TypeError), ("2", TypeError)],
)
def test_other_numbers_are_refused(value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="debug: max_rate"):
        optional_number(value, "debug: max_rate", "calls")


def test_bools_of_numpy_are_bools() -> None:
    assert as_bool(np.True_, "shard: contiguous") is True


@pytest.mark.parametrize("value", [0, 1, None, "no", [True], np.array([True])])
def test_values_that_count_as_true_or_false_are_no_bools(value: Any) -> None:
    with pytest.raises(TypeError, match="shard: contiguous"):
        as_bool(value, "shard: contiguous")


def test_classes_and_objects_that_can_be_called_are_callable() -> None:
    check_callable(int, "smap: f")
    check_callable(np.random.default_rng(0).normal, "smap: f")


def test_a_callable_may_be_left_out_where_it_is_optional() -> None:
    check_callable(None, "batch: collate_fn", optional=True)
    with pytest.raises(TypeError, match="smap: f"):
        check_callable(None, "smap: f")
    with pytest.raises(TypeError, match="batch: collate_fn"):
        check_callable(3, "batch: collate_fn", optional=True)


@pytest.mark.parametrize("value", [5, None, {"x": "ab"}])
def test_sequences_must_be_an_iterable_and_not_a_mapping(value: Any) -> None:
    check_sequences(iter(["ab"]), "concatenate: sequences")
    with pytest.raises(TypeError, match="concatenate: sequences"):
        check_sequences(value, "concatenate: sequences")


@pytest.mark.parametrize(
    ("library", "name"),
    [("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table"), ("pyarrow", "record_batch")],
)
def test_sequences_must_not_be_the_columns_of_a_table(library: str, name: str) -> None:
    table = getattr(pytest.importorskip(library), name)({"x": [1, 2]})
    with pytest.raises(TypeError, match="concatenate: sequences must be an iterable of sequences"):
        check_sequences(table, "concatenate: sequences")


async def fetch(*_: Any) -> int:
    return 1


async def stream(*_: Any) -> Any:
    yield 1


class Client:
    async def __call__(self, *_: Any) -> int:
        return 1

    async def get(self, *_: Any) -> int:
        return 1


ASYNC = {
    "function": fetch,
    "generator": stream,
    "object": Client(),
    "method": Client().get,
    "partial": partial(partial(fetch, 1), 2),
    "partial of an object": partial(Client()),
}
TAKERS: dict[str, Callable[[Any], Any]] = {
    "starmap: f": lambda f: sk.starmap(f, [(1,)]),
    "random_map: f": lambda f: sk.random_map(f, [1]),
    "filter: predicate": lambda f: sk.filter(f, [1]),
    "batch: collate_fn": lambda f: sk.batch([1], 1, collate_fn=f),
    "debug: func": lambda f: sk.debug([1], f),
    "per_process: open_fn": lambda f: sk.per_process(f),
    "uniter: iterable": lambda f: sk.uniter(f),
    "prefetch: start_hook": lambda f: sk.prefetch([1], start_hook=f),
    "DataLoader: collate_fn": lambda f: sk.DataLoader([1], collate_fn=f),
    "DataLoader: transform": lambda f: sk.DataLoader([1], transform=f),
    "DataLoader: batch_transform": lambda f: sk.DataLoader([1], batch_transform=f),
    "DataLoader: worker_init_fn": lambda f: sk.DataLoader([1], worker_init_fn=f),
    "DataLoader: on_error": lambda f: sk.DataLoader([1], on_error=f),
    "Tuple: function 0": lambda f: sk.collation.Tuple(f),
    "StreamLoader: open_fn": lambda f: sk.streams.StreamLoader([1], f, 1),
}


@for_each("function", ASYNC.values())
@for_each(("who", "take"), TAKERS.items())
def test_async_functions_are_refused_with_the_remedy(who: str, take: Any, function: Any) -> None:
    name = who.split(": ")[-1]
    with pytest.raises(TypeError, match=f"{name} must be a plain function, got the async function .*async"):
        take(function)


def test_a_plain_function_around_an_async_one_is_accepted() -> None:
    @wraps(fetch)
    def fetched(x: int) -> int:
        return asyncio.run(fetch(x))

    assert list(sk.prefetch(sk.smap(fetched, range(3)), 2)) == [1, 1, 1]
    assert sk.smap(lambda x: fetch(x), [1])[0].close() is None  # cannot be seen
