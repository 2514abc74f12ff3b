"""The slot pool, held against a model that knows every array over every slot."""

from __future__ import annotations

import fcntl
import gc
import mmap
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seqkit.prefetch.codec import Block, address
from seqkit.prefetch.processes.slots import PAGE, FreeMap, Segment, SlotPool, State

from .scripts import forked


def a_pool(count: int, slot_bytes: int = PAGE, offset: int = 0, **options: Any) -> SlotPool:
    words = offset + count * slot_bytes
    segment = Segment.create(words + 16 * count)
    return SlotPool(segment, FreeMap(segment, count, words), slot_bytes, offset, **options)


def acquire(pool: SlotPool, worker: int = 0) -> int:
    """What a job does that takes a slot: it is reserved, taken by the worker, and arrives."""
    assert pool.reserve()
    slot = pool.free.take(worker)
    assert slot is not None
    pool.arrived(slot)
    return slot


def a_lease(pool: SlotPool, size: int = PAGE) -> Any:
    return pool.lease(acquire(pool), size)


# Everything that keeps memory of an array alive without being the array.
DERIVED: list[Callable[[Any], Any]] = [
    lambda array: array[3:],
    lambda array: array[::-2],
    lambda array: array.view(np.int8),
    lambda array: array[:64].view(np.float64).reshape(2, 4),
    lambda array: array[:64].reshape(8, 8).T[1:],
    lambda array: memoryview(array),
    lambda array: np.frombuffer(memoryview(array)[8:24], np.int64),
    lambda array: np.broadcast_to(array[:1], (5, 7)),
    lambda array: array[:16].view(np.dtype([("x", "i4"), ("y", "f4")]))["y"],
    lambda array: array.view(np.recarray),
    lambda array: np.lib.stride_tricks.as_strided(array[10:], (4,), (2,)),
    lambda array: iter(array),
    lambda array: [array, {"nested": (array,)}],
]


