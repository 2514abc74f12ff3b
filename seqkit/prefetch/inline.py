"""The backend without workers: jobs are evaluated in the consumer's thread, when it waits for them."""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns
from typing import Any

from ..view import View
from .evaluate import Collector, Evaluator
from .protocol import Done, Event, Job
from .results import Ready

__all__ = ["Inline"]


class Inline:
    """Evaluates one job per `receive`; Ctrl-C and exits pass through to the caller."""

    capacity = 1

    def __init__(self, pipeline: View[Any]) -> None:
        self._evaluator = Evaluator(pipeline, in_worker=False)
        self._jobs: deque[Job] = deque()

    def start(self) -> None:
        pass

    def has_room(self) -> bool:
        return True

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def flush(self) -> None:
        pass  # there is no worker to see the jobs

    def receive(self, timeout_s: float | None) -> list[Event]:
        if not self._jobs:
            return []
        job = self._jobs.popleft()
        begun, sink = perf_counter_ns(), Collector()
        is_end = self._evaluator.run(job.epoch, job.indices, sink)
        cost_ns = perf_counter_ns() - begun
        return [Done(job.ticket, Ready(sink.outcomes), cost_ns, None, is_end=is_end)]

    def collect(self) -> list[Event]:
        return []

    def await_release(self, timeout_s: float) -> None:
        raise AssertionError("there are no slots")

    def cancel(self, ticket: int) -> None:
        pass  # nothing begins before the consumer waits for it

    def running_s(self) -> dict[int, float]:
        return {}

    def stop(self, ticket: int) -> None:
        raise AssertionError("inline evaluation has no workers to stop")

    def is_worker(self) -> bool:
        return False  # the thread is the consumer's

    def wake(self) -> None:
        pass

    def statistics(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        self._jobs.clear()
