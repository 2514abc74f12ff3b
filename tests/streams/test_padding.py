"""Padding is what `pad_value` says, of the form of real chunks, and never changes other rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest

import seqkit as sk
from seqkit.streams import StreamLoader

from .model import KINDS

every_kind = pytest.mark.parametrize(("workers", "method"), KINDS)


def given(stream: list[Any]) -> list[Any]:
    return stream


def first(*streams: list[Any], rows: int | None = None, **options: Any) -> Any:
    """Return the data of the first batch of streams that are lists of chunks."""
    return next(iter(StreamLoader(streams, given, rows or len(streams) + 1, **options))).data


class Frame(NamedTuple):
    image: Any
    name: str


# -------------------------------------------------------------------- text, numbers, fields

MIXED: list[tuple[list[Any], list[Any]]] = [
    ([1, "a"], [1, "a"]),
    (["a", 1], ["a", 1]),
    ([1.5, None], [1.5, None]),
    ([[1, "a"], [2, "b"]], [[1, "a"], [2, "b"]]),
    ([[1, 2], ["a", "b"]], [[1, 2], ["a", "b"]]),
    ([[1, [2]], [3, [4]]], [[1, [2]], [3, [4]]]),
    ([b"a", "a"], [b"a", "a"]),
    ([2**70, 1], [2**70, 1]),
    ([[2**70], [1]], [[2**70], [1]]),
]


@pytest.mark.parametrize(("chunks", "expected"), MIXED, ids=str)
def test_numbers_beside_other_values_stay_what_they_are(chunks: list[Any], expected: list[Any]) -> None:
    found = first(*([chunk] for chunk in chunks), rows=len(chunks))
    assert list(found) == expected
    assert [type(part) for part in found] == [type(part) for part in expected]


def test_arrays_of_numbers_and_of_text_are_not_joined() -> None:
    number, text, time = np.array([1]), np.array(["a"]), np.array([0], "M8[s]")
    for one, other in ((number, text), (text, number), (number, time), (np.array([b"a"]), text)):
        found = first([one], [other], rows=2)
        assert [row.dtype for row in found] == [one.dtype, other.dtype]


def pandas_table(**columns: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


LOST: dict[str, tuple[Callable[[], list[Any]], str]] = {
    "mask": (lambda: [np.ma.masked_array([1, 2], [0, 1])] * 2, "is a masked array; fill it before"),
    "order of columns": (lambda: [pandas_table(x=[1], y=[2]), pandas_table(y=[2], x=[1])], "has the names"),
    "int beside float": (lambda: [np.array([2**60 + 1]), np.array([0.5])], "does not fit"),
    "int beside float in a list": (lambda: [[2**60 + 1, 1], [0.5, 1]], "does not fit"),
    "missing int": (
        lambda: [pandas_table(x=[1, 2])["x"].astype("Int64").where([True, False])] * 2,
        "missing",
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_what_an_array_would_not_keep_is_refused(name: str) -> None:
    make, text = LOST[name]
    with pytest.raises((TypeError, ValueError), match=text):
        first(*([chunk] for chunk in make()), rows=2)
    with pytest.raises((TypeError, ValueError), match=rf"chunks\[\d\]\['x'\].*{text}"):
        first(*([{"x": chunk}] for chunk in make()), rows=2)


def test_ints_stay_ints() -> None:
    data = first([np.array([2**60 + 1])], [np.array([1], np.uint64)], rows=2)
    assert data.tolist() == [[2**60 + 1], [1]]
    assert data.dtype == np.int64


def test_tables_are_padded() -> None:
    table = pandas_table(x=[1], y=[2])
    assert first([table], pad_value=7).tolist() == [[[1, 2]], [[7, 7]]]


def test_a_chunk_that_is_no_array_is_named() -> None:
    torch = pytest.importorskip("torch")
    for chunk in (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, requires_grad=True)):
        with pytest.raises(TypeError, match=r"chunk of type Tensor"):
            first([chunk])


def test_an_empty_list_does_not_turn_numbers_into_floats() -> None:
    data = first([[1, 2]], [[]], rows=2, pad_value=0)
    assert data.tolist() == [[1, 2], [0, 0]]
    assert data.dtype.kind == "i"


@pytest.mark.parametrize(
    ("chunk", "pad_value", "expected"),
    [
        ("abc", 0, ["abc", None]),
        (b"abc", 7, [b"abc", None]),
        (["to", "be"], 0, [["to", "be"], None]),
        (np.array([None, 2], object), 0, None),
        (np.array([3], "M8[s]"), np.datetime64("NaT"), None),
        ([1, 2], 7, [[1, 2], [7, 7]]),
        ({"x": np.array([1]), "name": "a"}, 3, {"x": [[1], [3]], "name": ["a", None]}),
        (Frame(np.array([1]), "a"), 9, Frame([[1], [9]], ["a", None])),  # type: ignore[arg-type]
        ((1, "a"), None, ([1, 0], ["a", None])),
    ],
    ids=str,
)
def test_rows_of_padding_are_what_the_pad_value_says(chunk: Any, pad_value: Any, expected: Any) -> None:
    found = first([chunk], pad_value=pad_value)
    if isinstance(found, list) and isinstance(chunk, np.ndarray):
        assert found[1] is None
    elif expected is None:
        assert np.isnat(found[1]).all()
    else:
        assert plain(found) == expected


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        parts = [plain(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_rows_of_padding_of_tensors_are_tensors() -> None:
    torch = pytest.importorskip("torch")
    (batch,) = StreamLoader([[torch.ones(2)]], given, 2, 0, torch.stack, pad_value=7)
    assert batch.data.tolist() == [[1, 1], [7, 7]]


@pytest.mark.parametrize(
    ("chunk", "pad_value"),
    [
        (np.array([1.0]), 1j),
        (np.array([1], np.float16), 1e6),
        (np.array([0], "M8[s]"), 0),
        (np.array([0], "m8[s]"), 0),
    ],
    ids=str,
)
def test_a_pad_value_is_never_changed_into_another_one(chunk: Any, pad_value: Any) -> None:
    with pytest.raises(ValueError, match="cannot hold pad_value="):
        first([chunk], pad_value=pad_value)


def test_a_pad_value_is_a_number() -> None:
    for pad_value in ([1], "", {"x": 0}, 2**70):
        with pytest.raises(TypeError, match="pad_value must be a number"):
            first([1], pad_value=pad_value)


def test_dicts_with_other_keys_are_refused() -> None:
    for one, other in (({"x": 1}, {"x": 1, "y": 2}), ({"x": 1, "y": 2}, {"x": 1}), ({"x": 1}, 3)):
        with pytest.raises(ValueError, match="dicts with different keys"):
            first([one], [other], rows=2)


def test_the_defaults_pad_with_zeros_and_fill_no_short_chunks() -> None:
    batches = list(StreamLoader([3, 1], range, 2))
    assert [batch.data.tolist() for batch in batches] == [[0, 0], [1, 0], [2, 0]]
    assert [batch.is_padding.tolist() for batch in batches] == [[False, False], [False, True], [False, True]]
    with pytest.raises(ValueError, match=r"have 1 to 2 steps\. Set pad_value"):
        first([np.zeros(2)], [np.zeros(1)], rows=2)
    assert first(["a"]) == ["a", None]


# -------------------------------------------------------------------- batches of padding only


def arrays(length: int) -> Iterator[np.ndarray]:
    if length == 99:
        raise OSError("cannot be opened")
    for chunk in range(length):
        yield np.full((2, 3), chunk, np.float32)


PADDED: dict[str, dict[str, Any]] = {
    "first stream fails": {"streams": [99, 2, 1], "on_error": "skip"},
    "last stream fails": {"streams": [2, 1, 99], "on_error": "skip"},
    "empty streams": {"streams": [0, 0, 2, 0]},
    "one-shot": {"streams": "iter"},
    "rank with empty streams": {"streams": [2, 0, 1, 0], "rank": 1, "world_size": 2},
    "rank with failing streams": {"streams": [2, 99, 1, 99], "rank": 1, "world_size": 2, "on_error": "skip"},
}


@every_kind
@pytest.mark.filterwarnings("ignore:StreamLoader. went on without:RuntimeWarning")
@pytest.mark.parametrize("name", PADDED)
def test_a_batch_of_padding_has_the_form_of_real_chunks(name: str, workers: int, method: Any) -> None:
    options = dict(PADDED[name])
    streams = options.pop("streams")
    streams = iter([2, 1]) if streams == "iter" else streams
    loader = StreamLoader(
        streams, arrays, 2, workers, pad_value=7, batches_per_epoch=5, method=method, **options
    )
    batches = list(loader)
    assert [batch.data.shape for batch in batches] == [(2, 2, 3)] * 5
    assert {batch.data.dtype for batch in batches} == {np.dtype(np.float32)}
    assert (batches[-1].data == 7).all()
    assert batches[-1].is_padding.all()


def test_no_stream_is_opened_again_for_its_form() -> None:
    opened = []

    def open_fn(length: int) -> Iterator[np.ndarray]:
        opened.append(length)
        return arrays(length)

    assert len(list(StreamLoader([2, 1], open_fn, 2, batches_per_epoch=6))) == 6
    assert opened == [2, 1]


@every_kind
def test_the_form_after_a_resume_is_that_of_the_first_chunk(workers: int, method: Any) -> None:
    def growing(length: int) -> Iterator[np.ndarray]:
        for chunk in range(length):
            yield np.full(5 - chunk, chunk)

    def make(workers: int = 0) -> StreamLoader:
        return StreamLoader([0, 3, 2], growing, 2, workers, pad_value=0, batches_per_epoch=5, method=method)

    whole = [batch.data.shape for batch in make()]
    loader = make()
    for _ in islice(loader, 1):
        pass
    other = make(workers)
    other.load_state_dict(loader.state_dict())
    assert [batch.data.shape for batch in other] == whole[1:]


def test_a_resumed_one_shot_iterator_pads_with_a_form_that_it_has_seen() -> None:
    loader = StreamLoader(iter([2, 2]), arrays, 2, batches_per_epoch=4)
    next(iter(loader))
    other = StreamLoader(iter([2, 2]), arrays, 2, batches_per_epoch=4)
    other.load_state_dict(loader.state_dict())
    assert [batch.data.shape for batch in other] == [(2, 2, 3)] * 3


@every_kind
@pytest.mark.parametrize("padding", ["value", "restart"])
def test_an_epoch_without_any_chunk_is_one_error(workers: int, method: Any, padding: Any) -> None:
    loader = StreamLoader(
        [0, 0], arrays, 2, workers, padding=padding, batches_per_epoch=3, method=method, pad_value=0
    )
    iterator = iter(loader)
    with pytest.raises(RuntimeError, match=r"StreamLoader: .*no(| stream has a) chunk"):
        next(iterator)
    assert list(iterator) == []


# -------------------------------------------------------------------- lengths


def test_batches_of_a_collate_fn_have_lengths() -> None:
    def ragged(sizes: list[int]) -> Iterator[dict[str, Any]]:
        yield from ({"name": "a", "x": np.zeros((size, 2))} for size in sizes)

    def clear(chunks: list[Any]) -> int:
        chunks.clear()
        return 0

    streams = [[3, 2], [4]]
    plain, own, emptied = (
        list(StreamLoader(streams, ragged, 2, 0, collate_fn, pad_value=0))
        for collate_fn in (None, list, clear)
    )
    for batches in (plain, own, emptied):
        assert [batch.lengths.tolist() for batch in batches] == [[3, 4], [2, 0]]
        assert [batch.mask.tolist() for batch in batches] == [batch.mask.tolist() for batch in plain]


def test_views_as_chunks_are_not_computed_for_their_length() -> None:
    def fail(i: int) -> int:
        raise AssertionError("computed")

    def open_fn(stream: int) -> list[Any]:
        return [sk.smap(fail, range(3))]

    assert next(iter(StreamLoader([0], open_fn, 2, 0, len, padding="drop_rows"))).data == 1
