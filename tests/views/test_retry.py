"""`retry`: how often an item is read, which errors count, how long it waits, and the last error."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.views.retry import LONGEST_WAIT_S, Retry

N = 6


class Flaky:
    """Returns each item after it has failed `times` times with `error`."""

    def __init__(self, times: int, error: type[Exception] = ConnectionError) -> None:
        self.times, self.error = times, error
        self.calls: Counter[int] = Counter()

    def __call__(self, x: int, *_: Any) -> int:
        self.calls[x] += 1
        if self.calls[x] <= self.times:
            raise self.error(f"call {self.calls[x]} of item {x}")
        return x


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the seconds of the waits from now on, without waiting."""
    found: list[float] = []
    monkeypatch.setattr(sys.modules[Retry.__module__], "sleep", found.append)
    return found


def read_all(view: sk.View[int], how: str) -> list[int]:
    if how == "indices":
        return [view[i] for i in range(len(view))]
    if how == "batches":
        return [x for batch in sk.batch(view, 4) for x in batch]
    return list(view.__getitems__(range(len(view)))) if how == "at once" else list(view)


@pytest.mark.parametrize("policy", ["wrap", "passthrough"])
@pytest.mark.parametrize("how", ["loop", "indices", "batches", "at once"])
@pytest.mark.parametrize(("attempts", "succeeds"), [(1, False), (2, False), (3, True), (4, True)])
def test_an_item_is_read_as_often_as_it_needs(
    attempts: int, succeeds: bool, how: str, policy: Any, slept: list[float]
) -> None:
    flaky = Flaky(2)
    view = sk.retry(sk.smap(flaky, range(N)), attempts)
    with sk.errstate(policy):
        if succeeds:
            assert read_all(view, how) == list(range(N))
            assert set(flaky.calls.values()) == {3}
        else:
            with pytest.raises(sk.EvaluationError if policy == "wrap" else ConnectionError):
                read_all(view, how)
            assert set(flaky.calls.values()) == {attempts}


def test_a_loop_goes_on_after_an_item_that_failed_for_good() -> None:
    view = sk.retry(sk.smap(Flaky(2), range(3)), 2, wait=0)
    items, found = iter(view), list[Any]()
    for _ in range(3):
        with pytest.raises(sk.EvaluationError) as caught:
            found.append(next(items))
        found.append(caught.value.index)
    assert found == [0, 1, 2]
    assert list(items) == []


@pytest.mark.parametrize(
    ("error", "on", "calls"),
    [
        (ConnectionError, OSError, 2),
        (TimeoutError, (ValueError, OSError), 2),
        (KeyError, OSError, 1),
        (KeyError, LookupError, 2),
        (OSError, ConnectionError, 1),
        (StopIteration, OSError, 1),
    ],
)
def test_other_errors_are_raised_at_once(error: Any, on: Any, calls: int, slept: list[float]) -> None:
    flaky = Flaky(9, error)
    with pytest.raises(sk.EvaluationError) as caught:
        sk.retry(sk.smap(flaky, range(N)), 2, on)[3]
    assert isinstance(caught.value.__cause__, error)
    assert flaky.calls == {3: calls}
    assert len(slept) == calls - 1


def test_the_last_error_is_the_cause_and_lists_the_attempts_before_it(slept: list[float]) -> None:
    view = sk.retry(sk.smap(Flaky(9), range(N)), 3)
    with pytest.raises(sk.EvaluationError, match=r"^smap\[2\] failed: ConnectionError: call 3") as caught:
        view[2]
    assert caught.value.__cause__.__notes__ == [  # type: ignore[union-attr]
        "attempt 1 of 3: ConnectionError: call 1 of item 2",
        "attempt 2 of 3: ConnectionError: call 2 of item 2",
    ]
    assert [step[0]._name for step in caught.value.path] == ["retry", "smap"]


def test_an_error_of_another_kind_lists_the_attempts_before_it(slept: list[float]) -> None:
    def fetch(x: int, errors: Any = iter([OSError("busy"), KeyError("gone")])) -> int:  # noqa: B008
        raise next(errors)

    with pytest.raises(sk.EvaluationError) as caught:
        sk.retry(sk.smap(fetch, range(N)), 5)[0]
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__cause__.__notes__ == ["attempt 1 of 5: OSError: busy"]


def test_the_wait_doubles_up_to_a_minute_and_a_part_is_left_out(slept: list[float]) -> None:
    list(sk.retry(sk.smap(Flaky(99), [1]), 100, wait=0.5))
    longest = np.minimum(0.5 * 2.0 ** np.arange(99), LONGEST_WAIT_S)
    assert (longest / 2 <= slept).all()
    assert (np.array(slept) <= longest).all()
    assert len({*slept[10:]}) > 80


def test_a_function_decides_how_long_it_waits(slept: list[float]) -> None:
    told = []

    def wait(attempt: int, error: Exception) -> float:
        told.append((attempt, str(error)))
        return attempt / 4

    assert list(sk.retry(sk.smap(Flaky(2), [7]), 3, wait=wait)) == [7]
    assert told == [(1, "call 1 of item 7"), (2, "call 2 of item 7")]
    assert slept == [0.25, 0.5]


