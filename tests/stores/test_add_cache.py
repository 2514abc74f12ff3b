"""What is special about `add_cache`: what is kept and for how long, in memory and on disk, among threads."""

import copy
import errno
import gc
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import warnings
import weakref
from collections import OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import seqkit as sk
from seqkit import EvaluationError
from seqkit.core import worker as context
from seqkit.stores.add_cache import directory
from seqkit.stores.add_cache.add_cache import add_cache
from seqkit.stores.add_cache.memory import size_of
from seqkit.testing import CountingSource, FailingSource, UnsizedSource
from seqkit.testing.failing import Failure, by_iteration
from seqkit.views.bases.order_digest import order_digest

from ..helpers import Interrupted, InterruptsOnce

ROOT = Path(__file__).resolve().parents[2]


def counted(n=10, **options):
    source = CountingSource(range(100, 100 + n))
    return source, add_cache(source, **options)


def reads(source):
    return sum(source.reads.values())


class Gate:
    """A function whose calls wait until they are let through; tells how many have arrived."""

    def __init__(self):
        self.calls = []
        self.arrived = threading.Semaphore(0)
        self.open = threading.Event()

    def __call__(self, x):
        self.calls.append(x)
        self.arrived.release()
        assert self.open.wait(30)
        return x * 2


def hold(lock, holding, release):
    """Hold a lock until told to release it."""
    with lock:
        holding.set()
        assert release.wait(30)


