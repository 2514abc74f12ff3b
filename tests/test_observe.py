"""Looking at expressions: drawings, calls on what is read, how long reading takes, where the time goes."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import seqkit as sk
from seqkit import EvaluationError
from seqkit.observe import debug, explain, monitor_throughput, profile
from seqkit.stores.add_cache.add_cache import add_cache
from seqkit.testing import CountingSource, FailingSource
from seqkit.testing.failing import Failure, by_iteration

from .helpers import Naturals, says


class Clock:
    """Stands still until it is told how many seconds pass; exact."""

    def __init__(self):
        self.now = Fraction(0)

    def __call__(self):
        return self.now

    def work(self, seconds):
        """Return a function that takes that long."""

        def working(x):
            self.now += Fraction(seconds)
            return x

        return working


# -------------------------------------------------------------------- debug


def watched(source, **options):
    calls = []
    return calls, debug(source, lambda i, item: calls.append((i, item)), **options)


def test_debug_reports_every_read():
    calls, view = watched("abc")
    assert view[-1] == "c"
    assert list(view) == ["a", "b", "c"]
    assert list(view._getmany([1, 1])) == ["b", "b"]
    assert calls == [(2, "c"), (0, "a"), (1, "b"), (2, "c"), (1, "b"), (1, "b")]


def test_debug_reports_reads_of_slices_with_the_index_of_the_whole():
    calls, view = watched("abcdef")
    assert list(view[::-2]) == ["f", "d", "b"]
    assert view[2:4][1] == "d"
    assert calls == [(5, "f"), (3, "d"), (1, "b"), (3, "d")]


def test_debug_reports_up_to_its_maximum_number():
    calls, view = watched("abcdef", max_calls=2)
    assert list(view) == list(view) == list("abcdef")
    assert calls == [(0, "a"), (1, "b")]
    calls, view = watched("abc", max_calls=0)
    assert view[1] == "b"
    assert calls == []


def test_debug_reports_the_first_read_and_then_at_most_at_its_rate():
    clock = Clock()
    calls, view = watched(range(100), max_rate=2, clock=clock)
    for i in range(21):
        view[i]
        clock.now += Fraction(1, 10)
    assert [i for i, _ in calls] == [0, 5, 10, 15, 20]


def test_debug_counts_over_all_epochs():
    calls, view = watched(sk.shuffle(range(9), seed=0), max_calls=12)
    for epoch in range(3):
        assert sorted(view.at_epoch(epoch)) == list(range(9))
    assert len(calls) == 12


def test_debug_counts_over_all_threads():
    calls, view = watched(range(1000), max_calls=100)
    with ThreadPoolExecutor(4) as pool:
        for items in pool.map(lambda _: list(view), range(4)):
            assert items == list(range(1000))
    assert len(calls) == 100


def test_debug_calls_the_function_outside_its_lock():
    together = threading.Barrier(2)
    view = debug([1, 2], lambda i, item: together.wait(30))
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda i: view[i], range(2))) == [1, 2]


def test_debug_does_not_report_items_that_fail():
    calls, view = watched(FailingSource("abcd", {1, 2}))
    found = by_iteration(iter(view))
    assert [isinstance(item, Failure) for item in found] == [False, True, True, False]
    assert calls == [(0, "a"), (3, "d")]


def test_a_failing_debug_function_fails_the_item_it_was_called_for():
    view = debug("abc", lambda i, item: 1 / (i - 1))
    found = by_iteration(iter(view))
    assert found == ["a", Failure(EvaluationError, "ZeroDivisionError('division by zero')"), "c"]
    with pytest.raises(EvaluationError, match=r"debug\[1\] failed in func: ZeroDivisionError"):
        view[1]


def test_writing_goes_through_debug():
    data = [1, 2]
    debug(data, print)[1] = 5
    assert data == [1, 5]


def test_a_pickled_debug_view_starts_counting_at_0():
    view = debug(range(5), print, max_calls=1)
    list(view)
    assert list(pickle.loads(pickle.dumps(view))) == list(range(5))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("print",), TypeError, "debug: func must be callable, got 'print'"),
        ((print, -1), ValueError, "debug: max_calls must be an int of at least 0 or None, got -1"),
        ((print, 1.5), TypeError, "debug: max_calls must be an int of at least 0 or None, got 1.5"),
        (
            (print, None, 0),
            ValueError,
            "debug: max_rate must be a number of calls per second above 0 or None, got 0",
        ),
        (
            (print, None, "1"),
            TypeError,
            "debug: max_rate must be a number of calls per second above 0 or None, got '1'",
        ),
    ],
)
def test_debug_refuses_bad_arguments(arguments, kind, message):
    with says(kind, message):
        debug("abc", *arguments)


def test_a_clock_must_be_callable():
    for make in (monitor_throughput, profile, lambda s, clock: debug(s, print, clock=clock)):
        with pytest.raises(TypeError, match=r"^\w+: clock must be callable, got 5$"):
            make("abc", clock=5)


# -------------------------------------------------------------------- monitor_throughput


def test_every_way_of_reading_is_measured():
    clock = Clock()
    view = monitor_throughput(sk.smap(clock.work(2), range(10)), clock=clock)
    for read in (
        lambda: view[3],
        lambda: list(view),
        lambda: list(view[2:7]),
        lambda: view._getmany([1, 2]),
        lambda: list(sk.batch(view, 4)),
    ):
        view.reset()
        read()
        clock.now += 100  # what the reader does with the items is its own affair
        assert view.read_delay() == 2
        assert view.throughput() == 0.5


def test_nothing_read_is_nothing_measured():
    view = monitor_throughput("ab")
    for ask in (view.read_delay, view.throughput):
        with says(RuntimeError, "monitor_throughput: nothing was read yet, so there is nothing measured"):
            ask()
    view[0]
    assert view.read_delay() >= 0
    view.reset()
    with pytest.raises(RuntimeError):
        view.throughput()


def test_items_that_took_no_time_have_infinite_throughput():
    view = monitor_throughput("ab", clock=Clock())
    list(view)
    assert view.throughput() == float("inf")


def test_items_that_fail_are_not_measured():
    clock = Clock()
    view = monitor_throughput(sk.smap(clock.work(1), FailingSource("abcd", {1, 2})), clock=clock)
    assert len(by_iteration(iter(view))) == 4
    with pytest.raises(EvaluationError):
        view[1]
    assert view._meter.total() == (2, 2)


def test_threads_and_epochs_measure_together():
    view = monitor_throughput(sk.shuffle(range(500), seed=0))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda epoch: list(view.at_epoch(epoch)), range(4)))
    assert view._meter.total()[0] == 2000


def test_the_waiting_for_workers_is_measured():
    with sk.prefetch(range(50), 2) as ahead:
        view = monitor_throughput(ahead)
        assert list(view) == list(range(50))
        assert view.throughput() > 0


def test_explain_shows_the_throughput():
    clock = Clock()
    view = monitor_throughput(sk.smap(clock.work(Fraction(1, 4)), "ab"), clock=clock)
    assert explain(view).splitlines()[0].endswith("length 2")
    list(view)
    assert explain(view).splitlines()[0].endswith("length 2, 4 items/s")


def test_a_pickled_monitor_starts_measuring_again():
    view = monitor_throughput("ab")
    list(view)
    copy = pickle.loads(pickle.dumps(view))
    with pytest.raises(RuntimeError):
        copy.read_delay()
    assert list(copy) == ["a", "b"]


def test_writing_goes_through_a_monitor():
    data = [1, 2]
    monitor_throughput(data)[1] = 5
    assert data == [1, 5]


# -------------------------------------------------------------------- profile


def own_times(found):
    return {stage.view: (stage.items, stage.seconds) for stage in found.stages}


def test_each_view_has_its_own_time():
    clock = Clock()
    inner, outer = clock.work(3), clock.work(2)
    inner.__name__, outer.__name__ = "inner", "outer"
    found = profile(sk.batch(sk.smap(outer, sk.smap(inner, range(10))), 4), clock=clock)
    assert found.items == 3
    assert own_times(found) == {
        "batch(4)": (3, 0),
        "smap(outer)": (10, 20),
        "smap(inner)": (10, 30),
        "<range of 10>": (10, 0),
    }
    assert found.costliest.view == "smap(inner)"
    assert found.seconds == 50


def test_no_more_items_are_read_than_wanted():
    source = CountingSource(range(1000))
    found = profile(sk.batch(source, 2), n=3)
    assert found.items == 3
    assert source.reads == dict.fromkeys(range(6), 1)
    assert profile(Naturals(), 5).items == 5
    assert profile([], 5).items == 0


def test_a_view_that_is_used_twice_is_one_stage():
    clock = Clock()
    work = sk.smap(clock.work(1), [1, 2])
    found = profile(sk.collate([work, work]), clock=clock)
    assert [stage.items for stage in found.stages] == [2, 4, 4]
    assert found.seconds == 4


def test_the_profile_table_is_the_drawing_of_explain_with_numbers():
    clock = Clock()
    work = clock.work(Fraction(3, 2000))
    work.__name__ = "work"
    rest = clock.work(Fraction(1, 2000))
    rest.__name__ = "rest"
    assert str(profile(sk.smap(rest, sk.gather(sk.smap(work, "ab"), [1, 0, 1])), clock=clock)) == "\n".join(
        [
            "own time                 share     items   per item",
            "smap(rest)               25.0%         3     500 µs",
            "└─ gather(<3 indices>)    0.0%         3       0 ns",
            "   └─ smap(work)         75.0%         3     1.5 ms",
            "      └─ <str of 2>       0.0%         3       0 ns",
        ]
    )


def test_profile_skips_prefetch_and_starts_no_worker():
    threads = []
    work = sk.smap(lambda x: threads.append(threading.get_ident()), range(5))
    found = profile(sk.prefetch(work, 2))
    assert set(threads) == {threading.get_ident()}
    assert [stage.items for stage in found.stages] == [0, 5, 5]


def test_profiled_random_views_draw_the_same_numbers():
    drawn = []
    noise = sk.random_map(
        lambda x, rng: drawn.append(int(rng.integers(1000))), sk.shuffle(range(9), seed=0), seed=1
    )
    profile(sk.smap(str, noise))
    expected = drawn.copy()
    drawn.clear()
    list(noise)
    assert drawn == expected


def test_caches_start_empty_and_stay_as_they_are():
    source = CountingSource(range(4))
    cached = add_cache(source, 4)
    list(cached)
    profile(cached)
    profile(cached)
    assert set(source.reads.values()) == {3}


def test_reads_for_a_length_are_not_counted():
    batches = sk.batch(np.arange(10), 4)
    found = profile(sk.unbatch(batches, 4), n=1)
    assert own_times(found)["batch(4)"][0] == 1


def test_a_failing_item_is_named_in_the_expression_that_was_given():
    inverse = sk.smap(lambda x: 1 / x, [1, 2, 0, 4])
    with pytest.raises(EvaluationError) as caught:
        profile(sk.batch(inverse, 2))
    assert caught.value.view is inverse
    assert [view._name for view, _ in caught.value.path] == ["batch", "smap"]


def test_profile_refuses_bad_arguments():
    with says(ValueError, "profile: n must be a positive int, got 0"):
        profile("abc", 0)
    with pytest.raises(TypeError, match=r"^profile: a sequence needs"):
        profile(3)


def test_the_views_of_all_epochs_are_one_stage_of_a_profile():
    times = iter(range(10_000))
    noisy = sk.random_map(lambda x, rng: x, range(4), seed=0)
    found = sk.profile(sk.epochs(noisy, 3), clock=lambda: next(times))
    passes, mapped, leaf = found.stages
    assert [stage.items for stage in found.stages] == [12, 12, 12]
    assert mapped.view.startswith("random_map")
    assert mapped.seconds > 0
    assert leaf.seconds > 0
    assert found.seconds == passes.seconds + mapped.seconds + leaf.seconds
