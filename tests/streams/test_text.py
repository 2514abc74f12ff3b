"""Chunks of text and their targets, rows of a corpus, files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqkit.streams import StreamLoader, bptt, bptt_rows, files

kinds = pytest.mark.parametrize(
    "make", [np.asarray, list, tuple, iter], ids=["array", "list", "tuple", "iterator"]
)


@kinds
@pytest.mark.parametrize("n", range(12))
@pytest.mark.parametrize("length", [1, 2, 3, 20])
def test_every_token_but_the_first_is_a_target_once(make: Any, n: int, length: int) -> None:
    chunks = list(bptt(make(range(n)), length))
    inputs = [token for chunk, _ in chunks for token in chunk.tolist()]
    targets = [token for _, chunk in chunks for token in chunk.tolist()]
    assert inputs == list(range(max(n - 1, 0)))
    assert targets == [token + 1 for token in inputs]
    assert all(len(a) == len(b) == length for a, b in chunks[:-1])
    assert all(0 < len(a) == len(b) <= length for a, b in chunks)


@kinds
def test_a_last_chunk_is_kept_discarded_or_filled_up(make: Any) -> None:
    def shown(**options: Any) -> list[Any]:
        return [(a.tolist(), b.tolist()) for a, b in bptt(make(range(6)), 3, **options)]

    assert shown() == [([0, 1, 2], [1, 2, 3]), ([3, 4], [4, 5])]
    assert shown(last="discard") == [([0, 1, 2], [1, 2, 3])]
    assert shown(last="pad", pad_token=-1) == [([0, 1, 2], [1, 2, 3]), ([3, 4, 5], [4, 5, -1])]


@kinds
def test_chunks_can_begin_anywhere(make: Any) -> None:
    whole = [a.tolist() for a, _ in bptt(range(20), 3)]
    for start in range(9):
        assert [a.tolist() for a, _ in bptt(make(range(20)), 3, start=start)] == whole[start:]


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 30])
@pytest.mark.parametrize("n", [0, 1, 2, 21, 22, 23])
def test_rows_of_a_corpus_have_every_target_once(rows: int, n: int) -> None:
    for last, lost in (("keep", 0), ("discard", max(n - 1, 0) % rows), ("pad", 0)):
        parts = bptt_rows(range(n), rows, last=last, pad_token=-1)  # type: ignore[arg-type]
        assert len(parts) == rows
        targets = [token for part in parts for token in part[1:].tolist() if token >= 0]
        assert targets == list(range(1, n - lost))
        if last != "keep":
            assert len({len(part) for part in parts}) == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_go_on_from_batch_to_batch(workers: int) -> None:
    corpus = np.random.default_rng(0).integers(50, size=1000)
    loader = StreamLoader(
        bptt_rows(corpus, 4), partial(bptt, length=16), 4, workers, pad_value=-1, time_first=True
    )
    batches = list(loader)
    inputs, targets = (np.concatenate([batch.data[k] for batch in batches]) for k in range(2))
    assert inputs.shape[1] == 4
    per_row = 999 // 4
    for row in range(4):
        begin = row * per_row
        assert inputs[:per_row, row].tolist() == corpus[begin : begin + per_row].tolist()
        assert targets[:per_row, row].tolist() == corpus[begin + 1 : begin + per_row + 1].tolist()


def test_documents_of_any_length_are_streams() -> None:
    documents = [np.arange(n) + 100 * n for n in (5, 1, 0, 9, 2)]
    loader = StreamLoader(documents, partial(bptt, length=4), 2, 1, pad_value=-1)
    seen = [
        (int(stream), token)
        for batch in loader
        for stream, tokens, mask in zip(batch.stream, batch.data[1], batch.mask, strict=True)  # type: ignore[arg-type]
        for token in tokens[mask].tolist()
    ]
    assert sorted(seen) == [(i, int(token)) for i, document in enumerate(documents) for token in document[1:]]


def test_bad_arguments_are_refused() -> None:
    for refused, text in (
        (lambda: bptt([1], 0), "length must be a positive int"),
        (lambda: bptt([1], 2, last="drop"), "last must be 'keep', 'discard' or 'pad'"),
        (lambda: bptt([1], 2, last="pad"), "last='pad' needs pad_token"),
        (lambda: bptt_rows([1], 2, last="pad"), "last='pad' needs pad_token"),
        (lambda: bptt_rows([1], 0), "rows must be a positive int"),
        (lambda: files(), "at least one pattern"),
    ):
        with pytest.raises(ValueError, match=text):
            refused()
    with pytest.raises(TypeError, match="tokens must be iterable"):
        bptt(3, 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="one dimension, got 2"):
        bptt_rows(np.zeros((2, 2)), 1)


def test_files_come_in_natural_order_and_once(tmp_path: Path) -> None:
    for name in ("a10.txt", "a2.txt", "a2b.txt", "b1.log", "a1.txt"):
        (tmp_path / name).touch()
    (tmp_path / "a3.txt").mkdir()

    def names(*patterns: str) -> Iterator[str]:
        return (Path(path).name for path in files(*(tmp_path / pattern for pattern in patterns)))

    assert list(names("*.txt")) == ["a1.txt", "a2.txt", "a2b.txt", "a10.txt"]
    assert list(names("*.log", "a1*", "*.txt")) == ["b1.log", "a1.txt", "a10.txt", "a2.txt", "a2b.txt"]
    with pytest.raises(ValueError, match=r"no file matches .*\.gif"):
        files(tmp_path / "*.gif")
