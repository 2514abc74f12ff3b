"""`Subject`: a view under test, with the list that it must equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..core.expression import walk
from ..core.source import Source
from ..core.view import View
from .sources import NarrowSource

__all__ = [
    "Build",
    "Dumps",
    "Model",
    "Reads",
    "Subject",
    "Writes",
    "close",
    "depth",
    "expect",
    "needed",
    "refused",
]

Build = Callable[[Any], View[Any]]
Model = Callable[[list[Any]], list[Any]]
Dumps = Callable[[Any], bytes]
Reads = Literal["exact", "any", "ahead"]
Writes = bool | Literal["elsewhere"] | None


@dataclass(frozen=True)
class Subject:
    """A view under test. The fields are the arguments of `check_view`."""

    build: Build
    model: Model
    items: list[Any]
    reads: Reads
    writes: Writes
    length_reads: bool
    dumps: Dumps

    @property
    def expected(self) -> list[Any]:
        return list(self.model(list(self.items)))

    @property
    def ahead(self) -> bool:
        return self.reads == "ahead"

    @contextmanager
    def view(self, source: Any = None) -> Iterator[View[Any]]:
        """Build the view over a source, by default a list of the items. Close it at the end of the block."""
        built = self.build(list(self.items) if source is None else source)
        assert isinstance(built, View), f"build must return a View, got {type(built).__name__}"
        try:
            yield built
        finally:
            close(built)


def close(view: View[Any]) -> None:
    """Close the nodes of an expression that have workers."""
    for node in walk(view):
        if hasattr(type(node), "close"):
            node.close()  # type: ignore[attr-defined]


def depth(view: View[Any]) -> int:
    """Return the number of layers of views."""
    return 1 + max(map(depth, view._sources), default=0)


def needed(view: View[Any], i: int, data: Any) -> Counter[int]:
    """Return how often each item of `data` is part of item `i`, according to `_parts`."""
    if isinstance(view, Source):
        return Counter([i] if view._data is data else [])
    total: Counter[int] = Counter()
    for source, indices in view._parts(i):
        for j in indices:
            total += needed(source, j, data)
    return total


def expect(what: str, found: Any, wanted: Any, *shown: Any) -> None:
    """Raise an AssertionError unless two values are the same.

    `shown` fills the fields of `what`. Formatting arrays costs more than most checks, so it is done last.
    """
    if not _same(found, wanted):
        what = what.format(*shown) if shown else what
        raise AssertionError(f"{what} is {_short(found)}, must be {_short(wanted)}")


def refused(what: str, kind: type[Exception], attempt: Callable[..., Any], *arguments: Any) -> Exception:
    """Return the exception of a call. Raise AssertionError unless it has the expected class."""
    try:
        result = attempt(*arguments)
    except kind as error:
        return error
    except Exception as error:
        raise AssertionError(f"{what} raised {error!r}, must raise {kind.__name__}") from error
    raise AssertionError(f"{what} is {_short(result)}, must raise {kind.__name__}")


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, list):  # a window of an array
        return _same(a.tolist(), b)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    return a is b or bool(a == b)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "…"


def forms(items: list[Any]) -> Iterator[Any]:
    """Yield the same items as sources of several kinds, the plainest first."""
    from ..views.smap import smap

    yield list(items)
    yield smap(_same_item, NarrowSource(items))
    if all(type(item) is int and abs(item) < 2**63 for item in items):
        yield np.array(items, np.int64)


def _same_item(item: Any) -> Any:
    return item
