"""`prefetch(pieces=...)`: a batch that several workers compute is the batch that one would have computed."""

from __future__ import annotations

import os
import re
import resource
import signal
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.errors import EvaluationError, ItemTimeout, WorkerDied

from .kinds import KINDS, PROCESSES, WORKERS, Kind
from .test_bites import once
from .traces import append

FORK = PROCESSES[0]
LARGE = 3000  # numbers: 24 kB a row


def sample(i: int) -> Any:
    return {"image": np.full(LARGE, i, np.float32), "at": (i, f"item {i}"), "flag": np.bool_(i % 2)}


def row(i: int) -> Any:
    return np.full(LARGE, i)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return type(other) is np.ndarray and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return bool(type(one) is type(other) and one == other)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("k", [1, 2, 7, 32])
def test_batches_are_those_of_one_worker(kind: Kind, k: int) -> None:
    batches = sk.batch(sk.smap(sample, range(40)), k, collate_fn=sk.default_collate)
    with kind.ahead(batches, pieces=4) as node:
        assert all(map(same, batches, node))
        assert same(batches[-1], node[-1])


@pytest.mark.parametrize("collate_fn", [None, np.stack, np.asarray, np.array, sk.default_collate])
@pytest.mark.parametrize("last", ["keep", "discard", "pad"])
def test_every_way_to_collate_that_can_be_joined(collate_fn: Any, last: Any) -> None:
    source = np.arange(23 * LARGE).reshape(23, LARGE)
    pad = np.zeros(LARGE, int) if last == "pad" else None
    batches = sk.batch(source, 5, pad=pad, last=last, collate_fn=collate_fn)
    with FORK.ahead(batches, pieces=3) as node:
        assert all(map(same, batches, node))
        assert len(node) == len(batches)


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_pieces_lie_side_by_side_in_one_slot(kind: Kind) -> None:
    batches = sk.batch(sk.smap(sample, range(64)), 16, collate_fn=sk.default_collate)
    with kind.ahead(batches, pieces=4) as node:
        first, second = node[0], node[1]
        statistics = node.statistics()
        assert (statistics.leased, statistics.copies, statistics.misses) == (2, 0, 0)
        first["image"] += 1
        assert same(second, batches[1])
        assert first["image"].flags.c_contiguous
        del first
        assert node.statistics().leased == 1
    assert same(second, batches[1])


def test_more_batches_than_slots_may_be_kept() -> None:
    batches = sk.batch(sk.smap(row, range(400)), 4, collate_fn=np.stack)
    with FORK.ahead(batches, pieces=2) as node:
        kept = list(node)
        assert node.statistics().copies > 0
    assert all(map(same, batches, kept))


def test_a_paused_reader_gives_its_slots_up() -> None:
    batches = sk.batch(sk.smap(row, range(200)), 4, collate_fn=np.stack)
    with FORK.ahead(batches, pieces=2, max_buffered=3) as node:
        paused = [iter(node) for _ in range(8)]
        firsts = [next(iterator) for iterator in paused]
        assert all(map(same, batches, node))
        assert all(same(batches[0], first) for first in firsts)
        assert all(same(batches[1], next(iterator)) for iterator in paused)


def test_no_shared_memory_at_all() -> None:
    batches = sk.batch(sk.smap(row, range(40)), 8, collate_fn=np.stack)
    with FORK.ahead(batches, pieces=2, shm_size=0) as node:
        assert all(map(same, batches, node))


def test_batches_larger_than_a_slot() -> None:
    batches = sk.batch(sk.smap(row, range(40)), 8, collate_fn=np.stack)
    with FORK.ahead(batches, pieces=2, shm_size=20 * 4096) as node:
        with pytest.warns(RuntimeWarning, match="does not fit"):
            first = node[0]
        assert same(batches[0], first)
        assert all(map(same, batches, node))
        assert node.statistics().misses > 0


def widening(i: int) -> Any:
    return np.full(LARGE, i, np.float32 if i % 8 < 4 else np.float64)


@pytest.mark.parametrize("kind", WORKERS, ids=str)
def test_pieces_of_different_dtypes_are_promoted_together(kind: Kind) -> None:
    batches = sk.batch(sk.smap(widening, range(32)), 8, collate_fn=sk.default_collate)
    with kind.ahead(batches, pieces=2) as node:
        assert [batch.dtype for batch in node] == [np.float64] * 4
        assert all(map(same, batches, node))


