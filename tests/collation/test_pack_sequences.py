"""`PackSequences` lays out the documents of a bin, and says which token belongs to which document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqkit as sk
from seqkit.collation import PackSequences

quick = settings(max_examples=100, derandomize=True, deadline=None, database=None)
documents = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=6)
NAMES = ["tokens", "segment_ids", "positions", "cu_seqlens", "labels"]


def texts_of(n: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, 1000, rng.integers(1, 40)) for _ in range(n)]


@quick
@given(documents, st.integers(0, 5))
def test_a_row_has_the_documents_one_after_the_other(texts: list[list[int]], room: int) -> None:
    total, capacity = sum(map(len, texts)), sum(map(len, texts)) + room
    row = PackSequences(capacity)(texts)
    assert [*row] == NAMES
    edges = row["cu_seqlens"][: len(texts) + 1]
    for number, text in enumerate(texts):
        part = slice(*edges[number : number + 2])
        assert row["tokens"][part].tolist() == text
        assert (row["segment_ids"][part] == number + 1).all()
        assert row["positions"][part].tolist() == [*range(len(text))]
        assert row["labels"][part].tolist() == [*text[1:], -100]
    assert (row["segment_ids"][total:] == 0).all()
    assert (row["labels"][total:] == -100).all()
    assert (row["cu_seqlens"][len(texts) :] == total).all()


@quick
@given(documents)
def test_cu_seqlens_agree_with_segment_ids_and_positions(texts: list[list[int]]) -> None:
    row = PackSequences(60, max_items=7)(texts)
    starts = np.flatnonzero((row["positions"] == 0) & (row["segment_ids"] > 0))
    assert row["cu_seqlens"][: len(texts)].tolist() == starts.tolist()
    assert np.diff(row["cu_seqlens"]).tolist() == np.bincount(row["segment_ids"], minlength=8)[1:].tolist()


def test_all_shapes_are_fixed() -> None:
    pack = PackSequences(40, max_items=5)
    shapes = [
        {name: (value.shape, value.dtype) for name, value in pack(texts).items()}
        for texts in ([[1]], [[1, 2], [3]], [[5] * 8] * 5)
    ]
    assert shapes[0] == shapes[1] == shapes[2]
    assert shapes[0]["cu_seqlens"] == ((6,), np.int32)
    assert PackSequences(40)([[1]])["cu_seqlens"].shape == (41,)


def test_further_fields_go_along() -> None:
    samples = [
        {"tokens": np.array([1, 2], np.uint16), "weight": [0.5, 0.25], "where": np.ones((2, 3), np.int8)},
        {"tokens": np.array([3], np.uint16), "weight": [0.75], "where": np.full((1, 3), 2, np.int8)},
    ]
    row = PackSequences(4, max_items=2, pad=9)(samples)
    assert row["tokens"].dtype == np.uint16
    assert row["tokens"].tolist() == [1, 2, 3, 9]
    assert row["weight"].tolist() == [0.5, 0.25, 0.75, 0]
    assert row["where"][:, 0].tolist() == [1, 1, 2, 0]
    assert row["where"].shape == (4, 3)


def test_labels_of_the_documents_take_the_place_of_the_next_tokens() -> None:
    samples = [{"tokens": [1, 2], "labels": np.array([7, 8], np.uint8)}, {"tokens": [3], "labels": [9]}]
    row = PackSequences(5, max_items=2)(samples)
    assert row["labels"].tolist() == [7, 8, 9, -100, -100]
    assert row["labels"].dtype == np.int64


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([[1, 2], [3, 4]], "2 documents of 4 tokens do not fit into capacity=3, max_items=2"),
        ([[1], [2], [3]], "3 documents of 3 tokens do not fit"),
        ([[1], []], r"'tokens' of batch\[1\] must be as long as its 0 tokens, and not empty, got 0"),
        (
            [{"tokens": [1, 2], "x": [1]}],
            r"'x' of batch\[0\] must be as long as its 2 tokens, and not empty, got 1",
        ),
        ([{"text": [1]}], r"documents must have a field 'tokens'.*got \['text'\]"),
        ([{"tokens": [1], "positions": [0]}], "none of .*'positions'"),
        ([{"tokens": [1]}, {"tokens": [1], "x": [1]}], r"batch\[1\] must be a dict of \['tokens'\]"),
        ([{"tokens": [1]}, [2]], r"batch\[1\] must be a dict of \['tokens'\]"),
        ([{"tokens": [1], "x": np.ones((1, 2))}, {"tokens": [1], "x": np.ones((1, 3))}], "has shape"),
    ],
)
def test_documents_that_do_not_fit_are_refused(samples: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"PackSequences: .*{message}"):
        PackSequences(3, max_items=2)(samples)


def test_documents_must_be_arrays_of_numbers() -> None:
    for samples in ([["a"]], [object()]):
        with pytest.raises(TypeError, match="PackSequences: batch"):
            PackSequences(3)(samples)
    with pytest.raises(TypeError):
        PackSequences(3)([5])


# -------------------------------------------------------------------- with bins and gather_groups


def packs(texts: Any, capacity: int = 64, **options: Any) -> sk.View[Any]:
    packed = sk.bins([len(text) for text in texts], capacity, **{"long": "split", "max_items": 9, **options})
    return sk.smap(PackSequences(capacity, max_items=9), sk.gather_groups(texts, packed))


def flat(rows: Any) -> list[Any]:
    return [{name: value.tolist() for name, value in row.items()} for row in rows]


def test_packs_by_index_are_those_of_an_iteration() -> None:
    view = packs(texts_of(200))
    assert flat(view[i] for i in range(len(view))) == flat(view)


@pytest.mark.parametrize("capacity", [1, 2, 7, 33, 64])
def test_every_token_is_in_one_pack(capacity: int) -> None:
    texts = texts_of(100)
    rows = [*packs(texts, capacity)]
    tokens = np.concatenate([row["tokens"][row["segment_ids"] > 0] for row in rows])
    assert np.array_equal(np.sort(tokens), np.sort(np.concatenate(texts)))


@pytest.mark.parametrize("workers", [0, 1, 2, 8])
def test_packs_are_equal_for_any_number_of_workers(workers: int) -> None:
    view = sk.shuffle(packs(texts_of(150), seed=3), seed=0)
    with sk.prefetch(view, workers, "thread") as ahead:
        assert flat(ahead) == flat(view)
        assert flat(ahead.at_epoch(2)) == flat(view.at_epoch(2))


def test_packs_are_equal_in_process_workers() -> None:
    view = sk.shuffle(packs(texts_of(60), seed=3), seed=0)
    with sk.prefetch(view, 2, "process") as ahead:
        assert flat(ahead) == flat(view)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_packs_of_all_ranks_are_those_of_one(ranks: int) -> None:
    view = sk.shuffle(packs(texts_of(150), seed=3), seed=0).at_epoch(1)
    shares = [flat(sk.shard(view, rank, ranks, contiguous=False)) for rank in range(ranks)]
    assert [shares[i % ranks][i // ranks] for i in range(len(view))] == flat(view)


def test_a_loader_of_packs_goes_on_where_its_state_was_saved() -> None:
    def loader() -> Any:
        return sk.DataLoader(packs(texts_of(150), seed=3), 4, shuffle=True, seed=0)

    whole = loader()
    batches = [batch["tokens"].tolist() for _ in range(2) for batch in whole]
    begun = loader()
    items = iter(begun)
    first = [next(items)["tokens"].tolist() for _ in range(3)]
    resumed = loader()
    resumed.load_state_dict(begun.state_dict())
    rest = [batch["tokens"].tolist() for _ in range(2) for batch in resumed]
    assert first + rest == batches
