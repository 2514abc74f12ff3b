"""Evaluate the items of a job in a worker: a thread, a process or a task of an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic_ns
from typing import Any, Protocol

from ..core.indices import Unsized, each
from ..core.view import View
from .borders import Borders
from .hooks import generation, leave_fork
from .results import Outcomes

NEVER_NS = 1 << 62


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

    `begin_item` is called with the epoch and the index before an item is computed.
    """

    def __init__(self, pipeline: View[Any], begin_item: Callable[[int, Any], None] | None = None) -> None:
        self._pipeline = pipeline
        self._begin_item = begin_item
        self._epoch = -1
        self.keyed = pipeline

    def run(
        self,
        epoch: int,
        indices: Any,
        sink: Sink,
        budget_ns: int = NEVER_NS,
        began: Callable[[int], None] | None = None,
        begin_planned: Callable[[int, Any], None] | None = None,
    ) -> bool:
        """Evaluate the items of a job into a sink. Return whether the sequence ended before the last index.

        Stops between two items when `budget_ns` are over or the sink has no more room. In the middle of a
        group, such as a file, it goes on for as long again. `began` is called at the start of each item after
        the first, with the time in monotonic nanoseconds. With `begin_planned`, which is called like
        `begin_item`, each item is read singly. A process that an item has forked ends when it leaves it.
        """
        done, count, go_on, put, clock = 0, len(indices), True, sink.put, monotonic_ns
        begun, forks = clock(), generation.number
        deadline, is_extended = begun + budget_ns, False
        items = None
        while go_on and done < count:
            try:
                if items is None:
                    items = self._items(epoch, indices, begin_planned)
                for value in items:
                    if generation.number != forks:
                        leave_fork()
                    go_on = put(value)
                    done += 1
                    if done == count or not go_on:
                        return False
                    if (now := clock()) >= deadline:
                        if is_extended or not self._is_in_group(indices[done - 1 : done + 1]):
                            return False
                        deadline, is_extended = 2 * now - begun, True
                    if began is not None:
                        began(now)
                break
            except BaseException as raised:
                if generation.number != forks:
                    leave_fork()
                now = clock()
                go_on = sink.fail(_of_item(raised)) and now < deadline
                done += 1
                if not isinstance(raised, Exception):  # the iterator would compute this item again
                    items, indices = None, indices[done - count :]
                if began is not None:
                    began(now)
        if go_on and done < count:
            if isinstance(self.keyed._n, Unsized):
                return True
            missing = count - done
            early = RuntimeError(f"{self.keyed._name}: its iteration ended {missing} items early")
            for _ in range(missing):
                if not sink.fail(early):
                    break
        return False

    def _items(
        self, epoch: int, indices: Any, begin_planned: Callable[[int, Any], None] | None
    ) -> Iterator[Any]:
        """Iterate the items of a job."""
        view = self._at(epoch)
        if begin_planned is not None:
            return map(partial(self._item, begin_planned, epoch, view, None), each(indices))
        # Indexing is cheaper for a single item, and reads no item before it has begun. But an indexed node
        # reads ahead, and would compute items that other workers compute too.
        is_cheap = type(view._known) is int and not view._reads_ahead
        begin = self._begin_item
        if begin is not None:
            items = None if is_cheap else view._iter(indices)
            # A map goes on after an error, unlike a generator.
            return map(partial(self._item, begin, epoch, view, items), each(indices))
        if is_cheap and len(indices) == 1:
            return (view._get(i) for i in each(indices))
        return view._iter(indices)

    def _item(self, begin: Any, epoch: int, view: View[Any], items: Iterator[Any] | None, i: Any) -> Any:
        begin(epoch, i)
        return next(items or (view._get(one) for one in (i,)))  # a generator, for a StopIteration of an item

    def _is_in_group(self, two: Any) -> bool:
        """Return whether two successive indices are of one group, which this worker has read."""
        borders = Borders.of(self.keyed)
        return borders is not None and borders.cut(two) == 2

    def _at(self, epoch: int) -> View[Any]:
        """Key the pipeline for an epoch. Epoch -1 is the pipeline as the user passed it."""
        if epoch != self._epoch:
            self.keyed = self._pipeline if epoch < 0 else self._pipeline.at_epoch(epoch)
            self._epoch = epoch
        return self.keyed


def _of_item(raised: BaseException) -> BaseException:
    """Return the error that the item itself raised."""
    cause = raised.__cause__ if type(raised) is RuntimeError else None
    if type(cause) is StopIteration and str(raised) == "generator raised StopIteration":
        return cause  # Python replaces a StopIteration in generators by a RuntimeError
    # Drop the frame that refers to the sink: otherwise an error in the sink would keep the sink alive.
    raised.__traceback__ = raised.__traceback__ and raised.__traceback__.tb_next
    return raised