class PoolMachine(RuleBasedStateMachine):
    """Slots go out, are leased, retired and given back; arrays over them are dropped in any order."""

    @initialize(count=st.integers(1, 5))
    def begin(self, count: int) -> None:
        self.count = count
        self.pool = a_pool(count, offset=2 * PAGE)
        self.states = dict.fromkeys(range(count), State.FREE)
        self.keepers: list[tuple[int, Any]] = []  # slot, and something that holds memory of it
        self.canaries: dict[int, int] = {}
        self.leases = 0
        self.reserved = 0
        self.loans: list[tuple[set[int], list[bool]]] = []  # slots, and whether it is over

    def slots(self, state: State) -> list[int]:
        return [slot for slot, known in self.states.items() if known is state]

    def an_out_slot(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(self.slots(State.OUT)))

    @rule()
    def submit(self) -> None:
        free = len(self.slots(State.FREE))
        assert self.pool.reserve() == (free > self.reserved)
        self.reserved = min(free, self.reserved + 1)

    @precondition(lambda self: self.reserved)
    @rule(worker=st.integers(0, 3))
    def deliver(self, worker: int) -> None:
        slot = self.pool.free.take(worker)
        assert slot == min(self.slots(State.FREE))  # never one that somebody has
        self.pool.block(slot)[:] = 255  # what a worker writes
        self.pool.arrived(slot)
        self.reserved -= 1
        self.states[slot] = State.OUT

    @precondition(lambda self: self.reserved)
    @rule(takes=st.booleans())
    def die_or_need_no_slot(self, takes: bool) -> None:
        if takes:
            assert self.pool.free.take(9) in self.slots(State.FREE)
        self.pool.recover(9)
        self.pool.unreserve()
        self.reserved -= 1

    @precondition(lambda self: self.slots(State.OUT))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        slot = self.an_out_slot(data)
        self.pool.release(slot)
        self.states[slot] = State.FREE

    @precondition(lambda self: self.slots(State.OUT))
    @rule(data=st.data(), size=st.integers(64, PAGE))
    def lease(self, data: st.DataObject, size: int) -> None:
        slot = self.an_out_slot(data)
        self.leases += 1
        self.canaries[slot] = self.leases % 251
        self.pool.block(slot)[:] = self.canaries[slot]
        array = self.pool.lease(slot, size)
        assert array.shape == (size,)
        self.keepers.append((slot, array))
        self.states[slot] = State.LEASED

    # Hypothesis keeps what it has drawn, so places are drawn and not arrays.

    def a_place(self, data: st.DataObject) -> int:
        return data.draw(st.integers(0, len(self.keepers) - 1))

    @precondition(lambda self: self.keepers)
    @rule(data=st.data(), how=st.integers(0, len(DERIVED) - 1))
    def derive(self, data: st.DataObject, how: int) -> None:
        slot, keeper = self.keepers[self.a_place(data)]
        whole = type(keeper) is np.ndarray and keeper.dtype == np.uint8 and keeper.ndim == 1
        if whole and len(keeper) >= 64 and keeper.flags.c_contiguous:
            self.keepers.append((slot, DERIVED[how](keeper)))

    @precondition(lambda self: self.keepers)
    @rule(data=st.data(), elsewhere=st.booleans())
    def drop(self, data: st.DataObject, elsewhere: bool) -> None:
        slot, *held = self.keepers.pop(self.a_place(data))
        if elsewhere:
            thread = threading.Thread(target=held.clear)
            thread.start()
            thread.join()
        held.clear()
        if all(other != slot for other, _ in self.keepers):
            self.states[slot] = State.LENT
            self.end_of_lent()

    def end_of_lent(self) -> None:
        for slot in self.slots(State.LENT):
            if not any(slot in slots for slots, _ in self.loans):
                self.states[slot] = State.FREE

    @rule()
    def lend(self) -> None:
        over: list[bool] = []
        self.pool.lend(lambda: bool(over))
        self.loans.append((set(self.slots(State.LEASED)), over))

    @precondition(lambda self: self.loans)
    @rule(data=st.data())
    def end_a_loan(self, data: st.DataObject) -> None:
        _, over = self.loans.pop(data.draw(st.integers(0, len(self.loans) - 1)))
        over.append(True)
        self.end_of_lent()

    @precondition(lambda self: self.slots(State.OUT))
    @rule(data=st.data())
    def retire(self, data: st.DataObject) -> None:
        slot = self.an_out_slot(data)
        self.pool.retire(slot)
        self.states[slot] = State.RETIRED

    @precondition(lambda self: self.slots(State.RETIRED))
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(self.slots(State.RETIRED)))
        self.pool.restore(slot)
        self.states[slot] = State.FREE

    @precondition(lambda self: self.count)
    @rule(data=st.data())
    def refuse_what_is_not_out(self, data: st.DataObject) -> None:
        held = [slot for slot in range(self.count) if self.states[slot] is not State.OUT]
        if held:
            slot = data.draw(st.sampled_from(held))
            operation = data.draw(st.sampled_from(["release", "lease", "retire"]))
            with pytest.raises(AssertionError, match="expected OUT"):
                getattr(self.pool, operation)(*(slot, 8)[: 1 + (operation == "lease")])

    @invariant()
    def the_model_agrees(self) -> None:
        if not hasattr(self, "pool"):
            return
        for state in State:
            assert self.pool.count(state) == len(self.slots(state))
        assert self.pool.available() == len(self.slots(State.FREE)) - self.reserved
        assert self.pool.retired() == self.slots(State.RETIRED)

    @invariant()
    def nothing_a_reader_holds_has_changed(self) -> None:
        if hasattr(self, "pool"):
            for slot, keeper in self.keepers:
                if isinstance(keeper, np.ndarray | memoryview):
                    assert np.frombuffer(np.ascontiguousarray(keeper), np.uint8)[0] == self.canaries[slot]
                if type(keeper) is np.ndarray and keeper.dtype == np.uint8:
                    assert (keeper == self.canaries[slot]).all()

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            self.keepers.clear()
            for _, over in self.loans:
                over.append(True)
            for _ in range(self.reserved):
                self.pool.unreserve()
            for slot in self.slots(State.OUT):
                self.pool.release(slot)
            for slot in self.pool.retired():
                self.pool.restore(slot)
            assert self.pool.available() == self.count


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("derive", DERIVED)
def test_a_slot_stays_leased_for_as_long_as_anything_sees_its_memory(derive: Callable[[Any], Any]) -> None:
    pool = a_pool(1)
    array = a_lease(pool)
    keeper = derive(array)
    del array
    assert pool.available() == 0
    assert pool.count(State.LEASED) == 1
    del keeper
    assert pool.available() == 1


