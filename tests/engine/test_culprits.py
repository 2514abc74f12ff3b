"""Errors about pickling name the object and the way to it. Searches end."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

import seqkit as sk
from seqkit.engine.culprits import MOST_OBJECTS, pickling_error, unpicklable, ways
from seqkit.engine.pickling import dumps_by_value

LOCK = threading.Lock()


def with_global(x: Any) -> Any:
    with LOCK:
        return x


class Decoder:
    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def __call__(self, x: Any) -> Any:
        return self.handle, x

    def decode(self, x: Any) -> Any:
        return self.handle, x


class Samples:
    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def __len__(self) -> int:
        return 1

    def __getitem__(self, i: int) -> Any:
        return self.handle, i


def enclosing(handle: Any) -> Any:
    return lambda x: (handle, x)


def with_default(x: Any, handle: Any = LOCK) -> Any:
    return handle, x


WAYS = [
    (lambda handle: sk.smap(enclosing(handle), [1]), "smap → `<lambda>` uses `handle`"),
    (lambda handle: sk.smap(Decoder(handle), [1]).batch(2), "batch → smap → `Decoder` → attribute `handle`"),
    (lambda handle: sk.smap(Decoder(handle).decode, [1]), "smap → `decode` → `Decoder` → attribute `handle`"),
    (lambda handle: sk.smap(partial(pow, handle), [1]), "smap → `partial` → item 0"),
    (lambda handle: sk.view(Samples(handle)).shuffle(), "shuffle → source → attribute `handle`"),
    (lambda handle: sk.smap(str, sk.smap(enclosing({"db": [handle]}), [1]).batch(1)), "key 'db' → item 0"),
]
every_way = pytest.mark.parametrize(("build", "text"), WAYS)


@every_way
def test_the_object_that_cannot_be_pickled_is_named(build: Any, text: str) -> None:
    found = unpicklable(build(threading.Lock()), dumps_by_value)
    assert found is not None
    assert text in found
    assert "(_thread.lock)" in found


def test_a_global_is_named_with_the_file_and_line_of_its_function() -> None:
    line = with_global.__code__.co_firstlineno
    # By value, as functions of the main module travel.
    function = type(with_global)(with_global.__code__, {"LOCK": LOCK, "__name__": "__main__"}, "with_global")
    found = unpicklable(sk.smap(function, [1]), dumps_by_value)
    assert found == f"smap → `with_global` uses global `LOCK` (_thread.lock), test_culprits.py:{line}"


def test_a_default_argument_is_named() -> None:
    function = type(with_default)(with_default.__code__, {"__name__": "__main__"}, "f", (LOCK,))
    found = unpicklable(sk.smap(function, [1]), dumps_by_value)
    assert found is not None
    assert "`f` uses default `handle`" in found


def test_no_object_is_named_if_the_pipeline_can_be_pickled() -> None:
    assert unpicklable(sk.smap(with_global, [1]), dumps_by_value) is None


class Counted:
    """Counts how many of its kind are looked into."""

    looked_into = 0

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        Counted.looked_into += 1
        return {"next": [Counted() for _ in range(10)]}


def test_search_ends_after_some_hundred_objects() -> None:
    # The search has no limit of time. A bound on the objects keeps it below a millisecond.
    for view in sk.smap(abs, [Counted() for _ in range(10**4)]), Samples([Counted() for _ in range(20)]):
        assert list(ways(view, lambda value: False)) == []
    assert 0 < Counted.looked_into <= 2 * MOST_OBJECTS


def test_message_about_pickling_is_one_line_with_the_object_the_reason_and_the_remedy() -> None:
    view = sk.smap(enclosing(LOCK), [1]).batch(2)
    with pytest.raises(TypeError) as caught:
        dumps_by_value(view)
    text = str(pickling_error(view, caught.value, dumps_by_value))
    assert "batch → smap → `<lambda>` uses `handle` (_thread.lock), test_culprits.py:" in text
    assert "cannot pickle '_thread.lock' object. Open files" in text
    assert "\n" not in text
