"""Process workers where the engine cannot make its own: they come from the standard library's pool."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import threading
import weakref
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine import engine

from .scripts import finished, forked, running
from .traces import append, children, drawn, is_collected, is_gone, reap_orphans, until, until_gone

pytestmark = pytest.mark.filterwarnings("ignore:prefetch. shared memory is not available")

# Hides the system calls from a script, as kernels and containers may.
HIDDEN = """
        import os
        from seqkit.engine import engine

        engine.why_not_here = lambda: "memfd_create is forbidden here"
"""


@pytest.fixture(scope="module", autouse=True)
def what_multiprocessing_keeps() -> Iterator[None]:
    """Start it before a test begins, so that it is not taken for something that the test left behind."""
    resource_tracker.ensure_running()
    multiprocessing.get_context("spawn").Value("q")  # its memory is kept for others
    yield
    gc.collect()  # what it tracks must go before it
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def no_processes_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "why_not_here", lambda: "this Python has no os.memfd_create")


def about_worker(x: int) -> tuple[int, int, int, str, int]:
    info = sk.get_worker_info()
    assert info is not None
    return x, os.getpid(), info.id, info.method, info.seed


def test_items_are_computed_by_other_processes_with_one_warning(tmp_path: Path) -> None:
    path = tmp_path / "hook"

    def hook(number: int) -> None:
        append(path, f"{number} {os.getpid()}\n")

    def item(x: int) -> Any:  # it travels by value, as do its array and its closure
        inner = list(sk.prefetch(range(x % 3), 1, "process"))  # by threads: this is a worker
        assert x or until(lambda: path.read_text().count("\n") == 2)  # both processes take part
        return *about_worker(x), inner, np.full(5000, x)

    ahead = sk.prefetch(sk.smap(item, range(40)), 2, "process", seed=5, start_hook=hook, chunk_size=1)
    with pytest.warns(RuntimeWarning, match="no os.memfd_create.*Results are pickled") as warned:
        ahead.start()
    assert len(warned) == 1
    assert ahead[3][0] == 3
    items, pids, numbers, methods, seeds, inner, arrays = zip(*ahead, strict=True)
    ahead.close()
    assert items == tuple(range(40))
    assert os.getpid() not in pids
    assert set(numbers) == {0, 1}
    assert set(methods) == {"process"}
    assert len(set(seeds)) == len(set(pids)) == 2
    assert inner == tuple(list(range(x % 3)) for x in range(40))
    for x, array in enumerate(arrays):
        array += 1
        assert (array == x + 1).all()
    called = {f"{number} {pid}" for number, pid in zip(numbers, pids, strict=True)}
    assert sorted(path.read_text().splitlines()) == sorted(called)


class Shifted:
    """A data set that a worker may change, and that draws."""

    offset = 0

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> tuple[int, float, float]:
        return i + self.offset, random.random(), np.random.rand()


def shift(worker: int) -> None:
    sk.get_worker_info().dataset.offset = 100  # type: ignore[union-attr]


def test_a_loader_has_process_workers_whose_batches_draw_the_same_for_any_number_of_them() -> None:
    found = []
    for workers in (1, 2):
        loader = sk.DataLoader(
            Shifted(), 2, num_workers=workers, shuffle=True, seed=1, worker_init_fn=shift, collate_fn=list
        )
        found.append([sample for batch in loader for sample in batch])
    order = [i + 100 for batch in sk.DataLoader(np.arange(12), 2, shuffle=True, seed=1) for i in batch]
    assert [index for index, *_ in found[0]] == order
    assert found[0] == found[1]
    assert len({number for _, *numbers in found[0] for number in numbers}) == 24


def test_a_start_hook_that_fails_ends_the_node() -> None:
    def hook(number: int) -> None:
        raise OSError("no device")

    with sk.prefetch(range(9), 1, "process", start_hook=hook) as ahead:
        *items, error = drawn(iter(ahead))
    assert items == []
    assert str(error) == "prefetch: worker 0 could not start: OSError: no device"


def test_a_process_that_dies_ends_the_node_until_it_is_restarted(tmp_path: Path) -> None:
    died = tmp_path / "died"

    def item(x: int) -> int:
        if x == 7 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    with sk.prefetch(sk.smap(item, range(12)), 1, "process", max_buffered=3, chunk_size=1) as ahead:
        dropped, kept = iter(ahead), iter(ahead)
        assert next(kept) == 0
        del dropped  # cancelled tasks make a pool forget the others when it breaks, before Python 3.13
        *items, error = drawn(kept)
        assert items == list(range(1, len(items) + 1))
        assert isinstance(error, RuntimeError)
        assert "its processes ended, for example because memory ran out" in str(error)
        with pytest.raises(RuntimeError, match="restart"):
            ahead[0]
        ahead.restart()
        assert list(ahead) == list(range(12))


def test_what_cannot_be_done_here_is_refused_with_the_reason() -> None:
    reason = r"timeout cannot be used with method='process' on this system \(this Py"
    with sk.prefetch(range(3), 1, "process", timeout=1) as ahead, pytest.raises(ValueError, match=reason):
        ahead[0]
    lock = threading.Lock()
    reason = "cannot be pickled for workers: smap → `<lambda>` → closure `lock`"
    with (
        sk.prefetch(sk.smap(lambda x: lock, range(3)), 1, "process") as ahead,
        pytest.raises(TypeError, match=reason),
    ):
        ahead[0]


# -------------------------------------------------------------------- beginning and ending


def test_processes_start_with_the_first_read_and_end_with_the_node(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def item(x: int) -> int:
        import time

        if x == 8:
            append(begun, f"{os.getpid()}\n")
            time.sleep(600)
        return os.getpid()

    before = children()
    ahead = sk.prefetch(sk.smap(item, range(9)), 1, "process", chunk_size=1, max_buffered=1)
    assert children() == before
    pid = ahead[0]
    ahead.restart()
    assert not until_gone([pid], 2)
    items = iter(ahead)
    other = next(items)
    assert pid != other
    items = iter(ahead[8:])
    assert until(begun.exists)
    ahead.close()  # it does not wait for a long item
    assert not until_gone(map(int, begun.read_text().split()), 2)
    with pytest.raises(RuntimeError, match="closed"):
        ahead[0]
    del items


def test_a_node_that_is_dropped_ends_its_processes() -> None:
    ahead = sk.prefetch(sk.smap(about_worker, range(9)), 1, "process")
    pid, ref = ahead[0][1], weakref.ref(ahead)
    del ahead
    assert is_collected(ref)
    assert not until_gone([pid], 2)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_processes_of_its_own() -> None:
    with sk.prefetch(range(6), 1, "process") as ahead:
        assert ahead[0] == 0

        def reads_all() -> bool:
            with ahead:
                return list(ahead) == list(range(6))

        with forked(reads_all) as asked:
            assert asked()
        assert ahead[4] == 4


SLOW = """
        import sys, time
        import seqkit as sk

        def double(x):
            return 2 * x

        def item(x):
            print(os.getpid(), flush=True)
            try:
                time.sleep(0.1 if x == 0 else 600)
            except KeyboardInterrupt:  # is the program's
                print("interrupted", flush=True)
            return double(x)

        if __name__ == "__main__":
            items = iter(sk.prefetch(sk.smap(lambda x: item(x), range(100)), 1, "process", chunk_size=1))
            assert next(items) == 0
