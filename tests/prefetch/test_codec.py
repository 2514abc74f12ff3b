"""The codec: every value comes back as it went in, and buffers lie where they should."""

from __future__ import annotations

import math
import pickle
import struct
import weakref
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqkit.prefetch.codec import ALIGNMENT, INLINE_BYTES, Block, Frame, address, aligned, decode, encode
from seqkit.prefetch.pickling import dumps_by_value

MARK = 0xAB  # what memory looks like that nobody has written

DTYPES = [
    *"?bBhHiIlLqQefdgFDG",
    ">i2",
    ">f8",
    "S7",
    "U3",
    "V5",
    "M8[ns]",
    "m8[D]",
    np.dtype([("x", "i4"), ("y", ">f8", (2,)), ("name", "S3")]),
    np.dtype([("a", "u1"), ("b", "f8")], align=True),
    "O",
]


def filled(dtype: Any, shape: tuple[int, ...], seed: int) -> Any:
    """Return an array of arbitrary but valid content."""
    dtype = np.dtype(dtype)
    count = math.prod(shape)
    numbers = np.random.default_rng(seed).integers(0, 100, count)
    if dtype.hasobject:
        array = np.empty(count, object)
        array[:] = [(int(k), str(k)) if k % 2 else None for k in numbers]
    elif dtype.kind in "SUV" or dtype.names:
        array = np.zeros(count, dtype)
        array.view(np.uint8).reshape(-1)[::4] = 65 + seed % 20
    else:
        array = numbers.astype(dtype)
    return array.reshape(shape)


LAYOUTS = {
    "C": lambda array: array,
    "Fortran": lambda array: np.asfortranarray(array),
    "transposed": lambda array: array.T,
    "every other": lambda array: array[..., ::2] if array.ndim else array,
    "reversed": lambda array: array[::-1] if array.ndim else array,
    "repeated": lambda array: np.broadcast_to(array, (2, *array.shape)),
}


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    dtype = draw(st.sampled_from(DTYPES))
    # Around the size above which buffers travel beside the pickle, and all the corner cases below it.
    shape = draw(
        st.sampled_from([(), (0,), (3, 0, 2), (1,), (7,), (2, 3), (4095,), (4096,), (64, 65), (5, 1, 1001)])
    )
    array = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](filled(dtype, shape, draw(st.integers(0, 99))))
    if draw(st.booleans()):
        array = array[...]
        array.flags.writeable = False
    return array


leaves = st.one_of(
    arrays(),
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers(),
    st.text(max_size=5),
    st.integers(0, 20_000).map(lambda n: bytes(n)),
    st.integers(0, 20_000).map(lambda n: bytearray(b"x" * n)),
    st.sampled_from([np.float32(2.5), np.datetime64("2020-01-01"), np.bool_(True), range(3), ...]),
)
nested = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    ),
    max_leaves=8,
)
# What workers send are the values and the failures of a job, most often of one item.
values = nested | st.one_of(nested, st.lists(arrays(), max_size=3)).map(lambda value: ([value], {}))


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        if a.dtype.names:  # their padding is nobody's
            return all(same(a[name], b[name]) for name in a.dtype.names)
        if a.dtype.hasobject:
            return bool(a.tolist() == b.tolist())
        return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return bool(a == b) or (a != a and b != b)


def through_pickle(value: Any) -> Any:
    """Return what plain pickle makes of a value: numpy turns scattered arrays to native byte order."""
    return pickle.loads(pickle.dumps(value, protocol=5))


def fresh(size: int) -> Block:
    """Return memory aligned like a slot."""
    memory = np.full(size + ALIGNMENT, MARK, np.uint8)
    skip = -address(memory) % ALIGNMENT
    return memory[skip : skip + size]


def ship(value: Any, used: int = 0, **options: Any) -> tuple[Any, Frame, Block]:
    """Send a value through a block of exactly the size it needs."""
    frame = encode(value, fresh(aligned(used)), used, **options)
    block = fresh(aligned(frame.end))
    frame.write(block)
    return decode(block, frame.head, frame.end), frame, block


