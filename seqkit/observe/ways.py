"""The ways in which `verify` reads a view or a loader."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.awaiting import is_awaited, unawaited
from ..core.errors import EvaluationError, ItemTimeout, RemoteError, WorkerDied, summary
from ..core.lengths import is_measured
from ..core.view import View
from ..engine.engine import why_not_here
from ..engine.prefetch import prefetch
from ..engine.results import NotSent
from ..views.bases.scanned import Scanned
from .rewriting import rewritten

__all__ = ["PROCESSES", "REFERENCE", "RESUMED", "THREADS", "EpochOf", "Way", "ways"]


REFERENCE, AGAIN, RESUMED = "no workers", "no workers, again", "resumed in the middle"
THREADS = {"2 threads"}
PROCESSES = {"2 processes", "2 spawned processes"}
# How long one item may take before it counts as hanging.
LIMIT_S = 30.0
# Of `filter` views and the like, so many items of the source are read at most.
MOST_SCANNED = 1000
# In place of an item that failed, with the class of its error.
FAILED = "an item that failed"

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

    def read(self, count: int, *workers: Any) -> Iterator[Any]:
        """Yield up to `count` items, read with so many workers, a method and a start method."""
        return _read(self.copy(*workers), count)

    def copy(self, workers: int = 0, method: Any = "thread", context: Any = None) -> Any:
        """Return a view or a loader of the same items with other workers, which scans its sources anew."""
        is_limited = workers and not (method == "process" and why_not_here())  # the other pool has none
        limit_s = LIMIT_S if is_limited else None
        if isinstance(self.sequence, View):
            view = rewritten(self.sequence, _scanned_anew)
            view = view if self.indices is None else view[np.array(self.indices, np.int64)]
            return prefetch(view, workers, method, context=context, timeout=limit_s, retries=0)
        given = {} if self.dataset is None else {"dataset": rewritten(self.dataset, _scanned_anew)}
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
    }
    return {**found, RESUMED: _resumed} if is_loader else found


def _read(copy: Any, count: int) -> Iterator[Any]:
    with copy:
        yield from _outcomes(iter(copy), count)


def _resumed(epoch: EpochOf, count: int) -> Iterator[Any]:
    """Yield the items from the middle on, of a loader that got the state of another one."""
    with epoch.copy() as first:
        begun = iter(first)
        for _ in _outcomes(begun, count // 2):
            pass
        state = json.loads(json.dumps(first.state_dict()))
    second = epoch.copy(2)
    second.load_state_dict(state)
    yield from _read(second, count - count // 2)


def _outcomes(items: Iterator[Any], count: int) -> Iterator[Any]:
    """Yield up to so many items. An item that fails is the class of its error.

    Raises the errors of items that hang or end their worker, and of those that cannot be sent by a process.
    """
    for _ in range(count):
        try:
            item = next(items)
            if is_awaited(type(item)):
                raise NotSent(str(unawaited(item)))
            yield item
        except StopIteration:
            return
        except (ItemTimeout, WorkerDied):
            raise
        except Exception as error:
            cause = error.__cause__ if isinstance(error, EvaluationError) and error.__cause__ else error
            if isinstance(cause, NotSent):
                raise cause from None
            # Only the text of an error comes from a process, if it cannot be pickled.
            text = str(cause) if isinstance(cause, RemoteError) else summary(cause)
            yield FAILED, text.partition(":")[0].rpartition(".")[2]


def _scanned_anew(view: View[Any], sources: tuple[View[Any], ...]) -> View[Any] | None:
    """Return a `filter` view or the like that scans the first items of its source, or None for others."""
    if not (view._sources and view._length_reads):
        return None
    if is_measured(sources[0]) and isinstance(n := sources[0]._n, int) and n > MOST_SCANNED:
        sources = (sources[0].head(MOST_SCANNED), *sources[1:])
    rebuilt = view._rebuild(sources)
    if isinstance(rebuilt, Scanned):  # it shares the scan of the given view
        rebuilt._forget()
    return rebuilt
