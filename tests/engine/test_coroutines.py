"""`prefetch` with the method "async": one loop, and tasks that take one item after another."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqkit as sk
from seqkit.engine import coroutines
from seqkit.engine.protocol import PrefetchError

from .traces import drawn


async def double(x: Any) -> Any:
    await asyncio.sleep(0)
    return x * 2


ERRORS = (ValueError, StopIteration, asyncio.CancelledError, SystemExit)


async def picky(x: int) -> int:
    """Fail at every third item, in one of several ways."""
    await asyncio.sleep(0)
    if x % 3 == 0:
        raise ERRORS[x // 3 % 4](x)
    return x * 2


def outcomes(items: Iterator[Any]) -> list[Any]:
    """Return items, and the errors of those that fail as texts."""
    return [str(item).splitlines()[0] if isinstance(item, Exception) else item for item in drawn(items)]


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("seqkit-")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert threads() == []


# -------------------------------------------------------------------- items


@given(n=st.integers(0, 40), nworkers=st.integers(1, 9), ahead=st.none() | st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_items_come_in_order_and_errors_are_those_of_their_items(
    n: int, nworkers: int, ahead: int | None
) -> None:
    with sk.prefetch(sk.smap(picky, range(n)), nworkers, "async", max_buffered=ahead) as node:
        found = outcomes(iter(node))
    assert len(found) == n
    for x, item in enumerate(found):
        assert item == 2 * x if x % 3 else ERRORS[x // 3 % 4].__name__ in item


def test_indexing_slices_and_epochs_give_the_items_of_the_plan() -> None:
    order = sk.shuffle(range(20), seed=3)
    with sk.prefetch(sk.smap(double, order), 4, "async") as node:
        assert [node[i] for i in (3, 4, 5, -1)] == [2 * order[i] for i in (3, 4, 5, -1)]
        assert list(node[::-3]) == [2 * x for x in order[::-3]]
        assert list(node.at_epoch(2)) == [2 * x for x in order.at_epoch(2)]
        assert sorted(sk.prefetch(node, 2)) == list(range(0, 40, 2))


def test_several_sequences_and_streams_of_unknown_length() -> None:
    async def total(x: int, y: int) -> int:
        return x + y

    with sk.prefetch(sk.smap(total, range(9), range(9)), 3, "async") as node:
        assert list(node) == list(range(0, 18, 2))
    with sk.prefetch(sk.smap(double, sk.uniter(lambda: iter(range(7)))), 3, "async") as node:
        assert list(node) == list(range(0, 14, 2))


def test_maps_below_are_read_outside_of_the_loop() -> None:
    def where(_: int) -> str:
        return threading.current_thread().name

    async def name(read_in: str) -> tuple[str, str]:
        return read_in, threading.current_thread().name

    with sk.prefetch(sk.smap(name, sk.smap(where, range(3))), 2, "async") as node:
        assert list(node) == [("seqkit-read", "seqkit-loop")] * 3


@pytest.mark.parametrize("method", ["thread", "process"])
def test_nodes_above_and_below(method: Any) -> None:
    below = sk.prefetch(sk.smap(np.negative, range(30)), 2)
    fetched = sk.prefetch(sk.smap(double, below), 5, "async")
    with below, fetched, sk.prefetch(sk.batch(fetched, 4), 2, method) as node:
        assert list(node) == [[-2 * x for x in range(30)][i : i + 4] for i in range(0, 30, 4)]


def test_a_node_works_while_the_loop_of_a_notebook_runs() -> None:
    async def cell() -> list[int]:
        with sk.prefetch(sk.smap(double, range(5)), 2, "async") as node:
            return list(node)

    assert asyncio.run(cell()) == [0, 2, 4, 6, 8]


# -------------------------------------------------------------------- how many run


def test_at_most_as_many_coroutines_run_as_there_are_workers() -> None:
    running, most = 0, 0

    async def counted(x: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1
        return x

    with sk.prefetch(sk.smap(counted, range(100)), 7, "async") as node:
        assert list(node) == list(range(100))
    assert most == 7


def test_a_slow_item_does_not_stop_the_others_within_the_window() -> None:
    async def waits(x: int) -> int:
        if x == 0:
            await over.wait()
        if x == 20:
            over.set()
        return x

    over = asyncio.Event()
    with sk.prefetch(sk.smap(waits, range(30)), 2, "async", max_buffered=25) as node:
        assert list(node) == list(range(30))
    with sk.prefetch(sk.smap(waits, range(30)), 2, "async", in_order=False) as node:
        assert sorted(node) == list(range(30))


def test_items_that_nobody_wants_any_more_are_not_begun() -> None:
    begun = []

    async def noted(x: int) -> int:
        begun.append(x)
        await asyncio.sleep(0)
        return x

    with sk.prefetch(sk.smap(noted, range(10_000)), 2, "async", max_buffered=4) as node:
        assert next(iter(node)) == 0
        assert node[9000] == 9000
    assert len(begun) < 100


# -------------------------------------------------------------------- time-outs and the end


async def stuck(x: int) -> int:
    if x == 2:
        await asyncio.Event().wait()
    return x


def test_an_item_that_takes_too_long_is_cancelled_and_shows_where_it_was() -> None:
    with sk.prefetch(sk.smap(stuck, range(6)), 2, "async", timeout=0.1) as node:
        found = iter(node)
        assert [next(found), next(found)] == [0, 1]
        with pytest.raises(sk.ItemTimeout, match=r"prefetch\[2\] took longer than 0.1 s.*cancelled") as error:
            next(found)
        assert "in stuck" in error.value.__notes__[0]
        assert list(found) == [3, 4, 5]
        assert node.statistics().restarts == 1


def test_a_blocked_loop_ends_the_node_with_the_stack_of_the_coroutine() -> None:
    over = threading.Event()

    async def blocks(x: int) -> int:
        if x == 2:
            over.wait()
        return x

    with sk.prefetch(sk.smap(blocks, range(6)), 2, "async", timeout=0.1) as node:
        found = iter(node)
        with pytest.raises(PrefetchError, match=r"blocks the loop for more than 0.1 s") as error:
            list(found)
        assert "in blocks" in error.value.__cause__.__notes__[0]  # type: ignore[union-attr]
        over.set()


def test_closing_cancels_what_runs() -> None:
    ended = []

    async def long(x: int) -> int:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(x)
        return x

    begun = threading.Event()
    node = sk.prefetch(sk.smap(long, range(6)), 2, "async")
    reader = node.open(range(6))
    reader.prepare()
    assert begun.wait(10)
    node.close()
    assert sorted(ended) in ([0], [0, 1])


def test_closing_names_a_coroutine_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coroutines, "CANCEL_S", 0.1)
    over, begun = threading.Event(), threading.Event()

    async def stubborn(x: int) -> int:
        begun.set()
        while not over.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass
        return x

    node = sk.prefetch(sk.smap(stubborn, range(2)), 1, "async")
    reader = node.open(range(2))
    reader.prepare()
    assert begun.wait(10)
    with pytest.warns(RuntimeWarning, match=r"1 coroutines go on(.|\n)*in stubborn"):
        node.close()
    over.set()
    for thread in threading.enumerate():
        if thread.name.startswith("seqkit-"):
            thread.join(10)


def test_a_node_that_its_own_function_refers_to_is_collected() -> None:
    class Owner:
        def __init__(self) -> None:
            self.node = sk.prefetch(sk.smap(self.fetch, range(5)), 2, "async")

        async def fetch(self, x: int) -> int:
            return x

    fetcher = Owner()
    assert list(fetcher.node) == list(range(5))
    gone = weakref.ref(fetcher)
    del fetcher
    gc.collect()
    assert gone() is None


# -------------------------------------------------------------------- sessions


def test_a_session_is_entered_once_and_left_with_the_loop() -> None:
    log = []

    @asynccontextmanager
    async def session() -> Any:
        log.append("in")
        await asyncio.sleep(0)
        yield 10
        log.append("out")

    async def fetch(handle: int, x: int) -> int:
        await asyncio.sleep(0)
        return handle + x

    with sk.prefetch(sk.per_process(session, fetch, range(50)), 8, "async") as node:
        assert list(node) == list(range(10, 60))
        assert log == ["in"]
        list(node)
    assert log == ["in", "out"]


def test_a_session_that_cannot_be_opened_is_tried_again() -> None:
    tries = []

    @asynccontextmanager
    async def session() -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no route")
        yield "session"

    async def fetch(handle: str, x: int) -> str:
        return f"{handle} {x}"

    with sk.prefetch(sk.per_process(session, fetch, range(3)), 1, "async") as node:
        found = outcomes(iter(node))
    assert "no route" in found[0]
    assert found[1:] == ["session 1", "session 2"]


def test_an_object_of_another_loop_fails_with_a_remedy() -> None:
    async def waits() -> asyncio.Future[int]:
        return asyncio.get_running_loop().create_future()

    foreign = asyncio.run(waits())

    async def fetch(_: int) -> Any:
        return await foreign

    node = sk.prefetch(sk.smap(fetch, range(1)), 1, "async")
    with node, pytest.raises(sk.EvaluationError, match="loop") as error:
        list(node)
    assert "per_process" in error.value.__cause__.__notes__[0]  # type: ignore[union-attr]


# -------------------------------------------------------------------- refusals


class Fetcher:
    async def __call__(self, x: int) -> int:
        return x


def decorated(f: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(f)
    def call(*arguments: Any) -> Any:
        return f(*arguments)

    return call


ASYNC = {
    "function": double,
    "lambda": lambda x: double(x),
    "object": Fetcher(),
    "decorated": decorated(double),
    "partial": partial(double),
}


@pytest.mark.parametrize("f", ASYNC.values(), ids=ASYNC)
def test_whatever_returns_an_awaitable_is_awaited_and_refused_elsewhere(f: Any) -> None:
    view = sk.smap(f, range(3))
    with sk.prefetch(view, 2, "async") as node:
        assert len(list(node)) == 3
    for method in ("thread", "process"):
        other = sk.prefetch(view, 2, method)  # type: ignore[arg-type]
        with other, pytest.raises(sk.EvaluationError, match=r"coroutine, which nothing awaits.*'async'"):
            other[0]
    with pytest.raises(TypeError, match=r"coroutine, which nothing awaits.*'async'"):
        sk.collation.default_collate([view[0]])


def test_a_function_that_returns_no_awaitable_is_refused() -> None:
    node = sk.prefetch(sk.smap(str, range(3)), 2, "async")
    with node, pytest.raises(sk.EvaluationError, match="needs a function that returns an awaitable, got str"):
        node[0]


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        (range(3), {}, "smap must be directly below it, got source"),
        (sk.batch(sk.smap(double, range(3)), 2), {}, "smap must be directly below it, got batch"),
        (sk.smap(double, range(3)), {"nworkers": 0}, "needs workers, got nworkers=0"),
        (sk.smap(double, range(3)), {"start_hook": print}, "start_hook is for"),
        (sk.smap(double, range(3)), {"chunk_size": 4}, "chunk_size is for"),
        (sk.smap(double, range(3)), {"context": "fork"}, "context is for"),
        (sk.smap(double, range(3)), {"shm_size": 1 << 20}, "shm_size is for"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(source: Any, arguments: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        sk.prefetch(source, **{"nworkers": 2, "method": "async", **arguments})


# -------------------------------------------------------------------- observers


def test_observers_await_what_they_read() -> None:
    with sk.prefetch(sk.smap(double, range(20)), 4, "async") as node:
        assert sk.trace(node, 3).step.parts[0].value.line() == "6"  # type: ignore[union-attr]
        found = sk.profile(node)
        assert [stage.items for stage in found.stages if stage.view.startswith("smap")] == [20]
        assert "nothing awaits" in str(sk.verify(node))


def test_profile_names_code_that_blocks_the_loop() -> None:
    async def blocks(x: int) -> int:
        time.sleep(0.2 if x % 5 == 0 else 0)
        await asyncio.sleep(0)
        return x

    with sk.prefetch(sk.smap(blocks, range(20)), 4, "async") as node:
        assert "smap(blocks)` blocked the loop for" in str(sk.profile(node))
