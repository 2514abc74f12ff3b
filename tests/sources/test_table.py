"""Every source, with every kind of worker: the first batch, a shuffled epoch, and a worker that is killed.

The whole table is long, and runs under `make stress`. `make test` has one cell for each source.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk

from .table import KINDS, Kind, N

CONTEXTS = ("fork", "spawn", "forkserver", "thread")
SITUATIONS = ("first batch", "shuffled epoch", "worker killed")
CELLS = [(kind, context, what) for kind in KINDS for context in kind.contexts for what in SITUATIONS]
# One cell for each source: by turns another start method, always a shuffled epoch.
ROW = [
    (kind, kind.contexts[i % 2 * (len(kind.contexts) - 1)], "shuffled epoch") for i, kind in enumerate(KINDS)
]


def same(items: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return items.keys() == expected.keys() and all(same(items[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return len(items) == len(expected) and all(map(same, items, expected))
    return bool(np.array_equal(items, expected))


class KilledOnce:
    """Returns the item; the first worker that reads item 7 is killed."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __call__(self, pair: Any) -> Any:
        number, item = pair
        info = sk.get_worker_info()
        if number == 7 and info is not None and info.method == "process":
            try:
                self._mark.touch(exist_ok=False)
            except FileExistsError:
                return item
            os.kill(os.getpid(), signal.SIGKILL)
        return item


def check(kind: Kind, context: str, what: str, folder: Path) -> None:
    for library in kind.needs:
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    (folder / "data").mkdir()
    view, expected = kind.make(folder / "data")
    method = "thread" if context == "thread" else "process"
    options: Any = {"nworkers": 2, "method": method, "context": None if context == "thread" else context}
    if what == "shuffled epoch":
        order = list(sk.shuffle(range(N), seed=0))
        with sk.batch(sk.shuffle(view, seed=0), 8).prefetch(**options) as ahead:
            assert same([item for batch in ahead for item in batch], [expected[i] for i in order])
    elif what == "first batch":
        with sk.batch(view, 8).prefetch(**options) as ahead:
            assert same(list(ahead[0]), expected[:8])
    else:
        marked = sk.smap(KilledOnce(folder / "killed"), sk.collate([range(N), view]))
        with marked.prefetch(**options) as ahead:
            assert same(list(ahead), expected)
        assert (folder / "killed").exists() is (method == "process")


@pytest.mark.parametrize(("kind", "context", "what"), ROW, ids=[kind.name for kind in KINDS])
def test_source_is_read_right(kind: Kind, context: str, what: str, tmp_path: Path) -> None:
    check(kind, context, what, tmp_path)


@pytest.mark.stress
@pytest.mark.parametrize(
    ("kind", "context", "what"), CELLS, ids=[f"{kind.name}-{context}-{what}" for kind, context, what in CELLS]
)
def test_cell_of_the_table(kind: Kind, context: str, what: str, tmp_path: Path) -> None:
    check(kind, context, what, tmp_path)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_single_reads_equal_batched_reads_also_from_a_pickle(kind: Kind, tmp_path: Path) -> None:
    for library in kind.needs:
        pytest.importorskip(library)
    view, expected = kind.make(tmp_path)
    assert len(view) == N
    again = pickle.loads(pickle.dumps(view))
    indices = [5, 3, 3, N - 1, 0]
    for read in (view, again):
        assert same([read[i] for i in indices], [expected[i] for i in indices])
        assert same(list(read.__getitems__(indices)), [expected[i] for i in indices])
        assert same(list(read[8:20:3]), expected[8:20:3])
        assert same(list(read.__getitems__(range(4, 12))), expected[4:12])
        with pytest.raises(IndexError):
            read[N]
