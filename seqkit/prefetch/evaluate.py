"""The evaluation of a job by whoever holds the pipeline: a worker, or the reader's own thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from ..indices import Unsized
from ..view import View
from .hooks import leave_fork
from .results import Outcomes, collect

__all__ = ["Evaluator", "Settle"]

Settle = Callable[[Iterator[Any]], Iterator[Any]]


class Evaluator:
    """The pipeline of a node as a worker holds it, at whatever epoch a job asks for.

    In the reader's own process and thread, Ctrl-C, exits and forks are the reader's.
    """

    def __init__(self, pipeline: View[Any], in_worker: bool = True) -> None:
        self._pipeline = pipeline
        self._epoch = -1
        self.keyed = pipeline
        self._caught = BaseException if in_worker else Exception
        self._pid = os.getpid() if in_worker else None

    def run(self, epoch: int, indices: Any, settle: Settle = iter) -> Outcomes:
        """Evaluate the items of a job; whatever fails, the job has an outcome for each of them.

        `settle` is laid over the iterator of items, and sees each of them when it is made. An item may come
        back in a process that it forked: see `leave_if_forked`.
        """
        count = len(indices)
        try:
            pipeline = self._at(epoch)
            items = settle(pipeline._iter(indices))
        except self._caught as error:
            self.leave_if_forked(error)
            return Outcomes([None] * count, dict.fromkeys(range(count), error))
        outcomes = collect(items, count, self._caught, self.leave_if_forked)
        if len(outcomes.values) < count and not isinstance(pipeline._n, Unsized):
            missing = range(len(outcomes.values), count)
            early = RuntimeError(f"{pipeline._name}: its iteration ended {len(missing)} items early")
            outcomes.failures.update(dict.fromkeys(missing, early))
            outcomes.values.extend([None] * len(missing))
        return outcomes

    def leave_if_forked(self, error: BaseException | None = None) -> None:
        """End here if an item has forked this process: the worker goes on in the other one.

        For a worker to call before it tells anybody of its outcomes.
        """
        if self._pid is not None and os.getpid() != self._pid:
            leave_fork(error)

    def _at(self, epoch: int) -> View[Any]:
        """Key the pipeline for an epoch; -1 is the pipeline as it was given."""
        if epoch != self._epoch:
            self.keyed = self._pipeline if epoch < 0 else self._pipeline._at_epoch(epoch)
            self._epoch = epoch
        return self.keyed
