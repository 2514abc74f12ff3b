"""Pickles for other processes, to which the main module of this one means nothing."""

from __future__ import annotations

import gc
import pickle
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pytest

from seqkit.engine import classes
from seqkit.engine.classes import has_a_name
from seqkit.engine.pickling import dumps, dumps_back, dumps_by_value, dumps_for_workers

T = TypeVar("T")


@lru_cache
def known(i: int) -> int:
    return i


class Known:
    class Within:
        pass


def sent(value: Any) -> Any:
    return pickle.loads(dumps_by_value(value, protocol=5))


@pytest.mark.parametrize(
    "caching", [cache, lru_cache(maxsize=3), lru_cache(maxsize=None, typed=True)], ids=["all", "few", "typed"]
)
def test_functions_that_cache_travel_by_value_and_cache_anew(caching: Any) -> None:
    @caching
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)  # type: ignore[no-any-return]

    assert fibonacci(10) == 55
    found = sent(fibonacci)
    assert (found(10), found.__name__) == (55, "fibonacci")
    assert found.cache_parameters() == fibonacci.cache_parameters()
    assert found.cache_info().misses == fibonacci.cache_info().misses


def test_functions_that_cache_travel_by_name_where_they_have_one() -> None:
    assert sent(known) is known
    assert sent({"here": known, "there": known}) == {"here": known, "there": known}


def test_methods_that_cache_travel_with_their_class() -> None:
    class Local:
        @lru_cache(4)  # noqa: B019
        def twice(self, i: int) -> int:
            return 2 * i

        @cached_property
        def once(self) -> list[int]:
            return [1]

    found = sent(Local)()
    assert found.twice(4) == 8
    assert found.once is found.once
    assert found.once == [1]


def local() -> type:
    class Base:
        pass

    class Local(Base):
        mode = "as it was"

    return Local


def test_classes_of_this_process_are_left_alone() -> None:
    kind = local()
    data = dumps_by_value(kind(), protocol=5)
    kind.mode = "changed since"  # type: ignore[attr-defined]
    assert type(pickle.loads(data)) is kind
    assert kind.mode == "changed since"  # type: ignore[attr-defined]


def test_classes_that_no_longer_exist_are_created_again() -> None:
    data = dumps_by_value(local()(), protocol=5)
    gc.collect()
    found = pickle.loads(data)
    assert type(found).__qualname__ == "local.<locals>.Local"
    assert found.mode == "as it was"


def test_slots_travel_with_their_class() -> None:
    class Slotted(Generic[T]):
        __slots__ = ("x",)

    class Derived(Slotted[int]):
        __slots__ = "y"

    class Named(NamedTuple):
        x: int

    class Empty:
        __slots__ = ()

    @dataclass(slots=True)
    class Data:
        x: int = 0

    data = dumps_by_value((Slotted, Derived, Named, Empty, Data), protocol=5)
    del Slotted, Derived, Named, Empty, Data
    gc.collect()
    slotted, derived, named, empty, record = pickle.loads(data)
    one = derived()
    one.x, one.y = 3, 4
    assert isinstance(one, slotted)
    assert named(5).x == 5
    assert record(5) == record(5) != record()
    assert not any(hasattr(obj, "__dict__") for obj in (one, empty(), record()))
    assert pickle.loads(dumps_back(record(5), protocol=5)) == record(5)


def test_a_class_that_is_gone_is_named_in_the_error() -> None:
    kind = local()
    assert classes._inherited(kind.__bases__[0], id(kind), kind.__qualname__) is kind
    with pytest.raises(LookupError, match="the class Other of an item is gone"):
        classes._inherited(kind.__bases__[0], id(kind), "Other")


def test_names_are_those_under_which_something_is_found() -> None:
    assert has_a_name(Known)
    assert has_a_name(Known.Within)
    assert has_a_name(local)
    assert not has_a_name(local())
    assert not has_a_name(type("Known", (), {"__module__": __name__}))
    assert not has_a_name(type("Known", (), {"__module__": None}))


def test_plain_pickles_are_those_of_pickle() -> None:
    assert dumps({"a": [1, known]}, protocol=5) == pickle.dumps({"a": [1, known]}, protocol=5)


ARROW = {
    "int": lambda pa: pa.array(np.arange(10**5)),
    "text": lambda pa: pa.array(list(map(str, range(10**5)))),
    "nulls": lambda pa: pa.array([None, *range(10**5)]),
    "list": lambda pa: pa.array([[i] for i in range(10**5)]),
    "struct": lambda pa: pa.array([{"a": i} for i in range(10**5)]),
    "dictionary": lambda pa: pa.array(["x", "y"] * 10**5).dictionary_encode(),
    "extension": lambda pa: pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int64(), [2]), pa.array([[1, 2]] * 10**5, pa.list_(pa.int64(), 2))
    ),
    "chunked": lambda pa: pa.chunked_array([np.arange(10**5)] * 2),
    "batch": lambda pa: pa.record_batch({"a": np.arange(10**5)}),
    "table": lambda pa: pa.table({"a": np.arange(10**5), "b": ["x"] * 10**5}),
}


@pytest.mark.parametrize("pickled", [dumps, dumps_by_value, dumps_for_workers, dumps_back])
@pytest.mark.parametrize("build", ARROW.values(), ids=ARROW)
def test_a_slice_of_arrow_data_travels_without_the_rest(build: Any, pickled: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    part = build(pa).slice(500, 10)
    data = pickled({"part": [part]}, protocol=5)
    assert len(data) < 3000
    (found,) = pickle.loads(data)["part"]
    assert found.equals(part)
    assert found.type == part.type if hasattr(part, "type") else found.schema == part.schema


def test_whole_arrow_arrays_travel_out_of_band() -> None:
    pa = pytest.importorskip("pyarrow")
    buffers: list[Any] = []
    array = pa.array(np.arange(1000))
    data = dumps(array, protocol=5, buffer_callback=buffers.append)
    assert [buffer.raw().nbytes for buffer in buffers] == [8000]
    assert pickle.loads(data, buffers=buffers).equals(array)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch calls its sparse layouts beta
@pytest.mark.parametrize("pickled", [dumps, dumps_by_value, dumps_for_workers, dumps_back])
def test_tensors_of_every_layout_travel(pickled: Any) -> None:
    torch = pytest.importorskip("torch")
    dense = torch.arange(8 * 1024.0).reshape(8, 1024)
    repeated = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
    tensors = {
        "coo": [dense.to_sparse(), dense.to_sparse(1), repeated],
        "compressed": [dense.to_sparse_csr(), dense.to_sparse_csc()],
        "blocks": [dense.to_sparse_bsr((2, 2)), dense.to_sparse_bsc((2, 2))],
        "dense": [dense, dense.T, dense.bfloat16(), torch.empty(0, 3), torch.tensor(1.0)],
    }
    found = pickle.loads(pickled(tensors, protocol=5))
    for kind, expected in tensors.items():
        for one, other in zip(found[kind], expected, strict=True):
            assert (one.layout, one.dtype) == (other.layout, other.dtype)
            assert torch.equal(one.to_dense(), other.to_dense())
    assert not found["coo"][2].is_coalesced()
