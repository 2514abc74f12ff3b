"""The codec: every value comes back as it went in, and buffers lie where they should."""

from __future__ import annotations

import math
import pickle
import weakref
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqkit.core.buffers import INLINE_BYTES
from seqkit.engine.codec import ALIGNMENT, Block, Form, address, aligned, decode, encode
from seqkit.engine.pickling import dumps_by_value
from seqkit.engine.results import private

from ..helpers import for_each
from .values import DTYPES, LAYOUTS, filled, same, through_pickle, values

MARK = 0xAB  # what memory looks like that nobody has written


both_ways = pytest.mark.parametrize(
    "value", [lambda array: array, lambda array: [array, len]], ids=["outline", "pickle"]
)


class Sent(NamedTuple):
    """A value that has travelled, and how."""

    value: Any
    form: int
    moved: list[tuple[int, memoryview]]
    end: int
    buffers: int
    block: Block


def fresh(size: int) -> Block:
    block = private(size)
    block[:] = MARK
    return block


def send(value: Any, block: Block | None = None, used: int = 0, dumps: Any = None) -> Sent:
    """Send a value through a block; through one of exactly the size it needs, if there is none."""
    form, tail, moved, end, buffers = encode(value, block, used, dumps)
    block = fresh(end) if block is None else block
    for offset, buffer in moved:
        block[offset : offset + buffer.nbytes] = buffer
    return Sent(decode(form, tail, block), form, moved, end, buffers, block)


def in_place(count: int = 4000) -> tuple[Block, Any, int]:
    """Return a block, an array that lies in it, and how many bytes are used."""
    block = fresh(1 << 16)
    array = block[64 : 64 + 4 * count].view("i4")
    array[:] = np.arange(count)
    return block, array, 64 + array.nbytes


@settings(max_examples=200, deadline=None)
@given(value=values, used=st.integers(0, 300))
def test_a_value_comes_back_as_it_went_in_and_nothing_is_written_but_its_buffers(
    value: Any, used: int
) -> None:
    sent = send(value, used=used)
    assert same(sent.value, through_pickle(value))
    assert len(sent.moved) <= sent.buffers
    covered = used
    for offset, buffer in sent.moved:
        assert offset % ALIGNMENT == 0
        assert (sent.block[covered:offset] == MARK).all()
        covered = offset + buffer.nbytes
    assert covered == sent.end


@both_ways
@pytest.mark.parametrize("used", [0, 1 << 20, 1 << 60])
def test_without_a_block_no_buffer_is_in_place_wherever_the_heap_lies(value: Any, used: int) -> None:
    """The address of an array may be below the used length of a block that does not exist."""
    _, _, moved, end, buffers = encode(value(np.arange(4000)), None, used)
    assert [offset for offset, _ in moved] == [used]
    assert (end, buffers) == (used + 32000, 1)


@for_each("dtype", [d for d in DTYPES if np.dtype(d).kind not in "OMm"])
@for_each("layout", ["C", "Fortran"])
@for_each("writable", [True, False])
@for_each("shape", [(), (3, 2), (64, 130)])
def test_arrays_keep_dtype_layout_and_whether_they_can_be_written(
    dtype: Any, layout: str, writable: bool, shape: tuple[int, ...]
) -> None:
    array = LAYOUTS[layout](filled(dtype, shape))
    array.flags.writeable = writable
    sent, is_large = send(array), array.nbytes >= INLINE_BYTES
    assert same(sent.value, array)
    assert (sent.value.flags.writeable, sent.value.flags.fnc) == (writable, array.flags.fnc)
    assert (sent.buffers, np.shares_memory(sent.value, sent.block)) == (is_large, is_large)


@pytest.mark.parametrize("dtype", ["O", "M8[s]", "m8[us]"])
def test_arrays_that_numpy_gives_no_buffer_of_travel_in_the_pickle_and_are_writable(dtype: str) -> None:
    array = filled(dtype, (3000,))
    array.flags.writeable = False
    sent = send(array)
    assert same(sent.value, array)
    assert (sent.form, sent.value.flags.writeable) == (Form.PICKLE, True)


