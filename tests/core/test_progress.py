"""`progress=` of functions that take long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.core.progress import reporting


def pack(progress: Any, folder: Path) -> Any:
    return sk.pack(sk.smap(abs, range(5)), progress=progress)


def to_list(progress: Any, folder: Path) -> Any:
    return sk.materialize(sk.smap(abs, range(5)), progress=progress)


def to_file(progress: Any, folder: Path) -> Any:
    return sk.materialize(sk.smap(np.int64, range(5)), folder / "a.npy", nworkers=0, progress=progress)


class Bar:
    """What seqkit uses of tqdm."""

    def __init__(self, total: int | None = None, initial: int = 0, desc: str = "") -> None:
        self.total, self.n, self.desc, self.closed = total, initial, desc, False

    def update(self, more: int) -> None:
        self.n += more

    def close(self) -> None:
        self.closed = True


def filtered(progress: Any, folder: Path) -> Any:
    return sk.filter(lambda item: True, sk.smap(abs, range(5)), progress=progress, eager=True)


def filtered_in_a_loop(progress: Any, folder: Path) -> Any:
    return [item for item in sk.filter(lambda item: True, sk.smap(abs, range(5)), progress=progress)]  # noqa: C416


every_function = pytest.mark.parametrize("function", [pack, to_list, to_file, filtered, filtered_in_a_loop])


@every_function
def test_a_function_is_told_of_every_item(function: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    assert list(function(lambda done, total: told.append((done, total)), tmp_path)) == [*range(5)]
    assert told == [(done, 5) for done in range(1, 6)]


@every_function
def test_a_bar_is_moved_and_stays_open(function: Any, tmp_path: Path) -> None:
    bar = Bar(initial=2)
    function(bar, tmp_path)
    assert (bar.n, bar.closed) == (7, False)


@every_function
def test_true_shows_a_line_outside_of_terminals(
    function: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    function(True, tmp_path)
    last = capfd.readouterr().err.splitlines()[-1]
    assert ": 5 of 5, rate " in last
    assert "waited" not in last


def test_the_workers_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with sk.prefetch(range(50), 2) as node:
        sk.pack(node, progress=True)
    assert ", workers 2, " in capfd.readouterr().err.splitlines()[-1]


@every_function
@pytest.mark.parametrize("progress", [3, "yes", [print], Bar])
def test_anything_else_is_refused_before_work(function: Any, progress: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="progress must be True, a function of"):
        function(progress, tmp_path)


def test_nothing_is_shown_by_default() -> None:
    for silent in (None, False):
        with reporting(silent, "test") as report:
            assert report(1, 2) is None
