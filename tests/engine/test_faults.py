"""Items, workers and parents that fail in every way: one item is named, all others come, nothing stays."""

from __future__ import annotations

import errno
import faulthandler
import math
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import seqkit as sk
from seqkit.core.iteration import restarting
from seqkit.core.worker import WorkerInfo
from seqkit.engine.processes import transport, worker
from seqkit.engine.processes.team import MOST_DEATHS, Team, WorkerHandle
from seqkit.engine.protocol import PrefetchError
from seqkit.engine.results import RemoteError
from seqkit.engine.threads import Threads

from ..helpers import mostly_stress
from .kinds import CONTEXTS, KINDS, PROCESSES, Kind
from .scripts import PATIENCE_S, finished, running
from .traces import (
    children,
    descriptors,
    drawn,
    is_gone,
    known_pids,
    pids_of,
    reap_orphans,
    state,
    until,
    until_gone,
)

# Functions that workers call are defined inside others: they travel by value, no worker imports this module.

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_kind_of_process = pytest.mark.parametrize("kind", PROCESSES, ids=str)
every_shipping_kind = pytest.mark.parametrize("kind", PROCESSES[1:], ids=str)
from_any_thread = pytest.mark.parametrize("where", ["main thread", "other thread"])


def run(where: str, body: Callable[[], None]) -> None:
    """Call `body` here, or in a thread of its own."""
    if where == "main thread":
        body()
        return
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            body()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def misbehaving(faults: dict[int, str], n: int, marks: Path | None = None) -> sk.View[Any]:
    """Return a view whose item x is x * x, but for those of `faults`; tries are marked in a file."""

    class LocalError(Exception):  # of no module: cannot be pickled by reference
        def __init__(self) -> None:
            super().__init__("local")
            self.lock = threading.Lock()

    class TwoArguments(Exception):  # pickles, but cannot be rebuilt
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} and {two}")

    def item(x: int) -> Any:
        fault = faults.get(x)
        if marks is not None:
            with open(marks, "ab", buffering=0) as file:
                file.write(bytes([x]))
        if fault is None:
            return x * x
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if fault == "exception":
            raise ValueError(f"no {x}")
        if fault == "unpicklable exception":
            raise LocalError
        if fault == "un-rebuildable exception":
            raise TwoArguments(1, 2)
        if fault == "StopIteration":
            raise StopIteration
        if fault == "SystemExit":
            raise SystemExit(3)
        if fault == "KeyboardInterrupt":
            raise KeyboardInterrupt
        if fault == "unpicklable result":
            return threading.Lock()
        if fault == "os._exit(0)":
            os._exit(0)
        if fault == "os._exit(3)":
            os._exit(3)
        os.kill(os.getpid(), getattr(signal, fault))
        time.sleep(3600)
        raise AssertionError

    return sk.smap(item, range(n))


# -------------------------------------------------------------------- items that raise

RAISING = {
    0: "exception",
    3: "unpicklable exception",
    4: "un-rebuildable exception",
    5: "StopIteration",
    11: "SystemExit",
    12: "KeyboardInterrupt",
    19: "unpicklable result",
}
SAYS = {
    "exception": r"smap\[0\] failed: ValueError: no 0",
    "unpicklable exception": r"smap\[3\] failed: LocalError: local",
    "un-rebuildable exception": r"smap\[4\] failed: TwoArguments: 1 and 2",
    "StopIteration": r"smap\[5\] failed: StopIteration",
    "SystemExit": r"prefetch\[11\] failed: SystemExit: 3",
    "KeyboardInterrupt": r"prefetch\[12\] failed: KeyboardInterrupt",
    "unpicklable result": r"prefetch\[19\] failed: .*NotSent: .*lock.*cannot be sent to the consumer",
}


@from_any_thread
@every_kind
@pytest.mark.parametrize("chunk_size", [8, "auto"])
def test_an_item_that_raises_affects_no_other_item(kind: Kind, where: str, chunk_size: Any) -> None:
    faults = {x: fault for x, fault in RAISING.items() if kind.method == "process" or x != 19}

    def body() -> None:
        source = misbehaving(faults, 20)
        with kind.ahead(source, chunk_size=chunk_size) as ahead:
            seen = drawn(iter(ahead))
            assert len(seen) == 20
            for x, value in enumerate(seen):
                if x not in faults:
                    assert value == x * x
                else:
                    check_raised(kind, ahead, source, x, faults[x], value)
            for x in (19, 12, 11, 7, 5, 0):
                if x in faults:
                    with pytest.raises(sk.EvaluationError, match=SAYS[faults[x]]):
                        ahead[x]
                else:
                    assert ahead[x] == x * x
            assert ahead.statistics().restarts == 0

    run(where, body)


def check_raised(kind: Kind, ahead: sk.Prefetch, source: Any, x: int, fault: str, error: Any) -> None:
    assert type(error) is sk.EvaluationError
    assert re.search(SAYS[fault], str(error))
    whose = ahead if SAYS[fault].startswith("prefetch") else source
    assert (error.view, error.index) == (whose, x)
    assert error.path in [(), ((ahead, x), (source, x))[: 1 + (whose is source)]]
    assert error.worker in range(2)
    if fault == "exception":
        assert type(error.__cause__) is ValueError
    if kind.method == "process":
        cause = error.__cause__
        if fault in ("unpicklable exception", "un-rebuildable exception"):
            assert type(cause) is RemoteError
        assert cause is not None
        (note,) = cause.__notes__
        assert ("in item" in note) == (fault != "unpicklable result")


@every_kind
def test_an_error_before_the_first_item_is_the_error_of_every_item(kind: Kind) -> None:
    class Unready(sk.View[int]):
        def __init__(self) -> None:
            super().__init__((), 5)

        def _iter(self, plan: Any) -> Any:
            raise OSError("not mounted")

        def _get(self, i: int) -> int:
            raise OSError("not mounted")

    with kind.ahead(Unready()) as ahead:
        for errors in (drawn(iter(ahead)), drawn(iter(ahead[1:]))):
            assert len(errors) >= 4
            for error in errors:
                assert isinstance(error, sk.EvaluationError)
                assert re.match(r"prefetch\[\d\] failed: OSError: not mounted", str(error))


# -------------------------------------------------------------------- items that kill their worker

FATAL = {
    0: ("os._exit(0)", "exited with status 0"),
    4: ("os._exit(3)", "exited with status 3"),
    5: ("SIGKILL", r"was killed by signal 9 \(SIGKILL\)"),
    9: ("SIGSEGV", r"was killed by signal 11 \(SIGSEGV\)"),
}


@from_any_thread
@every_kind_of_process
def test_an_item_that_kills_two_workers_in_turn_is_named_and_all_others_arrive(
    kind: Kind, where: str
) -> None:
    def body() -> None:
        source = misbehaving({x: fault for x, (fault, _) in FATAL.items()}, 12)
        with kind.ahead(source) as ahead:
            seen = drawn(iter(ahead))
            assert len(seen) == 12
            for x, value in enumerate(seen):
                if x not in FATAL:
                    assert value == x * x
                    continue
                assert type(value) is sk.WorkerDied
                assert isinstance(value, RuntimeError)
                assert re.match(
                    rf"prefetch\[{x}\]: worker [01] \(pid \d+\) {FATAL[x][1]} while computing it,"
                    r" 2 workers in a row",
                    str(value),
                )
                assert (value.index, value.view) == (x, ahead)
                assert value.worker in range(2)
            assert [ahead[x] for x in (11, 8, 1)] == [121, 64, 1]
            with pytest.raises(sk.WorkerDied, match="status 3"):
                ahead[4]
            assert ahead[6] == 36
            assert ahead.statistics().restarts >= 2 * 4 + 2

    run(where, body)


