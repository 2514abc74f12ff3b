"""What a worker writes of its items is what the parent reads, whenever it looks."""

from __future__ import annotations

import copy
import os
import signal
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqkit as sk
from seqkit.prefetch.codec import INLINE_BYTES, address
from seqkit.prefetch.evaluate import Evaluator
from seqkit.prefetch.processes.segment import PAGE, Segment
from seqkit.prefetch.processes.team import Team
from seqkit.prefetch.processes.wire import (
    JOB,
    RESULT,
    Flag,
    Kind,
    Layout,
    Packing,
    Spec,
    cells_of,
    from_file,
)
from seqkit.prefetch.processes.worker import GROUP_BYTES, Descriptors, Worker, Writer
from seqkit.prefetch.results import EncodedResult, Outcomes, Record
from seqkit.prefetch.torch_modes import TorchModes

from .traces import pids_of, state, until
from .values import same, through_pickle, values

MARK = 0xAB


class Desk:
    """Stands in for a worker and its parent, with one cell and one slot."""

    def __init__(self, slot_bytes: int = 16 * PAGE, cell_bytes: int = 16 * PAGE) -> None:
        layout = Layout(workers=1, cells=1, slots=1, slot_bytes=slot_bytes, cell_bytes=cell_bytes)
        segment = Segment.create(layout.size + PAGE)
        (self.cell,) = cells_of(segment, layout)
        self.slot = segment.block(layout.slots_at, slot_bytes)
        self.behind = segment.block(layout.size, PAGE)
        self.behind[:] = MARK
        self.evaluator = Evaluator(sk.view([0]))

    def begin(self, items: int = 1000, has_slot: bool = True) -> Writer:
        """Begin a job of so many items."""
        self.items = items
        self.cell.assign(1)
        return Writer(self, self.cell, items, self.slot[: None if has_slot else 0])  # type: ignore[arg-type]

    def finished(self, file: list[Any] | None = None) -> Outcomes:
        """Read the finished items, as they are now; that which comes in a file, too, if there is one."""
        cell, count = self.cell, self.cell.finished()
        memory = self.slot[: cell.words[3]].copy()
        if file:
            count, memory = count + 1, np.frombuffer(bytearray(b"".join(file)), np.uint8)
        return EncodedResult(cell.table(0, count), cell.payload_bytes(self.items), memory).open()


def put_all(writer: Writer, items: list[Any]) -> int:
    """Write items until there is no more room; return how many were written."""
    for count, item in enumerate(items, 1):
        if not (writer.fail(item.error) if isinstance(item, Raised) else writer.put(item)):
            return count
    return len(items)


def sent(desk: Desk, items: list[Any], has_slot: bool = True) -> list[Any]:
    """Send items in as many jobs as it takes; return what arrives, a `Record` where one failed."""
    arrived: list[Any] = []
    while len(arrived) < len(items):
        rest = items[len(arrived) :]
        writer = desk.begin(len(rest), has_slot)
        count = put_all(writer, rest)
        outcomes = desk.finished(writer.contents() if writer.beside else None)
        assert len(outcomes.values) == count
        arrived += [outcomes.failures.get(at, value) for at, value in enumerate(outcomes.values)]
    assert (desk.behind == MARK).all()
    return arrived


# -------------------------------------------------------------------- every kind of item


class Raised(NamedTuple):
    """An item that failed."""

    error: BaseException


items = st.one_of(
    values,
    st.integers(-(1 << 66), 1 << 66),
    st.floats(),
    st.sampled_from([Raised(ValueError("bad")), Raised(SystemExit(3)), Lock(), KeyError("k")]),
)