class Scratch:
    """Asks for memory that it does not return, and for more of it in some pieces than in others."""

    def __call__(self, items: Any) -> Any:
        scratch = sk.empty((len(items), LARGE if items[0][0] % 8 else 2 * LARGE))
        out = sk.empty((len(items), LARGE), int)
        np.stack(items, out=out)
        scratch[...] = -1
        return out

    @staticmethod
    def join(pieces: list[Any], unite: Any) -> Any:
        return unite(pieces)


def test_pieces_that_use_the_slot_differently_do_not_overwrite_one_another() -> None:
    batches = sk.batch(sk.smap(row, range(64)), 8, collate_fn=Scratch())
    with FORK.ahead(batches, pieces=4) as node:
        for _ in range(5):
            assert all(
                same(np.stack([row(i) for i in range(b, b + 8)]), x)
                for b, x in zip(range(0, 64, 8), node, strict=True)
            )


class Exiting(Scratch):
    def __call__(self, items: Any) -> Any:
        return np.stack(items)

    @staticmethod
    def join(pieces: list[Any], unite: Any) -> Any:
        raise SystemExit("no")


@pytest.mark.parametrize("kind", WORKERS, ids=str)
def test_a_function_that_exits_where_it_joins_ends_nothing(kind: Kind) -> None:
    batches = sk.batch(sk.smap(row, range(16)), 8, collate_fn=Exiting())
    with kind.ahead(batches, pieces=2) as node:
        assert all(map(same, batches, node))


class Overlapping(Scratch):
    """Asks for so much more in the last piece that it lies where others have their rows."""

    def __call__(self, items: Any) -> Any:
        scratch = sk.empty((len(items), LARGE if items[0][0] % 8 < 6 else 2 * LARGE))
        out = sk.empty((len(items), LARGE), int)
        np.stack(items, out=out)
        scratch[...] = -1
        return out


class OverlappingInPipe(Overlapping):
    """And sends the last piece through a pipe."""

    def __call__(self, items: Any) -> Any:
        out = super().__call__(items)
        return out if items[0][0] % 8 < 6 else out.copy()


@pytest.mark.parametrize("collate_fn", [Overlapping(), OverlappingInPipe()])
def test_rows_that_another_piece_may_have_written_over_are_computed_again(collate_fn: Any) -> None:
    batches = sk.batch(sk.smap(row, range(32)), 8, collate_fn=collate_fn)
    with FORK.ahead(batches, 1, pieces=4) as node:  # one worker: the last piece is the last to write
        for b, x in enumerate(node):
            assert same(np.stack([row(i) for i in range(8 * b, 8 * b + 8)]), x)


def lettered(i: int) -> Any:
    return {"image": np.full(LARGE, i, np.float32), "text": f"item {i} " * 200}


@pytest.mark.parametrize("pieces", [2, 16])
def test_a_large_pickle_does_not_keep_arrays_from_lying_in_the_slot(pieces: int) -> None:
    batches = sk.batch(sk.smap(lettered, range(128)), 32, collate_fn=sk.default_collate)
    with FORK.ahead(batches, pieces=pieces) as node:
        kept = list(node)
        assert all(map(same, batches, kept))
        statistics = node.statistics()
        assert (statistics.leased, statistics.retired, statistics.misses) == (4, 0, 0)
        assert statistics.nbytes > sum(batch["image"].nbytes for batch in kept)


def half_and_half(items: Any) -> Any:
    return np.stack(items, out=sk.empty((len(items), LARGE), int)), np.stack(items)


half_and_half.join = lambda pieces, unite: tuple(map(unite, zip(*pieces, strict=True)))  # type: ignore[attr-defined]


def test_pieces_of_which_a_part_lies_elsewhere_keep_no_slot() -> None:
    batches = sk.batch(sk.smap(row, range(64)), 8, collate_fn=half_and_half)
    with FORK.ahead(batches, pieces=2) as node:
        assert all(map(same, batches, node))
        statistics = node.statistics()
        assert (statistics.leased, statistics.retired) == (0, 0)
        # What was written has pages, which somebody has to give back one day.
        assert max(the_workers(node).pool.free.extents) >= 8 * LARGE * 8


def the_workers(node: sk.Prefetch) -> Any:
    dispatcher: Any = node._engine._dispatcher
    return dispatcher._backend._backend


