"""Results: the outcomes of items, their encoding, and their memory until they are read.

Guarantees
----------
- Any exception of user code becomes the outcome of its own item. A value that cannot be pickled or
  unpickled also becomes a failed item, with the reason.
- A `Record` always pickles, for any exception, and always has type, text and traceback. The exception
  object itself travels only if it survived a round trip in the process that raised it.
- Decoded arrays belong to the consumer: they are writable, and valid for as long as the consumer keeps
  them.
"""

from __future__ import annotations

import pickle
import struct
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import numpy as np

from ..core.awaiting import is_awaited, unawaited
from ..core.errors import RemoteError, summary
from ..core.tracebacks import hide_frames
from .classes import goes_by_value
from .codec import ALIGNMENT, Block, Encoded, address, decode, encode
from .culprits import unpicklable
from .frames import with_sources
from .pickling import Back, dumps_back


class NotSent(TypeError):
    """The item of a worker cannot be pickled there, or cannot be unpickled in the consumer's process."""


@dataclass(slots=True)
class Outcomes:
    """The items of a result in order. `failures` maps a position to an exception or a `Record`."""

    values: list[Any] = field(default_factory=list)
    failures: dict[int, Any] = field(default_factory=dict)


class Result:
    """The outcomes of successive items. This base class is for items in private memory."""

    __slots__ = ()
    count: int
    nbytes: int | None  # approximate size in memory; None if unknown

    def open(self) -> Outcomes:
        """Return the outcomes. Call `claim` first. Hold no lock, because decoding may take long."""
        raise NotImplementedError

    # The scheduler's lock is held during the following methods.

    def holds_slot(self) -> bool:
        """Return whether the result lies in a slot of shared memory."""
        return False

    def claim(self) -> None:
        """Transfer the memory to the consumer."""

    def discard(self) -> None:
        """Drop the result without reading it."""


class Ready(Result):
    """A result whose outcomes are already ordinary objects."""

    __slots__ = ("count", "nbytes", "outcomes")

    def __init__(self, outcomes: Outcomes, nbytes: int | None = 0) -> None:
        self.outcomes = outcomes
        self.count = len(outcomes.values)
        self.nbytes = nbytes

    @classmethod
    def sized(cls, outcomes: Outcomes) -> Ready:
        """Return a result for outcomes. The size is estimated from the first outcome."""
        values = outcomes.values
        if any(map(is_awaited, {*map(type, values)})):
            for at, value in enumerate(values):
                if is_awaited(type(value)):
                    values[at], outcomes.failures[at] = None, unawaited(value)
        size = size_of(values[0]) if values else 0
        return cls(outcomes, None if size is None else size * len(values))

    @classmethod
    def failed(cls, error: Any, count: int = 1) -> Ready:
        """Return the result of items that all failed with the same error."""
        return cls(Outcomes([None] * count, dict.fromkeys(range(count), error)))

    def open(self) -> Outcomes:
        return self.outcomes


# -------------------------------------------------------------------- encoded results


# An encoded result begins with a header, which is the process engine's, and the table.
HEADER_BYTES = 64


class Entry:
    """The first of an item's two words in the table of an encoded result.

    `INT` and `FLOAT`: the second word is the item itself. Otherwise the second word is the end of the
    item's tail. The first word then holds, from its lowest bit: the form of the tail, a bit for a failed
    item, and the start of the tail. Tails and arrays lie behind the table.
    """

    INT = -1
    FLOAT = -2
    FAILED = 4


class EncodedResult(Result):
    """A result as it was received: the items `first` to `stop` of a block, or of a copy of one."""

    __slots__ = ("_first", "_memory", "count", "nbytes")

    def __init__(self, memory: Block | None, first: int, stop: int, nbytes: int) -> None:
        self._memory = memory
        self._first = first
        self.count = stop - first
        self.nbytes: int | None = nbytes

    def open(self) -> Outcomes:
        memory, self._memory = self._memory, None  # from here on only arrays keep the memory alive
        assert memory is not None
        at = HEADER_BYTES + 16 * self._first
        table = memory[at : at + 16 * self.count].view(np.int64)
        codes, ends = table[::2].tolist(), table[1::2].tolist()
        if codes.count(Entry.INT) == len(codes):
            return Outcomes(ends)
        if codes.count(Entry.FLOAT) == len(codes):
            return Outcomes(table[1::2].view(np.float64).tolist())
        outcomes, data = Outcomes(), memory.data
        append = outcomes.values.append
        for code, end in zip(codes, ends, strict=True):
            if code == Entry.INT:
                append(end)
            elif code == Entry.FLOAT:
                append(_DOUBLE.unpack(_WORD.pack(end))[0])
            else:
                is_failed = code & Entry.FAILED
                try:
                    value = decode(code & 3, data[code >> 3 : end], memory)
                except (Exception, SystemExit) as error:  # user code decides how to unpickle
                    # A traceback would keep the memory alive.
                    value, is_failed = Record.of(_not_sent("the item cannot be unpickled: ", error)), True
                if is_failed:
                    outcomes.failures[len(outcomes.values)] = value
                    value = None
                append(value)
        return outcomes

    def discard(self) -> None:
        self._memory = None


_WORD, _DOUBLE = struct.Struct("<q"), struct.Struct("<d")


class Slots(Protocol):
    """The slots in which results lie."""

    def lease(self, slot: int, size: int) -> Block: ...
    def release(self, slot: int) -> None: ...


