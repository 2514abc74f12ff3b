"""What a worker writes of its items is what the parent reads, whenever it looks."""

from __future__ import annotations

import copy
import os
import signal
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Lock
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqkit as sk
from seqkit.core.buffers import INLINE_BYTES
from seqkit.engine.codec import address
from seqkit.engine.errors import record
from seqkit.engine.processes import transport
from seqkit.engine.processes.block import GROUP_BYTES, JobBlock, Packing, Writer, from_file, most_items
from seqkit.engine.processes.segment import PAGE, Segment
from seqkit.engine.processes.team import Team
from seqkit.engine.processes.wire import JOB, RESULT, Flag, Kind, SegmentLayout, Spec
from seqkit.engine.processes.worker import Descriptors, Worker, WorkerSetup
from seqkit.engine.results import HEADER_BYTES, EncodedResult, Outcomes, Record, private
from seqkit.engine.torch_modes import current_modes

from .traces import pids_of, state, until
from .values import same, through_pickle, values

MARK = 0xAB


class Desk:
    """Stands in for a worker and its parent, with one block."""

    def __init__(self, block_bytes: int = 16 * PAGE) -> None:
        self.memory = private(block_bytes + PAGE)
        self.memory[:] = MARK
        self.behind, self.memory = self.memory[block_bytes:], self.memory[:block_bytes]
        self.block = JobBlock(self.memory)

    def begin(self, items: int = 1000, limit: int | None = GROUP_BYTES) -> Writer:
        """Begin a job of so many items."""
        self.block.assign(1)

        def of(error: BaseException) -> Record:
            return record(error, sk.view([0]))

        return Writer(self.block, items, self.memory, of, limit)

    def finished(self, file: list[Any] | None = None) -> Outcomes:
        """Read the finished items, as they are now; that which comes in a file, too, if there is one."""
        count, memory = self.block.finished(), self.memory[: self.block.used()].copy()
        if file:
            data = b"".join(map(bytes, file))
            count, memory = count + 1, private(len(data))
            memory[:] = np.frombuffer(data, np.uint8)
        return EncodedResult(memory, 0, count, 0).open()


def put_all(writer: Writer, items: list[Any]) -> int:
    """Write items until there is no more room; return how many were written."""
    for count, item in enumerate(items, 1):
        if not (writer.fail(item.error) if isinstance(item, Raised) else writer.put(item)):
            return count
    return len(items)


def sent(desk: Desk, items: list[Any]) -> list[Any]:
    """Send items in as many jobs as it takes; return what arrives, a `Record` where one failed."""
    arrived: list[Any] = []
    while len(arrived) < len(items):
        rest = items[len(arrived) :]
        writer = desk.begin(len(rest))
        count = put_all(writer, rest)
        outcomes = desk.finished(writer.contents() if writer.overflow else None)
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
    block_bytes=st.sampled_from([PAGE, 8 * PAGE, 64 * PAGE]),
)
def test_items_of_every_kind_arrive_whatever_room_there_is(items: list[Any], block_bytes: int) -> None:
    for item, found in zip(items, sent(Desk(block_bytes), items), strict=True):
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
    for block_bytes in (PAGE, 64 * PAGE):
        found = sent(Desk(block_bytes), [tensors, *tensors])
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


@pytest.mark.parametrize("block_bytes", [PAGE, 16 * PAGE])
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
    shown: Callable[[Any, Any], Any], block_bytes: int
) -> None:
    array, numbers = np.zeros(700, np.int64), [0]
    desk, expected, found = Desk(block_bytes), [], []
    while len(expected) < 5:
        writer, more = desk.begin(5), True
        while more and len(expected) < 5:
            array[:] = numbers[:] = [len(expected)]
            item = shown(array, numbers)
            expected.append(copy.deepcopy(item))
            more = writer.put(item)
        file = [b"".join(writer.contents())] if writer.overflow else None  # written before the next job
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
    desk = Desk(PAGE)
    writer = desk.begin(items=1000)
    most = most_items(PAGE)
    assert put_all(writer, [0, 0.5, 1] * 300) == most == PAGE // 32
    assert desk.finished().values == ([0, 0.5, 1] * 300)[:most]


def test_a_job_ends_when_the_slot_has_no_room_for_another_item_like_the_largest() -> None:
    desk = Desk(17 * PAGE)
    writer = desk.begin(items=9)
    items = [np.zeros(3 * PAGE, np.uint8), *[np.ones(4 * PAGE, np.uint8)] * 9]
    assert put_all(writer, items) == 4  # 15 pages of almost 17
    assert not writer.overflow
    assert same(desk.finished().values, items[:4])


@pytest.mark.parametrize("size", [INLINE_BYTES - 1, 3 * INLINE_BYTES], ids=["inline", "array"])
def test_a_job_ends_when_there_is_enough_to_deliver(size: int) -> None:
    writer = Desk(1 << 20).begin()
    count = put_all(writer, [np.zeros(size, np.uint8)] * 1000)
    assert (count - 1) * size <= GROUP_BYTES < count * (size + 100)