class DyingAtTheEnd(Scratch):
    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, items: Any) -> Any:
        np.stack(items, out=sk.empty((len(items), LARGE), int))
        if once(self.path):
            os.kill(os.getpid(), signal.SIGKILL)
        return [int(item[0]) for item in items]

    @staticmethod
    def join(pieces: list[Any], unite: Any) -> Any:
        return [number for piece in pieces for number in piece]


def test_what_a_worker_wrote_before_it_died_is_given_back(tmp_path: Path) -> None:
    batches = sk.batch(sk.smap(row, range(8)), 8, collate_fn=DyingAtTheEnd(tmp_path / "died"))
    with FORK.ahead(batches, 1, pieces=2, shm_size=1 << 24) as node:
        assert list(node) == [list(range(8))]
        assert node.statistics().restarts == 1
        assert node.statistics().slot_bytes in the_workers(node).pool.free.extents.tolist()


def test_more_pieces_than_there_may_be_jobs() -> None:
    batches = sk.batch(range(6000), 3000)
    with FORK.ahead(batches, pieces=2500) as node:
        assert list(node) == list(batches)


def test_little_address_space() -> None:
    batches = sk.batch(sk.smap(row, range(64)), 32, collate_fn=np.stack)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (300 << 20), before[1]))
    try:
        with FORK.ahead(batches, pieces=8) as node:
            assert all(map(same, batches, node))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class Keeping(Scratch):
    """Keeps memory of the slot, and writes to it later."""

    kept: Any = None

    def __call__(self, items: Any) -> Any:
        out = sk.empty((len(items), LARGE), int)
        np.stack(items, out=out)
        if self.kept is not None:
            self.kept[...] = -1
        self.kept = out
        return out


def test_memory_that_outlives_its_piece_is_never_written_over() -> None:
    batches = sk.batch(sk.smap(row, range(64)), 8, collate_fn=Keeping())
    with FORK.ahead(batches, pieces=2) as node:
        got = list(node)
    for b, x in enumerate(got):
        assert same(np.stack([row(i) for i in range(8 * b, 8 * b + 8)]), x)


def fragile(i: int) -> Any:
    if i == 13:
        raise LookupError("no thirteenth")
    return sample(i)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_error_is_that_of_the_whole_batch(kind: Kind) -> None:
    batches = sk.batch(sk.smap(fragile, range(40)), 8, collate_fn=sk.default_collate)
    with pytest.raises(EvaluationError) as alone:
        batches[1]
    with kind.ahead(batches, pieces=4) as node:
        iterator = iter(node)
        assert same(batches[0], next(iterator))
        with pytest.raises(EvaluationError, match="no thirteenth") as together:
            next(iterator)
        assert same(batches[2], next(iterator))
    places = [
        [(view._name, index) for view, index in error.value.path if view._name != "prefetch"]
        for error in (alone, together)
    ]
    assert places[0] == places[1]
    assert together.value.index == alone.value.index == 13
    assert isinstance(together.value.__cause__, LookupError)


def ragged(i: int) -> Any:
    return np.zeros(LARGE + (i == 13))


def test_a_shape_that_does_not_fit_is_named_by_its_place_in_the_batch() -> None:
    batches = sk.batch(sk.smap(ragged, range(40)), 8, collate_fn=sk.default_collate)
    with FORK.ahead(batches, pieces=4) as node, pytest.raises(EvaluationError, match=r"batch\[5\] has shape"):
        node[1]


class Killer:
    def __init__(self, path: Path | None) -> None:
        self.path = path

    def __call__(self, i: int) -> Any:
        if i == 21 and (self.path is None or once(self.path)):
            os.kill(os.getpid(), signal.SIGKILL)
        return row(i)


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_a_worker_that_dies_over_a_piece_is_replaced_and_the_batch_computed_again(
    kind: Kind, tmp_path: Path
) -> None:
    batches = sk.batch(sk.smap(Killer(tmp_path / "died"), range(64)), 8, collate_fn=np.stack)
    with kind.ahead(batches, pieces=4) as node:
        for b, x in enumerate(node):
            assert same(np.stack([row(i) for i in range(8 * b, 8 * b + 8)]), x)
        assert node.statistics().restarts == 1


def test_a_batch_that_kills_again_is_named() -> None:
    batches = sk.batch(sk.smap(Killer(None), range(64)), 8, collate_fn=np.stack)
    with FORK.ahead(batches, pieces=4) as node:
        iterator = iter(node)
        assert [len(next(iterator)) for _ in range(2)] == [8, 8]
        with pytest.raises(WorkerDied, match=re.escape("prefetch[2]: worker")):
            next(iterator)
        assert [len(x) for x in iterator] == [8] * 5


