"""What process workers draw from the global generators."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from functools import partial
from itertools import count, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.evaluate import Collector, Evaluator
from seqkit.engine.seeding import Seeding, seed_globals, seed_item

from .kinds import PROCESSES, Kind


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()
    yield
    random.setstate(python)
    np.random.set_state(numpy)


def drawn() -> tuple[float, float]:
    return random.random(), np.random.rand()


def test_the_global_generators_follow_from_all_values() -> None:
    draws = []
    for entropy in ((1, -1), (2**64 - 1, -1), (1, 0), (1, "0"), (1, 0, 0), (1, [0, 1]), (1, -1)):
        seed_globals(*entropy)
        draws.append(drawn())
    assert draws[0] == draws[-1]
    assert len({python for python, _ in draws}) == len({numpy for _, numpy in draws}) == 6


def test_libraries_draw_different_numbers() -> None:
    seed_globals(1, 2)
    python = [random.random() for _ in range(100)]
    assert not {*python} & {*np.random.rand(100).tolist()}


def test_torch_is_seeded_where_it_is_loaded_and_never_loaded_for_it(monkeypatch: Any) -> None:
    for has_devices, on_devices in product((True, False), repeat=2):
        everywhere: list[int] = []
        on_cpu: list[int] = []
        torch = SimpleNamespace(
            version=SimpleNamespace(cuda="12.4" if has_devices else None, hip=None),
            manual_seed=everywhere.append,
            default_generator=SimpleNamespace(manual_seed=on_cpu.append),
        )
        monkeypatch.setitem(sys.modules, "torch", torch)
        for epoch in (0, 1, 0):
            seed_globals(5, epoch, on_devices=on_devices)
        seeds, others = (everywhere, on_cpu) if has_devices and on_devices else (on_cpu, everywhere)
        assert seeds[0] == seeds[2] != seeds[1]
        assert others == []
        assert all(0 <= seed < 1 << 63 for seed in seeds)
    monkeypatch.delitem(sys.modules, "torch")
    seed_globals(6, 0)
    assert "torch" not in sys.modules


def test_the_initial_seed_of_torch_is_that_of_the_worker_for_its_whole_life() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_rng_state()
    try:
        seeding = Seeding(2**64 - 1, count().__next__)
        item, draws = partial(seed_item, 7, seeding.initial, 0), []
        for begin, index in ((seeding.begin, 0), (item, 1), (item, 2)):
            assert torch.initial_seed() == 2**63 - 1
            begin(index)
            draws += torch.rand(2).tolist()
        assert len({*draws}) == 6
        item(1)
        assert torch.rand(2).tolist() == draws[2:4]
    finally:
        torch.set_rng_state(before)


def test_no_worker_draws_the_same_in_two_epochs_or_as_the_one_that_it_replaces() -> None:
    draws = []
    for seed in (1, 2):
        calls = count()
        for _ in range(2):  # the second one replaces the first one
            seeding = Seeding(seed, calls.__next__)
            draws.append(drawn())
            for epoch in (0, 1, 0):
                seeding.begin(epoch)
                draws.append(drawn())
    assert len({*draws}) == 16
    Seeding(1, count().__next__).begin(1)  # as a program that continues with this epoch
    assert drawn() == draws[2]


def test_an_item_draws_the_same_in_every_worker_of_a_node() -> None:
    draws = []
    for worker in range(2):
        for epoch, index in ((0, 3), (0, np.int64(3)), (1, 3), (0, 4), (0, [3]), (0, "3")):
            seed_item(7, worker, epoch, index)
            draws.append(drawn())
    assert draws[:6] == draws[6:]
    assert draws[0] == draws[1]
    assert len({*draws}) == 5
    seed_item(8, 0, 0, 3)
    assert drawn() not in draws


def test_an_item_begins_before_it_is_computed_also_in_a_job_of_several_and_after_an_error() -> None:
    events: list[Any] = []

    def f(i: int) -> int:
        events.append(i)
        if i == 1:
            raise ValueError
        if i == 2:
            raise StopIteration
        return i

    for source in (range(4), sk.uniter(range(4))):
        for policy in ("wrap", "passthrough"):
            sink = Collector()
            evaluator = Evaluator(sk.smap(f, source), lambda view, epoch, i: events.append((epoch, i)))
            with sk.errstate(policy):
                evaluator.run(5, [0, 1, 2, 3], sink)
            assert sink.outcomes.values == [0, None, None, 3]
            assert list(sink.outcomes.failures) == [1, 2]
            assert events == [(5, 0), 0, (5, 1), 1, (5, 2), 2, (5, 3), 3]
            events.clear()


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_items_of_a_node_that_seeds_items_draw_the_same_for_any_workers(kind: Kind) -> None:
    before = random.getstate()
    source = sk.smap(lambda i: drawn(), range(20))
    found = []
    for workers, chunk_size in ((1, "auto"), (2, 1), (2, 7)):
        with kind.ahead(source, workers, chunk_size=chunk_size, seed=3).changed(item_seed=3) as ahead:
            found.append([list(ahead.at_epoch(epoch)) for epoch in (0, 1)])
    assert found[0] == found[1] == found[2]
    assert len({number for epoch in found[0] for item in epoch for number in item}) == 80
    assert random.getstate() == before


def test_retried_items_draw_what_they_drew_before(tmp_path: Any) -> None:
    def item(i: int) -> tuple[float, float]:
        numbers = drawn()
        if i == 2 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(1)
        return numbers

    source = sk.smap(item, range(4))
    found = []
    for _ in range(2):
        with sk.prefetch(source, 1, "process", seed=3).changed(item_seed=3) as ahead:
            found.append(list(ahead))
    assert found[0] == found[1]
