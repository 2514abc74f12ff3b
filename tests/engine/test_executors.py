"""Items computed by the tasks of an executor: of threads of this process, of processes, of one made up."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from multiprocessing import resource_tracker
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.chunking import MAX_DEPTH
from seqkit.engine.executors import ManagedExecutor
from seqkit.engine.executors import pool as executors
from seqkit.engine.resources import usable_cpus

from .scripts import finished, forked
from .traces import append, children, drawn, is_collected, reap_orphans, until


def pool_of_processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))


@contextmanager
def of_threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(threading.Barrier.wait, [threading.Barrier(2)] * 2))  # both are there
        yield pool


@contextmanager
def of_processes() -> Iterator[Executor]:
    with pool_of_processes() as pool:
        for task in [pool.submit(int) for _ in range(2)]:  # each starts one
            task.result()
        yield pool


# For the whole module, so that they are there before a test begins: what a test leaves behind is seen.
@pytest.fixture(scope="module", autouse=True)
def servant_of_multiprocessing() -> Iterator[None]:
    resource_tracker.ensure_running()
    yield
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def threads() -> Iterator[Executor]:
    with of_threads() as pool:
        yield pool


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with of_processes() as pool:
        yield pool


@pytest.fixture(scope="module", params=[of_threads, of_processes])
def pool(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with request.param() as pool:
        yield pool


class Manual(Executor):
    """Runs its tasks when it is told to, in this process, as if that were another one."""

    def __init__(self) -> None:
        self.tasks: list[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.tasks.append((future, fn, args))
        self.submitted()
        return future

    def submitted(self) -> None:
        """What is to be done at once."""

    def run(self, most: int | None = None) -> None:
        """Run what is there, and not cancelled."""
        while self.tasks and most != 0:
            most = None if most is None else most - 1
            future, fn, arguments = self.tasks.pop(0)
            if future.set_running_or_notify_cancel():
                future.set_result(fn(*arguments))


class Failing(Manual):
    """Runs its tasks at once; what a task raises is its outcome."""

    def submitted(self) -> None:
        future, fn, arguments = self.tasks.pop()
        try:
            future.set_result(fn(*arguments))
        except Exception as error:
            future.set_exception(error)


class Eager(Manual):
    """Runs its tasks at once, and notes which of them had the pipeline with them."""

    def __init__(self) -> None:
        super().__init__()
        self.shipped: list[bool] = []

    def submitted(self) -> None:
        self.shipped.append(self.tasks[0][2][1] is not None)
        self.run()


@contextmanager
def published(value: Any) -> Iterator[str]:
    """Let functions that travel by value find something: in a module of this name."""
    name = f"{__name__}.published"
    sys.modules[name] = ModuleType(name)
    sys.modules[name].value = value  # type: ignore[attr-defined]
    try:
        yield name
    finally:
        del sys.modules[name]


def forget() -> None:
    """Forget all pipelines, as a new process would have none."""
    executors._pipelines.clear()


# -------------------------------------------------------------------- the same items


def test_a_node_equals_its_source(pool: Executor) -> None:
    squares = sk.smap(lambda x: x * x, range(300))
    with sk.prefetch(squares, method=pool) as ahead:
        assert list(ahead) == list(squares)
        assert ahead[-1] == 299**2
        assert list(ahead[::-7]) == list(squares[::-7])
        assert [ahead[i] for i in range(20)] == list(squares[:20])


def jitter(x: int, rng: np.random.Generator) -> int:
    return x * 1000 + int(rng.integers(1000))


def test_every_epoch_has_its_order_and_its_random_numbers(pool: Executor) -> None:
    source = sk.random_map(jitter, sk.shuffle(range(40), seed=1), seed=2)
    with sk.prefetch(source, method=pool) as ahead:
        for epoch in (0, 3, 1):
            assert list(ahead.at_epoch(epoch)) == list(source.at_epoch(epoch))


def test_a_sequence_without_length_ends_where_it_ends(pool: Executor) -> None:
    with sk.prefetch(sk.uniter(lambda: iter(range(50))), method=pool) as ahead:
        assert list(ahead) == list(range(50))


def test_a_task_that_finds_no_item_returns_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "private", lambda size: np.full(size, 7, np.uint8))  # as memory may be
    with sk.prefetch(sk.uniter(lambda: iter(range(50))), method=Eager(), chunk_size=10) as ahead:
        assert list(ahead) == list(range(50))


def test_a_stream_that_comes_once_is_read_by_one_task_at_a_time(threads: Executor) -> None:
    once = iter(range(50))
    with sk.prefetch(sk.uniter(lambda: once), 1, threads, chunk_size=1) as ahead:
        assert list(ahead) == list(range(50))


def test_no_more_workers_are_used_than_are_asked_for() -> None:
    at_once: list[int] = []
    lock = threading.Lock()

    def item(x: int) -> int:
        with lock:
            at_once.append(1 + (at_once[-1] if at_once else 0))
        both.wait(20)
        with lock:
            at_once.append(at_once[-1] - 1)
        return x

    both = threading.Barrier(2)  # two have to be there, or it breaks
    with ThreadPoolExecutor(6) as pool, sk.prefetch(sk.smap(item, range(20)), 2, pool, chunk_size=1) as ahead:
        assert list(ahead) == list(range(20))
    assert max(at_once) == 2


def test_items_may_come_out_of_order(pool: Executor) -> None:
    with sk.prefetch(range(100), method=pool, in_order=False) as ahead:
        assert sorted(ahead) == list(range(100))


def fills(buffer: Any = np.zeros(1)) -> Callable[[int], Any]:  # noqa: B008  one buffer for all
    def fill(x: int) -> Any:
        buffer[:] = x
        return buffer

    return fill


def test_another_process_may_fill_one_buffer_for_every_item(processes: Executor) -> None:
    with sk.prefetch(sk.smap(fills(), range(40)), 1, processes, chunk_size=8) as ahead:
        assert [int(item[0]) for item in ahead] == list(range(40))


def test_arrays_from_another_process_belong_to_the_reader(processes: Executor) -> None:
    with sk.prefetch(sk.smap(lambda x: np.full(5000, x), range(6)), 2, processes) as ahead:
        found = list(ahead)
        assert ahead.statistics().nbytes >= 6 * 40_000
    for x, item in enumerate(found):
        assert item.ctypes.data % 64 == 0
        item += 1
        assert (item == x + 1).all()


def test_definitions_of_the_main_script_travel_by_value_and_its_classes_come_back(tmp_path: Path) -> None:
    code = """
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        import seqkit as sk

        class Mine(Exception):
            count = 0

        First = Mine

        class Mine(Exception):  # another one of that name
            count = 0

        class Info:
            def __eq__(self, other):
                return type(other) is Info

        def item(x):
            if x:
                raise First(Info())
            return Mine(lambda: x)

        def main():
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                for policy in ("wrap", "passthrough"):
                    source = sk.smap(lambda x: item(x), [7, 0])
                    with sk.errstate(policy), sk.prefetch(source, method=pool) as ahead:
                        ahead.start()
                        First.count = Mine.count = 1
                        try:
                            ahead[0]
                        except Exception as error:
                            mine = error if policy == "passthrough" else error.__cause__
                            print(type(mine) is First and mine.args == (Info(),), First.count)
                        print(type(ahead[1]) is Mine, Mine.count)
                        First.count = Mine.count = 0

        if __name__ == "__main__":
            main()
    """
    before = children()
    assert finished(tmp_path, code) == (0, "True 1\n" * 4, "")
    reap_orphans(before)


@contextmanager
def of_forks() -> Iterator[Executor]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        pool.submit(int).result()
        yield pool


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("name", ["this process", "spawned", "forked"])
def test_local_classes_arrive_as_the_unchanged_classes_of_the_consumer(
    name: str, processes: Executor
) -> None:
    pools = {"this process": nullcontext(Failing()), "spawned": nullcontext(processes), "forked": of_forks()}
    with pools[name] as pool:  # there before the classes are

        class Local:
            mode = "as it was"

        class Refused(ValueError):
            pass

        def item(i: int) -> Local:
            if i == 2:
                raise Refused(i)
            return Local()

        with sk.prefetch(sk.smap(item, range(6)), method=pool) as ahead:
            ahead.start()
            Local.mode = "of the reader"
            found = drawn(iter(ahead))
    assert [type(local) for local in found[:2] + found[3:]] == [Local] * 5
    assert type(found[2].__cause__) is Refused
    assert Local.mode == "of the reader"


# -------------------------------------------------------------------- failures


def unless_five(x: int) -> int:
    if x == 5:
        raise ValueError("five")
    return x


def test_a_failing_item_affects_no_other_item(pool: Executor) -> None:
    with sk.prefetch(sk.smap(unless_five, range(10)), 2, pool) as ahead:
        *before, error = [*drawn(iter(ahead[:6]))]
        assert before == list(range(5))
        assert isinstance(error, sk.EvaluationError)
        assert error.index == 5
        assert isinstance(error.__cause__, ValueError)
        assert error.view is ahead._sources[0]
        assert ahead[6] == 6


def leaves(x: int) -> int:
    return x if x != 2 else exit(3)


def test_an_item_that_exits_affects_no_other_item(pool: Executor) -> None:
    with sk.prefetch(sk.smap(leaves, range(5)), 2, pool) as ahead:
        found = drawn(iter(ahead))
    assert [item for item in found if isinstance(item, int)] == [0, 1, 3, 4]
    assert "SystemExit: 3" in str(found[2])


def test_errors_pass_through_where_that_is_asked_for(pool: Executor) -> None:
    failing = sk.prefetch(sk.smap(unless_five, range(10)), 2, pool)
    with sk.errstate("passthrough"), failing as ahead, pytest.raises(ValueError, match="five"):
        ahead[5]


def test_a_value_that_cannot_be_pickled_affects_no_other_item(processes: Executor) -> None:
    def item(x: int) -> Any:
        return threading.Lock() if x == 1 else x

    with sk.prefetch(sk.smap(item, range(4)), 1, processes, chunk_size=4) as ahead:
        found = drawn(iter(ahead))
    assert [found[0], *found[2:]] == [0, 2, 3]
    assert "the item, a lock, cannot be sent to the consumer's process" in str(found[1])


def test_a_pipeline_that_cannot_be_pickled_needs_threads(threads: Executor, processes: Executor) -> None:
    lock = threading.Lock()
    locked = sk.smap(lambda x: (lock.locked(), x), range(3))
    with (
        sk.prefetch(locked, 1, processes) as ahead,
        pytest.raises(TypeError, match="cannot be pickled for workers"),
    ):
        ahead[0]
    with sk.prefetch(locked, 1, threads) as ahead:
        assert list(ahead) == [(False, 0), (False, 1), (False, 2)]


class AtHome:
    """A sequence that only the process that made it can have."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise ImportError("no module named elsewhere")

    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> int:
        return i