@settings(max_examples=150, deadline=None)
@given(value=values, used=st.integers(0, 300))
def test_a_value_comes_back_as_it_went_in(value: Any, used: int) -> None:
    result, frame, block = ship(value, used)
    assert same(result, through_pickle(value))
    assert frame.end <= len(block)


@settings(max_examples=150, deadline=None)
@given(value=values, used=st.integers(0, 300))
def test_nothing_is_written_outside_the_frame(value: Any, used: int) -> None:
    _, frame, block = ship(value, used)
    assert (block[:used] == MARK).all()
    assert (block[frame.end :] == MARK).all()
    covered = used
    for offset, buffer in frame.moved:
        assert offset >= covered
        covered = offset + buffer.nbytes
    assert covered <= frame.head < frame.end


@settings(max_examples=100, deadline=None)
@given(value=values, used=st.integers(0, 300))
def test_the_stream_is_the_frame(value: Any, used: int) -> None:
    own = fresh(aligned(used))
    frame = encode(value, own, used)
    stream = np.frombuffer(b"".join(frame.stream(own)), np.uint8)
    assert len(stream) == frame.end
    block = fresh(aligned(frame.end))
    frame.write(block)
    for offset, buffer in frame.moved:
        assert (stream[offset : offset + buffer.nbytes] == block[offset : offset + buffer.nbytes]).all()
    assert (stream[frame.head :] == block[frame.head : frame.end]).all()
    assert (stream[:used] == own[:used]).all()
    assert same(decode(stream.copy(), frame.head, frame.end), through_pickle(value))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if np.dtype(d).kind not in "OMm"], ids=str)
@pytest.mark.parametrize("layout", ["C", "Fortran"])
@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("shape", [(), (3, 2), (64, 130)])
def test_arrays_keep_dtype_layout_and_whether_they_can_be_written(
    dtype: Any, layout: str, writable: bool, shape: tuple[int, ...]
) -> None:
    array = LAYOUTS[layout](filled(dtype, shape, 1))
    array.flags.writeable = writable
    result, frame, block = ship(array)
    assert same(result, array)
    assert result.flags.writeable == writable
    assert result.flags.f_contiguous == array.flags.f_contiguous
    assert frame.placed == (array.nbytes >= INLINE_BYTES)
    assert np.shares_memory(result, block) == (array.nbytes >= INLINE_BYTES)


@pytest.mark.parametrize("dtype", ["O", "M8[s]", "m8[us]"])
def test_arrays_that_numpy_gives_no_buffer_of_travel_in_the_pickle_and_are_writable(dtype: str) -> None:
    array = filled(dtype, (3000,), 1)
    array.flags.writeable = False
    result, frame, _ = ship(array)
    assert same(result, array)
    assert frame.placed == 0
    assert result.flags.writeable


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(INLINE_BYTES, 3 * INLINE_BYTES), min_size=1, max_size=5),
    used=st.integers(0, 99),
)
def test_every_placed_buffer_is_aligned(sizes: list[int], used: int) -> None:
    result, frame, block = ship([np.full(size, 1, np.uint8) for size in sizes], used)
    assert frame.placed == len(sizes) == len(frame.moved)
    for array in result:
        assert (address(array) - address(block)) % ALIGNMENT == 0
        assert address(array) % ALIGNMENT == 0


def in_place(block: Block, dtype: Any, count: int, used: int = 0) -> tuple[Any, int]:
    """Allocate like the arena of a worker; return array and bytes used."""
    at = aligned(used)
    end = at + count * np.dtype(dtype).itemsize
    return block[at:end].view(dtype), end


def two_in_place() -> tuple[Block, Any, Any, int]:
    """Return a block, two arrays that lie in it one behind the other, and how many bytes are used."""
    block = fresh(1 << 16)
    first, used = in_place(block, "f4", 2000)
    second, used = in_place(block, "i8", 1000, used)
    first[:], second[:] = np.arange(2000), np.arange(1000)
    return block, first, second, used


