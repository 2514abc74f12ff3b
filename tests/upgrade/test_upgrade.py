"""States, caches and packs of an earlier version go on, or are refused by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit import sources

from . import cases

MADE = Path(__file__).parent / "made"
STATES = json.loads((MADE / "states.json").read_text())


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MADE, tmp_path / "made"))


@pytest.mark.parametrize("name", cases.LOADERS)
def test_a_loader_goes_on_from_an_old_state(name: str) -> None:
    loader = cases.LOADERS[name][1]()
    loader.load_state_dict(STATES[name]["state"])
    assert cases.rest(loader) == STATES[name]["rest"]


@pytest.mark.parametrize("name", cases.LOADERS)
def test_a_state_of_an_unknown_version_is_refused(name: str) -> None:
    loader = cases.LOADERS[name][1]()
    with pytest.raises(ValueError, match="version"):
        loader.load_state_dict({**STATES[name]["state"], "version": 99})


def test_a_store_keeps_the_items_of_an_old_one(made: Path) -> None:
    def broken(i: int) -> Any:
        raise AssertionError("the item is in the store")

    view = sk.add_cache(sk.smap(broken, range(5)), store=made / "cache")
    assert [(item["i"], item["row"].tolist()) for item in view] == [(i, [i] * 3) for i in range(5)]


def test_an_old_pack_is_read(made: Path) -> None:
    found = list(sk.load_packed(made / "items.pack"))
    assert [item["text"] for item in found] == [f"line {i}" for i in range(6)]
    assert [item["row"].tolist() for item in found] == [list(range(i)) for i in range(6)]
    assert np.array_equal(list(sk.load_packed(made / "array.pack")), np.arange(12).reshape(4, 3))


def test_old_files_of_materialize_are_read(made: Path) -> None:
    assert list(sources.npy(made / "whole.npy")) == list(range(0, 30, 3))
    pytest.importorskip("pyarrow")
    assert [row["text"] for row in sources.parquet(made / "rows.parquet")] == list(map(str, range(10)))


def test_materialize_refuses_the_pieces_of_another_version_by_name(made: Path) -> None:
    with pytest.raises(ValueError, match=r"half\.npy\.partial was begun by another version .* Delete it"):
        sk.materialize(sk.smap(cases.triple, range(10)), made / "half.npy", nworkers=0)