def test_a_pipeline_that_cannot_be_unpickled_ends_the_node_once(processes: Executor) -> None:
    with sk.prefetch(AtHome(), 1, processes) as ahead:
        items = iter(ahead)
        with pytest.raises(RuntimeError, match="the executor cannot do its tasks: ImportError: no module"):
            next(items)
        assert list(items) == []


def test_a_task_that_is_lost_is_tried_again_and_then_named() -> None:
    class Losing(Manual):
        def submitted(self) -> None:
            future, fn, arguments = self.tasks.pop()
            (i,) = pickle.loads(arguments[3])
            tries[i] = tries.get(i, 0) + 1
            if (i, tries[i]) in [(1, 1), (3, 1), (3, 2)]:
                future.set_exception(ConnectionError("the node has gone"))
            else:
                future.set_result(fn(*arguments))

    tries: dict[int, int] = {}
    with sk.prefetch(range(6), 1, Losing(), chunk_size=1) as ahead:
        found = drawn(iter(ahead))
        assert found[:3] + found[4:] == [0, 1, 2, 4, 5]
        assert isinstance(found[3], sk.WorkerDied)
        assert found[3].index == 3
        lost = "prefetch[3]: a worker of the executor was lost (ConnectionError: the node has gone)"
        assert found[3].message == f"{lost} while computing it, 2 workers in a row"
        assert tries == {0: 1, 1: 2, 2: 1, 3: 2, 4: 1, 5: 1}
        assert ahead[3] == 3