def test_padding_between_the_fields_of_an_array_is_kept() -> None:
    whole = np.arange(6000, dtype=np.uint8).view([("x", "i1"), ("y", "f8"), ("z", "3i2")])
    for array in whole[["x", "z"]], whole.reshape(20, -1)[["x", "z"]].T:
        assert send(array).value.tobytes("A") == array.tobytes("A")


def test_array_subclasses_come_back() -> None:
    masked = np.ma.masked_array(np.arange(2000), np.arange(2000) % 3 == 0)
    record = np.zeros(2000, [("x", "i4"), ("y", "f8")]).view(np.recarray)
    found = send([masked, record]).value
    assert [type(array) for array in found] == [type(masked), np.recarray]
    assert (found[0].mask == masked.mask).all()
    assert found[1].dtype == record.dtype


def test_tensors_lie_in_the_block_like_arrays() -> None:
    torch = pytest.importorskip("torch")
    block, array, used = in_place()
    value = [torch.from_numpy(array), torch.ones(50, 60, dtype=torch.bfloat16).T, torch.zeros(3)]
    sent = send(value, block, used)
    assert (sent.buffers, len(sent.moved)) == (2, 1)  # the first is there already
    assert sent.value[0].data_ptr() == address(array)
    for found, tensor in zip(sent.value, value, strict=True):
        assert torch.equal(found, tensor)
        assert (found.dtype, found.stride()) == (tensor.dtype, tensor.stride())


def test_functions_travel_by_value_with_cloudpickle() -> None:
    base = np.arange(3000)
    value = {"f": lambda x: x + base[7], "array": base}
    with pytest.raises((pickle.PicklingError, AttributeError)):
        encode(value)
    sent = send(value, dumps=dumps_by_value)
    assert sent.value["f"](1) == 8
    assert np.shares_memory(sent.value["array"], sent.block)


@pytest.mark.parametrize("value", [lambda: (yield), (i for i in "x"), memoryview(b"x")], ids=str)
def test_what_cannot_be_pickled_raises(value: Any) -> None:
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        encode([np.arange(1000), value])


# -------------------------------------------------------------------- buffers in place


@pytest.mark.parametrize("beside", [(), (object,)], ids=["outline", "pickle"])
def test_a_buffer_that_lies_in_the_block_is_not_copied(beside: Any) -> None:
    block, array, used = in_place()
    outside = np.arange(3000.0)
    value = [array.reshape(40, 100), array[100:], outside, *beside]
    sent = send(value, block, used)
    assert (sent.form, sent.buffers) == (Form.BUFFERS if beside else Form.OUTLINE, 3)
    assert [(at >= used, buffer.nbytes) for at, buffer in sent.moved] == [(True, outside.nbytes)]
    assert [address(found) for found in sent.value[:2]] == [address(array), address(array) + 400]
    assert same(sent.value, value)


@both_ways
def test_in_a_copy_of_the_block_arrays_lie_in_the_copy(value: Any) -> None:
    block, array, used = in_place()
    form, tail, *_ = encode(value(array), block, used)
    copy = block.copy()
    block[:] = 0
    found = decode(form, tail, copy)
    found = found if type(found) is np.ndarray else found[0]
    assert (found == np.arange(4000)).all()
    assert np.shares_memory(found, copy)


def test_overlapping_views_of_the_block_overlap_again() -> None:
    block, array, used = in_place()
    left, right = send((array[:3000], array[1000:]), block, used).value
    left[1000] = -1
    assert right[0] == -1


def test_overlapping_views_of_other_memory_come_back_whole() -> None:
    array = np.arange(4000)
    sent = send((array[:3000], array[1000:]))
    assert len(sent.moved) == 2
    assert same(sent.value, (array[:3000], array[1000:]))


def test_an_array_behind_the_used_part_of_the_block_is_copied() -> None:
    block, array, used = in_place()
    assert len(send(array, block, used - 1).moved) == 1  # nobody allocated it, so it may be written over
    assert len(send(array, block, used).moved) == 0