def test_a_buffer_that_lies_in_the_block_is_not_copied() -> None:
    block, first, second, used = two_in_place()
    outside = np.arange(3000.0)
    value = {
        "batch": first.reshape(20, 100),
        "part": second[100:900],
        "other": outside,
        "turned": first[::-1],
    }
    frame = encode(value, block, used)
    assert frame.placed == 3  # a reversed array is no buffer, it travels in the pickle
    assert [buffer.nbytes for _, buffer in frame.moved] == [outside.nbytes]
    assert frame.moved[0][0] >= used
    frame.write(block)
    result = decode(block, frame.head, frame.end)
    assert np.shares_memory(result["batch"], first)
    assert address(result["part"]) == address(second) + 800
    assert not np.shares_memory(result["other"], outside)
    assert same(result, value)


def test_decoding_a_copy_of_the_block_gives_arrays_over_the_copy() -> None:
    block = fresh(1 << 14)
    array, used = in_place(block, "f8", 600)
    array[:] = np.arange(600)
    frame = encode([array], block, used)
    frame.write(block)
    copy = block.copy()
    block[:] = 0
    (result,) = decode(copy, frame.head, frame.end)
    assert (result == np.arange(600)).all()
    assert np.shares_memory(result, copy)


def test_the_stream_of_a_block_that_is_too_small_holds_what_lay_in_it() -> None:
    block = fresh(8192)
    array, used = in_place(block, "u1", 8000)
    array[:] = np.arange(8000) % 251
    extra = np.arange(5000)
    frame = encode((array, extra), block, used)
    assert frame.end > len(block)
    stream = np.frombuffer(b"".join(frame.stream(block)), np.uint8).copy()
    assert len(stream) == frame.end
    assert same(decode(stream, frame.head, frame.end), (array, extra))


def test_the_stream_of_odd_sizes_keeps_the_gaps_between_them() -> None:
    value = [np.full(size, size % 251, np.uint8) for size in (4097, 5001, 4111)]
    frame = encode(value, fresh(64), 10)
    stream = np.frombuffer(b"".join(frame.stream(fresh(64))), np.uint8).copy()
    assert len(stream) == frame.end
    assert same(decode(stream, frame.head, frame.end), value)


def test_without_a_block_everything_is_moved() -> None:
    value = [np.arange(1000), np.ones((70, 70))]
    frame = encode(value, None)
    assert len(frame.moved) == frame.placed == 2
    stream = np.frombuffer(b"".join(frame.stream(None)), np.uint8).copy()
    assert same(decode(stream, frame.head, frame.end), value)


def test_overlapping_views_of_the_block_overlap_again() -> None:
    block = fresh(1 << 16)
    array, used = in_place(block, "i4", 4000)
    array[:] = np.arange(4000)
    frame = encode((array[:3000], array[1000:]), block, used)
    assert not frame.moved
    frame.write(block)
    left, right = decode(block, frame.head, frame.end)
    left[1000] = -1
    assert right[0] == -1
    assert (right[1:] == np.arange(1001, 4000)).all()


def test_overlapping_views_of_other_memory_come_back_whole() -> None:
    array = np.arange(4000)
    (left, right), frame, _ = ship((array[:3000], array[1000:]))
    assert len(frame.moved) == 2
    assert (left == array[:3000]).all()
    assert (right == array[1000:]).all()


def test_the_same_array_twice_is_one_array_again() -> None:
    array = np.arange(4000)
    (left, right), frame, _ = ship((array, array))
    assert frame.placed == 1
    assert left is right


def test_a_read_only_view_of_the_block_stays_read_only() -> None:
    block = fresh(1 << 14)
    array, used = in_place(block, "i4", 2000)
    array[:] = 3
    array.flags.writeable = False
    frame = encode(array, block, used)
    assert not frame.moved
    frame.write(block)
    result = decode(block, frame.head, frame.end)
    assert not result.flags.writeable
    assert (result == 3).all()


