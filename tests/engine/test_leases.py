"""Arrays from process workers: the reader's own, right for ever, and never two owners of one slot."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine import results as outcome
from seqkit.engine import settings
from seqkit.engine.processes import transport as processes
from seqkit.engine.processes import user_forks

from .kinds import PROCESSES, Kind
from .scripts import forked
from .traces import descriptors, mapped, until

WORDS = 4096  # large enough to travel beside the pickle, small enough for many


def canary(i: int) -> Any:
    """An array that says in every word which item it is."""
    array = sk.empty(WORDS, np.int64)
    array[:] = i
    return array


def is_canary(array: Any, i: int) -> bool:
    return bool(array[0] == i and array[-1] == i and (array == i).all())


@pytest.fixture(scope="module")
def kind() -> Kind:
    return PROCESSES[0]


def test_arrays_are_writable_aligned_and_lie_in_the_pool(kind: Kind) -> None:
    with kind.ahead(sk.smap(canary, range(8))) as node:
        for i, array in enumerate(node):
            assert is_canary(array, i)
            assert array.flags.writeable
            assert array.ctypes.data % 64 == 0
            assert node.statistics().leased >= 1
            array[:] = -1
        assert node.statistics().copies == 0


def in_the_segment(array: Any) -> bool:
    """Does memory lie in a mapping of the engine's?"""
    spans = [line.split()[0].split("-") for line in mapped()]
    at = array.ctypes.data
    return any(int(start, 16) <= at and at + array.nbytes <= int(stop, 16) for start, stop in spans)


