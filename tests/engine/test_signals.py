"""A signal handler may run wherever Python enters a function: it runs at each such place in turn."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from types import FrameType, TracebackType
from typing import Any

import pytest

import seqkit as sk
from seqkit.engine import scheduler
from seqkit.engine.protocol import PrefetchError
from seqkit.engine.signals import CtrlCHeld

from .kinds import KINDS, Kind
from .traces import children, descriptors, until

ENGINE = os.path.dirname(scheduler.__file__)
THREAD, FORK, _, SPAWN = KINDS
ITEMS = list(range(14))
REFUSALS = {
    str(scheduler.ReadsItself()),
    "prefetch: a signal handler cannot start workers while workers are started",
}

# A handler runs at some places, for each of them starts workers. `make stress` takes more of them.
in_each_way = pytest.mark.parametrize(
    ("kind", "step"),
    [
        (THREAD, 3),
        (FORK, 401),
        pytest.param(THREAD, 1, marks=pytest.mark.stress),
        pytest.param(FORK, 17, marks=pytest.mark.stress),
    ],
    ids=str,
)


class Strike:
    """Calls something where this thread enters its `place`-th function of the engine, within a block."""

    def __init__(self, place: int, handler: Callable[[], object]) -> None:
        self._left = place
        self._handler = handler
        self._pid = os.getpid()
        self.came = False

    def __enter__(self) -> Strike:
        sys.settrace(self._entered)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(None)

    def _entered(self, frame: FrameType, event: str, argument: Any) -> None:
        if os.getpid() != self._pid:
            sys.settrace(None)
        elif os.path.dirname(frame.f_code.co_filename) == ENGINE:
            self._left -= 1
            if not self._left:
                sys.settrace(None)
                self.came = True
                self._handler()


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def a_node(kind: Kind, max_buffered: int = 6) -> sk.Prefetch[int]:
    return kind.ahead(sk.smap(int, ITEMS), 2, chunk_size=max_buffered // 2, max_buffered=max_buffered)


def drawn_until(caught: type[BaseException], items: Iterator[int], strike: Strike) -> list[int]:
    """Draw items while something strikes; return those that came before it was told."""
    got: list[int] = []
    with suppress(caught), strike:
        for item in items:
            got.append(item)
    return got


@pytest.fixture(autouse=True)
def dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python drops an exception in a callback. Search once for garbage that other tests have left."""
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: None)
    gc.collect()
    gc.freeze()


@in_each_way
def test_a_handler_may_close_a_node_that_is_read(kind: Kind, step: int) -> None:
    for place in count(1, step):
        with a_node(kind) as node:
            got, told = list[int](), ""
            with Strike(place, node.close) as strike:
                try:
                    for item in node:
                        got.append(item)
                except RuntimeError as error:
                    told = str(error)
            assert got == ITEMS[: len(got)], place
            assert "the node is closed" in told or got == ITEMS, place
            if not strike.came:
                assert not told
                assert place > 50
                return
            with pytest.raises(RuntimeError, match="the node is closed"):
                list(node)


@in_each_way
def test_a_handler_may_restart_a_node_that_is_read(kind: Kind, step: int) -> None:
    for place in count(1, step):
        with a_node(kind) as node:
            strike = Strike(place, node.restart)
            got = drawn_until(RuntimeError, iter(node), strike)
            assert got == ITEMS[: len(got)], place
            assert list(node) == ITEMS, place
            if not strike.came:
                assert got == ITEMS
                assert place > 50
                return


@in_each_way
@pytest.mark.parametrize(
    ("by_index", "max_buffered"),
    [(False, 2), *(pytest.param(by_index, 6, marks=pytest.mark.stress) for by_index in (False, True))],
)
def test_a_handler_that_reads_does_not_affect_the_interrupted_consumer(
    kind: Kind, step: int, by_index: bool, max_buffered: int
) -> None:
    for place in count(1, step):
        with a_node(kind, max_buffered) as node:
            told = list[str]()

            def read(node: sk.Prefetch[int] = node, told: list[str] = told) -> None:
                node.statistics()
                try:
                    assert [node[i] for i in (3, 4, 9)] == [3, 4, 9]
                    assert list(node[5:]) == ITEMS[5:]
                except RuntimeError as error:
                    told.append(str(error))

            with Strike(place, read) as strike:
                got = [node[i] for i in range(len(node))] if by_index else list(node)
            assert got == ITEMS, place
            assert set(told) <= REFUSALS
            if not strike.came:
                assert place > 50
                return