@every_kind_of_process
def test_a_batch_is_named_when_an_item_of_it_kills_the_worker(kind: Kind) -> None:
    batches = sk.batch(misbehaving({5: "SIGKILL"}, 12), 4)
    with kind.ahead(batches) as ahead:
        seen = drawn(iter(ahead))
    assert [type(batch) for batch in seen] == [list, sk.WorkerDied, list]
    assert seen[1].path[0] == (ahead, 1)


@every_kind_of_process
def test_an_item_whose_worker_dies_once_is_delivered(kind: Kind, tmp_path: Path) -> None:
    def item(x: int) -> int:
        if x in (2, 7):
            try:
                os.close(os.open(tmp_path / str(x), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return x

    with kind.ahead(sk.smap(item, range(10)), chunk_size=1) as ahead:
        assert list(ahead) == list(range(10))
        assert ahead.statistics().restarts == 2


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_killing_item_is_tried_as_often_as_the_retries_say(retries: int, tmp_path: Path) -> None:
    marks = tmp_path / "tries"
    source = misbehaving({3: "SIGKILL"}, 6, marks)
    with Kind("process", "fork").ahead(source, retries=retries, chunk_size=1) as ahead:
        seen = drawn(iter(ahead))
    in_turn = f", {retries + 1} workers in a row" if retries else ""
    memory = r"\. Did it run out of memory\? It used up to [\d.]+ MiB\."
    assert re.search(f"while computing it{in_turn}{memory}$", seen.pop(3).message)
    assert seen == [0, 1, 4, 16, 25]
    assert sorted(marks.read_bytes()) == [0, 1, 2, *[3] * (retries + 1), 4, 5]


def test_a_source_whose_every_item_kills_names_every_item() -> None:
    with Kind("process", "fork").ahead(misbehaving(dict.fromkeys(range(6), "SIGKILL"), 6)) as ahead:
        seen = drawn(iter(ahead))
        assert [type(error) for error in seen] == [sk.WorkerDied] * 6
        assert [error.index for error in seen] == list(range(6))


# -------------------------------------------------------------------- items that take too long


@from_any_thread
@every_kind_of_process
def test_an_item_that_stops_its_worker_times_out_once_and_the_worker_is_replaced(
    kind: Kind, where: str, tmp_path: Path
) -> None:
    marks = tmp_path / "tries"

    def body() -> None:
        with kind.ahead(misbehaving({4: "SIGSTOP"}, 10, marks), timeout=1.0) as ahead:
            seen = drawn(iter(ahead))
            error = seen[4]
            assert type(error) is sk.ItemTimeout
            assert isinstance(error, TimeoutError)
            assert re.match(
                r"prefetch\[4\] took longer than 1.0 s in worker [01] \(pid \d+\),"
                r" which was killed after [1-9]\d*\.\d\d s\n",
                f"{error}\n",
            )
            assert (error.index, error.view) == (4, ahead)
            assert seen[:4] + seen[5:] == [x * x for x in range(10) if x != 4]
            assert [ahead[i] for i in (9, 5, 3)] == [81, 25, 9]
            assert ahead.statistics().restarts == 1
            assert marks.read_bytes().count(4) == 1

    run(where, body)


@every_kind
def test_the_time_that_the_consumer_is_busy_does_not_count_for_the_timeout(kind: Kind) -> None:
    options = {"shm_size": 0} if kind.method == "process" else {}  # workers wait until their results are read
    with kind.ahead(sk.smap(lambda x: np.full(100_000, x), range(8)), timeout=1.5, **options) as ahead:
        iterator = iter(ahead)
        assert (next(iterator) == 0).all()
        time.sleep(1.7)
        assert [int(array[0]) for array in iterator] == list(range(1, 8))
        assert ahead.statistics().restarts == 0


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_an_item_whose_worker_died_while_the_consumer_was_busy_did_not_time_out(
    kind: Kind, tmp_path: Path
) -> None:
    def dies_once(x: int) -> int:
        if x == 3 and not (tmp_path / "died").exists():
            time.sleep(0.1)
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    with kind.ahead(sk.smap(dies_once, range(6)), 1, timeout=0.5) as ahead:
        iterator = iter(ahead)
        found = [next(iterator)]
        assert until((tmp_path / "died").exists, 10)
        time.sleep(0.7)
        assert [*found, *iterator] == [*range(6)]


def test_a_thread_that_cannot_be_replaced_is_the_end_of_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Threads, info: WorkerInfo) -> NoReturn:
        raise RuntimeError("can't start new thread")

    released = threading.Event()
    with sk.prefetch(sk.smap(lambda x: x or released.wait(), range(4)), 1, timeout=0.05) as ahead:
        ahead.start()
        launch = Threads._launch
        monkeypatch.setattr(Threads, "_launch", refused)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="worker 0 could not start: RuntimeError: can't start new"):
                list(ahead)
        released.set()
        monkeypatch.setattr(Threads, "_launch", launch)
        ahead.restart()
        assert list(ahead) == [True, 1, 2, 3]


@from_any_thread
def test_a_thread_that_takes_too_long_is_abandoned_and_replaced(where: str) -> None:
    released = threading.Event()
    begun: list[int] = []

    def item(x: int) -> int:
        begun.append(x)
        if x in (2, 3):
            released.wait()
        return x

    def body() -> None:
        try:
            with sk.prefetch(sk.smap(item, range(8)), 2, timeout=0.5) as ahead:
                seen = drawn(iter(ahead))
                assert [type(seen[x]) for x in (2, 3)] == [sk.ItemTimeout] * 2
                assert re.search(
                    r"prefetch\[2\] took longer than 0.5 s in worker [01],"
                    r" which was abandoned after \d+\.\d\d s$",
                    seen[2].message,
                )
                assert seen[:2] + seen[4:] == [0, 1, 4, 5, 6, 7]
                assert ahead[5] == 5
                assert ahead.statistics().restarts == 2
                assert begun.count(2) == begun.count(3) == 1
                assert len(set(threading.enumerate())) >= 4  # two are stuck, two work
        finally:
            released.set()

    run(where, body)


@pytest.mark.parametrize("workers", [1, 2])
def test_threads_that_hang_are_limited_and_the_next_time_out_ends_the_node(workers: int) -> None:
    released = threading.Event()
    before = threading.active_count()

    def item(x: int) -> int:
        released.wait(30)
        return x

    try:
        with sk.prefetch(sk.smap(item, range(30)), workers, timeout=0.05) as ahead:
            *late, last = drawn(iter(ahead))
            assert {type(error) for error in late} <= {sk.ItemTimeout}
            assert isinstance(last, PrefetchError)
            assert f"{workers} abandoned threads still run items that timed out" in str(last)
            assert threading.active_count() - before <= 2 * workers
            released.set()
            ahead.restart()
            assert list(ahead) == list(range(30))
    finally:
        released.set()


def test_a_thread_that_ends_after_all_makes_place_for_another_that_hangs() -> None:
    gates = [threading.Event() for _ in range(6)]

    def item(x: int) -> int:
        gates[x].wait(30)
        return x

    with sk.prefetch(sk.smap(item, range(6)), 1, timeout=0.05, chunk_size=1) as ahead:
        iterator = iter(ahead)
        for gate in gates:
            thread = next(thread for thread in threading.enumerate() if thread.name == "seqkit-0")
            with pytest.raises(sk.ItemTimeout):
                next(iterator)
            gate.set()
            thread.join(30)
        assert next(iterator, None) is None