def test_a_whole_job_ends_when_the_slot_is_full() -> None:
    writer = Desk(8 * GROUP_BYTES).begin(items=100, limit=8 * GROUP_BYTES)
    assert put_all(writer, [np.zeros(GROUP_BYTES // 2, np.uint8)] * 100) == 15  # the table takes some bytes


def test_a_job_may_have_one_item_of_any_size_that_fits() -> None:
    desk = Desk(2 * GROUP_BYTES + PAGE)
    writer = desk.begin(items=2)
    assert put_all(writer, [np.ones(2 * GROUP_BYTES, np.uint8), 1]) == 1
    assert not writer.overflow
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


def test_an_item_in_a_file_does_not_count_for_the_block() -> None:
    desk = Desk()
    writer = desk.begin(items=2)
    writer.put(np.arange(1000))
    used = desk.block.used()
    writer.put(np.ones(20 * PAGE))
    assert desk.block.used() == used


def test_an_item_whose_data_cannot_be_sent_is_replaced_by_the_error() -> None:
    desk = Desk()
    writer = desk.begin(items=3)
    put_all(writer, [1, np.arange(1000), np.ones(20 * PAGE)])
    writer.replace_last(OSError("no space"))
    assert not writer.overflow
    outcomes = desk.finished()
    assert same(outcomes.values, [1, np.arange(1000), None])
    assert "no space" in outcomes.failures[2].summary


# -------------------------------------------------------------------- at any moment


class Watched:
    """Words that call back with the place of each word that was written."""

    def __init__(self, words: Any, written: Callable[[int], object]) -> None:
        self.words, self.written = words, written

    def __getitem__(self, at: Any) -> Any:
        return self.words[at]

    def __len__(self) -> int:
        return len(self.words)

    def __setitem__(self, at: int, value: int) -> None:
        self.words[at] = value
        self.written(at)


def test_the_count_of_finished_items_is_raised_last() -> None:
    desk, seen = Desk(64 * PAGE), []
    desk.block.words = Watched(
        desk.block.words,
        lambda at: seen.append(desk.finished()) if at == 1 and desk.block.finished() else None,
    )
    items = [1, 2.5, "x", np.arange(1000), 1 << 70, b"y" * 20 * PAGE, [np.zeros(3), np.zeros(3000)]]
    writer = desk.begin()
    for count, item in enumerate([*items, Raised(ValueError("bad"))], 1):
        put_all(writer, [item])
        assert len(seen) == count
        assert same(seen[-1].values[: len(items)], items[:count])
    assert isinstance(seen[-1].failures[len(items)], Record)


@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_items_can_be_taken_between_any_two_steps_of_the_worker(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def marked(size: int) -> Any:
        memory = private(size)
        memory[:] = MARK  # otherwise it may hold the items of an earlier result
        return memory

    def look(_: int) -> None:
        nonlocal writes, seen
        writes += 1
        if writes % every == 0:
            if seen > len(taken):
                taken.extend(job.take(len(taken), seen).open().values)
            seen = job.finished()

    monkeypatch.setattr(transport, "private", marked)
    desk, taken, seen, writes = Desk(64 * PAGE), list[Any](), 0, 0
    items = [1, "one", 2.5, b"x" * 700, "three", 4, 5, ["six"], np.arange(7), b"y" * 5000, 9, "ten"]
    job = transport._Sent(0, desk.block, len(items))
    desk.block.words = Watched(desk.block.words, look)
    writer = desk.begin(len(items))
    put_all(writer, items)
    taken.extend(job.copy(len(taken), len(items), writer.used).open().values)
    assert same(taken, items)


# -------------------------------------------------------------------- memory for user code


def test_arrays_of_the_slot_are_aligned_and_returned_without_a_copy() -> None:
    desk = Desk()
    writer = desk.begin(items=1)
    first, second = writer.allocate((601, 7), np.dtype("u1")), writer.allocate((800,), np.dtype("f8"))
    assert first is not None
    assert second is not None
    start = 128  # after header and table
    assert [address(array) - address(desk.memory) for array in (first, second)] == [start, start + 4224]
    first[:], second[:] = 1, 2
    assert not writer.put((first, 3, second[100:]))
    assert (writer.allocated, writer.buffers, writer.overflow) == (True, 2, [])
    assert start + 4224 + 6400 <= writer.used < start + 4224 + 6400 + 200
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
    assert (writer.used, writer.allocated) == (HEADER_BYTES + 16 * 1000, False)


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

    def __init__(self, item: Callable[[int], Any], slot_bytes: int = 8 * PAGE) -> None:
        self.layout = SegmentLayout(workers=1, slots=9, slot_bytes=slot_bytes)
        self.segment = Segment.create(self.layout.size)
        self.blocks = [JobBlock(self.segment.block(self.layout.slot_at(i), slot_bytes)) for i in range(9)]
        self.told, results = os.pipe()
        jobs, self.send = os.pipe()
        self.fds = Descriptors(jobs, os.dup(jobs), results, -1, self.segment.fd)
        settings = sk.prefetch([1], 1, "process", seed=0)._settings
        spec = Spec(settings, self.layout, 0, 0, "wrap", current_modes())
        seeding: Any = SimpleNamespace(epoch=-1)
        setup = WorkerSetup(spec, sk.smap(item, range(9)), self.segment, self.fds)
        self.worker = Worker(0, setup, seeding)

    def do(self, ticket: int) -> list[Told]:
        """Have it do the job of the item of this number, in the slot of this number; return what it tells."""
        self.blocks[ticket].assign(ticket)
        job = JOB.pack(ticket, ticket, False, Packing.RANGE, ticket, ticket + 1, 1, -1, 0)
        self.worker._next_job = iter([job, b""]).__next__  # type: ignore[method-assign]
        self.worker.serve()
        return [Told(*record) for record in RESULT.iter_unpack(os.read(self.told, 1 << 16))]

    def array(self, told: Told) -> Any:
        """Return the only array of a result."""
        memory = self.blocks[told.ticket].memory
        if told.file >= 0:
            memory = from_file(os.getpid(), told.file, told.used)
        return EncodedResult(memory, 0, told.number, 0).open().values[0]

    def close(self) -> None:
        self.worker._arrivals.close()
        for fd in (self.told, self.send, self.fds.jobs, self.fds.urgent, self.fds.results):
            os.close(fd)


@pytest.fixture
def office() -> Iterator[Callable[..., Office]]:
    made: list[Office] = []

    def make(item: Callable[[int], Any], slot_bytes: int = 8 * PAGE) -> Office:
        made.append(Office(item, slot_bytes))
        return made[-1]

    yield make
    while made:
        made.pop().close()


def test_a_worker_closes_a_file_once_the_result_was_read_and_not_because_its_job_is_revoked(
    office: Any,
) -> None:
    desk = office(lambda i: np.full(900, i) if i == 1 else i, PAGE)
    (done,) = desk.do(1)
    assert (done.kind, done.number, done.flags) == (Kind.DONE, 1, Flag.HAS_ARRAYS)
    desk.blocks[1].revoke()
    desk.do(2)
    assert desk.array(done).tolist() == [1] * 900
    desk.blocks[1].mark_read(1)
    desk.do(3)
    with pytest.raises(FileNotFoundError):
        from_file(os.getpid(), done.file, done.used)


def test_memory_that_outlives_its_item_goes_into_a_file_and_user_code_gets_no_more(office: Any) -> None:
    kept: list[Any] = []

    def item(i: int) -> Any:
        array = sk.empty(900)
        array[:] = i
        if i == 1:
            kept.append(array)
        return array

    desk = office(item)
    (done,) = desk.do(1)
    assert done.flags == Flag.HAS_ARRAYS | Flag.RETAINED
    kept[0][:] = 8  # user code goes on with it, and the result is as it was
    assert (desk.array(done) == 1).all()
    os.close(done.file)
    (later,) = desk.do(2)
    assert (later.flags, later.file) == (Flag.HAS_ARRAYS, -1)
    assert (desk.array(later) == 2).all()


def test_memory_that_outlives_its_item_without_being_part_of_it_needs_no_file(office: Any) -> None:
    kept: list[Any] = []
    (done,) = office(lambda i: kept.append(sk.empty(900))).do(1)
    assert (done.flags, done.file) == (Flag.RETAINED, -1)


@pytest.mark.parametrize("more", [0, 9 * PAGE], ids=["slot", "file"])
def test_memory_that_is_gone_with_its_item_is_not_retained(office: Any, more: int) -> None:
    (done,) = office(lambda i: [sk.empty(900), np.zeros(more)]).do(1)
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


@pytest.mark.parametrize("context", ["fork", "forkserver", "template that is slow"])
def test_a_file_lost_with_its_worker_is_made_again(
    context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, marker = tmp_path / "gate", tmp_path / "marker"
    os.mkfifo(gate)
    if context == "template that is slow":
        context, lost, read_template = "forkserver", Event(), Team._read_template

        def noted(*arguments: int) -> Any:
            try:
                return from_file(*arguments)
            except FileNotFoundError:
                lost.set()
                raise

        monkeypatch.setattr(transport, "from_file", noted)
        monkeypatch.setattr(
            Team, "_read_template", lambda *those: read_template(*those) if lost.is_set() else None
        )

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
            patch.setattr(Team, "_read_template", lambda *_: None)
            assert [array[0] for array in node] == [0, 1, 2, 3]
        assert node.statistics().jobs == 4
