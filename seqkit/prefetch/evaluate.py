"""Evaluate the items of a job in a worker: a thread, a process or a task of an executor."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import Any, Protocol

from ..indices import Unsized
from ..view import View
from .hooks import generation, leave_fork
from .results import Outcomes

NEVER_NS = 1 << 62


class Sink(Protocol):
    """Takes the items of a job as soon as each is finished."""

    def put(self, value: Any) -> bool:
        """Take the next item; return whether there is room for another one."""

    def fail(self, error: BaseException) -> bool:
        """Take the error of the next item."""


class Collector:
    """The sink that keeps outcomes as objects."""

    __slots__ = ("fail", "outcomes", "put")

    def __init__(self) -> None:
        self.outcomes = Outcomes()
        values, failures = self.outcomes.values, self.outcomes.failures

        def fail(error: BaseException) -> bool:
            failures[len(values)] = error  # before the value: another thread may be reading
            values.append(None)
            return True

        def put(value: Any) -> bool:
            values.append(value)
            return True

        self.put, self.fail = put, fail


class Evaluator:
    """The pipeline of a node as a worker holds it, at whatever epoch a job asks for."""

    def __init__(self, pipeline: View[Any]) -> None:
        self._pipeline = pipeline
        self._epoch = -1
        self.keyed = pipeline
        self._generation = generation.number

    def run(
        self,
        epoch: int,
        indices: Any,
        sink: Sink,
        budget_ns: int = NEVER_NS,
        began: Callable[[int], None] | None = None,
    ) -> bool:
        """Evaluate the items of a job into a sink; return whether the sequence ended before the last index.

        Stops between two items when `budget_ns` are over or the sink has no more room. `began` is called
        with the time, in monotonic nanoseconds, at which each item after the first begins. An item may come
        back in a process that it forked: see `leave_if_forked`.
        """
        done, count, go_on, put, clock = 0, len(indices), True, sink.put, monotonic_ns
        deadline = clock() + budget_ns
        items = None
        while go_on and done < count:
            try:
                if items is None:
                    items = self._at(epoch)._iter(indices)
                for value in items:
                    go_on = put(value)
                    done += 1
                    if done == count or not go_on or (now := clock()) >= deadline:
                        return False
                    if began is not None:
                        began(now)
                break
            except BaseException as raised:
                self.leave_if_forked(raised)
                now = clock()
                go_on = sink.fail(_of_item(raised)) and now < deadline
                done += 1
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

    def leave_if_forked(self, error: BaseException | None = None) -> None:
        """End this process if an item forked it: the worker goes on in the other one.

        A worker calls this before it reports outcomes.
        """
        if generation.number != self._generation:
            leave_fork(error)

    def _at(self, epoch: int) -> View[Any]:
        """Key the pipeline for an epoch; -1 is the pipeline as it was given."""
        if epoch != self._epoch:
            self.keyed = self._pipeline if epoch < 0 else self._pipeline._at_epoch(epoch)
            self._epoch = epoch
        return self.keyed


def _of_item(raised: BaseException) -> BaseException:
    """Return the error of an item as the item raised it."""
    cause = raised.__cause__ if type(raised) is RuntimeError else None
    if type(cause) is StopIteration and str(raised) == "generator raised StopIteration":
        return cause  # in generators Python puts a RuntimeError in its place
    # Without the frame that has the sink: an error that the sink keeps would keep the sink.
    raised.__traceback__ = raised.__traceback__ and raised.__traceback__.tb_next
    return raised
