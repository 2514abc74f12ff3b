"""The error of an item that takes too long shows where its worker was."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk
from seqkit.engine.processes.transport import Processes

from .kinds import KINDS, PROCESSES, Kind


def samples(stuck: Callable[[], Any]) -> Any:
    """Return a data set whose item 1 calls a function, through a view that it reads itself."""

    def load(i: int) -> int:
        if i == 1:
            stuck()
        return i

    class Samples:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, i: int) -> int:
            return sk.smap(load, range(3))[i]

    return Samples()


def stack_of(error: BaseException) -> str:
    (note,) = error.__notes__
    return note


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_time_out_shows_the_stack_of_the_item_without_frames_of_seqkit(kind: Kind) -> None:
    released = threading.Event() if kind.method == "thread" else None

    def wait_for_ever() -> None:
        (released or threading.Event()).wait()

    with kind.ahead(samples(wait_for_ever), timeout=0.5) as ahead:
        with pytest.raises(sk.ItemTimeout) as caught:
            ahead[1]
        if released is not None:
            released.set()
        assert [ahead[i] for i in (0, 2)] == [0, 2]
    first, *lines = stack_of(caught.value).split("\n")
    assert first == "Where it was (most recent call last):"
    files = [line for line in lines if line.startswith("  File ")]
    assert [line.rpartition(" in ")[2] for line in files[:4]] == [
        "__getitem__",
        "load",
        "wait_for_ever",
        "wait",
    ]
    assert f'  File "{__file__}", line ' in files[0]
    assert "    (released or threading.Event()).wait()" in lines
    assert not any(os.path.dirname(sk.__file__) in line for line in files)


def test_a_system_call_that_the_request_interrupts_does_not_let_the_item_end(tmp_path: Path) -> None:
    def pause() -> None:
        ctypes.CDLL(None).pause()  # returns when a signal arrives
        (tmp_path / "went on").touch()

    with sk.prefetch(samples(pause), 1, "process", timeout=0.5, retries=0) as ahead:
        with pytest.raises(sk.ItemTimeout) as caught:
            ahead[1]
        assert stack_of(caught.value).endswith("pause()  # returns when a signal arrives")
    assert not (tmp_path / "went on").exists()


@pytest.mark.parametrize("kind", PROCESSES[:1], ids=str)
def test_the_stack_of_an_earlier_worker_does_not_appear_in_a_later_one(kind: Kind) -> None:
    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        else:
            threading.Event().wait()

    def load(i: int) -> None:
        deep(30 if i == 0 else 1)

    with kind.ahead(sk.smap(load, range(2)), 1, timeout=0.5) as ahead:
        counts = []
        for i in range(2):
            with pytest.raises(sk.ItemTimeout) as caught:
                ahead[i]
            counts.append(stack_of(caught.value).count("in deep"))
    assert counts == [31, 2]


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_the_stack_is_kept_if_the_end_of_the_worker_is_reported_late(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the item still looks late, and is stopped again."""
    stop = Processes.stop

    def stop_twice(self: Processes, ticket: int) -> None:
        stop(self, ticket)
        stop(self, ticket)

    monkeypatch.setattr(Processes, "stop", stop_twice)
    waiting = samples(lambda: threading.Event().wait())
    with kind.ahead(waiting, timeout=0.5) as ahead, pytest.raises(sk.ItemTimeout) as caught:
        ahead[1]
    assert "in load" in stack_of(caught.value)
