"""`retry`: read an item again if it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import SystemRandom
from time import sleep
from typing import Any, TypeAlias, TypeVar

from ..core.arguments import check_callable, number_at_least, positive_int
from ..core.awaiting import Begin, sleep_in_loop
from ..core.errors import EvaluationError, brief, fail, summary
from ..core.expression import name_of
from ..core.indices import Indices, Plan
from ..core.iteration import surviving
from ..core.source import as_view
from ..core.view import Indexable, View
from .bases.columns import Columns
from .bases.forwards import next_item

__all__ = ["Errors", "Wait", "retry"]

T = TypeVar("T")
Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]
Wait: TypeAlias = float | Callable[[int, Exception], float]

LONGEST_WAIT_S = 60.0
_jitter = SystemRandom()


def retry(sequence: Indexable[T], attempts: int, on: Errors = OSError, wait: Wait = 0.5) -> View[T]:
    """Return the view of the items of a sequence. An item that fails is read again.

    Parameters
    ----------
    sequence : View or indexable
        Downloads, network disks, databases.
    attempts : int
        How many times an item is read at most (1 or more).
    on : exception class or tuple of exception classes
        The errors after which an item is read again. Any other error is raised at once.
    wait : float or callable
        A number: seconds before the second attempt (0 or more). The wait doubles for each further attempt, up
        to 60 s, and a random part of up to half of it is left out, so that workers do not call again at the
        same moment. A function: ``wait(attempt, error)`` returns the seconds to wait after an attempt, which
        are counted from 1.

    Returns
    -------
    View
        As long as `sequence`. The indices are the same, and so are the numbers of a `random_map` below.

    Raises
    ------
    TypeError
        If an argument has the wrong type, or `sequence` cannot be indexed.
    ValueError
        If `attempts` is less than 1 or `wait` is negative.
    EvaluationError
        For an item, if its last attempt fails. The cause is the last error, and its notes list the attempts
        before it.

    Notes
    -----
    An item that succeeds costs less than 1 µs more. A ``timeout`` of `prefetch` is the limit for all attempts
    and waits of an item. Put `retry` directly above the view that may fail: below `batch`, so that one item
    is read again and not the batch, and below `prefetch`, so that an item waits in a worker. An iterable, see
    `uniter`, is iterated again from its start up to the item.

    Examples
    --------
    >>> import seqkit as sk
    >>> calls = []
    >>> def fetch(url):
    ...     calls.append(url)
    ...     if len(calls) < 3:
    ...         raise ConnectionError("reset by peer")
    ...     return f"page of {url}"
    >>> pages = sk.retry(sk.smap(fetch, ["a", "b"]), 5, wait=0)
    >>> list(pages), calls
    (['page of a', 'page of b'], ['a', 'a', 'a', 'b'])
    """
    attempts = positive_int(attempts, "retry: attempts")
    classes = on if isinstance(on, tuple) else (on,)
    if not classes or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in classes):
        raise TypeError(f"retry: on must be an exception class or a tuple of them, got {brief(on)}")
    if callable(wait):
        check_callable(wait, "retry: wait")
    else:
        wait = number_at_least(wait, "retry: wait", 0)
    return Retry(as_view(sequence, "retry"), attempts, classes, wait)


class Retry(Columns[Any]):
    """The view that `retry` returns."""

    _passes_on = True

    def __init__(self, source: View[Any], attempts: int, on: tuple[type[Exception], ...], wait: Wait) -> None:
        super().__init__((source,))
        self._attempts, self._on, self._wait = attempts, on, wait

    def _get(self, i: int) -> Any:
        return self._read(i, self._sources[0]._get, self._sources[0]._get)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        items = self._sources[0]._iter(plan)
        return surviving(
            self, plan, lambda i: self._read(i, partial(next_item, items), self._sources[0]._get)
        )

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return list(self._iter(indices))  # a batched read that fails would read the other items again

    def _read(self, i: int, read: Callable[[int], Any], again: Callable[[int], Any]) -> Any:
        """Return ``read(i)``. If that fails, try ``again(i)``."""
        failed: list[str] = []
        while True:
            try:
                return read(i)
            except Exception as error:
                seconds = self._wait_after(i, error, failed)
                if seconds is None:
                    raise
            sleep(seconds)
            read = again

    def _coroutines(self) -> Callable[[int], Begin] | None:
        begin = self._sources[0]._coroutines()
        return begin and (lambda i: partial(self._await, i, self._read(i, begin, begin)))

    async def _await(self, i: int, begin: Begin) -> Any:
        failed: list[str] = []
        while True:
            try:
                return await begin()
            except Exception as error:
                seconds = self._wait_after(i, error, failed)
                if seconds is None:
                    raise
            await sleep_in_loop.get()(seconds)

    def _wait_after(self, i: int, error: Exception, failed: list[str]) -> float | None:
        """Return the seconds to wait before the next attempt, or None if the error is to be raised.

        `failed` gets the text of the error, which is an error of a view or its cause.
        """
        causes = (error, error.__cause__) if isinstance(error, EvaluationError) else (error,)
        last = next((each for each in causes if isinstance(each, self._on)), None)
        if last is None or len(failed) + 1 == self._attempts:
            for number, text in enumerate(failed, 1):
                (error.__cause__ or error).add_note(f"attempt {number} of {self._attempts}: {text}")
            return None
        failed.append(summary(last))
        if not callable(self._wait):
            seconds = min(self._wait * 2.0 ** min(len(failed) - 1, 64), LONGEST_WAIT_S)
            return seconds * (1 - _jitter.random() / 2)
        try:
            return number_at_least(self._wait(len(failed), last), "retry: the result of wait", 0)
        except Exception as own:
            fail(self, i, own, "in wait")

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Retry(sources[0], self._attempts, self._on, self._wait)

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._wait,) if callable(self._wait) else ()

    def _arguments(self, sources: list[str]) -> list[str]:
        kinds = ", ".join(kind.__name__ for kind in self._on)
        wait = name_of(self._wait) if callable(self._wait) else self._wait
        on = kinds if len(self._on) == 1 else f"({kinds})"
        return [*sources, str(self._attempts), f"on={on}", f"wait={wait}"]