@both_ways
def test_decoded_arrays_are_all_that_keeps_the_block_alive(value: Any) -> None:
    form, tail, _, end, _ = encode(value(np.arange(1000)))
    block = np.zeros(end, np.uint8)
    gone = weakref.ref(block)
    found = decode(form, tail, block)
    part = (found if type(found) is np.ndarray else found[0])[10:]
    del block, found
    assert gone() is not None
    del part
    assert gone() is None


# -------------------------------------------------------------------- what needs no pickle


class Pair(NamedTuple):
    first: Any
    second: Any


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    "value",
    [
        *(0, 1 << 62, -(1 << 70), True, None, -0.0, math.inf, math.nan, 5e-324, "x", "\ud800", b"y" * 5000),
        *([], (), {}, [1, "a", None], (2.5, b"x"), {"a": 1, 2: "b", None: math.nan}),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_numbers_strings_and_flat_containers_of_them_are_marshalled(value: Any) -> None:
    sent = send(value)
    assert sent.form == Form.MARSHAL
    assert same(sent.value, value)


@for_each("dtype", "?bBhHiIlLqQefdgFDG")
@for_each("shape", [(), (0,), (3, 0, 2), (7,), (2, 3), (4096,), (5, 1, 1001)])
def test_arrays_of_numbers_are_outlined_and_writable(dtype: str, shape: tuple[int, ...]) -> None:
    array = filled(dtype, shape)
    sent = send(array, used=100)
    assert sent.form == Form.OUTLINE
    assert same(sent.value, array)
    sent.value[...] = 0


@pytest.mark.parametrize("sizes", [[5], [5000], [5000, 5], [5, 5000, 0, 7000]], ids=str)
def test_flat_containers_of_arrays_and_numbers_are_outlined_too(sizes: list[int]) -> None:
    parts = [np.arange(size, dtype=np.float32) for size in sizes] + [1, "label"]
    for value in parts, tuple(parts), dict(enumerate(parts)):
        sent = send(value)
        assert sent.form == Form.OUTLINE
        assert same(sent.value, value)


def read_only() -> Any:
    array = np.arange(10)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "value",
    [
        5j,
        Level.LOW,
        np.float64(1),
        {Level.LOW: 1},
        ([np.arange(5000)],),
        {"x": [np.arange(5)]},
        {(1, 2): np.arange(5)},
        filled(">f8", (5000,)),
        filled("M8[ns]", (5000,)),
        filled("S7", (5000,)),
        filled("O", (50,)),
        filled(DTYPES[-3], (5000,)),
        np.zeros(5, np.dtype("i4", metadata={"unit": "m"})),
        np.asfortranarray(filled("f4", (50, 60))),
        filled("f4", (5000,))[::2],
        np.broadcast_to(np.arange(5000), (2, 5000)),
        np.zeros(40001, np.uint8)[1:].view("f8"),
        np.arange(5000).view(np.recarray),
        Pair(np.arange(5000), 2),
        read_only(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_everything_else_is_pickled(value: Any) -> None:
    sent = send(value)
    assert sent.form in (Form.PICKLE, Form.BUFFERS)
    assert same(sent.value, through_pickle(value))


@pytest.mark.parametrize("size", [3, 5000])
def test_the_same_array_twice_is_one_array_again(size: int) -> None:
    array = np.arange(size)
    for value in [array, array], {"a": array, "b": array}, (array, 1, [array]):
        sent = send(value)
        first, *_, last = sent.value.values() if isinstance(value, dict) else sent.value
        assert first is (last[0] if isinstance(last, list) else last)
        assert sent.buffers == (size > 3)


@both_ways
@pytest.mark.parametrize("size", [INLINE_BYTES - 1, INLINE_BYTES])
def test_small_buffers_travel_inside_the_tail(value: Any, size: int) -> None:
    sent = send(value(np.full(size, 9, np.uint8)))
    assert sent.end == (aligned(size) == size) * size
    assert sent.buffers == (size >= INLINE_BYTES)
