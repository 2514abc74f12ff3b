"""Every exception class of seqkit, and the policy that decides how a failing item is reported.

A failing item never ends an iteration. By default it raises an `EvaluationError` that names the item and the
view. The exception of the user's code is its ``__cause__``. `seterr` and `errstate` let the original
exception pass through instead.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NoReturn, get_args

from .lazy import load
from .tracebacks import hide_frames

__all__ = [
    "EndOfSequence",
    "EvaluationError",
    "ItemTimeout",
    "RemoteError",
    "WorkerDied",
    "brief",
    "errstate",
    "fail",
    "fail_at_once",
    "seterr",
    "summary",
]

Policy = Literal["wrap", "passthrough"]
POLICIES = get_args(Policy)

# No text of an error is longer than a screen.
_MOST_STEPS = 8
_MOST_LETTERS = 800

_policy: ContextVar[Policy] = ContextVar("seqkit_errors", default="wrap")


class EvaluationError(RuntimeError):
    """An item could not be computed. The ``__cause__`` is the exception of the user's code.

    Attributes
    ----------
    index : int | None
        Index of the failing item within `view`.
    view : View | None
        The innermost view that failed.
    path : tuple[tuple[View, int], ...]
        The views from the requested one down to the one that failed, each with the index read from it, as far
        as they are known: ``batch[3] → shuffle[97] → smap[1204]``.
    worker : int | None
        Number of the worker that evaluated the item. None in the consumer's process and in tasks of
        executors.

    Examples
    --------
    >>> import seqkit as sk
    >>> inverses = sk.smap(lambda x: 1 / x, [1, 0])
    >>> try:
    ...     inverses[-1]
    ... except EvaluationError as error:
    ...     error.view is inverses, error.index, error.__cause__
    (True, 1, ZeroDivisionError('division by zero'))
    """

    # Defaults for subclasses that do not call `__init__`.
    index: Any = None
    view: Any = None
    path: tuple[tuple[Any, Any], ...] = ()
    worker: int | None = None
    message = ""

    def __init__(
        self,
        *args: Any,
        index: Any = None,
        view: Any = None,
        path: tuple[tuple[Any, Any], ...] = (),
        worker: int | None = None,
    ) -> None:
        super().__init__(*args)
        self.message = BaseException.__str__(self)
        self.index = index
        self.view = view
        self.path = path
        self.worker = worker

    def __str__(self) -> str:
        lines = self._lines()
        if self.view is not None:
            # The list of streams of a StreamLoader is no view.
            has_input = bool(self.__cause__ is not None and getattr(self.view, "_sources", None))
            known = "   its input: error.inputs()" if has_input else ""
            lines.append(f"  to reproduce: error.reproduce(){known}")
        return "\n".join(lines)

    def _lines(self) -> list[str]:
        lines = [self.message or super().__str__()]
        if len(self.path) > 1:
            steps = [f"{view._name}[{brief(i)}]" for view, i in self.path if view._name]
            if len(steps) > _MOST_STEPS:
                steps[_MOST_STEPS // 2 : -_MOST_STEPS // 2] = ["…"]
            lines.append("  path: " + " → ".join(steps))
        site = getattr(self.view, "_site", None)
        if site is not None:
            lines.append(f"  {self.view._name} made at {site[0]}:{site[1]} in {site[2]}")
        return lines

    def reproduce(self) -> Any:
        """Compute the failing item again, in this thread, whatever its index or key is.

        Returns
        -------
        object
            The item, if it does not fail this time.

        Raises
        ------
        RuntimeError
            If the view is not known, as in a pickled error.
        Exception
            The error of the item.

        Examples
        --------
        >>> import seqkit as sk
        >>> loader = sk.DataLoader({"a": 0, "b": 1}, sampler=["b", "a"], transform=lambda x: 1 / x)
        >>> try:
        ...     list(loader)
        ... except EvaluationError as caught:
        ...     error = caught
        >>> error.index, error.inputs()
        ('a', [0])
        >>> error.reproduce()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        seqkit.core.errors.EvaluationError: smap['a'] failed: ZeroDivisionError: division by zero
        ...
        """
        if self.view is None:
            raise RuntimeError(
                "EvaluationError.reproduce: the view that failed is not known. Read it yourself."
            )
        try:
            return self.view._get(self.index)
        except Exception as error:
            hide_frames(error)
            raise

    def inputs(self) -> list[Any]:
        """Read the items that the failing item is made of.

        Returns
        -------
        list
            Empty if the item comes from a source.

        Raises
        ------
        RuntimeError
            If the views are not known, as in a pickled error, or if the error has no cause. After a killed
            worker or a time-out it is not known which view failed, and reading could end this process too.

        Examples
        --------
        >>> import seqkit as sk
        >>> inverses = sk.smap(lambda x: 1 / x, sk.smap(abs, [-1, 0]))
        >>> try:
        ...     list(sk.batch(inverses, 2))
        ... except EvaluationError as error:
        ...     error.inputs()
        [0]
        """
        if self.view is None or self.__cause__ is None:
            raise RuntimeError(
                "EvaluationError.inputs: the view that failed is not known. Read its sources yourself."
            )
        parts = self.view._parts(self.index)
        return [source._get(i) for source, indices in parts for i in indices]

    def trace(self) -> Any:
        """Compute the requested item again, and return its trace. The failing stage is marked.

        Returns
        -------
        Trace
            See `seqkit.trace`.

        Raises
        ------
        RuntimeError
            If the view is not known, as in a pickled error, or if the error has no cause. After a killed
            worker or a time-out, reading the item could end this process too.

        Examples
        --------
        >>> import seqkit as sk
        >>> inverses = sk.smap(lambda x: 1 / x, sk.shuffle([1, 0, 2], seed=0))
        >>> try:
        ...     list(sk.batch(inverses, 3))
        ... except EvaluationError as error:
        ...     [step.index for step in error.trace().failed]
        [0, 1]
        """
        if self.view is None or self.__cause__ is None:
            raise RuntimeError(
                "EvaluationError.trace: the view that failed is not known. Call seqkit.trace(view, i)."
            )
        return load("trace of an error")(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the views: they may not pickle, and the text names them.
        return _rebuild_error, (type(self), "\n".join(self._lines()), self.index, self.worker)


class WorkerDied(EvaluationError):
    """A worker process was killed, crashed or exited while it computed an item.

    >>> issubclass(WorkerDied, EvaluationError)
    True
    """


class ItemTimeout(EvaluationError, TimeoutError):
    """An item took longer than the ``timeout`` of its prefetch node.

    >>> issubclass(ItemTimeout, TimeoutError)
    True
    """

    # TimeoutError is an OSError, whose constructor and __str__ rearrange their arguments.
    def __init__(self, message: str, **known: Any) -> None:
        EvaluationError.__init__(self, message, **known)

    def __str__(self) -> str:
        return EvaluationError.__str__(self)


class RemoteError(Exception):
    """Replaces an exception of another process that cannot be unpickled. Its text names that exception."""


class EndOfSequence(IndexError):
    """A sequence of unknown length ends before this index."""


def _rebuild_error(
    kind: type[EvaluationError], message: str, index: Any, worker: int | None
) -> EvaluationError:
    return kind(message, index=index, worker=worker)


def seterr(evaluation: Policy | None = None) -> Policy:
    """Set how a failing item is reported from now on, and return the setting.

    The setting applies to the current thread (or context) and to the workers started from it.

    Parameters
    ----------
    evaluation : "wrap", "passthrough" or None
        ``"wrap"`` (the default of seqkit) raises `EvaluationError` from the user's exception.
        ``"passthrough"`` raises the user's exception itself. None changes nothing.

    Raises
    ------
    ValueError
        For any other value.

    Notes
    -----
    After ``seterr`` of SeqTools; see `errstate` for a context manager.

    Examples
    --------
    >>> import seqkit as sk
    >>> seterr("passthrough")
    'passthrough'
    >>> try:
    ...     sk.smap(lambda x: 1 / x, [0])[0]
    ... except ZeroDivisionError:
    ...     print("caught as it was raised")
    caught as it was raised
    >>> seterr("wrap")
    'wrap'
    """
    if evaluation is not None:
        if evaluation not in POLICIES:
            raise ValueError(f"seterr: evaluation must be 'wrap', 'passthrough' or None, got {evaluation!r}")
        _policy.set(evaluation)
    return _policy.get()


def errstate(evaluation: Policy) -> AbstractContextManager[None]:
    """Set how failing items are reported inside a ``with`` block. See `seterr`.

    Parameters
    ----------
    evaluation : "wrap" or "passthrough"

    Raises
    ------
    ValueError
        For any other value.

    Examples
    --------
    >>> import seqkit as sk
    >>> inverses = sk.smap(lambda x: 1 / x, [1, 0])
    >>> with sk.errstate("passthrough"):
    ...     inverses[1]
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    """
    if evaluation not in POLICIES:
        raise ValueError(f"errstate: evaluation must be 'wrap' or 'passthrough', got {evaluation!r}")
    return _policy_within(evaluation)


@contextmanager
def _policy_within(evaluation: Policy) -> Iterator[None]:
    before = seterr()
    seterr(evaluation)
    try:
        yield
    finally:
        seterr(before)


def fail_at_once(view: Any, indices: Any, error: Exception) -> NoReturn:
    """Raise the error of the first item that fails when it is read alone, or else that of all items."""
    for i in indices:
        view._get(i)
    fail(view, indices[0], error, f"reading {len(indices)} items at once")


def fail(view: Any, index: Any, error: Exception, doing: str = "") -> NoReturn:
    """Raise `error`, the exception of item `index` of `view`, as the policy demands.

    Call it only from an ``except`` block around user code: if that code reads to the end of another sequence,
    this is an error here. An `EvaluationError` of an inner view passes unchanged, and so does the
    RecursionError of a pipeline that is too deep. A `RemoteError` is wrapped under both policies, because its
    class says nothing.
    """
    try:
        if isinstance(error, EvaluationError) or (isinstance(error, RecursionError) and _is_deep()):
            raise error
        if _policy.get() == "passthrough" and not isinstance(error, RemoteError):
            raise IndexError(*error.args) if isinstance(error, EndOfSequence) else error
        message = f"{view._name}[{brief(index)}] failed{' ' + doing if doing else ''}: {summary(error)}"
        raise EvaluationError(message, index=index, view=view) from error
    finally:
        del error  # avoids a reference cycle with this frame


def _is_deep() -> bool:
    """Do the calls up to here take half of the stack? Then a RecursionError is not that of a function."""
    frame: Any = sys._getframe(1)
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return 2 * depth > sys.getrecursionlimit()


def brief(value: Any) -> str:
    """Return the `repr` of a value in one short line, without an address in memory.

    >>> brief(list(range(100))), brief(object())
    ('[0, 1, 2, 3, 4, 5, ...]', '<object>')
    """
    text = " ".join(_shortened.repr(value).split())
    is_address = text.startswith("<") and " at 0x" in text
    return f"<{getattr(value, '__name__', type(value).__name__)}>" if is_address else text


_shortened = reprlib.Repr()
_shortened.maxstring, _shortened.maxother = 100, 60  # paths, and objects


def summary(error: BaseException) -> str:
    """Return type, text and one-line notes of an exception, even if its ``__str__`` fails.

    >>> error = ValueError("bad header")
    >>> error.add_note("file: a.png")
    >>> summary(error)
    'ValueError: bad header; file: a.png'
    """
    try:
        text = str(error).rstrip()
        text = text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + " …"
    except Exception:
        text = "<its text cannot be shown>"
    notes = [str(note) for note in getattr(error, "__notes__", ()) if "\n" not in str(note)]
    text = "; ".join([text, *notes] if text else notes)
    if isinstance(error, RemoteError):
        return text  # already a summary
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