@pytest.mark.parametrize("wrong", [None, -1, "1"])
def test_an_error_of_the_wait_is_raised(wrong: Any) -> None:
    with pytest.raises(sk.EvaluationError, match=r"retry\[0\] failed in wait: (TypeError|ValueError)"):
        sk.retry(sk.smap(Flaky(1), [7]), 3, wait=lambda attempt, error: wrong)[0]


def test_random_numbers_are_those_of_an_item_that_succeeds_at_once() -> None:
    flaky = Flaky(1)

    def augment(x: int, rng: np.random.Generator) -> float:
        number = rng.random()
        flaky(x)
        return number

    expected = list(sk.random_map(lambda x, rng: rng.random(), range(N), seed=4))
    assert list(sk.retry(sk.random_map(augment, range(N), seed=4), 2, wait=0)) == expected


@pytest.mark.parametrize("method", ["thread", "process"])
def test_items_are_read_again_in_workers_and_above_them(method: str) -> None:
    below = sk.retry(sk.smap(Flaky(1), range(N)), 2, wait=0)
    with sk.prefetch(below, 2, method, chunk_size=1) as ahead:
        assert list(ahead) == list(range(N))
    with sk.prefetch(sk.smap(Flaky(3), range(N)), 1, method, chunk_size=1) as ahead:
        assert list(sk.retry(ahead, 9, wait=0)) == list(range(N))


def test_the_notes_of_attempts_come_back_from_a_process() -> None:
    view = sk.retry(sk.smap(Flaky(9), range(2)), 2, wait=0)
    with sk.prefetch(view, 1, "process") as ahead, pytest.raises(sk.EvaluationError) as caught:
        ahead[0]
    assert caught.value.__cause__.__notes__[0] == (  # type: ignore[union-attr]
        "attempt 1 of 2: ConnectionError: call 1 of item 0"
    )


def test_coroutines_are_awaited_again_while_others_go_on() -> None:
    flaky = Flaky(2)
    waits: list[int] = []

    async def fetch(x: int) -> int:
        return flaky(x)

    def wait(attempt: int, error: Exception) -> float:
        waits.append(attempt)
        return 0

    with sk.prefetch(sk.retry(sk.smap(fetch, range(N)), 3, wait=wait), N, "async") as ahead:
        assert list(ahead) == list(range(N))
    assert sorted(waits) == [1] * N + [2] * N
    view = sk.retry(sk.smap(fetch, range(N, 2 * N)), 2, wait=0)
    with sk.prefetch(view, 1, "async") as ahead, pytest.raises(sk.EvaluationError) as caught:
        ahead[0]
    assert caught.value.__cause__.__notes__ == [  # type: ignore[union-attr]
        f"attempt 1 of 2: ConnectionError: call 1 of item {N}"
    ]


def test_items_of_the_source_of_coroutines_are_read_again() -> None:
    async def fetch(x: int) -> int:
        return x

    numbers = sk.smap(Flaky(1), range(N))
    with sk.prefetch(sk.retry(sk.smap(fetch, numbers), 2, wait=0), 2, "async") as ahead:
        assert list(ahead) == list(range(N))


def test_an_iterable_is_iterated_again_up_to_the_item() -> None:
    flaky = Flaky(1)
    view = sk.retry(sk.uniter(lambda: map(flaky, range(N))), N + 1, wait=0)
    assert list(view) == list(range(N))


def test_columns_are_selected_below() -> None:
    points = sk.retry(sk.collate(x=sk.smap(Flaky(1), range(N)), y=range(N)), 2, wait=0)
    assert list(points.select("y", "x")) == [{"y": i, "x": i} for i in range(N)]  # type: ignore[attr-defined]
    assert list(points.select("y")) == list(range(N))  # type: ignore[attr-defined]


def test_a_time_limit_covers_all_attempts() -> None:
    is_over = threading.Event()

    def wait(attempt: int, error: Exception) -> float:
        is_over.wait()
        return 0

    slow = sk.retry(sk.smap(Flaky(9), range(1)), 99, wait=wait)
    with sk.prefetch(slow, 1, "thread", timeout=0.1) as ahead:
        with pytest.raises(sk.ItemTimeout):
            ahead[0]
        is_over.set()


def test_ctrl_c_during_a_wait_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules[Retry.__module__], "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sk.retry(sk.smap(Flaky(9), range(1)), 99)[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0,), "retry: attempts must be a positive int, got 0"),
        ((2, "OSError"), "retry: on must be an exception class or a tuple of them, got 'OSError'"),
        ((2, ()), r"retry: on must be an exception class or a tuple of them, got \(\)"),
        ((2, KeyboardInterrupt), "retry: on must be an exception class"),
        ((2, OSError, -1), "retry: wait must be a number of at least 0, got -1"),
        ((2, OSError, "1"), "retry: wait must be a number of at least 0, got '1'"),
    ],
)
def test_arguments_are_refused(arguments: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        sk.retry([1], *arguments)


def test_its_text_has_its_arguments() -> None:
    assert repr(sk.view([1]).retry(3)) == "retry(<list of 1>, 3, on=OSError, wait=0.5)"
    text = repr(sk.retry([1], 3, (OSError, KeyError), Flaky(1)))
    assert text == "retry(<list of 1>, 3, on=(OSError, KeyError), wait=Flaky)"
