"""`debug` and `monitor_throughput`: calls on what is read, and how long reading takes."""

import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

import seqkit as sk
from seqkit import EvaluationError
from seqkit.observe import debug, monitor_throughput
from seqkit.testing import FailingSource
from seqkit.testing.failing import Failure, by_iteration

from .helpers import Clock


def watched(source, **options):
    calls = []
    return calls, debug(source, lambda i, item: calls.append((i, item)), **options)


def test_debug_reports_every_read():
    calls, view = watched("abcdef")
    assert view[-1] == "f"
    assert list(view[::-2]) == ["f", "d", "b"]
    assert view[2:4][1] == "d"
    assert list(view._getmany([1, 1])) == ["b", "b"]
    assert calls == [(5, "f"), (5, "f"), (3, "d"), (1, "b"), (3, "d"), (1, "b"), (1, "b")]


def test_debug_reports_up_to_its_maximum_number():
    calls, view = watched("abcdef", max_calls=2)
    assert list(view) == list(view) == list("abcdef")
    assert calls == [(0, "a"), (1, "b")]
    calls, view = watched("abc", max_calls=0)
    assert view[1] == "b"
    assert calls == []
    calls, view = watched(sk.shuffle(range(9), seed=0), max_calls=12)
    for epoch in range(3):
        assert sorted(view.at_epoch(epoch)) == list(range(9))
    assert len(calls) == 12
    calls, view = watched(range(1000), max_calls=100)
    with ThreadPoolExecutor(4) as pool:
        for items in pool.map(lambda _: list(view), range(4)):
            assert items == list(range(1000))
    assert len(calls) == 100


def test_debug_reports_the_first_read_and_then_at_most_at_its_rate(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(sys.modules["seqkit.observe.taps"], "monotonic", clock)
    calls, view = watched(range(100), max_rate=2)
    for i in range(21):
        view[i]
        clock.now += Fraction(1, 10)
    assert [i for i, _ in calls] == [0, 5, 10, 15, 20]


def test_debug_calls_the_function_outside_its_lock():
    together = threading.Barrier(2)
    view = debug([1, 2], lambda i, item: together.wait(30))
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda i: view[i], range(2))) == [1, 2]


def test_failing_items_are_not_reported_and_a_failing_function_fails_its_item():
    calls, view = watched(FailingSource("abcd", {1, 2}))
    found = by_iteration(iter(view))
    assert [isinstance(item, Failure) for item in found] == [False, True, True, False]
    assert calls == [(0, "a"), (3, "d")]
    view = debug("abc", lambda i, item: 1 / (i - 1))
    error = Failure(EvaluationError, "ZeroDivisionError('division by zero')")
    assert by_iteration(iter(view)) == ["a", error, "c"]
    with pytest.raises(EvaluationError, match=r"debug\[1\] failed in func: ZeroDivisionError"):
        view[1]


def test_views_can_be_written_and_pickled():
    data = [1, 2]
    debug(data, print)[1] = 5
    monitor_throughput(data)[0] = 4
    assert data == [4, 5]
    watched, monitored = debug(range(5), print, max_calls=1), monitor_throughput(range(5))
    list(watched), list(monitored)
    assert list(pickle.loads(pickle.dumps(watched))) == list(range(5))
    copy = pickle.loads(pickle.dumps(monitored))
    with pytest.raises(RuntimeError):
        copy.read_delay()  # it measures anew
    assert list(copy) == list(range(5))


# -------------------------------------------------------------------- monitor_throughput


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(sys.modules["seqkit.observe.taps"], "perf_counter", found)
    return found


def test_every_way_of_reading_is_measured(clock):
    view = monitor_throughput(sk.smap(clock.work(2), range(10)))
    for read in (
        lambda: view[3],
        lambda: list(view),
        lambda: list(view[2:7]),
        lambda: view._getmany([1, 2]),
        lambda: list(sk.batch(view, 4)),
    ):
        view.reset()
        for ask in (view.read_delay, view.throughput):
            with pytest.raises(RuntimeError, match="monitor_throughput: nothing was read"):
                ask()
        read()
        clock.now += 100  # what the reader does with the items is its own affair
        assert (view.read_delay(), view.throughput()) == (2, 0.5)
    quick = monitor_throughput("ab")
    list(quick)
    assert quick.throughput() == float("inf")


def test_items_that_fail_are_not_measured(clock):
    view = monitor_throughput(sk.smap(clock.work(1), FailingSource("abcd", {1, 2})))
    assert len(by_iteration(iter(view))) == 4
    with pytest.raises(EvaluationError):
        view[1]
    assert view._meter.total == (2, 2)


def test_threads_and_epochs_measure_together():
    view = monitor_throughput(sk.shuffle(range(500), seed=0))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda epoch: list(view.at_epoch(epoch)), range(4)))
    assert view._meter.total[0] == 2000
    with sk.prefetch(range(50), 2) as ahead:
        above = monitor_throughput(ahead)
        assert list(above) == list(range(50))
        assert above.throughput() > 0
