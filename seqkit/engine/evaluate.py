"""Evaluate the items of a job in a worker: a thread, a process or a task of an executor."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from time import monotonic_ns
from typing import Any, Protocol

from ..core.epoch import EpochPair, at_epoch
from ..core.indices import each
from ..core.lengths import Unsized
from ..core.view import View
from .hooks import generation, leave_fork
from .results import Outcomes

NEVER_NS = 1 << 62
UNKEYED = -1  # the epoch of the pipeline as the user passed it


class Sink(Protocol):
    """Receives the items of a job as soon as each is finished."""

    def put(self, value: Any) -> bool:
        """Store the next item. Return whether there is room for another item."""

    def fail(self, error: BaseException) -> bool:
        """Store the error of the next item."""


class Collector:
    """A sink that keeps outcomes as objects."""

    __slots__ = ("fail", "outcomes", "put")

    def __init__(self) -> None:
        self.outcomes = Outcomes()
        values, failures = self.outcomes.values, self.outcomes.failures

        def fail(error: BaseException) -> bool:
            failures[len(values)] = error  # before the value, because another thread may be reading
            values.append(None)
            return True

        def put(value: Any) -> bool:
            values.append(value)
            return True

        self.put, self.fail = put, fail


class Evaluator:
    """The pipeline of a node in a worker, keyed for the epoch of the current job.

    `begin_item` is called with the view, the epoch and the index before an item is computed.
    """

    def __init__(
        self, pipeline: View[Any], begin_item: Callable[[Any, Any, Any], None] | None = None
    ) -> None:
        self._pipeline = pipeline
        self._begin_item = begin_item
        self._epoch: Hashable = UNKEYED
        self.keyed = pipeline

    def run(
        self,
        epoch: Hashable,
        indices: Any,
        sink: Sink,
        budget_ns: int = NEVER_NS,
        began: Callable[[int], None] | None = None,
        begin_planned: Callable[[Any, Any], None] | None = None,
        goes_on: Callable[[], bool] | None = None,
    ) -> bool:
        """Evaluate the items of a job into a sink. Return whether the sequence ended before the last index.

        Stops between two items when `budget_ns` are over, unless `goes_on` then returns True, or when the
        sink has no more room. `began` is called at the start of each item after the first, with the time in
        monotonic nanoseconds. With `begin_planned`, which is called with epoch and index, each item is read
        singly. A process that an item has forked ends when it leaves it.
        """
        done, count, has_room, put, clock = 0, len(indices), True, sink.put, monotonic_ns
        begun, forks = clock(), generation.number
        deadline, items = begun + budget_ns, None
        while has_room and done < count:
            try:
                if items is None:
                    items = self._items(epoch, indices, begin_planned)
                for value in items:
                    if generation.number != forks:
                        leave_fork()
                    has_room = put(value)
                    done += 1
                    if done == count or not has_room:
                        return False
                    if (now := clock()) >= deadline:
                        deadline = _next_deadline(done, begun, now, budget_ns, goes_on)
                        if now >= deadline:
                            return False
                    if began is not None:
                        began(now)
                if isinstance(self.keyed._n, Unsized):
                    return True
                raise RuntimeError(f"{self.keyed._name}: its iteration ended {count - done} items early")
            except BaseException as raised:
                if generation.number != forks:
                    leave_fork()
                has_room = sink.fail(_of_item(raised))
                done += 1
                if not isinstance(raised, Exception):  # the iterator would compute this item again
                    items, indices = None, indices[done - count :]
                if (now := clock()) >= deadline:
                    deadline = _next_deadline(done, begun, now, budget_ns, goes_on)
                    if now >= deadline:
                        return False
                if began is not None:
                    began(now)
        return False

    def _items(
        self, epoch: Hashable, indices: Any, begin_planned: Callable[[Any, Any], None] | None
    ) -> Iterator[Any]:
        """Iterate the items of a job."""
        view = self._at(epoch)
        # Indexing is cheaper for a single item, and reads no item before it has begun. But an indexed node
        # reads ahead, and would compute items that other workers compute too.
        is_cheap = type(view._known) is int and not view._reads_ahead
        begin = begin_planned or (self._begin_item and partial(self._begin_item, view))
        if begin is not None:
            items = None if begin_planned or is_cheap else view._iter(indices)
            # A map goes on after an error, unlike a generator.
            return map(partial(self._item, begin, epoch, view, items), each(indices))
        if is_cheap and len(indices) == 1:
            return (view._get(i) for i in each(indices))
        return view._iter(indices)

    def _item(self, begin: Any, epoch: Hashable, view: View[Any], items: Iterator[Any] | None, i: Any) -> Any:
        begin(epoch, i)
        return next(items or (view._get(one) for one in (i,)))  # a generator, for a StopIteration of an item

    def _at(self, epoch: Any) -> View[Any]:
        """Return the pipeline, keyed for an epoch."""
        if epoch != self._epoch:
            self.keyed = at_epoch(self._pipeline, EpochPair.of(epoch))
            self._epoch = epoch
        return self.keyed


def _next_deadline(
    done: int, begun: int, now: int, budget_ns: int, goes_on: Callable[[], bool] | None
) -> int:
    """Return the next deadline of a job that is past its deadline. It ends if that is `now`.

    If the first item took long, it may have loaded what the others need, such as a file that another worker
    would load again. So the job goes on for as long again, unless `goes_on` decides.
    """
    if goes_on is not None:
        return now + budget_ns if goes_on() else now
    return 2 * now - begun if done == 1 else now


def _of_item(raised: BaseException) -> BaseException:
    """Return the error that the item itself raised."""
    if type(raised) is RuntimeError and type(raised.__cause__) is StopIteration:
        return raised.__cause__  # Python replaces a StopIteration in generators by a RuntimeError
    # Drop the frame that refers to the sink: otherwise an error in the sink would keep the sink alive.
    raised.__traceback__ = raised.__traceback__ and raised.__traceback__.tb_next
    return raised