def test_the_time_that_items_wait_for_a_worker_does_not_count() -> None:
    def item(x: int) -> int:
        time.sleep(0.3)
        return x

    with sk.prefetch(sk.smap(item, range(6)), 1, timeout=1.0) as ahead:
        assert list(ahead) == list(range(6))


@every_kind_of_process
def test_a_worker_that_stops_while_it_sends_a_large_result_times_out(kind: Kind) -> None:
    def item(x: int) -> Any:
        if x != 1:
            return x
        # The pipe is full long before the end, so the worker is still writing when it stops.
        pid = os.getpid()
        threading.Thread(target=lambda: (time.sleep(0.2), os.kill(pid, signal.SIGSTOP))).start()
        return b"x" * (1 << 28)

    with kind.ahead(sk.smap(item, range(4)), timeout=2.0, shm_size=0) as ahead:
        it = iter(ahead)
        assert next(it) == 0
        pids = pids_of(ahead)
        until(lambda: any(state(pid) == "T" for pid in pids))
        seen = drawn(it)
        assert [type(seen[0]), *seen[1:]] == [sk.ItemTimeout, 2, 3]


# -------------------------------------------------------------------- results that do not fit


@from_any_thread
@every_kind_of_process
@pytest.mark.filterwarnings("ignore:prefetch. an item of:RuntimeWarning")
@pytest.mark.parametrize("shm_size", [None, 0, 22 * 8192])
def test_items_of_every_size_come_back_whole(kind: Kind, where: str, shm_size: int | None) -> None:
    sizes = [0, 1, 511, 600, 4096 // 8, 5000, 70_000, 1_000_000]

    def item(x: int) -> Any:
        return {"x": x, "array": np.arange(sizes[x]), "text": "y" * sizes[x]}

    def body() -> None:
        with kind.ahead(sk.smap(item, range(len(sizes))), shm_size=shm_size, chunk_size=1) as ahead:
            for x, got in enumerate(ahead):
                assert got["x"] == x
                assert (got["array"] == np.arange(sizes[x])).all()
                assert got["text"] == "y" * sizes[x]
                got["array"][:] = -1  # it is ours
            assert ahead.statistics().misses == (3 if shm_size else 0)  # what does not fit 8 KiB

    run(where, body)


# -------------------------------------------------------------------- nodes that cannot start


@from_any_thread
@every_shipping_kind
def test_a_pipeline_that_cannot_be_pickled_is_refused_by_name(kind: Kind, where: str) -> None:
    lock = threading.Lock()

    def item(x: int) -> bool:
        return lock.locked()

    def body() -> None:
        ahead = kind.ahead(sk.smap(item, range(3)))
        for _ in range(2):
            with pytest.raises(
                TypeError,
                match=r"prefetch: the pipeline cannot be pickled for workers: smap → `item` → closure `lock`",
            ):
                ahead.start()
        with pytest.raises(TypeError, match="or use method='thread'"):
            list(ahead)

    run(where, body)


@from_any_thread
def test_a_pipeline_that_cannot_be_pickled_works_forked(where: str) -> None:
    lock = threading.Lock()

    def item(x: int) -> bool:
        if x == 1 and not os.environ.get("SEQKIT_TEST_ONCE"):
            pass
        return lock.locked()

    def body() -> None:
        with Kind("process", "fork").ahead(sk.smap(item, range(3))) as ahead:
            assert list(ahead) == [False] * 3
            os.kill(pids_of(ahead)[0], signal.SIGKILL)  # its replacement cannot be shipped either
            assert list(ahead) == [False] * 3

    run(where, body)


class _Unloadable:
    """Pickles; unpickling it imports a module that does not exist."""

    def __reduce__(self) -> Any:
        return __import__, ("no_such_module_of_seqkit",)


@from_any_thread
@every_shipping_kind
def test_a_pipeline_that_cannot_be_unpickled_fails_the_node_once(kind: Kind, where: str) -> None:
    def body() -> None:
        with kind.ahead([_Unloadable()]) as ahead:
            check_cannot_start(ahead, r"ModuleNotFoundError: No module named 'no_such_module_of_seqkit'")

    run(where, body)


def check_cannot_start(ahead: sk.Prefetch, reason: str) -> None:
    it = iter(ahead)
    first, *more = drawn(it)
    assert not more  # told once, then the end
    assert isinstance(first, RuntimeError)
    assert re.search(rf"prefetch: worker \d could not start: {reason}", str(first))
    for _ in range(2):
        with pytest.raises(RuntimeError, match=reason):
            ahead[0]
    with pytest.raises(RuntimeError, match=reason):
        list(ahead)


def failing_hook(fault: str, calls: Path) -> Callable[[int], None]:
    class LocalError(Exception):
        pass

    def hook(worker: int) -> None:
        with open(calls, "ab", buffering=0) as file:
            file.write(bytes([worker]))
        if fault == "exception":
            raise ValueError("no licence")
        if fault == "unpicklable exception":
            raise LocalError("no licence")
        if fault == "SystemExit":
            raise SystemExit("no licence")
        if fault == "os._exit(3)":
            os._exit(3)
        if fault == "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


HOOKS = {
    "exception": "ValueError: no licence",
    "unpicklable exception": "LocalError: no licence",
    "SystemExit": "SystemExit: no licence",
    "os._exit(3)": r"RuntimeError: process \d+ exited with status 3 before its first item",
    "SIGKILL": r"RuntimeError: process \d+ was killed by signal 9 \(SIGKILL\) before its first item",
}
RAISES = ("exception", "unpicklable exception", "SystemExit")


@from_any_thread
@pytest.mark.parametrize(
    ("kind", "fault"),
    [(kind, fault) for kind in KINDS for fault in HOOKS if kind.method == "process" or fault in RAISES],
    ids=str,
)
def test_a_failing_start_hook_is_reported_to_every_consumer_and_workers_are_not_restarted_for_ever(
    kind: Kind, where: str, fault: str, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"

    def body() -> None:
        hook = failing_hook(fault, calls)
        with kind.ahead(range(5), nworkers=3, start_hook=hook) as ahead:
            check_cannot_start(ahead, HOOKS[fault])
            ahead.restart()
            check_cannot_start(ahead, HOOKS[fault])

    run(where, body)
    # A worker that ends without a word is started again: it may have been killed from outside.
    starts = 1 if fault in RAISES else 1 + MOST_DEATHS
    assert max(map(calls.read_bytes().count, range(3))) <= 2 * starts


def test_a_restarted_node_works_once_its_hook_does() -> None:
    working: list[bool] = []

    def hook() -> None:
        if not working:
            raise ValueError("not yet")

    with sk.prefetch(range(5), 2, start_hook=hook) as ahead:
        with pytest.raises(RuntimeError, match="not yet"):
            list(ahead)
        working.append(True)
        ahead.restart()
        assert list(ahead) == list(range(5))


# -------------------------------------------------------------------- workers killed from outside


@every_kind_of_process
def test_workers_killed_while_idle_are_replaced(kind: Kind) -> None:
    with kind.ahead(sk.smap(lambda x: x, range(20))) as ahead:
        assert list(ahead) == list(range(20))
        killed = pids_of(ahead)
        until(lambda: len(drawn(iter(ahead))) == 20)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        assert not until_dead(killed)
        assert list(ahead) == list(range(20))
        assert [ahead[3], ahead[19]] == [3, 19]
        # A death is noticed by a reader that has to wait, and one worker may have been enough so far.
        assert until(lambda: len(list(ahead)) == 20 and ahead.statistics().restarts == 2)
        assert not set(pids_of(ahead)) & set(killed)


def until_dead(pids: list[int]) -> list[int]:
    """Wait until processes are dead, without reaping them: that is up to the node."""

    def living() -> list[int]:
        return [pid for pid in pids if state(pid) not in ("Z", "gone")]

    until(lambda: not living())
    return living()


@every_kind_of_process
def test_what_a_killed_worker_had_delivered_is_not_lost_and_not_computed_again(
    kind: Kind, tmp_path: Path
) -> None:
    marks = tmp_path / "tries"
    source = misbehaving({}, 9, marks)
    with kind.ahead(source, max_buffered=6, chunk_size=1) as ahead:
        it = iter(ahead)
        assert next(it) == 0
        backend: Any = ahead.engine._scheduler.backend  # type: ignore[union-attr]
        claimed = backend._control.claimed
        until(lambda: marks.stat().st_size >= 7 and not any(claimed(number)[0] for number in range(2)))
        killed = pids_of(ahead)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        assert not until_dead(killed)
        assert list(it) == [x * x for x in range(1, 9)]
        assert sorted(marks.read_bytes()) == list(range(9))


@every_kind_of_process
def test_all_workers_may_die_at_once(kind: Kind, tmp_path: Path) -> None:
    def item(x: int) -> int:
        try:
            os.close(os.open(tmp_path / str(x), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return x
        if x < 3:
            while not all((tmp_path / str(other)).exists() for other in range(3)):
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    with kind.ahead(sk.smap(item, range(12)), nworkers=3, chunk_size=1) as ahead:
        assert list(ahead) == list(range(12))
        assert ahead.statistics().restarts >= 3


def test_a_worker_killed_again_and_again_does_not_stop_the_reader() -> None:
    def item(x: int) -> int:
        time.sleep(0.001)
        return x

    stop = threading.Event()
    with sk.prefetch(sk.smap(item, range(1500)), 2, "process", retries=1000, context="forkserver") as ahead:

        def hunt() -> None:
            while not stop.wait(0.01):
                try:
                    os.kill(known_pids(ahead)[0], signal.SIGKILL)
                except (IndexError, ProcessLookupError, RuntimeError):
                    pass

        it = iter(ahead)
        assert next(it) == 0
        hunter = threading.Thread(target=hunt)
        hunter.start()
        try:
            seen = drawn(it)
        finally:
            stop.set()
            hunter.join()
        # One that was killed while it started is the node's failure; before that, everything came.
        if seen and isinstance(seen[-1], RuntimeError):
            assert "before its first item" in str(seen.pop())
        assert seen == list(range(1, 1 + len(seen)))


@pytest.mark.stress
@pytest.mark.timeout(300)
@every_kind_of_process
def test_nothing_is_mixed_up_or_lost_while_workers_are_killed_at_random(kind: Kind) -> None:
    def item(x: int) -> Any:
        array = sk.empty(2000, np.int64)
        array[:] = x
        return array

    def right(array: Any, x: int) -> bool:
        return bool((array == x).all())

    def read(number: int) -> None:
        rng = random.Random(number)
        kept: list[tuple[int, Any]] = []
        paused: list[tuple[int, Iterator[Any]]] = []
        while time.monotonic() < end:
            start = rng.randrange(300)
            for x, array in enumerate(ahead[start:], start):
                kept.append((x, array))
                del kept[: max(0, len(kept) - rng.randrange(20))]
                wrong.extend(x for x, array in kept if not right(array, x))
                if rng.random() < 0.02:
                    break
            it = iter(ahead[start:])
            wrong.extend(x for x in range(start, start + 3) if not right(next(it), x))
            paused.append((start + 3, it))
            if len(paused) > 5:
                first, it = paused.pop(rng.randrange(6))
                wrong.extend(x for x, array in enumerate(it, first) if not right(array, x))

    wrong: list[int] = []
    end = time.monotonic() + 20
    with kind.ahead(sk.smap(item, range(320)), nworkers=3, retries=10**6, max_buffered=6) as ahead:
        list(ahead)
        readers = [threading.Thread(target=read, args=(number,)) for number in range(3)]
        for reader in readers:
            reader.start()
        rng = random.Random(0)
        backend: Any = ahead.engine._scheduler.backend  # type: ignore[union-attr]
        while any(reader.is_alive() for reader in readers):
            time.sleep(rng.random() * 0.1)
            ready = [handle for handle in list(backend._team.handles.values()) if handle.state == "ready"]
            if ready:  # one that is killed while it starts, twice, would be the node's failure
                rng.choice(ready).kill()
        for reader in readers:
            reader.join()
        assert wrong == []
        assert ahead.statistics().restarts > 20


@pytest.mark.stress
@pytest.mark.timeout(300)
@every_kind
def test_items_about_as_long_as_the_timeout_come_or_time_out(kind: Kind) -> None:
    def item(x: int) -> int:
        time.sleep(0.015 + x % 11 * 0.001)
        return x

    count = 300 if kind.context == "spawn" else 1500  # each time-out costs an interpreter
    with kind.ahead(sk.smap(item, range(count)), nworkers=4, timeout=0.02, retries=0) as ahead:
        seen = drawn(iter(ahead))
        while isinstance(seen[-1], PrefetchError):  # too many threads were stuck at once, on a busy machine
            seen[-1:] = []
            ahead.restart()
            seen += drawn(iter(ahead[len(seen) :]))
    assert len(seen) == count
    late = [type(x) for x in seen if not isinstance(x, int)]
    assert set(late) == {sk.ItemTimeout}
    assert all(x == i for i, x in enumerate(seen) if isinstance(x, int))


def test_a_killed_template_is_replaced() -> None:
    before = children()
    with Kind("process", "forkserver").ahead(sk.smap(lambda x: (x, os.getppid()), range(10))) as ahead:
        items = list(ahead)
        template = items[0][1]
        orphans = pids_of(ahead)
        os.kill(template, signal.SIGKILL)
        assert until(lambda: state(template) in ("Z", "gone"))
        assert [x for x, _ in ahead] == list(range(10))  # its workers live on
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        assert not until_gone(orphans, 10)
        assert [x for x, _ in ahead] == list(range(10))
        assert until(lambda: len(list(ahead)) == 10 and ahead.statistics().restarts == 2)
    until(lambda: all(state(pid) == "Z" for pid in children() - before))
    reap_orphans(before)  # whose parent was killed


# -------------------------------------------------------------------- a parent that is killed

PARENT = """
    import os, sys, time
    import seqkit as sk

    how, context = sys.argv[1:]

    def item(x):
        if x < 2:
            return os.getpid()
        if how == "sleeping":
            time.sleep(3600)
        return x

    nodes = []
    if how == "beside siblings":  # whose workers inherit what was open when they were forked
        for sibling in ("fork", "forkserver"):
            node = sk.prefetch(sk.smap(lambda x: os.getpid(), range(2)), 1, "process", context=sibling)
            nodes.append(node)
            print(*node)
            if sibling == "forkserver":
                print(node.engine._scheduler.backend._team._template._pid)
    node = sk.prefetch(sk.smap(item, range(40)), 2, "process", context=context, chunk_size=1)
    pids = []
    iterator = iter(node)
    for _ in range(2):
        print(next(iterator))
    for handle in node.engine._scheduler.backend._team.handles.values():
        if handle.pid:  # the template may not have told it yet
            print(handle.pid)
    if context == "forkserver":
        print(node.engine._scheduler.backend._team._template._pid)
    if how == "beside siblings":
        child = os.fork()
        if child == 0:
            time.sleep(3600)
        print("child", child)
        import ctypes
        child = ctypes.PyDLL(None).fork()  # no hook of ours runs in this one: it holds every descriptor
        if child == 0:
            time.sleep(3600)
        print("child", child)
    print("ready")
    if how == "reading":
        list(iterator)
        while True:
            list(node)
    time.sleep(3600)
"""


@every_kind_of_process
@pytest.mark.parametrize(
    "how",
    mostly_stress("reading", "beside siblings", "idle", "sleeping", here=2),
)
def test_workers_are_gone_within_two_seconds_of_their_parents_death(
    kind: Kind, how: str, tmp_path: Path
) -> None:
    with running(tmp_path, PARENT, how, str(kind)) as process:
        assert process.stdout is not None
        lines = list(iter(process.stdout.readline, "ready\n"))
        assert process.poll() is None, process.communicate()[1]
        pids = {int(pid) for line in lines if "child" not in line for pid in line.split()}
        others = [int(line.split()[1]) for line in lines if "child" in line]
        assert len(pids) >= 2
        assert not any(map(is_gone, pids))
        process.kill()
        process.wait()
        left = until_gone(pids, within_s=4)
        assert not any(map(is_gone, others))
        for pid in [*others, *left]:
            os.kill(pid, signal.SIGKILL)
        assert not left
        assert not until_gone(others, within_s=10)
        assert process.communicate()[1] == ""


# -------------------------------------------------------------------- Ctrl-C

INTERRUPTED = """
    import signal, sys, time
    import seqkit as sk

    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been ignored where tests run
    what, method, context = sys.argv[1:]

    def item(x):
        time.sleep(0.01)
        return x

    node = sk.prefetch(sk.smap(item, range(10**6)), 2, method, context=context if context != "None" else None)

    def read():
        for x in node:
            if x == 20:
                print("ready")

    if what == "dies":
        read()
    for _ in range(3):
        try:
            read()
        except KeyboardInterrupt:
            print("interrupted")
    assert list(node[:50]) == list(range(50))
    assert node[7] == 7
    print("works")
    node.close()
"""


@every_kind
def test_ctrl_c_ends_the_reader_alone_with_one_traceback(kind: Kind, tmp_path: Path) -> None:
    with running(tmp_path, INTERRUPTED, "dies", kind.method, str(kind.context)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: workers get it too
        out, err = process.communicate(timeout=30)
        assert process.returncode == -signal.SIGINT
        assert out == ""
        assert err.count("Traceback") == 1
        assert err.count("KeyboardInterrupt") == 1
        assert err.endswith("KeyboardInterrupt\n")


@every_kind
def test_a_node_is_usable_after_ctrl_c(kind: Kind, tmp_path: Path) -> None:
    with running(tmp_path, INTERRUPTED, "goes on", kind.method, str(kind.context)) as process:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline() == "ready\n"
            os.killpg(process.pid, signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "works\n", "")


SHOWERED = """
    import queue, signal, sys, threading, time
    import seqkit as sk

    method, context, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
    context = context if context != "None" else None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    node = sk.prefetch(sk.smap(lambda x: x, range(10**9)), 2, method, context=context, max_buffered=8)
    list(node[:50])  # imports everything
    asked = queue.SimpleQueue()

    def dropped_by_python(raised):  # it struck in a callback or a finaliser: who means it presses again
        assert raised.exc_type is KeyboardInterrupt, raised
        asked.put(0.001)

    sys.unraisablehook = dropped_by_python

    def press():
        while (after_s := asked.get()) is not None:
            time.sleep(after_s)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    for k in range(times):
        try:
            if k // 2 % 2:  # strike what runs, rather than the start that the press before made necessary
                node[0]
            asked.put(k * 7 % 37 * (1e-3 if k // 4 % 2 else 1e-5))  # another place of the engine every time
            if k % 2:
                for expected, x in enumerate(node):
                    assert x == expected, (x, expected)
            else:
                expected = 1000
                while True:
                    assert node[expected] == expected
                    expected += 1
        except KeyboardInterrupt:
            pass
    asked.put(None)
    thread.join()
    assert list(node[:50]) == list(range(50))
    print("works")
    node.close()
"""


@every_kind
@pytest.mark.parametrize(
    "times", [20, pytest.param(2000, marks=[pytest.mark.stress, pytest.mark.timeout(900)])]
)
def test_ctrl_c_at_any_moment_neither_hangs_nor_mixes_up_items(
    kind: Kind, times: int, tmp_path: Path
) -> None:
    patience_s = max(PATIENCE_S, 0.4 * times)
    if kind.context in ("forkserver", "spawn"):  # every press costs them a start of a tenth of a second
        times //= 2
    arguments = kind.method, str(kind.context), str(times)
    status, out, err = finished(tmp_path, SHOWERED, *arguments, patience_s=patience_s)
    assert (status, out, err) == (0, "works\n", "")


# -------------------------------------------------------------------- the end of the interpreter

ENDING = """
    import atexit
    first = []  # before anything of seqkit's: it comes last
    atexit.register(lambda: [hook() for hook in first])
    import gc, os, sys, threading, warnings
    import numpy as np
    import seqkit as sk

    how, method, context = sys.argv[1:]

    class Ring:
        pass

    source = sk.smap(lambda x: np.full(5000, x), range(400))
    node = sk.prefetch(source, 2, method, context=context if context != "None" else None)
    unfinished = iter(node)
    leased = [next(unfinished) for _ in range(5)]
    ring = Ring()
    ring.itself, ring.array, ring.iterator = ring, next(unfinished), unfinished
    scanned = node[7]
    os.kept = node  # in a module that goes late
    if how == "in a daemon thread":
        reading = threading.Event()

        def read():
            while True:
                for x in node:
                    reading.set()

        threading.Thread(target=read, daemon=True).start()
        reading.wait()
    if how == "forked":
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks where threads live
        pid = os.fork()
        if pid == 0:
            assert [int(x[0]) for x in node[:3]] == [0, 1, 2]
            assert [int(x[0]) for x in leased] == list(range(5))
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    if how == "read in a hook":
        def told():
            try:
                list(node)
            except RuntimeError as error:
                assert "the node is closed" in str(error)
                return
            assert False, "read on without workers"

        first.append(told)
    if how == "closed":
        node.close()
    if how == "exits":
        sys.exit(0)
"""


@every_kind
@pytest.mark.parametrize(
    "how", mostly_stress("ends", "forked", "in a daemon thread", "read in a hook", "closed", "exits", here=2)
)
def test_the_interpreter_ends_quietly_with_readers_and_arrays_about(
    kind: Kind, how: str, tmp_path: Path
) -> None:
    assert finished(tmp_path, ENDING, how, kind.method, str(kind.context)) == (0, "", "")


# -------------------------------------------------------------------- scripts without a guard

UNGUARDED = """
    import dataclasses, sys
    import numpy as np
    import seqkit as sk

    print("top")
    method, context = sys.argv[1:]

    class Point:
        def __init__(self, x):
            self.x = x

    @dataclasses.dataclass
    class Pair:
        left: Point
        right: Point

        def total(self):
            return self.left.x + self.right.x

    class Sum(Point):
        def __init__(self, x):
            super().__init__(x)

    class Refused(Exception):
        pass

    def refuse(x):
        raise Refused(x)

    offset = 100
    def plus(amount):
        return lambda x: x + amount + offset

    def pair(x):
        return Pair(Point(x), Sum(x + 1))

    options = {"context": context if context != "None" else None}
    points = sk.prefetch(sk.smap(pair, sk.smap(plus(5), range(40))), 2, method, **options)
    for x, got in enumerate(points):
        assert type(got) is Pair and type(got.left) is Point and type(got.right) is Sum
        assert isinstance(got.right, Point) and got.total() == 2 * (x + 105) + 1
    assert points[3] == pair_again if (pair_again := None) else True
    failing = sk.prefetch(sk.smap(refuse, range(2)), 1, method, **options)
    try:
        failing[1]
    except sk.EvaluationError as error:
        assert type(error.__cause__) is Refused, error.__cause__
        assert error.__cause__.args == (1,)
    else:
        raise AssertionError
    print("end")
"""


@every_kind
def test_a_script_without_a_guard_runs_its_own_code_once(kind: Kind, tmp_path: Path) -> None:
    assert finished(tmp_path, UNGUARDED, kind.method, str(kind.context)) == (0, "top\nend\n", "")


# -------------------------------------------------------------------- closing


@from_any_thread
@every_kind_of_process
@pytest.mark.parametrize("how", ["sleeps", "stops", "holds the interpreter"])
def test_closing_does_not_wait_for_a_worker_that_is_stuck(kind: Kind, where: str, how: str) -> None:
    def item(x: int) -> int:
        if x < 2:
            return x
        if how == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        if how == "holds the interpreter":
            sum(range(10**13))
        time.sleep(3600)
        return x

    def body() -> None:
        ahead = kind.ahead(sk.smap(item, range(8)), chunk_size=1)
        it = iter(ahead)
        assert [next(it), next(it)] == [0, 1]
        pids = pids_of(ahead)
        ahead.close()
        assert not until_gone(pids, within_s=0)  # closing has reaped them
        assert [type(error) for error in drawn(it)] == [PrefetchError]
        ahead.close()

    run(where, body)


def test_closing_does_not_wait_for_a_thread_that_is_stuck() -> None:
    released = threading.Event()
    ahead = sk.prefetch(sk.smap(lambda x: released.wait(), range(4)), 2)
    try:
        reader = iter(ahead)
        until(lambda: len(threading.enumerate()) >= 3)
        ahead.close()
        assert [type(error) for error in drawn(reader)] == [PrefetchError]
    finally:
        released.set()


@every_kind
def test_a_waiting_consumer_gets_an_error_when_the_node_is_closed(kind: Kind, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    gate = str(tmp_path / "gate")

    def item(x: int) -> int:
        open(gate).close()
        return x

    ahead = kind.ahead(sk.smap(item, range(4)))
    told: list[Any] = []
    reader = threading.Thread(target=lambda: told.extend(drawn(iter(ahead))))
    reader.start()
    scheduler = until(lambda: ahead.engine._scheduler)
    until(lambda: scheduler._receiver is not None)
    ahead.close()
    reader.join()
    assert [str(error) for error in told] == ["prefetch: the node is closed; restart() starts it anew"]
    if kind.method == "thread":  # let the items go that nobody waits for
        until(lambda: _opened(gate, ahead))


def _opened(gate: str, ahead: sk.Prefetch) -> bool:
    try:
        os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        pass
    return not any(thread.name.startswith("seqkit-") for thread in threading.enumerate())


@every_kind
def test_a_forgotten_node_leaves_nothing_behind(kind: Kind) -> None:
    ahead = kind.ahead(sk.smap(lambda x: np.full(3000, x), range(50)))
    it = iter(ahead)
    next(it)
    ahead[9]  # what is left is for the fixture to find


# -------------------------------------------------------------------- limits

LIMITED = """
    import os, resource, sys, warnings
    import numpy as np
    import seqkit as sk

    what, method, context = sys.argv[1:]
    context = context if context != "None" else None

    def opened():
        return len(os.listdir("/proc/self/fd"))

    def check(nworkers=4):
        arrays = sk.smap(lambda x: np.full(5000, x), range(600))
        with sk.prefetch(arrays, nworkers, method, context=context) as p:
            kept = list(p)
            assert all((a == x).all() for x, a in enumerate(kept))
            return p.statistics()

    check(1)  # imports everything
    before = opened()
    if what == "few descriptors":
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        check()
    if what == "no descriptors":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        failed = 0
        for spare in range(1, 40, 3):
            resource.setrlimit(resource.RLIMIT_NOFILE, (before + spare, hard))
            try:
                check()
            except (OSError, RuntimeError) as error:
                failed += 1
                reasons = "Too many open files", "descriptors", "before its first item"
                assert any(reason in str(error) for reason in reasons), error
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert opened() == before, (spare, opened(), before)
        assert 2 < failed < 13, failed
        check()
    if what == "little address space":
        pages = int(open("/proc/self/statm").read().split()[0])
        for spare in (1 << 29, 1 << 30, 1 << 31):
            limit = pages * resource.getpagesize() + spare
            resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
            seen = check()
            assert 0 < seen.slots * seen.slot_bytes < spare, seen
    if what == "less memory than a result":
        def item(x):
            return b"x" * (1 << 28) if x == 2 else x
        p = sk.prefetch(sk.smap(item, range(6)), 2, method, context=context, shm_size=0, chunk_size=1)
        assert p[0] == 0
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + (1 << 27)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        it = iter(p)
        assert [next(it), next(it)] == [0, 1]
        try:
            next(it)
        except sk.EvaluationError as error:
            assert error.index == 2
        else:
            raise AssertionError
        assert list(it) == [3, 4, 5]
        p.close()
    if what == "small files":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, resource.RLIM_INFINITY))
        check()
    if what == "tiny files":
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, resource.RLIM_INFINITY))
        # That results of chunks do not fit what is left for slots.
        with warnings.catch_warnings(category=RuntimeWarning, action="ignore"):
            check()
    if what == "one page per pipe":
        import fcntl
        pipe = os.pipe
        def narrow():
            ends = pipe()
            fcntl.fcntl(ends[0], fcntl.F_SETPIPE_SZ, 4096)
            return ends
        os.pipe = narrow
        check()
        texts = sk.smap(lambda x: b"x" * 100_000, range(50))
        with sk.prefetch(texts, 2, method, context=context, shm_size=0) as p:
            assert [len(x) for x in p] == [100_000] * 50
        with sk.prefetch(range(5000), 2, method, context=context, max_buffered=5000, chunk_size=1) as p:
            assert list(p) == list(range(5000))
    print("fine")
"""


@every_kind_of_process
@pytest.mark.parametrize(
    "what",
    mostly_stress(
        "few descriptors",
        "less memory than a result",
        "no descriptors",
        "little address space",
        "small files",
        "tiny files",
        "one page per pipe",
        here=2,
    ),
)
def test_a_node_makes_do_with_little(kind: Kind, what: str, tmp_path: Path) -> None:
    assert finished(tmp_path, LIMITED, what, kind.method, str(kind.context)) == (0, "fine\n", "")


# -------------------------------------------------------------------- classes of the user's that behave oddly


class Uninitialised(sk.EvaluationError):
    def __init__(self, code: int) -> None:
        self.code = code


@every_kind
def test_an_error_class_derived_from_ours_need_not_initialise_it(kind: Kind) -> None:
    def item(x: int) -> int:
        if x == 2:
            raise Uninitialised(5)
        return x

    with kind.ahead(sk.smap(item, range(4)), 1) as node:
        *before, error, after = drawn(iter(node))
    assert [*before, after] == [0, 1, 3]
    assert isinstance(error, sk.EvaluationError)
    assert error.index == 2


class Wordless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@every_kind
@pytest.mark.parametrize("policy", ["wrap", "passthrough"])
def test_an_error_without_words_is_that_of_its_item_only(kind: Kind, policy: Any) -> None:
    def item(x: int) -> int:
        if x == 2:
            raise Wordless
        return x

    with sk.errstate(policy), kind.ahead(sk.smap(item, range(4)), 1) as node:
        *before, error, after = drawn(iter(node))
    assert [*before, after] == [0, 1, 3]
    assert Wordless in (type(error), type(error.__cause__))


class ExitsWhenRead:
    def __reduce__(self) -> Any:
        return sys.exit, (3,)


class ExitsWhenSent:
    def __reduce__(self) -> Any:
        sys.exit(3)


@every_kind_of_process
@pytest.mark.parametrize("value", [ExitsWhenRead(), ExitsWhenSent()], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("chunk_size", [1, 5])
def test_a_value_that_exits_while_it_is_pickled_affects_no_other_item(
    kind: Kind, value: Any, chunk_size: int
) -> None:
    make = type(value)
    with kind.ahead(sk.smap(lambda x: make() if x == 2 else x, range(5)), 1, chunk_size=chunk_size) as node:
        seen = drawn(iter(node))
        assert node.statistics().restarts == 0
    assert [x for x in seen if isinstance(x, int)] == [0, 1, 3, 4]
    assert isinstance(seen[2], sk.EvaluationError)
    assert "SystemExit" in str(seen[2])


KNOWN = """
    import enum, sys
    from dataclasses import dataclass
    import seqkit as sk

    @dataclass
    class Point:
        x: int

    class Color(enum.Enum):
        RED = 1

    def item(i):
        if i < 2:
            return [Point(i), Color.RED, lambda: i]  # which pickle alone cannot send
        return [Point(i), Color.RED, None]

    context, chunk_size = sys.argv[1], int(sys.argv[2])
    with sk.prefetch(sk.smap(item, range(9)), 1, "process", context=context, chunk_size=chunk_size) as node:
        for i, (point, color, function) in enumerate(node):
            assert point == Point(i) and isinstance(point, Point), point
            assert color is Color.RED
            assert function is None or function() == i
    print("known")
"""


SHAPES = """
    import enum, sys
    from dataclasses import dataclass
    import seqkit as sk

    class Inner:  # which no item uses
        pass

    class Outer:
        class Inner:
            pass

    def local():
        class Inner:
            pass
        return Inner

    @dataclass(slots=True)
    class Slotted:
        x: int

    @dataclass(slots=True)
    class Derived(Slotted):
        y: int

    class Color(enum.Enum):
        RED = local()

    class Refused(Exception):
        pass

    Local = local()
    expected = [Outer.Inner, Local, Slotted, Derived, Color, Refused]

    def item(i):
        if i == 5:
            raise Refused(Local(), lambda: i)
        return [Outer.Inner, Local, lambda: Slotted(2), lambda: Derived(2, 3), lambda: Color.RED][i]()

    context, chunk_size = sys.argv[1], int(sys.argv[2])
    with sk.prefetch(sk.smap(item, range(6)), 1, "process", context=context, chunk_size=chunk_size) as node:
        items = [node[i] for i in range(5)]
        assert items[2:] == [Slotted(2), Derived(2, 3), Color.RED], items
        try:
            node[5]
        except sk.EvaluationError as error:
            items.append(error.__cause__)
    assert [type(one) for one in items] == expected, items
    assert type(items[5].args[0]) is Local
    print("known")
"""


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("chunk_size", ["1", "4"])
@pytest.mark.parametrize("script", [KNOWN, SHAPES], ids=["known", "shapes"])
def test_definitions_of_the_main_script_arrive_as_its_own(
    context: str, chunk_size: str, script: str, tmp_path: Path
) -> None:
    assert finished(tmp_path, script, context, chunk_size) == (0, "known\n", "")


# -------------------------------------------------------------------- processes that items fork


@every_kind
@pytest.mark.parametrize("chunk_size", [1, 8])
def test_a_process_that_an_item_forks_is_no_worker(kind: Kind, chunk_size: int) -> None:
    def item(i: int) -> int:
        if i % 2:
            return i
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks where threads live
            pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if i == 2:
            sys.exit(7)
        if i == 4:
            os._exit(4)
        if i == 6:
            raise ValueError("the child's")
        return -1

    with kind.ahead(sk.smap(item, range(8)), 1, chunk_size=chunk_size) as ahead:
        assert list(ahead) == [1, 1, 1, 3, 4, 5, 1, 7]


@every_kind_of_process
def test_a_process_forked_while_an_item_is_pickled_is_no_worker(kind: Kind) -> None:
    class Forking:
        def __init__(self, i: int) -> None:
            self.i = i

        def __reduce__(self) -> Any:
            if self.i == 3 and (pid := os.fork()):
                os.waitpid(pid, 0)
            return int, (self.i,)

    with kind.ahead(sk.smap(Forking, range(12)), chunk_size=1) as ahead:
        assert list(ahead) == list(range(12))
        assert ahead.statistics().restarts == 0


@every_kind_of_process
def test_a_process_that_a_start_hook_forks_reports_nothing_for_the_worker(kind: Kind) -> None:
    def hook() -> None:
        if not (pid := os.fork()):
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1

    with kind.ahead(range(9), start_hook=hook) as ahead:
        assert list(ahead) == list(range(9))


@every_kind_of_process
def test_a_start_hook_that_forks_and_exits_is_reported(kind: Kind) -> None:
    def daemonize(worker: int) -> None:
        if os.fork():
            os._exit(0)

    before = children()
    with kind.ahead(range(9), start_hook=daemonize) as ahead:
        check_cannot_start(ahead, r"RuntimeError: process \d+ exited with status 0 before its first item")
    reap_orphans(before)


# -------------------------------------------------------------------- workers that cannot be replaced


@every_kind_of_process
def test_the_loss_of_the_last_worker_is_reported_to_every_consumer(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with kind.ahead(misbehaving({3: "SIGKILL"}, 9), 1, retries=0) as ahead:
        ahead.start()
        monkeypatch.setattr(Team, "_start_worker", refused)
        readers = [iter(ahead), iter(ahead)]
        found = [drawn(reader) for reader in readers]
        for items in found:
            assert re.search(r"worker 0 could not start: OSError: .*Too many open files", str(items[-1]))
            assert items[:-1] == [0, 1, 4][: len(items) - 1]


def test_a_signal_without_a_name_is_reported_by_its_number() -> None:
    def item(x: int) -> int:
        if x == 3:
            os.kill(os.getpid(), signal.SIGRTMIN + 3)
        return x

    with PROCESSES[0].ahead(sk.smap(item, range(6)), retries=0) as ahead:
        found = drawn(iter(ahead))
        assert found[:3] + found[4:] == [0, 1, 2, 4, 5]
        number = signal.SIGRTMIN + 3
        assert f"was killed by signal {number} (a real-time signal) while computing it" in str(found[3])
    idle = PROCESSES[0].ahead(range(6))
    list(idle)
    for pid in pids_of(idle):
        os.kill(pid, number)
    idle.close()


# -------------------------------------------------------------------- who must not go on for ever


def test_workers_that_die_before_their_first_item_are_not_replaced_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker.Worker, "serve", lambda self: os._exit(7))
    reason = r"worker 0 could not start: RuntimeError: process \d+ exited with status 7 before its first item"
    with PROCESSES[0].ahead(range(9), 1) as node, pytest.raises(RuntimeError, match=reason):
        list(node)


@every_kind
def test_an_item_that_reads_its_own_node_gets_an_error(kind: Kind) -> None:
    def item(i: int) -> Any:
        return i if not i else nodes[0][i - 1] + 1

    nodes: list[Any] = []
    nodes.append(kind.ahead(sk.smap(item, range(4)), 1))
    try:
        with pytest.raises(RuntimeError, match="reads the node that waits for it"):
            nodes[0][3]
    finally:
        nodes.pop().close()


@every_kind
@pytest.mark.parametrize("timeout", [math.inf, 1e12, 3e6])
def test_a_time_limit_may_be_beyond_what_the_system_counts(kind: Kind, timeout: float) -> None:
    with kind.ahead(range(4), 1, timeout=timeout) as node:
        assert list(node) == [0, 1, 2, 3]


@every_kind
def test_an_index_that_a_view_refuses_is_an_index_error(kind: Kind) -> None:
    picked = sk.gather([1, 2, 3], [0, 7])
    with kind.ahead(picked, 1) as node:
        for read in (lambda: picked[1], lambda: node[1], lambda: list(node)):
            with pytest.raises(IndexError, match=re.escape("gather: indexes[1] is 7, outside [-3, 3)")):
                read()


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_a_process_started_by_an_item_or_by_the_parent_inherits_nothing_of_the_engine(kind: Kind) -> None:
    def inherited(_: int = 0) -> list[str]:
        """The files that a process has if it closes none."""
        command = ["ls", "-l", "/proc/self/fd"]
        listed = subprocess.run(command, close_fds=False, capture_output=True, text=True, check=True).stdout
        files = [line.partition(" -> ")[2] for line in listed.splitlines()]
        # Pipes have other numbers each time, and the last file is the folder that `ls` reads.
        return sorted("pipe" if file.startswith("pipe") else file for file in files if "/proc/" not in file)

    before = inherited()
    with kind.ahead(sk.smap(inherited, range(4)), 2) as node:
        for files in node:
            assert not set(files) - set(before)
            assert files.count("pipe") <= before.count("pipe")
        assert inherited() == before


# -------------------------------------------------------------------- keys


@pytest.mark.parametrize("context", CONTEXTS)
def test_keys_of_the_main_script_reach_workers(context: str, tmp_path: Path) -> None:
    code = f"""
        import typing, seqkit as sk

        class Key(typing.NamedTuple):
            row: int
            column: str

        class Table:
            def __len__(self):
                return 9
            def __getitem__(self, key):
                return f"{{key.row}}{{key.column}}"

        keys = [Key(i, "x") for i in range(9)]
        loader = sk.DataLoader(Table(), 3, sampler=keys, num_workers=2, multiprocessing_context="{context}")
        print(list(loader))
    """
    status, out, err = finished(tmp_path, code)
    assert (status, err) == (0, "")
    assert out.strip() == str([[f"{i}x" for i in range(at, at + 3)] for at in (0, 3, 6)])


class Unreadable:
    """A key that can be pickled, and not be unpickled in a worker."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def __reduce__(self) -> Any:
        return unreadable, (self.pid,)


def unreadable(pid: int) -> Unreadable:
    if os.getpid() != pid:
        raise ImportError("no such key here")
    return Unreadable(pid)


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
@pytest.mark.parametrize("size", [1, 3])
def test_a_key_that_cannot_be_read_is_the_error_of_its_job(kind: Kind, size: int) -> None:
    keys = [*"abc", Unreadable(os.getpid()), *"defgh"]
    with kind.ahead(sk.smap(str, Echo()), 2, chunk_size=size, retries=0) as node:
        found: list[Any] = []
        items = restarting(node.reading(keys))
        while len(found) < len(keys):
            try:
                found.append(next(items))
            except sk.EvaluationError as error:
                found.append(error)
        assert [str(item) for item in found[:3] + found[3 + size :]] == [*"abc", *"defgh"[size - 1 :]]
        assert all("ImportError: no such key here" in str(error) for error in found[3 : 3 + size])
        assert node.statistics().restarts == 0


class Echo:
    """A source whose items are their keys."""

    def __len__(self) -> int:
        return 99

    def __getitem__(self, key: Any) -> Any:
        return key


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_indices_in_files_keep_no_descriptor_when_the_node_is_closed(kind: Kind) -> None:
    def files() -> int:
        return sum("seqkit-file" in file for file in descriptors().values())

    keys = [f"{i}" + 10_000 * "x" for i in range(20)]
    with kind.ahead(sk.smap(sleeping, Echo()), 2, shm_size=0, max_buffered=8) as node:
        items = restarting(node.reading(keys))
        assert next(items) == keys[0]
        assert until(files)  # jobs are in flight
        reader = node.open(keys[:4], 4)
        reader.prepare()
        assert files() > 1
    assert files() == 0
    del reader, items


def sleeping(key: str) -> str:
    time.sleep(0.1)
    return key


# -------------------------------------------------------------------- results in files


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_kept_results_that_came_in_files_keep_no_descriptor(kind: Kind) -> None:
    with kind.ahead(sk.smap(lambda i: np.full(1000, i), range(40)), 2, shm_size=0) as node:
        items = iter(node)
        kept = [next(items)]
        before = len(descriptors())
        kept.extend(items)
        assert len(descriptors()) <= before + 2
        assert [array[0] for array in kept] == list(range(40))


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_a_result_that_cannot_be_written_to_a_file_is_the_error_of_its_own_item(kind: Kind) -> None:
    def item(i: int) -> Any:
        if i == 2:  # no descriptor is left
            with suppress(OSError):
                while True:
                    taken.append(os.open("/dev/null", os.O_RDONLY))
        while i == 3 and taken:
            os.close(taken.pop())
        return np.full(1000, i)

    def limit(_: int) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    taken: list[int] = []
    source = sk.smap(item, range(6))
    with kind.ahead(source, 1, shm_size=0, retries=0, chunk_size=1, start_hook=limit) as node:
        items, found = iter(node), list[Any]()
        while len(found) < 6:
            try:
                found.append(next(items)[0])
            except sk.EvaluationError as error:
                found.append(str(error))
        assert "Too many open files" in found.pop(2)
        assert found == [0, 1, 3, 4, 5]
        assert node.statistics().restarts == 0


def test_an_item_whose_file_is_always_lost_with_its_worker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def vanished(*_: Any) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(transport, "from_file", vanished)
    monkeypatch.setattr(WorkerHandle, "has_ended", lambda *_: True)
    with PROCESSES[0].ahead(sk.smap(lambda i: np.full(1000, i), range(4)), 1, shm_size=0) as node:
        items = iter(node)
        for i in range(4):
            with pytest.raises(sk.WorkerDied, match=rf"prefetch\[{i}\]: .* before its result was read"):
                next(items)