def test_an_executor_whose_processes_lack_something_ends_the_node() -> None:
    class Elsewhere(Manual):
        def submitted(self) -> None:
            self.tasks.pop()[0].set_exception(ModuleNotFoundError("No module named 'seqkit'"))

    with sk.prefetch(range(9), 1, Elsewhere()) as ahead:
        *items, error = drawn(iter(ahead))
    assert items == []
    assert (
        str(error)
        == "prefetch: the executor cannot do its tasks: ModuleNotFoundError: No module named 'seqkit'"
    )


def test_an_executor_that_has_ended_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(Manual, ManagedExecutor):
        def ended(self) -> Exception:
            return RuntimeError("it has been shut down")

    monkeypatch.setattr(executors, "CHECK_S", 0.01)
    with sk.prefetch(range(9), 1, Ended()) as ahead:
        items = iter(ahead)
        with pytest.raises(RuntimeError, match="the executor takes no more tasks: RuntimeError: it has been"):
            next(items)
        assert list(items) == []


def test_a_pool_that_breaks_with_cancelled_tasks_is_reported(tmp_path: Path) -> None:
    code = """
        import threading
        from concurrent.futures import ThreadPoolExecutor
        import seqkit as sk

        def unlucky():
            go.wait()
            raise OSError("no device")

        go = threading.Event()
        pool = ThreadPoolExecutor(1, initializer=unlucky)
        ahead, other = (sk.prefetch(range(100), method=pool, chunk_size=1) for _ in range(2))
        dropped, items = iter(ahead), iter(other)
        del dropped
        again = iter(ahead)  # which cancels them
        go.set()
        for reader in (again, items):
            try:
                next(reader)
            except RuntimeError as error:
                print(str(error).split(":")[:3])
    """
    status, out, _ = finished(tmp_path, code)
    told = "['prefetch', ' the executor takes no more tasks', ' BrokenThreadPool']\n"
    assert (status, out.replace("BrokenExecutor", "BrokenThreadPool")) == (0, told * 2)


