"""Batches that are bound to workers, as in PyTorch: of n workers, number w computes the batches w, w + n, …

Used where `worker_init_fn`, or the data set in its worker, seeds generators. The numbers that a batch draws
then depend on its worker, and on the batches that this worker computed before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice, tee
from types import FunctionType
from typing import Any

from ..core.errors import EvaluationError
from ..core.indices import Plan, each
from ..core.iteration import Progress, restarting
from ..core.view import View
from ..prefetch import Prefetch
from ..prefetch.errors import name_worker
from ..prefetch.repeated import code_of, mentioned, names_in_class, variables_around

__all__ = ["Bound", "makes_generator_of_worker", "seeds"]


class Bound(View[Any]):
    """The view of the items of n nodes over one view. Each node has one worker and computes every nth item.

    Parameters
    ----------
    nodes : tuple of Prefetch
    """

    def __init__(self, nodes: tuple[View[Any], ...]) -> None:
        super().__init__(nodes, nodes[0]._n)

    def reading(self, plan: Plan) -> Iterator[Any]:
        """Begin to read a plan in all workers."""
        n = len(self._sources)
        parts = (islice(copy, first, None, n) for first, copy in enumerate(tee(each(plan), n)))
        readers = [*map(_reader, self._sources, parts, range(n))]
        return map(next, cycle(readers))  # goes on after an error, and ends when one of them does

    def _iter(self, plan: Plan) -> Iterator[Any]:
        return self.reading(plan)

    def _get(self, i: int) -> Any:
        return self._sources[i % len(self._sources)]._get(i)

    def close(self) -> None:
        """End the workers."""
        for node in self._sources:
            if isinstance(node, Prefetch):
                node.close()

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Bound(sources)


def _reader(node: View[Any], plan: Iterator[Any], worker: int) -> Iterator[Any]:
    # `profile` puts views of its own around the nodes.
    items = (
        restarting(node.reading(plan, in_step=True)) if isinstance(node, Prefetch) else View._iter(node, plan)
    )

    def run(progress: Progress) -> Iterator[Any]:
        try:
            yield from items
        except EvaluationError as error:
            name_worker(error, worker)
            raise
        progress.done = True

    return restarting(run)


# Functions and classes that make a generator. Every name with "seed" counts too.
_MAKERS = {"default_rng", "RandomState", "Random", "Generator", "SeedSequence", "PCG64"}


def seeds(function: Any, dataset: Any = None, depth: int = 3) -> bool:
    """Return whether a function, or one that it calls by name, mentions a seed or makes a generator.

    It may call functions of its module, functions around it, and methods of the data set.

    >>> seeds(lambda worker: np.random.seed(worker)), seeds(lambda worker: print(worker))
    (True, False)
    """
    call: Any = function if isinstance(function, FunctionType) else getattr(function, "__call__", None)  # noqa: B004
    names = mentioned(code_of(call) or code_of(function))
    if _makes_generators(names):
        return True
    known = getattr(function, "__globals__", {})
    if isinstance(function, FunctionType):
        known = known | variables_around(function)
    called = [known.get(name, getattr(type(dataset), name, None)) for name in names]
    functions = [one for one in called if isinstance(one, FunctionType)]
    return depth > 0 and any(seeds(one, dataset, depth - 1) for one in functions)


def makes_generator_of_worker(dataset: Any) -> bool:
    """Return whether the code of a data set asks for the worker, and makes a generator."""
    names = names_in_class(dataset)
    return "get_worker_info" in names and _makes_generators(names)


def _makes_generators(names: set[str]) -> bool:
    return bool(names & _MAKERS) or any("seed" in name.lower() for name in names)
