"""What a node takes of the machine's memory, and gives back."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine import chunking

from .kinds import PROCESSES, Kind
from .traces import pids_of

FORK = PROCESSES[0]
MIB = 1 << 20
every_kind_of_process = pytest.mark.parametrize("kind", PROCESSES, ids=str)


def own_bytes(pid: int) -> int:
    """Return how much memory a process shares with nobody."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        lines = [line.split() for line in file if line.startswith(("Private_Clean", "Private_Dirty"))]
    return 1024 * sum(int(kilobytes) for _, kilobytes, *_ in lines)


def sized(i: int) -> Any:
    """An array of `i` MiB, of its own number."""
    array = sk.empty(i * MIB, np.uint8)
    array[:] = i
    return array


@every_kind_of_process
@pytest.mark.filterwarnings("ignore:prefetch. pickled 128.0 MiB:RuntimeWarning")
def test_a_large_source_is_there_once_however_many_workers_read_it(kind: Kind) -> None:
    source = np.ones((2048, 16 * 1024), np.float32)  # 128 MiB
    with kind.ahead(sk.smap(np.sum, source), chunk_size=64) as node:
        assert list(node) == [16 * 1024] * 2048
        workers = pids_of(node)
        assert len(workers) == 2
        assert max(map(own_bytes, workers)) < 64 * MIB


def test_few_large_results_are_computed_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunking, "AHEAD_BYTES", 10 * MIB)
    gate = os.pipe()

    def item(i: int) -> Any:
        if i >= 10:
            os.read(gate[0], 1)  # how many are begun shows in how many wait here
        return sized(4)

    with FORK.ahead(sk.smap(item, range(40)), chunk_size=1) as node:
        iterator = iter(node)
        for _ in range(9):
            next(iterator)
        backend: Any = node.engine._scheduler.backend  # type: ignore[union-attr]
        assert len(backend._sent) <= 2  # one for each worker, though 6 is the depth for small ones
        os.write(gate[1], b"x" * 40)
        assert len(list(iterator)) == 31
    for fd in gate:
        os.close(fd)


def test_the_advised_size_of_shared_memory_is_enough_for_an_item_that_just_did_not_fit() -> None:
    with FORK.ahead(range(2), shm_size=8 * MIB) as node:
        list(node)
        slots = node.statistics().slots
    slot_bytes = 93 * 4096
    shm_size = slots * (slot_bytes + 4000)  # the rest of a page is no use
    rows = sk.smap(lambda _: np.ones(slot_bytes, np.uint8), range(4))
    with FORK.ahead(rows, chunk_size=1, shm_size=shm_size) as node:
        with pytest.warns(RuntimeWarning, match="Set at least shm_size=") as caught:
            list(node)
        assert node.statistics().slot_bytes == slot_bytes
    advised = int(re.search(r"shm_size=(\d+) << 20", str(caught[0].message))[1]) << 20  # type: ignore[index]
    assert advised > shm_size
    with FORK.ahead(rows, chunk_size=1, shm_size=advised) as node:
        list(node)
        assert node.statistics().misses == 0


def test_a_result_too_large_for_its_slot_is_warned_of_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with FORK.ahead(sk.smap(sized, [1] * 10), shm_size=7 * MIB) as node:
            assert all((array == 1).all() for array in node)
            assert node.statistics().misses == 10
    (told,) = (str(warning.message) for warning in caught)
    assert re.fullmatch(
        r"prefetch. an item of [\d.]+ MiB does not fit a slot of [\d.]+ KiB and came in a file of its own,"
        r" which takes longer. Set at least shm_size=(\d+) << 20 \(\1 MiB\)",
        told,
    ), told


def test_no_item_is_said_not_to_fit_where_several_fill_a_slot() -> None:
    sizes = [0, 80_000, 0, 200_000] * 5
    items = sk.smap(lambda n: np.zeros(n, np.uint8), sizes)
    with FORK.ahead(items, chunk_size=4, shm_size=22 * 220_000) as node:
        assert [array.size for array in node] == sizes  # a warning would be an error
        statistics = node.statistics()
    assert statistics.misses
    assert statistics.slot_bytes > max(sizes)