def test_an_executor_that_is_shut_down_is_reported_once() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with sk.prefetch(range(3), method=pool) as ahead:
        items = iter(ahead)
        with pytest.raises(RuntimeError, match="the executor takes no more tasks: RuntimeError: cannot sche"):
            next(items)
        assert list(items) == []


def dies_at(x: int) -> int:
    if x == 30:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def test_a_pool_broken_by_an_item_is_reported_and_nothing_hangs() -> None:
    with pool_of_processes() as pool, sk.prefetch(sk.smap(dies_at, range(100)), 2, pool) as ahead:
        assert ahead[0] == 0
        *before, error = drawn(iter(ahead))
        assert before == list(range(len(before)))
        assert isinstance(error, RuntimeError)
        assert "the executor takes no more tasks: BrokenProcessPool" in str(error)


def test_tasks_of_a_broken_pool_are_not_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Python 3.13 the thread of such a pool dies at a cancelled task, and its processes stay."""
    cancelled: list[Future[Any]] = []
    monkeypatch.setattr(Future, "cancel", lambda future: cancelled.append(future))
    go_on = threading.Event()

    def breaks_its_pool(i: int) -> None:
        pool._broken = "a worker died"  # type: ignore[attr-defined]
        go_on.wait(60)

    with ThreadPoolExecutor(1) as pool:
        with sk.prefetch(sk.smap(breaks_its_pool, range(100)), 2, pool, chunk_size=1) as ahead:
            assert isinstance(drawn(iter(ahead))[-1], RuntimeError)
        go_on.set()
    assert cancelled == []


class Stubborn:
    """An index that cannot be unpickled."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise ValueError("no such index")


def test_an_index_that_cannot_be_unpickled_fails_only_its_item() -> None:
    with sk.prefetch(sk.smap(abs, range(3)), 1, Failing(), chunk_size=1) as ahead:
        found = drawn(ahead._iter([0, Stubborn(), 2]))  # type: ignore[list-item]
    assert [found[0], found[2]] == [0, 2]
    assert "a worker of the executor was lost (RuntimeError: ValueError: no such index)" in str(found[1])


# -------------------------------------------------------------------- what travels, and how often


