"""Results: encoded items, the slots they lie in, and errors, which arrive at least as text."""

from __future__ import annotations

import marshal
import pickle
import struct
from collections import namedtuple
from collections.abc import Callable
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.core.errors import RemoteError
from seqkit.engine import codec
from seqkit.engine.codec import Form
from seqkit.engine.processes.segment import PAGE, Segment
from seqkit.engine.processes.slots import SlotPool
from seqkit.engine.results import (
    HEADER_BYTES,
    EncodedResult,
    Entry,
    Outcomes,
    Ready,
    Record,
    SlotResult,
    encoded_item,
    private,
)

from .values import same

# -------------------------------------------------------------------- encoded results


class Bomb:
    """Pickles, and explodes when it is built."""

    def __reduce__(self) -> Any:
        return explode, ()


def explode() -> None:
    raise RuntimeError("boom")


def encoded(items: list[Any], block: Any) -> int:
    """Write items into a block as a worker does; return how many bytes they use."""
    words, used = [], HEADER_BYTES + 16 * len(items)
    for item in items:
        _, (form, tail, moved, start, _) = encoded_item(item, False, block, used)
        used = start + len(tail)
        for offset, buffer in [*moved, (start, memoryview(tail))]:
            block[offset : offset + buffer.nbytes] = np.frombuffer(buffer, np.uint8)
        words += [start << 3 | form, used]
    block[HEADER_BYTES : HEADER_BYTES + 8 * len(words)].view(np.int64)[:] = words
    return used


def an_encoded_result(*items: Any, first: int = 0) -> EncodedResult:
    block = private(8 * PAGE)
    return EncodedResult(block, first, len(items), encoded(list(items), block))


