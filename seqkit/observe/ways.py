"""The ways in which `verify` reads a view or a loader, and the digests of the items."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from ..core.errors import ItemTimeout, WorkerDied
from ..core.view import View
from ..prefetch.node import Prefetch, prefetch
from .digest import digest

__all__ = ["REFERENCE", "EpochOf", "Way", "digests", "of_loaders", "of_views", "without_nodes"]

REFERENCE = "no workers"

# Returns an iterator of the items of a view or loader, up to a number of items, with a time limit for one.
Read = Callable[[Any, int, float], Iterator[Any]]


@dataclass(frozen=True)
class Way:
    """A way to read. `skips` returns how many of so many items it leaves out at the beginning."""

    name: str
    read: Read
    is_backwards: bool = False
    skips: Callable[[int], int] = lambda count: 0


def digests(items: Iterator[Any], until: float = float("inf")) -> list[bytes]:
    """Return the digests of items. End at `until`, in seconds of `perf_counter`."""
    found: list[bytes] = []
    for item in items:
        found.append(digest(item))
        if perf_counter() > until:
            break
    return found


def without_nodes(view: View[Any], copies: dict[int, View[Any]] | None = None) -> View[Any]:
    """Return an expression without its `prefetch` views, which the ways to read bring themselves."""
    copies = {} if copies is None else copies
    if id(view) not in copies:
        sources = tuple(without_nodes(source, copies) for source in view._sources)
        if isinstance(view, Prefetch):
            copies[id(view)] = sources[0]
        elif all(map(_is, sources, view._sources)):
            copies[id(view)] = view
        else:
            copies[id(view)] = view._rebuild(sources)
    return copies[id(view)]


def _is(one: Any, other: Any) -> bool:
    return one is other


@dataclass(frozen=True)
class FailedItem:
    """In place of an item that failed."""

    error: type[BaseException]


def outcomes(items: Iterator[Any], count: int) -> Iterator[Any]:
    """Yield up to so many items. An item that fails is the class of its error; a lost worker is raised."""
    for _ in range(count):
        try:
            yield next(items)
        except StopIteration:
            return
        except (ItemTimeout, WorkerDied):
            raise
        except Exception as error:
            yield FailedItem(type(error.__cause__ or error))


# -------------------------------------------------------------------- views


def of_views() -> list[Way]:
    """Return the ways to read a view. Processes come first: they are forked before items run here."""
    return [
        Way("2 processes", _workers(2, "process")),
        Way("1 process", _workers(1, "process")),
        # One fresh interpreter forks both, which costs less than two.
        Way("2 spawned processes", _workers(2, "process", "forkserver")),
        Way("2 threads", _workers(2, "thread")),
        Way("1 thread", _workers(1, "thread")),
        Way(REFERENCE, _here),
        Way("no workers, again", _here),
        Way("item by item, backwards", _backwards, is_backwards=True),
        Way("from the middle on", _middle, skips=lambda count: count // 2),
        Way("a pickled copy", _pickled),
    ]


def _workers(number: int, method: Any, context: Any = None) -> Read:
    def read(view: View[Any], count: int, limit_s: float) -> Iterator[Any]:
        with prefetch(view, number, method, context=context, timeout=limit_s, retries=0) as node:
            yield from outcomes(iter(node), count)

    return read


def _here(view: View[Any], count: int, limit_s: float) -> Iterator[Any]:
    return outcomes(iter(view), count)


def _backwards(view: View[Any], count: int, limit_s: float) -> Iterator[Any]:
    return outcomes(map(view.__getitem__, range(count - 1, -1, -1)), count)


def _middle(view: View[Any], count: int, limit_s: float) -> Iterator[Any]:
    return outcomes(iter(view.skip(count // 2)), count - count // 2)


def _pickled(view: View[Any], count: int, limit_s: float) -> Iterator[Any]:
    return _here(_copy(view), count, limit_s)


def _copy(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value))
    except Exception as error:
        raise ValueError(f"it cannot be pickled: {type(error).__name__}") from error


# -------------------------------------------------------------------- loaders


class EpochOf(NamedTuple):
    """An epoch of a loader."""

    loader: Any
    epoch: int

    def iterator(self, loader: Any) -> Iterator[Any]:
        loader.set_epoch(self.epoch)
        return iter(loader)


def of_loaders() -> list[Way]:
    """Return the ways to read an epoch of a loader."""
    return [
        Way("2 processes", _loader(2, "process")),
        Way("1 process", _loader(1, "process")),
        Way("2 spawned processes", _loader(2, "process", "forkserver")),
        Way("2 threads", _loader(2, "thread")),
        Way("1 thread", _loader(1, "thread")),
        Way(REFERENCE, _loader(0, "thread")),
        Way("no workers, again", _loader(0, "thread")),
        Way("resumed in the middle", _resumed, skips=lambda count: count // 2),
        Way("a pickled copy", _pickled_loader),
    ]


def _loader(number: int, method: str, context: str | None = None) -> Read:
    def read(subject: EpochOf, count: int, limit_s: float) -> Iterator[Any]:
        with subject.loader.with_workers(number, method, limit_s, context) as loader:
            yield from outcomes(subject.iterator(loader), count)

    return read


def _resumed(subject: EpochOf, count: int, limit_s: float) -> Iterator[Any]:
    with subject.loader.with_workers(0) as first:
        begun = subject.iterator(first)
        for _ in outcomes(begun, count // 2):
            pass
        state = json.loads(json.dumps(first.state_dict()))
    with subject.loader.with_workers(2, "process", limit_s) as second:
        second.load_state_dict(state)
        yield from outcomes(iter(second), count - count // 2)


def _pickled_loader(subject: EpochOf, count: int, limit_s: float) -> Iterator[Any]:
    with _copy(subject.loader.with_workers(0)) as loader:
        yield from outcomes(subject.iterator(loader), count)