def in_child(function):
    """Return what a function returns in a forked process."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(30)
            os.write(theirs, pickle.dumps(function()))
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    return pickle.loads(data)


# -------------------------------------------------------------------- what is kept


def test_everything_is_kept_by_default_up_to_a_gibibyte():
    source, cached = counted()
    for _ in range(3):
        assert list(cached) == list(range(100, 110))
    assert reads(source) == 10
    part = np.broadcast_to(np.empty(1), (1 << 25,))  # 256 MiB
    large, counted_only = (add_cache(sk.smap(lambda i: part, range(9)), size) for size in (None, 8))
    assert sum(each.nbytes for each in large) == sum(each.nbytes for each in counted_only) == 9 << 28
    assert "4 items kept" in sk.explain(large)
    assert "8 items kept" in sk.explain(counted_only)  # a size is the only limit


def test_all_spellings_of_an_index_are_one_key():
    source, cached = counted(2, cache_size=5)
    for key in (1, -1, np.int8(1), np.array(1)):
        assert cached[key] == 101
    assert list(cached[[1, 1]]) == list(cached[1:]) * 2 == [101, 101]
    assert source.reads == {1: 1}


def test_the_item_read_longest_ago_goes_first():
    source, cached = counted(cache_size=2)
    for i in (0, 1, 0, 2, 0):
        cached[i]
    assert source.reads == {0: 1, 1: 1, 2: 1}


def test_fifo_lets_the_item_kept_longest_go_first():
    source, cached = counted(cache_size=2, policy="fifo")
    for i in (0, 1, 0, 2, 0):
        cached[i]
    assert source.reads == {0: 2, 1: 1, 2: 1}


def test_size_0_switches_the_cache_off():
    source, cached = counted(3, cache_size=0)
    assert list(cached) == list(cached) == [100, 101, 102]
    assert list(cached._getmany([0, 0])) == [100, 100]
    assert source.reads == {0: 3, 1: 2, 2: 2}
    assert list(add_cache("ab", 0, {0: "x"})) == ["a", "b"]


def test_iteration_fills_the_cache_and_uses_it():
    source, cached = counted(cache_size=10)
    assert list(cached) == list(cached) == list(reversed(cached))[::-1]
    assert list(sk.batch(cached, 4)[1]) == [104, 105, 106, 107]
    assert set(source.reads.values()) == {1}


def test_batched_reads_ask_the_source_for_the_missing_items_only():
    asked = []

    class Batched(list):
        def __getitems__(self, indices):
            asked.append(list(indices))
            return [self[i] for i in indices]

    cached = add_cache(Batched(range(10)), 10)
    cached._getmany([1, 2])
    assert list(cached._getmany([4, 1, 3, 2, 4])) == [4, 1, 3, 2, 4]
    assert asked == [[1, 2], [4, 3]]


def test_rows_of_a_batched_read_do_not_keep_each_other_alive():
    data = np.arange(12).reshape(4, 3)
    cached = add_cache(data, 1)
    rows = cached._getmany([2, 0])
    assert all(row.base is None for row in rows)
    assert np.array_equal(rows, data[[2, 0]])


def test_batched_reads_keep_objects_of_an_array_as_they_are():
    objects = np.array([None, "a", [1], 2.5], dtype=object)
    cached = add_cache(objects, 4)
    assert list(cached._getmany([0, 1, 2, 3])) == [None, "a", [1], 2.5]
    assert cached[2] is objects[2]


def test_bytes_bound_what_is_kept():
    made = []

    def zeros(n):
        made.append(n)
        return np.zeros(n, np.uint8)

    cached = add_cache(sk.smap(zeros, [4000, 5000, 9000, 20_000]), max_bytes=10_000)
    for i in (0, 1, 0, 1):
        cached[i]
    assert made == [4000, 5000]
    for i in (2, 2, 0):
        cached[i]
    assert made == [4000, 5000, 9000, 4000]
    for i in (3, 3, 0):
        cached[i]
    assert made[4:] == [20_000, 20_000]


def test_items_and_bytes_may_both_be_bounded():
    source, cached = counted(cache_size=3, max_bytes=10**6)
    list(cached)
    list(cached[-3:])
    assert reads(source) == 10


def test_size_counts_arrays_and_what_containers_hold():
    array = np.zeros(1000)
    part = array[:500]
    assert size_of(array) >= 8000
    assert 4000 <= size_of(part) < 8000
    assert 8000 < size_of({"x": (array, 1)}) < 9000
    loop = [array]
    loop.append(loop)
    assert size_of(loop) < 9000


def test_items_are_kept_by_reference_and_let_go():
    cached = add_cache(sk.smap(lambda i: np.full(3, i), range(3)), 1)
    item = cached[0]
    assert cached[0] is item
    gone = weakref.ref(item)
    del item
    cached[1]
    gc.collect()
    assert gone() is None


def test_none_is_an_item_like_others():
    calls = []
    cached = add_cache(sk.smap(calls.append, range(3)))
    assert cached[1] is cached[1] is None
    assert calls == [1]


def test_clear_forgets_everything():
    source, cached = counted(3, cache_size=3)
    list(cached)
    cached.clear()
    list(cached)
    assert source.reads == {0: 2, 1: 2, 2: 2}


def test_clear_forgets_what_a_mapping_held_before():
    _, cached = counted(3, cache={0: "old"})
    cached.clear()
    assert list(cached) == [100, 101, 102]


def test_explain_says_how_much_is_kept():
    _, cached = counted(cache_size=4)
    list(cached)
    assert "4 items kept" in sk.explain(cached)
    assert repr(cached) == "add_cache(<CountingSource of 10>, cache_size=4)"


# -------------------------------------------------------------------- mappings of the user's


class Minimal:
    """No more than what `add_cache` asks of a mapping."""

    def __init__(self):
        self.items = {}

    def __contains__(self, key):
        return key in self.items

    def __getitem__(self, key):
        return self.items[key]

    def __setitem__(self, key, value):
        self.items[key] = value

    def __delitem__(self, key):
        del self.items[key]


class Forgetful(Minimal):
    """Claims to have what it has lost already."""

    def __contains__(self, key):
        return True

    def __getitem__(self, key):
        raise KeyError(key)


@pytest.mark.parametrize("kind", [dict, OrderedDict, Minimal, lambda: defaultdict(list)])
def test_a_mapping_of_the_users_holds_the_items(kind):
    mapping = kind()
    source, cached = counted(3, cache=mapping)
    assert list(cached) == list(cached) == [100, 101, 102]
    assert reads(source) == 3
    assert mapping[1] == 101


def test_a_mapping_of_the_users_is_bounded_on_request():
    mapping = Minimal()
    _, cached = counted(cache_size=2, cache=mapping)
    list(cached)
    assert mapping.items == {8: 108, 9: 109}


def test_what_a_mapping_holds_already_is_used():
    source, cached = counted(3, cache={1: "kept"})
    assert list(cached) == [100, "kept", 102]
    assert source.reads == {0: 1, 2: 1}


def test_a_mapping_may_lose_items():
    mapping = {}
    _, cached = counted(3, cache_size=2, cache=mapping)
    list(cached)
    mapping.clear()
    assert list(cached) == [100, 101, 102]
    assert set(mapping) == {1, 2}
    _, cached = counted(3, cache=Forgetful())
    assert list(cached) == list(cached) == [100, 101, 102]
    cached.clear()


def test_after_an_error_of_the_mapping_no_thread_waits():
    class Full(Minimal):
        def __setitem__(self, key, value):
            raise OSError("full")

    cached = add_cache("ab", cache=Full())
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            cached[1]
    with ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(lambda: cached[1]).exception(30), OSError)


def test_after_an_error_of_the_mapping_in_a_batch_no_thread_waits():
    class Picky(Minimal):
        def __setitem__(self, key, value):
            if key == 1:
                raise OSError("full")
            super().__setitem__(key, value)

    cached = add_cache("abcd", cache=Picky())
    with pytest.raises(OSError, match="full"):
        cached._getmany([0, 1, 2, 3])
    with ThreadPoolExecutor(1) as pool:
        assert [pool.submit(cached.__getitem__, i).result(30) for i in (0, 2, 3)] == ["a", "c", "d"]
    cached.kept._drop(2)
    assert cached[2] == "c"


# -------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            {"cache_size": -1},
            ValueError,
            "add_cache: cache_size must be an int of at least 0 or None, got -1",
        ),
        ({"cache_size": 1.5}, TypeError, "add_cache: cache_size must be"),
        ({"max_bytes": 0}, ValueError, "add_cache: max_bytes must be a positive int or None, got 0"),
        ({"policy": "mru"}, ValueError, "add_cache: policy must be 'lru' or 'fifo', got 'mru'"),
        ({"cache": [1]}, TypeError, "add_cache: cache must be a mapping, got [1]"),
        ({"cache": 3}, TypeError, "add_cache: cache must be a mapping with __contains__, got 3"),
        ({"cache": dict}, TypeError, "add_cache: cache must be a mapping"),
        ({"store": 3}, TypeError, "add_cache: store must be a path, got 3"),
    ],
)
def test_bad_arguments_are_refused_at_once(arguments, kind, message):
    with pytest.raises(kind) as caught:
        add_cache([1], **arguments)
    assert message in str(caught.value)


def test_what_cannot_be_indexed_is_refused():
    with pytest.raises(TypeError, match=r"^add_cache: a sequence needs"):
        add_cache(3)


# -------------------------------------------------------------------- failures


def test_failures_are_not_kept():
    failing = FailingSource("abc", {1})
    cached = add_cache(failing, 3)
    with pytest.raises(EvaluationError):
        cached[1]
    failing.failing = frozenset()
    assert cached[1] == "b"
    assert list(cached) == ["a", "b", "c"]


def test_items_before_a_failure_are_kept():
    calls = []

    def reciprocal(x):
        calls.append(x)
        return 1 / x

    cached = add_cache(sk.smap(reciprocal, [1, 0, 2]), 3)
    found = by_iteration(iter(cached))
    assert [isinstance(item, Failure) for item in found] == [False, True, False]
    by_iteration(iter(cached))
    assert calls == [1, 0, 2, 0]


# -------------------------------------------------------------------- threads


def test_threads_that_want_the_same_item_evaluate_it_once():
    gate = Gate()
    cached = add_cache(sk.smap(gate, [1, 2]))
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(lambda: cached[1])
        assert gate.arrived.acquire(timeout=30)
        others = [pool.submit(lambda: cached[1]) for _ in range(3)]
        gate.open.set()
        assert [future.result(30) for future in [first, *others]] == [4] * 4
    assert gate.calls == [2]


def test_threads_that_want_different_items_evaluate_side_by_side():
    together = threading.Barrier(3)

    def meet(x):
        together.wait(30)
        return x

    cached = add_cache(sk.smap(meet, range(3)))
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda i: cached[i], range(3))) == [0, 1, 2]


def test_kept_items_are_read_while_others_are_evaluated():
    gate = Gate()
    cached = add_cache(sk.smap(lambda x: gate(x) if x else 0, range(3)), 3)
    assert cached[0] == 0
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(lambda: cached[1])
        assert gate.arrived.acquire(timeout=30)
        assert cached[0] == 0
        gate.open.set()
        assert pending.result(30) == 2


@pytest.mark.parametrize("policy", ["wrap", "passthrough"])
def test_after_a_failure_each_waiting_thread_computes_the_item(policy):
    gate = Gate()

    def fail(x):
        gate(x)
        raise KeyError(x)

    cached = add_cache(sk.smap(fail, [7]))

    def read():
        with sk.errstate(policy if gate.calls else "wrap"):
            return cached[0]

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(read)
        assert gate.arrived.acquire(timeout=30)
        others = [pool.submit(read) for _ in range(2)]
        gate.open.set()
        errors = [future.exception(30) for future in (first, *others)]
    assert len(gate.calls) == len({id(error) for error in errors}) == 3
    assert isinstance(errors[0], EvaluationError)
    for error in errors[1:]:
        assert isinstance(error, EvaluationError if policy == "wrap" else KeyError)
    for error in errors if policy == "wrap" else []:
        assert repr(error.__cause__) == "KeyError(7)"
        assert error.view is cached._sources[0]
        assert [index for _, index in error.path] == [0, 0]


def test_an_interrupted_evaluation_is_taken_up_by_another_thread():
    gate = Gate()
    interrupt = [True]

    def work(x):
        gate(x)
        if interrupt and interrupt.pop():
            raise KeyboardInterrupt
        return x

    cached = add_cache(sk.smap(work, [7]))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: cached[0])
        assert gate.arrived.acquire(timeout=30)
        second = pool.submit(lambda: cached[0])
        gate.open.set()
        assert isinstance(first.exception(30), KeyboardInterrupt)
        assert second.result(30) == 7


def test_a_batched_read_does_not_compute_items_that_other_threads_compute():
    gate = Gate()
    cached = add_cache(sk.smap(lambda x: gate(x) if x == 1 else x, range(4)), 4)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(lambda: cached[1])
        assert gate.arrived.acquire(timeout=30)
        many = pool.submit(lambda: cached._getmany([0, 1, 2]))
        gate.open.set()
        assert list(many.result(30)) == [0, 2, 2]
        assert one.result(30) == 2
    assert gate.calls == [1]


def test_after_a_failed_batched_read_no_thread_waits():
    failing = FailingSource(range(4), {2})
    cached = add_cache(failing, 4)
    with pytest.raises(EvaluationError):
        cached._getmany([0, 1, 2])
    assert [cached[0], cached[1], cached[3]] == [0, 1, 3]


def test_an_item_may_be_made_of_others_in_the_same_cache():
    calls = []

    def fibonacci(n):
        calls.append(n)
        return n if n < 2 else cached[n - 1] + cached[n - 2]

    cached = add_cache(sk.smap(fibonacci, range(50)), 50)
    assert cached[30] == 832040
    assert len(calls) == 31
    assert list(cached._getmany(range(50)))[49] == 7778742049


def test_threads_that_read_batches_do_not_wait_for_each_other():
    gate = Gate()

    def work(i):
        if i == 0:
            return cached[2] + 1
        if i == 2:
            return (gate(1) if not gate.calls else 2) * cached[1]
        return 5

    cached = add_cache(sk.smap(work, range(3)), 3)
    with ThreadPoolExecutor(2) as pool:
        two = pool.submit(lambda: cached[2])  # will want item 1
        assert gate.arrived.acquire(timeout=30)
        batch = pool.submit(lambda: cached._getmany([0, 1]))  # has claimed item 1, and wants item 2
        assert list(batch.result(30)) == [11, 5]
        gate.open.set()
        assert two.result(30) == 10


def test_an_item_made_of_itself_is_a_recursion_error_and_no_deadlock():
    cached = add_cache(sk.smap(lambda i: cached[i], range(2)))
    with pytest.raises((RecursionError, EvaluationError)):
        cached[0]


def test_a_forked_child_does_not_wait_for_threads_of_its_parent():
    gate = Gate()
    cached = add_cache(sk.smap(lambda x: gate(x) if x else x, range(3)), 3)
    cached[0]
    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as pool_of_one:
        pending = pool.submit(lambda: cached[1])
        assert gate.arrived.acquire(timeout=30)
        holding, release = threading.Event(), threading.Event()
        holder = pool_of_one.submit(hold, cached.kept._lock, holding, release)
        assert holding.wait(30)

        def read():
            gate.open.set()
            return cached[0], cached[1]

        assert in_child(read) == (0, 2)
        release.set()
        holder.result(30)
        gate.open.set()
        assert pending.result(30) == 2


# -------------------------------------------------------------------- assignment


def test_an_assigned_item_is_written_to_the_source_and_read_back():
    data = [1, 2, 3]
    cached = add_cache(data, 3)
    assert list(cached) == [1, 2, 3]
    cached[1] = 20
    assert data == [1, 20, 3]
    assert cached[1] == 20
    cached[::2] = [10, 30]
    assert list(cached) == data == [10, 20, 30]


def test_what_is_read_back_is_what_the_source_made_of_it():
    cached = add_cache(sk.batch([1, 2, 3], 2), 2)
    assert list(cached) == [[1, 2], [3]]
    cached[0] = iter((8, 9))
    assert cached[0] == [8, 9]


def test_items_made_of_the_same_one_change_together():
    cached = add_cache(sk.gather([1, 2], [0, 0, 1]), 3)
    assert list(cached) == [1, 1, 2]
    cached[0] = 5
    assert list(cached) == [5, 5, 2]


def test_items_that_a_mapping_held_before_change_too():
    data = [1, 2]
    cached = add_cache(sk.collate([data, data]), cache={0: (1, 1)})
    cached[0] = (5, 5)
    assert list(cached) == [(5, 5), (2, 2)]


def test_assignment_beside_other_items_leaves_those_kept():
    source = [np.zeros(1), np.ones(1)]
    cached = add_cache(source, 2)
    kept = cached[0]
    cached[1] = np.zeros(1)
    source[0] = None
    assert cached[0] is kept


def test_an_old_value_that_arrives_after_an_assignment_is_not_kept():
    gate = Gate()
    data = [1]

    class Slow:
        def __len__(self):
            return 1

        def __getitem__(self, i):
            value = data[0]
            gate(i)
            return value

        def __setitem__(self, i, value):
            data[0] = value

    cached = add_cache(Slow())
    with ThreadPoolExecutor(1) as pool:
        old = pool.submit(lambda: cached[0])
        assert gate.arrived.acquire(timeout=30)
        cached[0] = 2
        gate.open.set()
        assert old.result(30) == 1
    assert cached[0] == 2


def test_an_error_names_the_view_that_cannot_be_written():
    with pytest.raises(TypeError, match="smap does not support assignment"):
        add_cache(sk.smap(abs, [1]))[0] = 2


# -------------------------------------------------------------------- epochs and copies


def test_epochs_do_not_share_what_is_kept_above_a_random_view():
    cached = add_cache(sk.shuffle(range(100), seed=0), 100)
    plain = sk.shuffle(range(100), seed=0)
    for epoch in (0, 1, 0, 2):
        keyed = cached.at_epoch(epoch)
        assert list(keyed) == list(keyed) == list(plain.at_epoch(epoch))
    assert list(cached) == list(plain)


@pytest.mark.parametrize("kind", [dict, Minimal])
def test_epochs_do_not_share_a_mapping_of_the_users(kind):
    mapping = kind()
    cached = add_cache(sk.shuffle(range(100), seed=0), cache=mapping)
    first, second = list(cached), list(cached.at_epoch(1))
    assert first != second
    assert [mapping[i] for i in range(100)] == first
    assert list(cached.at_epoch(1)) == second


@pytest.mark.parametrize(
    ("bounds", "kept"), [({}, 9), ({"cache_size": 0}, 0), ({"cache_size": 3}, 3), ({"max_bytes": 10**6}, 9)]
)
def test_what_epochs_keep_instead_of_a_mapping_has_its_bounds(bounds, kept):
    cached = add_cache(sk.shuffle(range(9), seed=0), cache=Minimal(), **bounds).at_epoch(1)
    list(cached)
    assert f"{kept} items kept" in sk.explain(cached)


def test_epochs_share_what_is_kept_beneath_random_views():
    source = CountingSource(range(10))
    order = sk.shuffle(add_cache(source, 10), seed=0)
    for epoch in range(3):
        assert sorted(order.at_epoch(epoch)) == list(range(10))
    assert set(source.reads.values()) == {1}


def test_rebuilding_over_the_same_source_keeps_what_is_kept():
    source, cached = counted(3, cache_size=3)
    list(cached)
    assert list(cached._rebuild(cached._sources)) == [100, 101, 102]
    assert reads(source) == 3
    empty = add_cache(source)
    assert empty._rebuild(empty._sources).kept is empty.kept
    other = cached._rebuild((sk.view("xyz"),))
    assert list(other) == ["x", "y", "z"]


def test_copies_start_empty():
    source, cached = counted(3, cache_size=3)
    list(cached)
    small, large = len(pickle.dumps(add_cache(range(1000), 9))), add_cache(range(1000), 9)
    list(large)
    assert len(pickle.dumps(large)) == small
    twin = copy.copy(cached)
    assert list(twin) == [100, 101, 102]
    assert reads(source) == 6


def test_a_pickle_has_the_users_mapping_unless_it_is_a_dict():
    kept = {0: "kept"}
    assert pickle.loads(pickle.dumps(add_cache("ab", cache=kept)))[0] == "a"
    assert kept == {0: "kept"}
    mapping = Minimal()
    mapping[0] = "kept"
    assert pickle.loads(pickle.dumps(add_cache("ab", cache=mapping)))[0] == "kept"


# -------------------------------------------------------------------- over and under prefetch


def test_over_a_prefetch_only_missing_items_are_computed_ahead():
    asked = []

    def work(x):
        asked.append(x)
        return x * 2

    with sk.prefetch(sk.smap(work, range(50)), 2) as ahead:
        cached = add_cache(ahead, 50)
        assert list(cached[10:20]) == [x * 2 for x in range(10, 20)]
        assert list(cached) == [x * 2 for x in range(50)]
        assert list(reversed(cached)) == [x * 2 for x in range(49, -1, -1)]
        assert sorted(asked) == list(range(50))


def test_over_a_prefetch_items_dropped_before_they_are_read_are_computed_again():
    with sk.prefetch(sk.smap(str, range(30)), 2) as ahead:
        cached = add_cache(ahead, 3)
        list(cached[[5, 6, 7]])
        plan = [0, 1, 2, 5, 3, 3, 3, 6, 29, 7, 0]
        assert list(cached._iter(plan)) == [str(i) for i in plan]


def test_over_a_prefetch_failures_keep_the_order():
    with sk.prefetch(FailingSource("abcdef", {1, 4}, KeyError), 2) as ahead:
        cached = add_cache(ahead, 6)
        for _ in range(2):
            found = by_iteration(iter(cached))
            assert [item if isinstance(item, str) else "-" for item in found] == list("a-cd-f")


def test_over_a_prefetch_errors_name_the_way_to_the_item():
    with sk.prefetch(FailingSource("abc", {1}), 2) as ahead:
        cached = add_cache(ahead, 3)
        iterator = iter(cached)
        next(iterator)
        with pytest.raises(EvaluationError) as caught:
            next(iterator)
    assert caught.value.path[:2] == ((cached, 1), (ahead, 1))


def test_over_a_node_that_reads_ahead_an_interrupt_does_not_shift_what_is_kept():
    cached = add_cache(Interrupted(sk.smap(InterruptsOnce("2"), "012345"), -1), 6)
    iterator = iter(cached)
    assert [next(iterator), next(iterator)] == ["0", "1"]
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    with pytest.raises(RuntimeError, match="Begin a new one"):
        next(iterator)
    assert list(cached) == list("012345")


def test_over_a_prefetch_of_unknown_length_iteration_ends():
    with sk.prefetch(UnsizedSource("abc"), 2) as ahead:
        cached = add_cache(ahead, 3)
        assert list(cached) == list(cached) == ["a", "b", "c"]


def test_passes_of_several_sources_agree_on_what_is_missing():
    with sk.prefetch(range(40), 2) as left, sk.prefetch(range(100, 140), 2) as right:
        cached = add_cache(sk.collate([left, right]), 40)
        list(cached[[3, 30]])
        plan = [0, 3, 30, 3, 1, 39]
        assert list(cached._iter(plan)) == [(i, i + 100) for i in plan]


def test_nothing_beneath_a_cache_allocates_in_a_slot():
    asked = []

    def allocate(shape, dtype):
        asked.append(shape)

    cached = add_cache(sk.smap(lambda i: sk.empty(3), range(9)), 9)
    with context.evaluating(allocate):
        cached[0]
        cached._getmany([1, 2])
        list(cached[3:5])
        assert asked == []
        sk.empty(3)
    assert asked == [(3,)]


def test_process_workers_may_cache():
    source = sk.smap(lambda i: np.full(1000, i), range(20))
    with sk.prefetch(add_cache(source, 20), 2, "process") as ahead:
        for _ in range(2):
            assert [item[0] for item in ahead] == list(range(20))


# -------------------------------------------------------------------- on disk

KINDS = {
    "array": np.arange(6.0).reshape(2, 3),
    "large array": np.arange(40_000),
    "fortran array": np.asfortranarray(np.arange(40_000).reshape(200, 200)),
    "array without dimensions": np.array(3),
    "empty array": np.empty((0, 5), np.int8),
    "records": np.zeros(3, [("a", "i4"), ("b", "f8", (2,))]),
    "objects": np.array([None, {1: 2}]),
    "scalar": np.float32(1.5),
    "tuple": (np.arange(40_000), "label", 3),
    "dict": {"x": np.arange(5), "y": [np.ones(9000), None]},
    "text": "päck" * 100,
    "long text": "x" * 200_000,
    "None": None,
}


def loads_nothing(x):
    raise AssertionError(f"item {x} was computed")


@pytest.mark.parametrize("name", KINDS)
def test_a_store_gives_every_kind_of_item_back(tmp_path, name):
    item = KINDS[name]
    assert add_cache([item], store=tmp_path)[0] is item
    again = add_cache(sk.smap(loads_nothing, [0]), store=tmp_path)[0]
    assert type(again) is type(item)
    assert pickle.dumps(again) == pickle.dumps(item) or np.array_equal(again, item)
    assert str(again) == str(item)


def test_arrays_from_a_store_are_private_and_writable(tmp_path):
    item = np.arange(40_000)
    store = {"store": tmp_path}
    list(add_cache([item, (item, 1)], **store))
    for _ in range(2):
        one, (two, _) = add_cache(sk.smap(loads_nothing, range(2)), **store)
        for array in (one, two):
            assert array.flags.writeable
            assert array[0] == 0
            array[0] = 7


def test_a_store_is_used_by_later_runs_and_other_processes(tmp_path):
    script = f"""
