"""The slot pool, held against a model that knows every array over every slot."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seqkit.engine.codec import address
from seqkit.engine.processes.segment import PAGE, Segment
from seqkit.engine.processes.slots import SlotPool


def a_pool(count: int, slot_bytes: int = PAGE, offset: int = 0, **options: Any) -> SlotPool:
    """Return a pool in which results may stay in all slots."""
    segment = Segment.create(offset + count * slot_bytes)
    return SlotPool(segment, count, slot_bytes, offset, **{"spare": 0, **options})


def reserved(pool: SlotPool) -> int | None:
    return pool.reserve() if pool.available() else None


def a_lease(pool: SlotPool, size: int = PAGE) -> Any:
    slot = reserved(pool)
    assert slot is not None
    assert pool.park(slot)
    return pool.lease(slot, size)


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


State = Enum("State", ["FREE", "OUT", "PARKED", "LEASED", "LENT", "RETAINED"])


class PoolMachine(RuleBasedStateMachine):
    """Slots go out, are leased, kept by workers and given back; arrays over them are dropped in any order."""

    @initialize(count=st.integers(1, 5))
    def begin(self, count: int) -> None:
        self.count = count
        self.pool = a_pool(count, offset=2 * PAGE)
        self.states = dict.fromkeys(range(count), State.FREE)
        self.keepers: list[tuple[int, Any]] = []  # slot, and something that holds memory of it
        self.canaries: dict[int, int] = {}
        self.leases = 0
        self.keeper: dict[int, int] = {}  # the worker that keeps a slot
        self.loans: list[tuple[set[int], list[bool]]] = []  # slots, and whether it is over

    def slots(self, state: State) -> list[int]:
        return [slot for slot, known in self.states.items() if known is state]

    def out(self, data: st.DataObject, becomes: State) -> int:
        """Draw a slot that is out, for what makes it something else."""
        slot: int = data.draw(st.sampled_from(self.slots(State.OUT)))
        self.states[slot] = becomes
        return slot

    @rule()
    def reserve(self) -> None:
        free, slot = self.slots(State.FREE), reserved(self.pool)
        assert slot in free or (slot is None and not free)
        if slot is not None:
            self.pool.block(slot, PAGE)[:] = 255  # what a worker writes
            self.states[slot] = State.OUT

    @precondition(lambda self: self.slots(State.OUT))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.pool.release(self.out(data, State.FREE))

    @precondition(lambda self: self.slots(State.OUT))
    @rule(data=st.data())
    def park(self, data: st.DataObject) -> None:
        assert self.pool.park(self.out(data, State.PARKED))

    def parked(self, data: st.DataObject, becomes: State) -> int:
        slot: int = data.draw(st.sampled_from(self.slots(State.PARKED)))
        self.states[slot] = becomes
        return slot

    @precondition(lambda self: self.slots(State.PARKED))
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        self.pool.release(self.parked(data, State.FREE))

    @precondition(lambda self: self.slots(State.PARKED))
    @rule(data=st.data(), size=st.integers(64, PAGE))
    def lease(self, data: st.DataObject, size: int) -> None:
        slot = self.parked(data, State.LEASED)
        self.leases += 1
        self.canaries[slot] = self.leases % 251
        self.pool.block(slot, PAGE)[:] = self.canaries[slot]
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
    @rule(data=st.data(), worker=st.integers(0, 2))
    def retire(self, data: st.DataObject, worker: int) -> None:
        slot = self.out(data, State.RETAINED)
        self.pool.retire(slot, worker)
        self.keeper[slot] = worker

    @rule(worker=st.integers(0, 2))
    def free_retained(self, worker: int) -> None:
        self.pool.free_retained(worker)
        for slot in [slot for slot, keeper in self.keeper.items() if keeper == worker]:
            del self.keeper[slot]
            self.states[slot] = State.FREE

    @rule(operation=st.sampled_from([("release",), ("retire", 0), ("lease", 64)]))
    def refuse_what_is_not_out(self, operation: Any) -> None:
        name, *rest = operation
        allowed = {"release": [*self.slots(State.OUT), *self.slots(State.PARKED)]}
        allowed |= {"retire": self.slots(State.OUT), "lease": self.slots(State.PARKED)}
        for slot in set(self.states) - set(allowed[name]):
            with pytest.raises(KeyError):
                getattr(self.pool, name)(slot, *rest)

    @invariant()
    def the_model_agrees(self) -> None:
        if not hasattr(self, "pool"):
            return
        assert self.pool.available() == len(self.slots(State.FREE))
        assert self.pool.leased() == len(self.slots(State.LEASED)) + len(self.slots(State.LENT))
        assert self.pool.has_leases() == bool(self.slots(State.LEASED))
        assert self.pool.retained() == len(self.slots(State.RETAINED))

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
            for slot in [*self.slots(State.OUT), *self.slots(State.PARKED)]:
                self.pool.release(slot)
            for worker in range(3):
                self.pool.free_retained(worker)
            assert self.pool.available() == self.count


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_slot_stays_leased_for_as_long_as_anything_sees_its_memory() -> None:
    for derive in DERIVED:
        pool = a_pool(1)
        array = a_lease(pool)
        keeper = derive(array)
        del array
        assert (pool.available(), pool.leased()) == (0, 1)
        del keeper
        assert pool.available() == 1


def test_slots_lie_side_by_side_from_where_they_are_told_to_and_are_page_aligned() -> None:
    segment = Segment.create(8 * PAGE)
    pool = SlotPool(segment, 3, slot_bytes=2 * PAGE, offset=PAGE)
    for slot in range(3):
        pool.block(slot, 2 * PAGE)[:] = slot + 1
        assert address(pool.block(slot, 1)) % PAGE == 0
    assert segment.block(0, 8 * PAGE)[::PAGE].tolist() == [0, 1, 1, 2, 2, 3, 3, 0]
    assert len(pool.block(1, 10)) == 10


def test_the_slot_that_was_freed_last_is_used_first() -> None:
    pool = a_pool(3)
    assert [reserved(pool) for _ in range(4)] == [0, 1, 2, None]
    arrays = {slot: pool.lease(slot, PAGE) for slot in (0, 1) if pool.park(slot)}
    pool.release(2)
    del arrays[1], arrays[0]
    assert [reserved(pool) for _ in range(3)] == [0, 1, 2]


# -------------------------------------------------------------------- several threads


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


def test_no_slot_is_given_out_twice_at_any_moment_at_which_another_thread_gives_one_back() -> None:
    for operation in ("release", "retire", "park", "free_retained"):
        pool = a_pool(2)
        slot, seen = pool.reserve(), list[int | None]()
        if operation == "free_retained":
            pool.retire(slot, 5)
        arguments = {"retire": (slot, 5), "free_retained": (5,)}.get(operation, (slot,))
        step = partial(lambda pool, seen: seen.append(reserved(pool)), pool, seen)
        stepping(step, getattr(pool, operation), *arguments)
        step()
        assert len(seen) > 5
        given = sorted(each for each in seen if each is not None)
        assert given == ([1] if operation in ("retire", "park") else [0, 1])


def test_a_slot_that_a_worker_retains_is_free_when_that_worker_is_dead() -> None:
    pool = a_pool(2)
    pool.retire(pool.reserve(), 5)
    pool.free_retained(6)
    assert (pool.retained(), pool.available()) == (1, 1)
    for _ in range(2):
        pool.free_retained(5)
        assert (pool.retained(), pool.available()) == (0, 2)


def test_results_stay_in_their_slots_while_enough_slots_are_left() -> None:
    for spare, parked in ((0, 5), (2, 3), (5, 0)):
        pool = a_pool(5, spare=spare)
        for number in range(5):
            slot = pool.reserve()
            if not pool.park(slot):
                pool.release(slot)
            assert pool.copies == max(0, number + 1 - parked)
        assert pool.available() == 5 - parked


def test_a_lease_may_start_while_others_are_scanned() -> None:
    pool = a_pool(2)
    array = a_lease(pool)

    class Meanwhile(list[int]):
        def __iter__(self) -> Iterator[int]:
            pool.lend(lambda: False)  # another thread forks
            return super().__iter__()

    pool._loans.append((Meanwhile(), lambda: False))
    assert pool.leased() == 1
    del array
    assert (pool.leased(), pool.has_leases()) == (1, False)


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
        slot = reserved(pool)
        assert slot is not None
        pool.block(slot, PAGE)[:] = number % 256
        pool.park(slot)
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
    assert (pool.available(), pool.leased()) == (0, 1)
    del second
    assert pool.available() == 1


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
        del array
        os._exit(pool.available())  # in the child's own books only
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert reserved(pool) is None
    assert len(array) == PAGE


def test_arrays_that_live_at_interpreter_exit_disturb_nothing() -> None:
    script = """
from seqkit.engine.processes.slots import PAGE, Segment, SlotPool
pool = SlotPool(Segment.create(PAGE), 1, PAGE, spare=0)
slot = pool.reserve()
pool.park(slot)
kept = [pool.lease(slot, PAGE)[5:]]
kept.append(kept)
print("ok")
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "ok\n", "")


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
        slot = reserved(pool)
        assert slot is not None
        assert pool.park(slot)
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
    assert reserved(pool) is None
    assert (pool.leased(), pool.has_leases()) == (1, False)
    device.copies = False
    assert pool.available() == 1