"""


def test_a_program_that_ends_does_not_wait_for_items(tmp_path: Path) -> None:
    before = children()
    status, out, err = finished(tmp_path, HIDDEN + SLOW, patience_s=20)
    assert status == 0
    assert "Traceback" not in err
    assert err.count("RuntimeWarning") == 1
    assert not until_gone(map(int, out.split()), 2)
    reap_orphans(before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_a_program_that_a_signal_ends(tmp_path: Path, number: int) -> None:
    before = children()
    waiting = "            time.sleep(600)\n"
    with running(tmp_path, HIDDEN + SLOW + waiting) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.stdout.readline()  # the second item
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.kill()
        process.wait(20)
        assert until(lambda: is_gone(pid), 5)
        assert "interrupted" not in process.stdout.read()
    until(lambda: all(map(is_gone, children() - before)), 5)


UNGUARDED = """
        import seqkit as sk

        print(list(sk.prefetch(range(5), 1, "process")))
"""


def test_a_script_without_a_main_guard_gets_an_error_with_the_remedy(tmp_path: Path) -> None:
    before = children()
    status, out, err = finished(tmp_path, HIDDEN + UNGUARDED)
    assert (status, out) == (1, "")
    # What its processes say may come later.
    told = "PrefetchError: prefetch: the executor takes no more tasks: RuntimeError: its processes"
    (line,) = {line for line in err.splitlines() if told in line}
    assert "put the code that starts work under `if __name__ == '__main__':`" in line
    reap_orphans(before)
