"""A deferred value is computed once, however many threads ask for it."""

import copy
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seqkit.core.once import Deferred


def test_threads_that_ask_together_wait_for_one_computation():
    value, calls, asking = Deferred(), [], []

    def compute():
        calls.append(None)
        while len(asking) < 4:
            time.sleep(0.001)
        time.sleep(0.02)  # in which the other threads get to the lock
        return object()

    def ask(number):
        asking.append(number)
        return value.get(compute)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(ask, range(4)))) == 1
    assert len(calls) == 1


def test_an_error_is_raised_and_the_next_call_tries_again():
    value = Deferred()
    with pytest.raises(ZeroDivisionError):
        value.get(lambda: 1 // 0)
    assert not value.known
    assert value.get(lambda: 5) == 5


def test_a_computation_that_needs_its_own_value_does_not_hang():
    value = Deferred()

    def compute():
        return value.get(compute)

    with pytest.raises(RecursionError):
        value.get(compute)


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
def test_copies_know_what_the_original_knew(duplicate):
    value = Deferred()
    assert not duplicate(value).known
    value.get(lambda: [1])
    assert duplicate(value).get(lambda: [2]) == [1]


def test_a_process_that_forked_while_another_thread_computed_computes_itself():
    value, holding, leave = Deferred(), threading.Event(), threading.Event()

    def compute():
        holding.set()
        assert leave.wait(20)
        return "the thread's"

    thread = threading.Thread(target=lambda: value.get(compute))
    thread.start()
    assert holding.wait(20)
    child = copy.copy(value)
    child._lock, child._pid = value._lock, -1  # what a forked child has: the lock, held for ever
    assert child.get(lambda: "the child's") == "the child's"
    leave.set()
    thread.join(20)
    assert value.get(compute) == "the thread's"


def test_the_first_value_that_is_offered_counts():
    value = Deferred()

    def compute():
        value.offer(1)
        return 2

    assert value.get(compute) == 1
    value.offer(3)
    assert value.get(compute) == 1
