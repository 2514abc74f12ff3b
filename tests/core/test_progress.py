"""`progress=` of functions that take long."""

from __future__ import annotations

import re
import sys
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


every_function = pytest.mark.parametrize("function", [pack, to_list, to_file])


@every_function
def test_a_function_is_told_of_every_item(function: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    assert list(function(lambda done, total: told.append((done, total)), tmp_path)) == [*range(5)]
    assert told == [(done, 5) for done in range(1, 6)]


@every_function
def test_true_shows_a_bar_of_tqdm(function: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    function(True, tmp_path)
    last = capfd.readouterr().err.strip().split("\r")[-1]
    assert re.match(r"(pack|materialize): 100%.* 5/5 ", last)


@every_function
def test_a_missing_tqdm_is_named_before_work(
    function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match=r"progress needs a library .*: pip install tqdm"):
        function(True, tmp_path)


@every_function
@pytest.mark.parametrize("progress", [3, "yes", [print], dict])
def test_anything_else_is_refused_before_work(function: Any, progress: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="progress must be True or a function of"):
        function(progress, tmp_path)


def test_nothing_is_shown_by_default() -> None:
    for silent in (None, False):
        with reporting(silent, "test") as report:
            assert report(1, 2) is None
