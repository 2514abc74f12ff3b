"""Which item of which view failed, across a process border.

A view cannot travel with an error, but parent and workers hold the same expression: its place in the
tree, a route of source numbers from the root, finds the parent's own view again.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import EvaluationError, RemoteError, brief, fail, seterr, summary
from ..view import View, locate
from .results import Record, RemoteTraceback


def route(root: View[Any], target: View[Any]) -> list[int] | None:
    """Return the source numbers that lead from a root to a view, or None.

    >>> import seqkit as sk
    >>> inner = sk.smap(abs, [1, 2])
    >>> root = sk.batch(inner, 2)
    >>> route(root, inner), follow(root, [0]) is inner
    ([0], True)
    """
    pending: list[tuple[View[Any], list[int]]] = [(root, [])]
    seen = set()  # a view that is used twice would otherwise be searched twice, and so on upwards
    while pending:
        node, path = pending.pop()
        if node is target:
            return path
        if id(node) not in seen:
            seen.add(id(node))
            pending.extend((source, [*path, number]) for number, source in enumerate(node._sources))
    return None


def follow(root: View[Any], path: list[int]) -> View[Any]:
    """Return the view at the end of a route."""
    for number in path:
        root = root._sources[number]
    return root


def record(error: BaseException, pipeline: View[Any]) -> Record:
    """Make an error of a worker ready to travel."""
    if not isinstance(error, EvaluationError):
        return Record.of(error)
    index = error.index if isinstance(error.index, int | str | None) else repr(error.index)
    place = None if error.view is None else route(pipeline, error.view)
    cause = error.__cause__ or error
    return Record.of(cause, about=(error.message, index, place))


def reraise(problem: Any, node: View[Any], index: Any, pipeline: View[Any], worker: int | None) -> NoReturn:
    """Raise in the reader what became of item `index` of a prefetch node.

    `problem` is an exception of this process or the `Record` of one from a worker.
    """
    error = _revived(problem, pipeline) if isinstance(problem, Record) else problem
    try:
        if isinstance(error, EvaluationError):
            if error.__cause__ is not None and seterr() == "passthrough" and _is_plain(error.__cause__):
                raise error.__cause__
            if error.worker is None:
                error.worker = worker
            if error.view is None:
                error.view, error.index = node, index
            locate(error, node, index)
            raise error
        if isinstance(error, IndexError):
            raise error  # an index that a view refuses: what user code raises, the views have wrapped
        if not isinstance(error, Exception):
            # SystemExit, KeyboardInterrupt: an item's doing, not a request to the reader.
            raise EvaluationError(
                f"{node._name}[{brief(index)}] failed: {summary(error)}",
                index=index,
                view=node,
                worker=worker,
            ) from error
        try:
            fail(node, index, error)
        except EvaluationError as failure:
            failure.worker = worker
            raise
    finally:
        del error, problem  # or they would hold one another, and all that the reader has


def _is_plain(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, RemoteError | RemoteTraceback)


def _revived(problem: Record, pipeline: View[Any]) -> BaseException:
    rebuilt = problem.rebuild()
    if problem.about is None:
        return rebuilt
    message, index, place = problem.about
    if isinstance(rebuilt, EvaluationError):  # it had no cause, so this is the error itself
        rebuilt.message, error = message, rebuilt
    else:
        error = EvaluationError(message, index=index)
        error.__cause__ = rebuilt
    error.view = None if place is None else follow(pipeline, place)
    return error