def test_memory_beyond_what_was_used_is_not_taken_for_in_place() -> None:
    block = fresh(1 << 14)
    array = block[8192 : 8192 + 5000]
    frame = encode(array, block, used=8192)
    assert len(frame.moved) == 1  # nobody allocated it, so it may be written over


@pytest.mark.parametrize("size", [INLINE_BYTES - 1, INLINE_BYTES])
def test_small_buffers_travel_inside_the_pickle(size: int) -> None:
    result, frame, _ = ship(np.full(size, 9, np.uint8))
    assert frame.placed == (size >= INLINE_BYTES)
    assert (result == 9).all()
    assert result.flags.writeable


def test_array_subclasses_come_back() -> None:
    masked = np.ma.masked_array(np.arange(2000), np.arange(2000) % 3 == 0)
    record = np.zeros(2000, [("x", "i4"), ("y", "f8")]).view(np.recarray)
    result, _, _ = ship([masked, record])
    assert type(result[0]) is type(masked)
    assert (result[0] == masked).all()
    assert (result[0].mask == masked.mask).all()
    assert type(result[1]) is np.recarray
    assert result[1].dtype == record.dtype


def test_functions_travel_by_value_with_cloudpickle() -> None:
    base = np.arange(3000)
    value = {"f": lambda x: x + base[7], "array": base}
    with pytest.raises((pickle.PicklingError, AttributeError)):
        encode(value, None)
    result, frame, block = ship(value, dumps=dumps_by_value)
    assert result["f"](1) == 8
    assert frame.placed == 1
    assert np.shares_memory(result["array"], block)


@pytest.mark.parametrize("value", [lambda: (yield), (i for i in "x"), memoryview(b"x")])
def test_what_cannot_be_pickled_raises_and_writes_nothing(value: Any) -> None:
    block = fresh(1 << 14)
    array = np.arange(1000)
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        encode([array, value], block)
    assert (block == MARK).all()


def test_decoded_arrays_are_all_that_keeps_the_block_alive() -> None:
    frame = encode(np.arange(1000), None)
    block = np.zeros(frame.end, np.uint8)
    frame.write(block)
    gone = weakref.ref(block)
    array = decode(block, frame.head, frame.end)
    del block
    assert gone() is not None
    part = array[10:]
    del array
    assert gone() is not None
    assert part[0] == 10
    del part
    assert gone() is None


# -------------------------------------------------------------------- outlines


class Pair(NamedTuple):
    first: Any
    second: Any


class Level(IntEnum):
    LOW = 1


def has_outline(frame: Frame) -> bool:
    return struct.unpack_from("<q", frame.tail) == (-1,)


def outcome(value: Any, used: int = 0) -> Any:
    """Send the outcomes of a job of one item; return that item, and whether it needed no pickle."""
    ((found,), failures), frame, _ = ship(([value], {}), used)
    assert failures == {}
    return found, has_outline(frame)


@pytest.mark.parametrize("dtype", "?bBhHiIlLqQefdgFDG")
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (7,), (2, 3), (4096,), (5, 1, 1001)], ids=str)
@pytest.mark.parametrize("used", [0, 100])
def test_arrays_of_numbers_need_no_pickle(dtype: str, shape: tuple[int, ...], used: int) -> None:
    array = filled(dtype, shape, 1)
    found, is_outlined = outcome(array, used)
    assert is_outlined
    assert same(found, array)
    assert found.flags.writeable
    found[...] = 0


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("sizes", [[5], [5000], [5000, 5], [5, 5000, 0, 7000]], ids=str)
def test_neither_do_lists_and_tuples_of_them(kind: type, sizes: list[int]) -> None:
    value = kind(np.arange(size, dtype=np.float32) for size in sizes)
    found, is_outlined = outcome(value)
    assert is_outlined
    assert same(found, value)


