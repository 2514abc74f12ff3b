"""Pickles for other processes, to which the main module of this one means nothing."""

from __future__ import annotations

import gc
import pickle
import threading
from functools import cache, cached_property, lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import cloudpickle
import pytest

from seqkit.prefetch import pickling
from seqkit.prefetch.pickling import dumps, dumps_back, dumps_by_value, has_a_name, refer_to_classes

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


class WithoutLength(type):
    def __len__(cls) -> int:
        return 0


def local() -> type:
    class Base:
        pass

    class Local(Base, metaclass=WithoutLength):
        mode = "as it was"

    return Local


def test_classes_that_go_by_value_are_told_and_no_others() -> None:
    kind = local()
    dumps_by_value(local())
    sent: list[type] = []
    dumps_by_value([kind(), kind, Known, int, type(None)], sent=sent)
    assert set(sent) == {kind, kind.__base__}
    assert len(sent) == 2


@pytest.mark.parametrize("dumps", [dumps_by_value, dumps_back])
def test_classes_of_this_process_are_left_alone(dumps: Any) -> None:
    kind = local()
    data = dumps(kind(), protocol=5)
    kind.mode = "changed since"  # type: ignore[attr-defined]
    assert type(pickle.loads(data)) is kind
    assert kind.mode == "changed since"  # type: ignore[attr-defined]
    assert kind.__base__ is not None
    assert len(kind.__base__.__subclasses__()) == 1  # and not one for every time


def test_classes_that_nobody_has_any_more_are_made_anew() -> None:
    data = dumps_by_value(local()(), protocol=5)
    gc.collect()
    found = pickle.loads(data)
    assert type(found).__qualname__ == "local.<locals>.Local"
    assert found.mode == "as it was"


def test_a_thread_that_finds_a_class_another_one_is_making_does_not_use_it_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = dumps_back(local()(), protocol=5)
    gc.collect()
    track = cloudpickle.cloudpickle._lookup_class_or_track
    seen = []

    def tracked(name: str, kind: type) -> type:
        known: type = track(name, kind)
        if not seen:
            seen.append("")
            thread = threading.Thread(target=lambda: seen.append(pickle.loads(data).mode))
            thread.start()
            thread.join()
        return known

    monkeypatch.setattr(cloudpickle.cloudpickle, "_lookup_class_or_track", tracked)
    assert pickle.loads(data).mode == "as it was"
    assert seen == ["", "as it was"]


def test_slots_travel_with_their_class() -> None:
    class Slotted(Generic[T]):
        __slots__ = ("x",)

    class Derived(Slotted[int]):
        __slots__ = "y"

    class Named(NamedTuple):
        x: int

    class Refusing(type):
        def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
            if "__slots__" in members:
                raise TypeError("whose slots are made here")
            return super().__new__(cls, name, bases, {**members, "__slots__": ("x",)})

    class Adding(type):
        def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
            slots = (*members.get("__slots__", ()), "x")
            return super().__new__(cls, name, bases, {**members, "__slots__": slots})

    class Refused(metaclass=Refusing):
        pass

    class Added(metaclass=Adding):
        pass

    class Empty:
        __slots__ = ()

    class Late(Known):
        pass

    Late.__slots__ = ("x",)  # type: ignore[attr-defined]
    data = dumps_by_value((Slotted, Derived, Named, Refused, Added, Late, Empty), protocol=5)
    del Slotted, Derived, Named, Refused, Added, Late, Empty
    gc.collect()
    slotted, derived, named, refused, added, late, empty = pickle.loads(data)
    one = derived()
    one.x, one.y = 3, 4
    assert isinstance(one, slotted)
    assert not hasattr(one, "__dict__")
    assert named(5).x == 5
    for other in (refused(), added(), late()):
        other.x = 5
        assert other.x == 5
    assert vars(late()) == {}
    assert "x" not in vars(late)
    assert added().__reduce_ex__(2)
    assert not hasattr(empty(), "__dict__")


def test_forks_can_say_which_classes_they_have_inherited() -> None:
    kind = local()
    refer_to_classes()
    later = local()
    number, address = pickling._inherited_as(kind), id(kind)
    assert number is not None
    assert pickling._inherited_as(Known.Within) is not None
    assert pickling._inherited_as(later) is None
    refer_to_classes()
    assert pickling._inherited_as(kind) == number
    assert pickling._inherited_as(later) not in (None, number)
    del kind
    gc.collect()
    assert pickling._numbered[number]() is None
    assert pickling._numbers[address][0]() is None


def test_classes_that_are_gone_are_forgotten() -> None:
    for _ in range(3):
        refer_to_classes()
        before = len(pickling._numbered)
        kinds = [local() for _ in range(before)]
        refer_to_classes()
        del kinds
        gc.collect()
    refer_to_classes()
    assert len(pickling._numbered) <= 2 * before


def test_names_are_those_under_which_something_is_found() -> None:
    assert has_a_name(Known)
    assert has_a_name(Known.Within)
    assert has_a_name(local)
    assert not has_a_name(local())
    assert not has_a_name(type("Known", (), {"__module__": __name__}))
    assert not has_a_name(type("Known", (), {"__module__": None}))


def test_plain_pickles_are_those_of_pickle() -> None:
    assert dumps({"a": [1, known]}, protocol=5) == pickle.dumps({"a": [1, known]}, protocol=5)
