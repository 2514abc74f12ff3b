"""Where engines of this kind bite: one test for each line of the list that the design was made against.

What needs whole scripts and killed parents is in `test_faults.py`; what a fake backend shows best, in
`test_scheduler.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine import threads
from seqkit.engine.processes import transport as processes
from seqkit.engine.processes.block import JobBlock
from seqkit.engine.processes.wire import Control
from seqkit.engine.reader import Reader
from seqkit.engine.signals import CtrlCHeld, SignalsHeld

from .fake import a_job
from .kinds import KINDS, PROCESSES, Kind
from .scripts import finished, forked
from .traces import children, descriptors, pids_of, until, until_gone

LARGE = 8192

FORK = PROCESSES[0]


def once(path: Path) -> bool:
    """Is this the first call with that path, over all processes?"""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def full(i: int) -> Any:
    return np.full(LARGE, i)


def right(items: list[Any], start: int = 0) -> bool:
    return all((item == i).all() for i, item in enumerate(items, start))


@pytest.mark.parametrize("chunk_size", [1, 3])
def test_a_worker_killed_between_taking_a_job_and_claiming_it_loses_nothing(
    chunk_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Control.claim

    def die_before(self: Control, worker: int, ticket: int, now_ns: int) -> None:
        if ticket == 7 and once(tmp_path / "died"):
            os.kill(os.getpid(), signal.SIGKILL)
        claim(self, worker, ticket, now_ns)

    monkeypatch.setattr(Control, "claim", die_before)
    with FORK.ahead(sk.smap(full, range(60)), chunk_size=chunk_size) as node:
        assert right(list(node))
        assert node.statistics().restarts == 1


def test_a_slow_claim_survives_the_death_of_another_worker_before_its_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Control.claim
    dying, slow = tmp_path / "dying", tmp_path / "slow"

    def claim_badly(self: Control, worker: int, ticket: int, now_ns: int) -> None:
        # Two workers hold a job each that nobody can tell whose it is; one dies, one goes on much later.
        if ticket in (8, 9):
            if once(dying):
                dying.write_text(str(os.getpid()))
                until(slow.exists)
                os.kill(os.getpid(), signal.SIGKILL)
            elif once(slow):
                until(lambda: not os.path.exists(f"/proc/{dying.read_text()}"))  # the parent has buried it
                until(lambda: False, within_s=0.2)
        claim(self, worker, ticket, now_ns)

    monkeypatch.setattr(Control, "claim", claim_badly)
    with FORK.ahead(sk.smap(full, range(60)), chunk_size=1, retries=0) as node:
        assert right(list(node))
        assert node.statistics().restarts == 1
        backend = the_backend(node)
        until(lambda: not backend.receive(0.01) and not backend._sent)
        assert backend.pool.available() == node.statistics().slots


def test_a_job_that_is_claimed_and_delivered_while_it_is_given_up_is_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Control.claim
    taken, go, begun, finish = (tmp_path / name for name in ("taken", "go", "begun", "finish"))

    def claim_late(self: Control, worker: int, ticket: int, now_ns: int) -> None:
        taken.touch()
        until(go.exists)
        claim(self, worker, ticket, now_ns)

    def item(i: int) -> int:
        begun.touch()
        until(finish.exists)
        return i

    monkeypatch.setattr(Control, "claim", claim_late)
    with FORK.ahead(sk.smap(item, range(3)), 1, chunk_size=1) as node:
        backend = the_backend(node.start())
        backend.submit(a_job(1, [2]))
        backend.flush()
        until(taken.exists)  # and not claimed: for all anybody can tell, by a worker that died
        orphans, revoke = backend._orphans, JobBlock.revoke

        def revoked_a_little_late(block: JobBlock) -> None:
            go.touch()
            until(begun.exists)
            revoke(block)

        def looked_for_a_little_late() -> Any:
            if begun.exists():
                finish.touch()
                until(lambda: backend._control.claimed(0)[0] == 0)
            return orphans()

        monkeypatch.setattr(JobBlock, "revoke", revoked_a_little_late)
        monkeypatch.setattr(backend, "_orphans", looked_for_a_little_late)
        backend._send_back_orphans()
        (done,) = backend.receive(0)
        assert done.job.ticket == 1
        assert done.result.open().values == [2]
        assert backend.receive(0) == []
        assert backend.pool.available() == node.statistics().slots


def test_a_job_that_is_just_being_sent_is_not_taken_for_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    with FORK.ahead(range(3), 1) as node:
        assert node[0] == 0
        backend = the_backend(node)
        (pid,) = pids_of(node)
        os.kill(pid, signal.SIGSTOP)
        looking = threading.Thread(target=lambda: found.append(backend._orphans()))
        write = backend._write

        def look_and_write(fd: int, records: list[bytes]) -> None:  # the job is noted, and not yet written
            if records:
                looking.start()
                looking.join(0.1)  # it waits for us
            write(fd, records)

        monkeypatch.setattr(backend, "_write", look_and_write)
        backend.submit(a_job(99, [1]))
        backend.flush()
        monkeypatch.undo()
        looking.join()
        assert found == [[]]
        os.kill(pid, signal.SIGCONT)
        assert until(lambda: [event.job.ticket for event in backend.receive(0.1)]) == [99]


def the_backend(node: sk.Prefetch) -> Any:
    scheduler: Any = node.engine._scheduler
    return scheduler.backend


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_of_a_chunk_whose_worker_dies_one_item_is_named_and_all_others_come(kind: Kind) -> None:
    def work(i: int) -> int:
        if i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    with kind.ahead(sk.smap(work, range(12)), chunk_size=12, retries=0) as node:
        iterator = iter(node)
        assert list(islice(iterator, 5)) == [0, 1, 2, 3, 4]
        with pytest.raises(sk.WorkerDied, match=r"prefetch\[5\].*SIGKILL") as caught:
            next(iterator)
        assert caught.value.index == 5
        assert list(iterator) == [6, 7, 8, 9, 10, 11]


def test_memory_of_a_slot_that_outlives_its_item_is_noticed() -> None:
    kept: list[Any] = []

    def keeping(i: int) -> Any:
        array = sk.empty(LARGE, np.int64)
        array[:] = i
        if i < 4:
            kept.append(array)  # a cache, a global, a buffer that is used again
        if i >= 30:
            kept.clear()
        return array

    with FORK.ahead(sk.smap(keeping, range(60)), nworkers=1, max_buffered=2) as node:
        iterator = iter(node)
        assert all((array == i).all() for i, array in zip(range(20), iterator, strict=False))
        seen = node.statistics()
        assert (seen.retired, seen.misses, seen.copies) == (1, 1, 0)
        assert right(list(iterator), 20)


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_an_item_that_fails_leaves_nothing_of_its_slot_behind(kind: Kind) -> None:
    def failing(i: int) -> Any:
        array = sk.empty(LARGE, np.int64)
        array[:] = i
        if i % 2:
            raise ValueError(array)
        return array

    with kind.ahead(sk.smap(failing, range(40)), 1, start_hook=gc.disable) as node:
        iterator = iter(node)
        for i in range(40):
            with pytest.raises(sk.EvaluationError) if i % 2 else contextlib.nullcontext():
                assert (next(iterator) == i).all()
        assert (node.statistics().retired, node.statistics().misses) == (0, 0)


def test_temporary_arrays_of_maps_over_a_batch_take_no_slot_and_no_pipe() -> None:
    batches = sk.batch(sk.smap(full, range(80)), 8, collate_fn=np.stack)
    with FORK.ahead(sk.smap(lambda batch: batch, batches), 1, start_hook=lambda: gc.disable()) as node:
        assert [batch[0, 0] for batch in node] == list(range(0, 80, 8))
        assert (node.statistics().retired, node.statistics().misses) == (0, 0)


def test_garbage_cycles_of_an_item_are_not_kept() -> None:
    def saving(i: int) -> Any:
        array = sk.empty(LARGE, np.int64)
        array[:] = i
        try:
            raise KeyError(i)
        except KeyError as error:
            saved = error  # whose traceback has this frame
        assert saved.args == (i,)
        return array

    with FORK.ahead(sk.smap(saving, range(50)), 1, start_hook=lambda: gc.disable()) as node:
        assert right(list(node))
        assert (node.statistics().retired, node.statistics().misses) == (0, 0)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_raised_error_keeps_nothing_of_the_consumer_alive(kind: Kind) -> None:
    def failing(i: int) -> Any:
        if i == 5:
            raise ValueError(i)
        return full(i)

    def read() -> weakref.ref[Any]:
        items = iter(node)
        held = [next(items) for _ in range(5)]
        with contextlib.suppress(sk.EvaluationError):
            next(items)
        return weakref.ref(held[0])

    with kind.ahead(sk.smap(failing, range(9)), 1) as node:
        gc.disable()
        try:
            first = read()
            assert until(lambda: first() is None)  # a worker may still be about to let go of its job
        finally:
            gc.enable()


def test_unread_results_are_released_when_threads_end() -> None:
    made: list[weakref.ref[Any]] = []

    def kept(i: int) -> Any:
        made.append(weakref.ref(array := full(i)))
        return array

    node = sk.prefetch(sk.smap(kept, range(40)), 2, chunk_size=1)
    items = iter(node)
    next(items)
    del items
    node.close()
    assert not any(array() is not None for array in made)


def test_the_slot_that_a_worker_retains_comes_back_when_it_dies() -> None:
    kept: list[Any] = []

    def keeping(i: int) -> Any:
        kept.append(sk.empty(LARGE, np.int64))
        kept[-1][:] = i
        return kept[-1]

    with FORK.ahead(sk.smap(keeping, range(8)), nworkers=1, chunk_size=1, retries=0) as node:
        assert right(list(node))
        assert node.statistics().retired == 1
        os.kill(pids_of(node)[0], signal.SIGKILL)
        assert right(list(node[:3]))
        assert node.statistics().retired == 1


@pytest.mark.parametrize("chunk_size", [1, 7, "auto"])
def test_a_buffer_used_for_every_item_gives_every_item_right(chunk_size: int | str) -> None:
    buffer: list[Any] = []

    def reusing(i: int) -> Any:
        if not buffer:
            buffer.append(sk.empty(LARGE, np.int64))
        buffer[0][:] = i
        return buffer[0]

    with FORK.ahead(sk.smap(reusing, range(100)), nworkers=1, chunk_size=chunk_size) as node:
        assert right(list(node))


def test_nothing_beneath_a_cache_allocates_in_the_slot() -> None:
    from seqkit.core.worker import private_memory

    def cached(i: int) -> Any:
        with private_memory():
            array = sk.empty(LARGE, np.int64)
        array[:] = i
        return array

    remembered: dict[int, Any] = {}

    def lookup(i: int) -> Any:
        return remembered.setdefault(i % 3, cached(i % 3))

    with FORK.ahead(sk.smap(lookup, range(30)), nworkers=1) as node:
        assert all((item == i % 3).all() for i, item in enumerate(node))
        assert node.statistics().retired == 0


def test_only_the_evaluating_thread_allocates_in_the_slot() -> None:
    def elsewhere(i: int) -> bool:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(sk.empty(LARGE)))
        thread.start()
        thread.join()
        return found[0].base is None

    with FORK.ahead(sk.smap(elsewhere, range(3))) as node:
        assert all(node)


def test_a_process_that_an_item_forks_does_not_allocate_in_the_slot() -> None:
    def forking(i: int) -> Any:
        ours = sk.empty(LARGE, np.int64)
        pid = os.fork()
        if pid == 0:
            theirs = sk.empty(LARGE, np.int64)
            theirs[:] = -1
            os._exit(0 if theirs.base is None else 1)
        assert os.waitpid(pid, 0)[1] == 0
        ours[:] = i
        return ours

    with FORK.ahead(sk.smap(forking, range(6))) as node:
        assert right(list(node))
        assert node.statistics().retired == 0


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_a_process_that_the_user_forks_holds_nothing_of_the_engine(kind: Kind) -> None:
    before = set(descriptors().values())
    with kind.ahead(sk.smap(full, range(10))) as node:
        list(node)
        workers = children()
        engines = set(descriptors().values()) - before
        assert {kind.partition(":[")[0] for kind in engines} >= {"anon_inode", "pipe"}

        def holds_nothing() -> bool:
            # A mapping keeps a descriptor of its own, which ends with it.
            return all("memfd" in kind for kind in engines.intersection(descriptors().values()))

        with forked(holds_nothing) as answer:
            assert answer()
            node.close()  # while the child lives, which could hold the ends of pipes open
            assert not workers & children()


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_closing_does_not_wait_for_a_process_that_holds_every_descriptor(kind: Kind) -> None:
    with kind.ahead(sk.smap(full, range(10))) as node:
        list(node)
        workers = pids_of(node)
        pid = ctypes.PyDLL(None).fork()  # no hook of Python's runs
        if pid == 0:
            signal.pause()
        try:
            node.close()
            assert not until_gone(workers, within_s=0)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_a_worker_that_dies_while_it_sends_is_noticed_whoever_holds_its_pipe(
    kind: Kind, tmp_path: Path
) -> None:
    def item(i: int) -> Any:
        if i != 1:
            return i
        if os.fork() == 0:  # a process of the item's, which inherits the worker's end of the pipe
            while not (tmp_path / "end").exists():
                time.sleep(0.01)
            os._exit(0)
        pid = os.getpid()
        threading.Thread(target=lambda: (time.sleep(0.2), os.kill(pid, signal.SIGKILL))).start()
        return b"x" * (1 << 28)

    with kind.ahead(sk.smap(item, range(4)), shm_size=0, retries=0, chunk_size=1) as node:
        iterator = iter(node)
        assert next(iterator) == 0
        with pytest.raises(sk.WorkerDied, match=r"prefetch\[1\].*SIGKILL"):
            next(iterator)
        assert list(iterator) == [2, 3]
    (tmp_path / "end").touch()
    for orphan in children():
        until_gone([orphan], within_s=10)


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_a_paused_iterator_does_not_starve_another_one(kind: Kind) -> None:
    with kind.ahead(sk.smap(full, range(80)), max_buffered=4, shm_size=2**22) as node:
        paused = [iter(node) for _ in range(6)]
        begun = [[next(iterator)] for iterator in paused]
        assert right(list(node))
        for items, iterator in zip(begun, paused, strict=True):
            assert right(items + list(iterator))


def test_results_that_were_copied_out_of_a_paused_iterator_may_be_dropped_unread() -> None:
    with FORK.ahead(sk.smap(full, range(60)), max_buffered=4, chunk_size=1) as node:
        paused = [iter(node) for _ in range(4)]
        assert all((array == 0).all() for array in map(next, paused))
        assert right(list(node))
        assert node.statistics().copies > 0
        paused.clear()
        assert right(list(node))
        assert the_backend(node).pool.available() == node.statistics().slots


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_pipes_of_a_single_page_are_enough(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    make = os.pipe

    def narrow() -> tuple[int, int]:
        ends = make()
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
        return ends

    monkeypatch.setattr(os, "pipe", narrow)
    with kind.ahead(range(3000), max_buffered=3000, chunk_size=1) as node:
        assert list(node) == list(range(3000))


def test_a_thread_that_is_stuck_is_left_behind_and_replaced() -> None:
    release = threading.Event()

    def stuck(i: int) -> int:
        if i == 1:
            release.wait()
        return i

    with KINDS[0].ahead(sk.smap(stuck, range(6)), timeout=0.2) as node:
        iterator = iter(node)
        assert next(iterator) == 0
        with pytest.raises(sk.ItemTimeout, match=r"prefetch\[1\] took longer than 0.2 s"):
            next(iterator)
        assert list(iterator) == [2, 3, 4, 5]
        node.close()  # does not wait for it
    release.set()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_after_a_permanent_failure_an_iterator_raises_once_and_then_ends(kind: Kind) -> None:
    def hook() -> None:
        raise OSError("no licence")

    with kind.ahead(range(10), start_hook=hook) as node:
        iterator = iter(node)
        with pytest.raises(RuntimeError, match="no licence"):
            next(iterator)
        assert list(iterator) == []


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_five_hundred_maps_in_a_row_reach_the_workers(kind: Kind) -> None:
    chain: Any = range(20)
    for _ in range(500):
        chain = sk.smap(lambda x: x + 1, chain)
    with kind.ahead(chain) as node:
        assert list(node) == list(range(500, 520))


def test_replacements_do_not_fork_where_threads_matter(tmp_path: Path) -> None:
    def work(i: int) -> int:
        if i == 3 and once(tmp_path / "died"):
            os._exit(1)
        return i

    leave = threading.Event()
    with sk.prefetch(sk.smap(work, range(10)), 2, "process", chunk_size=1) as node:
        node.start()
        forks: list[int] = []
        real, os.fork = os.fork, _counting(os.fork, forks)
        thread = threading.Thread(target=lambda: leave.wait())
        thread.start()
        try:
            assert list(node) == list(range(10))
        finally:
            os.fork = real
            leave.set()
            thread.join()
        assert forks == []
        assert node.statistics().restarts == 1


def _counting(fork: Callable[[], int], forks: list[int]) -> Callable[[], int]:
    def counted() -> int:
        forks.append(1)
        return fork()

    return counted


def test_workers_are_not_forked_unless_asked_where_threads_matter() -> None:
    leave = threading.Event()
    thread = threading.Thread(target=lambda: leave.wait())
    thread.start()
    forks: list[int] = []
    real, os.fork = os.fork, _counting(os.fork, forks)
    try:
        with sk.prefetch(sk.smap(full, range(5)), 2, "process") as node:
            assert right(list(node))
    finally:
        os.fork = real
        leave.set()
        thread.join()
    assert forks == []


def idle_backend(capacity: int) -> processes.Processes:
    """Return the backend of a worker that does nothing."""
    settings = FORK.ahead(range(9), 1, shm_size=0, seed=0)._settings
    backend = processes.Processes(sk.view(range(9)), settings, 0)
    backend.capacity = backend._slots = capacity
    backend.start()
    (handle,) = backend._team.handles.values()
    until(lambda: backend.receive(0.01) is None or handle.state == "ready")
    os.kill(handle.pid, signal.SIGSTOP)
    return backend


@pytest.mark.parametrize("burst", [1, 33, 63])
def test_all_jobs_that_may_be_in_flight_fit_the_pipe(burst: int) -> None:
    backend = idle_backend(1000)
    try:
        os.set_blocking(backend._fds["jobs_w"], False)  # so that a write that would wait raises
        # The first page of the pipe is not free before its last byte is read.
        for ticket in range(backend.capacity):
            backend.submit(a_job(ticket + 1, range(1)))
            if (ticket + 1) % burst == 0:
                backend.flush()
        backend.flush()
    finally:
        backend.close()


def test_a_forked_process_does_not_touch_jobs_that_are_about_to_be_sent() -> None:
    backend = idle_backend(4)
    try:
        job = a_job(1, range(1))
        backend.submit(job)

        def cancel() -> bool:
            backend.cancel(job)
            return True

        with forked(cancel) as in_child:
            assert in_child()
        assert job.progress.block.belongs_to(1)
    finally:
        backend.close()


def test_a_plan_that_closes_the_node_gets_an_error() -> None:
    def plan() -> Any:
        yield 0
        node.close()
        yield 1

    node = FORK.ahead(sk.smap(full, range(9)), chunk_size=1)
    with pytest.raises(RuntimeError, match="closed"):
        list(node._iter(plan()))


def test_workers_of_quick_items_do_not_interrupt_the_reader_when_they_wake(tmp_path: Path) -> None:
    script = """
        import os
        from seqkit.engine.processes.worker import QUICK_NS, SLOW_NS, Scheduling

        scheduling, policies = Scheduling(), []
        for cost_ns in (QUICK_NS - 1, SLOW_NS - 1, SLOW_NS + 1, QUICK_NS + 1, 0):
            scheduling.adapt(cost_ns)
            policies.append(os.sched_getscheduler(0))
        batch, other = os.SCHED_BATCH, os.SCHED_OTHER
        assert policies == [batch, batch, other, other, batch], policies
    """
    assert finished(tmp_path, script) == (0, "", "")


def test_workers_keep_a_policy_that_somebody_chose(tmp_path: Path) -> None:
    script = """
        import os
        import seqkit as sk

        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        with sk.prefetch(sk.smap(lambda _: os.sched_getscheduler(0), range(4)), 2, "process") as node:
            assert set(node) == {os.SCHED_IDLE}, list(node)
    """
    assert finished(tmp_path, script) == (0, "", "")


@pytest.mark.parametrize("whole", [np.int64, np.int32, np.uint8, int])
def test_empty_accepts_a_size_computed_by_numpy(whole: type) -> None:
    def padded(i: int) -> Any:
        rows = sk.empty((whole(3), whole(200)), np.int64)
        rows[:] = i
        return rows, sk.empty(whole(7)), np.full(5000, i)  # which lies elsewhere

    with FORK.ahead(sk.smap(padded, range(4)), nworkers=1) as node:
        for i, (rows, seven, other) in enumerate(node):
            assert rows.shape == (3, 200)
            assert (rows == i).all()
            assert seven.shape == (7,)
            assert (other == i).all()


def read_twice(node: Any, indices: range, arm: Callable[[], None]) -> None:
    """Read every item with something armed that may raise TimeoutError, and once more."""
    for i in indices:
        arm()
        with contextlib.suppress(TimeoutError):
            assert node[i] == i
        assert node[i] == i


def test_jobs_not_sent_when_a_signal_handler_raised_are_sent_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FORK.ahead(range(20), nworkers=1, max_buffered=1) as node:
        assert [node[0], node[1]] == [0, 1]
        backend: Any = node.engine._scheduler.backend  # type: ignore[union-attr]
        flush = backend.flush

        def interrupted() -> None:
            monkeypatch.setattr(backend, "flush", flush)
            raise TimeoutError("what a handler of SIGALRM may raise")

        read_twice(node, range(2, 12), lambda: monkeypatch.setattr(backend, "flush", interrupted))


def test_a_scan_that_a_signal_handler_interrupted_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Else several items that are there are handed out at once, and few reads come to the scheduler.
    with FORK.ahead(range(100), nworkers=1, max_buffered=1) as node:
        assert [node[i] for i in range(3)] == [0, 1, 2]
        read = Reader.next

        def interrupted(reader: Reader) -> Any:
            monkeypatch.setattr(Reader, "next", read)
            read(reader)
            raise TimeoutError("what a handler of SIGALRM may raise")

        read_twice(node, range(3, 40), lambda: monkeypatch.setattr(Reader, "next", interrupted))
        monkeypatch.setattr(Reader, "next", read)


# -------------------------------------------------------------------- Ctrl-C, put off


@pytest.mark.parametrize("beside", ["nobody", "another thread"])
def test_ctrl_c_is_put_off_to_the_end_of_a_block(beside: str) -> None:
    end, handler = threading.Event(), signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=end.wait)
    if beside == "another thread":  # which the kernel may give the signal to
        thread.start()
    done = []
    try:
        with pytest.raises(KeyboardInterrupt), CtrlCHeld():  # noqa: PT012
            os.kill(os.getpid(), signal.SIGINT)
            until(lambda: False, 0.05)
            done.append(signal.getsignal(signal.SIGINT) != handler)
    finally:
        end.set()
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) == handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_ctrl_c_that_is_put_off_meets_the_handler_of_the_user() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        with CtrlCHeld():
            with CtrlCHeld():
                signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert seen == []
        assert seen == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_ctrl_c_that_python_does_not_handle_is_left_alone(handler: Any) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        with CtrlCHeld():
            assert signal.getsignal(signal.SIGINT) == handler
        assert signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_starting_waits_for_a_late_thread_in_spite_of_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    # CPython crashes when a thread runs its first instruction after the interpreter has ended.
    may_boot, boots, told = threading.Event(), threading.Event(), threading.Event()
    boot = threading.Thread._bootstrap  # type: ignore[attr-defined]

    def late(thread: threading.Thread) -> None:
        boots.set()
        may_boot.wait()
        boot(thread)

    def press() -> None:
        boots.wait()
        os.kill(os.getpid(), signal.SIGINT)
        told.wait(0.2)
        may_boot.set()

    pressing = threading.Thread(target=press)
    pressing.start()
    monkeypatch.setattr(threading.Thread, "_bootstrap", late)
    with sk.prefetch(range(10), 1, "thread") as node:
        with pytest.raises(KeyboardInterrupt):
            node.start()
        booted = may_boot.is_set()
        told.set()
        pressing.join()
        assert booted
        assert list(node) == list(range(10))


def test_threads_end_though_ctrl_c_interrupted_their_close(monkeypatch: pytest.MonkeyPatch) -> None:
    struck = []

    class Struck(SimpleQueue[Any]):
        def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
            super().put(item, block, timeout)
            if getattr(item, "closed", False) and not struck:  # a place in the queue that ends a worker
                struck.append(True)
                raise KeyboardInterrupt

    monkeypatch.setattr(threads, "SimpleQueue", Struck)
    node = sk.prefetch(range(10), 3, "thread").start()
    with pytest.raises(KeyboardInterrupt):
        node.close()
    node.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("seqkit")]


def test_the_main_thread_of_python_may_differ_from_that_of_threading(tmp_path: Path) -> None:
    script = """
        import _thread

        def use():
            try:
                import seqkit as sk
                with sk.prefetch(range(9), 2, "thread") as node:
                    print(list(node))
            finally:
                done.release()

        done = _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(use, ())
        done.acquire()
    """
    assert finished(tmp_path, script) == (0, f"{list(range(9))}\n", "")


def test_in_other_threads_a_child_that_is_forked_gets_no_signal() -> None:
    masks = []

    def held() -> None:
        with SignalsHeld():
            masks.append(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set()))
        masks.append(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set()))

    thread = threading.Thread(target=held)
    thread.start()
    thread.join()
    assert masks == [True, False]