class Stuck:
    def __call__(self, i: int) -> Any:
        if i == 21:
            time.sleep(60)
        return row(i)


@pytest.mark.parametrize("kind", [Kind("thread"), FORK], ids=str)
def test_a_piece_that_takes_too_long(kind: Kind) -> None:
    class Patient(Stuck):
        def __call__(self, i: int) -> Any:
            if i == 21 and kind.method == "thread":  # which is abandoned, and must end some time
                time.sleep(2)
                return row(i)
            return super().__call__(i)

    batches = sk.batch(sk.smap(Patient(), range(64)), 8, collate_fn=np.stack)
    with kind.ahead(batches, pieces=4, timeout=0.5) as node:
        iterator = iter(node)
        assert [len(next(iterator)) for _ in range(2)] == [8, 8]
        with pytest.raises(ItemTimeout, match=re.escape("prefetch[2] took longer")):
            next(iterator)
        assert [len(x) for x in iterator] == [8] * 5


def test_random_maps_and_epochs_draw_what_they_draw_anywhere() -> None:
    noisy = sk.random_map(lambda x, rng: x + rng.random(), sk.smap(row, range(40)), seed=3)
    batches = sk.batch(sk.shuffle(noisy, seed=1), 8, collate_fn=np.stack)
    with FORK.ahead(batches, pieces=3) as node:
        for epoch in (0, 1, 5):
            assert all(map(same, batches.at_epoch(epoch), node.at_epoch(epoch)))


def test_an_abandoned_iterator_gives_everything_back() -> None:
    batches = sk.batch(sk.smap(row, range(400)), 8, collate_fn=np.stack)
    with FORK.ahead(batches, pieces=4) as node:
        for _ in range(20):
            assert len(list(islice(node, 3))) == 3
        assert all(map(same, batches, node))
        statistics = node.statistics()
        assert (statistics.leased, statistics.retired) == (0, 0)


@pytest.mark.parametrize(
    "build",
    [
        lambda: sk.smap(row, range(4)),
        lambda: sk.batch(range(4), 2, collate_fn=sum),
    ],
)
def test_what_cannot_be_cut_is_refused_when_the_node_is_built(build: Any) -> None:
    with pytest.raises(ValueError, match="pieces=2 needs a batch whose collate_fn"):
        sk.prefetch(build(), 2, pieces=2)


def test_sequences_of_unknown_length_are_refused_when_the_node_is_built() -> None:
    with pytest.raises(TypeError, match="cannot be cut into pieces without a length"):
        sk.prefetch(sk.batch(sk.uniter(lambda: iter("abcde")), 2), 2, pieces=2)


def test_pieces_must_be_a_positive_int() -> None:
    with pytest.raises(ValueError, match="prefetch: pieces must be a positive int, got 0"):
        sk.prefetch(sk.batch(range(4), 2), 2, pieces=0)


def test_batches_of_tensors_of_a_class_of_their_own_stay_that() -> None:
    torch = pytest.importorskip("torch")
    named = type("Named", (torch.Tensor,), {})
    samples = sk.smap(lambda i: torch.full((2000,), float(i)).as_subclass(named), range(8))
    batches = sk.batch(samples, 4, collate_fn=sk.default_collate)
    with Kind("thread").ahead(batches, pieces=2) as node:
        for batch, expected in zip(node, batches, strict=True):
            assert type(batch) is type(expected) is named
            assert torch.equal(batch, expected)


@pytest.mark.parametrize("kind", [Kind("thread"), Kind("process", "fork")], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16", "bool"])
def test_batches_of_tensors_are_made_of_pieces_once(kind: Kind, dtype: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    log = tmp_path / "log"

    def sample(i: int) -> Any:
        append(log, f"{i}\n")
        return {"x": torch.full((40, 50), i, dtype=getattr(torch, dtype)), "i": torch.tensor(i)}

    batches = sk.batch(sk.smap(sample, range(24)), 4, collate_fn=sk.default_collate)
    with kind.ahead(batches, pieces=2) as node:
        found = list(node)
    assert sorted(map(int, log.read_text().split())) == list(range(24))
    for number, batch in enumerate(found):
        assert batch["i"].tolist() == list(range(4 * number, 4 * number + 4))
        assert batch["x"].dtype == getattr(torch, dtype)
        assert torch.equal(batch["x"], batches[number]["x"])
        batch["x"][0] = 0  # the reader's own
