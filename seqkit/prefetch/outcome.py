"""What became of the items of a job, and how it crosses a process border.

Guarantees
----------
- whatever the user's code raises, `collect` returns: one failing item costs that item only;
- so does `framed`: a value that cannot be pickled costs its own item only, and the error says why;
- a `Record` always pickles, whatever the exception it stands for, and always says type, text and
  traceback; the exception object itself travels along only if it was seen to survive the journey.

Relies on
---------
- the iterator given to `collect` going on behind an error (every view's does).
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ..errors import RemoteError, summary
from .codec import Block, Frame, dumps_plain, encode
from .pickling import dumps_back, goes_by_value

__all__ = ["Outcomes", "Record", "RemoteError", "RemoteTraceback", "collect", "framed"]


@dataclass(slots=True)
class Outcomes:
    """The items of a job in order; `failures` holds an exception or a `Record` by position.

    Fewer values than indices mean that the sequence ended there.
    """

    values: list[Any] = field(default_factory=list)
    failures: dict[int, Any] = field(default_factory=dict)


def collect(
    items: Iterator[Any],
    count: int,
    caught: type[BaseException] = BaseException,
    seen: Callable[[BaseException], None] = lambda error: None,
) -> Outcomes:
    """Draw up to `count` items; an exception of class `caught` becomes the outcome of its item.

    `seen` is told before.
    """
    outcomes = Outcomes()
    values = outcomes.values
    while len(values) < count:
        try:
            values.extend(islice(items, count - len(values)))  # keeps what it has drawn when it raises
            break
        except caught as error:
            seen(error)
            outcomes.failures[len(values)] = error
            values.append(None)
    return outcomes


class RemoteTraceback(Exception):
    """The traceback of an exception raised in another process, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


@dataclass(frozen=True, slots=True)
class Record:
    """An exception in a form that always travels.

    Attributes
    ----------
    summary : str
        Type and text: ``ValueError: bad header``.
    trace : str
        The formatted traceback.
    pickled : bytes or None
        The exception, if it survived a round trip in the process that raised it.
    about : Any
        What the sender adds: plain data only.
    """

    summary: str
    trace: str
    pickled: bytes | None
    about: Any = None

    @classmethod
    def of(cls, error: BaseException, about: Any = None) -> Record:
        """Record an exception; nothing the exception does can make this fail."""
        return cls(summary(error), _trace(error), _pickled(error), about)

    def rebuild(self) -> BaseException:
        """Return the exception, or a `RemoteError` in its place, caused by the remote traceback."""
        if self.pickled is not None:
            try:
                error: BaseException = pickle.loads(self.pickled)
                error.__cause__ = RemoteTraceback(self.trace)
                return error
            except BaseException:
                pass  # its module may behave differently here; the text is still complete
        substitute = RemoteError(self.summary)
        substitute.__cause__ = RemoteTraceback(self.trace)
        return substitute


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return summary(error) + "\n"


def _pickled(error: BaseException) -> bytes | None:
    # An exception may pickle and then refuse to be built (a constructor of two arguments), so try both.
    for dumps in (pickle.dumps, dumps_back):
        with suppress(BaseException):
            if dumps is dumps_back and not goes_by_value(type(error)):
                break
            data = dumps(error)
            if type(pickle.loads(data)) is type(error):
                return data
    return None


def framed(outcomes: Outcomes, block: Block | None = None, used: int = 0) -> Frame:
    """Encode outcomes for a block whose first `used` bytes are taken."""
    # It is user code that says how to pickle, and may raise anything.
    payload = (outcomes.values, outcomes.failures)
    for dumps in (dumps_plain, dumps_back):
        try:  # by no context manager, which would take as long as encoding a number
            return encode(payload, block, used, dumps)
        except BaseException:
            pass
    _sort_out(outcomes)
    return encode(payload, block, used, dumps_back)


def _sort_out(outcomes: Outcomes) -> None:
    """Replace every value that cannot be pickled by the reason."""
    for position, value in enumerate(outcomes.values):
        try:
            encode(value, None, 0, dumps_back)
        except BaseException as error:
            reason = TypeError(
                f"the item, a {type(value).__name__}, cannot be sent to the reader's process:"
                f" {summary(error)}"
            )
            reason.__cause__ = error
            outcomes.values[position] = None
            outcomes.failures[position] = Record.of(reason)
