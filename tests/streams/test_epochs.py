"""Epochs reach the streams and their chunks. A pass that an earlier one has used up is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import pytest

import seqkit as sk
from seqkit.streams import StreamLoader

from .model import KINDS


class SameGenerator:
    """Gives one generator to all passes."""

    def __init__(self) -> None:
        self.items = (x * x for x in range(10))

    def __iter__(self) -> Iterator[int]:
        return self.items

    def __call__(self, *_: Any) -> Iterator[int]:
        return self.items


PASSES: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "uniter": lambda given: partial(list, sk.uniter(given)),
    "open_fn": lambda given: partial(list, StreamLoader([0], given, 1)),
    "streams": lambda given: partial(list, StreamLoader(given, range, 2)),
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


class Told:
    """A data set that has `set_epoch`."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(range(10 * self.epoch, 10 * self.epoch + 10))


EPOCHS: list[Callable[[], Any]] = [
    lambda: sk.uniter(range(20)).shuffle_buffer(10, seed=0),
    lambda: sk.uniter(range(20)).shuffle_buffer(10, seed=0).smap(str).filter(len).batch(2).skip(1),
    lambda: sk.shuffle(range(20), seed=0).smap(str),
    lambda: sk.shuffle(range(20), seed=0).skip(2).smap(str),
    lambda: sk.uniter(Told()).batch(3),
    Told,
]


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
