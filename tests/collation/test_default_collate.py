"""`default_collate`, `default_convert`: what becomes of a batch, and what is refused."""

from __future__ import annotations

import array
import collections
import datetime
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import seqkit as sk
from seqkit.collation import Stack, default_collate, default_convert
from seqkit.core.worker import evaluating

from ..helpers import for_each


class Point(NamedTuple):
    x: Any
    y: Any


class Size(NamedTuple):
    width: Any
    height: Any


class Row(Sequence):
    def __init__(self, parts):
        self.parts = list(parts)

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, i):
        return self.parts[i]


class Record(Mapping):
    def __init__(self, parts):
        self.parts = dict(parts)

    def __len__(self):
        return len(self.parts)

    def __iter__(self):
        return iter(self.parts)

    def __getitem__(self, key):
        return self.parts[key]


class Stubborn(Row):
    """A sequence that cannot be made from its parts."""

    def __init__(self, a, b):
        super().__init__([a, b])


@dataclass
class Sample:
    x: int


def same(found, expected):
    """Equal, in type, dtype and nested structure too."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    else:
        assert found == expected


def ints(*values):
    return np.array(values, np.int64)


# -------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("batch", "dtype"),
    [
        ([1, 2], np.int64),
        ([1.5, 2.5], np.float64),
        ([1, 2.5], np.float64),
        ([2.5, 1], np.float64),
        ([True, False], np.bool_),
        ([True, 2], np.int64),
        ([1, 2j], np.complex128),
        ([np.float32(1), np.float32(2)], np.float32),
        ([np.float32(1), np.float64(2)], np.float64),
        ([np.int8(1), np.int16(300)], np.int16),
        ([np.float32(1), 2], np.float64),
        ([np.float64(1), 2.5], np.float64),
        ([np.bool_(True), False], np.bool_),
        ([np.uint8(1), np.array(2, np.int32)], np.int32),
        ([np.array(2.5), 1], np.float64),
        ([1, np.array(2.5, np.float32)], np.float64),
        ([np.array(1, np.uint16), np.array(2, np.uint16)], np.uint16),
        ([np.float16(1), np.float16(2)], np.float16),
    ],
)
def test_numbers_make_one_array_of_the_dtype_that_holds_all_of_them(batch, dtype):
    same(
        default_collate(batch), np.array([complex(x) if dtype is np.complex128 else x for x in batch], dtype)
    )


def test_int_enums_are_ints():
    class Label(enum.IntEnum):
        CAT = 3
        DOG = 4

    same(default_collate([Label.CAT, Label.DOG]), ints(3, 4))


def test_ints_keep_all_their_bits():
    same(default_collate([2**63 - 1, -(2**63)]), ints(2**63 - 1, -(2**63)))


@pytest.mark.parametrize("huge", [2**63, -(2**63) - 1, 2**70])
def test_an_int_beyond_64_bits_is_refused_by_name(huge):
    with pytest.raises(ValueError, match=rf"batch\[1\]\['n'\] is {huge}"):
        default_collate([{"n": 1}, {"n": huge}])


def test_dates_and_durations_stack_in_a_common_unit():
    days = [np.datetime64("2024-01-01"), np.datetime64("2024-01-01T12:00:00")]
    same(default_collate(days), np.array(days, "M8[s]"))
    same(default_collate([np.timedelta64(1, "s")]), np.array([1], "m8[s]"))


def test_records_stack():
    dtype = np.dtype([("a", "u1"), ("b", "f4")], align=True)
    rows = np.array([(1, 2.5), (3, 4.5)], dtype)
    same(default_collate([rows[0], rows[1]]), rows)
    same(default_collate([rows, rows]), np.stack([rows, rows]))
    same(default_collate([np.array(rows[0]), np.array(rows[1])]), rows)


def test_kinds_of_numbers_without_a_common_dtype_are_refused():
    date = np.datetime64("2024-01-01T00:00:00")
    with pytest.raises(TypeError, match=r"batch\[2\]\['t'\] .*float64, .*datetime64"):
        default_collate([{"t": date}, {"t": date}, {"t": 1.5}, {"t": date}])


# -------------------------------------------------------------------- arrays


@for_each("dtype", ["f2", "f4", "f8", "i1", "u1", "u2", "u4", "u8", "i8", "?", "c8", "M8[ns]", "m8[D]"])
@for_each("shape", [(3,), (2, 3), (0,), (2, 0, 3), (1, 1, 1, 1)])
def test_arrays_stack_contiguously_for_every_dtype_and_shape(dtype, shape):
    arrays = [np.arange(np.prod(shape)).reshape(shape).astype(dtype) for _ in range(4)]
    out = default_collate(arrays)
    same(out, np.stack(arrays))
    assert out.flags.c_contiguous
    assert out.flags.writeable
    assert not any(np.shares_memory(out, array) for array in arrays)


@pytest.mark.parametrize("batch", [["f4", "f8"], ["f8", "f4"], ["u1", "i8"], ["?", "f4"]])
def test_arrays_of_several_dtypes_are_promoted_whatever_their_order(batch):
    arrays = [np.ones(3, dtype) for dtype in batch]
    same(default_collate(arrays), np.stack(arrays))


def test_layout_and_byte_order_of_samples_do_not_matter():
    square = np.arange(6.0).reshape(2, 3)
    odd = [np.asfortranarray(square), square[:, ::-1], square.astype(">f8"), square[::-1]]
    same(default_collate(odd), np.stack([np.array(a, "f8") for a in odd]))
    big = default_collate([np.ones(2, ">i4"), np.ones(2, ">i4")])
    assert big.dtype == np.dtype("i4")
    assert big.dtype.isnative


def test_memory_maps_and_other_array_classes_stack_to_plain_arrays(tmp_path):
    stored = np.memmap(tmp_path / "x", np.float32, "w+", shape=(4, 3))
    stored[:] = np.arange(12).reshape(4, 3)
    same(default_collate([stored[0], stored[2]]), np.array(stored[[0, 2]]))

    class Image(np.ndarray):
        pass

    same(default_collate([np.ones((2, 2)).view(Image)] * 2), np.ones((2, 2, 2)))


def test_a_read_only_sample_gives_a_writable_batch():
    sample = np.ones(3)
    sample.flags.writeable = False
    assert default_collate([sample]).flags.writeable


def test_an_array_of_samples_gives_a_copy_of_it():
    rows = np.arange(6.0).reshape(3, 2)
    out = default_collate(rows)
    same(out, rows)
    assert not np.shares_memory(out, rows)
    same(default_collate(np.arange(3)), ints(0, 1, 2))
    assert default_collate(np.array(["a", "b"])) == ["a", "b"]


def test_batches_are_written_into_memory_from_empty():
    memory = np.zeros(1000, np.uint8)
    asked = []

    def allocate(shape, dtype):
        asked.append((shape, dtype))
        return memory[: int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)

    for batch in ([np.ones((2, 3), "f4")] * 5, [1, 2, 3], [np.float64(2)] * 4, np.ones((2, 2))):
        with evaluating(allocate):
            assert np.shares_memory(default_collate(batch), memory)
    assert asked == [((5, 2, 3), np.float32), ((3,), np.int64), ((4,), np.float64), ((2, 2), np.float64)]


def test_different_shapes_are_refused_with_place_sample_and_both_shapes():
    batch = [{"image": [np.zeros((2, 3))]}, {"image": [np.zeros((2, 3))]}, {"image": [np.zeros((2, 4))]}]
    with pytest.raises(ValueError, match=r"batch\[2\]\['image'\]\[0\] .*\(2, 4\), batch\[0\].*\(2, 3\)"):
        default_collate(batch)
    with pytest.raises(ValueError, match=r"batch\[1\] has shape \(\), batch\[0\] has \(1,\)"):
        default_collate([np.zeros(1), 1.0])


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", [("a", "O")]])
def test_arrays_of_objects_and_text_are_refused(dtype):
    with pytest.raises(TypeError, match=r"batch\[0\] is an array of dtype .*; allowed are numbers"):
        default_collate([np.empty(2, dtype)] * 2)


def test_the_offending_array_among_good_ones_is_named():
    with pytest.raises(TypeError, match=r"batch\[1\]\.y is an array of dtype object"):
        default_collate([Point(1, np.ones(2)), Point(1, np.empty(2, object))])


def test_arrays_of_objects_and_text_become_lists_where_that_is_asked_for():
    listed = partial(default_collate, objects="list")
    words, things = np.array(["a", "b"]), np.array([None, {}], object)
    out = listed([{"n": np.ones(2), "w": words, "t": (things, 1)}] * 2)
    same(out["n"], np.ones((2, 2)))
    assert [part is words for part in out["w"]] == [True, True]
    assert [part is things for part in out["t"][0]] == [True, True]
    same(out["t"][1], ints(1, 1))
    mixed = [np.ones(2), words]
    assert all(a is b for a, b in zip(listed(mixed), mixed, strict=True))
    with pytest.raises(TypeError, match=r"batch\[1\] is None"):
        listed([words, None])


def test_the_argument_objects_is_raise_or_list():
    with pytest.raises(ValueError, match=r"default_collate: objects .*got 'keep'"):
        default_collate([1], objects="keep")


def test_an_array_without_dimensions_is_not_a_batch():
    with pytest.raises(TypeError):
        default_collate(np.array(5))


# -------------------------------------------------------------------- masks


@pytest.mark.parametrize("function", [default_collate, sk.Stack(), sk.Stack("f4")])
@pytest.mark.parametrize("sample", [np.ma.array([1.0, 2.0], mask=[False, True]), np.ma.masked])
def test_masked_arrays_are_refused(function, sample):
    plain = np.ones(np.shape(sample))
    with pytest.raises(TypeError, match=r"batch\[1\] is a masked array; fill it before"):
        function([plain, sample])


# -------------------------------------------------------------------- text


@pytest.mark.parametrize(
    "batch",
    [
        ["a", "bc"],
        [b"a", b"bc"],
        [np.str_("a"), "b"],
        [np.bytes_(b"a")],
        [bytearray(b"ab"), bytearray(b"c")],
        [memoryview(b"ab"), b"c"],
        ["", ""],
    ],
)
def test_text_and_bytes_stay_a_list_of_themselves(batch):
    out = default_collate(batch)
    assert type(out) is list
    assert all(a is b for a, b in zip(out, batch, strict=True))


def test_text_within_tuples_is_a_list_too():
    same(default_collate([(1, "a"), (2, "b")]), (ints(1, 2), ["a", "b"]))


# -------------------------------------------------------------------- structure


def test_structures_are_collated_position_by_position_and_keep_their_types():
    batch = [{"p": Point(1, (2.5, "a")), "l": [True, np.zeros(2)]} for _ in range(3)]
    expected = {
        "p": Point(ints(1, 1, 1), (np.array([2.5] * 3), ["a"] * 3)),
        "l": [np.array([True] * 3), np.zeros((3, 2))],
    }
    same(default_collate(batch), expected)


@pytest.mark.parametrize(
    "sample",
    [
        {},
        (),
        [],
        {"a": 1},
        collections.OrderedDict(b=1, a=2),
        collections.defaultdict(list, a=1),
        collections.Counter("aab"),
        collections.UserDict(a=1),
        MappingProxyType({"a": 1}),
        Record({"a": 1}),
        (1, 2),
        [1, 2],
        Point(1, 2),
        collections.deque([1, 2]),
        collections.UserList([1, 2]),
        Row([1, 2]),
    ],
    ids=lambda sample: type(sample).__name__,
)
def test_types_of_structures_are_kept(sample):
    out = default_collate([sample, sample])
    assert type(out) is type(sample)
    assert len(out) == len(sample)
    if isinstance(sample, Mapping):
        assert list(out) == list(sample)
    for part in out.values() if isinstance(sample, Mapping) else out:
        assert type(part) is np.ndarray


def test_attributes_of_mappings_are_kept():
    class Meta(dict):
        origin = None

    sample = Meta(a=1)
    sample.origin = "camera"
    assert default_collate([sample, sample]).origin == "camera"
    assert default_collate([collections.defaultdict(list, a=1)]).default_factory is list


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        (Stubborn(1, 2), list),
        (range(3), list),
        (array.array("i", [1, 2]), list),
        (sk.view([1, 2]), list),
        (sk.smap(abs, [1, 2]), list),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sequences_that_cannot_be_rebuilt_become_lists(sample, kind):
    out = default_collate([sample, sample])
    assert type(out) is kind
    same(out[1], ints(sample[1], sample[1]))


def test_samples_are_never_changed():
    class Shared(collections.abc.MutableSequence):
        """Copies share their memory with the original."""

        def __init__(self, parts):
            self.parts = parts

        def __len__(self):
            return len(self.parts)

        def __getitem__(self, i):
            return self.parts[i]

        def __setitem__(self, i, value):
            self.parts[i] = value

        def __delitem__(self, i):
            raise AssertionError

        def insert(self, i, value):
            raise AssertionError

    samples = [Shared([1, 2]), {"a": 1}, [1, 2], collections.defaultdict(list, a=1)]
    for sample in samples:
        before = repr(getattr(sample, "parts", sample))
        default_collate([sample, sample])
        assert repr(getattr(sample, "parts", sample)) == before


def test_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"batch\[1\]\['a'\] has 3 elements, batch\[0\]\['a'\] has 2"):
        default_collate([{"a": [1, 2]}, {"a": [1, 2, 3]}])


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"a": 1}, r"batch\[1\] lacks \['b'\]; batch\[0\] has the keys \['a', 'b'\]"),
        ({"a": 1, "b": 2, "c": 3}, r"batch\[1\] has also \['c'\]"),
        ({"a": 1, "c": 3}, r"batch\[1\] lacks \['b'\] and has also \['c'\]"),
    ],
)
def test_different_keys_are_refused_naming_sample_and_keys(second, message):
    with pytest.raises(ValueError, match=message):
        default_collate([{"a": 1, "b": 2}, second])


def test_a_missing_key_is_not_filled_in_by_a_default_factory():
    with pytest.raises(ValueError, match=r"batch\[1\] lacks \['b'\]"):
        default_collate([{"a": 1, "b": 2}, collections.defaultdict(int, a=1)])


def test_keys_in_another_order_are_the_same_keys():
    same(default_collate([{"a": 1, "b": 2}, {"b": 4, "a": 3}]), {"a": ints(1, 3), "b": ints(2, 4)})


def test_named_tuples_of_different_fields_are_refused():
    with pytest.raises(ValueError, match=r"batch\[1\] has the fields \('width', 'height'\)"):
        default_collate([Point(1, 2), Size(1, 2)])


class Doubled(NamedTuple("Doubled", [("x", int)])):
    def __new__(cls, x: int) -> Doubled:
        return super().__new__(cls, 2 * x)


def test_named_tuple_is_not_converted_once_more() -> None:
    assert repr(default_collate([Doubled(1), Doubled(2)])) == "Doubled(x=array([2, 4]))"


# -------------------------------------------------------------------- refusals


def test_an_empty_batch_is_refused():
    for batch in ([], (), iter([]), np.empty((0, 3))):
        with pytest.raises(ValueError, match="the batch is empty"):
            default_collate(batch)


@pytest.mark.parametrize("batch", [[None], [1, None], [None, 1], ["a", None], [{}, None], [np.ones(2), None]])
def test_none_is_refused_naming_the_sample(batch):
    with pytest.raises(TypeError, match=rf"batch\[{0 if batch[0] is None else 1}\] is None"):
        default_collate(batch)


def test_none_within_a_sample_is_refused_naming_the_place():
    with pytest.raises(TypeError, match=r"batch\[1\]\['a'\]\[0\]\.x is None"):
        default_collate([{"a": [Point(1, 2)]}, {"a": [Point(None, 2)]}])


@pytest.mark.parametrize(
    "sample",
    [
        {1, 2},
        Sample(1),
        Decimal(1),
        Fraction(1, 2),
        datetime.datetime(2024, 1, 1),
        object(),
        iter([1]),
        slice(1),
    ],
    ids=lambda sample: type(sample).__name__,
)
def test_unknown_objects_are_refused_saying_what_is_allowed(sample):
    with pytest.raises(
        TypeError, match=rf"batch\[0\]\['a'\] is of type {type(sample).__name__}; allowed are"
    ):
        default_collate([{"a": sample}] * 2)


@pytest.mark.parametrize(
    ("batch", "names"),
    [
        (["a", 1], "int.*str"),
        ([1, "a"], "str.*int"),
        ([{"a": 1}, [1]], "list.*dict"),
        ([np.ones(2), [1, 2]], "list.*ndarray"),
        ([(1, 2), Point(1, 2)], "Point.*tuple"),
        ([b"a", "a"], "str.*bytes"),
        ([1, Sample(1)], "Sample.*int"),
    ],
)
def test_samples_of_different_kinds_are_refused(batch, names):
    with pytest.raises(
        TypeError, match=rf"batch\[1\] is of type {names.replace('.*', '.*batch.0. of type ')}"
    ):
        default_collate(batch)


def test_lists_and_tuples_may_stand_side_by_side():
    same(default_collate([[1, 2], (3, 4)]), [ints(1, 3), ints(2, 4)])


# -------------------------------------------------------------------- registry


def test_registered_types_come_before_the_rules():
    def joined(batch, *, collate_fn_map):
        return "".join(batch)

    same(default_collate([("a", 1), ("b", 2)], collate_fn_map={str: joined}), ("ab", ints(1, 2)))
    as_list = {np.ndarray: lambda batch, *, collate_fn_map: list(batch)}
    assert len(default_collate([np.ones(2), np.ones(3)], collate_fn_map=as_list)) == 2
    assert len(default_collate(np.ones((2, 3)), collate_fn_map=as_list)) == 2


def test_registered_functions_may_collate_their_parts_themselves():
    def fields(batch, *, collate_fn_map):
        return Sample(default_collate([sample.x for sample in batch], collate_fn_map=collate_fn_map))

    collate = partial(default_collate, collate_fn_map={Sample: fields})
    out = collate([{"s": Sample(Sample(1))}, {"s": Sample(Sample(2))}])
    same(out["s"].x.x, ints(1, 2))


def test_the_exact_type_is_preferred_to_base_classes_which_come_in_order():
    def says(word):
        return lambda batch, *, collate_fn_map: word

    class Special(Sample):
        pass

    registry = {object: says("object"), Sample: says("sample")}
    assert default_collate([Sample(1)], collate_fn_map=registry) == "sample"
    assert default_collate([Special(1)], collate_fn_map=registry) == "object"
    assert default_collate([Special(1)], collate_fn_map={Sample: says("sample")}) == "sample"


def test_a_registered_sample_behind_an_unregistered_one_is_refused():
    registry = {Sample: lambda batch, *, collate_fn_map: batch}
    with pytest.raises(TypeError, match=r"batch\[1\] is of type Sample, batch\[0\] of type int"):
        default_collate([1, Sample(1)], collate_fn_map=registry)


def test_a_batch_may_be_any_iterable():
    same(default_collate(iter([1, 2])), ints(1, 2))
    same(default_collate((1, 2)), ints(1, 2))


# -------------------------------------------------------------------- default_convert


def test_default_convert_returns_an_item_unchanged():
    item = (np.ones(2), {"a": [1, "x", None]}, Point(1, Sample(2)))
    assert default_convert(item) is item


# -------------------------------------------------------------------- torch


def test_tensors_stack_to_tensors():
    torch = pytest.importorskip("torch")
    out = default_collate([(torch.ones(2), 1), (torch.zeros(2), 2)])
    assert torch.equal(out[0], torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    same(out[1], ints(1, 2))
    with pytest.raises(ValueError, match=r"batch\[1\] has shape \(3,\), batch\[0\] has \(2,\)"):
        default_collate([torch.ones(2), torch.ones(3)])
    with pytest.raises(TypeError, match=r"batch\[1\] is of type ndarray"):
        default_collate([torch.ones(2), np.ones(2)])


def test_numpy_results_have_the_values_that_torch_gives():
    torch = pytest.importorskip("torch")
    from torch.utils.data import default_collate as theirs

    batch = [{"x": np.full(3, i, "f4"), "y": i, "z": i / 2, "b": i > 1, "s": "abc"[i]} for i in range(3)]
    found, expected = default_collate(batch), theirs(batch)
    for key in ("x", "y", "z", "b"):
        same(found[key], expected[key].numpy())
    assert found["s"] == expected["s"]
    assert torch is not None


# -------------------------------------------------------------------- nothing is changed


class Exported:
    """An array of another library, which numpy reads by a protocol."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)