@settings(max_examples=200, deadline=None)
@given(
    items=st.lists(items, max_size=12),
    slot_bytes=st.sampled_from([PAGE, 8 * PAGE, 64 * PAGE]),
    cell_bytes=st.sampled_from([128, 256, PAGE, 16 * PAGE]),
    has_slot=st.booleans(),
)
def test_items_of_every_kind_arrive_whatever_room_there_is(
    items: list[Any], slot_bytes: int, cell_bytes: int, has_slot: bool
) -> None:
    for item, found in zip(items, sent(Desk(slot_bytes, cell_bytes), items, has_slot), strict=True):
        if isinstance(item, Raised):
            assert repr(found.rebuild()) == repr(item.error)
        elif isinstance(item, type(Lock())):
            assert "cannot be sent to the consumer's process" in found.summary
        elif isinstance(item, Exception):
            assert repr(found) == repr(item)
        else:
            assert same(found, through_pickle(item))


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**40])
def test_numbers_around_64_bits_arrive(number: int) -> None:
    assert sent(Desk(), [1, number, 2.5, number]) == [1, number, 2.5, number]


@pytest.mark.parametrize("makes", [lambda: lambda x: x + 1, lambda: type("Local", (), {"x": 3})])
def test_items_that_plain_pickle_refuses_arrive_by_value(makes: Any) -> None:
    assert callable(sent(Desk(), [makes()])[0])


def test_tensors_arrive_like_arrays() -> None:
    torch = pytest.importorskip("torch")
    tensors = [torch.arange(5), torch.ones(90, 90, dtype=torch.bfloat16).T, torch.eye(40).to_sparse()]
    for has_slot in True, False:
        found = sent(Desk(), [tensors, *tensors], has_slot)
        for one, other in zip([*found[0], *found[1:]], tensors * 2, strict=True):
            assert one.dtype == other.dtype
            assert torch.equal(one.to_dense(), other.to_dense())


# -------------------------------------------------------------------- items are independent


class Pair(NamedTuple):
    number: int
    array: Any


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held

    def __repr__(self) -> str:
        return repr(self.held)


@pytest.mark.parametrize("has_slot", [True, False])
@pytest.mark.parametrize(
    "shown",
    [
        lambda array, numbers: array,
        lambda array, numbers: array[:3],
        lambda array, numbers: numbers,
        lambda array, numbers: (array, "label"),
        lambda array, numbers: {"x": array, "n": numbers},
        lambda array, numbers: [{"x": (array, array)}, numbers],
        lambda array, numbers: Pair(1, array),
        lambda array, numbers: np.array([array, None, numbers], object),
        lambda array, numbers: Holder(numbers),
        lambda array, numbers: bytearray(array),
    ],
    ids=["array", "part", "list", "tuple", "dict", "nested", "named tuple", "objects", "object", "bytes"],
)
def test_a_buffer_filled_again_for_every_item_arrives_with_the_values_of_each_item(
    shown: Callable[[Any, Any], Any], has_slot: bool
) -> None:
    array, numbers = np.zeros(700, np.int64), [0]
    desk, expected, found = Desk(), [], []
    while len(expected) < 5:
        writer, more = desk.begin(5, has_slot), True
        while more and len(expected) < 5:
            array[:] = numbers[:] = [len(expected)]
            item = shown(array, numbers)
            expected.append(copy.deepcopy(item))
            more = writer.put(item)
        file = [b"".join(writer.contents())] if writer.beside else None  # written before the next job
        array[:] = numbers[:] = [99]
        found += desk.finished(file).values
    assert same(found, expected) or repr(found) == repr(expected)


def test_items_share_no_memory() -> None:
    large, small = np.arange(700), [0]
    found = sent(Desk(), [large, large, small, small])
    found[0][:], found[2][0] = -1, -1
    assert (found[1] == large).all()
    assert found[3] == [0]


def test_an_array_twice_in_an_item_is_one_array() -> None:
    array = np.arange(700)
    ((left, right),) = sent(Desk(), [(array, array)])
    assert left is right


# -------------------------------------------------------------------- when a job ends


def test_a_job_ends_when_the_table_is_full() -> None:
    desk = Desk(cell_bytes=PAGE)
    writer = desk.begin(items=1000)
    most = desk.cell.most_items(1000)
    assert put_all(writer, [0, 0.5, "x"] * 300) == most == PAGE // 32
    assert desk.finished().values == ([0, 0.5, "x"] * 300)[:most]