def test_slots_lie_side_by_side_from_where_they_are_told_to_and_are_page_aligned() -> None:
    segment = Segment.create(8 * PAGE)
    pool = SlotPool(segment, FreeMap(segment, 3, 7 * PAGE), slot_bytes=2 * PAGE, offset=PAGE)
    for slot in range(3):
        pool.block(slot)[:] = slot + 1
        assert address(pool.block(slot)) % PAGE == 0
    assert segment.block(0, 8 * PAGE)[::PAGE].tolist() == [0, 1, 1, 2, 2, 3, 3, 0]
    assert len(pool.block(1, 10)) == 10


def test_the_lowest_free_slot_is_taken_so_that_few_are_ever_touched() -> None:
    pool = a_pool(5)
    assert [acquire(pool) for _ in range(3)] == [0, 1, 2]
    pool.release(1)
    pool.release(0)
    assert [acquire(pool) for _ in range(3)] == [0, 1, 3]


# -------------------------------------------------------------------- reservations


def test_a_reserved_slot_is_not_for_another_job_whichever_it_will_be() -> None:
    pool = a_pool(2)
    assert [pool.reserve() for _ in range(3)] == [True, True, False]
    assert (pool.available(), pool.count(State.FREE)) == (0, 2)
    slot = pool.free.take(3)
    assert slot is not None
    assert pool.count(State.FREE) == 2  # nobody has told the parent yet
    pool.arrived(slot)
    assert (pool.available(), pool.count(State.FREE), pool.count(State.OUT)) == (0, 1, 1)
    pool.unreserve()  # the other job came back small
    assert pool.available() == 1


def test_what_a_worker_took_and_died_with_is_free_again_and_nothing_else() -> None:
    pool = a_pool(4)
    delivered, others = acquire(pool, worker=5), acquire(pool, worker=6)
    assert pool.reserve()
    died_with = pool.free.take(5)
    assert (delivered, others, died_with) == (0, 1, 2)
    pool.recover(5)
    pool.unreserve()
    assert [pool.free.taken_by(worker) for worker in (5, 6)] == [[], []]  # what is delivered is the parent's
    assert pool.available() == 2
    assert acquire(pool) == 2


def test_of_what_a_dead_worker_left_in_its_slots_nobody_knows_how_much_it_is() -> None:
    pool = a_pool(1)
    slot = pool.free.take(5)
    assert slot is not None
    pool.recover(5)
    assert pool.free.extents[slot] == pool.slot_bytes  # so that an idle worker gives all of it back


def test_what_a_dead_worker_delivered_is_not_recovered_while_it_passes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One thread receives, and finds a worker dead; another one drops results of it.
    pool = a_pool(2)
    slot = acquire(pool, worker=5)
    taken_by = FreeMap.taken_by

    def and_meanwhile(self: FreeMap, owner: int) -> list[int]:
        taken = taken_by(self, owner)
        pool.release(slot)
        assert pool.free.take(6) == slot
        return taken

    monkeypatch.setattr(FreeMap, "taken_by", and_meanwhile)
    pool.recover(5)
    assert taken_by(pool.free, 6) == [slot]


def test_what_is_just_being_released_is_not_recovered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = a_pool(2)
    slot = acquire(pool, worker=5)
    put_back = FreeMap.put_back
    taken: list[int | None] = []

    def and_before(self: FreeMap, slot: int) -> None:
        monkeypatch.undo()
        pool.recover(5)
        taken.append(pool.free.take(6))
        put_back(self, slot)

    monkeypatch.setattr(FreeMap, "put_back", and_before)
    pool.release(slot)
    assert taken == pool.free.taken_by(6) == [1]


def test_nothing_is_reserved_twice_at_any_line_at_which_an_arrival_is_booked() -> None:
    pool = a_pool(2)
    assert [pool.reserve(), pool.reserve()] == [True, True]
    slot = pool.free.take(0)
    assert slot is not None
    seen: list[bool] = []

    def at_every_line(frame: Any, event: str, argument: Any) -> Any:
        seen.append(pool.reserve())
        return at_every_line

    before = sys.gettrace()
    sys.settrace(at_every_line)
    try:
        pool.arrived(slot)
    finally:
        sys.settrace(before)
    assert len(seen) > 5
    assert not any(seen)


