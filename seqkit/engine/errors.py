"""Find the item and the view that failed, when the error comes from another process.

A view cannot travel with an error, but the parent and its workers hold the same expression. The error
carries the place of the view in the tree: a route of source numbers from the root. The parent follows the
route to its own view.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.error_path import locate
from ..core.errors import EvaluationError, RemoteError, brief, fail, seterr, summary
from ..core.view import View
from .results import Record


def route(root: View[Any], target: View[Any]) -> list[int] | None:
    """Return the source numbers that lead from a root to a view, or None.

    >>> import seqkit as sk
    >>> inner = sk.smap(abs, [1, 2])
    >>> root = sk.batch(inner, 2)
    >>> route(root, inner), follow(root, [0]) is inner
    ([0], True)
    """
    pending: list[tuple[View[Any], list[int]]] = [(root, [])]
    seen = set()  # search each shared view once: otherwise the time doubles with each level that shares one
    while pending:
        node, path = pending.pop()
        if not node._name:  # a probe: the parent's expression has none
            (node,) = node._sources
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
    """Convert an error of a worker to a `Record`, which can be pickled."""
    if not isinstance(error, EvaluationError):
        return Record.of(error)
    index = _plain(error.index)
    place = None if error.view is None else route(pipeline, error.view)
    cause = error.__cause__ or error
    return Record.of(cause, about=(error.message, index, place))


def _plain(index: Any) -> Any:
    """Return an index of ints, text, lists and tuples. A sample stands for its number, other objects for
    their text.

    >>> _plain([3, (0, "a"), {7}])
    [3, (0, 'a'), '{7}']
    """
    if isinstance(index, int | str | None):
        return index
    if isinstance(index, list | tuple):
        parts = map(_plain, index)
        return list(parts) if isinstance(index, list) else tuple(parts)
    return _plain(index.number) if hasattr(index, "number") else repr(index)


def reraise(problem: Any, node: View[Any], index: Any, pipeline: View[Any], worker: int | None) -> NoReturn:
    """Raise the error of item `index` of a prefetch node in the consumer.

    `problem` is an exception of this process, or the `Record` of an exception of a worker.
    """
    error = _revived(problem, pipeline) if isinstance(problem, Record) else problem
    cause = error.__cause__
    try:
        if isinstance(error, EvaluationError):
            if isinstance(cause, Exception) and type(cause) is not RemoteError and seterr() == "passthrough":
                raise cause
            if error.worker is None:
                error.worker = worker
            if error.view is None:
                error.view, error.index = node, index
            locate(error, node, index)
            raise error
        if isinstance(error, IndexError):
            raise error  # a view rejected the index: views wrap an IndexError of user code
        if not isinstance(error, Exception):
            # SystemExit or KeyboardInterrupt: the item raised it. It is not a request to the consumer.
            message = f"{node._name}[{brief(index)}] failed: {summary(error)}"
            raise EvaluationError(message, index=index, view=node, worker=worker) from error
        try:
            fail(node, index, error)
        except EvaluationError as failure:
            failure.worker = worker
            raise
    finally:
        del error, problem, cause  # otherwise a reference cycle would keep the consumer's objects alive


def _revived(problem: Record, pipeline: View[Any]) -> BaseException:
    rebuilt = problem.rebuild()
    if problem.about is None:
        return rebuilt
    message, index, place = problem.about
    if isinstance(rebuilt, EvaluationError):  # the error had no cause, so `record` sent the error itself
        rebuilt.message, error = message, rebuilt
    else:
        error = EvaluationError(message, index=index)
        error.__cause__ = rebuilt
    error.view = None if place is None else follow(pipeline, place)
    return error
