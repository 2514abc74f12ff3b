"""`StreamLoader`: arguments, batches, padding, collation."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
import pytest

import seqkit as sk
from seqkit.streams import StreamLoader

from ..helpers import Numbers, for_each, mostly_stress
from .model import KINDS, batches, numbers, shown

every_kind = pytest.mark.parametrize(("workers", "method"), KINDS)


def steps(stream: tuple[int, ...]) -> Iterator[np.ndarray]:
    """One array for each number, with as many steps."""
    for chunk, length in enumerate(stream):
        yield np.full((length, 2), 10 * sum(stream) + chunk, np.float32)


def drawn(stream: int) -> Iterator[int]:
    yield int(np.random.randint(1 << 30))


def test_workers_have_other_random_numbers_in_every_epoch() -> None:
    with StreamLoader([0], drawn, 1, 1, padding="stop", seed=0) as loader:
        first, second = ([batch.data.item() for batch in loader] for _ in range(2))
    assert first != second


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"open_fn": 3}, TypeError, "open_fn must be callable, got 3"),
    ({"batch_size": 0}, ValueError, "batch_size must be a positive int, got 0"),
    ({"num_workers": -1}, ValueError, "num_workers must be an int of at least 0"),
    ({"padding": "zeros"}, ValueError, "padding must be one of 'value', 'restart', 'drop_rows', 'stop'"),
    ({"on_error": "ignore"}, ValueError, "on_error must be one of 'raise', 'skip'"),
    ({"timeout": 1}, ValueError, "timeout needs workers"),
    ({"timeout": -1, "num_workers": 1}, ValueError, "timeout must be a number of seconds above 0"),
    ({"method": "dask"}, ValueError, "method must be one of 'process', 'thread'"),
    (
        {"method": "thread", "multiprocessing_context": "fork", "num_workers": 1},
        ValueError,
        "is for processes",
    ),
    ({"shm_size": 8, "num_workers": 1}, ValueError, "shm_size must be 0 or at least"),
    ({"max_buffered": 0}, ValueError, "max_buffered must be a positive int"),
    ({"rank": 1}, ValueError, "rank must be below world_size 1, got 1"),
    ({"world_size": 2}, ValueError, "Pass lengths or batches_per_epoch"),
    ({"world_size": 9, "batches_per_epoch": 3}, ValueError, "9 ranks need at least as many streams"),
    (
        {"world_size": 2, "padding": "drop_rows", "lengths": [1] * 5},
        ValueError,
        "cannot give all ranks the same",
    ),
    ({"lengths": [1]}, ValueError, "lengths has 1 numbers, but there are 5 streams"),
    ({"lengths": [1] * 5, "batches_per_epoch": 2}, ValueError, "contradicts lengths"),
    ({"padding": "stop", "batches_per_epoch": 2}, ValueError, "contradicts padding='stop'"),
    ({"streams": 5}, TypeError, "streams must be a sequence or an iterable, got 5"),
    (
        {"streams": "log.txt"},
        TypeError,
        "of streams, got the text 'log.txt'. For a single",
    ),
    ({"streams": {1, 2}}, TypeError, "streams: a set has no order, got set"),
    ({"streams": iter([1]), "padding": "restart"}, TypeError, "restart' needs streams with a length"),
    ({"streams": count(), "shuffle": True}, TypeError, "shuffle needs streams with a length"),
    ({"streams": sk.cycle([1]), "shuffle": True}, TypeError, "shuffle needs streams with a length"),
    ({"streams": count(), "strict": True}, TypeError, "strict needs streams with a length"),
    ({"batch_size": 6, "strict": True}, ValueError, "5 streams cannot fill 6 rows"),
    ({"seed": -1}, ValueError, "seed must be an int of at least 0"),
    (
        {"shuffle": True, "world_size": 2, "batches_per_epoch": 4},
        ValueError,
        "shuffle with several ranks needs a seed",
    ),
]


@for_each(("arguments", "error", "text"), REFUSED)
def test_bad_arguments_are_refused_before_anything_starts(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        StreamLoader(**{"streams": [1] * 5, "open_fn": numbers, "batch_size": 2, "pad_value": 0, **arguments})


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_or_dict_is_not_taken_for_an_iterable_of_chunks(library: str) -> None:
    table = pytest.importorskip(library).DataFrame({"x": [1, 2]})
    for opened in [table]:
        with pytest.raises(sk.EvaluationError, match="open_fn must return an iterable of chunks"):
            list(StreamLoader([1], lambda stream, opened=opened: opened, 1))
    (batch,) = StreamLoader([1], lambda stream: [table], 1, collate_fn=list)
    assert batch.data[0].equals(table)


@every_kind
@pytest.mark.parametrize(
    "streams", [[], [0, 0, 0], iter(()), range(0)], ids=["none", "empty", "iterator", "range"]
)
@pytest.mark.parametrize("padding", ["value", "restart", "drop_rows", "stop"])
def test_no_chunk_gives_no_batch(workers: int, method: Any, streams: Any, padding: Any) -> None:
    if padding == "restart" and isinstance(streams, Iterator):
        streams = list(streams)
    loader = StreamLoader(streams, numbers, 3, workers, padding=padding, pad_value=0, method=method)
    assert list(loader) == []


@every_kind
def test_fewer_streams_than_rows_are_padded_and_flagged(workers: int, method: Any) -> None:
    loader = StreamLoader([2, 1], numbers, 4, workers, pad_value=-1, method=method)
    first, second = loader
    assert first.data.tolist() == [2000, 1000, -1, -1]
    assert first.is_padding.tolist() == [False, False, True, True]
    assert second.stream.tolist() == [0, -1, -1, -1]


@every_kind
@pytest.mark.parametrize("endless", [count(3), sk.cycle([3])], ids=["iterator", "view"])
def test_streams_may_be_endless(workers: int, method: Any, endless: Any) -> None:
    iterator = iter(StreamLoader(endless, lambda n: range(3), 2, workers, pad_value=0, method=method))
    found = [batch.stream.tolist() for batch in islice(iterator, 7)]
    assert found == [[0, 1]] * 3 + [[2, 3]] * 3 + [[4, 5]]
    iterator.close()  # type: ignore[attr-defined]


@every_kind
def test_streams_without_a_length_serve_many_epochs(workers: int, method: Any) -> None:
    class Lengths:
        def __iter__(self) -> Iterator[int]:
            yield from [4, 1, 2]

    loader = StreamLoader(Lengths(), numbers, 2, workers, pad_value=-1, method=method)
    expected = batches([[*numbers(n)] for n in [4, 1, 2]], 2, "value", -1)
    assert shown(loader) == expected
    assert shown(loader) == expected


def test_an_iterator_of_streams_serves_one_epoch() -> None:
    loader = StreamLoader(iter([1, 2]), numbers, 2, pad_value=0)
    assert len(list(loader)) == 2
    with pytest.raises(RuntimeError, match="an epoch has read already"):
        iter(loader)


@every_kind
def test_an_error_of_the_streams_comes_where_the_stream_is_needed(workers: int, method: Any) -> None:
    def streams() -> Iterator[int]:
        yield from [2, 2, 1]
        raise OSError("the directory is gone")

    iterator = iter(StreamLoader(streams(), numbers, 2, workers, pad_value=0, method=method))
    assert [next(iterator).stream.tolist() for _ in range(2)] == [[0, 1], [0, 1]]
    with pytest.raises(sk.EvaluationError, match="the directory is gone"):
        next(iterator)
    assert [batch.stream.tolist() for batch in iterator] == [[2, -1]]


def test_views_are_streams_that_workers_compute() -> None:
    paths = sk.smap(lambda n: n + 1, [1, 2, 0])
    assert shown(StreamLoader(paths, numbers, 2, 2, pad_value=-1)) == batches(
        [[*numbers(n)] for n in [2, 3, 1]], 2, "value", -1
    )


# -------------------------------------------------------------------- collation

PAIR = [(4, 4), (3,), (4, 2)]


@every_kind
def test_short_chunks_are_filled_up_and_masked(workers: int, method: Any) -> None:
    first, second, third = StreamLoader(PAIR, steps, 2, workers, pad_value=-1, method=method)
    data, mask = first.data, first.mask
    assert data.shape == (2, 4, 2)
    assert data.dtype == np.float32
    assert (data[0] == 80).all()
    assert (data[1, :3] == 30).all()
    assert (data[1, 3] == -1).all()
    assert mask.tolist() == [[True] * 4, [True] * 3 + [False]]
    assert second.mask.all()
    assert (third.data[0] == -1).all()
    assert third.is_padding.tolist() == [True, False]
    assert third.mask.sum() == 2


def test_chunks_of_different_lengths_are_refused_without_a_pad_value() -> None:
    iterator = iter(StreamLoader(PAIR, steps, 2, padding="drop_rows"))
    with pytest.raises(ValueError, match=r"3 to 4 steps\. Set pad_value"):
        next(iterator)
    assert next(iterator).data.shape == (2, 4, 2)  # only that batch is lost


@pytest.mark.parametrize(
    ("pad_value", "kind"), [(float("nan"), np.int64), (0.5, np.int32), (-1, np.uint8), (2, np.bool_)], ids=str
)
def test_a_pad_value_that_chunks_cannot_hold_is_refused(pad_value: float, kind: Any) -> None:
    def ones(lengths: list[int]) -> Iterator[np.ndarray]:
        yield from (np.ones(length, kind) for length in lengths)

    for streams in ([[2], [3]], [[2]]):  # a short chunk, and a row of padding
        iterator = iter(StreamLoader(streams, ones, 2, pad_value=pad_value))
        with pytest.raises(
            ValueError, match=rf"chunks of {np.dtype(kind)} cannot hold pad_value={pad_value}"
        ):
            next(iterator)
    floats = StreamLoader([[2]], lambda n: [np.ones(n, np.float16)], 2, pad_value=pad_value)
    assert next(iter(floats)).data.dtype == np.float16


def test_other_axes_must_agree() -> None:
    loader = StreamLoader([2, 3], lambda n: [np.zeros((4, n))], 2, pad_value=0)
    with pytest.raises(ValueError, match="Only the first axis may differ"):
        next(iter(loader))


class Frame(NamedTuple):
    image: Any
    time: float


@every_kind
def test_structures_are_stacked_part_by_part(workers: int, method: Any) -> None:
    def frames(name: str) -> Iterator[dict[str, Any]]:
        for k in range(len(name)):
            yield {"frame": Frame(np.full((3, 2), k, np.uint8), k / 2), "ids": [k, k], "name": name}

    loader = StreamLoader(["ab", "cde"], frames, 2, workers, pad_value=9, method=method)
    *_, batch = loader
    assert isinstance(batch.data["frame"], Frame)
    assert batch.data["frame"].image.shape == (2, 3, 2)
    assert batch.data["frame"].image.dtype == np.uint8
    assert batch.data["frame"].image[0].tolist() == [[9, 9]] * 3
    assert batch.data["frame"].time.tolist() == [9, 1]
    assert batch.data["ids"].tolist() == [[9, 9], [2, 2]]
    assert batch.data["name"] == [None, "cde"]
    assert batch.mask.tolist() == [[False] * 3, [True] * 3]


def test_tuples_of_different_lengths_are_refused() -> None:
    loader = StreamLoader([1, 2], lambda n: [(0,) * n], 2, pad_value=0)
    with pytest.raises(ValueError, match="tuples of different lengths"):
        next(iter(loader))


@every_kind
def test_a_collate_fn_gets_the_chunks_in_the_order_of_the_rows(workers: int, method: Any) -> None:
    loader = StreamLoader([2, 1], numbers, 3, workers, list, pad_value=-1, method=method)
    assert [(batch.data, batch.mask.tolist()) for batch in loader] == [
        ([2000, 1000, -1], [True, True, False]),
        ([2001, -1, -1], [True, False, False]),
    ]


def test_a_failing_collate_fn_costs_its_batch() -> None:
    def total(chunks: list[int]) -> int:
        if 2001 in chunks:
            raise OSError("no space")
        return sum(chunks)

    iterator = iter(StreamLoader([3, 3], numbers, 1, 0, total, pad_value=0))
    assert next(iterator).data == 3000
    loader = StreamLoader([2, 2], numbers, 1, 0, total, pad_value=0)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(OSError, match="no space"):
        next(iterator)
    assert next(iterator).stream.tolist() == [1]


# -------------------------------------------------------------------- workers


@pytest.mark.parametrize("method", ["thread", "process"])
def test_workers_know_their_number_and_call_the_hook_with_it(method: Any) -> None:
    def who(stream: int) -> Iterator[tuple[int, int, int]]:
        info = sk.get_worker_info()
        assert info is not None
        yield info.id, info.num_workers, hooked[0]

    hooked: list[int] = [-1]

    def hook(worker: int) -> None:
        if method == "process":
            hooked[0] = worker

    loader = StreamLoader(range(20), who, 4, 3, padding="drop_rows", method=method, worker_init_fn=hook)
    rows = [row for batch in loader for row in zip(*map(np.ndarray.tolist, batch.data), strict=True)]
    assert {(worker, workers) for worker, workers, _ in rows} <= {(0, 3), (1, 3), (2, 3)}
    assert len({worker for worker, _, _ in rows}) > 1
    if method == "process":
        assert all(worker == told for worker, _, told in rows)


def test_a_loader_without_workers_opens_no_stream_ahead_of_need() -> None:
    opened = []

    def open_fn(n: int) -> Iterator[int]:
        opened.append(n)
        return numbers(n)

    iterator = iter(StreamLoader([3, 1, 2, 5], open_fn, 2, pad_value=0))
    next(iterator)
    assert opened == [3, 1]
    next(iterator)
    assert opened == [3, 1, 2]


def test_a_closed_loader_refuses_further_epochs() -> None:
    with StreamLoader([1], numbers, 1, pad_value=0) as loader:
        assert repr(loader) == "StreamLoader(<1 streams>, numbers, 1, num_workers=0)"
    with pytest.raises(RuntimeError, match="the loader is closed"):
        iter(loader)


@pytest.mark.parametrize("context", mostly_stress("forkserver", "spawn"))
def test_every_start_method_gives_the_same(context: Any) -> None:
    loader = StreamLoader(
        [3, 1, 2], lambda n: numbers(n), 2, 2, pad_value=-1, multiprocessing_context=context
    )
    assert shown(loader) == batches([[*numbers(n)] for n in [3, 1, 2]], 2, "value", -1)


def test_arrays_of_processes_belong_to_the_consumer() -> None:
    loader = StreamLoader([(9000,) * 6] * 3, steps, 2, 2, list, padding="drop_rows")
    kept = list(loader)
    for batch in kept:
        for chunk, number in zip(batch.data, batch.chunk, strict=True):
            assert (chunk == 540000 + number).all()
            chunk[:] = 0


@pytest.mark.parametrize("workers", [{}, {"num_workers": 1}, {"num_workers": 1, "method": "thread"}])
def test_streams_that_follow_the_epoch_are_told_it(workers: Any) -> None:
    with StreamLoader(Numbers(), lambda stream: [stream], 4, padding="drop_rows", **workers) as loader:
        found = [[batch.data.tolist() for batch in loader] for _ in range(2)]
    assert found == [[[0, 1, 2, 3]], [[100, 101, 102, 103]]]


def seed_worker(worker: int) -> None:
    import torch

    np.random.seed(torch.initial_seed() % 2**32)


def draws_of_opening(stream: int) -> Any:
    return [np.array([np.random.rand(), random.random()]) for _ in range(3 + stream % 2)]


def draws_of_chunks(stream: int) -> Iterator[Any]:
    for _ in range(3 + stream % 2):
        yield np.array([np.random.rand(), random.random()])


def read_draws(streams: Any, open_fn: Any, workers: int, **options: Any) -> list[Any]:
    """Return the numbers that are drawn in two epochs, padding left out."""
    with StreamLoader(streams, open_fn, 3, workers, pad_value=0, seed=3, **options) as loader:
        return [float(n) for _ in range(2) for batch in loader for n in batch.data.ravel() if n]


@pytest.mark.parametrize(
    ("streams", "open_fn"),
    [(range(5), draws_of_opening), (lambda: iter(range(5)), draws_of_chunks)],
    ids=["sequence", "iterable"],
)
def test_chunks_draw_the_same_for_any_worker_processes_and_others_than_each_other(
    streams: Any, open_fn: Any
) -> None:
    listed = Anew(streams) if callable(streams) else streams
    runs = [read_draws(listed, open_fn, workers) for workers in (1, 2, 5)]
    assert runs[0] == runs[1] == runs[2]
    assert len({*runs[0]}) == len(runs[0]) == 2 * (3 * 3 + 2 * 4) * 2
    before = random.getstate(), np.random.get_state()[1].tobytes()
    read_draws(listed, open_fn, 0)
    assert (random.getstate(), np.random.get_state()[1].tobytes()) != before  # no seeds in this process
    assert read_draws(listed, open_fn, 0) != read_draws(listed, open_fn, 0)


class Anew:
    """Streams that can only be iterated, and any number of times."""

    def __init__(self, begin: Any) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[int]:
        return self._begin()


def test_ranks_draw_other_numbers() -> None:
    shares = [
        read_draws(range(6), draws_of_chunks, 1, rank=rank, world_size=2, batches_per_epoch=4)
        for rank in range(2)
    ]
    assert not {*shares[0]} & {*shares[1]}


def shuffled_chunks(stream: int) -> Iterator[Any]:
    order = list(range(4))
    random.shuffle(order)
    for chunk in order:
        yield np.array([10 * stream + chunk, np.random.rand()])


@pytest.mark.parametrize(
    ("open_fn", "options"),
    [
        (draws_of_chunks, {"shuffle": True}),
        (draws_of_chunks, {"seed": 3}),
        (shuffled_chunks, {}),
        (shuffled_chunks, {"shuffle": True, "seed": 3}),
    ],
)
def test_a_resumed_epoch_draws_what_is_left_of_it(open_fn: Any, options: dict[str, Any]) -> None:
    def loader(workers: int) -> Any:
        return StreamLoader(range(5), open_fn, 3, workers, pad_value=0, **options)

    with loader(2) as whole:
        batches = iter(whole)
        first = next(batches)
        state = whole.state_dict()
        wanted = [batch.data.tolist() for batch in batches]
    assert first.data.tolist() not in wanted
    with loader(1) as rest:
        rest.load_state_dict(state)
        assert [batch.data.tolist() for batch in rest] == wanted


def test_chunks_draw_the_same_where_worker_init_fn_seeds() -> None:
    pytest.importorskip("torch")
    runs = [read_draws(range(5), draws_of_chunks, n, worker_init_fn=seed_worker) for n in (1, 2)]
    assert runs[0] == runs[1] == read_draws(range(5), draws_of_chunks, 2)
