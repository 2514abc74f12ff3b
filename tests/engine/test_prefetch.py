"""The prefetch node as a view: arguments, life, and reading in every way there is."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import seqkit as sk
from seqkit.core.iteration import restarting
from seqkit.core.view import View
from seqkit.engine import reader
from seqkit.engine.processes.slots import SlotPool
from seqkit.engine.protocol import PrefetchError
from seqkit.engine.reader import Reader
from seqkit.engine.scheduler import CLOSED, Scheduler

from .kinds import KINDS, PROCESSES, Kind
from .traces import append, children, descriptors, drawn, is_collected, threads, until

THREAD, FORK = KINDS[0], PROCESSES[0]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
threads_and_forks = pytest.mark.parametrize("kind", [THREAD, FORK], ids=str)


def double(x: Any) -> Any:
    return x * 2


class Log:
    """A function that writes down what it is called with; the list is seen in this process only."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, x: int) -> int:
        self.calls.append(x)
        return x


class FileLog:
    """The same for functions that run in other processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def __call__(self, x: int) -> int:
        append(self.path, f"{x}\n")
        return x

    @property
    def calls(self) -> list[int]:
        return list(map(int, self.path.read_text().split()))


# -------------------------------------------------------------------- arguments


def test_arguments_are_checked_when_the_node_is_built() -> None:
    methods = "'thread', 'process', 'async', 'inline', 'auto', 'dask', 'ray' or a concurrent.futures.Executor"
    size, number = "must be an int of at least 0 or None", "must be a number of seconds above 0 or None"
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"seq": 5}, TypeError, "a sequence needs [i] and usually len(), got int"),
        ({"method": "fork"}, ValueError, f"method must be one of {methods}, got 'fork'"),
        ({"method": None}, ValueError, f"method must be one of {methods}, got None"),
        ({"context": "posix"}, ValueError, "context must be 'fork', 'forkserver', 'spawn' or None, got 'pos"),
        ({"nworkers": "2"}, TypeError, "nworkers must be an int of at least"),
        ({"nworkers": True}, TypeError, "nworkers must be an int of at least"),
        ({"nworkers": -10_000}, ValueError, "nworkers must be an int of at least"),
        ({"max_buffered": 0}, ValueError, "max_buffered must be a positive int or None, got 0"),
        ({"max_buffered": "3"}, TypeError, "max_buffered must be a positive int or None, got '3'"),
        ({"start_hook": 3}, TypeError, "start_hook must be callable or None, got 3"),
        ({"shm_size": 1 << 20}, ValueError, "shm_size is for processes, got method='thread'"),
        ({"context": "fork"}, ValueError, "context is for processes, got method='thread'"),
        ({"shm_size": -1}, ValueError, f"shm_size {size}, got -1"),
        ({"shm_size": 1.5}, TypeError, f"shm_size {size}, got 1.5"),
        (
            {"shm_size": 100, "method": "process"},
            ValueError,
            "at least 90112 bytes, a page for each of 22 sl",
        ),
        ({"chunk_size": 0}, ValueError, "chunk_size must be a positive int or 'auto', got 0"),
        ({"chunk_size": "big"}, TypeError, "chunk_size must be a positive int or 'auto', got 'big'"),
        ({"chunk_size": None}, TypeError, "chunk_size must be a positive int or 'auto', got None"),
        ({"timeout": 0}, ValueError, f"timeout {number}, got 0"),
        ({"timeout": float("nan")}, ValueError, f"timeout {number}, got nan"),
        ({"timeout": True}, TypeError, f"timeout {number}, got True"),
        ({"timeout": 1, "nworkers": 0}, ValueError, "timeout needs workers, got nworkers=0"),
        ({"seed": -1}, ValueError, "seed must be an int of at least 0 or None, got -1"),
        ({"in_order": 1}, TypeError, "in_order must be a bool, got 1"),
        ({"retries": -1}, ValueError, "retries must be an int of at least 0, got -1"),
        ({"retries": None}, TypeError, "retries must be an int of at least 0, got None"),
    ]
    for arguments, error, message in wrong:
        with pytest.raises(error, match=r"^prefetch: ") as info:
            sk.prefetch(**{"seq": range(3), "nworkers": 2} | arguments)
        assert message in str(info.value)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'colour'"):
        sk.prefetch(range(3), colour="red")  # type: ignore[call-arg]


def test_a_node_without_workers_is_its_source() -> None:
    log = Log()
    source = sk.smap(log, range(9))
    with sk.prefetch(source, 0, in_order=False) as node:
        items = iter(node.start())
        assert log.calls == []
        assert next(items) == source[0]
        assert log.calls == [0, 0]  # nothing is evaluated ahead
        assert [*items] == list(source)[1:]
        assert (node[-1], list(node[2:4])) == (source[8], [source[2], source[3]])
        assert node.statistics() == sk.prefetch(source).statistics()
    for read in (node.start, lambda: node[0], lambda: list(node)):
        with pytest.raises(RuntimeError, match="the node is closed"):
            read()
    node.restart()
    assert list(node) == list(source)


def test_the_number_of_workers_counts_from_either_end() -> None:
    usable = len(os.sched_getaffinity(0))
    assert f"nworkers={usable}," in repr(sk.prefetch(range(3)))
    assert "nworkers=0, method='inline'" in repr(sk.prefetch(range(3), 0))
    assert "nworkers=0, method='inline'" in repr(sk.prefetch(range(3), 5, "inline"))
    assert "nworkers=3," in repr(sk.prefetch(range(3), np.int64(3)))  # type: ignore[arg-type]
    with ThreadPoolExecutor(5) as pool:
        assert f"nworkers=4, method={pool!r}" in repr(sk.prefetch(range(3), -1, pool))


def test_names_and_order_of_arguments_are_those_of_seqtools() -> None:
    for method in ("process", "thread"):
        with sk.prefetch(range(9), 1, method, 3, lambda: None, 0) as node:  # type: ignore[arg-type]
            assert list(node) == list(range(9))


# -------------------------------------------------------------------- before and after


@every_kind
def test_building_a_node_reads_and_starts_nothing(kind: Kind) -> None:
    log, before = Log(), (threads(), children(), descriptors())
    node = kind.ahead(sk.smap(log, range(9)))
    assert len(node) == 9
    assert repr(node) == f"prefetch(smap(Log, <range of 9>), nworkers=2, method='{kind.method}')"
    assert len(node[1:][::-1]) == 8
    assert node.statistics().jobs == 0
    assert log.calls == []
    assert (threads(), children(), descriptors()) == before
    node.close()
    node.close()


@every_kind
def test_a_closed_node_leaves_nothing_and_refuses_to_read_until_it_is_restarted(kind: Kind) -> None:
    node = kind.ahead(sk.smap(double, range(9)))
    assert node.start() is node
    iterator = iter(node)
    assert next(iterator) == 0
    assert node[3] == 6
    node.close()
    node.close()
    reads: list[Callable[[], Any]] = [
        lambda: node[0],
        lambda: list(node),
        lambda: node[2:4][0],
        lambda: node._getmany([1]),
        lambda: next(reversed(node)),
        lambda: node.start(),
    ]
    for read in reads:
        with pytest.raises(RuntimeError, match=r"^prefetch: the node is closed; restart\(\) starts it anew$"):
            read()
    with pytest.raises(RuntimeError, match="closed"):
        list(iterator)
    assert list(iterator) == []  # told once, then over
    assert len(node) == 9
    assert node.statistics().items >= 2
    node.restart()
    assert list(node) == [double(x) for x in range(9)]
    node.close()
    del iterator


@every_kind
def test_a_dropped_node_leaves_nothing_behind_in_a_garbage_cycle_too(kind: Kind) -> None:
    for is_in_cycle in (False, True):
        node: Any = kind.ahead(sk.smap(double, range(9)))
        iterator = iter(node)
        assert (next(iterator), node[4]) == (0, 8)
        cycle = [node, iterator]
        cycle += [cycle] * is_in_cycle
        del node, iterator, cycle


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("kind", [*KINDS, Kind("process")], ids=str)
def test_a_dropped_node_needs_no_garbage_collection(kind: Kind) -> None:
    node = kind.ahead(sk.smap(double, range(99)))
    assert next(iter(node)) == 0
    gone = weakref.ref(node)
    del node
    assert until(lambda: gone() is None)


@threads_and_forks
def test_a_node_whose_own_pipeline_leads_back_to_it_is_collected(kind: Kind) -> None:
    class Pictures:
        def __init__(self) -> None:
            batches = sk.batch(sk.smap(self.load, range(20)), 2, collate_fn=sk.default_collate)
            self.ahead = kind.ahead(batches, start_hook=self.begin)

        def begin(self) -> None: ...

        def load(self, i: int) -> Any:
            return np.full(1000, i)

    pictures = Pictures()
    assert pictures.ahead[3][1, 0] == 7
    assert sum(1 for _ in pictures.ahead) == 10
    gone = weakref.ref(pictures)
    del pictures
    assert until(lambda: is_collected(gone))  # a thread may still be at the job that it did last


@every_kind
def test_a_finaliser_may_read_the_node_that_is_collected_with_its_object(kind: Kind) -> None:
    seen = []

    class Owner:
        def __init__(self) -> None:
            self.itself = self
            self.ahead = kind.ahead(sk.smap(double, range(9)))

        def __del__(self) -> None:
            try:
                seen.append(list(self.ahead))
            except RuntimeError as error:
                seen.append(str(error))

    owner = Owner()
    assert owner.ahead[4] == 8
    del owner
    gc.collect()
    assert seen == [CLOSED]


@threads_and_forks
def test_an_iterator_keeps_the_workers_it_needs(kind: Kind) -> None:
    iterator = iter(kind.ahead(sk.smap(double, range(50))))
    gc.collect()
    assert list(iterator) == [double(x) for x in range(50)]


@every_kind
def test_a_context_manager_closes_the_node_and_lets_errors_pass(kind: Kind) -> None:
    def use() -> None:
        with node as entered:
            assert entered is node
            assert list(node) == [0, 1, 2]
            raise ZeroDivisionError

    node = kind.ahead(range(3))
    with pytest.raises(ZeroDivisionError):
        use()
    with pytest.raises(RuntimeError, match="closed"):
        node[0]


@every_kind
def test_workers_see_the_sources_as_they_were_at_the_start_until_a_restart(kind: Kind) -> None:
    source = [1, 2, 3]
    with kind.ahead(source) as node:
        node.start()
        assert list(node) == [1, 2, 3]
        source[:] = [4, 5, 6]
        assert list(node) == ([1, 2, 3] if kind.method == "process" else [4, 5, 6])
        node.restart()
        source[0] = 7
        assert list(node) == [7, 5, 6]


@every_kind
def test_a_copy_of_a_node_is_a_node_of_its_epoch_that_has_not_started(kind: Kind) -> None:
    with kind.ahead(sk.shuffle(range(5), 0), max_buffered=3, chunk_size=2, retries=0).at_epoch(4) as node:
        expected = list(node)
        for other in (pickle.loads(pickle.dumps(node)), copy.deepcopy(node)):
            assert (type(other), repr(other), other.statistics().items) == (sk.Prefetch, repr(node), 0)
            assert other._epoch == 4  # it seeds the generators of process workers
            with other:
                assert list(other) == expected
            assert node[2] == expected[2]


@every_kind
def test_a_node_reads_on_in_a_forked_child(kind: Kind) -> None:
    with kind.ahead(sk.smap(double, range(20))) as node:
        iterator = iter(node)
        assert next(iterator) == 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # since 3.12 for forks with threads
            pid = os.fork()
        if pid == 0:
            try:
                signal.alarm(20)
                right = list(node) == [double(x) for x in range(20)] and node[3] == 6
                node.close()
                os._exit(0 if right else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert list(iterator) == [double(x) for x in range(1, 20)]


@threads_and_forks
@pytest.mark.parametrize("workers", [1, 2])
def test_one_item_does_not_wait_for_the_chunks_of_an_iterator(
    kind: Kind, workers: int, tmp_path: Path
) -> None:
    log = FileLog(tmp_path / "log")

    def item(i: int) -> int:
        time.sleep(0.002)  # a chunk takes two seconds
        return log(i)

    with kind.ahead(sk.smap(item, range(9000)), workers, chunk_size=1000) as node:
        items = iter(node)
        assert next(items) == 0
        assert node[8500] == 8500
        assert len(log.calls) < 1000
        assert [*islice(items, 20)] == list(range(1, 21))


# -------------------------------------------------------------------- reading by index


def test_scattered_reads_cost_no_more_than_what_they_read() -> None:
    log = Log()
    with THREAD.ahead(sk.smap(log, range(1000))) as node:
        wanted = [5, 900, 3, 400, 7, 999, 0, 4, 401]
        assert [node[i] for i in wanted] == wanted
    # An index that follows one of the last reads may be taken for the start of a scan.
    assert len(log.calls) <= len(wanted) + 2
    assert set(log.calls) >= set(wanted)


@threads_and_forks
def test_single_reads_evaluate_a_single_item_and_reads_in_order_everything_once(
    kind: Kind, tmp_path: Path
) -> None:
    log = FileLog(tmp_path / "single")
    with kind.ahead(sk.smap(log, range(1000)), chunk_size=10) as node:
        assert [node[i] for i in (500, 10, 700, 10)] == [500, 10, 700, 10]
    assert log.calls == [500, 10, 700, 10]
    log = FileLog(tmp_path / "in order")
    with kind.ahead(sk.smap(log, range(200)), chunk_size=1) as node:
        assert [node[i] for i in range(200)] == list(range(200))
    assert sorted(log.calls) == list(range(200))


def test_reading_in_order_asks_for_more_and_more_ahead() -> None:
    log = Log()
    with THREAD.ahead(sk.smap(log, range(500)), max_buffered=12, chunk_size=1) as node:
        for i, most in enumerate([0, 1, 2, 4, 8, *[12] * 30]):
            assert node[i] == i
            assert until(lambda: len(log.calls) > i + min(most, 9))  # noqa: B023 - it is called at once
            assert len(log.calls) <= i + 1 + most


def test_scans_in_turn_each_read_ahead_for_themselves() -> None:
    log = Log()
    starts = (0, 1000, 2000, 3000)  # further apart than a scan works ahead
    with THREAD.ahead(sk.smap(log, range(4000)), chunk_size=1) as node:
        for i in range(100):
            for start in starts:
                assert node[start + i] == start + i
    assert max(Counter(log.calls).values()) == 1
    assert len(log.calls) > 400  # some were read ahead in vain


def test_more_scans_than_are_remembered_are_read_right() -> None:
    with THREAD.ahead(sk.smap(double, range(1000))) as node:
        for i in range(30):
            for start in range(0, 1000, 100):
                assert node[start + i] == 2 * (start + i)


def test_reading_backwards_evaluates_each_item_once() -> None:
    log = Log()
    with THREAD.ahead(sk.smap(log, range(50))) as node:
        assert [node[i] for i in range(49, -1, -1)] == list(range(49, -1, -1))
    assert sorted(log.calls) == list(range(50))


@threads_and_forks
def test_a_scan_goes_on_behind_an_error(kind: Kind) -> None:
    with kind.ahead(sk.smap(lambda x: 1 // (x % 3), range(12)), chunk_size=2) as node:
        for i in range(12):
            if i % 3:
                assert node[i] == 1 // (i % 3)
            else:
                with pytest.raises(sk.EvaluationError, match=rf"smap\[{i}\]") as info:
                    node[i]
                assert info.value.path[0] == (node, i)


# -------------------------------------------------------------------- iterators


@every_kind
def test_iterators_are_independent_of_each_other(kind: Kind) -> None:
    with kind.ahead(sk.smap(double, range(60))) as node:
        first, second, third = iter(node), iter(node), reversed(node)
        seen: list[list[Any]] = [[], [], []]
        for which, count in [(0, 5), (1, 20), (2, 3), (0, 100), (1, 1), (2, 100), (1, 100)]:
            seen[which] += islice((first, second, third)[which], count)
        expected = [double(x) for x in range(60)]
        assert seen == [expected, expected, expected[::-1]]
        assert list(pairwise(node)) == list(pairwise(expected))
        assert (next(first, "over"), iter(first) is first) == ("over", True)


@threads_and_forks
def test_dropping_an_iterator_stops_its_pending_work(kind: Kind, tmp_path: Path) -> None:
    begun, gate = os.pipe(), os.pipe()
    log = FileLog(tmp_path / "log")

    def f(x: int) -> int:
        log(x)
        if x == 0:
            os.write(begun[1], b"x")
            os.read(gate[0], 1)
        return x

    with kind.ahead(sk.smap(f, range(100)), 1, max_buffered=8, chunk_size=1) as node:
        iterator = iter(node)
        os.read(begun[0], 1)  # the only worker is at item 0, and 7 more are queued
        del iterator
        os.write(gate[1], b"x")
        assert node[50] == 50
    assert log.calls == [0, 50]
    for descriptor in (*begun, *gate):
        os.close(descriptor)


@every_kind
def test_threads_may_read_a_node_in_every_way_at_once(kind: Kind) -> None:
    expected = [double(x) for x in range(120)]
    scattered = [i * 37 % 120 for i in range(120)]
    ways: list[Callable[[], bool]] = [
        *[lambda: list(node) == expected] * 2,
        lambda: [node[i] for i in range(120)] == expected,
        lambda: [node[i] for i in range(119, -1, -7)] == expected[::-7],
        lambda: list(node[::-1]) == expected[::-1],
        lambda: [node[i] for i in scattered] == [expected[i] for i in scattered],
    ]
    with kind.ahead(sk.smap(double, range(120))) as node, ThreadPoolExecutor(len(ways)) as pool:
        barrier = threading.Barrier(len(ways))
        assert all(pool.map(lambda way: barrier.wait() >= 0 and way(), ways))


def within_reach(function: Callable[[], Any]) -> Any:
    """Call a function that may wait for itself; fail then."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(20)
    assert found, "it waits for ever, or raised"
    return found[0]