def test_a_job_ends_when_the_slot_has_no_room_for_another_item_like_the_largest() -> None:
    desk = Desk(slot_bytes=16 * PAGE)
    writer = desk.begin()
    items = [np.zeros(3 * PAGE, np.uint8), *[np.ones(4 * PAGE, np.uint8)] * 9]
    assert put_all(writer, items) == 4  # 15 pages of 16
    assert not writer.beside
    assert same(desk.finished().values, items[:4])


@pytest.mark.parametrize("size", [INLINE_BYTES - 1, 3 * INLINE_BYTES], ids=["payload", "slot"])
def test_a_job_ends_when_there_is_enough_to_deliver(size: int) -> None:
    writer = Desk(slot_bytes=1 << 20, cell_bytes=1 << 20).begin()
    count = put_all(writer, [np.zeros(size, np.uint8)] * 1000)
    assert (count - 1) * size <= GROUP_BYTES < count * (size + 100)


def test_a_job_may_have_one_item_of_any_size_that_fits() -> None:
    desk = Desk(slot_bytes=2 * GROUP_BYTES)
    writer = desk.begin()
    assert put_all(writer, [np.ones(2 * GROUP_BYTES, np.uint8), 1]) == 1
    assert not writer.beside
    assert desk.finished().values[0].all()


@pytest.mark.parametrize(
    "large",
    [
        np.ones((5, 8 * PAGE)),
        [np.zeros(5000, "u1"), np.ones(20 * PAGE, "u1")],
        b"x" * 20 * PAGE,
        ["y" * 2**18],
    ],
    ids=["array", "arrays", "bytes", "text"],
)
def test_an_item_that_does_not_fit_ends_the_job_and_goes_into_a_file(large: Any) -> None:
    desk, array = Desk(), np.arange(1000)
    writer = desk.begin()
    assert put_all(writer, [1, array, large, 2]) == 3
    assert same(desk.finished().values, [1, array])  # what is not sent yet must not be seen
    assert sum(map(len, map(memoryview, map(bytes, writer.contents())))) == writer.used
    assert same(desk.finished(writer.contents()).values, [1, array, large])


def test_an_item_in_a_file_does_not_count_for_the_slot() -> None:
    desk = Desk()
    put_all(desk.begin(), [np.arange(1000), np.ones(20 * PAGE)])
    assert desk.cell.words[3] == 8000


def test_without_a_slot_memory_goes_into_a_file() -> None:
    desk = Desk()
    writer = desk.begin(has_slot=False)
    assert put_all(writer, ["x", np.arange(1000), 2]) == 2
    assert desk.cell.words[3] == 0
    assert same(desk.finished(writer.contents()).values, ["x", np.arange(1000)])


# -------------------------------------------------------------------- at any moment


class Watched:
    """Words that call back when the count of finished items is raised."""

    def __init__(self, words: Any, raised: Callable[[], None]) -> None:
        self.words, self.raised = words, raised

    def __getitem__(self, at: Any) -> Any:
        return self.words[at]

    def __len__(self) -> int:
        return len(self.words)

    def __setitem__(self, at: int, value: int) -> None:
        self.words[at] = value
        if at == 1 and value:
            self.raised()


def test_the_count_of_finished_items_is_raised_last() -> None:
    desk, seen = Desk(slot_bytes=64 * PAGE), []
    desk.cell.words = Watched(desk.cell.words, lambda: seen.append(desk.finished()))
    items = [1, 2.5, "x", np.arange(1000), 1 << 70, b"y" * 20 * PAGE, [np.zeros(3), np.zeros(3000)]]
    writer = desk.begin()
    for count, item in enumerate([*items, Raised(ValueError("bad"))], 1):
        put_all(writer, [item])
        assert len(seen) == count
        assert same(seen[-1].values[: len(items)], items[:count])
    assert isinstance(seen[-1].failures[len(items)], Record)


# -------------------------------------------------------------------- memory for user code