def test_a_loan_may_begin_while_others_are_looked_through() -> None:
    pool = a_pool(2)
    array = a_lease(pool)

    class Meanwhile(list[int]):
        def __iter__(self) -> Iterator[int]:
            pool.lend(lambda: False)  # another thread forks
            return super().__iter__()

    pool._loans.append((Meanwhile(), lambda: False))
    assert pool.count(State.LEASED) == 1
    del array
    assert pool.count(State.LENT) == 1


def test_a_slot_that_another_process_is_just_taking_is_passed_over_without_waiting() -> None:
    pool = a_pool(3)
    gate, ready = os.pipe(), os.pipe()
    segment = pool.free._segment
    pid = os.fork()
    if pid == 0:  # stopped in the middle of taking slot 0, for all anybody can tell
        fcntl.lockf(segment.fd, fcntl.LOCK_EX, 8, pool.free._offset)
        os.write(ready[1], b"x")
        os.read(gate[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    assert pool.free.take(0) == 1
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert pool.free.take(0) == 0  # the lock went with its holder
    for fd in (*gate, *ready):
        os.close(fd)


def test_processes_that_take_and_put_back_at_once_never_have_the_same_slot() -> None:
    pool = a_pool(3)
    here = pool.block(0).view(np.int64)  # who is in which slot
    pids = []
    for worker in range(4):
        pid = os.fork()
        if pid == 0:
            clashes = 0
            for _ in range(3000):
                slot = pool.free.take(worker)
                if slot is not None:
                    here[slot] = worker + 1
                    os.sched_yield()
                    clashes += here[slot] != worker + 1
                    pool.free.put_back(slot)
            os._exit(min(int(clashes), 100))
        pids.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * 4
    assert pool.available() == 3
    assert [pool.free.take(0) for _ in range(4)] == [0, 1, 2, None]


# -------------------------------------------------------------------- arrays that come back


def test_an_array_in_a_garbage_cycle_gives_its_slot_back_when_collected() -> None:
    pool = a_pool(1)
    gc.disable()
    try:
        cycle: list[Any] = [a_lease(pool)]
        cycle.append(cycle)
        del cycle
        assert pool.available() == 0
        gc.collect()
        assert pool.available() == 1
    finally:
        gc.enable()


def test_arrays_may_be_dropped_in_other_threads_while_slots_are_acquired() -> None:
    pool = a_pool(8)
    handed: SimpleQueue[Any] = SimpleQueue()
    dropped = threading.Semaphore(8)

    def drop() -> None:
        while (array := handed.get()) is not None:
            assert (array == array[0]).all()
            del array
            dropped.release()

    threads = [threading.Thread(target=drop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1000):
        dropped.acquire()
        slot = acquire(pool)
        pool.block(slot)[:] = number % 256
        handed.put(pool.lease(slot, PAGE))
    for _ in threads:
        handed.put(None)
    for thread in threads:
        thread.join()
    assert pool.available() == 8


def test_a_late_release_does_not_free_a_newer_lease() -> None:
    pool = a_pool(1)
    first = a_lease(pool)
    late = pool._leases[0]
    del first
    second = a_lease(pool)
    pool._returned.put(late)  # as if the first array's end were told again
    assert pool.available() == 0
    assert pool.count(State.LEASED) == 1
    del second
    assert pool.available() == 1


def test_readers_have_all_leases_when_they_hold_as_many_as_they_may() -> None:
    pool = a_pool(3, most_leases=2)
    first = a_lease(pool)
    assert (pool.has_leases(), pool.are_all_leased()) == (True, False)
    second = a_lease(pool)
    assert pool.are_all_leased()
    del first
    assert not pool.are_all_leased()
    del second
    assert not pool.are_all_leased()


def test_who_waits_for_a_release_wakes_with_it_and_takes_nothing() -> None:
    pool = a_pool(1)
    held = [a_lease(pool)]
    pool.await_release(0)
    assert pool.available() == 0
    thread = threading.Thread(target=held.clear)
    thread.start()
    for _ in range(2):
        pool.await_release(1e6)
    thread.join()
    assert pool.available() == 1


def test_a_lease_may_be_in_the_hands_of_a_waiting_reader_while_another_one_looks() -> None:
    taken = []

    class Shared(SimpleQueue[Any]):
        def empty(self) -> bool:
            was_empty = super().empty()
            if not was_empty and not taken:
                taken.append(self.get())  # by a thread in `await_release`, just now
            return was_empty

    pool = a_pool(1)
    pool._returned = Shared()
    array = a_lease(pool)
    del array
    assert pool.count(State.LEASED) == 1
    pool._returned.put(taken[0])
    assert pool.available() == 1


def test_no_slot_is_lost_where_ctrl_c_strikes_one_that_waits() -> None:
    pool = a_pool(1)
    for moment in range(1000):
        array = a_lease(pool)
        del array
        try:
            interrupted_at(moment, pool.await_release, 1e6)
            break
        except KeyboardInterrupt:
            assert pool.available() == 1
    assert moment > 5


def interrupted_at(moment: int, function: Any, *arguments: Any) -> None:
    """Call a method, and have Ctrl-C strike before an instruction of it."""
    seen = 0

    def at_every_instruction(frame: Any, event: str, argument: Any) -> Any:
        nonlocal seen
        if frame.f_code is function.__code__:
            frame.f_trace_opcodes = True
            seen += event == "opcode"
            if seen > moment:
                raise KeyboardInterrupt
        return at_every_instruction

    before = sys.gettrace()
    sys.settrace(at_every_instruction)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)


def test_a_lease_outlives_pool_and_segment() -> None:
    pool = a_pool(2)
    segment = pool._segment
    array = a_lease(pool)
    array[:] = 7
    segment.close()
    segment.close()
    del pool, segment
    assert (array == 7).all()
    array += 1
    assert (array[::5] == 8).all()


def test_dropping_arrays_in_a_forked_child_does_not_free_the_parents_slots() -> None:
    pool = a_pool(1)
    array = a_lease(pool)
    pid = os.fork()
    if pid == 0:
        pool.free.forget()
        del array
        os._exit(pool.available())  # in the child's own books only
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert pool.available() == 0
    assert pool.free.take(1) is None
    assert len(array) == PAGE


def test_arrays_that_live_at_interpreter_exit_disturb_nothing() -> None:
    script = """
from seqkit.prefetch.processes.slots import PAGE, FreeMap, Segment, SlotPool
segment = Segment.create(2 * PAGE)
pool = SlotPool(segment, FreeMap(segment, 1, PAGE), PAGE)
pool.reserve()
pool.arrived(pool.free.take(0))
kept = [pool.lease(0, PAGE)[5:]]
kept.append(kept)
print("ok")
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "ok\n", "")


# -------------------------------------------------------------------- segments


def test_a_segment_has_no_name_in_dev_shm_and_gives_its_descriptor_back() -> None:
    before = set(os.listdir("/dev/shm")), len(os.listdir("/proc/self/fd"))
    segment = Segment.create(PAGE)
    block = segment.block(0, PAGE)
    assert set(os.listdir("/dev/shm")) == before[0]
    segment.close()
    assert segment.fd == -1
    del block, segment
    assert len(os.listdir("/proc/self/fd")) == before[1]


def flags_of(block: Block) -> list[str]:
    """Return what the kernel knows about the mapping that a block lies in."""
    is_there = False
    with open("/proc/self/smaps") as file:
        for line in file:
            first, _, rest = line.partition(" ")
            if "-" in first:
                start, end = (int(bound, 16) for bound in first.split("-"))
                is_there = start <= address(block) < end
            elif is_there and first == "VmFlags:":
                return rest.split()
    raise AssertionError("not mapped")


def test_a_core_dump_leaves_segments_out() -> None:
    segment = Segment.create(PAGE)
    again = Segment(os.dup(segment.fd), PAGE)  # as a worker maps it that was not forked
    private = Segment(os.dup(segment.fd), PAGE, private=True)
    assert ["dd" in flags_of(it.block(0, PAGE)) for it in (segment, again, private)] == [True] * 3
    assert "dd" not in flags_of(np.frombuffer(mmap.mmap(-1, PAGE), np.uint8))


def test_pages_that_were_given_back_read_as_zeros() -> None:
    segment = Segment.create(4 * PAGE)
    block = segment.block(0, 4 * PAGE)
    block[:] = 1
    segment.punch(1, 3 * PAGE + 5)  # the pages that lie between these bounds wholly
    assert block[::PAGE].tolist() == [1, 0, 0, 1]
    segment.punch(5, 6)
    assert block[0] == 1


def test_a_closed_pool_gives_back_the_pages_that_nobody_holds() -> None:
    pool = a_pool(3)
    blocks = [pool.block(slot) for slot in range(3)]
    for block in blocks:
        block[:] = 1
    held, lent = a_lease(pool), a_lease(pool)
    pool.lend(lambda: False)
    del lent
    pool.give_back()
    assert [block[0] for block in blocks] == [1, 1, 0]
    del held


def test_a_segment_that_cannot_be_mapped_leaves_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises((OSError, OverflowError, ValueError)):
        Segment.create(1 << 62)
    assert len(os.listdir("/proc/self/fd")) == before


def test_two_mappings_of_a_segment_share_their_memory() -> None:
    segment = Segment.create(2 * PAGE)
    other = Segment(os.dup(segment.fd), segment.size)
    segment.block(PAGE, 8)[:] = 5
    assert other.block(PAGE, 8).tolist() == [5] * 8
    other.close()
    segment.close()


def test_a_private_mapping_is_writable_and_keeps_its_writes_to_itself() -> None:
    segment = Segment.create(PAGE)
    segment.block(0, 4)[:] = [1, 2, 3, 4]
    private = Segment(os.dup(segment.fd), PAGE, private=True)
    block = private.block(0, 4)
    block += 10
    assert block.tolist() == [11, 12, 13, 14]
    assert segment.block(0, 4).tolist() == [1, 2, 3, 4]
    private.close()
    segment.close()


def test_segments_may_be_larger_than_dev_shm_and_memory() -> None:
    segment = Segment.create(1 << 40)
    block = segment.block((1 << 40) - PAGE, PAGE)
    block[:] = 3
    assert os.fstat(segment.fd).st_blocks * 512 < 1 << 20
    segment.close()


# -------------------------------------------------------------------- locked pages


class Device:
    """Locks pages, and copies from them as slowly as a test wants."""

    def __init__(self) -> None:
        self.locked: dict[int, int] = {}
        self.copies = False
        self.refuses = False

    def pin(self, address: int, nbytes: int) -> None:
        assert address not in self.locked
        if self.refuses:
            raise RuntimeError("no")
        self.locked[address] = nbytes

    def unpin(self, address: int) -> None:
        del self.locked[address]

    def fence(self) -> Callable[[], bool]:
        return lambda: not self.copies


def test_a_slot_is_locked_once_as_far_as_it_is_used_and_unlocked_before_its_memory_goes() -> None:
    device = Device()
    pool = a_pool(2, 4 * PAGE, pinner=device)
    for size, locked in ((100, 1), (PAGE, 1), (PAGE + 1, 2), (PAGE, 2)):
        array = a_lease(pool, size)
        assert list(device.locked.values()) == [locked * PAGE]
        del array
    array = a_lease(pool, 1)
    del pool
    gc.collect()
    assert device.locked  # for the memory of the array is still there
    del array
    gc.collect()
    assert not device.locked


def test_a_device_that_refuses_to_lock_costs_no_slot() -> None:
    device = Device()
    pool = a_pool(1, 4 * PAGE, pinner=device)
    for size in (1, 2 * PAGE):  # the first lock of the slot, and a larger one
        slot = acquire(pool)
        device.refuses = True
        with pytest.raises(RuntimeError, match="no"):
            pool.lease(slot, size)
        assert not device.locked
        device.refuses = False
        array = pool.lease(slot, size)
        assert list(device.locked.values()) == [-(-size // PAGE) * PAGE]
        del array


def test_a_slot_is_not_used_again_while_a_device_copies_from_it() -> None:
    device = Device()
    pool = a_pool(1, pinner=device)
    array = a_lease(pool, 10)
    device.copies = True
    del array
    assert not pool.reserve()
    assert (pool.count(State.LEASED), pool.count(State.LENT)) == (0, 1)
    device.copies = False
    assert pool.available() == 1


def test_a_forked_process_unlocks_nothing() -> None:
    segment, calls = Segment.create(PAGE), []
    segment.at_end(lambda: calls.append(os.getpid()))

    def drop() -> bool:
        nonlocal segment
        del segment
        gc.collect()
        return not calls

    with forked(drop) as in_child:
        assert in_child()
    del segment
    gc.collect()
    assert calls == [os.getpid()]
