"""Errors about pickling name the object and the way to it. Searches end."""

from __future__ import annotations

import os
import threading
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.culprits import MOST_OBJECTS, pickling_error, unpicklable, ways
from seqkit.engine.pickling import ByValue, dumps_by_value

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


def test_the_object_that_cannot_be_pickled_is_named() -> None:
    here = os.path.basename(__file__)
    by_value = type(with_global)  # as functions of the main module travel
    of_main = by_value(with_global.__code__, {"LOCK": LOCK, "__name__": "__main__"}, "f")
    lock, line = threading.Lock(), with_global.__code__.co_firstlineno
    ways: list[tuple[Any, str]] = [
        (
            sk.smap(enclosing(lock), [1]),
            "smap → `<lambda>` → closure `handle` (_thread.lock), test_culprits.py:",
        ),
        (
            sk.smap(Decoder(lock), [1]).batch(2),
            "batch → smap → `Decoder` → attribute `handle` (_thread.lock)",
        ),
        (
            sk.smap(Decoder(lock).decode, [1]),
            "smap → `decode` → `Decoder` → attribute `handle` (_thread.lock)",
        ),
        (sk.smap(partial(pow, lock), [1]), "smap → `partial` → item 0 (_thread.lock)"),
        (sk.view(Samples(lock)).shuffle(), "shuffle → source → attribute `handle` (_thread.lock)"),
        (sk.smap(str, sk.smap(enclosing({"db": [lock]}), [1])), "key 'db' → item 0 (_thread.lock)"),
        (sk.smap(of_main, [1]), f"smap → `f` → global `LOCK` (_thread.lock), {here}:{line}"),
        (
            sk.smap(by_value(with_default.__code__, {}, "f", (lock,)), [1]),
            "`f` → default `handle` (_thread.lock)",
        ),
        ({"image": [np.arange(3), lock]}, "dict → key 'image' → item 1 (_thread.lock)"),
    ]
    for pipeline, text in ways:
        assert text in (unpicklable(pipeline, ByValue) or "")


def test_an_object_is_named_only_if_it_is_the_cause() -> None:
    class Reopens(Samples):
        """Sends another handle than its first attribute."""

        def __init__(self, *handles: Any) -> None:
            self.lock, self.handle = handles

        def __getstate__(self) -> Any:
            return {"handle": self.handle}

    assert unpicklable(sk.smap(with_global, [1]), ByValue) is None
    assert unpicklable(sk.view(Reopens(LOCK, 1)), ByValue) is None
    assert "attribute `handle` (_thread.RLock)" in str(unpicklable(Reopens(LOCK, threading.RLock()), ByValue))


def test_a_search_ends_after_some_hundred_objects() -> None:
    # The search has no limit of time. A bound on the objects keeps it below a millisecond.
    def tree(depth: int) -> Any:
        return Samples([tree(depth - 1) for _ in range(20 * (depth > 0))])

    for view in sk.smap(abs, [object() for _ in range(10**4)]), sk.view(tree(3)):
        looked_at = Counter[bool]()
        assert list(ways(view, lambda _, seen=looked_at: seen.update([True]))) == []  # type: ignore[misc]
        assert 0 < looked_at.total() <= 2 * MOST_OBJECTS


def test_message_about_pickling_is_one_line_with_the_object_the_reason_and_the_remedy() -> None:
    view = sk.smap(enclosing(LOCK), [1]).batch(2)
    with pytest.raises(TypeError) as caught:
        dumps_by_value(view)
    text = str(pickling_error(view, caught.value, ByValue))
    assert "batch → smap → `<lambda>` → closure `handle` (_thread.lock), test_culprits.py:" in text
    assert "cannot pickle '_thread.lock' object. Open files" in text
    assert "\n" not in text
