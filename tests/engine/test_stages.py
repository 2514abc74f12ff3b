"""Nodes above nodes: each stage works ahead in the order of the one above, and reaches its own width."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqkit as sk
from seqkit.core.view import View
from seqkit.engine.stages import HORIZON, nodes_below

from .kinds import KINDS, PROCESSES, Kind
from .traces import drawn, until

THREAD, FORK = KINDS[0], PROCESSES[0]
ABOVE = [THREAD, FORK, PROCESSES[2]]
PATIENCE_S = 20
SPAWN = multiprocessing.get_context("spawn")

every_pair = pytest.mark.parametrize(
    ("below", "above"), [(b, a) for b in (THREAD, FORK) for a in ABOVE], ids=lambda kind: str(kind)
)


def double(x: Any) -> Any:
    return x * 2


class Log:
    """A function that counts its calls, how many run at once, and the threads that made them."""

    def __init__(self, before: Callable[[Any], Any] = lambda x: None) -> None:
        self.calls: Counter[Any] = Counter()
        self.threads: set[int] = set()
        self.most = self._now = 0
        self._before = before
        self._lock = threading.Lock()

    def __call__(self, x: Any) -> Any:
        with self._lock:
            self.calls[x] += 1
            self.threads.add(threading.get_ident())
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            self._before(x)
            return x
        finally:
            with self._lock:
                self._now -= 1


def together(parties: int) -> Log:
    """Return a function whose calls return only when so many are made at once."""
    barrier = threading.Barrier(parties)
    return Log(lambda x: barrier.wait(PATIENCE_S))


def consumers(node: sk.Prefetch[Any]) -> int:
    scheduler = node.engine._scheduler
    assert scheduler is not None
    scheduler.step(scheduler._sweep)
    return len(scheduler._consumers)


# -------------------------------------------------------------------- widths


def test_each_of_three_stages_reaches_its_width_and_does_not_exceed_it() -> None:
    low, middle, top = together(8), together(4), together(2)
    with (
        sk.prefetch(sk.smap(low, range(64)), 8, chunk_size=1) as first,
        sk.prefetch(sk.smap(middle, first), 4, chunk_size=1) as second,
        sk.prefetch(sk.smap(top, second), 2, chunk_size=1) as node,
    ):
        assert list(node) == list(range(64))
    assert [low.most, middle.most, top.most] == [8, 4, 2]
    assert low.calls == middle.calls == top.calls == Counter(range(64))


def test_a_stage_below_a_batch_reaches_its_width_while_the_batch_is_used() -> None:
    low = together(6)
    with (
        sk.prefetch(sk.smap(low, range(60)), 6, chunk_size=1) as node,
        sk.prefetch(sk.batch(node, 2), 1) as batches,  # alone, a batch would ask for two items at once
    ):
        assert list(batches) == [[i, i + 1] for i in range(0, 60, 2)]
    assert low.most == 6


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_workers_of_a_node_below_processes_are_shared_among_them(processes: int) -> None:
    def width(x: int) -> tuple[int, int]:
        info = sk.get_worker_info()
        assert info is not None
        return os.getpid(), info.num_workers

    with (
        sk.prefetch(sk.smap(width, range(40)), 4) as node,
        sk.prefetch(sk.smap(lambda x: x, node), processes, "process") as above,
    ):
        assert node[0] == (os.getpid(), 4)  # the node runs in this process, too
        found = set(above)
    assert {pid for pid, _ in found}.isdisjoint({os.getpid()})
    assert {workers for _, workers in found} == {max(1, 4 // processes)}


def test_below_processes_a_stage_reaches_its_width(tmp_path: Path) -> None:
    def wait_for_others(x: int) -> int:
        (tmp_path / f"{os.getpid()} {x}").touch()
        until(lambda: len(list(tmp_path.glob(f"{os.getpid()} *"))) >= 4, PATIENCE_S)
        return x

    with (
        sk.prefetch(sk.smap(wait_for_others, range(64)), 8) as node,
        sk.prefetch(sk.smap(double, node), 2, "process") as above,
    ):
        assert list(above) == list(range(0, 128, 2))


@pytest.mark.parametrize("size", [1_000, 150_000, 600_000])
def test_jobs_above_a_stage_are_as_long_for_items_of_any_size(size: int) -> None:
    with (
        sk.prefetch(range(320), 16) as node,
        sk.prefetch(sk.smap(lambda i: np.full(size, i % 251, np.uint8), node), 2, "process") as above,
    ):
        for i, item in enumerate(above):
            assert len(item) == size
            assert item[0] == item[-1] == i % 251
        assert above.statistics().jobs <= 6  # 64 items each


# -------------------------------------------------------------------- the same items, each computed once


def shuffled(s: Any) -> View[Any]:
    return sk.shuffle(s, seed=3)


BETWEEN: dict[str, Callable[[Any], View[Any]]] = {
    "nothing": sk.view,
    "a map": lambda s: sk.smap(double, s),
    "a batch": lambda s: sk.batch(s, 3),
    "a stack": lambda s: sk.batch(s, 3, collate_fn=np.array),
    "a shuffle": shuffled,
    "a batch of a shuffle": lambda s: sk.batch(shuffled(s), 4),
    "gather": lambda s: sk.gather(s, [5, 5, 0, 7, 0]),
    "gather by a view": lambda s: sk.gather(s, sk.shuffle(range(12), seed=1)),
    "gather by a view of a function": lambda s: sk.gather(s, sk.smap(lambda i: 11 - i, range(12))),
    "a slice": lambda s: s[::-2],
    "concatenate": lambda s: sk.concatenate([s, sk.smap(double, s)]),
    "collate": lambda s: sk.collate([s, sk.smap(double, s)]),
    "interleave": lambda s: sk.interleave(s, sk.smap(double, s)),
    "a cache": lambda s: sk.add_cache(s, 100),
    "a window": lambda s: sk.window(s, 3),
    "repeat": lambda s: sk.cycle(s, 30),
    "epochs": lambda s: sk.epochs(shuffled(s), 3),
    "split": lambda s: sk.split(s, 3),
    "a random map": lambda s: sk.random_map(lambda x, rng: x + int(rng.integers(9)), s, seed=0),
    "flatten": lambda s: sk.flatten(sk.batch(s, 3), [3, 3, 3, 3]),
    "unbatch": lambda s: sk.unbatch(sk.batch(s, 3), 3),
    "filter": lambda s: sk.filter(lambda x: x % 3 > 0, s),
    "switch": lambda s: sk.switch(sk.smap(lambda x: x % 2 == 0, range(12)), s, sk.smap(double, s)),
    "a node without workers": lambda s: sk.smap(double, sk.prefetch(s, 0)),
}
# Of these views some items read what is not planned, or plan what they do not read, or the same twice.
INEXACT = {"a cache", "a window", "flatten", "unbatch", "filter", "switch", "gather by a view of a function"}


def plain(items: Any) -> list[Any]:
    return [np.asarray(item).tolist() for item in items]


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("above", [THREAD, FORK], ids=str)
def test_items_are_those_of_the_pipeline_without_workers(between: str, above: Kind) -> None:
    build = BETWEEN[between]
    source = sk.smap(lambda x: x + 1, range(12))
    expected = plain(build(source))
    with sk.prefetch(source, 3) as node, above.ahead(build(node), 2) as stage:
        assert plain(stage) == expected
        assert plain(stage) == expected
        assert plain([stage[i] for i in range(len(stage))]) == expected
        assert plain(sk.batch(stage, 5)) == plain(sk.batch(build(source), 5))


@pytest.mark.parametrize("between", sorted(BETWEEN.keys() - INEXACT))
def test_an_item_is_computed_once_for_each_position_of_the_plan(between: str) -> None:
    build, inline, ahead = BETWEEN[between], Log(), Log()
    list(build(sk.smap(inline, range(12))))
    with sk.prefetch(sk.smap(ahead, range(12)), 3) as node, sk.prefetch(build(node), 2) as stage:
        list(stage)
        assert ahead.calls == inline.calls
        assert until(lambda: consumers(node) == 0)


@every_pair
def test_two_stages_of_every_kind(below: Kind, above: Kind) -> None:
    node = below.ahead(sk.smap(double, range(50)), 2)
    stage = above.ahead(sk.batch(sk.shuffle(node, seed=1), 4), 2)
    with node, stage:
        for epoch in range(2):
            expected = list(sk.batch(sk.shuffle(sk.view(range(0, 100, 2)), seed=1), 4).at_epoch(epoch))
            assert list(stage.at_epoch(epoch)) == expected


def test_order_of_completion_of_the_outermost_node() -> None:
    first = threading.Event()

    def hold(x: int) -> int:
        if x == 0:
            assert first.wait(PATIENCE_S)
        return x

    with (
        sk.prefetch(sk.smap(hold, range(30)), 3) as node,
        sk.prefetch(node, 2, in_order=False) as stage,
    ):
        items = iter(stage)
        begun = [next(items) for _ in range(20)]  # item 0 delays none of them
        assert 0 not in begun
        first.set()
        assert sorted([*begun, *items]) == list(range(30))


# -------------------------------------------------------------------- the plan is a hint


def test_translating_a_plan_calls_no_function_of_the_user() -> None:
    odd, order = Log(), Log()
    condition = sk.smap(lambda x: odd(x) % 2 == 1, range(20))
    with sk.prefetch(range(20), 2) as node:
        mixed = sk.switch(condition, sk.gather(node, sk.smap(order, range(20))), node)
        with sk.prefetch(mixed, 2) as stage:
            assert list(stage) == list(range(20))
    assert threading.get_ident() not in odd.threads | order.threads
    assert odd.calls == Counter(range(20))
    assert order.calls == Counter(range(1, 20, 2))


class Backwards(View[Any]):
    """A view of a user, without `_parts`: the default names other items than it reads."""

    def __init__(self, source: View[Any]) -> None:
        super().__init__((source,))

    def _get(self, i: int) -> Any:
        return self._sources[0]._get(len(self) - 1 - i)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Backwards(sources[0])


@pytest.mark.parametrize("chunk_size", ["auto", 3])
def test_a_view_of_the_user_with_wrong_parts_gives_its_own_items(chunk_size: Any) -> None:
    with (
        sk.prefetch(sk.smap(Log(), range(20)), 2) as node,
        sk.prefetch(Backwards(node), 2, chunk_size=chunk_size) as stage,
    ):
        assert list(stage) == list(range(20))[::-1]


def test_a_plan_that_can_be_read_once_plans_nothing() -> None:
    log = Log()
    with sk.prefetch(sk.smap(log, range(20)), 2) as node, sk.prefetch(node, 2) as stage:
        assert list(stage._iter(iter([3, 4, 19]))) == [3, 4, 19]  # type: ignore[arg-type]


def test_a_kept_item_asks_nothing_of_the_stage_below() -> None:
    log = Log()
    with sk.prefetch(sk.smap(log, range(20)), 2) as node:
        kept = sk.add_cache(node, 100)
        with sk.prefetch(kept, 2) as stage:
            assert list(stage) == list(range(20))
            log.calls.clear()
            assert list(stage) == list(range(20))
            assert not log.calls


def test_an_item_may_read_what_is_not_planned() -> None:
    log = Log()
    with sk.prefetch(sk.smap(log, range(20)), 2) as node:

        def neighbours(x: int) -> int:
            return sum(node[j % 20] for j in (x + 1, x + 7, x, x))

        with sk.prefetch(sk.smap(neighbours, node), 3) as stage:
            assert list(stage) == [(x + 1) % 20 + (x + 7) % 20 + 2 * x for x in range(20)]
            assert until(lambda: consumers(node) == 0)


def test_an_item_may_read_the_whole_node() -> None:
    with (
        sk.prefetch(sk.smap(double, range(10)), 2) as node,
        sk.prefetch(sk.smap(lambda x: sum(node), node), 2) as stage,
    ):
        assert list(stage) == [90] * 10


def test_more_items_are_needed_at_once_than_the_node_below_keeps() -> None:
    with (
        sk.prefetch(sk.smap(double, range(400)), 1, max_buffered=1) as node,
        sk.prefetch(sk.batch(node, 100), 4, max_buffered=8) as stage,
    ):
        assert list(stage) == [list(range(i, i + 200, 2)) for i in range(0, 800, 200)]


def test_a_node_that_is_rarely_read_is_not_searched_to_the_end() -> None:
    often, rarely = Log(), Log()
    n = 5 * HORIZON
    with (
        sk.prefetch(sk.smap(often, range(n)), 1) as first,
        sk.prefetch(sk.smap(rarely, range(3)), 1) as second,
        sk.prefetch(sk.concatenate([first, second]), 1) as stage,
    ):
        items = iter(stage)
        assert next(items) == 0
        assert not rarely.calls
        assert list(items) == [*range(1, n), 0, 1, 2]


def test_a_straggler_in_the_lowest_stage_does_not_stop_the_others() -> None:
    others = threading.Event()

    def hold(x: int) -> int:
        if x == 3:
            assert others.wait(PATIENCE_S)
        return x

    low, top = Log(hold), Log(lambda x: others.set() if x == 6 else None)  # 6 comes before 3 in the top stage
    with (
        sk.prefetch(sk.smap(low, range(40)), 2, chunk_size=1) as first,
        sk.prefetch(first, 2, chunk_size=1) as second,
        sk.prefetch(sk.smap(top, second), 2, chunk_size=1) as stage,
    ):
        assert list(stage) == list(range(40))


def test_an_endless_plan() -> None:
    with sk.prefetch(sk.smap(double, range(5)), 2) as node, sk.prefetch(sk.cycle(node), 2) as stage:
        items = iter(stage)
        assert [next(items) for _ in range(12)] == [0, 2, 4, 6, 8, 0, 2, 4, 6, 8, 0, 2]


def test_the_first_item_needs_one_item_of_each_stage() -> None:
    rest = threading.Event()

    def hold(x: int) -> int:
        if x:
            assert rest.wait(PATIENCE_S)
        return x

    with sk.prefetch(sk.smap(hold, range(9)), 2) as node, sk.prefetch(sk.smap(hold, node), 2) as stage:
        items = iter(stage)
        assert next(items) == 0
        rest.set()
        assert list(items) == list(range(1, 9))


def test_the_first_item_of_a_long_job_is_delivered_before_the_job_ends(tmp_path: Path) -> None:
    def hold(x: int) -> int:
        if x:
            until((tmp_path / "go").exists, PATIENCE_S)
        return x

    with (
        sk.prefetch(sk.smap(hold, range(40)), 4) as node,
        sk.prefetch(sk.smap(double, node), 2, "process") as stage,
    ):
        items = iter(stage)
        assert next(items) == 0
        (tmp_path / "go").touch()
        assert list(items) == list(range(2, 80, 2))


def test_no_more_is_computed_ahead_than_the_windows_hold() -> None:
    low, begun = Log(), threading.Semaphore(0)
    go_on = threading.Event()

    def stop(batch: list[int]) -> list[int]:
        if batch[0] == 2:
            begun.release()
            assert go_on.wait(PATIENCE_S)
        return batch

    with (
        sk.prefetch(sk.smap(low, range(1000)), 2, max_buffered=6, chunk_size=1) as node,
        sk.prefetch(sk.smap(stop, sk.batch(node, 2)), 1, max_buffered=2, chunk_size=1) as stage,
    ):
        items = iter(stage)
        assert next(items) == [0, 1]
        assert begun.acquire(timeout=PATIENCE_S)
        assert sum(low.calls.values()) <= 4 + 6
        go_on.set()
        assert sum(map(len, items)) == 998


def test_a_child_that_an_item_forks_reads_without_the_stage() -> None:
    def late(x: int) -> int:
        time.sleep(0.02)  # not delivered yet when the child asks
        return 2 * x

    def in_child(x: int) -> int:
        receive, send = os.pipe()
        if not (pid := os.fork()):
            os.write(send, bytes([node[x] + node[x + 1]]))
            os._exit(0)
        if not select.select([receive], [], [], 10)[0]:
            os.kill(pid, signal.SIGKILL)
            os.write(send, b"?")
        os.waitpid(pid, 0)
        found = os.read(receive, 1)[0]
        os.close(receive)
        os.close(send)
        return found

    with (
        sk.prefetch(sk.smap(late, range(11)), 1) as node,
        sk.prefetch(sk.collate([sk.smap(in_child, range(10)), node[:10]]), 2) as stage,
    ):
        assert list(stage) == [(4 * x + 2, 2 * x) for x in range(10)]


def test_large_results_wait_in_their_slots_for_the_stage_above() -> None:
    with (
        sk.prefetch(sk.smap(lambda i: np.full(2_500_000, i, np.float32), range(30)), 2, "process") as node,
        sk.prefetch(sk.smap(lambda array: float(array[-1]), node), 1) as stage,
    ):
        assert list(stage) == list(range(30))
        assert node.statistics().copies == 0


# -------------------------------------------------------------------- errors, ends and time


class Broken(ValueError):
    pass


def fail_at(*bad: int) -> Callable[[int], int]:
    def check(x: int) -> int:
        if x in bad:
            raise Broken(f"item {x}")
        return x

    return check


def outcomes(items: Iterator[Any]) -> list[Any]:
    """Return items, and the errors of those that fail as texts."""
    return [
        f"{item.__cause__!r} {item}".splitlines()[0] if isinstance(item, Exception) else item
        for item in drawn(items)
    ]


@every_pair
def test_errors_of_both_stages_stay_with_their_items(below: Kind, above: Kind) -> None:
    def build(ahead_below: Any, ahead_above: Any) -> Any:
        node = ahead_below(sk.smap(fail_at(3, 8), range(20)))
        return node, ahead_above(sk.smap(fail_at(5), sk.batch(node, 2).smap(sum)))

    _, plain_view = build(sk.view, sk.view)
    expected = outcomes(iter(plain_view))
    node, stage = build(lambda s: below.ahead(s, 2), lambda s: above.ahead(s, 2))
    with node, stage:
        found = outcomes(iter(stage))
        assert [type(item) for item in found] == [type(item) for item in expected]
        assert [item for item in found if not isinstance(item, str)] == [
            item for item in expected if not isinstance(item, str)
        ]
        with pytest.raises(sk.EvaluationError) as caught:
            stage[1]
        assert "item 3" in str(caught.value)


def test_what_a_failed_item_has_not_taken_is_dropped() -> None:
    log = Log()
    with sk.prefetch(sk.smap(log, range(50)), 2) as node:
        first = sk.smap(fail_at(*range(0, 50, 2)), range(50))  # fails before the node is read
        with sk.prefetch(sk.collate([first, node]), 2) as stage:
            found = outcomes(iter(stage))
            assert [item for item in found if not isinstance(item, str)] == [(i, i) for i in range(1, 50, 2)]
            assert until(lambda: consumers(node) == 0)
            assert log.calls.keys() >= set(range(1, 50, 2))


@pytest.mark.parametrize("below", [THREAD, FORK], ids=str)
def test_an_abandoned_plan_leaves_nothing_behind(below: Kind) -> None:
    with (
        below.ahead(sk.smap(double, range(1000)), 2) as node,
        sk.prefetch(sk.smap(double, node), 2) as stage,
    ):
        for _ in range(5):
            items = iter(stage)
            assert [next(items) for _ in range(3)] == [0, 4, 8]
            del items
        assert list(stage) == list(range(0, 4000, 4))
        until(lambda: consumers(stage) == 0 and consumers(node) == 0, PATIENCE_S)
        scheduler = node.engine._scheduler
        assert scheduler is not None
        until(lambda: not scheduler.step(lambda: scheduler._jobs) or not list(stage[:3]), PATIENCE_S)


def test_several_consumers_of_both_nodes() -> None:
    with sk.prefetch(sk.smap(double, range(60)), 3) as node, sk.prefetch(sk.smap(double, node), 2) as stage:
        rows = list(zip(stage, node, stage.at_epoch(1), stage, strict=True))
        assert rows == [(4 * i, 2 * i, 4 * i, 4 * i) for i in range(60)]


def test_many_threads_read_both_nodes() -> None:
    found: list[Any] = []
    with sk.prefetch(sk.smap(double, range(200)), 3) as node, sk.prefetch(sk.smap(double, node), 2) as stage:
        readers = [
            threading.Thread(target=lambda view=view: found.append(list(view)))  # type: ignore[misc]
            for view in (stage, node, stage, node)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(PATIENCE_S)
    assert sorted(found) == sorted([list(range(0, 800, 4)), list(range(0, 400, 2))] * 2)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_worker_below_that_dies_costs_its_item(context: str, tmp_path: Path) -> None:
    def die_at_7(x: int) -> int:
        if x == 7:
            os._exit(3)
        return x

    with (
        sk.prefetch(sk.smap(die_at_7, range(20)), 2, "process", context=context) as node,  # type: ignore[arg-type]
        sk.prefetch(sk.smap(double, node), 2) as stage,
    ):
        found = outcomes(iter(stage))
    assert [item for item in found if isinstance(item, int)] == [2 * i for i in range(20) if i != 7]
    assert "exited with status 3" in found[7]


def test_a_worker_above_that_dies_costs_its_item() -> None:
    def die_at_7(x: int) -> int:
        if x == 7:
            os._exit(3)
        return x

    with (
        sk.prefetch(sk.smap(double, range(20)), 2) as node,
        sk.prefetch(sk.smap(die_at_7, sk.smap(lambda x: x // 2, node)), 2, "process") as stage,
    ):
        found = outcomes(iter(stage))
    assert [item for item in found if isinstance(item, int)] == [i for i in range(20) if i != 7]


@pytest.mark.parametrize("above", [THREAD, FORK], ids=str)
def test_the_clock_of_an_item_stands_while_it_waits_for_a_stage_below(above: Kind) -> None:
    def slowly(x: int) -> int:
        time.sleep(0.02)
        return x

    with (
        sk.prefetch(sk.smap(slowly, range(40)), 1) as node,
        above.ahead(sk.batch(node, 20), 2, timeout=0.3) as stage,  # a batch waits for 0.4 s or more
    ):
        assert list(stage) == [list(range(20)), list(range(20, 40))]


@pytest.fixture
def hang() -> Iterator[Callable[[int], int]]:
    """A function that takes for ever at item 1, until the test is over."""
    is_over = threading.Event()

    def hang_at_1(x: int) -> int:
        if x == 1:
            is_over.wait(PATIENCE_S)
        return x

    yield hang_at_1
    is_over.set()


@pytest.mark.parametrize("above", [THREAD, FORK], ids=str)
def test_the_clock_goes_on_after_the_wait(above: Kind, hang: Callable[[int], int]) -> None:
    with sk.prefetch(range(3), 1) as node, above.ahead(sk.smap(hang, node), 1, timeout=0.2) as stage:
        items = iter(stage)
        assert next(items) == 0
        with pytest.raises(sk.ItemTimeout, match=r"prefetch\[1\]"):
            next(items)
        assert next(items) == 2


@pytest.mark.parametrize("above", [THREAD, FORK], ids=str)
def test_a_node_below_takes_the_time_limit_of_the_node_above(above: Kind, hang: Callable[[int], int]) -> None:
    with (
        sk.prefetch(sk.smap(hang, range(3)), 1) as node,
        above.ahead(sk.smap(double, node), 1, timeout=0.2) as stage,
    ):
        found = outcomes(iter(stage))
    assert (found[0], found[2]) == (0, 4)
    assert "took longer than 0.2 s" in found[1]


@pytest.mark.parametrize("above", [THREAD, FORK], ids=str)
@pytest.mark.parametrize("below", [THREAD, FORK], ids=str)
@pytest.mark.parametrize("is_read_first", [False, True])
def test_the_time_limit_of_a_node_above_holds_for_its_own_reads_only(
    above: Kind, below: Kind, is_read_first: bool
) -> None:
    def slow(x: int) -> int:
        time.sleep(0.6 * (x == 2))
        return x

    with below.ahead(sk.smap(slow, range(4)), 1) as node:
        if is_read_first:
            assert list(node) == [0, 1, 2, 3]
        with above.ahead(sk.smap(double, node), 1, timeout=0.3) as stage:
            found = outcomes(iter(stage))
            assert (found[0], found[1], found[3]) == (0, 2, 6)
            assert "took longer than 0.3 s" in found[2]
            assert list(node) == [0, 1, 2, 3]


def test_the_time_limit_reaches_the_lowest_of_three_nodes(hang: Callable[[int], int]) -> None:
    with (
        sk.prefetch(sk.smap(hang, range(3)), 1) as low,
        sk.prefetch(sk.smap(double, low), 1) as middle,
        sk.prefetch(sk.smap(double, middle), 1, timeout=0.3) as high,
    ):
        assert "took longer than 0.3 s" in outcomes(iter(high))[1]


def test_a_closed_node_below_fails_the_items_and_not_the_iteration() -> None:
    with sk.prefetch(range(20), 2) as node, sk.prefetch(sk.smap(double, node), 2) as stage:
        node.close()
        found = outcomes(iter(stage))
        assert len(found) == 20
        assert all("the node is closed" in item for item in found)
        node.restart()
        assert list(stage) == list(range(0, 40, 2))


def test_a_node_below_may_be_restarted_in_the_middle() -> None:
    with (
        sk.prefetch(range(300), 2, chunk_size=1) as node,
        sk.prefetch(sk.smap(double, node), 1, max_buffered=1) as stage,
    ):
        items = iter(stage)
        assert next(items) == 0
        node.restart()
        found = outcomes(items)
        assert [item for item in found if isinstance(item, int)][-1] == 598
        assert len(found) == 299


def test_nodes_below_start_before_the_threads_of_the_node_above() -> None:
    with (
        sk.prefetch(range(4), 1, "process") as node,
        sk.prefetch(node, 2) as stage,
    ):
        stage.start()  # with threads alive, the processes would need a template, and a warning
        assert list(stage) == [0, 1, 2, 3]


def raise_an_error(x: int) -> int:
    raise Broken(f"item {x}")


def kill_itself(x: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return x


def end_itself(x: int) -> int:
    os._exit(4)


FAULTS: dict[str, Callable[[int], Any]] = {
    "an exception": raise_an_error,
    "StopIteration": lambda x: next(iter(())),
    "a result that cannot be pickled": lambda x: threading.Lock(),
    "an exit of the process": end_itself,
    "SIGKILL": kill_itself,
    "a time-out": lambda x: time.sleep(PATIENCE_S),
}
ONLY_IN_PROCESSES = {"a result that cannot be pickled", "an exit of the process", "SIGKILL", "a time-out"}


class FaultAt:
    """Does what a fault does at one item."""

    def __init__(self, bad: int, fault: str) -> None:
        self.bad, self.fault = bad, fault

    def __call__(self, x: int) -> Any:
        return FAULTS[self.fault](x) if x == self.bad else x


@pytest.mark.stress
@pytest.mark.parametrize(
    ("below", "above", "is_below"),
    [(b, a, is_below) for b in KINDS for a in KINDS for is_below in (True, False)],
    ids=str,
)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_either_stage_costs_one_item(fault: str, below: Kind, above: Kind, is_below: bool) -> None:
    is_in_threads = above == THREAD and (not is_below or below == THREAD)
    if is_in_threads and fault in ONLY_IN_PROCESSES:
        pytest.skip("in threads it is no fault, or would outlive the test")
    low, high = (FaultAt(7, fault), abs) if is_below else (abs, FaultAt(7, fault))
    limit = 1.0 if fault == "a time-out" else None
    with (
        below.ahead(sk.smap(low, range(16)), 2, timeout=limit) as node,
        above.ahead(sk.smap(high, node), 2, timeout=limit) as stage,
    ):
        found = outcomes(iter(stage))
    assert [item for item in found if isinstance(item, int)] == [i for i in range(16) if i != 7]
    assert len(found) == 16


@pytest.mark.stress
@pytest.mark.parametrize("pool", ["threads", "processes"])
@pytest.mark.parametrize("kind", [THREAD, FORK], ids=str)
def test_stages_of_executors(pool: str, kind: Kind) -> None:
    def made() -> Any:
        return ThreadPoolExecutor(2) if pool == "threads" else ProcessPoolExecutor(2, mp_context=SPAWN)

    expected = [[i, i + 2] for i in range(0, 120, 4)]
    resource_tracker.ensure_running()
    with (
        made() as executor,
        kind.ahead(sk.smap(double, range(60)), 4) as node,
        sk.prefetch(sk.batch(node, 2), method=executor) as stage,
    ):
        assert list(stage) == expected
    with (
        made() as executor,
        sk.prefetch(sk.smap(double, range(60)), method=executor) as node,
        kind.ahead(sk.batch(node, 2), 2) as stage,
    ):
        assert list(stage) == expected
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


# -------------------------------------------------------------------- loaders


def test_a_stage_that_pins_memory_above_a_loader() -> None:
    loader = sk.DataLoader(sk.smap(float, range(100)), 8, shuffle=True, num_workers=2, seed=3)
    expected = [batch.tolist() for batch in loader.view]
    with sk.prefetch(sk.smap(np.copy, loader.view), 1) as pinned:
        assert [batch.tolist() for batch in pinned] == expected
        assert [batch.tolist() for batch in pinned[5:]] == expected[5:]
        again = [batch.tolist() for batch in loader.view.at_epoch(1)]
        assert [batch.tolist() for batch in pinned.at_epoch(1)] == again != expected


def test_a_loader_over_a_node() -> None:
    log = Log()
    with sk.prefetch(sk.smap(log, range(100)), 3) as node:
        plain = sk.DataLoader(range(100), 8, shuffle=True, seed=3)
        loader = sk.DataLoader(node, 8, shuffle=True, num_workers=2, seed=3, method="thread")
        for _ in range(2):
            assert [batch.tolist() for batch in loader] == [batch.tolist() for batch in plain]
    assert log.calls == Counter(dict.fromkeys(range(100), 2))


# -------------------------------------------------------------------- random expressions


def grown(leaf: Callable[[Any], View[Any]]) -> st.SearchStrategy[Callable[[Any], View[Any]]]:
    """Return a strategy for expressions over views that `leaf` makes of ranges."""
    steps: list[Callable[[View[Any]], View[Any]]] = [
        lambda v: sk.smap(lambda x: (x, 1), v),
        lambda v: sk.batch(v, 3),
        lambda v: sk.shuffle(v, seed=5),
        lambda v: v[::-1],
        lambda v: v[1:],
        lambda v: sk.window(v, 2),
        lambda v: sk.add_cache(v, 3),
        lambda v: sk.cycle(v, len(v) and 2 * len(v) + 1),
        lambda v: sk.concatenate([v, v]),
        lambda v: sk.collate([v, v[::-1]]),
        lambda v: sk.gather(v, [0, 0] if len(v) else []),
        lambda v: sk.epochs(sk.shuffle(v, seed=2), 2),
        lambda v: sk.interleave(v, v),
    ]
    return st.lists(st.sampled_from(steps), max_size=3).map(
        lambda chosen: lambda source: _applied(chosen, leaf(source))
    )


def _applied(steps: list[Callable[[View[Any]], View[Any]]], view: View[Any]) -> View[Any]:
    for step in steps:
        view = step(view)
    return view


@pytest.mark.filterwarnings("ignore:epochs. the sequence is a part of a shuffle:UserWarning")
@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(0, 9), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_random_expressions_of_two_nodes(
    data: st.DataObject, n: int, low: int, high: int, unordered: bool
) -> None:
    below, above = data.draw(grown(sk.view)), data.draw(grown(sk.view))
    expected = list(above(below(range(n))))
    with (
        sk.prefetch(below(range(n)), low) as node,
        sk.prefetch(above(node), high, in_order=not unordered) as stage,
    ):
        found = list(stage)
        if unordered:
            assert Counter(map(repr, found)) == Counter(map(repr, expected))
        else:
            assert found == expected
        assert until(lambda: consumers(node) == 0)
        if expected:
            assert stage[-1] == expected[-1]


def test_nodes_below_are_found_through_views() -> None:
    with sk.prefetch(range(9), 2) as first, sk.prefetch(range(9), 2) as second:
        above = sk.batch(sk.concatenate([first, sk.smap(double, second)]), 2)
        assert nodes_below(above) == [second, first] or nodes_below(above) == [first, second]
        assert nodes_below(sk.filter(bool, above)) == []