class Noted:
    """A sequence that writes down where it was unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        append(self.path, f"{os.getpid()}\n")

    def __len__(self) -> int:
        return 100

    def __getitem__(self, i: int) -> int:
        return os.getpid()


def test_every_process_gets_the_pipeline_once(processes: Executor, tmp_path: Path) -> None:
    path = tmp_path / "arrivals"
    with sk.prefetch(Noted(path), 2, processes, chunk_size=1) as ahead:
        at_work = {pid for epoch in range(3) for pid in ahead.at_epoch(epoch)}
    assert sorted(map(int, path.read_text().split())) == sorted(at_work)


def test_a_process_that_lacks_the_pipeline_receives_it() -> None:
    pool = Eager()
    with sk.prefetch(sk.smap(abs, range(-6, 0)), 1, pool, max_buffered=1, chunk_size=1) as ahead:
        items = iter(ahead)
        assert [next(items), next(items)] == [6, 5]
        assert pool.shipped == [True, False, False]
        forget()
        assert list(items) == [4, 3, 2, 1]
        assert pool.shipped[3:5] == [False, True]
        assert sum(pool.shipped) == 2


def with_ballast(nbytes: int) -> sk.View[Any]:
    """Return a view whose pickle is as large as that."""
    return sk.smap(lambda x, ballast=bytes(nbytes): x, range(3))


def test_pipelines_that_a_process_keeps_are_limited_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    monkeypatch.setattr(executors, "MAX_KEPT_BYTES", 100_000)
    pool = Eager()
    # None of them is closed, so only their size counts.
    nodes = [sk.prefetch(with_ballast(20_000), 1, pool) for _ in range(9)]
    large = sk.prefetch(with_ballast(200_000), 1, pool)
    for node in nodes:
        assert list(node) == [0, 1, 2]
        assert sum(kept.nbytes for kept in executors._pipelines.values()) <= 100_000
    assert len(executors._pipelines) == 4
    assert list(large) == [0, 1, 2]
    assert len(executors._pipelines) == 1  # the one in use is kept, however large
    assert list(nodes[0]) == [0, 1, 2]  # it is sent again
    for node in (*nodes, large):
        node.close()


def test_a_process_drops_the_pipelines_of_closed_nodes(processes: Executor) -> None:
    def kept(x: int) -> int:
        from seqkit.engine.executors import pool

        return len(pool._pipelines)

    for _ in range(12):
        with sk.prefetch(sk.smap(kept, range(8)), 2, processes, chunk_size=1) as ahead:
            assert max(ahead) <= 3  # this one, and what the process got before the others were closed


def test_methods_of_a_foreign_executor_with_the_names_of_ours_are_not_called() -> None:
    class Queue(Eager):
        def put(self, job: Any) -> None:
            raise AssertionError

        def has_ended(self) -> bool:
            raise AssertionError

        def __len__(self) -> int:
            return 0

    pool = Queue()
    with sk.prefetch(range(5), method=pool) as ahead:
        assert list(ahead) == list(range(5))
    assert pool.shipped


def test_processes_that_do_one_task_each_get_the_pipeline_with_it() -> None:
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool,
        sk.prefetch(range(2), method=pool, chunk_size=1) as ahead,
    ):
        assert list(ahead) == [0, 1]


def test_an_executor_with_a_store_has_the_pipeline_put_there_once() -> None:
    class Stored(Eager, ManagedExecutor):
        stored = 0

        def has_ended(self) -> bool:
            return False

        def put(self, value: bytes) -> bytes:
            self.stored += 1
            return value

    pool = Stored()
    with sk.prefetch(range(5), 1, pool, chunk_size=1) as ahead:
        assert list(ahead) == list(range(5))
    assert pool.stored == 1
    assert pool.shipped == [True, False, False, False, False]


# -------------------------------------------------------------------- beginning and ending


def test_dropping_an_iterator_cancels_tasks_that_have_not_started() -> None:
    pool = Manual()
    with sk.prefetch(range(50), method=pool, chunk_size=1) as ahead:
        items = iter(ahead)
        tasks = list(pool.tasks)
        assert len(tasks) > 2
        del items  # it is in a finaliser by now, where nothing else is safe
        pool.run(1)
        assert all(future.cancelled() for future, *_ in tasks[1:])
        pool.run()
        others = iter(ahead)
        assert len(pool.tasks) == len(tasks)
        del others


def test_unsent_tasks_are_cancelled_too() -> None:
    pool = Manual()
    with sk.prefetch(range(50), 2, pool, chunk_size=1) as ahead:
        dropped, items = iter(ahead), iter(ahead[40:])
        assert len(pool.tasks) == 2  # no more are asked for; the others wait
        del dropped
        pool.run()
        pool.submitted = pool.run  # type: ignore[method-assign]  from now on at once
        assert list(items) == list(range(40, 50))
        assert len(ahead.engine._scheduler._jobs) == 0  # type: ignore[union-attr]


def test_a_task_of_a_dropped_iterator_is_not_sent_again() -> None:
    forget()
    pool = Manual()
    with sk.prefetch(range(9), 1, pool, max_buffered=2, chunk_size=1) as ahead:
        items = iter(ahead)
        future, _, _ = pool.tasks.pop(0)
        future.set_running_or_notify_cancel()
        del items
        others = iter(ahead)  # which cancels what it can
        future.set_result(None)
        sent = len(pool.tasks)
        pool.submitted = pool.run  # type: ignore[method-assign]
        pool.run()
        assert list(others) == list(range(9))
        assert sent <= 1


def test_many_tasks_are_cancelled_at_once() -> None:
    free = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(free.wait)
        with sk.prefetch(range(5000), 1, pool, max_buffered=250, chunk_size=1) as ahead:
            items = iter(ahead)
            scheduler: Any = ahead.engine._scheduler
            backend = scheduler.backend
            tasks = [task.future for task in backend._queue.tasks.values()]
            assert len(tasks) >= 250
            del items
            backend.flush()
            assert all(task.cancelled() for task in tasks)
            assert backend._queue.arrived.qsize() == len(tasks)
        free.set()


class Uncancellable(Future[Any]):
    def cancel(self) -> bool:
        raise NotImplementedError


class Making(Manual):
    """Gives out futures of a kind."""

    def __init__(self, kind: Callable[[], Future[Any]]) -> None:
        super().__init__()
        self.kind = kind

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = self.kind()
        self.tasks.append((future, fn, args))
        self.submitted()
        return future


def test_futures_that_refuse_to_be_cancelled_are_waited_for() -> None:
    pool = Making(Uncancellable)
    ahead = sk.prefetch(range(50), 1, pool, max_buffered=3, chunk_size=1)
    dropped = iter(ahead)
    del dropped
    pool.submitted = pool.run  # type: ignore[method-assign]  from now on at once
    pool.run()
    assert list(ahead) == list(range(50))
    pool.submitted = Manual.submitted.__get__(pool)  # type: ignore[method-assign]
    items = iter(ahead)
    ahead.close()
    del items


def test_a_second_close_finishes_an_interrupted_one() -> None:
    class Struck(Future[Any]):
        def cancel(self) -> bool:
            if struck:
                return super().cancel()
            struck.append(True)
            raise KeyboardInterrupt

    struck: list[bool] = []
    pool = Making(Struck)
    ahead = sk.prefetch(range(50), 1, pool, max_buffered=3, chunk_size=1)
    items = iter(ahead)
    with pytest.raises(KeyboardInterrupt):
        ahead.close()
    ahead.close()
    assert all(future.cancelled() for future, *_ in pool.tasks)
    del items


def test_a_result_that_arrives_after_closing_is_not_kept() -> None:
    begun, free = threading.Event(), threading.Event()
    made: list[weakref.ref[set[int]]] = []

    class Value(set[int]):
        pass

    def item(x: int) -> Value:
        begun.set()
        free.wait(20)
        value = Value()
        made.append(weakref.ref(value))
        return value

    with ThreadPoolExecutor(1) as pool:
        ahead = sk.prefetch(sk.smap(item, range(1)), 1, pool)
        items = iter(ahead)
        assert begun.wait(20)
        ahead.close()
        free.set()
        pool.submit(int).result()  # behind it
    assert [value() for value in made] == [None]
    del items


def test_a_closed_node_does_not_keep_its_executor() -> None:
    pool = Eager()
    ref = weakref.ref(pool)
    with sk.prefetch(range(3), 1, pool) as ahead:
        assert list(ahead) == [0, 1, 2]
    del ahead, pool
    assert is_collected(ref)


def test_closing_cancels_what_has_not_begun_and_leaves_the_executor() -> None:
    pool = Manual()
    ahead = sk.prefetch(range(50), 2, pool, chunk_size=1)
    items = iter(ahead)
    ahead.close()
    ahead.close()
    assert all(future.cancelled() for future, *_ in pool.tasks)
    with pytest.raises(RuntimeError, match="closed"):
        next(items)
    pool.run()
    assert isinstance(pool.submit(int), Future)


def test_a_node_and_what_it_made_are_collected_though_the_executor_lives(threads: Executor) -> None:
    class Value:
        pass

    values: list[weakref.ref[Value]] = []
    box: list[sk.Prefetch] = []

    def item(x: int) -> Value:
        value = Value()
        value.nodes = box[:]  # type: ignore[attr-defined]
        values.append(weakref.ref(value))
        return value

    box.append(sk.prefetch(sk.smap(item, range(20)), 2, threads))
    items = iter(box[0])
    next(items)
    ref = weakref.ref(box[0])
    box.clear()
    del items, item
    assert until(lambda: is_collected(ref))
    assert until(lambda: not any(value() for value in values))


def test_a_program_that_ends_amid_a_pass_does_not_wait_for_the_rest(tmp_path: Path) -> None:
    code = """
        import time
        from concurrent.futures import ThreadPoolExecutor
        import seqkit as sk

        def item(x):
            time.sleep(0.2)  # long enough for the program to end amid few of them
            print(x)
            return x

        ahead = sk.prefetch(sk.smap(item, range(1000)), method=ThreadPoolExecutor(1), chunk_size=1)
        items = iter(ahead)
        next(items)
    """
    status, out, err = finished(tmp_path, code)
    assert (status, err) == (0, "")
    assert len(out.split()) < 10 < 2 * MAX_DEPTH


def test_a_program_whose_pool_has_processes_does_not_wait_for_the_rest_either(tmp_path: Path) -> None:
    code = """
        import multiprocessing, os, sys, time
        import seqkit as sk
        from concurrent.futures import ProcessPoolExecutor

        def item(x):
            time.sleep(0.05)
            os.write(1, b"%d\\n" % x)
            return x

        if __name__ == "__main__":
            pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
            items = iter(sk.prefetch(sk.smap(item, range(1000)), method=pool, chunk_size=1))
            next(items)
    """
    before = children()
    status, out, err = finished(tmp_path, code)
    assert (status, err) == (0, "")
    assert len(out.split()) < 10 < 2 * MAX_DEPTH
    reap_orphans(before)


def test_a_thread_that_reads_when_the_program_ends_gets_an_error(tmp_path: Path) -> None:
    code = """
        import threading, time
        from concurrent.futures import ThreadPoolExecutor
        import seqkit as sk

        def read():
            try:
                for item in ahead:
                    begun.set()
            except RuntimeError as error:
                print(error)

        begun = threading.Event()
        source, pool = sk.smap(lambda x: time.sleep(0.01), range(5000)), ThreadPoolExecutor(2)
        ahead = sk.prefetch(source, 1, pool, chunk_size=1)
        threading.Thread(target=read).start()
        begun.wait()
    """
    status, out, err = finished(tmp_path, code)
    assert (status, err) == (0, "")
    assert out.startswith("prefetch: the executor takes no more tasks: RuntimeError: ")


def test_a_fork_of_multiprocessing_ends_though_tasks_are_under_way(tmp_path: Path) -> None:
    code = """
        import multiprocessing, warnings
        from concurrent.futures import Executor, Future
        import seqkit as sk

        class Untouchable(Future):
            def cancel(self):
                assert multiprocessing.parent_process() is None
                return super().cancel()

        class Never(Executor):
            def submit(self, fn, /, *args, **kwargs):
                return Untouchable()

        warnings.simplefilter("ignore")
        items = iter(sk.prefetch(range(9), method=Never()))
        child = multiprocessing.get_context("fork").Process(target=lambda: None)
        child.start()
        child.join()
        print(child.exitcode)
    """
    assert finished(tmp_path, code) == (0, "0\n", "")


def test_items_are_made_while_the_reader_works_also_where_few_are_made_at_once() -> None:
    made: list[int] = []
    making = sk.smap(made.append, range(200))
    with ThreadPoolExecutor(4) as pool, sk.prefetch(making, 2, pool, chunk_size=1) as ahead:
        items = iter(ahead)
        for read in range(1, 30):
            next(items)
            until(lambda read=read: len(made) >= 2 * read)  # type: ignore[misc]  two for every one that is read
            assert len(made) >= 2 * read


def test_a_closed_node_is_released_while_the_executor_is_busy() -> None:
    class Source:
        def __len__(self) -> int:
            return 9

        def __getitem__(self, i: int) -> int:
            return i

    source, free = Source(), threading.Event()
    ref = weakref.ref(source)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(free.wait)
        ahead = sk.prefetch(source, method=pool)
        items = iter(ahead)
        ahead.close()
        del items, ahead, source
        assert is_collected(ref)
        free.set()


def test_restarting_shows_the_source_as_it_is_then(pool: Executor) -> None:
    source = [1, 2, 3]
    with sk.prefetch(source, 1, pool) as ahead:
        assert list(ahead) == [1, 2, 3]
        source[0] = 7
        ahead.restart()
        assert list(ahead) == [7, 2, 3]


# -------------------------------------------------------------------- nodes within tasks


def test_nodes_of_one_executor_within_one_another_do_not_wait_for_ever() -> None:
    with ThreadPoolExecutor(1) as pool:
        inner = sk.prefetch(sk.smap(abs, range(-8, 0)), 1, pool)
        with sk.prefetch(sk.batch(inner, 2), 1, pool) as outer:
            assert list(outer) == [[8, 7], [6, 5], [4, 3], [2, 1]]
            assert outer[1] == [6, 5]
        with sk.prefetch(sk.smap(lambda i: inner[i], range(4)), 1, pool) as outer:
            assert list(outer) == [8, 7, 6, 5]


def test_a_node_knows_tasks_of_an_executor_that_only_passes_them_on() -> None:
    class Passing(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            return pool.submit(fn, *args, **kwargs)

    passing = Passing()
    inner = sk.prefetch(sk.smap(abs, range(-4, 0)), 1, passing)
    with ThreadPoolExecutor(1) as pool, inner, published(inner) as name:
        reading = sk.smap(lambda i: sys.modules[name].value[i], range(4))
        with sk.prefetch(reading, 1, passing) as outer:
            assert list(outer) == [4, 3, 2, 1]


def test_a_task_of_the_users_own_may_read_a_node_of_its_executor() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: list(sk.prefetch(range(5), method=pool))).result() == list(range(5))


def test_a_task_of_another_executor_of_the_same_name_reads_through_the_node() -> None:
    def who(i: int) -> int:
        return threading.get_ident()

    with ThreadPoolExecutor(2, "pool") as pool, ThreadPoolExecutor(1, "pool") as other:
        ids = other.submit(lambda: {threading.get_ident(), *sk.prefetch(sk.smap(who, range(5)), 1, pool)})
        assert len(ids.result()) == 2
        for _ in range(20):
            with ThreadPoolExecutor(1, "pool") as first:  # its thread is new, and perhaps not yet listed
                ids = first.submit(lambda: {threading.get_ident(), *sk.prefetch(sk.smap(who, [0]), 1, first)})
                assert len(ids.result()) == 1


def test_a_task_that_reads_an_iterator_of_its_own_executor_gets_an_error() -> None:
    with ThreadPoolExecutor(1) as pool, sk.prefetch(range(3), 1, pool) as inner:
        items = iter(inner)
        with sk.prefetch(sk.smap(lambda i: next(items), range(1)), 1, pool, chunk_size=1) as outer:
            (error,) = drawn(iter(outer))
        assert "reads the node that waits for it" in str(error)


def test_a_closed_node_is_closed_within_a_task_too(threads: Executor) -> None:
    inner = sk.prefetch(range(4), 1, threads)
    inner.close()
    with sk.prefetch(sk.smap(lambda i: inner[i], range(2)), 1, threads) as outer:
        assert all("the node is closed" in str(error) for error in drawn(iter(outer)))


def test_a_node_that_travels_leaves_its_executor_behind(threads: Executor, processes: Executor) -> None:
    with sk.prefetch(range(6), 2, threads) as inner, sk.prefetch(sk.batch(inner, 3), 1, processes) as outer:
        assert list(outer) == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_in_a_fork_the_node_has_threads_of_its_own(threads: Executor) -> None:
    # Those of the executor are not there, and nobody would ever do its tasks.
    with sk.prefetch(range(6), 2, threads) as inner:
        assert inner[0] == 0
        with forked(lambda: list(inner) == list(range(6))) as reads_all:
            assert reads_all()
        with sk.prefetch(sk.batch(inner, 3), 1, "process", context="fork") as outer:
            assert list(outer) == [[0, 1, 2], [3, 4, 5]]


# -------------------------------------------------------------------- arguments


def test_a_copy_has_no_more_threads_than_there_are_cpus() -> None:
    with ThreadPoolExecutor(600) as pool:
        copy = pickle.loads(pickle.dumps(sk.prefetch(range(3), method=pool)))
    assert repr(copy) == f"prefetch(<range of 3>, nworkers={min(600, usable_cpus())}, method='thread')"
    assert list(copy) == [0, 1, 2]
    copy.close()


def test_there_are_as_many_workers_as_the_executor_has() -> None:
    with ThreadPoolExecutor(3) as pool:
        assert "nworkers=3," in repr(sk.prefetch(range(3), method=pool))
        assert "nworkers=2," in repr(sk.prefetch(range(3), -1, method=pool))
        assert "nworkers=0, method='inline'" in repr(sk.prefetch(range(3), 0, method=pool))
        with pytest.raises(ValueError, match="nworkers must be an int of at least -2 or None, got -3"):
            sk.prefetch(range(3), -3, method=pool)
    assert list(sk.prefetch(range(3), method=Eager())) == [0, 1, 2]


def test_arguments_that_an_executor_does_not_support_are_refused(threads: Executor) -> None:
    with pytest.raises(ValueError, match="start_hook is for workers of the node's own, got method=<"):
        sk.prefetch(range(3), method=threads, start_hook=print)
    for refused in (
        {"timeout": 1.0},
        {"seed": 1},
        {"context": "fork"},
        {"shm_size": 1 << 20},
    ):
        with pytest.raises(ValueError, match=f"{next(iter(refused))} is for workers of the node's own"):
            sk.prefetch(range(3), method=threads, **refused)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["threads", 3, None, ThreadPoolExecutor])
def test_unknown_methods_are_refused(method: Any) -> None:
    names = "'thread', 'process', 'async', 'inline', 'auto', 'dask', 'ray'"
    known = f"one of {names} or a concurrent.futures.Executor"
    with pytest.raises(ValueError, match=known):
        sk.prefetch(range(3), method=method)
