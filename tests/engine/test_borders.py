"""Jobs follow the borders of files, so that each worker loads each file once."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.borders import cut_of
from seqkit.engine.window import ChunkWindow

FILES, ITEMS = 12, 200
Build = Callable[[Any], Any]

ORDERS: dict[str, Build] = {
    "flatten": lambda files: sk.flatten(files, [ITEMS] * FILES),
    "a map of flatten": lambda files: sk.smap(abs, sk.flatten(files, [ITEMS] * FILES)),
    "batches": lambda files: sk.batch(sk.flatten(files, [ITEMS] * FILES), 5),
    "shuffled groups": lambda files: sk.shuffle_groups(sk.flatten(files, [ITEMS] * FILES), ITEMS, seed=0),
    "unbatch": lambda files: sk.unbatch(files, ITEMS, 0),
    "a slice": lambda files: sk.flatten(files, [ITEMS] * FILES)[::2],
}


@pytest.mark.parametrize("method", ["thread", "process"])
def test_each_worker_loads_each_file_once(method: Any, tmp_path: Path) -> None:
    expected = [range(k * ITEMS, (k + 1) * ITEMS) for k in range(FILES)]
    for workers, (name, build) in product((1, 3), ORDERS.items()):
        folder = tmp_path / f"{workers} {name}"
        folder.mkdir()

        def load(number: int, folder: Path = folder) -> list[int]:
            with open(folder / f"{os.getpid()} {threading.get_ident()}", "a") as log:
                log.write(f"{number}\n")
            time.sleep(0.003)  # more than the time after which a job gives back its rest
            return list(expected[number])

        with sk.prefetch(build(sk.smap(load, range(FILES))), workers, method) as ahead:
            assert list(ahead) == list(build(expected))
        loads = Counter(line for log in folder.iterdir() for line in log.read_text().split())
        assert len(loads) == FILES
        # A job that the machine delays for long may still lead to a second load.
        assert sum(loads.values()) <= FILES * workers + (0 if workers == 1 else FILES), folder


def test_every_index_is_in_one_job() -> None:
    lengths = np.random.default_rng(0).integers(0, 9, 200)
    files = sk.flatten([[(k, i) for i in range(n)] for k, n in enumerate(lengths)], lengths)
    for workers in (1, 3):
        with sk.prefetch(sk.shuffle(files, seed=0), workers, "thread") as ahead:
            for _ in range(2):
                assert list(ahead) == list(sk.shuffle(files, seed=0))


def chunks_of(view: sk.View[Any], plan: Iterable[int]) -> list[list[int]]:
    """Return the chunks of a plan, whose last file is left to the next chunk."""
    assert len(view)  # found, so that the borders are known
    window = ChunkWindow(plan, 99, cut=cut_of(view))
    chunks = [list(chunk.indices) for chunk in window.draw(9, 6)]
    assert window.is_drawn
    return chunks


def test_a_chunk_ends_where_its_last_file_begins() -> None:
    files = sk.flatten(["abcde", "fgh", "ijkl"], [5, 3, 4])
    chunks = [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 11]]
    for plan in (range(12), np.arange(12), [*range(12)], iter(range(12))):
        assert chunks_of(files, plan) == chunks
    assert chunks_of(files, range(12)[::-1]) == [chunk[::-1] for chunk in chunks[::-1]]
    with sk.prefetch(files, 1) as node:
        drawn = node.open(range(12)).consumer.window.draw(9, 6)
        assert [list(chunk.indices) for chunk in drawn] == chunks
    small = sk.smap(str.upper, sk.flatten(["a", "bc", "d", "efg"], [1, 2, 1, 3]))
    assert chunks_of(small, range(7)) == [[0, 1, 2, 3], [4, 5, 6]]  # small files share a chunk


def test_looking_for_borders_reads_nothing() -> None:
    def read(i: int) -> Any:
        raise AssertionError("an item was read")

    words = sk.smap(read, range(3))
    cut = cut_of(sk.flatten(words))
    assert cut is not None
    assert cut(range(6)) == 6  # the lengths are not known
    assert cut_of(sk.view("abc")[sk.smap(read, range(3))]) is None
    measured = sk.flatten(words, [1, 2, 3])
    assert chunks_of(measured, range(6)) == [[0, 1, 2], [3, 4, 5]]
    assert chunks_of(measured, ["no", "index"]) == [["no", "index"]]  # type: ignore[list-item]
    assert cut_of(sk.prefetch(measured, 1)) is None
