"""Tables of pandas have rows for type checkers too, although ``frame[i]`` is a column."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest

import seqkit as sk

ROOT = Path(__file__).parents[2]


class PandasFrame:
    """A DataFrame as the stubs of pandas describe it."""

    iloc: Any = None
    columns: Any = ("path", "label")
    shape: Any = (1, 2)

    def itertuples(self) -> Any: ...
    def __len__(self) -> int:
        return 1

    def __getitem__(self, label: Any) -> list[float]:
        return [0.0]


class PolarsFrame:
    """A DataFrame as polars describes it."""

    @property
    def columns(self) -> list[str]:
        return ["path", "label"]

    @property
    def shape(self) -> tuple[int, int]:
        return 1, 2

    def iter_rows(self, *, named: bool = False) -> Any: ...
    def __len__(self) -> int:
        return 1

    def __getitem__(self, key: Any) -> list[float]:
        return [0.0]


def load(row: dict[str, Any]) -> str:
    return str(row["path"])


def test_rows_of_tables_are_dicts() -> None:
    assert_type(sk.view(PandasFrame()), sk.View[dict[str, Any]])
    assert_type(sk.view(PolarsFrame()), sk.View[dict[str, Any]])
    assert_type(sk.smap(load, PandasFrame()), sk.View[str])
    assert_type(sk.smap(load, PolarsFrame()), sk.View[str])
    assert_type(sk.view(PandasFrame()).smap(load), sk.View[str])
    sk.smap(len, PandasFrame())
    sk.smap(str.upper, PandasFrame())  # type: ignore[arg-type]


def test_other_sources_are_no_tables() -> None:
    anything: Any = [1]
    assert_type(sk.view(anything), sk.View[Any])
    assert_type(sk.view(np.zeros(3)), sk.View[Any])
    assert_type(sk.view([1]), sk.View[int])


def has_stubs() -> bool:
    try:
        importlib.metadata.version("pandas-stubs")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@pytest.mark.stress  # mypy reads the stubs of numpy and pandas anew, for 12 seconds
@pytest.mark.timeout(300)
@pytest.mark.skipif(not has_stubs(), reason="pandas-stubs is not installed")
def test_the_documented_use_of_a_frame_type_checks(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "tables.md").read_text("utf-8")
    blocks = [part.partition("```")[0] for part in page.split("```python\n")[1:]]
    script = tmp_path / "tables.py"
    script.write_text("\n".join([*blocks, "reveal_type(sk.view(frame))"]), "utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file=", "--ignore-missing-imports", str(script)]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        timeout=280,
    )
    of_page = [line for line in run.stdout.splitlines() if line.startswith("tables.py")]
    assert [line for line in of_page if "error" in line] == []
    assert "View[dict[str, Any]]" in of_page[-1]