def of_table(table: bytes) -> EncodedResult:
    block = private(HEADER_BYTES + len(table))
    block[HEADER_BYTES:] = np.frombuffer(table, np.uint8)
    return EncodedResult(block, 0, len(table) // 16, 0)


def a_pool() -> SlotPool:
    """Return two slots, of which consumers may hold one."""
    return SlotPool(Segment.create(16 * PAGE), 2, 8 * PAGE)


def a_result(pool: SlotPool, *items: Any) -> SlotResult:
    """Return a result that lies in a slot."""
    slot = pool.reserve()
    used = encoded(list(items), pool.block(slot, pool.slot_bytes))
    assert pool.park(slot)
    return SlotResult(pool, slot, used, 0, len(items), used)


def test_numbers_are_in_the_table_itself() -> None:
    ints = struct.pack("4q", Entry.INT, 5, Entry.INT, -(1 << 63))
    floats = struct.pack("qdqd", Entry.FLOAT, 2.5, Entry.FLOAT, float("-inf"))
    assert of_table(ints).open() == Outcomes([5, -(1 << 63)])
    assert of_table(floats).open() == Outcomes([2.5, float("-inf")])
    assert of_table(ints + floats).open().values == [5, -(1 << 63), 2.5, float("-inf")]
    assert of_table(b"").open() == Outcomes([])


def test_an_item_that_cannot_be_unpickled_fails_alone() -> None:
    outcomes = an_encoded_result(1, Bomb(), "x").open()
    assert outcomes.values == [1, None, "x"]
    assert [(at, record.summary) for at, record in outcomes.failures.items()] == [
        (1, "NotSent: the item cannot be unpickled: RuntimeError: boom")
    ]


def test_a_result_may_begin_after_the_items_that_were_delivered_before() -> None:
    assert an_encoded_result(1, "x", (2, "y"), first=1).open() == Outcomes(["x", (2, "y")])


def test_an_item_that_is_marked_as_failed_is_a_failure() -> None:
    block = private(8 * PAGE)
    encoded([("x", 1), "no"], block)
    block[HEADER_BYTES + 16 : HEADER_BYTES + 24].view(np.int64)[:] |= Entry.FAILED
    assert EncodedResult(block, 0, 2, 0).open() == Outcomes([("x", 1), None], {1: "no"})


@pytest.mark.parametrize("item", [(i for i in "x"), Lock(), ValueError(Lock())], ids=str)
def test_an_item_that_cannot_be_pickled_fails_with_the_reason(item: Any) -> None:
    is_failed, (form, tail, moved, end, _) = encoded_item(item, False, None, 7)
    assert (is_failed, form, moved, end) == (True, Form.PICKLE, [], 7)
    reason = pickle.loads(tail).rebuild()
    assert str(reason).startswith(f"the item, a {type(item).__name__}, cannot be sent to the consumer's pro")
    assert "cannot pickle" in str(reason)


class Slotted:
    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = Lock()


class Exits:
    def __reduce__(self) -> Any:
        raise SystemExit(3)


Pair = namedtuple("Pair", "first lock")


@pytest.mark.parametrize(
    ("item", "way"),
    [
        ({"meta": [1, Lock()]}, "dict → key 'meta' → item 1 (_thread.lock): TypeError: "),
        (Slotted(), "Slotted → attribute `lock` (_thread.lock): TypeError: "),
        (Pair(1, Lock()), "Pair → item 1 (_thread.lock): TypeError: "),
        ([Exits()], "list → item 0 (tests.engine.test_results.Exits): SystemExit: 3"),
        ({Lock()}, "set → item 0 (_thread.lock): TypeError: "),
        ((lambda lock: lambda: lock)(Lock()), "`<lambda>` → closure `lock` (_thread.lock), test_results.py:"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_attribute_that_cannot_be_pickled_is_named(item: Any, way: str) -> None:
    is_failed, (_, tail, *_) = encoded_item(item, False)
    assert is_failed
    assert f"cannot be sent to the consumer's process: {way}" in str(pickle.loads(tail).rebuild())


def test_what_plain_pickle_refuses_goes_by_value() -> None:
    is_failed, (_, tail, *_) = encoded_item(lambda x: x + 1, False)
    assert not is_failed
    assert pickle.loads(tail)(1) == 2


def test_arrays_lie_in_the_slot_are_writable_and_keep_it() -> None:
    pool = a_pool()
    result = a_result(pool, np.arange(1000), "x", np.arange(5))
    assert result.holds_slot()
    result.claim()
    assert not result.holds_slot()
    (large, _, small), block = result.open().values, pool.block(0, pool.slot_bytes)
    assert np.shares_memory(large, block)
    assert not np.shares_memory(small, block)
    large += 1
    assert large.sum() == 500_500
    assert pool.leased() == 1
    del large
    assert pool.available() == 2


def test_a_result_that_is_dropped_unread_gives_its_slot_back_once() -> None:
    pool = a_pool()
    result = a_result(pool, np.arange(1000))
    for _ in range(2):
        result.discard()
        assert pool.available() == 2


def test_an_item_that_cannot_be_unpickled_keeps_no_slot() -> None:
    pool = a_pool()
    result = a_result(pool, [np.arange(1000), Bomb()])
    result.claim()
    outcomes = result.open()
    assert pool.available() == 2
    assert "in explode" in str(outcomes.failures[0].rebuild().__notes__)


def test_items_that_all_failed_alike_are_a_result() -> None:
    error = ValueError("bad")
    result = Ready.failed(error, 2)
    assert (result.count, result.open()) == (2, Outcomes([None, None], {0: error, 1: error}))


def test_the_size_of_ready_items_is_that_of_the_first_times_their_number() -> None:
    assert Ready.sized(Outcomes([np.zeros(10), np.zeros(99)])).nbytes == 160
    assert Ready.sized(Outcomes([object()])).nbytes is None
    assert Ready.sized(Outcomes()).nbytes == 0


# -------------------------------------------------------------------- exceptions that travel


class TwoArguments(Exception):
    """Pickles, but cannot be built again from its text alone."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NotText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class Unreducible(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("no pickle")


class Impostor(Exception):
    """Pickles as something else."""

    def __reduce__(self) -> Any:
        return ValueError, ("not me",)


class Explosive(Exception):
    """Pickles, and explodes when it is built."""

    def __reduce__(self) -> Any:
        return explode, ()


class Rich(Exception):
    def __init__(self, text: str, detail: Any = None) -> None:
        super().__init__(text)
        self.detail = detail


def a_local_class() -> BaseException:
    class Local(ValueError):
        pass

    return Local("local")


HARD: dict[str, Callable[[], BaseException]] = {
    "two arguments": lambda: TwoArguments(4, "teapot"),
    "no pickle": lambda: Unreducible("x"),
    "an impostor": lambda: Impostor("x"),
    "explodes when built": lambda: Explosive("x"),
    "an argument that does not pickle": lambda: ValueError(lambda: 0),
    "an attribute that does not pickle": lambda: Rich("x", detail=lambda: 0),
}

EASY: dict[str, Callable[[], BaseException]] = {
    "plain": lambda: ValueError("bad header"),
    "a local class": a_local_class,
    "no arguments": lambda: KeyError(),
    "several arguments": lambda: OSError(2, "no such file", "x.png"),
    "an attribute": lambda: Rich("x", detail={"offset": 3}),
    "exit": lambda: SystemExit(3),
    "interrupt": lambda: KeyboardInterrupt(),
    "unicode": lambda: UnicodeDecodeError("utf8", b"\xff", 0, 1, "no"),
    "group": lambda: ExceptionGroup("both", [ValueError("a"), KeyError("b")]),
    "no text": lambda: Silent("x"),
    "text that is none": lambda: NotText("x"),
    "stop": lambda: StopIteration(5),
}


def raised(make: Callable[[], BaseException]) -> BaseException:
    """Return an exception with a traceback that names this function."""
    try:
        raise make()
    except BaseException as error:
        return error


def sent(record: Record) -> Record:
    result = pickle.loads(pickle.dumps(record))
    assert result == record
    assert isinstance(result, Record)
    return result


@pytest.mark.parametrize("kind", sorted(HARD))
def test_an_exception_that_cannot_travel_arrives_as_text(kind: str) -> None:
    error = raised(HARD[kind])
    record = sent(Record.of(error))
    assert record.pickled is None
    rebuilt = record.rebuild()
    assert type(rebuilt) is RemoteError
    assert type(error).__name__ in str(rebuilt)
    (note,) = rebuilt.__notes__
    assert note.startswith("Where it was raised:\n")
    assert "in raised" in note


@pytest.mark.parametrize("kind", sorted(EASY))
def test_an_exception_that_travels_arrives_as_it_was(kind: str) -> None:
    error = raised(EASY[kind])
    rebuilt = sent(Record.of(error)).rebuild()
    assert type(rebuilt) is type(error)
    assert repr(rebuilt.args) == repr(error.args)
    assert getattr(rebuilt, "detail", None) == getattr(error, "detail", None)
    (note,) = rebuilt.__notes__
    assert note.startswith("Where it was raised:\n")
    assert "in raised" in note


class Stubborn(Exception):
    """Takes no attribute, and so no note."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError(f"{name} cannot be set")


def test_an_exception_that_takes_no_note_arrives_as_text() -> None:
    rebuilt = sent(Record.of(raised(lambda: Stubborn("x")))).rebuild()
    assert type(rebuilt) is RemoteError
    assert str(rebuilt) == "Stubborn: x"


def test_notes_travel_with_an_exception() -> None:
    error = raised(lambda: ValueError("bad"))
    error.add_note("in file x")
    rebuilt = Record.of(error).rebuild()
    users, ours = rebuilt.__notes__
    assert users == "in file x"
    assert "in file x" not in ours


def test_the_traceback_shows_what_led_to_an_exception() -> None:
    def chained() -> BaseException:
        try:
            raise KeyError("the first")
        except KeyError as first:
            error = ValueError("the second")
            error.__cause__ = first
            return error

    (trace,) = Record.of(raised(chained)).rebuild().__notes__
    assert trace.index("the first") < trace.index("direct cause") < trace.index("in raised")


def test_an_exception_that_cannot_be_rebuilt_in_this_process_arrives_as_text() -> None:
    record = Record("KeyError: 'x'", "the trace", pickle.dumps(KeyError("x"))[:-3] + b"???")
    rebuilt = record.rebuild()
    assert type(rebuilt) is RemoteError
    assert str(rebuilt) == "KeyError: 'x'"
    assert rebuilt.__notes__ == ["Where it was raised:\nthe trace"]


def test_the_note_of_a_worker_does_not_repeat_the_exception_but_tells_its_causes() -> None:
    (alone,) = Record.of(raised(lambda: ValueError("bad header"))).rebuild().__notes__
    assert alone.splitlines()[-2].endswith("in raised")
    reason = TypeError("cannot be sent")
    reason.__cause__ = TypeError("cannot pickle")
    assert Record.of(reason).rebuild().__notes__ == [
        "Where it was raised:\nTypeError: cannot pickle\n\nThe above exception was the direct cause of"
        " the following exception:\n\nTypeError: cannot be sent"
    ]


@pytest.mark.parametrize("letter", ["x", "\N{SNOWMAN}", "\N{GRINNING FACE}"])
@pytest.mark.parametrize("most", [1000, 20_000])
def test_a_record_fits_the_room_there_is_with_the_beginning_of_its_text_and_the_end_of_its_trace(
    letter: str, most: int
) -> None:
    record = Record.of(raised(lambda: ValueError(letter * 99_999)))
    data = record.dumps(most)
    found = pickle.loads(data)
    assert len(data) <= most
    assert found.pickled is None
    assert found.summary
    assert record.summary.startswith(found.summary)
    assert found.trace
    assert record.trace.endswith(found.trace)


def test_a_record_that_fits_is_whole() -> None:
    record = Record.of(raised(lambda: ValueError("bad")), about=3)
    data = pickle.dumps(record)
    assert record.dumps(len(data)) == data


def test_what_the_sender_adds_travels_along() -> None:
    assert sent(Record.of(ValueError("x"), about=("message", 3, [0, 1]))).about == ("message", 3, [0, 1])


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (Silent(), "Silent: <its text cannot be shown>"),
        (NotText(), "NotText: <its text cannot be shown>"),
        (KeyError("k"), "KeyError: 'k'"),
    ],
)
def test_a_summary_is_type_and_text(error: BaseException, text: str) -> None:
    assert Record.of(error).summary == text


BEYOND = b"x" * 3000


@pytest.mark.parametrize(
    "value",
    [BEYOND, "x" * 3000, [1, BEYOND], (BEYOND, "a"), {"a": BEYOND}, [np.arange(9), BEYOND], {"a": [BEYOND]}],
    ids=lambda value: f"{type(value).__name__}-{str(value)[:9]}",
)
def test_values_that_marshal_refuses_arrive(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`marshal` has no text or bytes of 2 GiB."""

    def dumps(value: Any) -> bytes:
        data = marshal.dumps(value)
        if len(data) > 2000:
            raise ValueError("unmarshallable object")
        return data

    monkeypatch.setattr(codec, "marshal", SimpleNamespace(dumps=dumps, loads=marshal.loads))
    is_failed, (form, tail, *_) = encoded_item(value, False)
    assert not is_failed
    assert same(codec.decode(form, tail), value)


@pytest.mark.stress
@pytest.mark.filterwarnings("ignore:.*does not fit a slot:RuntimeWarning")
def test_bytes_of_more_than_2_gib_arrive() -> None:
    with sk.prefetch(sk.smap(lambda i: b"x" * ((1 << 31) + i), [1]), 1, "process") as node:
        assert len(node[0]) == (1 << 31) + 1
