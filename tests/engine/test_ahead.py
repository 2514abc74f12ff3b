"""Nodes and loaders ask the system for the bytes of their items before workers read them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import seqkit as sk

from ..mapped import PAGE, System, numbers_in, rows_in, shuffled


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    return System(monkeypatch)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return rows_in(tmp_path_factory.mktemp("rows"))


@pytest.mark.parametrize("chunk_size", [1, 50, "auto"])
def test_a_node_asks_for_items_before_it_submits_them(chunk_size: Any, rows: Any, system: System) -> None:
    def f(row: Any) -> bool:
        return int(row[0]) in system.pages()

    with sk.prefetch(sk.smap(f, shuffled(rows)), 2, chunk_size=chunk_size) as node:
        assert all(node)
    assert len(system.pages()) == 400


def test_a_node_with_processes_asks_in_the_process_of_the_consumer(rows: Any, system: System) -> None:
    with sk.prefetch(sk.batch(shuffled(rows), 4), 2, "process") as node:
        assert len(list(node)) == 100
    assert len(system.pages()) == 400


def test_a_node_whose_workers_may_be_on_other_machines_asks_for_nothing(rows: Any, system: System) -> None:
    with ThreadPoolExecutor(2) as pool, sk.prefetch(shuffled(rows), method=pool) as node:
        assert len(list(node)) == 400
    assert not system.calls


def test_each_epoch_asks_for_its_own_order(rows: Any, system: System) -> None:
    with sk.prefetch(sk.shuffle(rows, seed=0).head(100), 2) as node:
        for epoch in (0, 1):
            system.calls.clear()
            wanted = {int(row[0]) for row in node.at_epoch(epoch)}
            assert system.pages() == wanted


def test_a_node_below_a_node_asks_for_its_part(rows: Any, system: System) -> None:
    def f(row: Any) -> Any:
        assert int(row[0]) in system.pages()
        return row

    with sk.prefetch(sk.smap(f, rows), 2) as below, sk.prefetch(sk.batch(shuffled(below), 4), 2) as node:
        assert len(list(node)) == 100
    assert len(system.pages()) == 400


def test_a_node_without_workers_asks_once(rows: Any, system: System) -> None:
    view = sk.prefetch(shuffled(rows), 0)
    assert len(list(sk.batch(view, 1))) == 400
    assert len(system.pages()) == sum(size for _, size in system.calls) // PAGE == 400


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("sampler", [None, range(0, 400, 2), "generator"])
def test_a_loader_asks_for_its_samples(workers: int, sampler: Any, rows: Any, system: System) -> None:
    class Reversed:
        def __iter__(self) -> Iterator[int]:
            return iter(range(399, -1, -2))

        def __len__(self) -> int:
            return 200

    given = Reversed() if sampler == "generator" else sampler
    options: dict[str, Any] = {"shuffle": True, "seed": 0} if sampler is None else {"sampler": given}
    with sk.DataLoader(sk.view(rows)[:400], 4, num_workers=workers, collate_fn=np.stack, **options) as loader:
        read = set().union(*map(numbers_in, loader))
    if workers or sampler != "generator":
        assert system.pages() == read
    assert len(read) == (400 if sampler is None else 200)
