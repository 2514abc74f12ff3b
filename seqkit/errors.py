"""Every exception class of seqkit, and the policy that decides how a failing item is reported.

A failing item never ends an iteration and never looks like the end of a sequence. By default what the
user's code raised arrives as the ``__cause__`` of an `EvaluationError` that names the item and the view;
`seterr` or `errstate` switch to letting the original exception pass through.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NoReturn, get_args

__all__ = [
    "EndOfSequence",
    "EvaluationError",
    "ItemTimeout",
    "RemoteError",
    "SlotsExhausted",
    "WorkerDied",
    "brief",
    "errstate",
    "fail",
    "seterr",
    "summary",
]

Policy = Literal["wrap", "passthrough"]
POLICIES = get_args(Policy)

_policy: ContextVar[Policy] = ContextVar("seqkit_errors", default="wrap")


class EvaluationError(RuntimeError):
    """An item could not be computed; the ``__cause__`` is what the user's code raised.

    Attributes
    ----------
    index : int | None
        Index of the failing item within `view`.
    view : View | None
        The innermost view that failed.
    path : tuple[tuple[View, int], ...]
        From the view that was asked down to the one that failed, each with the index asked of it,
        as far as it is known: ``batch[3] → shuffle[97] → smap[1204]``.
    worker : int | None
        Number of the worker that evaluated the item, ``None`` in the reading process and in tasks of
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

    # For classes derived from this one that forget to initialise it.
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
        lines = [self.message or super().__str__()]
        if len(self.path) > 1:
            lines.append("  path: " + " → ".join(f"{view._name}[{brief(i)}]" for view, i in self.path))
        site = getattr(self.view, "_site", None)
        if site is not None:
            lines.append(f"  {self.view._name} made at {site[0]}:{site[1]} in {site[2]}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # The views stay behind: they may not pickle, and the text already names them.
        return _rebuild_error, (type(self), str(self), self.index, self.worker)


class WorkerDied(EvaluationError):
    """A worker process ended (killed, crashed, exited) while it computed an item.

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


class SlotsExhausted(RuntimeError):
    """The reader holds as many results of a prefetch node in shared memory as it may.

    Raised where ``on_exhausted`` asks for it. The item is not lost: read it again once others are dropped.

    >>> issubclass(SlotsExhausted, RuntimeError)
    True
    """


class RemoteError(Exception):
    """Stands for an exception of another process that cannot be rebuilt in this one; its text names it."""


class EndOfSequence(IndexError):
    """A source of unknown length has no item at this index: the sequence ends before it."""


def _rebuild_error(
    kind: type[EvaluationError], message: str, index: Any, worker: int | None
) -> EvaluationError:
    return kind(message, index=index, worker=worker)


def seterr(evaluation: Policy | None = None) -> Policy:
    """Set how a failing item is reported from now on, and return the setting.

    Holds for the current thread (or context) and for the workers started from it.

    Parameters
    ----------
    evaluation : "wrap", "passthrough" or None
        ``"wrap"`` (the default of seqkit) raises `EvaluationError` from what the user's code raised;
        ``"passthrough"`` raises the user's exception itself. ``None`` changes nothing.

    Raises
    ------
    ValueError
        For any other value.

    Notes
    -----
    After ``seterr`` of SeqTools; see `errstate` for a context manager.

    Examples
    --------
    >>> seterr()
    'wrap'
    """
    if evaluation is not None:
        if evaluation not in POLICIES:
            raise ValueError(f"seterr: evaluation must be 'wrap', 'passthrough' or None, got {evaluation!r}")
        _policy.set(evaluation)
    return _policy.get()


def errstate(evaluation: Policy) -> AbstractContextManager[None]:
    """Report failing items this way inside a ``with`` block; see `seterr`.

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
    return _during(evaluation)


@contextmanager
def _during(evaluation: Policy) -> Iterator[None]:
    before = seterr()
    seterr(evaluation)
    try:
        yield
    finally:
        seterr(before)


def fail(view: Any, index: Any, error: Exception, doing: str = "") -> NoReturn:
    """Raise what the policy asks for after `error` was met at item `index` of `view`.

    Call it from an ``except`` block around user code, and around nothing else: the end of another sequence
    that the code met is an error of this one. An `EvaluationError` of a view further in passes unchanged,
    and a RecursionError, which is rather a matter of how deep the views lie. What stands for an exception of
    another process is wrapped under either policy: nobody could catch it by its class.
    """
    try:
        if isinstance(error, EvaluationError | RecursionError):
            raise error
        if _policy.get() == "passthrough" and not isinstance(error, RemoteError):
            raise IndexError(*error.args) if isinstance(error, EndOfSequence) else error
        message = f"{view._name}[{brief(index)}] failed{' ' + doing if doing else ''}: {summary(error)}"
        raise EvaluationError(message, index=index, view=view) from error
    finally:
        del error  # or it and this frame would hold one another, and all that the callers have


def brief(value: Any) -> str:
    """Return the `repr` of a value in one short line.

    >>> brief(list(range(100)))
    '[0, 1, 2, 3, 4, 5, ...]'
    """
    return " ".join(reprlib.repr(value).split())


def summary(error: BaseException) -> str:
    """Return type and text of an exception, whatever its ``__str__`` does.

    >>> summary(ValueError("bad header"))
    'ValueError: bad header'
    """
    try:
        text = str(error)
    except Exception:
        text = "<its text cannot be shown>"
    if isinstance(error, RemoteError):
        return text  # which is a summary already
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
