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
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ..errors import RemoteError, summary
from .codec import ALIGNMENT, Block, Frame, address, decode, dumps_plain, encode
from .pickling import dumps_back, goes_by_value

__all__ = [
    "Carrier",
    "Memory",
    "Outcomes",
    "Ready",
    "Record",
    "RemoteError",
    "RemoteTraceback",
    "Unreadable",
    "Unsendable",
    "collect",
    "concatenated",
    "framed",
    "opened",
    "private",
    "size_of",
]


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


class Carrier(Exception):
    """Takes an error, its `reason`, through the engine to who deals with it; no reader ever sees it."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(reason)
        self.reason = reason


class Unreadable(Carrier):
    """User code that unpickles a result has failed."""


class Unsendable(Carrier):
    """The indices of a job cannot be sent to a worker."""


@dataclass(slots=True)
class Ready:
    """A parcel whose outcomes are ordinary objects already."""

    outcomes: Outcomes
    nbytes: int | None = 0

    @classmethod
    def sized(cls, outcomes: Outcomes) -> Ready:
        """Return the parcel of outcomes that take as much memory as the first one says."""
        values = outcomes.values
        size = size_of(values[0]) if values else 0
        return cls(outcomes, None if size is None else size * len(values))

    def must_copy(self) -> bool:
        return False

    def claim(self) -> None:
        pass

    def open(self) -> Outcomes:
        return self.outcomes

    def detach(self) -> bool:
        return False

    def discard(self) -> None:
        pass


@dataclass(slots=True)
class Memory:
    """A result in private memory: its frame, and where the tail of that begins."""

    block: Block | bytes
    head: int
    nbytes: int

    def must_copy(self) -> bool:
        return False

    def claim(self) -> None:
        pass

    def open(self) -> Outcomes:
        return opened(self.block, self.head)

    def detach(self) -> bool:
        return False

    def discard(self) -> None:
        pass


def private(size: int) -> Block:
    """Return memory of our own, aligned like a slot."""
    block = np.empty(size + ALIGNMENT, np.uint8)
    skip = -address(block) % ALIGNMENT
    return block[skip : skip + size]


def opened(block: Block | bytes, head: int, memory: Block | None = None) -> Outcomes:
    """Decode outcomes; `Unreadable` if what they are made of refuses."""
    try:
        return Outcomes(*decode(block, head, len(block), memory=memory))
    except (Exception, SystemExit) as error:
        raise Unreadable(error) from None


def size_of(value: Any) -> int | None:
    """Return about how many bytes a value takes; None where nobody can tell.

    >>> size_of((np.zeros(10), [np.zeros(20)] * 3)), size_of({"x": object()})
    (560, None)
    """
    try:
        return _size_of(value, _LOOKED_INTO)
    except BaseException:  # it is user code that answers
        return None


def _size_of(value: Any, depth: int) -> int | None:
    if isinstance(value, bool | int | float | complex | str | bytes | bytearray | None):
        return sys.getsizeof(value)
    if isinstance(value, list | tuple | dict):
        parts = value.values() if isinstance(value, dict) else value
        sizes = [_size_of(part, depth - 1) if depth else None for part in islice(parts, _LOOKED_AT)]
        known = [size for size in sizes if size is not None]
        return None if len(known) < len(sizes) else sum(known) * len(value) // max(len(known), 1)
    nbytes = getattr(value, "nbytes", None)  # of arrays and tensors
    return nbytes if isinstance(nbytes, int) else None


_LOOKED_AT = 8  # parts of a large collection
_LOOKED_INTO = 3  # collections in one another


def concatenated(arrays: list[Any]) -> Any:
    """Return arrays as one, row behind row; ValueError where rows differ."""
    first = arrays[0]
    if any(
        type(a) is not np.ndarray or a.dtype != first.dtype or a.shape[1:] != first.shape[1:] for a in arrays
    ):
        raise ValueError("arrays of different kinds")
    return np.concatenate(arrays)