def test_arrays_of_the_slot_are_aligned_and_returned_without_a_copy() -> None:
    desk = Desk()
    writer = desk.begin(items=1)
    first, second = writer.allocate((601, 7), np.dtype("u1")), writer.allocate((800,), np.dtype("f8"))
    assert first is not None
    assert second is not None
    assert [address(array) - address(desk.slot) for array in (first, second)] == [0, 4224]
    first[:], second[:] = 1, 2
    assert not writer.put((first, 3, second[100:]))
    assert (writer.allocated, writer.used, writer.buffers, writer.beside) == (True, 4224 + 6400, 2, [])
    assert same(desk.finished().values, [(np.ones((601, 7), "u1"), 3, np.full(700, 2.0))])


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((INLINE_BYTES - 1,), "u1"), ((5000,), "O"), ((16 * PAGE + 1,), "u1"), ((0, 9), "f8")],
)
def test_small_arrays_and_arrays_that_do_not_fit_are_allocated_outside_the_slot(
    shape: Any, dtype: str
) -> None:
    writer = Desk().begin()
    assert writer.allocate(shape, np.dtype(dtype)) is None
    assert (writer.used, writer.allocated) == (0, False)


def test_without_a_slot_there_is_no_memory_for_user_code() -> None:
    assert Desk().begin(has_slot=False).allocate((5000,), np.dtype("f8")) is None


def test_memory_allocated_by_user_code_and_not_returned_is_not_overwritten() -> None:
    writer = Desk().begin(items=1)
    kept = writer.allocate((1000,), np.dtype("f8"))
    assert kept is not None
    kept[:] = 7
    writer.put(np.zeros(1000))
    assert (kept == 7).all()


# -------------------------------------------------------------------- in a worker


class Told(NamedTuple):
    """A record that a worker has sent."""

    ticket: int
    worker: int
    kind: int
    number: int
    used: int
    cost_ns: int
    file: int
    flags: int


class Office:
    """A worker without a process of its own, which does one job after the other in the slots it is given."""

    def __init__(self, item: Callable[[int], Any]) -> None:
        layout = Layout(workers=1, cells=9, slots=2, slot_bytes=8 * PAGE, cell_bytes=16 * PAGE)
        self.segment = Segment.create(layout.size)
        self.cells = cells_of(self.segment, layout)
        self.told, results = os.pipe()
        jobs, self.send = os.pipe()
        self.fds = Descriptors(jobs, os.dup(jobs), results, -1, -1, self.segment.fd)
        spec = Spec(layout, 1, 0, 0, "wrap", None, 0, False, os.getpid(), TorchModes())
        seeding: Any = SimpleNamespace(epoch=-1)
        self.worker = Worker(0, spec, self.fds, self.segment, sk.smap(item, range(9)), seeding)

    def do(self, ticket: int, slot: int = -1) -> list[Told]:
        """Have it do the job of the item of this number; return what it tells."""
        self.cells[ticket].assign(ticket)
        job = JOB.pack(ticket, ticket, slot, False, Packing.RANGE, ticket, ticket + 1, 1, -1, 0, 0)
        self.worker._next_job = iter([job, b""]).__next__  # type: ignore[method-assign]
        self.worker.serve()
        return [Told(*record) for record in RESULT.iter_unpack(os.read(self.told, 1 << 16))]

    def close(self) -> None:
        self.worker._arrivals.close()
        for fd in (self.told, self.send, self.fds.jobs, self.fds.urgent, self.fds.results):
            os.close(fd)


@pytest.fixture
def office() -> Iterator[Callable[[Callable[[int], Any]], Office]]:
    made: list[Office] = []

    def make(item: Callable[[int], Any]) -> Office:
        made.append(Office(item))
        return made[-1]

    yield make
    while made:
        made.pop().close()


