"""The ways in which `verify` reads a view or a loader, and the digests of the items."""

from __future__ import annotations

import json
import operator
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from ..core.errors import EvaluationError, ItemTimeout, RemoteError, WorkerDied, summary
from ..core.indices import Unsized
from ..core.once import Deferred
from ..core.view import View, is_measured
from ..prefetch.node import Prefetch, prefetch
from ..prefetch.results import NOT_SENT
from ..views.bases.scanned import Scanned
from .digest import digest

__all__ = [
    "PROCESSES",
    "REFERENCE",
    "THREADS",
    "EpochOf",
    "Way",
    "digests",
    "fresh",
    "of_loaders",
    "of_views",
    "shortened",
    "without_nodes",
    "without_stores",
]

REFERENCE = "no workers"
THREADS = {"1 thread", "2 threads"}
PROCESSES = {"1 process", "2 processes", "2 spawned processes", "a pickled copy"}

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


def without_nodes(view: View[Any]) -> View[Any]:
    """Return an expression without its `prefetch` views, which the ways to read bring themselves.

    Its caches begin empty, and have no stores.
    """

    def change(view: View[Any], sources: tuple[View[Any], ...]) -> View[Any] | None:
        return sources[0] if isinstance(view, Prefetch) else _without_store(view, sources)

    return _rewritten(view, change, {})


def without_stores(view: View[Any]) -> View[Any]:
    """Return an expression whose caches begin empty, and have no stores."""
    return _rewritten(view, _without_store, {})


def _without_store(view: View[Any], sources: tuple[View[Any], ...]) -> View[Any] | None:
    return view._in_memory(sources) if hasattr(view, "_in_memory") else None


def fresh(view: View[Any]) -> View[Any]:
    """Return an expression whose `filter` views and the like have not scanned their sources."""

    def change(view: View[Any], sources: tuple[View[Any], ...]) -> View[Any] | None:
        if not _scans(view):
            return None
        rebuilt = view._rebuild(sources)
        if isinstance(rebuilt, Scanned):  # it shares the scan of the given view
            rebuilt._found = Deferred()
        return rebuilt

    return _rewritten(view, change, {})


def shortened(view: View[Any], count: int, seconds: float) -> View[Any]:
    """Return an expression whose first items are the same, and whose length is found without a long scan.

    Only the first items of the sources of `filter` views and the like are left: as many as `count` items of
    `view` need, or as can be read in so many seconds.
    """
    view = fresh(view)
    if not view._streams or is_measured(view):
        return view
    most, until = count, perf_counter() + seconds
    while True:
        cut: list[int] = []  # lengths that are left out

        def change(view: View[Any], sources: tuple[View[Any], ...]) -> View[Any] | None:
            if not _scans(view) or not is_measured(sources[0]) or isinstance(sources[0]._n, Unsized):
                return None
            cut.append(max(0, sources[0]._n - most))  # noqa: B023 - called in this round
            return view._rebuild((sources[0][:most], *sources[1:]))  # noqa: B023

        found = _rewritten(view, change, {})
        items = sum(1 for _ in outcomes(iter(fresh(found)), count))
        if items == count or not any(cut) or (items and perf_counter() > until):
            return found
        most *= 4


def _scans(view: View[Any]) -> bool:
    return bool(view._sources and view._length_reads)


Change = Callable[[View[Any], tuple[View[Any], ...]], View[Any] | None]


def _rewritten(view: View[Any], change: Change, copies: dict[int, View[Any]]) -> View[Any]:
    """Return an expression in which some views are changed. Those above are rebuilt, the others remain."""
    if id(view) not in copies:
        sources = tuple(_rewritten(source, change, copies) for source in view._sources)
        changed = change(view, sources)
        if changed is None:
            are_same = all(map(operator.is_, sources, view._sources))
            changed = view if are_same else view._rebuild(sources)
        copies[id(view)] = changed
    return copies[id(view)]


@dataclass(frozen=True)
class FailedItem:
    """In place of an item that failed."""

    error: str

    @classmethod
    def of(cls, error: Exception) -> FailedItem:
        """Return the class of an error. Only its text comes from a process, if it cannot be pickled."""
        cause = error.__cause__ if isinstance(error, EvaluationError) and error.__cause__ else error
        if (isinstance(cause, TypeError) and NOT_SENT in str(cause)) or "was_not_sent" in vars(cause):
            raise cause
        text = str(cause) if isinstance(cause, RemoteError) else summary(cause)
        return cls(text.partition(":")[0].rpartition(".")[2])


def outcomes(items: Iterator[Any], count: int) -> Iterator[Any]:
    """Yield up to so many items. An item that fails is the class of its error.

    Raises the errors of items that hang or end their worker, and of those that cannot be sent by a process.
    """
    for _ in range(count):
        try:
            yield next(items)
        except StopIteration:
            return
        except (ItemTimeout, WorkerDied):
            raise
        except Exception as error:
            yield FailedItem.of(error)


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
        with prefetch(fresh(view), number, method, context=context, timeout=limit_s, retries=0) as node:
            yield from outcomes(iter(node), count)

    return read


def _here(view: View[Any], count: int, limit_s: float) -> Iterator[Any]:
    return outcomes(iter(fresh(view)), count)


def _backwards(view: View[Any], count: int, limit_s: float) -> Iterator[Any]:
    return outcomes(map(fresh(view).__getitem__, range(count - 1, -1, -1)), count)


def _middle(view: View[Any], count: int, limit_s: float) -> Iterator[Any]:
    return outcomes(iter(fresh(view).skip(count // 2)), count - count // 2)


def _pickled(view: View[Any], count: int, limit_s: float) -> Iterator[Any]:
    return _here(_copy(fresh(view)), count, limit_s)


def _copy(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value))
    except Exception as error:
        raise ValueError(f"it cannot be pickled: {type(error).__name__}") from error


# -------------------------------------------------------------------- loaders


class EpochOf(NamedTuple):
    """An epoch of a loader. `dataset` is read in place of its data set, if it is given."""

    loader: Any
    epoch: int
    dataset: View[Any] | None = None

    def copy(self, *workers: Any) -> Any:
        """Return a loader of the same batches with other workers, which scans its data set anew."""
        if self.dataset is None:
            return self.loader.with_workers(*workers)
        return self.loader.with_workers(*workers, dataset=fresh(self.dataset))

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
        with subject.copy(number, method, limit_s, context) as loader:
            yield from outcomes(subject.iterator(loader), count)

    return read


def _resumed(subject: EpochOf, count: int, limit_s: float) -> Iterator[Any]:
    with subject.copy(0) as first:
        begun = subject.iterator(first)
        for _ in outcomes(begun, count // 2):
            pass
        state = json.loads(json.dumps(first.state_dict()))
    with subject.copy(2, "process", limit_s) as second:
        second.load_state_dict(state)
        yield from outcomes(iter(second), count - count // 2)


def _pickled_loader(subject: EpochOf, count: int, limit_s: float) -> Iterator[Any]:
    with _copy(subject.copy(0)) as loader:
        yield from outcomes(subject.iterator(loader), count)
