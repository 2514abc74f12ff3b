"""What pre-training code lacked in 2026, as torchtitan lists it: a test for each line."""

from __future__ import annotations

import json
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk

CAPACITY = 48


def texts_of(n: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, 1000, rng.integers(1, 80)) for _ in range(n)]


def packs(texts: list[Any], long: Any = "split") -> sk.View[Any]:
    groups = sk.bins(map(len, texts), CAPACITY, long=long, max_items=CAPACITY, seed=0)
    return sk.smap(sk.PackSequences(CAPACITY), sk.gather_groups(texts, groups))


def tokens_of(rows: Any) -> list[int]:
    return [token for row in rows for token in row["tokens"][row["segment_ids"] > 0].tolist()]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_documents_are_packed_before_ranks_share_them(ranks: int) -> None:
    """ "Packing is per rank, after sharding, so packs change with the number of ranks." """
    view = sk.shuffle(packs(texts_of(100)), seed=0)
    shares = [[*sk.shard(view, rank, ranks, contiguous=False)] for rank in range(ranks)]
    whole = [row["tokens"].tolist() for row in view]
    assert [shares[i % ranks][i // ranks]["tokens"].tolist() for i in range(len(view))] == whole


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_finite_data_set_gives_each_rank_the_same_number_of_steps(ranks: int) -> None:
    """ "A data set that is not repeated raises, because ranks would end at different steps." """
    view = packs(texts_of(101))
    samplers = [sk.DistributedSampler(view, ranks, rank, seed=0) for rank in range(ranks)]
    loaders = [sk.DataLoader(view, 2, sampler=sampler) for sampler in samplers]
    rows = [[batch["tokens"] for batch in loader] for loader in loaders]
    assert len({*map(len, rows)}) == 1
    assert {row.tobytes() for row in np.concatenate([*chain(*rows)])} == {
        row["tokens"].tobytes() for row in view
    }


def test_what_happens_to_a_long_document_is_a_choice() -> None:
    """ "Long documents are dropped, or split, with no choice." """
    texts = texts_of(100)
    assert sorted(tokens_of(packs(texts, "split"))) == sorted(np.concatenate(texts).tolist())
    clipped = np.concatenate([text[:CAPACITY] for text in texts])
    assert sorted(tokens_of(packs(texts, "clip"))) == sorted(clipped.tolist())
    whole = np.concatenate([text for text in texts if len(text) <= CAPACITY])
    assert sorted(tokens_of(packs(texts, "drop"))) == sorted(whole.tolist())
    with pytest.raises(ValueError, match="lengths must be at most capacity=48"):
        packs(texts, "error")


def test_weights_count_tokens() -> None:
    """ "Weights of a mixture count documents, not tokens." """
    children = [texts_of(200), [text[:9] for text in texts_of(300, seed=1)]]

    def counted(child: Any, n: int, of: Any) -> sk.View[Any]:
        return sk.smap(lambda item: (n, of(item)), child)

    rows = [
        counted(packs(child), n, lambda row: (row["segment_ids"] > 0).sum())
        for n, child in enumerate(children)
    ]
    documents = [counted(child, n, len) for n, child in enumerate(children)]
    lengths = [[*map(len, child)] for child in children]
    counts = np.zeros(2)
    for n, size in sk.mix(documents, [3, 1], seed=0, sizes=lengths):
        counts[n] += size
        assert abs(counts[0] - 0.75 * counts.sum()) <= max(*map(max, lengths))
    full = [sum(size for kind, size in sk.mix(rows, [3, 1], seed=0) if kind == n) for n in (0, 1)]
    assert abs(full[0] / sum(full) - 0.75) < 0.02  # rows are full, but for the last ones


def test_packing_runs_in_processes() -> None:
    """ "Work that needs the CPU runs in threads only." """
    view = packs(texts_of(40))
    with sk.prefetch(view, 2, "process") as ahead:
        assert [row["tokens"].tolist() for row in ahead] == [row["tokens"].tolist() for row in view]


def test_a_source_that_is_inserted_leaves_the_numbers_of_the_others() -> None:
    """ "A child that is inserted into a mixture reseeds all later children." """

    def mixture(*names: str) -> sk.View[Any]:
        children = {name: sk.shuffle(packs(texts_of(60, seed=len(name))), seed=0) for name in names}
        named = {
            name: sk.smap(lambda row, name=name: (name, row["tokens"].tolist()), rows)
            for name, rows in children.items()
        }
        return sk.mix(named, seed=0, stop="all")

    before, after = mixture("web", "books"), mixture("code", "web", "papers", "books")
    for epoch in (0, 1):
        for name in ("web", "books"):
            found = [[row for key, row in each.at_epoch(epoch) if key == name] for each in (before, after)]
            assert found[0] == found[1]


def test_packs_resume_on_another_number_of_ranks() -> None:
    """ "A resume needs the same number of ranks." """
    view = packs(texts_of(100))

    def loaders(ranks: int) -> list[sk.DataLoader]:
        return [
            sk.DataLoader(
                view, 6 // ranks, sampler=sk.DistributedSampler(view, ranks, rank, seed=0, global_batch=6)
            )
            for rank in range(ranks)
        ]

    def steps(these: list[sk.DataLoader], n: int | None = None) -> list[list[Any]]:
        """Return the rows of each step of all ranks, whatever their order."""
        found = zip(*map(iter, these), strict=True)
        return [
            sorted(row.tolist() for batch in step for row in batch["tokens"]) for step in islice(found, n)
        ]

    expected = steps(loaders(1))
    begun = loaders(2)
    first = steps(begun, 3)
    resumed = loaders(3)
    for loader in resumed:
        loader.load_state_dict(begun[0].state_dict())
    assert first + steps(resumed) == expected


@pytest.mark.parametrize("ranks", [1, 3])
def test_json_lines_are_scanned_once_for_all_ranks(ranks: int, tmp_path: Path) -> None:
    """ "Each rank and worker scans the JSON lines." """
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(f"{json.dumps({'tokens': text.tolist()})}\n" for text in texts_of(50)))
    whole = list(sk.sources.jsonl(path, beside=True))  # writes an index, which all ranks find
    (index,) = set(tmp_path.iterdir()) - {path}
    written = index.stat().st_mtime_ns
    shares = [sk.shard(sk.sources.jsonl(path), rank, ranks, contiguous=False) for rank in range(ranks)]
    with sk.prefetch(shares[0], 2, "process") as ahead:
        assert list(ahead) == whole[::ranks]
    assert [shares[i % ranks][i // ranks] for i in range(50)] == whole
    assert index.stat().st_mtime_ns == written
    assert set(tmp_path.iterdir()) == {path, index}
