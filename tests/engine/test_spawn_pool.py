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


def test_items_are_computed_by_other_processes_with_one_warning() -> None:
    ahead = sk.prefetch(sk.smap(about_worker, range(40)), 2, "process", seed=5)
    with pytest.warns(RuntimeWarning, match="no os.memfd_create.*Results are pickled") as warned:
        ahead.start()
    assert len(warned) == 1
    items, pids, numbers, methods, seeds = zip(*ahead, strict=True)
    assert ahead[3][0] == 3
    ahead.close()
    assert items == tuple(range(40))
    assert os.getpid() not in pids
    assert set(numbers) <= {0, 1}
    assert set(methods) == {"process"}
    assert len(set(seeds)) == len(set(pids)) == len(set(numbers))


def test_a_loader_has_process_workers_too() -> None:
    loader = sk.DataLoader(np.arange(10), 3, num_workers=2, shuffle=True, seed=1)
    expected = [batch.tolist() for batch in sk.DataLoader(np.arange(10), 3, shuffle=True, seed=1)]
    assert [batch.tolist() for batch in loader] == expected


class Shifted:
    """A data set that a worker may change."""

    offset = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> int:
        return i + self.offset


def shift(worker: int) -> None:
    sk.get_worker_info().dataset.offset = 100  # type: ignore[union-attr]


def test_a_loader_s_hook_finds_the_data_set_that_items_come_from() -> None:
    loader = sk.DataLoader(Shifted(), None, num_workers=1, worker_init_fn=shift)
    assert list(loader) == [100, 101, 102, 103]


def test_lambdas_and_arrays_travel() -> None:
    with sk.prefetch(sk.smap(lambda x: np.full(5000, x), range(6)), 1, "process") as ahead:
        for x, item in enumerate(ahead):
            item += 1
            assert (item == x + 1).all()


def test_the_start_hook_is_called_once_in_each_process(tmp_path: Path) -> None:
    path = tmp_path / "calls"

    def hook(number: int) -> None:
        append(path, f"{number} {os.getpid()}\n")

    with sk.prefetch(sk.smap(about_worker, range(60)), 2, "process", start_hook=hook, chunk_size=1) as ahead:
        found = {f"{number} {pid}" for _, pid, number, *_ in ahead}
    assert sorted(path.read_text().splitlines()) == sorted(found)


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

    with sk.prefetch(sk.smap(item, range(12)), 2, "process", chunk_size=1) as ahead:
        *items, error = drawn(iter(ahead))
        assert items == list(range(len(items)))
        assert isinstance(error, RuntimeError)
        assert "its processes ended, for example because memory ran out" in str(error)
        with pytest.raises(RuntimeError, match="restart"):
            ahead[0]
        ahead.restart()
        assert list(ahead) == list(range(12))


def test_dropped_iterators_do_not_hide_a_death() -> None:
    def item(x: int) -> int:
        if x == 30:
            os._exit(1)
        return x

    with sk.prefetch(sk.smap(item, range(50)), 1, "process", max_buffered=3, chunk_size=1) as ahead:
        dropped, items = iter(ahead), iter(ahead)
        assert next(items) == 0
        del dropped  # cancelled tasks make a pool forget the others when it breaks, before Python 3.13
        with pytest.raises(RuntimeError, match="its processes ended"):
            list(items)


def draw(x: int) -> tuple[float, float]:
    return random.random(), np.random.rand()


def test_batches_of_a_loader_draw_the_same_for_any_number_of_processes() -> None:
    found = []
    for workers in (1, 2):
        loader = sk.DataLoader(sk.smap(draw, range(12)), 2, num_workers=workers, seed=1)
        found.append(np.stack([np.asarray(batch) for batch in loader]))
    assert np.array_equal(*found)
    assert len(np.unique(found[0])) == 24


def test_timeouts_are_refused() -> None:
    with (
        sk.prefetch(range(3), 1, "process", timeout=1) as ahead,
        pytest.raises(
            ValueError, match=r"timeout cannot be used with method='process' on this system \(this Py"
        ),
    ):
        ahead[0]


def test_a_pipeline_that_cannot_be_pickled_is_refused_with_the_reason() -> None:
    lock = threading.Lock()
    with (
        sk.prefetch(sk.smap(lambda x: lock, range(3)), 1, "process") as ahead,
        pytest.raises(TypeError, match="cannot be pickled for workers"),
    ):
        ahead[0]


# -------------------------------------------------------------------- beginning and ending


def test_processes_start_with_the_first_read_and_end_with_the_node() -> None:
    before = children()
    ahead = sk.prefetch(sk.smap(about_worker, range(9)), 2, "process")
    assert children() == before
    pids = {pid for _, pid, *_ in ahead}
    ahead.restart()
    assert not until_gone(pids, 2)
    others = {pid for _, pid, *_ in ahead}
    assert not pids & others
    ahead.close()
    assert not until_gone(others, 2)
    with pytest.raises(RuntimeError, match="closed"):
        ahead[0]


def test_closing_does_not_wait_for_a_long_item(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def item(x: int) -> None:
        import time

        append(begun, f"{os.getpid()}\n")
        time.sleep(600)

    ahead = sk.prefetch(sk.smap(item, range(9)), 1, "process")
    items = iter(ahead)
    assert until(begun.exists)
    ahead.close()
    assert not until_gone(map(int, begun.read_text().split()), 2)
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

        def item(x):
            print(os.getpid(), flush=True)
            time.sleep(0.1 if x == 0 else 600)
            return x

        if __name__ == "__main__":
            items = iter(sk.prefetch(sk.smap(item, range(100)), 1, "process", chunk_size=1))
            next(items)
"""


def test_a_program_that_ends_does_not_wait_for_items(tmp_path: Path) -> None:
    before = children()
    status, out, err = finished(tmp_path, HIDDEN + SLOW, patience_s=20)
    assert status == 0
    assert "Traceback" not in err
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


def test_a_script_with_a_main_guard_works(tmp_path: Path) -> None:
    guarded = """
        import seqkit as sk

        def main():
            print(list(sk.prefetch(sk.smap(lambda x: double(x), range(5)), 1, "process")))

        def double(x):
            return 2 * x

        if __name__ == "__main__":
            main()
    """
    before = children()
    status, out, err = finished(tmp_path, HIDDEN + guarded)
    assert (status, out) == (0, "[0, 2, 4, 6, 8]\n")
    assert err.count("RuntimeWarning") == 1
    reap_orphans(before)


def test_an_item_may_use_processes_too() -> None:
    def item(x: int) -> Any:  # threads then: this is a process worker
        return list(sk.prefetch(range(x), 1, "process"))

    with sk.prefetch(sk.smap(item, range(3)), 1, "process") as ahead:
        assert list(ahead) == [[], [0], [0, 1]]
