"""Lazy streams: a new pass for every `iter`, nothing read before it is needed, errors that cost one item."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, count, islice
from typing import Any

import pytest

import seqkit as sk
from seqkit.streams import Stream, StreamLoader, shuffle_buffer
from tests.engine.traces import drawn
from tests.helpers import InterruptsOnce, for_each

from .model import KINDS


def squares() -> Iterator[int]:
    for x in range(10):
        yield x * x


@pytest.mark.parametrize("source", [squares, [*squares()], sk.smap(lambda x: x * x, range(10))], ids=str)
def test_every_iter_is_a_new_pass(source: Any) -> None:
    stream = Stream(source)
    assert list(stream) == list(stream) == [x * x for x in range(10)]
    first, second = iter(stream), iter(stream)
    assert [next(first), next(first), next(second)] == [0, 1, 0]


def test_transforms_are_lazy_and_equal_to_eager_ones() -> None:
    calls = []

    def negative(x: int) -> int:
        calls.append(x)
        return -x

    stream = Stream(squares).smap(negative).filter(lambda x: x % 2 == 0).batch(2)
    assert calls == []
    iterator = iter(stream)
    assert next(iterator) == [0, -4]
    assert calls == [0, 1, 4]
    assert [[0, -4], *iterator] == list(stream) == [[0, -4], [-16, -36], [-64]]


def test_a_pass_begins_with_iter_not_with_next() -> None:
    begun = []

    class Source:
        def __iter__(self) -> Iterator[int]:
            begun.append(True)
            return iter(range(3))

    iterator = iter(Stream(Source()).smap(abs).filter(bool).batch(1).shuffle_buffer(2, seed=0))
    assert begun == [True]
    assert sorted(iterator) == [[1], [2]]


@pytest.mark.parametrize("step", [lambda s: s, lambda s: s.smap(abs), lambda s: s.batch(2).shuffle_buffer(3)])
def test_a_one_shot_iterator_is_refused_a_second_pass(step: Any) -> None:
    stream = step(Stream(iter([1, 2, 3, 4])))
    assert len(list(stream)) in (2, 4)
    with pytest.raises(RuntimeError, match="the source is an iterator, which an earlier pass has read"):
        iter(stream)


@pytest.mark.parametrize(
    ("method", "expected"), [("smap", [0, 1, 4, "error", 16]), ("filter", [1, 2, "error", 4])]
)
@pytest.mark.parametrize("error", [ValueError("bad"), StopIteration(), IndexError()], ids=repr)
def test_an_error_costs_one_item(method: str, expected: list[Any], error: Exception) -> None:
    def f(x: int) -> int:
        if x == 3:
            raise error
        return x * x

    found = drawn(iter(getattr(Stream(range(5)), method)(f)))
    assert ["error" if isinstance(item, Exception) else item for item in found] == expected
    (failure,) = [item for item in found if isinstance(item, Exception)]
    assert isinstance(failure, sk.EvaluationError)
    assert failure.index == 3
    assert failure.__cause__ is error
    with sk.errstate("passthrough"):
        (failure,) = [
            item for item in drawn(iter(getattr(Stream(range(5)), method)(f))) if isinstance(item, Exception)
        ]
    assert failure is error or isinstance(error, StopIteration)


def test_batches() -> None:
    assert list(Stream(range(5)).batch(2)) == [[0, 1], [2, 3], [4]]
    assert list(Stream(range(5)).batch(2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(Stream(range(4)).batch(2)) == [[0, 1], [2, 3]]
    assert list(Stream([]).batch(2)) == []
    assert list(Stream(range(4)).batch(2, collate_fn=sum)) == [1, 5]
    assert [*islice(Stream(lambda: count()).batch(2), 2)] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("size", [1, 2, 7, 300, 5000])
@pytest.mark.parametrize("n", [0, 1, 6, 1000])
def test_a_shuffle_buffer_gives_every_item_once_in_an_order_of_its_seed(size: int, n: int) -> None:
    shuffled = shuffle_buffer(range(n), size, seed=3)
    order = list(shuffled)
    assert sorted(order) == list(range(n))
    assert order == list(shuffled) == list(shuffle_buffer(range(n), size, seed=3))
    assert all(item - place < size for place, item in enumerate(order))
    assert (size == 1) == (order == list(range(n))) or n < 2
    if n == 1000 and size > 1:
        assert order != list(shuffle_buffer(range(n), size, seed=4))
        assert order != list(shuffle_buffer(range(n), size, seed=3, epoch=1))


def test_all_orders_of_a_full_buffer_are_about_as_likely() -> None:
    seen: dict[tuple[int, ...], int] = {}
    for seed in range(1200):
        order = tuple(shuffle_buffer(range(3), 3, seed))
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6
    assert all(140 < times < 260 for times in seen.values())


def test_a_shuffle_buffer_goes_on_after_an_error_of_its_source() -> None:
    found = drawn(iter(shuffle_buffer(Stream(range(1, 8)).smap(lambda x: 1 / (x - 4)), 3, seed=0)))
    assert len([item for item in found if isinstance(item, sk.EvaluationError)]) == 1
    assert len(found) == 7


def test_a_shuffle_buffer_of_what_never_ends() -> None:
    assert len(set(islice(shuffle_buffer(lambda: count(), 100, seed=0), 1000))) == 1000


def test_parts_have_all_items_between_them() -> None:
    parts = [list(Stream(squares).split(part, 3)) for part in range(3)]
    assert sorted(chain.from_iterable(parts)) == list(squares())
    with pytest.raises(ValueError, match="rank must be below world_size 3, got 3"):
        Stream(squares).split(3, 3)


@pytest.mark.parametrize("method", ["thread", "process"])
def test_views_lie_above_streams_and_streams_above_views(method: Any) -> None:
    stream = Stream(squares).smap(lambda x: x + 1).batch(2)
    view = sk.uniter(stream, size=5)
    assert view[1] == [5, 10]
    with sk.prefetch(view, 1, method) as ahead:
        assert list(ahead) == list(Stream(ahead)) == list(stream)


def test_streams_are_picklable_where_their_functions_are() -> None:
    stream = Stream(squares).smap(abs).batch(3).shuffle_buffer(2, seed=1)
    assert list(pickle.loads(pickle.dumps(stream))) == list(stream)


class SameGenerator:
    """Gives one generator to all passes."""

    def __init__(self) -> None:
        self.items = squares()

    def __iter__(self) -> Iterator[int]:
        return self.items

    def __call__(self, *_: Any) -> Iterator[int]:
        return self.items


PASSES: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "stream of a function": lambda given: partial(list, Stream(given.__call__)),
    "stream of an iterable": lambda given: partial(list, Stream(given).smap(abs)),
    "uniter": lambda given: partial(list, sk.uniter(given)),
    "open_fn": lambda given: partial(list, StreamLoader([0], given, 1)),
    "streams": lambda given: partial(list, StreamLoader(given, range, 2)),
    "count_chunks": lambda given: partial(sk.streams.count_chunks, [0], given),
    "data set": lambda given: partial(list, sk.DataLoader(given, 2)),
    "data set of the reader": lambda given: partial(list, sk.DataLoader(given, 2, iterable_split="reader")),
}


@pytest.mark.parametrize("name", PASSES)
def test_a_generator_that_has_ended_is_no_empty_pass(name: str) -> None:
    read = PASSES[name](SameGenerator())
    assert read()
    with pytest.raises(RuntimeError, match="the generator has ended: an earlier pass has read it"):
        read()


def test_two_streams_cannot_have_one_iterator() -> None:
    with pytest.raises(sk.EvaluationError, match="open_fn returned the iterator of another stream"):
        list(StreamLoader([0, 1], SameGenerator(), 2))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_is_not_taken_for_an_iterable_of_its_columns(library: str) -> None:
    table = pytest.importorskip(library).DataFrame({"x": [1, 2, 3]})
    for stream in (Stream(table), Stream(lambda: table), Stream(table).smap(str)):
        with pytest.raises((TypeError, sk.EvaluationError), match="iterating a DataFrame gives its columns"):
            list(stream)
    with pytest.raises(TypeError, match="uniter: iterating a DataFrame gives its columns"):
        sk.uniter(table)
    assert len(list(Stream(sk.view(table)))) == 3
    with pytest.raises(sk.EvaluationError, match="open_fn must return an iterable of chunks"):
        sk.streams.count_chunks([0], lambda stream: table)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="source must be an iterable"):
        Stream(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="smap: f must be callable"):
        Stream([]).smap(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="filter: predicate must be callable"):
        Stream([]).filter(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch: k must be a positive int"):
        Stream([]).batch(0)
    with pytest.raises(ValueError, match="shuffle_buffer: size must be a positive int"):
        shuffle_buffer([], 0)


def test_repr_shows_the_steps() -> None:
    assert repr(Stream([1]).smap(abs).batch(2)) == "Stream(batch of Stream(smap(abs, Stream(list))))"
    assert repr(Stream(squares)) == "Stream(squares)"


def _failing_at(bad: int, count: int) -> Any:
    def check(x: int) -> int:
        if x == bad:
            raise ValueError(x)
        return x

    return Stream(range(count)).smap(check)


def test_a_failing_item_costs_a_batch_no_other_item() -> None:
    read = drawn(iter(_failing_at(4, 9).batch(3)), Exception)
    assert [item for item in read if isinstance(item, list)] == [[0, 1, 2], [3, 5, 6], [7, 8]]
    assert isinstance(read[1], sk.EvaluationError)


@pytest.mark.parametrize("step", [lambda s: s, lambda s: s.filter(lambda x: x >= 0)])
def test_a_failing_item_is_an_error_of_its_part(step: Any) -> None:
    for part, items in [(0, [0, 2, "error", 6, 8]), (1, [1, 3, 5, 7])]:
        read = drawn(iter(step(_failing_at(4, 9)).split(part, 2)), Exception)
        assert ["error" if isinstance(item, sk.EvaluationError) else item for item in read] == items


def test_a_part_calls_no_function_for_items_of_others() -> None:
    called: list[int] = []
    assert list(Stream(range(9)).smap(called.append).split(1, 3)) == [None] * 3
    assert called == [1, 4, 7]


def test_errors_of_the_source_come_in_every_part() -> None:
    def broken() -> Iterator[int]:
        yield from range(3)
        raise OSError("socket closed")

    for part in range(5):
        with pytest.raises(OSError, match="socket closed"):
            list(Stream(broken).smap(abs).split(part, 5))


# -------------------------------------------------------------------- errors, skip, epochs


def invert(x: int) -> float:
    return 1 / x


def is_even_or_fails(x: int) -> bool:
    return 6 % x == 0


STEPS: dict[str, tuple[Callable[[], Any], int, Any]] = {
    "smap": (lambda: Stream([1, 0, 2]).smap(invert), 1, 0),
    "filter": (lambda: Stream([3, 0, 2]).filter(is_even_or_fails), 1, 0),
    "after a filter": (
        lambda: Stream(range(6)).filter(lambda x: x % 2 == 0).smap(lambda x: 1 // (x - 4)),
        2,
        4,
    ),
    "in a batch": (lambda: Stream([1, 2, 0, 3]).smap(invert).batch(2), 2, 0),
    "skipped": (lambda: Stream([7, 1, 0, 2]).smap(invert).skip(1), 2, 0),
    "source": (lambda: Stream(lambda: iter([1, 0])).smap(invert), 1, 0),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_hints_of_an_error_work(name: str) -> None:
    make, index, item = STEPS[name]
    with pytest.raises(sk.EvaluationError, match="to reproduce: error") as caught:
        list(make())
    error = caught.value
    assert error.index == index
    assert error.inputs() == [item]
    with pytest.raises(sk.EvaluationError, match="ZeroDivisionError"):
        error.view[index]


def test_an_error_of_a_one_shot_source_says_why_it_cannot_be_reproduced() -> None:
    with pytest.raises(sk.EvaluationError) as caught:
        list(Stream(iter([0])).smap(invert))
    with pytest.raises(RuntimeError, match="an earlier pass has read"):
        caught.value.inputs()


SKIPPED: list[Callable[[], Any]] = [
    lambda: Stream(range(20)),
    lambda: Stream(lambda: iter(range(20))),
    lambda: Stream(sk.smap(abs, range(20))),
    lambda: Stream(sk.shuffle(range(20), seed=0)),
    lambda: Stream(sk.filter(lambda x: x % 3, range(20))),
    lambda: Stream(sk.uniter(lambda: iter(range(20)))).smap(str),
    lambda: Stream(range(20)).smap(str),
    lambda: Stream(range(20)).filter(lambda x: x % 3).smap(str),
    lambda: Stream(range(20)).smap(str).batch(3),
    lambda: Stream(range(20)).smap(str).batch(3, drop_last=True).smap(len),
    lambda: Stream(range(20)).smap(str).split(1, 3),
    lambda: Stream(range(20)).shuffle_buffer(5, seed=0).smap(str),
    lambda: Stream(range(20)).skip(3).smap(str).skip(2),
    lambda: Stream(Stream(range(20)).smap(str)),
]


@pytest.mark.parametrize("make", SKIPPED)
def test_skip_leaves_out_the_first_items(make: Callable[[], Any]) -> None:
    whole = list(make())
    for left_out in (0, 1, 4, len(whole), len(whole) + 2):
        assert list(make().skip(left_out)) == whole[left_out:]
    with pytest.raises(ValueError, match="skip: n must be an int of at least 0"):
        make().skip(-1)


def test_an_item_that_fails_can_be_skipped() -> None:
    for stream in (Stream([1, 0, 2]).smap(invert), Stream([2, 0, 1]).filter(is_even_or_fails)):
        assert len(list(stream.skip(2))) == 1


def by_epoch(make: Callable[[], Any]) -> list[str]:
    found = []
    for epoch in (0, 1, 0):
        stream = make()
        stream.set_epoch(epoch)
        found.append(str(list(stream)))
        assert found[-1] == str(list(stream))
    return found


class Told:
    """A data set that has `set_epoch`."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(range(10 * self.epoch, 10 * self.epoch + 10))