class ByArray(Exported):
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.values if dtype is None else self.values.astype(dtype)


class ByDLPack(Exported):
    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


@pytest.mark.parametrize("kind", [ByArray, ByDLPack])
def test_arrays_of_other_libraries_are_stacked(kind: type[Exported]) -> None:
    values = np.arange(6, dtype="f4").reshape(2, 3)
    for function in (default_collate, sk.Stack()):
        same(function([kind(row) for row in values]), values)
        same(function([kind(values[0]), values[1]]), values)
    same(default_collate([{"x": kind(1), "y": (kind([1, 2]),)}])["y"][0], np.array([[1, 2]]))
    same(sk.Pad()([kind([1, 2]), kind([3])]), np.array([[1, 2], [3, 0]]))


class OnADevice(Exported):
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError("implicit copies from the device are forbidden")


@pytest.mark.parametrize("function", [default_collate, sk.Stack()])
@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (
            [OnADevice([1])],
            r"batch\[0\] is of type OnADevice, of which numpy makes no array: implicit copies",
        ),
        ([ByArray([1]), ByArray([None])], r"batch\[1\] is of type ByArray; allowed are"),
        ([ByArray([1, 2]), ByArray([1])], r"batch\[1\] has shape \(1,\)"),
    ],
)
def test_arrays_that_cannot_be_exported_are_refused_by_name(
    function: Any, samples: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        function(samples)


SECONDS, DAYS = np.timedelta64(1, "s"), np.timedelta64(1, "D")


@for_each("function", [default_collate, sk.Stack()])
@for_each(
    ("samples", "message"),
    [
        ([0.5, 2**53 + 1], r"batch\[1\] is 9007199254740993, which does not fit into float64"),
        ([np.array([2**53 + 1]), np.array([0.5])], r"batch\[0\] holds 9007199254740993"),
        (
            [np.uint64(2**63), np.int8(-1)],
            r"batch\[0\] is 9223372036854775808, which does not fit into int64",
        ),
        ([np.uint64(2**63), 1], r"batch\[0\] is 9223372036854775808"),
        ([np.datetime64("2020-01-01", "ns"), np.datetime64("2500-01-01", "s")], r"batch\[1\] is 2500-01-01"),
        ([SECONDS, 3], r"batch\[1\] has dtype int64, batch\[0\] has timedelta64\[s\]; no dtype holds both"),
        ([np.datetime64("2020-01-01"), DAYS], r"batch\[1\] has dtype timedelta64\[D\]"),
        ([np.array([(1,)], [("a", int)]), np.array([(1,)], [("b", int)])], r"no dtype holds both"),
        ([1, None], r"batch\[1\] is"),
    ],
)
def test_samples_that_no_array_can_hold_unchanged_are_refused(
    function: Any, samples: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        function(samples)
    with pytest.raises((TypeError, ValueError), match=r"\['x'\]"):
        sk.Dict({"x": function})([{"x": sample} for sample in samples])


@pytest.mark.parametrize("function", [default_collate, sk.Stack()])
def test_ints_stay_ints_and_dates_stay_dates(function: Any) -> None:
    large = 2**53 + 1
    same(function([large, True]), np.array([large, 1]))
    same(function([np.uint64(3), np.int64(large)]), np.array([3, large]))
    same(function([np.array([3], "u8"), np.array([-large])]), np.array([[3], [-large]]))
    same(function([np.float16(0.5), np.float64(1e300)]), np.array([0.5, 1e300]))
    day, nat = np.datetime64("2020-01-01"), np.datetime64("NaT")
    same(function([day, np.datetime64("2020-01-01T05")]), np.array([day, "2020-01-01T05"], "M8[h]"))
    assert np.isnat(function([nat, day])).tolist() == [True, False]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_ints_with_missing_values_do_not_become_floats(library: str) -> None:
    module = pytest.importorskip(library)
    make = {
        "pandas": lambda values: module.array(values, "Int64"),
        "polars": lambda values: module.Series(values, dtype=module.Int64),
        "pyarrow": lambda values: module.array(values, module.int64()),
    }[library]
    whole = default_collate([make([2**53 + 1, 2]), make([3, 4])])
    assert (whole.dtype, whole.tolist()) == (np.int64, [[2**53 + 1, 2], [3, 4]])
    with pytest.raises(ValueError, match=r"batch\[1\] .*missing values"):
        default_collate([make([1, 2]), make([2**53 + 1, None])])
    with pytest.raises(ValueError, match="missing values"):
        Stack("float64")([make([1, None])])


def test_tables_are_stacked_only_if_their_names_agree() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    same(default_collate([frame, frame + 1]), np.stack([frame.to_numpy(), frame.to_numpy() + 1]))
    same(default_collate([frame["a"], frame["b"]]), np.array([[1, 2], [3, 4]]))
    for samples in ([frame, frame[["b", "a"]]], [frame.iloc[0], frame[["b", "a"]].iloc[1]]):
        for function in (default_collate, sk.Stack()):
            with pytest.raises(ValueError, match=r"batch\[1\] has the names \['b', 'a'\]"):
                function(samples)


TABLES: dict[str, Any] = {
    "pandas": lambda pd, columns: pd.DataFrame(columns),
    "polars": lambda pl, columns: pl.DataFrame(columns),
    "pyarrow": lambda pa, columns: pa.table(columns),
    "batch": lambda pa, columns: pa.record_batch(columns),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_all_libraries_are_stacked_alike(kind: str) -> None:
    library = pytest.importorskip("pyarrow" if kind == "batch" else kind)

    def table(**columns: Any) -> Any:
        return TABLES[kind](library, columns)

    large = 2**53 + 1
    same(
        default_collate([table(x=[1, large], y=[3, 4]), table(x=[5, 6], y=[7, 8])]),
        np.array([[[1, 3], [large, 4]], [[5, 7], [6, 8]]]),
    )
    same(default_collate([table(x=[1], y=[np.nan])] * 2), np.array([[[1, np.nan]]] * 2))
    with pytest.raises(ValueError, match=r"batch\[1\] has the names \['y', 'x'\]"):
        default_collate([table(x=[1], y=[2]), table(y=[2], x=[1])])


@pytest.mark.parametrize("function", [default_collate, sk.Stack(), sk.Pad()])
@pytest.mark.parametrize("batch", [{"x": 1}, "ab", b"ab", 3, None])
def test_batch_that_is_no_list_of_samples_is_refused(function: Any, batch: Any) -> None:
    with pytest.raises(TypeError, match="a batch must be a list of samples, got"):
        function(batch)


@pytest.mark.parametrize("function", [default_collate, sk.Stack(), sk.Pad()])
@pytest.mark.parametrize(
    ("library", "name"), [("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")]
)
def test_table_is_no_batch_of_its_columns(function: Any, library: str, name: str) -> None:
    table = getattr(pytest.importorskip(library), name)({"x": [[1, 2], [3, 4]]})
    with pytest.raises(TypeError, match=r"got a table\. Pass list\(view\(table\)\)"):
        function(table)
    assert len(default_collate(list(sk.view(table)))["x"]) == 2
