"""Pickles for other processes, to which the main module of this one means nothing."""

from __future__ import annotations

import gc
import pickle
import weakref
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import pytest

from seqkit.engine import classes
from seqkit.engine.classes import has_a_name
from seqkit.engine.pickling import dumps, dumps_back, dumps_by_value, dumps_for_workers

T = TypeVar("T")
EVERY_PICKLE = (dumps, dumps_by_value, dumps_for_workers, dumps_back)


@lru_cache
def known(i: int) -> int:
    return i


class Known:
    class Within:
        pass


def sent(value: Any) -> Any:
    return pickle.loads(dumps_by_value(value, protocol=5))


def test_functions_that_cache_travel_by_value_and_cache_anew() -> None:
    for caching in (cache, lru_cache(maxsize=3), lru_cache(maxsize=None, typed=True)):

        @caching  # type: ignore[operator]
        def fibonacci(n: int) -> int:
            return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)  # type: ignore[no-any-return]

        assert fibonacci(10) == 55
        found = sent(fibonacci)
        assert (found(10), found.__name__) == (55, "fibonacci")
        assert found.cache_parameters() == fibonacci.cache_parameters()
        assert found.cache_info().misses == fibonacci.cache_info().misses
    assert sent({"here": known, "there": known}) == {"here": known, "there": known}  # by name


def test_methods_that_cache_travel_with_their_class() -> None:
    class Local:
        @lru_cache(4)  # noqa: B019
        def twice(self, i: int) -> int:
            return 2 * i

        @cached_property
        def once(self) -> list[int]:
            return [1]

    data = dumps_by_value(Local, protocol=5)
    del Local
    gc.collect()
    found = pickle.loads(data)()
    assert found.twice(4) == 8
    assert found.once is found.once
    assert found.once == [1]


def test_tracebacks_of_functions_that_travel_by_value_name_their_file() -> None:
    found = sent(lambda: [1 / i for i in (0,)])
    assert found.__code__.co_filename == __file__
    assert {part.co_filename for part in found.__code__.co_consts if hasattr(part, "co_filename")} <= {
        __file__
    }


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
    assert classes._find_inherited(kind.__bases__[0], id(kind), kind.__qualname__) is kind
    with pytest.raises(LookupError, match="the class Other of an item is gone"):
        classes._find_inherited(kind.__bases__[0], id(kind), "Other")


def test_names_are_those_under_which_something_is_found() -> None:
    assert has_a_name(Known)
    assert has_a_name(Known.Within)
    assert has_a_name(local)
    assert not has_a_name(local())
    assert not has_a_name(type("Known", (), {"__module__": __name__}))
    assert not has_a_name(type("Known", (), {"__module__": None}))


def test_plain_pickles_are_those_of_pickle() -> None:
    assert dumps({"a": [1, known]}, protocol=5) == pickle.dumps({"a": [1, known]}, protocol=5)


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # torch calls them beta
def test_tensors_of_every_layout_travel() -> None:
    torch = pytest.importorskip("torch")
    dense = torch.arange(8 * 1024.0).reshape(8, 1024)
    repeated = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
    tensors = [
        *(repeated, dense.to_sparse(), dense.to_sparse(1), dense.to_sparse_csr(), dense.to_sparse_csc()),
        *(dense.to_sparse_bsr((2, 2)), dense.to_sparse_bsc((2, 2))),
        *(
            dense,
            dense.T,
            dense.bfloat16(),
            torch.empty(0, 3),
            torch.tensor(1.0),
            torch.ones(2, requires_grad=True),
        ),
    ]
    for pickled in EVERY_PICKLE:
        found = pickle.loads(pickled(tensors, protocol=5))
        for one, other in zip(found, tensors, strict=True):
            assert (one.layout, one.dtype, one.requires_grad) == (
                other.layout,
                other.dtype,
                other.requires_grad,
            )
            assert torch.equal(one.to_dense(), other.to_dense())
        assert not found[0].is_coalesced()
        gone = [weakref.ref(tensor) for tensor in found]
        del found, one
        assert not any(ref() is not None for ref in gone)
