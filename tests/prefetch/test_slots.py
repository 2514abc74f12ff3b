"""The slot pool, held against a model that knows every array over every slot."""

from __future__ import annotations

import fcntl
import gc
import os
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

from seqkit.prefetch.codec import address
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

    def out(self, data: st.DataObject, becomes: State) -> int:
        """Draw a slot that is out, for what makes it something else."""
        slot: int = data.draw(st.sampled_from(self.slots(State.OUT)))
        self.states[slot] = becomes
        return slot

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
        self.pool.release(self.out(data, State.FREE))

    @precondition(lambda self: self.slots(State.OUT))
    @rule(data=st.data(), size=st.integers(64, PAGE))
    def lease(self, data: st.DataObject, size: int) -> None:
        slot = self.out(data, State.LEASED)
        self.leases += 1
        self.canaries[slot] = self.leases % 251
        self.pool.block(slot)[:] = self.canaries[slot]
        array = self.pool.lease(slot, size)
        assert array.shape == (size,)
        self.keepers.append((slot, array))

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
        self.pool.retire(self.out(data, State.RETIRED))

    @precondition(lambda self: self.slots(State.RETIRED))
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(self.slots(State.RETIRED)))
        self.pool.restore(slot)
        self.states[slot] = State.FREE

    @rule(operation=st.sampled_from(["release", "retire"]))
    def refuse_what_is_not_out(self, operation: str) -> None:
        for slot in set(self.states) - set(self.slots(State.OUT)):
            with pytest.raises(AssertionError, match="expected OUT"):
                getattr(self.pool, operation)(slot)

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


# -------------------------------------------------------------------- reservations


def stepping(step: Callable[[], Any], function: Any, *arguments: Any) -> None:
    """Call a function, and `step` before every instruction that Python runs for it."""

    def trace(frame: Any, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            step()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)


def test_what_a_worker_took_and_died_with_is_free_again_and_nothing_else() -> None:
    pool = a_pool(4)
    delivered, others = acquire(pool, worker=5), acquire(pool, worker=6)
    assert (delivered, others, pool.free.take(5)) == (0, 1, 2)
    pool.recover(5)
    assert [pool.free.taken_by(worker) for worker in (5, 6)] == [[], []]  # what is delivered is the parent's
    assert acquire(pool) == 2
    assert pool.free.extents[2] == pool.slot_bytes  # nobody knows how much the worker wrote


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


def test_nothing_is_reserved_twice_at_any_moment_at_which_an_arrival_is_booked() -> None:
    pool = a_pool(2)
    assert [pool.reserve(), pool.reserve()] == [True, True]
    slot, seen = pool.free.take(0), []
    stepping(lambda: seen.append(pool.reserve()), pool.arrived, slot)
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

    def begin_to_take() -> bool:
        fcntl.lockf(pool.free._segment.fd, fcntl.LOCK_EX, 8, pool.free._offset)
        return True

    with forked(begin_to_take) as other:
        assert other()
        assert pool.free.take(0) == 1
    assert pool.free.take(0) == 0  # the lock went with its holder


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
    cycle: list[Any] = [a_lease(pool)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert pool.available() == 1


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
        a_lease(pool)  # and drop it
        steps = iter(range(1000))

        def strike(moment: int = moment, steps: Iterator[int] = steps) -> None:
            if next(steps) == moment:
                raise KeyboardInterrupt

        try:
            stepping(strike, pool.await_release, 1e6)
            break
        except KeyboardInterrupt:
            assert pool.available() == 1
    assert moment > 5


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
