"""Where a `StreamLoader` goes on: states, epochs, shuffled orders, shards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqkit import shuffle
from seqkit.streams import StreamLoader
from seqkit.streams.lanes import count_batches

from .model import KINDS, batches, numbers, rows_of, shown

every_kind = pytest.mark.parametrize(("workers", "method"), KINDS)

LENGTHS = [4, 2, 0, 6, 3, 5, 1, 1]


def seekable(length: int, start: int = 0) -> Iterator[int]:
    return islice(numbers(length), start, None)


@every_kind
@pytest.mark.parametrize("padding", ["value", "restart", "drop_rows"])
@pytest.mark.parametrize(("open_fn", "resume"), [(numbers, None), (seekable, "start")])
def test_a_state_goes_on_exactly_with_other_workers(
    workers: int, method: Any, padding: Any, open_fn: Any, resume: Any
) -> None:
    expected = batches([[*numbers(n)] for n in LENGTHS], 3, padding, -1)
    for done in (1, len(expected) - 1) if workers else range(len(expected) + 1):
        first = StreamLoader(LENGTHS, open_fn, 3, 0, padding=padding, pad_value=-1, resume=resume)
        for _ in islice(first, done):
            pass
        state = json.loads(json.dumps(first.state_dict()))
        second = StreamLoader(
            LENGTHS, open_fn, 3, workers, padding=padding, pad_value=-1, method=method, resume=resume
        )
        second.load_state_dict(state)
        assert second.state_dict() == state
        assert shown(second) == expected[done:]
        assert second.epoch == 1


def test_a_state_of_workers_goes_on_without_them() -> None:
    expected = batches([[*numbers(n)] for n in LENGTHS], 3, "value", -1)
    loader = StreamLoader(LENGTHS, numbers, 3, 2, pad_value=-1)
    iterator = iter(loader)
    for done in range(1, len(expected) + 1):
        next(iterator)
        other = StreamLoader(LENGTHS, numbers, 3, 0, pad_value=-1)
        other.load_state_dict(loader.state_dict())
        assert shown(other) == expected[done:]


def test_streams_that_begin_at_a_chunk_are_not_read_again() -> None:
    started = []

    def open_fn(length: int, start: int = 0) -> Iterator[int]:
        started.append((length, start))
        return seekable(length, start)

    loader = StreamLoader([9, 9], open_fn, 2, pad_value=0, resume="start")
    for _ in islice(loader, 5):
        pass
    other = StreamLoader([9, 9], open_fn, 2, pad_value=0, resume="start")
    other.load_state_dict(loader.state_dict())
    started.clear()
    assert next(iter(other)).chunk.tolist() == [5, 5]
    assert started == [(9, 5), (9, 5)]


@every_kind
def test_lines_of_files_go_on(workers: int, method: Any, tmp_path: Path) -> None:
    for k in range(3):
        (tmp_path / str(k)).write_bytes(b"".join(b"%d %d\n" % (k, line) for line in range(5 + k)))
    paths = sorted(map(str, tmp_path.iterdir()))

    def lines(path: str) -> Any:
        return open(path, "rb")

    def read(loader: StreamLoader) -> list[Any]:
        return [(batch.data, batch.chunk.tolist()) for batch in loader]

    whole = read(StreamLoader(paths, lines, 2, padding="drop_rows"))
    loader = StreamLoader(paths, lines, 2, workers, padding="drop_rows", method=method)
    for _ in islice(loader, 3):
        pass
    state = loader.state_dict()
    assert state["lanes"][0] == [0, 3, False]
    other = StreamLoader(paths, lines, 2, workers, padding="drop_rows", method=method)
    other.load_state_dict(state)
    assert read(other) == whole[3:]


def test_the_state_after_an_error_repeats_no_row_and_loses_none() -> None:
    def broken(length: int) -> Iterator[int]:
        for chunk, number in enumerate(numbers(length)):
            if length == 6 and chunk == 1:
                raise OSError
            yield number

    loader = StreamLoader([3, 3, 6, 2], broken, 3, pad_value=-1, on_error="raise")
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(RuntimeError):
        next(iterator)
    other = StreamLoader([3, 3, 6, 2], broken, 3, pad_value=-1)
    other.load_state_dict(loader.state_dict())
    expected = batches([[*numbers(3)], [*numbers(3)], [6000], [*numbers(2)]], 3, "value", -1)[1:]
    assert shown(iterator) == expected
    assert shown(other) == expected


def test_endless_streams_go_on_too() -> None:
    def streams() -> Iterator[int]:
        n = 0
        while True:
            n += 1
            yield n % 4

    loader = StreamLoader(streams(), numbers, 3, 2, pad_value=0)
    iterator = iter(loader)
    for _ in range(9):
        next(iterator)
    state = loader.state_dict()
    expected = [rows_of(next(iterator)) for _ in range(9)]
    iterator.close()
    other = StreamLoader(streams(), numbers, 3, 1, pad_value=0)
    other.load_state_dict(state)
    again = iter(other)
    assert [rows_of(next(again)) for _ in range(9)] == expected
    again.close()


def test_states_of_other_loaders_are_refused() -> None:
    loader = StreamLoader(LENGTHS, numbers, 3, pad_value=0)
    with pytest.raises(TypeError, match="a state is a dict with version, seed, "):
        loader.load_state_dict({"epoch": 3})
    for name, other in {
        "batch_size": StreamLoader(LENGTHS, numbers, 2, pad_value=0),
        "streams": StreamLoader(LENGTHS[1:], numbers, 3, pad_value=0),
        "padding": StreamLoader(LENGTHS, numbers, 3, padding="stop"),
        "seed": StreamLoader(LENGTHS, numbers, 3, pad_value=0, shuffle=True),
    }.items():
        with pytest.raises(ValueError, match=f"the state is of a loader with {name}="):
            loader.load_state_dict(other.state_dict())


@pytest.mark.parametrize(
    ("rank", "world_size", "name"), [(1, 2, "rank"), (0, 4, "world_size"), (0, 1, "world_size")]
)
def test_the_state_of_a_rank_is_refused_on_another_one_with_the_remedy(
    rank: int, world_size: int, name: str
) -> None:
    def loader(rank: int, world_size: int) -> StreamLoader:
        return StreamLoader(
            LENGTHS, numbers, 2, pad_value=0, rank=rank, world_size=world_size, lengths=LENGTHS
        )

    saved, other = loader(0, 2), loader(rank, world_size)
    for _ in islice(saved, 2):
        pass
    state = saved.state_dict()
    assert (state["rank"], state["world_size"]) == (0, 2)
    remedy = (
        rf"with {name}=.* save the state of each rank, and load it there, or begin epoch 1 with set_epoch"
    )
    with pytest.raises(ValueError, match=remedy):
        other.load_state_dict(state)
    other.set_epoch(1)
    assert other.epoch == 1


def test_a_refused_state_changes_nothing() -> None:
    loader = StreamLoader([2] * 9, numbers, 2, padding="drop_rows", shuffle=True)
    before = loader.state_dict()
    other = StreamLoader([2] * 8, numbers, 2, padding="drop_rows", shuffle=True)
    with pytest.raises(ValueError, match="the state is of a loader with streams=8"):
        loader.load_state_dict(other.state_dict())
    assert loader.state_dict() == before


# -------------------------------------------------------------------- epochs and orders


def seen(loader: StreamLoader) -> list[int]:
    """Return the streams of an epoch in the order in which they begin."""
    return [
        int(stream)
        for batch in loader
        for stream, is_first, is_padding in zip(batch.stream, batch.is_first, batch.is_padding, strict=True)
        if is_first and not is_padding
    ]


@every_kind
def test_orders_are_shuffled_anew_every_epoch_from_the_seed(workers: int, method: Any) -> None:
    streams = [1] * 40
    loader = StreamLoader(
        streams, numbers, 4, workers, padding="drop_rows", shuffle=True, seed=5, method=method
    )
    first, second = seen(loader), seen(loader)
    assert sorted(first) == sorted(second) == list(range(40))
    assert first != second
    assert streams == [1] * 40
    again = StreamLoader(streams, numbers, 4, padding="drop_rows", shuffle=True, seed=5)
    assert (seen(again), seen(again)) == (first, second)
    again.set_epoch(1)
    assert seen(again) == second


def test_a_loader_without_a_seed_takes_that_of_the_state() -> None:
    loader = StreamLoader([2] * 9, numbers, 2, padding="drop_rows", shuffle=True)
    iterator = iter(loader)
    next(iterator)
    other = StreamLoader([2] * 9, numbers, 2, padding="drop_rows", shuffle=True)
    other.load_state_dict(loader.state_dict())
    assert shown(other) == shown(iterator)
    assert seen(other) == seen(loader)  # the next epoch too


@pytest.mark.parametrize("padding", ["value", "restart", "stop"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_ranks_share_the_streams_and_make_the_same_number_of_batches(padding: Any, shuffle: bool) -> None:
    lengths = [7, 1, 0, 2, 9, 3, 3, 1, 1, 8, 2]
    loaders = [
        StreamLoader(
            lengths,
            numbers,
            2,
            padding=padding,
            pad_value=-1,
            shuffle=shuffle,
            seed=1,
            rank=rank,
            world_size=3,
            lengths=lengths,
        )
        for rank in range(3)
    ]
    for _ in range(3):
        expected = len(loaders[0])
        epochs = [shown(loader) for loader in loaders]
        assert [len(epoch) for epoch in epochs] == [expected] * 3
        chunks = [(row[1], row[2]) for epoch in epochs for batch in epoch for row in batch if not row[4]]
        assert len(set(chunks)) == len(chunks)
        if padding != "stop":
            assert len(chunks) == sum(lengths)


def test_ranks_can_be_told_how_many_batches_to_make() -> None:
    loaders = [
        StreamLoader([9, 1, 1, 1], numbers, 2, pad_value=-1, rank=rank, world_size=2, batches_per_epoch=4)
        for rank in range(2)
    ]
    long, short = (shown(loader) for loader in loaders)
    assert len(long) == len(short) == 4
    assert all(row[4] for row in short[-1])
    assert [len(loader) for loader in loaders] == [4, 4]


def test_a_rank_that_goes_on_from_its_padding_knows_what_padding_looks_like() -> None:
    loader = StreamLoader([9, 1], numbers, 2, pad_value=-1, rank=1, world_size=2, batches_per_epoch=6)
    whole = shown(loader)
    loader = StreamLoader([9, 1], numbers, 2, pad_value=-1, rank=1, world_size=2, batches_per_epoch=6)
    for _ in islice(loader, 3):
        pass
    other = StreamLoader([9, 1], numbers, 2, 1, pad_value=-1, rank=1, world_size=2, batches_per_epoch=6)
    other.load_state_dict(loader.state_dict())
    assert shown(other) == whole[3:]


def test_endless_streams_have_epochs_of_any_length() -> None:
    def streams() -> Iterator[int]:
        while True:
            yield 2

    loader = StreamLoader(streams(), numbers, 2, 1, pad_value=0, batches_per_epoch=5)
    assert len(loader) == len(list(loader)) == 5


@pytest.mark.parametrize(
    ("told", "text"), [([3, 2, 4], "stream 1 has 3 chunks, but"), ([3, 3, 3], "longer than")]
)
def test_wrong_lengths_are_an_error(told: list[int], text: str) -> None:
    loader = StreamLoader([3, 3, 4], numbers, 2, pad_value=0, lengths=told)
    with pytest.raises(ValueError, match=text):
        list(loader)


def test_the_number_of_batches_follows_from_lengths() -> None:
    lengths = [3, 1, 0, 2, 5, 0, 0, 7, 1, 1, 4]
    streams = [[*numbers(n)] for n in lengths]
    for rows in range(1, 13):
        for padding in ("value", "restart", "drop_rows", "stop"):
            assert count_batches(lengths, rows, padding) == len(batches(streams, rows, padding))
    assert len(StreamLoader(lengths, numbers, 3, pad_value=0, lengths=lengths)) == len(
        batches(streams, 3, "value")
    )
    with pytest.raises(TypeError, match="pass lengths or batches_per_epoch"):
        len(StreamLoader(lengths, numbers, 3, pad_value=0))


def test_a_list_of_streams_in_another_order_than_before_is_refused() -> None:
    first, second = (
        StreamLoader(shuffle(range(9)), lambda n: [np.array(n)] * 3, 2, pad_value=0) for _ in range(2)
    )
    list(islice(first, 2))
    state = first.state_dict()
    with pytest.raises(ValueError, match="the list of streams has another order"):
        second.load_state_dict(state)
    first.load_state_dict(state)