@pytest.mark.parametrize("what", ["start", "close"])
def test_ctrl_c_while_a_node_starts_or_ends_leaves_nothing_behind(what: str) -> None:
    before = children(), set(descriptors().items())
    for place in count(1, 1 if what == "close" else 5):
        node = a_node(FORK)
        if what == "close":
            node.start()
        with suppress(KeyboardInterrupt), Strike(place, interrupt) as strike:
            getattr(node, what)()
        node.close()
        del node
        gc.collect()
        assert until(lambda: not children() - before[0]), place
        assert not set(descriptors().items()) - before[1], place
        if not strike.came:
            assert place > 10
            return


@pytest.mark.parametrize(("kind", "what"), [(SPAWN, "start"), (FORK, "close")], ids=str)
def test_ctrl_c_before_a_descriptor_is_closed_does_not_lose_it(
    kind: Kind, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_node(kind).start().close()  # what is done once in a process is done
    close, before, pid = os.close, set(descriptors().items()), os.getpid()
    left = 0

    def strike_and_close(fd: int) -> None:
        nonlocal left
        if os.getpid() == pid:
            left -= 1
            if not left:
                interrupt()
        close(fd)

    monkeypatch.setattr(os, "close", strike_and_close)
    for place in count(1):
        node = a_node(kind)
        if what == "close":
            node.start()
        left = place
        with suppress(KeyboardInterrupt):
            getattr(node, what)()
        came, left = left <= 0, 0
        node.close()
        assert not set(descriptors().items()) - before, place
        if not came:
            assert place > 2
            return


def test_only_the_main_thread_holds_ctrl_c() -> None:
    def handler_of(held: CtrlCHeld) -> Any:
        with held:
            return signal.getsignal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    assert handler_of(CtrlCHeld()) is not before
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(handler_of, CtrlCHeld()).result() is before
    steps: list[str] = []
    with suppress(KeyboardInterrupt):
        with CtrlCHeld():
            for _ in range(2):
                interrupt()
            steps.append("the end of the block")
        steps.append("after the block")
    assert steps == ["the end of the block"]
    assert signal.getsignal(signal.SIGINT) is before


class TimeIsUp(Exception):
    """Raised by a signal handler."""


class EnginesOwn(RuntimeError):
    """An error of a handler whose class is also one of the engine's."""


def refusal_of(items: Iterator[int], got: list[int]) -> PrefetchError | None:
    """Draw the other items, and return what refuses that."""
    try:
        got.extend(items)
    except PrefetchError as error:
        return error
    return None


@pytest.mark.parametrize("kind_of_error", [KeyboardInterrupt, TimeIsUp, EnginesOwn, TimeoutError])
@in_each_way
def test_an_exception_of_a_handler_ends_the_iterator_and_a_new_one_loses_nothing(
    kind: Kind, step: int, kind_of_error: type[BaseException]
) -> None:
    def handler() -> None:
        raise kind_of_error("of the handler")

    strikes = interrupt if kind_of_error is KeyboardInterrupt else handler
    for place in count(1, step):
        with a_node(kind) as node:
            items, strike = iter(node), Strike(place, strikes)
            got = drawn_until(kind_of_error, items, strike)
            if len(got) < len(ITEMS):
                refusals = [refusal_of(items, got) for _ in range(2)]
                # Each time, or never if it struck before anything began.
                assert refusals == [None, None] if got == ITEMS else None not in refusals, place
                assert all("begin a new one" in str(refusal) for refusal in refusals if refusal), place
            assert got == ITEMS[: len(got)], place
            assert list(node) == ITEMS, place
            if not strike.came:
                assert got == ITEMS
                assert place > 50
                return