def test_a_worker_closes_a_file_once_the_result_was_read_and_not_because_its_job_is_cancelled(
    office: Any,
) -> None:
    desk = office(lambda i: np.full(900, i) if i == 1 else i)
    ((ticket, _, kind, number, used, _, file, flags),) = desk.do(1)
    assert (ticket, kind, number, used, flags) == (1, Kind.DONE, 1, 7200, Flag.HAS_ARRAYS)
    desk.cells[1].assign(0)
    desk.do(2)
    assert from_file(os.getpid(), file, used).view(np.int64).tolist() == [1] * 900
    desk.cells[1].let_go(1)
    desk.do(3)
    with pytest.raises(FileNotFoundError):
        from_file(os.getpid(), file, used)


def test_a_worker_reports_when_memory_that_outlived_its_item_is_released(office: Any) -> None:
    kept: list[Any] = []

    def item(i: int) -> Any:
        if i == 1:
            kept.append(sk.empty(900))
            kept[0][:] = 7
        if i == 3:
            kept.clear()
        return kept[0] if i == 1 else i

    desk = office(item)
    (done,) = desk.do(1, slot=1)
    assert done.flags == Flag.HAS_ARRAYS | Flag.SURVIVES
    kept[0][:] = 8  # user code goes on with it, and the result is as it was
    assert (from_file(os.getpid(), done.file, done.used).view(float) == 7).all()
    assert [told.kind for told in desk.do(2, slot=0)] == [Kind.DONE]
    assert [(told.kind, told.number) for told in desk.do(3, slot=0)] == [(Kind.DONE, 1), (Kind.LET_GO, 1)]
    assert [told.kind for told in desk.do(4, slot=0)] == [Kind.DONE]
    os.close(done.file)


def test_memory_that_outlives_its_item_without_being_part_of_it_needs_no_file(office: Any) -> None:
    kept: list[Any] = []
    (done,) = office(lambda i: kept.append(sk.empty(900))).do(1, slot=0)
    assert (done.flags, done.file) == (Flag.SURVIVES, -1)


@pytest.mark.parametrize("more", [0, 9 * PAGE], ids=["slot", "file"])
def test_memory_that_is_gone_with_its_item_does_not_survive(office: Any, more: int) -> None:
    (done,) = office(lambda i: [sk.empty(900), np.zeros(more)]).do(1, slot=0)
    assert (done.flags, done.file >= 0) == (Flag.HAS_ARRAYS, more > 0)
    if more:
        os.close(done.file)


def test_a_worker_keeps_no_item_that_it_has_sent() -> None:
    made: list[Any] = []

    def item(i: int) -> Any:
        array = np.full(1 << 18, sum(ref() is not None for ref in made))
        made.append(weakref.ref(array))
        return array

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that an item does not fit a slot
        with sk.prefetch(sk.smap(item, range(20)), 1, "process", context="fork", shm_size=1 << 20) as node:
            assert [array[0] for array in node] == [0] * 20


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_a_file_lost_with_its_worker_is_made_again(context: Any, tmp_path: Path) -> None:
    gate, marker = tmp_path / "gate", tmp_path / "marker"
    os.mkfifo(gate)

    def item(i: int) -> Any:
        if i == 1 and not marker.exists():
            gate.read_bytes()  # until the consumer does something else
        if i == 2 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return np.full(1000, i)

    with sk.prefetch(
        sk.smap(item, range(4)), 1, "process", context=context, chunk_size=1, shm_size=0
    ) as node:
        iterator = iter(node)
        assert next(iterator)[0] == 0
        (pid,) = pids_of(node)
        gate.touch()
        gate.write_bytes(b"")
        assert until(lambda: state(pid) in ("Z", "gone"))
        assert [array[0] for array in iterator] == [1, 2, 3]


def test_a_file_may_arrive_before_the_pid_of_its_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = sk.smap(lambda i: np.full(1000, i), range(4))
    with sk.prefetch(made, 1, "process", context="forkserver", shm_size=0) as node:
        with monkeypatch.context() as patch:
            patch.setattr(Team, "_hear", lambda *_: None)
            assert [array[0] for array in node] == [0, 1, 2, 3]
        assert node.statistics().jobs == 4