class SlotResult(EncodedResult):
    """An encoded result that lies in a slot."""

    __slots__ = ("_slot", "_slots", "_used")

    def __init__(self, slots: Slots, slot: int, used: int, first: int, stop: int, nbytes: int) -> None:
        super().__init__(None, first, stop, nbytes)
        self._slots = slots
        self._slot = slot
        self._used = used  # bytes of the slot

    def holds_slot(self) -> bool:
        return self._slot >= 0

    def claim(self) -> None:
        if self._slot >= 0:
            self._memory = self._slots.lease(self._slot, self._used)
            self._slot = -1

    def discard(self) -> None:
        slot, self._slot = self._slot, -1
        if slot >= 0:
            self._slots.release(slot)


def encoded_item(
    value: Any, is_failed: bool, block: Block | None = None, used: int = 0
) -> tuple[bool, Encoded]:
    """Encode an item. Return whether it failed, and its encoding.

    A value that cannot be pickled becomes a failed item. Plain pickling is tried first, then by value.
    """
    if is_awaited(type(value)):
        value, is_failed = Record.of(unawaited(value)), True
    # User code decides how to pickle, and may raise anything.
    try:
        return is_failed, encode(value, block, used)
    except BaseException:
        pass
    try:
        return is_failed, encode(value, block, used, dumps_back)
    except BaseException as error:
        text = f"the item, a {type(value).__name__}, cannot be sent to the consumer's process: "
        return True, encode(Record.of(_not_sent(text + _obstacle(value), error)), None, used)


def _not_sent(text: str, cause: BaseException) -> NotSent:
    reason = NotSent(text + summary(cause))
    reason.__cause__ = cause
    return reason


def _obstacle(value: Any) -> str:
    """Return the way to the object that cannot be pickled, with a colon, or "" if that is the item."""
    with suppress(BaseException):  # methods of user code
        way = unpicklable(value, Back)
        if way is not None and not way.endswith(f" ({type(value).__module__}.{type(value).__qualname__})"):
            return f"{way}: "
    return ""


def private(size: int) -> Block:
    """Return ordinary memory with the alignment of a slot."""
    block = np.empty(size + ALIGNMENT, np.uint8)
    skip = -address(block) % ALIGNMENT
    return block[skip : skip + size]


def size_of(value: Any) -> int | None:
    """Return the approximate size of a value in bytes, or None if unknown.

    >>> size_of((np.zeros(10), [np.zeros(20)] * 3)), size_of({"x": object()})
    (560, None)
    """
    try:
        return _size_of(value, _DEPTH)
    except BaseException:  # `nbytes` may be user code
        return None


def _size_of(value: Any, depth: int) -> int | None:
    if isinstance(value, bool | int | float | complex | str | bytes | bytearray | None):
        return sys.getsizeof(value)
    if isinstance(value, list | tuple | dict):
        parts = value.values() if isinstance(value, dict) else value
        sizes = [_size_of(part, depth - 1) if depth else None for part in islice(parts, _PARTS)]
        known = [size for size in sizes if size is not None]
        return None if len(known) < len(sizes) else sum(known) * len(value) // max(len(known), 1)
    nbytes = getattr(value, "nbytes", None)  # arrays and tensors have it
    return nbytes if isinstance(nbytes, int) else None


_PARTS = 8  # how many parts of a large collection are measured
_DEPTH = 3  # how many levels of nested collections are measured


# -------------------------------------------------------------------- exceptions that travel


@dataclass(frozen=True, slots=True)
class Record:
    """An exception in a form that always travels.

    Attributes
    ----------
    summary : str
        Type and text, for example ``ValueError: bad header``.
    trace : str
        The formatted traceback.
    pickled : bytes or None
        The exception, if it survived a round trip in the process that raised it.
    about : Any
        Data that the sender adds. Plain data only.
    """

    summary: str
    trace: str
    pickled: bytes | None
    about: Any = None

    @classmethod
    def of(cls, error: BaseException, about: Any = None) -> Record:
        """Record an exception. This never fails, whatever methods the exception overrides."""
        return cls(summary(error), _trace(error), _pickled(error), about)

    def dumps(self, most: int) -> bytes:
        """Pickle in at most `most` bytes. Leave out the exception and parts of the text if necessary."""
        data = pickle.dumps(self)
        if len(data) > most:
            letters = most // 10  # a letter takes up to four bytes
            data = pickle.dumps(Record(self.summary[:letters], self.trace[-letters:], None))
        return data

    def rebuild(self) -> BaseException:
        """Return the exception, or a `RemoteError` instead. A note has the traceback of the worker."""
        if self.pickled is not None:
            try:
                error: BaseException = pickle.loads(self.pickled)
                self._note(error)
                return error
            except BaseException:
                pass  # its module may behave differently here; the text is complete in any case
        substitute = RemoteError(self.summary)
        self._note(substitute)
        return substitute

    def _note(self, error: BaseException) -> None:
        """Add the traceback as a note. Its last lines are left out if they only repeat the exception."""
        entries = self.trace.removesuffix("".join(traceback.format_exception_only(error))).rstrip()
        trace = (
            self.trace.rstrip() if entries.endswith("exception:") else entries
        )  # of a cause without frames
        if trace:
            error.add_note(f"Where it was raised:\n{with_sources(trace)}")


def _trace(error: BaseException) -> str:
    try:
        hide_frames(error)
        return "".join(traceback.format_exception(error))
    except Exception:
        return summary(error) + "\n"


def _pickled(error: BaseException) -> bytes | None:
    # An exception may pickle and then fail to unpickle (a constructor with two arguments), so try both.
    for dumps in (pickle.dumps, dumps_back):
        with suppress(BaseException):
            if dumps is dumps_back and not goes_by_value(type(error)):
                break
            data = dumps(error)
            if type(pickle.loads(data)) is type(error):
                return data
    return None