@pytest.mark.parametrize(
    "value", [0, -5, 1 << 62, -(1 << 70), True, False, None, 1.5, -0.0, math.inf, math.nan, 5e-324], ids=repr
)
@pytest.mark.parametrize("used", [0, 100])
def test_nor_do_numbers(value: Any, used: int) -> None:
    found, is_outlined = outcome(value, used)
    assert is_outlined
    assert type(found) is type(value)
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        [],
        (),
        5j,
        "x",
        Level.LOW,
        np.float64(1),
        np.float32(1),
        {"x": np.arange(5000)},
        [np.arange(5000), 5],
        ([np.arange(5000)],),
        filled(">f8", (5000,), 0),
        filled("M8[ns]", (5000,), 0),
        filled("S7", (5000,), 0),
        filled("O", (50,), 0),
        filled(DTYPES[-3], (5000,), 0),
        np.asfortranarray(filled("f4", (50, 60), 0)),
        filled("f4", (5000,), 0)[::2],
        np.broadcast_to(np.arange(5000), (2, 5000)),
        np.zeros(40001, np.uint8)[1:].view("f8"),
        np.arange(5000).view(np.recarray),
        Pair(np.arange(5000), np.arange(5000)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_everything_else_is_pickled(value: Any) -> None:
    found, is_outlined = outcome(value)
    assert not is_outlined
    assert same(found, through_pickle(value))


def test_so_is_the_same_array_twice_which_is_one_again() -> None:
    array = np.arange(5000)
    found, is_outlined = outcome([array, np.arange(3), array])
    assert not is_outlined
    assert found[0] is found[2]


@pytest.mark.parametrize(
    "value",
    [
        ([np.arange(5000), np.arange(5000)], {}),
        ([np.arange(5000)], {0: "failed"}),
        ([], {}),
        [[np.arange(5000)], {}],
        ([np.arange(5000)],),
        (np.arange(5000), {}),
        ([np.arange(5000)], []),
        ([np.arange(5000)], np.arange(2)),
    ],
    ids=["two items", "a failure", "no item", "a list", "alone", "no list", "no dict", "an array"],
)
def test_so_is_what_is_not_the_outcome_of_one_item(value: Any) -> None:
    found, frame, _ = ship(value)
    assert not has_outline(frame)
    assert same(found, value)


def test_a_read_only_array_stays_so_where_the_pickle_says_so() -> None:
    array = np.arange(10)
    array.flags.writeable = False
    found, is_outlined = outcome(array)
    assert not is_outlined
    assert not found.flags.writeable


def test_an_outline_says_where_arrays_lie_in_the_block() -> None:
    block, first, second, used = two_in_place()
    other = np.arange(3000.0)
    frame = encode(([(first.reshape(20, 100), second[100:900], other)], {}), block, used)
    assert has_outline(frame)
    assert frame.placed == 3
    assert [buffer.nbytes for _, buffer in frame.moved] == [other.nbytes]
    frame.write(block)
    for memory in (None, block):  # all of the frame in the block, or its tail by itself
        ((found,), _) = (
            decode(block, frame.head, frame.end)
            if memory is None
            else decode(frame.tail, 0, len(frame.tail), memory=memory)
        )
        assert [address(array) for array in found[:2]] == [address(first), address(second) + 800]
        assert same(found, (first.reshape(20, 100), second[100:900], other))


def test_arrays_of_an_outline_keep_the_block_alive() -> None:
    frame = encode(([np.arange(1000)], {}), None)
    assert has_outline(frame)
    block = np.zeros(frame.end, np.uint8)
    frame.write(block)
    gone = weakref.ref(block)
    ((array,), _) = decode(block, frame.head, frame.end)
    del block
    assert gone() is not None
    part = array[10:]
    del array
    assert gone() is not None
    del part
    assert gone() is None


def test_without_its_tail_only_the_buffers_are_written() -> None:
    block = fresh(1 << 14)
    frame = encode(([np.arange(1000)], {}), block, 0)
    frame.write(block, tail=False)
    assert (block[: frame.head].view(np.int64) == np.arange(1000)).all()
    assert (block[frame.head :] == MARK).all()