EPOCHS: list[Callable[[], Any]] = [
    lambda: Stream(range(20)).shuffle_buffer(10, seed=0),
    lambda: Stream(range(20)).shuffle_buffer(10, seed=0).smap(str).filter(len).batch(2).split(0, 2).skip(1),
    lambda: Stream(sk.shuffle(range(20), seed=0)).smap(str),
    lambda: Stream(sk.shuffle(range(20), seed=0)).skip(2).smap(str),
    lambda: Stream(Told()).batch(3),
    lambda: Stream(Stream(Told())),
]


@pytest.mark.parametrize("make", EPOCHS)
def test_the_epoch_reaches_every_step(make: Callable[[], Any]) -> None:
    first, second, again = by_epoch(make)
    assert first != second
    assert first == again == str(list(make()))


@pytest.mark.parametrize(("workers", "method"), KINDS[:4:3])
@pytest.mark.parametrize("make", EPOCHS)
def test_a_loader_tells_the_epoch_to_what_open_fn_returns(
    make: Callable[[], Any], workers: int, method: Any
) -> None:
    loader = StreamLoader([0, 0], lambda n: make(), 2, workers, str, padding="drop_rows", method=method)
    first, second = ([batch.data for batch in loader] for _ in range(2))
    assert first != second
    loader.set_epoch(0)
    assert [batch.data for batch in loader] == first
    loader.set_epoch(1)
    for _ in islice(loader, 2):
        pass
    other = StreamLoader([0, 0], lambda n: make(), 2, 0, str, padding="drop_rows")
    other.load_state_dict(loader.state_dict())
    assert [batch.data for batch in other] == second[2:]