import sys
import seqkit as sk
from seqkit.stores.add_cache.add_cache import add_cache
print([str(x) for x in add_cache(sk.smap(lambda x: x * 10, range(3)), store={str(tmp_path)!r})])
"""
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.stdout.strip() == "['0', '10', '20']"
    assert list(add_cache(sk.smap(loads_nothing, range(3)), store=tmp_path)) == [0, 10, 20]


def test_workers_share_a_store(tmp_path):
    cached = add_cache(sk.smap(lambda i: np.full(20_000, i), range(8)), store=tmp_path)
    for _ in range(2):
        with sk.prefetch(cached, 2, "process") as ahead:
            assert [item[-1] for item in ahead] == list(range(8))
    known = add_cache(sk.smap(loads_nothing, range(8)), store=tmp_path)
    assert [item[0] for item in known] == list(range(8))


def test_threads_share_a_store(tmp_path):
    cached = add_cache(sk.smap(str, range(20)), store=tmp_path)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: list(cached), range(8)):
            assert found == [str(i) for i in range(20)]


def test_several_views_write_one_store_at_once(tmp_path):
    together = threading.Barrier(4)

    def fill(_):
        cached = add_cache(sk.smap(str, range(20)), store=tmp_path)
        together.wait(30)
        return list(cached)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fill, range(4))) == [[str(i) for i in range(20)]] * 4


def test_the_memory_before_a_store_is_bounded_like_any(tmp_path):
    cached = add_cache(sk.smap(lambda i: [i], range(3)), cache_size=2, store=tmp_path)
    first = list(cached)
    assert cached[2] is first[2]
    assert cached[0] == first[0]
    assert cached[0] is not first[0]


def test_an_item_that_cannot_be_stored_says_so(tmp_path):
    cached = add_cache(sk.smap(lambda x: lambda: x, range(2)), store=tmp_path)
    with pytest.raises(EvaluationError, match=r"add_cache\[1\] failed writing the store"):
        cached[1]
    with pytest.raises(EvaluationError, match="writing the store"):
        cached[1]  # and is not kept in memory either
    with pytest.raises(EvaluationError, match="writing the store"):
        cached._getmany([0, 1])
    with pytest.raises(EvaluationError, match="writing the store"):
        cached[0]
    assert list(tmp_path.rglob("*.item")) == []
    assert list(tmp_path.rglob(".*")) == []


def test_a_file_that_cannot_be_read_is_written_anew(tmp_path):
    list(add_cache(["a", np.arange(9), (np.arange(9000),)], store=tmp_path))
    files = sorted(tmp_path.rglob("*.item"))
    for damage in (lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\0" * len(data)):
        for file in files:
            file.write_bytes(damage(file.read_bytes()))
        again = list(add_cache(sk.smap(lambda i: i, ["x", "y", "z"]), store=tmp_path))
        assert again == ["x", "y", "z"]
        assert list(add_cache(sk.smap(loads_nothing, range(3)), store=tmp_path)) == again


@pytest.mark.parametrize("item", ["päck" * 100, np.arange(1, 2000), np.arange(1, 40_000), np.zeros(40_000)])
@pytest.mark.parametrize("lost", [1, 8, 4096, 100_000])
def test_a_file_that_lost_its_end_is_written_anew(tmp_path, item, lost):
    list(add_cache([item], store=tmp_path))
    (file,) = tmp_path.rglob("*.item")
    os.truncate(file, max(0, file.stat().st_size - lost))
    assert add_cache(["anew"], store=tmp_path)[0] == "anew"
    assert add_cache(sk.smap(loads_nothing, [0]), store=tmp_path)[0] == "anew"


def test_a_store_that_another_process_makes_at_the_same_time_is_used(tmp_path, monkeypatch):
    """Two ranks begin together: one finds no header, and then the files of the other."""

    def made_in_between(path, mode):
        with monkeypatch.context() as patched:
            patched.delattr(directory, "open")
            if not os.path.exists(path):
                list(add_cache("abc", store=tmp_path))
                raise FileNotFoundError(errno.ENOENT, "not there yet", path)
        return open(path, mode)

    monkeypatch.setattr(directory, "open", made_in_between, raising=False)
    assert list(add_cache(sk.smap(loads_nothing, "abc"), store=tmp_path)) == ["a", "b", "c"]


def test_headers_are_on_the_disk_before_items(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    list(add_cache("abc", store=tmp_path))
    assert synced == [(tmp_path / "seqkit-store.json").stat().st_size, tmp_path.stat().st_size]


def test_clear_empties_the_store(tmp_path):
    cached = add_cache("ab", store=tmp_path)
    list(cached)
    cached.clear()
    assert list(tmp_path.rglob("*.item")) == []
    assert list(add_cache("xy", store=tmp_path)) == ["x", "y"]


def test_a_store_that_was_removed_is_made_again(tmp_path):
    path = tmp_path / "store"
    cached = add_cache("ab", 0, store=path)
    list(cached)
    for file in sorted(path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    path.rmdir()
    assert list(cached) == ["a", "b"]
    assert list(add_cache("xy", store=path)) == ["a", "b"]


def test_building_a_view_makes_no_directory(tmp_path):
    cached = add_cache("ab", store=tmp_path / "store")
    pickle.loads(pickle.dumps(cached))
    assert list(tmp_path.iterdir()) == []


def test_a_pickled_view_finds_the_same_store_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    list(add_cache("ab", store="store"))
    cached = pickle.loads(pickle.dumps(add_cache(sk.smap(loads_nothing, "ab"), store="store")))
    monkeypatch.chdir("/")
    assert list(cached) == ["a", "b"]


def test_epochs_have_parts_of_the_store_of_their_own(tmp_path):
    cached = add_cache(sk.shuffle(range(30), seed=0), store=tmp_path)
    plain = sk.shuffle(range(30), seed=0)
    for _ in range(2):
        for epoch in (0, 1, 2):
            assert list(cached.at_epoch(epoch)) == list(plain.at_epoch(epoch))
    assert len(list((tmp_path / "order-1-draws-1").rglob("*.item"))) == 30


def test_assignment_with_a_store_is_refused(tmp_path):
    data = [1, 2]
    cached = add_cache(data, store=tmp_path)
    with pytest.raises(TypeError, match="add_cache does not support assignment with a store"):
        cached[0] = 5
    assert data == [1, 2]


def test_directories_that_add_cache_did_not_make_are_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(ValueError, match="not made by add_cache"):
        add_cache("ab", store=tmp_path)
    with pytest.raises(ValueError, match="was not made by add_cache"):
        add_cache("ab", store=tmp_path / "thesis.txt")


def test_stores_of_other_sequences_and_versions_are_refused(tmp_path):
    list(add_cache("ab", store=tmp_path))
    for view, message in (
        (sk.view("abc"), "length is 2 there and 3 here"),
        (sk.view("ba")[::-1], "order is '"),
    ):
        with pytest.raises(ValueError, match=f"add_cache: store .* has another plan: .*{message}"):
            add_cache(view, store=tmp_path)
    header = tmp_path / "seqkit-store.json"
    header.write_text(json.dumps({**json.loads(header.read_text()), "version": 99}))
    with pytest.raises(ValueError, match="version is 99 there and 1 here"):
        add_cache("ab", store=tmp_path)
    for text in ("", "{", '{"format": "another"}'):
        header.write_text(text)
        with pytest.raises(ValueError, match=r"was not made by add_cache|version is None there"):
            add_cache("ab", store=tmp_path)


def test_a_store_that_another_view_made_in_the_meantime_is_refused(tmp_path):
    letters, numbers, more = (add_cache(s, store=tmp_path) for s in ("ab", [1, 2, 3], [1, 2, 3]))
    assert list(letters) == ["a", "b"]
    for i, doing in ((0, "reading"), (2, "writing")):
        with pytest.raises(EvaluationError, match=f"{doing} the store: .* length is 2 there and 3 here"):
            numbers[i]
    with pytest.raises(EvaluationError, match="length is 2 there and 3 here"):
        more[2]
    assert len(list(tmp_path.rglob("*.item"))) == 2


def test_a_sequence_without_a_length_may_have_a_store(tmp_path):
    for _ in range(2):
        assert list(add_cache(UnsizedSource("abc"), store=tmp_path)) == ["a", "b", "c"]


@pytest.mark.parametrize("seeds", [(None, None), (1, 2)])
def test_a_store_of_another_order_is_refused(tmp_path, seeds):
    first, second = (sk.smap(abs, sk.shuffle(range(40), seed)) for seed in seeds)
    items = list(sk.add_cache(first, store=tmp_path)[:20])
    with pytest.raises(ValueError, match=r"order is '.* Pass the same arguments and seeds"):
        sk.add_cache(second, store=tmp_path)
    assert list(sk.add_cache(first.at_epoch(0), store=tmp_path)[:20]) == items


def draw(x, rng):
    return x, rng.random()


LABELS = np.arange(24) % 5


class Told:
    """A data set that follows the epoch."""

    epoch = 0

    def __len__(self):
        return 24

    def __getitem__(self, i):
        return i, self.epoch

    def set_epoch(self, epoch):
        self.epoch = epoch


# Views of 24 items each, which differ in one argument.
ORDERS = {
    "share": lambda: [sk.shard(range(48), rank, 2) for rank in (0, 1)],
    "share in turns": lambda: [sk.shard(range(48), rank, 2, False) for rank in (0, 1)],
    "kind of share": lambda: [sk.shard(range(48), 0, 2, contiguous) for contiguous in (True, False)],
    "padded share": lambda: [sk.shard(range(47), rank, 2, False, even="pad") for rank in (0, 1)],
    "share of a shuffle": lambda: [sk.shard(sk.shuffle(range(48), 1), rank, 2) for rank in (0, 1)],
    "map of a share": lambda: [sk.smap(abs, sk.shard(range(48), rank, 2)) for rank in (0, 1)],
    "share below": lambda: [sk.batch(sk.shard(range(96), rank, 2), 2) for rank in (0, 1)],
    "share in a shuffle": lambda: [sk.shuffle(sk.shard(range(48), rank, 2), 0) for rank in (0, 1)],
    "shuffle": lambda: [sk.view(range(24)), *(sk.shuffle(range(24), seed) for seed in (1, 2))],
    "name": lambda: [sk.shuffle(range(24), 1, name=name) for name in (None, "x", "y")],
    "epoch": lambda: [sk.shuffle(range(24), 1, epoch) for epoch in (0, 1)],
    "seed of draws": lambda: [sk.random_map(draw, range(24), seed) for seed in (1, 2)],
    "groups": lambda: [sk.shuffle_groups(range(24), sizes, 1) for sizes in (4, 6, [4, 20])],
    "groups at once": lambda: [sk.shuffle_groups(range(24), 4, 1, groups_at_once=n) for n in (1, 2)],
    "mix": lambda: [sk.mix([range(48)] * 2, shares, seed=1)[:24] for shares in ([1, 1], [1, 2])],
    "slice": lambda: [sk.view(range(48))[part] for part in (slice(24), slice(24, None), slice(0, None, 2))],
    "reversed": lambda: [sk.view(range(24))[::step] for step in (1, -1)],
    "indices": lambda: [sk.gather(range(48), indices) for indices in (LABELS, LABELS[::-1], LABELS + 1)],
    "mask": lambda: [sk.gather(range(48), np.arange(48) % 2 == k) for k in (0, 1)],
    "view of a list": lambda: [sk.gather(range(48), sk.view([*range(24)][::step])) for step in (1, -1)],
    "view of an array": lambda: [sk.gather(range(48), sk.view(LABELS[::step])) for step in (1, -1)],
    "view of a range": lambda: [sk.gather(range(48), sk.view(range(k, 24 + k))) for k in (0, 9)],
    "arange": lambda: [sk.gather(range(48), sk.arange(k, 24 + k)) for k in (0, 9)],
    "shuffled indices": lambda: [sk.gather(range(24), sk.shuffle(range(24), seed)) for seed in (1, 2)],
    "sampler": lambda: [sk.gather(range(24), sk.samplers.RandomSampler(24, seed=seed)) for seed in (1, 2)],
    "split": lambda: [*sk.random_split(range(48), [0.5, 0.5], 1), sk.random_split(range(48), [24, 24], 2)[0]],
    "batch": lambda: [sk.batch(range(n), k) for n, k in ((96, 4), (72, 3))],
    "window": lambda: [sk.window(range(50), 3, stride=stride)[:24] for stride in (1, 2)],
    "joined": lambda: [join([range(12), range(12)]) for join in (sk.interleave, sk.concatenate)],
    "selector": lambda: [sk.case(sk.view([0, 1] * 12)[::step], range(24), range(24)) for step in (1, -1)],
    "columns": lambda: [sk.collate({name: range(24) for name in names}) for names in ("ab", "ba")],
    "side by side": lambda: [sk.collate([range(24), sk.view(range(24))[::step]]) for step in (1, -1)],
    "epochs": lambda: [sk.epochs(sk.shuffle(range(12), 0), 2).at_epoch(epoch) for epoch in (0, 1)],
    "told epoch": lambda: [sk.view(Told()).at_epoch(epoch) for epoch in (0, 1)],
}


@pytest.mark.parametrize("kind", ORDERS)
def test_a_store_belongs_to_one_order(tmp_path, kind):
    for number, view in enumerate(ORDERS[kind]()):
        kept = sk.add_cache(view, 24, store=tmp_path)
        items = list(map(repr, kept))
        assert len(items) == len(view) == 24
        assert list(map(repr, sk.add_cache(ORDERS[kind]()[number], store=tmp_path))) == items
        for other in [*ORDERS[kind]()[:number], *ORDERS[kind]()[number + 1 :]]:
            with pytest.raises(ValueError, match="another plan: order is"):
                sk.add_cache(other, store=tmp_path)
        kept.clear()
        (tmp_path / "seqkit-store.json").unlink()
        for folder in tmp_path.iterdir():
            shutil.rmtree(folder)


def test_the_order_of_all_shares_is_one(tmp_path):
    for n, count, even in ((1001, 4, "pad"), (1001, 4, "drop"), (1000, 8, None), (3, 8, "pad")):
        order = sk.smap(abs, sk.shuffle(range(n), 3))
        shares = [sk.batch(sk.shard(order, rank, count, False, even=even), 2) for rank in range(count)]
        assert len({order_digest(share) for share in shares}) == 1
        assert len({order_digest(share.at_epoch(2), items=True) for share in shares}) == count


def test_functions_caches_and_nodes_change_no_order():
    def plain(view):
        return sk.batch(sk.smap(abs, view), 2)

    view = sk.shuffle(range(9), 1)
    for other in (
        plain(view),
        plain(sk.add_cache(view, 3)),
        plain(sk.prefetch(view, 1, "thread")),
        plain(sk.smap(lambda x: x, view)),
        plain(sk.random_map(draw, view)),
        plain(view.at_epoch(4)),
    ):
        assert order_digest(other) == order_digest(plain(view))


def test_indices_of_any_type_are_one_order():
    found = {order_digest(sk.gather(range(48), LABELS.astype(kind))) for kind in ("u1", "i4", "i8", ">i8")}
    assert found == {order_digest(sk.gather(range(48), LABELS.tolist()))}


@pytest.mark.parametrize("store", [True, False])
def test_the_view_itself_and_its_epoch_0_share_what_they_computed(tmp_path, store):
    calls = []

    def f(x):
        calls.append(x)
        return x

    for first in (0, 3):
        calls.clear()
        order = sk.smap(f, sk.shuffle(range(99), 0, first))
        kept = sk.add_cache(order, 99, store=tmp_path / str(first) if store else None)
        assert list(kept) == list(kept.at_epoch(first)) == list(sk.batch(kept, 99).at_epoch(first)[0])
        assert len(calls) == 99
        for epoch in (3 - first, 1, first):
            assert list(kept.at_epoch(epoch)) == list(order.at_epoch(epoch))