@threads_and_forks
def test_a_node_may_be_closed_by_a_signal_handler_while_it_starts(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = kind.ahead(range(3))
    started = node.engine._started

    def and_closed() -> Any:
        found = started()
        node.close()  # as from a handler, in this thread
        return found

    monkeypatch.setattr(node.engine, "_started", and_closed)

    def read() -> str:
        with pytest.raises(RuntimeError, match="the node is closed"):
            node[0]
        return "told"

    assert within_reach(read) == "told"
    monkeypatch.undo()
    node.restart()
    with node:
        assert node[1] == 1


@threads_and_forks
def test_a_read_during_a_restart_starts_again(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    with kind.ahead(range(10)) as node:
        assert list(node) == list(range(10))
        found: list[int] = []
        backend = node.engine._scheduler.backend  # type: ignore[union-attr]
        close = backend.close

        def and_meanwhile() -> None:  # as another thread, while the old workers leave
            found.append(node[3])
            close()

        monkeypatch.setattr(backend, "close", and_meanwhile)
        node.restart()
        monkeypatch.undo()
        assert found == [3]
        assert list(node) == list(range(10))


def test_a_node_may_be_read_by_a_signal_handler_while_it_is_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    with THREAD.ahead(sk.smap(double, range(50)), 1) as node:
        assert node[0] == 0
        ended = Reader.ended
        read: list[int] = []

        def and_meanwhile(self: Reader) -> bool:
            monkeypatch.undo()
            read.append(node[1])  # the very item the interrupted read is about to take
            return ended(self)

        monkeypatch.setattr(Reader, "ended", and_meanwhile)
        assert within_reach(lambda: [node[i] for i in (1, 2, 3)]) == [2, 4, 6]
        assert read == [2]


def test_one_node_started_by_many_threads_starts_once() -> None:
    hooked: list[int] = []
    barrier = threading.Barrier(8)
    with THREAD.ahead(range(10), 2, start_hook=hooked.append) as node, ThreadPoolExecutor(8) as pool:
        assert {*pool.map(lambda _: barrier.wait() >= 0 and sum(node), range(8))} == {45}
    assert sorted(hooked) == [0, 1]


# -------------------------------------------------------------------- in an expression

EXPRESSIONS: list[Callable[[Callable[[Any], View[Any]]], View[Any]]] = [
    lambda ahead: sk.batch(ahead(sk.smap(double, range(23))), 4),
    lambda ahead: ahead(sk.batch(sk.smap(double, range(23)), 4)),
    lambda ahead: sk.shuffle(ahead(sk.smap(double, range(23))), seed=0),
    lambda ahead: ahead(sk.shuffle(sk.smap(double, range(23)), seed=0)),
    lambda ahead: sk.smap(double, ahead(range(23))),
    lambda ahead: sk.gather(ahead(range(23)), [5, 5, -1, 0, 7, 8, 9]),
    lambda ahead: ahead(sk.gather(range(23), [5, 5, -1, 0, 7, 8, 9]))[1:-1],
    lambda ahead: ahead(range(23))[::-2][1:],
    lambda ahead: sk.concatenate([ahead(range(5)), range(9), ahead(sk.smap(double, range(7)))]),
    lambda ahead: sk.collate([ahead(range(9)), ahead(sk.smap(double, range(9)))]),
    lambda ahead: sk.unbatch(ahead(sk.batch(range(23), 4)), 4, 3),
    lambda ahead: ahead(sk.batch(ahead(sk.shuffle(ahead(range(23)), seed=1)), 3)),
    lambda ahead: sk.random_map(lambda x, rng: (x, int(rng.integers(99))), ahead(range(9)), seed=0),
    lambda ahead: ahead(sk.random_map(lambda x, rng: (x, int(rng.integers(99))), range(9), seed=0)),
]


@threads_and_forks
@pytest.mark.parametrize("build", EXPRESSIONS)
def test_a_node_anywhere_in_an_expression_changes_no_item(kind: Kind, build: Any) -> None:
    nodes: list[sk.Prefetch] = []

    def ahead(source: Any) -> sk.Prefetch:
        nodes.append(kind.ahead(source))
        return nodes[-1]

    expected = list(build(sk.view))
    view = build(ahead)
    assert list(view) == expected
    assert [view[i] for i in range(-len(view), len(view))] == expected * 2
    assert list(view[::-1]) == expected[::-1]
    assert list(view._getmany(range(len(view)))) == expected
    for node in nodes:
        node.close()


def test_a_plan_from_above_is_what_is_computed_ahead() -> None:
    log = Log()
    source = sk.smap(log, range(1000))
    with sk.prefetch(source, 1, max_buffered=10) as node:
        order = sk.shuffle(node, seed=3)
        expected = list(sk.shuffle(range(1000), seed=3))
        assert list(islice(order, 100)) == expected[:100]
        assert log.calls == expected[: len(log.calls)]
        log.calls.clear()
        batches = sk.batch(sk.gather(node, [9, 7, 5, 3, 1, 0]), 2)
        assert list(batches) == [[9, 7], [5, 3], [1, 0]]
        assert [x for x in log.calls if x in (9, 7, 5, 3, 1, 0)][-6:] == [9, 7, 5, 3, 1, 0]


def test_an_error_below_a_node_names_every_view_on_the_way() -> None:
    for kind in (THREAD, FORK):
        with kind.ahead(sk.smap(lambda x: 1 // x, sk.shuffle(range(10), seed=0))) as node:
            batches = sk.batch(node, 5)
            bad = list(sk.shuffle(range(10), seed=0)).index(0)
            with pytest.raises(sk.EvaluationError) as info:
                list(batches)
            assert [(view._name, i) for view, i in info.value.path][-2:] == [("prefetch", bad), ("smap", bad)]
            with pytest.raises(sk.EvaluationError) as info:
                batches[bad // 5]
            assert [(view._name, i) for view, i in info.value.path] == [
                ("batch", bad // 5),
                ("prefetch", bad),
                ("smap", bad),
            ]


@pytest.mark.parametrize("inner", [THREAD, FORK], ids=str)
@pytest.mark.parametrize("outer", [THREAD, FORK], ids=str)
def test_a_node_inside_a_worker_of_another_works(outer: Kind, inner: Kind) -> None:
    def where(x: int) -> Any:
        info = sk.get_worker_info()
        assert info is not None
        return x, os.getpid(), info.method

    with (
        inner.ahead(sk.smap(where, range(40))) as below,
        outer.ahead(sk.smap(lambda item: (*item, os.getpid()), below)) as above,
    ):
        seen = list(above)
    assert [x for x, *_ in seen] == list(range(40))
    methods = {method for _, _, method, _ in seen}
    if outer.method == "process":
        assert methods == {"thread"}  # a process worker starts no processes
        assert all(inner_pid == outer_pid for _, inner_pid, _, outer_pid in seen)
    else:
        assert methods == {inner.method}


@pytest.mark.parametrize("outer", [THREAD, FORK], ids=str)
def test_a_node_inside_a_worker_computes_no_item_that_other_workers_read(outer: Kind, tmp_path: Path) -> None:
    log = FileLog(tmp_path / "log")
    with (
        THREAD.ahead(sk.smap(log, range(100))) as below,
        outer.ahead(sk.smap(abs, below), chunk_size=1) as above,
    ):
        assert list(above) == list(range(100))
    assert sorted(log.calls) == list(range(100))


def test_a_node_of_another_epoch_reads_by_index_too() -> None:
    source = sk.shuffle(range(50), seed=0)
    for kind in (THREAD, FORK):
        with kind.ahead(source) as node:
            other = node.at_epoch(5)
            expected = list(source.at_epoch(5))
            assert [other[i] for i in range(50)] == expected
            assert [node[i] for i in range(50)] == list(source)
            assert list(other[::-1]) == expected[::-1]
            assert list(other) == expected


def test_a_batch_of_a_node_follows_the_epoch() -> None:
    with sk.prefetch(sk.shuffle(range(50), seed=0), 2) as node:
        batches = sk.batch(node, 7)
        expected = sk.batch(sk.shuffle(range(50), seed=0), 7)
        for epoch in range(3):
            assert list(batches.at_epoch(epoch)) == list(expected.at_epoch(epoch))
        assert node.statistics().items == 150  # the same workers all along


# -------------------------------------------------------------------- items as they come


@every_kind
def test_out_of_order_a_slow_item_delays_no_other_item(kind: Kind, tmp_path: Path) -> None:
    enough = tmp_path / "enough"

    def f(x: int) -> int:
        while x == 3 and not enough.exists():
            time.sleep(0.001)  # a worker has no other way to hear of it
        return x

    with kind.ahead(sk.smap(f, range(40)), chunk_size=1, in_order=False) as node:
        iterator = iter(node)
        others = list(islice(iterator, 39))
        assert sorted(others) == [x for x in range(40) if x != 3]
        enough.touch()
        assert list(iterator) == [3]
        assert sorted(node) == list(range(40))


@every_kind
def test_views_over_a_node_keep_to_the_order_whatever_it_does_itself(kind: Kind) -> None:
    with kind.ahead(sk.smap(double, range(60)), in_order=False) as node:
        expected = [2 * x for x in range(60)]
        assert list(sk.collate([node, range(60)])) == list(zip(expected, range(60), strict=True))
        assert list(sk.batch(node, 60)) == [expected]
        assert list(node[5:20]) == expected[5:20]
        assert [node[i] for i in (7, 8, -1)] == [14, 16, 118]
        assert sk.batch(node, 10)[2] == expected[20:30]
        assert sorted(node) == expected


@every_kind
def test_out_of_order_failures_are_raised_as_they_arrive(kind: Kind) -> None:
    def f(x: int) -> int:
        if x % 7 == 3:
            raise ValueError(f"no {x}")
        return x

    with kind.ahead(sk.smap(f, range(40)), in_order=False) as node:
        iterator, seen = iter(node), []
        while len(seen) < 40:
            try:
                seen.append(next(iterator))
            except sk.EvaluationError as error:
                seen.append(error.index)
        assert sorted(seen) == list(range(40))
        assert next(iterator, None) is None


# -------------------------------------------------------------------- interruptions


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Ctrl-C inside the garbage collector, where Hypothesis hooks in, would be printed and forgotten."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("kind", [THREAD, FORK], ids=str)
def test_after_ctrl_c_the_next_read_starts_anew(kind: Kind, tmp_path: Path) -> None:
    reader, gate, once = os.getpid(), os.pipe(), tmp_path / "once"

    def f(x: int) -> int:
        if x == 5 and not once.exists():
            once.touch()
            os.kill(reader, signal.SIGINT)
            os.read(gate[0], 1)  # the reader waits for this item, or soon will
        return x

    with kind.ahead(sk.smap(f, range(20)), chunk_size=1) as node:
        with pytest.raises(KeyboardInterrupt):
            list(node)
        os.write(gate[1], b"x")
        assert list(node) == list(range(20))
        assert [node[i] for i in range(20)] == list(range(20))
    for descriptor in gate:
        os.close(descriptor)


def test_after_ctrl_c_indexing_starts_a_new_scan_at_the_right_place(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, hits = Reader.next, iter([False] * 3 + [True] + [False] * 100)

    def interrupted(self: Reader) -> Any:
        arrived = draw(self)
        if next(hits):
            raise KeyboardInterrupt  # after the reader went on, and before the scan knows
        return arrived

    monkeypatch.setattr(Reader, "next", interrupted)
    with THREAD.ahead(range(100), 1, chunk_size=1, max_buffered=1) as node:
        assert [node[i] for i in range(3)] == [0, 1, 2]
        with pytest.raises(KeyboardInterrupt):
            node[3]
        assert [node[i] for i in range(3, 20)] == list(range(3, 20))


def test_an_item_that_was_computed_ahead_is_not_computed_again_by_an_index_beyond_the_next() -> None:
    log = Log()
    with THREAD.ahead(sk.smap(log, range(60)), 1) as node:
        for i in range(20):
            assert node[i] == i
        assert until(lambda: {20, 21, 22} <= {*log.calls})
        assert [node[i] for i in (22, 20, 21)] == [22, 20, 21]
        assert all(log.calls.count(i) == 1 for i in range(23))


# -------------------------------------------------------------------- statistics


@every_kind
def test_statistics_count_no_item_behind_the_end(kind: Kind) -> None:
    for in_order in (True, False):
        with kind.ahead(sk.uniter(lambda: iter(range(50))), in_order=in_order) as node:
            assert len(list(node)) == 50
            assert node.statistics().items == 50


@every_kind
def test_statistics_count_items_and_work(kind: Kind) -> None:
    with kind.ahead(sk.smap(double, range(100)), chunk_size=4) as node:
        assert list(node) == [double(x) for x in range(100)]
        seen = node.statistics()
        assert (seen.items, seen.restarts, seen.chunk) == (100, 0, 4)
        # Items are delivered before their job has ended, and each of the two workers may still have one.
        assert 23 <= seen.jobs <= 25
        assert seen.worked_ns > 0
        assert seen.waited_ns > 0
        assert (seen.copies, seen.misses, seen.leased, seen.retired) == (0, 0, 0, 0)
        if kind.method == "process":
            assert seen.nbytes > 0
            assert seen.slots == 80  # 64 for jobs in flight, 14 for results, 2 that workers may retain
            assert seen.slot_bytes >= 1 << 20
        else:
            assert (seen.nbytes, seen.slots, seen.slot_bytes) == (0, 0, 0)
    after = node.statistics()
    assert after.items == 100
    assert after == node.statistics()
    node.restart()
    assert node[0] == 0
    assert node.statistics().items == 1
    node.close()


# -------------------------------------------------------------------- one iterator, several who draw from it


@threads_and_forks
@pytest.mark.parametrize("chunk_size", [1, 7])
def test_threads_that_share_an_iterator_lose_nothing(kind: Kind, chunk_size: int) -> None:
    told = set[str]()

    def draw(_: int) -> Iterator[int]:
        while True:
            try:
                yield next(iterator)
            except StopIteration:
                return
            except ValueError as error:
                told.add(str(error))

    with (
        kind.ahead(sk.smap(double, range(300)), chunk_size=chunk_size) as node,
        ThreadPoolExecutor(3) as pool,
    ):
        iterator = iter(node)
        seen = pool.map(lambda which: [*draw(which)], range(3))
        assert sorted(chain.from_iterable(seen)) == [2 * x for x in range(300)]
    assert told <= {"generator already executing"}


def test_an_item_that_reads_the_iterator_waiting_for_it_does_not_end_the_iteration() -> None:
    iterators: list[Iterator[Any]] = []

    def item(i: int) -> Any:
        if i == 3:
            with pytest.raises(ValueError, match="already executing"):
                next(iterators[0])
        return i

    with sk.prefetch(sk.smap(item, range(8)), 0) as node:
        iterators.append(iter(node))
        assert list(iterators[0]) == list(range(8))


class Growing:
    """Ends behind item 5; item 2 takes until that is known."""

    def __init__(self) -> None:
        self.known = threading.Event()

    def __getitem__(self, i: int) -> int:
        if i == 7:
            self.known.set()
        if i > 5:
            raise IndexError
        if i == 2:
            assert self.known.wait(20)
        return i


def test_out_of_order_nothing_before_the_end_is_lost() -> None:
    with sk.prefetch(Growing(), 2, chunk_size=1, in_order=False) as node:
        assert sorted(node) == list(range(6))


@pytest.mark.parametrize("kind", PROCESSES[:1], ids=str)
def test_an_iterator_goes_on_after_there_was_no_memory_for_an_item(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, strikes = SlotPool.lease, iter([False, True, False, True])

    def short_of_memory(pool: SlotPool, slot: int, size: int) -> Any:
        if next(strikes, False):
            raise MemoryError("no memory for this")
        return lease(pool, slot, size)

    monkeypatch.setattr(SlotPool, "lease", short_of_memory)
    with kind.ahead(sk.smap(lambda i: np.full(1000, i), range(6)), 1) as node:
        items, found, struck = iter(node), list[int](), 0
        while len(found) < 6:
            try:
                found.append(next(items)[0])
            except MemoryError:
                struck += 1
        assert (found, struck, list(items)) == (list(range(6)), 2, [])


def in_turn(keys: list[int]) -> Iterator[int]:
    """Yield keys that can be drawn only once."""
    yield from keys


def struck(error: type[BaseException]) -> Callable[..., NoReturn]:
    """Return what a signal handler does that raises an exception in a method."""

    def raises(*_: Any) -> NoReturn:
        raise error(CLOSED)  # the text of the engine's own errors means nothing

    return raises


STRIKES: list[tuple[type[BaseException], Any, dict[str, Any]]] = [
    (KeyboardInterrupt, range(30), {}),
    (SystemExit, in_turn, {"chunk_size": 3}),
    (TimeoutError, np.arange(30), {"in_order": False}),
    (ValueError, in_turn, {}),
    (RuntimeError, [*range(30)], {"chunk_size": 3}),
]


@threads_and_forks
@pytest.mark.parametrize("where", [(Reader, "next"), (Scheduler, "_next")], ids=str)
def test_an_interrupted_iterator_is_over_and_says_so_each_time(kind: Kind, where: Any) -> None:
    for error, plan, options in STRIKES:
        with kind.ahead(sk.smap(str, range(30)), 2, **options) as node:
            items = restarting(node.reading(in_turn([*range(30)]) if plan is in_turn else plan))
            found = [*islice(items, 4)]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(*where, struck(error))
                with pytest.raises(error):
                    found.extend(items)
            for _ in range(3):
                with pytest.raises(PrefetchError, match="this iterator ended when Ctrl-C"):
                    next(items)
            assert len({*found} & {*map(str, range(30))}) == len(found)
            assert sorted(map(int, node)) == [*range(30)]  # with new workers


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize(("of", "where"), [(reader, "opened"), (sk.Prefetch, "hand_over")])
def test_ctrl_c_while_an_item_is_opened_or_handed_out_ends_the_iterator(
    of: Any, where: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def item(x: int) -> int:
        if x == 1:
            raise LookupError("not here")
        return x

    with THREAD.ahead(sk.smap(item, range(30)), 2, chunk_size=3) as node:
        items = iter(node)
        with monkeypatch.context() as patch:
            patch.setattr(of, where, struck(error))
            with pytest.raises(error):
                next(items)
        for _ in range(3):
            with pytest.raises(PrefetchError, match="begin a new one"):
                next(items)
        assert len(drawn(iter(node))) == 30


@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
@pytest.mark.parametrize("error", [TimeoutError, RuntimeError])
def test_a_view_above_pairs_no_items_wrongly_after_an_exception_of_a_handler(
    kind: Kind, error: type[Exception]
) -> None:
    with kind.ahead(sk.smap(int, range(30)), 2, max_buffered=4) as node:  # read on after the strike
        items = iter(sk.collate([range(30), node]))
        found: list[Any] = [*islice(items, 4)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Scheduler, "_next", struck(error))
            for _ in range(26):
                try:
                    found.append(next(items))
                except (error, sk.EvaluationError):
                    break
        rest = drawn(items)
        assert all(isinstance(item, Exception) for item in rest)
        assert len(found) + 1 + len(rest) == 30
        assert all(i == item for i, item in found)


def test_after_ctrl_c_an_iterator_of_a_view_above_is_over() -> None:
    with THREAD.ahead(sk.smap(int, range(30)), 2) as node:
        items = iter(sk.collate([range(30), node]))
        found: list[Any] = [*islice(items, 4)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Scheduler, "_next", struck(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                found.extend(items)
        assert [tuple(pair) for pair in found] == [(i, i) for i in range(len(found))]
        with pytest.raises(RuntimeError, match="Begin a new one"):
            next(items)


def test_a_plan_that_fails_ends_the_iteration_after_its_error() -> None:
    def keys() -> Iterator[int]:
        yield from range(3)
        raise LookupError("no more keys")

    with sk.prefetch(range(30), 2) as node:
        items = restarting(node.reading(keys()))
        assert [next(items) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(LookupError, match="no more keys"):
            next(items)
        assert next(items, None) is None
