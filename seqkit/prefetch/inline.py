"""The backend without workers: jobs are evaluated in the reading thread, when it waits for them."""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns
from typing import Any

from ..view import View
from .evaluate import Evaluator
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

    def ready(self) -> bool:
        return True

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def flush(self) -> None:
        pass  # they do already

    def joint(self, jobs: int) -> None:
        return None  # results are ordinary objects

    def receive(self, timeout: float | None) -> list[Event]:
        if not self._jobs:
            return []
        job = self._jobs.popleft()
        begun = perf_counter_ns()
        outcomes = self._evaluator.run(job.epoch, job.indices)
        return [Done(job.ticket, Ready(outcomes), perf_counter_ns() - begun, None)]

    def cancel(self, ticket: int) -> None:
        pass  # nothing is begun before somebody waits for it

    def running_s(self) -> dict[int, float]:
        return {}

    def stop(self, ticket: int) -> None:
        raise AssertionError("inline evaluation has no workers to stop")

    def is_worker(self) -> bool:
        return False  # it is the reader's thread

    def wake(self) -> None:
        pass

    def statistics(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        self._jobs.clear()
