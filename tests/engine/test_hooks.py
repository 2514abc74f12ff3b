"""What happens in a worker before its first item."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from seqkit.engine.hooks import call_hook, worker_info


class Recorder:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def with_number(self, worker: int) -> None:
        self.calls.append((worker,))

    def without(self) -> None:
        self.calls.append(())

    def with_default(self, worker: int = -1) -> None:
        self.calls.append((worker,))

    def with_anything(self, *arguments: Any) -> None:
        self.calls.append(arguments)

    def with_options(self, *, verbose: bool = False) -> None:
        self.calls.append(())

    def with_keywords(self, **options: Any) -> None:
        self.calls.append(())

    def with_more(self, worker: int, more: str = "") -> None:
        self.calls.append((worker,))

    __call__ = with_number


def test_a_hook_gets_the_number_of_its_worker_if_it_takes_an_argument() -> None:
    recorder = Recorder()
    for name in ("with_number", "with_default", "with_anything", "with_more", "__call__"):
        call_hook(getattr(recorder, name), 3)
        assert recorder.calls.pop() == (3,), name
    for name in ("without", "with_options", "with_keywords"):
        call_hook(getattr(recorder, name), 3)
        assert recorder.calls.pop() == (), name
    call_hook(recorder, 2)
    call_hook(partial(recorder.with_number), 4)
    call_hook(partial(recorder.with_number, 5), 6)
    call_hook(recorder.calls.append, 7)  # a builtin
    call_hook(None, 8)
    assert recorder.calls == [(2,), (4,), (5,), 7]


def test_an_error_of_a_hook_passes_through_and_it_is_called_once() -> None:
    for error in (TypeError("mine"), ValueError("mine"), SystemExit("mine")):
        calls = []

        def hook(worker: int, error: BaseException = error, calls: list[int] = calls) -> None:
            calls.append(worker)
            raise error

        with pytest.raises(type(error), match="mine"):
            call_hook(hook, 1)
        assert calls == [1]
    with pytest.raises(TypeError, match="missing 2 required positional arguments"):
        call_hook(lambda worker, more: None, 1)
    with pytest.raises(TypeError, match="int"):
        call_hook(iter, 3)  # a builtin that hides its signature gets the number


# -------------------------------------------------------------------- seeds


def test_each_worker_knows_its_number_and_has_its_own_seed() -> None:
    infos = [worker_info(number, 50, entropy, "thread") for entropy in (0, 1) for number in range(50)]
    assert [info.id for info in infos] == [*range(50), *range(50)]
    assert {info.num_workers for info in infos} == {50}
    assert {info.method for info in infos} == {"thread"}
    assert len({info.seed for info in infos}) == 100
    assert all(0 <= info.seed < 2**64 for info in infos)
    assert {type(info.seed) for info in infos} == {int}


def test_a_workers_seed_follows_from_the_nodes_and_its_number() -> None:
    assert worker_info(3, 4, 99, "process") == worker_info(3, 4, 99, "process")
    assert worker_info(3, 4, 99, "thread").seed == worker_info(3, 9, 99, "process").seed