@pytest.mark.parametrize("make", EPOCHS)
def test_a_loader_tells_the_epoch_to_its_streams(make: Callable[[], Any]) -> None:
    loader = StreamLoader(make(), lambda x: [str(x)], 1)
    first, second = (str([batch.data for batch in loader]) for _ in range(2))
    assert first != second
    loader.set_epoch(0)
    assert str([batch.data for batch in loader]) == first


def test_lengths_of_streams_in_another_order_in_each_epoch_are_refused() -> None:
    with pytest.raises(ValueError, match=r"lengths belong to streams in one order.*shuffle=True"):
        StreamLoader(sk.shuffle([1, 2], seed=0), range, 1, lengths=[1, 2])
    StreamLoader(sk.smap(abs, [1, 2]), range, 1, lengths=[1, 2])


# -------------------------------------------------------------------- Ctrl-C


INTERRUPTED: list[Callable[[Stream[int], Callable[[int], int]], Stream[Any]]] = [
    lambda stream, f: stream.smap(f),
    lambda stream, f: stream.smap(f).smap(lambda x: x),
    lambda stream, f: stream.filter(lambda x: f(x) % 3 < 2),
    lambda stream, f: stream.smap(f).batch(3),
    lambda stream, f: stream.filter(lambda x: f(x) >= 0).skip(5),
    lambda stream, f: stream.filter(lambda x: f(x) >= 0).split(1, 2),
    lambda stream, f: Stream(sk.smap(f, range(10))).filter(lambda x: x % 2),
]


@for_each("step", INTERRUPTED)
@for_each("at", range(10))
def test_after_ctrl_c_in_a_step_an_iterator_is_over_and_says_so(step: Any, at: int) -> None:
    items = iter(step(Stream(range(10)), InterruptsOnce(at)))
    with pytest.raises(KeyboardInterrupt):
        list(items)
    with pytest.raises(RuntimeError):
        next(items)
