"""The ways in which `verify` reads a view or a loader, and the digests of the items."""

from __future__ import annotations

import json
import operator
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import EvaluationError, ItemTimeout, RemoteError, WorkerDied, summary
from ..core.once import Deferred
from ..core.view import View, is_measured
from ..prefetch.engine import why_not_here
from ..prefetch.node import Prefetch, prefetch
from ..prefetch.results import NOT_SENT
from ..stores.add_cache.add_cache import AddCache
from ..views.bases.scanned import Scanned
from .digest import digest

__all__ = [
    "PROCESSES",
    "REFERENCE",
    "RESUMED",
    "THREADS",
    "EpochOf",
    "Way",
    "digests",
    "shortened",
    "ways",
    "without_nodes",
]

REFERENCE, AGAIN, RESUMED = "no workers", "no workers, again", "resumed in the middle"
THREADS = {"2 threads"}
PROCESSES = {"2 processes", "2 spawned processes", "a pickled copy"}
# How long one item may take before it counts as hanging.
LIMIT_S = 30.0

Change = Callable[[View[Any], tuple[View[Any], ...]], View[Any] | None]
# Returns up to so many items of an epoch.
Way = Callable[["EpochOf", int], Iterator[Any]]


class EpochOf(NamedTuple):
    """An epoch of a loader or a view, or its items at some indices.

    `dataset` takes the place of the data set of a loader.
    """

    sequence: Any
    number: int
    dataset: View[Any] | None = None
    indices: list[int] | None = None

    def read(
        self,
        count: int,
        workers: int = 0,
        method: Any = "thread",
        context: Any = None,
        changed: Callable[[Any], Any] = lambda copy: copy,
    ) -> Iterator[Any]:
        """Yield up to `count` items, read with so many workers. `changed` may replace the copy to read."""
        with changed(self.copy(workers, method, context)) as copy:
            yield from _outcomes(iter(copy), count)

    def copy(self, workers: int = 0, method: Any = "thread", context: Any = None) -> Any:
        """Return a view or a loader of the same items with other workers, which scans its sources anew."""
        is_limited = workers and not (
            method == "process" and why_not_here()
        )  # the standard pool has no limit
        limit_s = LIMIT_S if is_limited else None
        if isinstance(self.sequence, View):
            view = _rewritten(self.sequence, _scanned_anew)
            view = view if self.indices is None else view[np.array(self.indices, np.int64)]
            return prefetch(view, workers, method, context=context, timeout=limit_s, retries=0)
        given = {} if self.dataset is None else {"dataset": _rewritten(self.dataset, _scanned_anew)}
        copy = self.sequence.with_workers(workers, method, limit_s or 0, context, **given)
        copy.set_epoch(self.number)
        return copy


def ways(is_loader: bool) -> dict[str, Way]:
    """Return the ways to read. Processes come first: they are forked before items run here."""
    found: dict[str, Way] = {
        "2 processes": lambda epoch, n: epoch.read(n, 2, "process"),
        "2 spawned processes": lambda epoch, n: epoch.read(n, 2, "process", "forkserver"),
        "2 threads": lambda epoch, n: epoch.read(n, 2),
        REFERENCE: lambda epoch, n: epoch.read(n),
        AGAIN: lambda epoch, n: epoch.read(n),
        "a pickled copy": lambda epoch, n: epoch.read(n, changed=_pickled),
    }
    return {**found, RESUMED: _resumed} if is_loader else found


def _pickled(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value))
    except Exception as error:
        raise ValueError(f"it cannot be pickled: {type(error).__name__}") from error


def _resumed(epoch: EpochOf, count: int) -> Iterator[Any]:
    """Yield the items from the middle on, of a loader that got the state of another one."""
    with epoch.copy() as first:
        begun = iter(first)
        for _ in _outcomes(begun, count // 2):
            pass
        state = json.loads(json.dumps(first.state_dict()))
    with epoch.copy(2) as second:
        second.load_state_dict(state)
        yield from _outcomes(iter(second), count - count // 2)


def digests(items: Iterator[Any], until: float = float("inf")) -> list[bytes]:
    """Return the digests of items. End at `until`, in seconds of `perf_counter`."""
    found: list[bytes] = []
    for item in items:
        found.append(digest(item))
        if perf_counter() > until:
            break
    return found


@dataclass(frozen=True)
class FailedItem:
    """In place of an item that failed: the class of its error."""

    error: str


def _outcomes(items: Iterator[Any], count: int) -> Iterator[Any]:
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
            cause = error.__cause__ if isinstance(error, EvaluationError) and error.__cause__ else error
            if (isinstance(cause, TypeError) and NOT_SENT in str(cause)) or "was_not_sent" in vars(cause):
                raise cause from None
            # Only the text of an error comes from a process, if it cannot be pickled.
            text = str(cause) if isinstance(cause, RemoteError) else summary(cause)
            yield FailedItem(text.partition(":")[0].rpartition(".")[2])


# -------------------------------------------------------------------- expressions


def without_nodes(view: View[Any], nodes: bool = False) -> View[Any]:
    """Return an expression whose caches begin empty, and have no stores, and without `prefetch` views.

    `nodes`: keep these.
    """

    def change(view: View[Any], sources: tuple[View[Any], ...]) -> View[Any] | None:
        if isinstance(view, Prefetch) and not nodes:
            return sources[0]
        return view._in_memory(sources) if isinstance(view, AddCache) else None

    return _rewritten(view, change)


def _scanned_anew(view: View[Any], sources: tuple[View[Any], ...]) -> View[Any] | None:
    """Return a `filter` view or the like that has not scanned its sources, or None for other views."""
    if not (view._sources and view._length_reads):
        return None
    rebuilt = view._rebuild(sources)
    if isinstance(rebuilt, Scanned):  # it shares the scan of the given view
        rebuilt._found = Deferred()
    return rebuilt


def shortened(view: View[Any], count: int, until: float) -> View[Any]:
    """Return an expression with the same first items, whose length is found without a long scan.

    Only the first items of the sources of `filter` views and the like are left: as many as `count` items of
    `view` need, or as can be read until a time.
    """
    most = count
    while not is_measured(_rewritten(view, _scanned_anew)):
        cut: list[int] = []  # how many items are left out

        def change(view: View[Any], sources: tuple[View[Any], ...]) -> View[Any] | None:
            if not (view._sources and view._length_reads and is_measured(sources[0])):
                return None
            if isinstance(n := sources[0]._n, int):
                cut.append(max(0, n - most))  # noqa: B023 - called in this round
                sources = (sources[0][:most], *sources[1:])  # noqa: B023
            return view._rebuild(sources)

        found = _rewritten(view, change)
        items = sum(1 for _ in _outcomes(iter(_rewritten(found, _scanned_anew)), count))
        if items == count or not any(cut) or (items and perf_counter() > until):
            return found
        most *= 4
    return view


def _rewritten(view: View[Any], change: Change, copies: dict[int, View[Any]] | None = None) -> View[Any]:
    """Return an expression in which some views are changed. Those above are rebuilt, the others remain."""
    copies = {} if copies is None else copies
    if id(view) not in copies:
        sources = tuple(_rewritten(source, change, copies) for source in view._sources)
        changed = change(view, sources)
        if changed is None:
            are_same = all(map(operator.is_, sources, view._sources))
            changed = view if are_same else view._rebuild(sources)
        copies[id(view)] = changed
    return copies[id(view)]
