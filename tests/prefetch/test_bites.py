"""Where engines of this kind bite: one test for each line of the list that the design was made against.

What needs whole scripts and killed parents is in `test_faults.py`; what a fake backend shows best, in
`test_dispatcher.py`.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.prefetch.wire import Control

from .kinds import PROCESSES, WORKERS, Kind
from .traces import children, until

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


def test_memory_of_a_slot_that_outlives_its_item_is_noticed_and_comes_back_when_it_is_gone() -> None:
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
        first = list(islice(iterator, 20))
        assert node.statistics().retired == 4
        assert right(first + list(iterator))
        assert node.statistics().copies >= 4
        list(node[40:50])
        assert node.statistics().retired == 0


def test_a_buffer_used_for_every_item_gives_every_item_right() -> None:
    buffer: list[Any] = []

    def reusing(i: int) -> Any:
        if not buffer:
            buffer.append(sk.empty(LARGE, np.int64))
        buffer[0][:] = i
        return buffer[0]

    with FORK.ahead(sk.smap(reusing, range(100)), nworkers=1, chunk_size=1) as node:
        assert right(list(node))


def test_nothing_beneath_a_cache_allocates_in_the_slot() -> None:
    from seqkit.context import private_memory

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


def test_a_process_that_the_user_forks_holds_nothing_of_the_engine() -> None:
    with FORK.ahead(sk.smap(full, range(10))) as node:
        list(node)
        workers = children()
        receiving, sending = os.pipe()
        pid = os.fork()
        if pid == 0:
            kinds = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)}
            engine = [kind for kind in kinds if "pidfd" in kind or "eventfd" in kind]
            os.write(sending, repr(engine).encode())
            signal.pause()
        assert os.read(receiving, 1000) == b"[]"
        node.close()  # while the child lives, which would hold the ends of pipes open
        assert until(lambda: not workers & children())
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(receiving)
        os.close(sending)


def _is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_a_paused_iterator_does_not_starve_another_one(kind: Kind) -> None:
    with kind.ahead(sk.smap(full, range(80)), max_buffered=4, shm_size=2**22) as node:
        paused = [iter(node) for _ in range(6)]
        begun = [[next(iterator)] for iterator in paused]
        assert right(list(node))
        for items, iterator in zip(begun, paused, strict=True):
            assert right(items + list(iterator))


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

    with WORKERS[0].ahead(sk.smap(stuck, range(6)), timeout=0.2) as node:
        iterator = iter(node)
        assert next(iterator) == 0
        with pytest.raises(sk.ItemTimeout, match=r"prefetch\[1\] took longer than 0.2 s"):
            next(iterator)
        assert list(iterator) == [2, 3, 4, 5]
        node.close()  # does not wait for it
    release.set()


@pytest.mark.parametrize("kind", WORKERS, ids=str)
def test_after_a_permanent_failure_an_iterator_raises_once_and_then_ends(kind: Kind) -> None:
    def hook() -> None:
        raise OSError("no licence")

    with kind.ahead(range(10), start_hook=hook) as node:
        iterator = iter(node)
        with pytest.raises(RuntimeError, match="no licence"):
            next(iterator)
        assert list(iterator) == []


@pytest.mark.parametrize("kind", WORKERS, ids=str)
def test_five_hundred_maps_in_a_row_reach_the_workers(kind: Kind) -> None:
    chain: Any = range(20)
    for _ in range(500):
        chain = sk.smap(lambda x: x + 1, chain)
    with kind.ahead(chain) as node:
        assert list(node) == list(range(500, 520))


def test_replacements_do_not_fork_where_threads_live(tmp_path: Path) -> None:
    def work(i: int) -> int:
        if i == 3 and once(tmp_path / "died"):
            os._exit(1)
        return i

    leave = threading.Event()
    with FORK.ahead(sk.smap(work, range(10)), chunk_size=1) as node:
        node.start()
        forks: list[int] = []
        real, os.fork = os.fork, _counting(os.fork, forks)
        thread = threading.Thread(target=leave.wait)
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


def test_the_platforms_default_does_not_fork_where_threads_live() -> None:
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
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