def test_a_stacked_batch_is_made_in_its_slot_and_copied_nowhere(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = outcome.encode

    def watched(*arguments: Any) -> Any:
        encoded = encode(*arguments)
        if encoded[2]:
            (tmp_path / "moved").touch()
        return encoded

    monkeypatch.setattr(outcome, "encode", watched)  # which forked workers inherit

    def sample(i: int) -> dict[str, Any]:
        return {"image": np.full((64, 64), i, np.float32), "label": i}

    batches = sk.batch(sk.smap(sample, range(160)), 16, collate_fn=sk.default_collate)
    with kind.ahead(batches) as node:
        for k, got in enumerate(node):
            numbers = range(16 * k, 16 * k + 16)
            assert (got["image"] == np.array(numbers)[:, None, None]).all()
            assert list(got["label"]) == list(numbers)
            assert in_the_segment(got["image"])
            assert not in_the_segment(got["image"].copy())
        seen = node.statistics()
        assert (seen.copies, seen.misses) == (0, 0)
    assert not (tmp_path / "moved").exists()


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_a_hundred_times_more_results_than_slots_are_delivered_correctly(kind: Kind) -> None:
    def files() -> set[tuple[int, str]]:
        # Descriptors of processes may arrive after the first item.
        return {(fd, what) for fd, what in descriptors().items() if "pidfd" not in what}

    with kind.ahead(sk.smap(canary, range(1800)), max_buffered=4) as node:
        first = next(iter(node))
        before = files()
        kept = list(node)
        assert files() == before
        assert node.statistics().slots * 100 <= 1800
    assert all(is_canary(array, i) for i, array in enumerate(kept))
    assert is_canary(first, 0)


def test_holding_any_number_of_results_mixes_up_nothing(kind: Kind) -> None:
    for held in range(14):
        with kind.ahead(sk.smap(canary, range(60)), max_buffered=6) as node:
            kept: list[tuple[int, Any]] = []
            for i, array in enumerate(node):
                kept.append((i, array))
                del kept[: max(0, len(kept) - held)]
                assert all(is_canary(a, j) for j, a in kept)


def test_holding_fewer_results_than_the_lease_allowance_costs_no_copy(kind: Kind) -> None:
    with kind.ahead(sk.smap(canary, range(100)), max_buffered=6) as node:
        kept: list[Any] = []
        for array in node:
            kept.append(array)
            del kept[: max(0, len(kept) - 6)]
        assert node.statistics().copies == 0


def test_a_slot_is_free_again_when_the_last_view_of_it_is_gone(kind: Kind) -> None:
    with kind.ahead(sk.smap(canary, range(3))) as node:
        whole = node[1]
        part = whole[10:20]
        seen = memoryview(whole)[5:6]
        shaped = whole.reshape(64, 64)
        del whole
        assert node.statistics().leased == 1
        del part, shaped
        assert node.statistics().leased == 1
        assert seen[0] == 1
        del seen
        assert node.statistics().leased == 0


def test_arrays_go_through_threads_and_come_back_changed(kind: Kind) -> None:
    done: list[tuple[int, Any]] = []

    def change(i: int, array: Any) -> None:
        assert is_canary(array, i)
        array += 1
        done.append((i, array))

    with kind.ahead(sk.smap(canary, range(40)), max_buffered=4) as node:
        threads = [threading.Thread(target=change, args=job) for job in enumerate(node)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(i for i, _ in done) == list(range(40))
        assert all(is_canary(array, i + 1) for i, array in done)
        assert right_again(node)


def right_again(node: sk.Prefetch) -> bool:
    return all(is_canary(array, i) for i, array in enumerate(node))


def test_several_threads_read_one_node_and_keep_results(kind: Kind) -> None:
    wrong: list[int] = []

    def read(number: int) -> None:
        kept: list[tuple[int, Any]] = []
        for i, array in enumerate(node):
            kept.append((i, array))
            del kept[: max(0, len(kept) - number)]
            wrong.extend(j for j, a in kept if not is_canary(a, j))

    with kind.ahead(sk.smap(canary, range(150)), max_buffered=4) as node:
        readers = [threading.Thread(target=read, args=(number,)) for number in (1, 3, 8, 20)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert wrong == []


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_arrays_outlive_the_node_and_the_memory_goes_with_the_last_one(kind: Kind) -> None:
    before = mapped()
    node = kind.ahead(sk.smap(canary, range(20)))
    kept = [node[i] for i in (3, 7)]
    node.close()
    del node
    gc.collect()
    assert is_canary(kept[0], 3)
    assert is_canary(kept[1], 7)
    kept[0][:] = 5
    assert is_canary(kept[0], 5)
    assert is_canary(kept[1], 7)
    kept.clear()
    gc.collect()
    assert mapped() == before


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_arrays_that_a_forked_child_keeps_stay_as_they_were_when_the_parent_reads_on(kind: Kind) -> None:
    with kind.ahead(sk.smap(canary, range(200)), max_buffered=4) as node:
        iterator = iter(node)
        kept = [next(iterator) for _ in range(5)]
        with forked(lambda: all(is_canary(array, i) for i, array in enumerate(kept))) as is_right:
            kept.clear()
            assert all(is_canary(array, i) for i, array in enumerate(iterator, 5))
            assert node.statistics().leased == 5
            assert is_right()
        assert until(lambda: node.statistics().leased == 0)  # it is looked ten times a second


def test_many_forks_beside_an_idle_node_take_few_descriptors(kind: Kind) -> None:
    with kind.ahead(sk.smap(canary, range(20)), 1) as node:
        array = node[3]
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            with forked(lambda: is_canary(array, 3)) as is_right:
                assert is_right()
        assert len(os.listdir("/proc/self/fd")) <= before + 1
        assert is_canary(array, 3)


class _Fork:
    """What happens around a fork in the parent, with a child that lives until it is told to end."""

    def __enter__(self) -> _Fork:
        user_forks._before_fork()
        child = user_forks._forking.child
        self.child = [] if child is None else [os.dup(child.theirs)]
        return self

    def returns(self) -> None:
        user_forks._after_fork_in_parent()

    def __exit__(self, *_: object) -> None:
        for fd in self.child:
            os.close(fd)


def test_arrays_stay_as_they_were_that_another_thread_drops_while_a_fork_returns(kind: Kind) -> None:
    with kind.ahead(sk.smap(canary, range(20))) as node:
        kept = [node[3]]
        with _Fork() as fork:
            kept.clear()
            assert node.statistics().leased == 1
            fork.returns()
            assert node.statistics().leased == 1
        assert until(lambda: node.statistics().leased == 0)


def test_a_node_may_be_closed_while_another_thread_forks(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    node, other = (kind.ahead(sk.smap(canary, range(20))) for _ in range(2))
    kept = [node[3], other[3]]
    with _Fork() as fork:
        node.close()
        fork.returns()
    pipe = os.pipe

    def and_meanwhile() -> tuple[int, int]:
        ends = pipe()
        other.close()
        return ends

    monkeypatch.setattr(os, "pipe", and_meanwhile)
    with _Fork() as fork:
        fork.returns()
    assert all(is_canary(array, 3) for array in kept)
    kept.clear()
    assert descriptors() == before


def test_nodes_may_come_and_go_while_another_thread_forks(kind: Kind) -> None:
    made: list[processes.Processes] = []
    settings = sk.prefetch([1], 1, "process", context="fork", seed=0)._settings

    def at_every_line(frame: Any, event: str, argument: Any) -> Any:
        sys.settrace(None)
        made.append(processes.Processes(sk.view([1]), settings, 0))
        made[-2:-1] = []  # the one before is collected
        sys.settrace(at_every_line)
        return at_every_line

    with kind.ahead(sk.smap(canary, range(20))) as node, kind.ahead(range(3)) as other:
        array = node[3]
        assert other[0] == 0
        before = sys.gettrace()
        sys.settrace(at_every_line)
        try:
            user_forks._before_fork()
        finally:
            sys.settrace(before)
        assert user_forks._forking.child is not None
        user_forks._after_fork_in_parent()
        assert made
        assert is_canary(array, 3)


def test_items_of_many_arrays_share_one_lease(kind: Kind) -> None:
    def several(i: int) -> Any:
        return {"a": canary(i), "b": (canary(i + 1), "text"), "small": np.full(3, i)}

    with kind.ahead(sk.smap(several, range(5))) as node:
        item = node[2]
        assert node.statistics().leased == 1
        second = item["b"][0]
        del item
        assert is_canary(second, 3)
        assert node.statistics().leased == 1


def test_a_kept_array_pickles_and_copies_like_any_other(kind: Kind) -> None:
    with kind.ahead(sk.smap(canary, range(3))) as node:
        array = node[2]
        assert is_canary(pickle.loads(pickle.dumps(array)), 2)
        assert is_canary(array.copy(), 2)


def soak(node: sk.Prefetch, n: int, items: int) -> int:
    """Read over epoch boundaries, breaks, re-iteration and garbage cycles; return how many were read."""
    rng = np.random.default_rng(0)
    kept: list[tuple[int, Any]] = []
    seen, epoch = 0, 0
    while seen < items:
        order = node.at_epoch(epoch)
        expected = sk.shuffle(range(n), seed=0).at_epoch(epoch)
        stop = int(rng.integers(1, n + 1))
        for i, array in zip(expected, order, strict=False):
            assert is_canary(array, i)
            seen += 1
            kept.append((i, array))
            if rng.random() < 0.2:
                cycle: list[Any] = [kept.pop(int(rng.integers(len(kept))))]
                cycle.append(cycle)
            if len(kept) > 20:
                assert all(is_canary(a, j) for j, a in kept)
                del kept[: int(rng.integers(1, 20))]
            if seen % n == stop:
                break
        epoch += 1
    assert all(is_canary(a, j) for j, a in kept)
    return seen


def test_no_item_is_ever_mixed_up_over_epochs_breaks_and_cycles(kind: Kind) -> None:
    with kind.ahead(sk.smap(canary, sk.shuffle(range(100), seed=0)), max_buffered=6) as node:
        assert soak(node, 100, 10_000) >= 10_000


@pytest.mark.stress
@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_no_item_is_ever_mixed_up_in_a_million(kind: Kind) -> None:
    with kind.ahead(sk.smap(canary, sk.shuffle(range(1000), seed=0))) as node:
        assert soak(node, 1000, 10**6) >= 10**6


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_a_forked_child_can_use_node_and_arrays_without_affecting_the_parent(kind: Kind) -> None:
    with kind.ahead(sk.smap(canary, range(100)), max_buffered=4) as node:
        iterator = iter(node)
        kept = [next(iterator) for _ in range(6)]
        pid = os.fork()
        if pid == 0:
            same = node.statistics() == sk.prefetch(range(3), 1).statistics()
            kept.clear()
            del iterator
            gc.collect()
            node.close()
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        rest = list(iterator)
        assert all(is_canary(array, i) for i, array in enumerate(kept + rest))


# -------------------------------------------------------------------- more results held than slots


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_held_results_beyond_the_slots_are_copied(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "LEASES", 4)
    with kind.ahead(sk.smap(canary, range(60)), max_buffered=4) as ahead:
        kept = list(ahead)
        assert all(is_canary(array, i) for i, array in enumerate(kept))
        seen = ahead.statistics()
        assert seen.leased + seen.copies == 60
        assert seen.slots - seen.leased >= 4  # two for each worker


def test_small_results_need_no_slot_and_are_never_short_of_one(kind: Kind) -> None:
    with kind.ahead(range(500), chunk_size=1) as ahead:
        assert list(ahead) == list(range(500))
        assert (ahead.statistics().leased, ahead.statistics().copies) == (0, 0)


def test_ended_forked_children_are_looked_for_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, looks = 0.0, list[float]()
    monkeypatch.setattr(user_forks, "monotonic", lambda: now_s)
    monkeypatch.setattr(user_forks.linux, "is_readable", lambda fd: looks.append(now_s))
    child = user_forks._Child()
    for step in range(100):  # jobs
        now_s = step / 100
        assert not child.has_ended()
    child.close()
    os.close(child.theirs)
    assert 8 <= len(looks) <= 11
