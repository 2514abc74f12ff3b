"""The functions that make batches, `Stack` to `PerShard`: values, refusals, where results lie."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict, UserDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import seqkit as sk
from seqkit import Append, Dict, Group, List, Pad, PerShard, Stack, Tuple
from seqkit.core.worker import evaluating
from tests.engine.kinds import PROCESSES, Kind
from tests.helpers import for_each

from .test_default_collate import ints, same

FORK = PROCESSES[0]


class Sentence(NamedTuple):
    words: Any
    label: Any


class Word(NamedTuple):
    words: Any
    label: Any


def floats(*values: Any) -> Any:
    return np.array(values, np.float64)


def every_function() -> list[Any]:
    return [
        Stack(),
        Stack("float32"),
        Pad(),
        Pad("all", -1.5, True, np.float32, 8, mask=True),
        Pad(-1, to_length=5),
        Append(),
        Append(expand=False),
        List(),
        Tuple(Stack(), (Pad(), List())),
        sk.NamedTuple(Sentence, [Pad(), Stack()]),
        Dict({"x": Stack(), "y": {"z": List()}}, extra="drop"),
        PerShard(Pad()),
        sk.PackSequences(8, max_items=3, pad=1),
    ]


each_function = pytest.mark.parametrize("function", every_function(), ids=repr)

# -------------------------------------------------------------------- all of them


@each_function
def test_functions_pickle_and_copy(function: Any) -> None:
    for twin in (pickle.loads(pickle.dumps(function)), copy.deepcopy(function)):
        assert repr(twin) == repr(function)


@each_function
def test_an_empty_batch_is_refused(function: Any) -> None:
    for batch in ([], (), iter([])):
        with pytest.raises(ValueError, match=f"{type(function).__name__}: the batch is empty"):
            function(batch)


def test_functions_show_what_they_were_given() -> None:
    assert (
        repr(Pad(-1, mask=True, dtype="f4", to_length=3))
        == "Pad(axis=-1, dtype='f4', to_length=3, mask=True)"
    )
    assert [repr(fn) for fn in (Stack(), Stack(int), Append(batch_axis=1), List())] == [
        "Stack()",
        "Stack(dtype=<class 'int'>)",
        "Append(batch_axis=1)",
        "List()",
    ]
    assert repr(Tuple(np.stack, (List(), Stack()))) == "Tuple(stack, Tuple(List(), Stack()))"
    assert repr(sk.NamedTuple(Word, [List(), Pad()])) == "NamedTuple(Word, {'words': List(), 'label': Pad()})"
    assert repr(Dict({"a": List()}, "drop")) == "Dict({'a': List()}, extra='drop')"
    assert repr(PerShard(List())) == "PerShard(List())"


@pytest.mark.parametrize("nworkers", [0, 2])
def test_data_loaders_accept_each_function_as_collate_fn(nworkers: int) -> None:
    data = [([1] * (i % 4), i) for i in range(10)]
    with sk.DataLoader(data, 4, collate_fn=Tuple(Pad(to_length=4), Stack()), num_workers=nworkers) as loader:
        for epoch in (list(loader), list(loader)):
            assert [batch[1].tolist() for batch in epoch] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
            assert all(words.shape == (len(labels), 4) for words, labels in epoch)


# -------------------------------------------------------------------- Stack

DTYPES = ["float16", "float32", "float64", "uint8", "int32", "int64"]


@for_each("dtype", DTYPES)
@for_each("wanted", [*DTYPES, None])
def test_stack_gives_the_dtype_that_is_asked_for(dtype: str, wanted: str | None) -> None:
    arrays = [np.arange(6).reshape(2, 3).astype(dtype) + i for i in range(4)]
    expected = np.stack(arrays).astype(wanted or dtype)
    for batch in (arrays, np.stack(arrays)):
        out = Stack(wanted)(batch)
        same(out, expected)
        assert out.flags.c_contiguous
        assert not np.shares_memory(out, batch[0])


@pytest.mark.parametrize(
    ("batch", "dtype"),
    [
        ([[1, 2], [1.5, 2]], np.float64),
        ([[1.5, 2], [1, 2]], np.float64),
        ([np.ones(2, "f4"), np.ones(2, "f8")], np.float64),
        ([np.ones(2, "u1"), np.ones(2, "i1")], np.int16),
        ([1, 2.5], np.float64),
        ([np.float32(1), np.float32(2)], np.float32),
        ([True, False], np.bool_),
        ([[True], [2]], np.int64),
    ],
)
def test_stack_promotes_all_samples_not_the_first(batch: Any, dtype: Any) -> None:
    same(Stack()(batch), np.array(batch, dtype))
    same(Stack()(batch[::-1]), np.array(batch[::-1], dtype))


def test_stack_takes_nested_lists_numbers_and_maps(tmp_path: Any) -> None:
    same(Stack()([[[1, 2], [3, 4]], np.zeros((2, 2), int)]), np.array([[[1, 2], [3, 4]], [[0, 0], [0, 0]]]))
    same(Stack("i2")([1, 2]), np.array([1, 2], "i2"))
    stored = np.memmap(tmp_path / "x", np.float32, "w+", shape=(4, 3))
    same(Stack()([stored[0], stored[2]]), np.zeros((2, 3), "f4"))


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (
            [[1, 2], [1]],
            ValueError,
            r"Stack: batch\[1\] has shape \(1,\), batch\[0\] has \(2,\); make them equal",
        ),
        ([[1], "ab"], TypeError, r"Stack: batch\[1\] is of type str; allowed are arrays"),
        ([1, None], TypeError, r"Stack: batch\[1\] is of type NoneType"),
        ([{"a": 1}], TypeError, r"Stack: batch\[0\] is of type dict"),
        (
            [[1], [[1], [2, 3]]],
            TypeError,
            r"Stack: batch\[1\] is of type list, of which numpy makes no array",
        ),
        ([np.ones(1), np.empty(1, object)], TypeError, r"Stack: batch\[1\] is an array of dtype object"),
        ([2**70], ValueError, r"Stack: batch\[0\] is 1180591620717411303424, which does not fit into int64"),
    ],
)
def test_stack_refuses_unfit_samples(batch: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Stack()(batch)


@pytest.mark.parametrize(("number", "dtype"), [(300, "u1"), (-1, "u8"), (float("nan"), "i4"), (1j, "f8")])
def test_numbers_that_do_not_fit_are_refused(number: Any, dtype: str) -> None:
    with pytest.raises(ValueError, match=rf"Stack: batch\[1\] is {number}, which does not fit into"):
        Stack(dtype)([1, number])


@pytest.mark.parametrize("dtype", ["nonsense", object, "U3", str, 5, True])
@pytest.mark.parametrize("function", [Stack, Pad])
def test_dtypes_are_checked_at_construction(function: Any, dtype: Any) -> None:
    with pytest.raises(TypeError, match=f"{function.__name__}: dtype must be one of numbers"):
        function(dtype=dtype)


# -------------------------------------------------------------------- Pad


def test_pad_fills_up_to_the_longest_of_the_batch() -> None:
    same(Pad()([[1, 2, 3], [4], [5, 6]]), np.array([[1, 2, 3], [4, 0, 0], [5, 6, 0]]))
    same(Pad(pad=-1)([np.array([1], "i1"), np.array([2, 3], "i1")]), np.array([[1, -1], [2, 3]], "i1"))


def test_float_lists_with_an_int_pad_value_stay_float() -> None:
    same(Pad(pad=0)([[1.5, 2.5], [3.5]]), np.array([[1.5, 2.5], [3.5, 0]]))
    same(Pad(pad=np.int32(7))([[1.5], []]), np.array([[1.5], [7.0]]))


@pytest.mark.parametrize("batch", [[[1], [2.5, 3]], [[2.5, 3], [1]], [[True], [2.5]]])
def test_pad_promotes_all_samples_not_the_first(batch: Any) -> None:
    out = Pad()(batch)
    assert out.dtype == np.float64
    assert [row[: len(sample)].tolist() for row, sample in zip(out, batch, strict=True)] == batch


@pytest.mark.parametrize("dtype", DTYPES)
def test_pad_gives_the_dtype_that_is_asked_for(dtype: str) -> None:
    same(Pad(dtype=dtype)([[1, 2], [3.0]]), np.array([[1, 2], [3, 0]]).astype(dtype))


def test_samples_may_be_empty() -> None:
    same(Pad()([[], [1, 2], []]), np.array([[0, 0], [1, 2], [0, 0]]))
    same(Pad(pad=3, ret_length=True)([[], []]), (np.empty((2, 0)), ints(0, 0)))
    same(Pad(to_length=2)([[], ()]), np.zeros((2, 2)))
    same(Pad()([np.empty(0, "f4"), np.ones(1, "i2")]), np.array([[0], [1]], "i2"))
    boxes = Pad()([[], np.ones((2, 4), "f4"), ()])
    same(boxes, np.array([np.zeros((2, 4)), np.ones((2, 4)), np.zeros((2, 4))], "f4"))
    same(Pad(round_to=4)([[], []]), np.empty((2, 0)))
    same(Pad(1)([[[], []], [[1], [2]]]), np.array([[[0], [0]], [[1], [2]]]))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_any_axis_can_be_padded(axis: int) -> None:
    samples = [np.random.default_rng(0).random(np.insert([2, 3], axis % 3, length)) for length in (4, 0, 1)]
    out, lengths = Pad(axis, pad=9, ret_length=True)(samples)
    assert out.shape == (3, *samples[0].shape)
    same(lengths, ints(4, 0, 1))
    for row, sample, length in zip(out, samples, (4, 0, 1), strict=True):
        data, rest = np.split(np.moveaxis(row, axis, 0), [length])
        same(data, np.moveaxis(sample, axis, 0))
        assert (rest == 9).all()


def test_every_axis_can_be_padded() -> None:
    samples = [np.ones((1, 3)), np.ones((2, 2))]
    out, lengths, mask = Pad("all", pad=-1, ret_length=True, mask=True)(samples)
    same(out, floats([[1, 1, 1], [-1, -1, -1]], [[1, 1, -1], [1, 1, -1]]))
    same(lengths, ints([1, 3], [2, 2]))
    same(mask, out == 1)
    same(Pad("all", to_length=4)(samples).shape, (2, 4, 4))
    same(Pad("all", round_to=4)(samples).shape, (2, 4, 4))
    same(Pad("all")([[], [[1, 2]]]), np.array([[[0, 0]], [[1, 2]]]))


def test_lengths_are_int64_and_the_mask_covers_the_padded_axis() -> None:
    samples = [np.ones((2, 3, 5)), np.ones((2, 1, 5))]
    out, lengths, mask = Pad(-2, ret_length=True, mask=True)(samples)
    assert out.shape == (2, 2, 3, 5)
    same(lengths, ints(3, 1))
    same(mask, np.array([[True, True, True], [True, False, False]]))
    same(Pad(mask=True)([[1, 2], [3]]), (np.array([[1, 2], [3, 0]]), np.array([[True, True], [True, False]])))


def test_lengths_may_be_rounded_or_fixed() -> None:
    batch = [[1, 2, 3], [4]]
    assert Pad(round_to=2)(batch).shape == (2, 4)
    assert Pad(round_to=3)(batch).shape == (2, 3)
    assert Pad(round_to=1)(batch).shape == (2, 3)
    same(Pad(to_length=5, pad=9)(batch), np.array([[1, 2, 3, 9, 9], [4, 9, 9, 9, 9]]))
    assert Pad(1, to_length=3)([np.ones((2, 1))]).shape == (1, 2, 3)


@given(
    st.lists(
        hnp.arrays(np.int16, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=4)), min_size=1
    )
)
def test_padding_keeps_the_data_and_fills_the_rest(samples: Any) -> None:
    out, lengths, mask = Pad("all", pad=7, ret_length=True, mask=True)(samples)
    same(lengths, np.array([sample.shape for sample in samples]))
    assert out.shape == (len(samples), *np.max([sample.shape for sample in samples], axis=0))
    assert out.dtype == np.int16
    assert (out[~mask] == 7).all()
    for row, inside, sample in zip(out, mask, samples, strict=True):
        same(row[inside], sample.ravel())


@pytest.mark.parametrize(
    ("pad", "dtype", "held"),
    [
        (0.1, "f4", True),
        (-1e9, "f4", True),
        (float("-inf"), "f2", True),
        (float("nan"), "f8", True),
        (3.0, "i8", True),
        (True, "u1", True),
        (1, "?", True),
        (0, "c8", True),
        (np.datetime64("NaT"), "M8[s]", True),
        (-1, "u1", False),
        (-1, "u8", False),
        (256, "u1", False),
        (1.5, "i8", False),
        (float("nan"), "i8", False),
        (1e9, "f2", False),
        (2, "?", False),
        (1j, "f8", False),
        (1j, "i8", False),
        (0, "M8[s]", False),
    ],
)
def test_a_pad_value_that_the_dtype_cannot_hold_is_refused(pad: Any, dtype: str, held: bool) -> None:
    batch = [np.zeros(2, dtype), np.zeros(1, dtype)]
    if held:
        out = Pad(pad=pad)(batch)
        np.testing.assert_array_equal(out[1, 1], np.asarray(pad).astype(dtype))
        assert out.dtype == dtype
        Pad(pad=pad, dtype=dtype)
        return
    with pytest.raises(ValueError, match=r"Pad: batch\[...\] of dtype .* cannot hold pad="):
        Pad(pad=pad)(batch)
    with pytest.raises(ValueError, match=r"Pad: an array of dtype .* cannot hold pad="):
        Pad(pad=pad, dtype=dtype)


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ([[1], [2], [[3]]], ValueError, r"Pad: batch\[2\] has shape \(1, 1\), batch\[0\] has \(1,\)"),
        ([([1, 2], 0)], TypeError, r"numpy makes no array.* own function: Tuple\(Pad\(\), Stack\(\)\)"),
        ([([1, 2], "a")], TypeError, r"own function: Tuple\(Pad\(\), Stack\(\)\)"),
        ([[1], 2], ValueError, r"Pad: batch\[1\] is a single number; Stack"),
        ([1, 2], ValueError, r"Pad: batch\[0\] is a single number; Stack"),
        ([[], 2], ValueError, r"Pad: batch\[1\] is a single number; Stack"),
        (
            [np.ones((2, 3)), np.ones((3, 2))],
            ValueError,
            r"Pad: batch\[1\] has shape \(3, 2\), batch\[0\] has \(2, 3\); .* axis 0 only",
        ),
        ([np.empty((0, 2)), np.empty((0, 3))], ValueError, r"Pad: batch\[1\] has shape \(0, 3\)"),
        ([[1], ["a"]], TypeError, r"Pad: batch\[1\] is of type list; allowed are arrays"),
        ([[1], None], TypeError, r"Pad: batch\[1\] is of type NoneType"),
        ([np.ones(1), np.array(["a"])], TypeError, r"Pad: batch\[1\] is an array of dtype <U1"),
        ([[1], np.ma.ones(2)], TypeError, r"Pad: batch\[1\] is a masked array; fill it"),
        (
            [np.ones(1), np.ones(1, "M8[s]")],
            TypeError,
            r"Pad: batch\[1\] has dtype datetime64\[s\], batch\[0\]",
        ),
    ],
)
def test_pad_refuses_unfit_samples(batch: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Pad()(batch)


def test_axes_and_lengths_that_do_not_fit_the_samples_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Pad: batch\[0\] has shape \(1,\), so there is no axis 1"):
        Pad(1)([[1]])
    with pytest.raises(ValueError, match=r"Pad: batch\[0\] has shape \(1, 1\), so there is no axis -3"):
        Pad(-3)([[[1]]])
    with pytest.raises(ValueError, match=r"batch\[1\] has length 3 along axis 0, to_length is 2; cut it"):
        Pad(to_length=2)([[1, 2], [1, 2, 3]])
    with pytest.raises(ValueError, match=r"batch\[1\] has length 3 along axis 1, to_length is 2"):
        Pad("all", to_length=2)([np.ones((2, 2)), np.ones((2, 3))])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"axis": True}, TypeError, "Pad: axis must be an int .* or 'all', got True"),
        ({"axis": "both"}, TypeError, "Pad: axis must be an int .* or 'all', got 'both'"),
        ({"axis": 1.0}, TypeError, "Pad: axis must be"),
        ({"axis": None}, TypeError, "Pad: axis must be"),
        ({"pad": None}, TypeError, "Pad: pad must be a number, got None"),
        ({"pad": "x"}, TypeError, "Pad: pad must be a number, got 'x'"),
        ({"pad": [0]}, TypeError, "Pad: pad must be a number"),
        ({"pad": 2**70}, TypeError, "Pad: pad must be a number"),
        ({"ret_length": 1}, TypeError, "Pad: ret_length must be a bool"),
        ({"mask": "yes"}, TypeError, "Pad: mask must be a bool"),
        ({"round_to": 0}, ValueError, "Pad: round_to must be a positive int or None, got 0"),
        ({"round_to": True}, TypeError, "Pad: round_to must be a positive int or None, got True"),
        ({"to_length": 0}, ValueError, "Pad: to_length must be a positive int or None, got 0"),
        ({"to_length": True}, TypeError, "Pad: to_length must be a positive int or None, got True"),
        ({"to_length": (1, 2)}, TypeError, "Pad: to_length must be a positive int"),
        ({"to_length": 2, "round_to": 2}, ValueError, "Pad: pass either to_length or round_to, not both"),
    ],
)
def test_arguments_of_pad_are_checked_at_construction(
    arguments: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Pad(**arguments)


# -------------------------------------------------------------------- Append, List


def test_append_keeps_every_shape_and_dtype() -> None:
    samples = [np.ones((2, 3), "f4"), [1, 2], 5]
    same(Append()(samples), [np.ones((1, 2, 3), "f4"), np.array([[1, 2]]), np.array([5])])
    same(Append(expand=False)(samples), [np.ones((2, 3), "f4"), np.array([1, 2]), np.array(5)])
    assert Append(batch_axis=-1)([samples[0]])[0].shape == (2, 3, 1)
    assert Append(batch_axis=1)([samples[0]])[0].shape == (2, 1, 3)
    assert not np.shares_memory(Append()(samples)[0], samples[0])


def test_append_refuses_unfit_samples() -> None:
    with pytest.raises(ValueError, match=r"Append: batch\[1\] has shape \(1,\), so there is no place"):
        Append(batch_axis=2)([np.ones((1, 1)), [1]])
    with pytest.raises(TypeError, match=r"Append: batch\[1\] is of type str"):
        Append()([1, "a"])
    with pytest.raises(TypeError, match=r"Append: batch_axis must be an int .* got True"):
        Append(batch_axis=True)
    with pytest.raises(TypeError, match="Append: expand must be a bool"):
        Append(expand=2)  # type: ignore[arg-type]


def test_list_returns_the_samples_unchanged() -> None:
    samples = (object(), None, "a")
    out = List()(samples)
    assert type(out) is list
    assert all(a is b for a, b in zip(out, samples, strict=True))


# -------------------------------------------------------------------- Tuple


def test_tuple_gives_each_position_to_its_function() -> None:
    out = Tuple(Pad(ret_length=True), Stack(), List())([([1, 2], 0, "a"), [[3], 1.5, None]])
    same(out, ((np.array([[1, 2], [3, 0]]), ints(2, 1)), floats(0, 1.5), ["a", None]))
    assert Group is Tuple


def test_plain_functions_can_be_parts_of_a_tuple() -> None:
    out = Tuple(np.stack, sum, sk.default_collate)([(np.ones(2), 3, {"a": 1}), (np.ones(2), 4, {"a": 2})])
    same(out, (np.ones((2, 2)), 7, {"a": ints(1, 2)}))


def test_tuples_and_mappings_of_functions_compose_by_example() -> None:
    function = Tuple(Stack(), (List(), Stack()), {"x": Pad(), "y": Sentence(List(), List())})
    sample = (1, ("a", 2), {"x": [1], "y": Sentence("b", "c")})
    expected = (
        ints(1, 1),
        (["a"] * 2, ints(2, 2)),
        {"x": ints([1], [1]), "y": Sentence(["b"] * 2, ["c"] * 2)},
    )
    same(function([sample, sample]), expected)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_tuple_checks_the_arity_of_every_sample(position: int) -> None:
    for wrong in ((1,), (1, 2, 3), ()):
        batch: list[Any] = [(1, 2)] * 3
        batch[position] = wrong
        with pytest.raises(
            ValueError, match=rf"Tuple: batch\[{position}\] has {len(wrong)} elements, .* 2 func"
        ):
            Tuple(Stack(), Stack())(batch)


@pytest.mark.parametrize("sample", [5, "ab", {1, 2}, {"a": 1, "b": 2}, None])
def test_tuple_refuses_samples_without_positions(sample: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"Tuple: batch\[1\] is of type {type(sample).__name__}; allowed are tup"
    ):
        Tuple(Stack(), Stack())([(1, 2), sample])


def test_functions_are_checked_at_construction() -> None:
    with pytest.raises(ValueError, match="Tuple: at least one function"):
        Tuple()
    with pytest.raises(TypeError, match="Tuple: function 1 must be callable"):
        Tuple(Stack(), None)


def test_errors_of_parts_name_the_place_in_the_sample() -> None:
    function = Dict({"a": (Stack(), {"b": Pad()}), "s": Sentence(Stack(), sk.default_collate)})
    good = {"a": (1, {"b": [1]}), "s": Sentence(1, [2])}
    with pytest.raises(ValueError, match=r"^Pad: batch\[1\]\['a'\]\[1\]\['b'\] has shape \(1, 1\)"):
        function([good, {**good, "a": (1, {"b": [[1]]})}])
    with pytest.raises(ValueError, match=r"^Stack: batch\[1\]\['s'\]\.words .*\(1,\), batch\[0\]"):
        function([good, {**good, "s": Sentence([1], [2])}])
    with pytest.raises(TypeError, match=r"^default_collate: batch\[1\]\['s'\]\.label\[0\] is None"):
        function([good, {**good, "s": Sentence(1, [None])}])
    with pytest.raises(ValueError, match=r"^Tuple: batch\[1\]\['a'\] has 3 elements"):
        function([good, {**good, "a": (1, 2, 3)}])
    with pytest.raises(ValueError, match=r"^Dict: batch\[1\]\['a'\]\[1\] lacks \['b'\]"):
        function([good, {**good, "a": (1, {})}])


def test_errors_of_user_functions_get_a_note_with_the_place() -> None:
    with pytest.raises(ValueError, match="same shape") as raised:
        Dict({"x": (List(), np.stack)})([{"x": (1, np.ones(2))}, {"x": (1, np.ones(3))}])
    assert raised.value.__notes__ == ["raised by stack for batch[...]['x'][1]"]


# -------------------------------------------------------------------- NamedTuple


@pytest.mark.parametrize(
    "functions", [[Pad(), Stack()], (Pad(), Stack()), {"label": Stack(), "words": Pad()}]
)
def test_named_tuples_are_collated_field_by_field(functions: Any) -> None:
    out = sk.NamedTuple(Sentence, functions)([Sentence([1, 2], 0), Sentence([3], 1)])
    same(out, Sentence(np.array([[1, 2], [3, 0]]), ints(0, 1)))


@pytest.mark.parametrize("sample", [(1, 2), Word(1, 2), [1, 2], None])
def test_samples_of_another_class_are_refused(sample: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"NamedTuple: batch\[2\] is of type {type(sample).__name__}; .* Sentences"
    ):
        sk.NamedTuple(Sentence, [List(), List()])([Sentence(1, 2), Sentence(1, 2), sample])


@pytest.mark.parametrize(
    ("container", "functions", "error", "message"),
    [
        (tuple, [Stack()], TypeError, "NamedTuple: container must be a class of named tuples"),
        (Sentence(1, 2), [Stack()], TypeError, "NamedTuple: container must be a class"),
        (Sentence, [Stack()], ValueError, r"fields \('words', 'label'\) of Sentence is needed, got 1"),
        (Sentence, {"words": Stack()}, ValueError, r"of Sentence is needed, got \['words'\]"),
        (Sentence, {"words": Stack(), "label": Stack(), "x": List()}, ValueError, r"'label', 'x'\]"),
        (Sentence, [Stack(), 1], TypeError, "NamedTuple: the function for 'label' must be callable"),
    ],
)
def test_arguments_of_named_tuple_are_checked_at_construction(
    container: Any, functions: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sk.NamedTuple(container, functions)


# -------------------------------------------------------------------- Dict


def test_dict_gives_each_key_to_its_function() -> None:
    function = Dict({"x": Pad(), "y": Stack()})
    for kind in (dict, OrderedDict, UserDict):
        out = function([kind({"y": 0, "x": [1, 2]}), kind({"x": [3], "y": 1.5})])
        same(out, {"x": np.array([[1, 2], [3, 0]]), "y": floats(0, 1.5)})


def test_extra_keys_are_refused_or_dropped() -> None:
    batch = [{"a": 1, "b": "x", "c": 2}, {"c": 3, "b": "y", "a": 4}]
    with pytest.raises(ValueError, match=r"Dict: batch\[0\] .*\['b', 'c'\].*extra='drop'"):
        Dict({"a": Stack()})(batch)
    same(Dict({"a": Stack()}, extra="drop")(batch), {"a": ints(1, 4)})


@pytest.mark.parametrize("extra", ["raise", "drop"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_missing_key_is_refused_whatever_the_sample(extra: Any, position: int) -> None:
    batch = [{"a": 1, "b": 2} for _ in range(3)]
    del batch[position]["b"]
    with pytest.raises(ValueError, match=rf"Dict: batch\[{position}\] lacks \['b'\]"):
        Dict({"a": Stack(), "b": Stack()}, extra)(batch)


def test_dict_refuses_unfit_samples() -> None:
    with pytest.raises(TypeError, match=r"Dict: batch\[1\] is of type list; allowed are mappings"):
        Dict({"a": Stack()})([{"a": 1}, [1]])
    with pytest.raises(TypeError, match=r"Dict: batch\[0\] is of type list"):
        Dict({"a": Stack()}, "drop")([[1], {"a": 1}])
    with pytest.raises(TypeError, match="Dict: functions must be a mapping"):
        Dict([Stack()])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Dict: the function for 'a' must be callable"):
        Dict({"a": 1})
    with pytest.raises(ValueError, match=r"Dict: extra .*got 'keep'"):
        Dict({"a": Stack()}, "keep")  # type: ignore[arg-type]


# -------------------------------------------------------------------- PerShard


def test_each_shard_is_padded_to_its_own_longest_sample() -> None:
    shards = [[[1, 2, 3], [4]], [[5]], [[6, 7]]]
    same(PerShard(Pad())(shards), [np.array([[1, 2, 3], [4, 0, 0]]), ints([5]), ints([6, 7])])
    same(
        PerShard((Stack(), List()))([[(1, "a"), (2, "b")], [(3, "c")]]),
        [(ints(1, 2), ["a", "b"]), (ints(3), ["c"])],
    )


def test_shards_may_be_arrays_tuples_or_views() -> None:
    shards = [np.arange(3), (4, 5), sk.view([6])]
    same(PerShard(Stack())(shards), [ints(0, 1, 2), ints(4, 5), ints(6)])
    same(PerShard(np.asarray)(np.arange(4).reshape(2, 2)), [ints(0, 1), ints(2, 3)])


def test_errors_name_shard_and_sample() -> None:
    with pytest.raises(ValueError, match=r"Stack: batch\[1\]\[2\]\['x'\] .*\(1,\), batch\[1\]\[0\]"):
        PerShard({"x": Stack()})([[{"x": 1}], [{"x": 1}, {"x": 2}, {"x": [3]}]])
    with pytest.raises(ValueError, match=r"Stack: the batch\[1\] is empty"):
        PerShard(Stack())([[1], []])
    with pytest.raises(TypeError, match=r"PerShard: batch\[1\] .*int"):
        PerShard(List())([[1], 2])
    with pytest.raises(TypeError, match=r"PerShard: batch\[0\] is of type str"):
        PerShard(List())(["ab"])
    with pytest.raises(TypeError, match="PerShard: f must be callable"):
        PerShard(None)


# -------------------------------------------------------------------- where results lie

LARGE = 4000


def sample(i: int) -> Any:
    return {"x": np.full(LARGE, i, np.float32), "y": [float(i)] * (i % 5), "n": i, "name": f"n{i}"}


FIXED = Dict(
    {
        "x": Stack(),
        "y": Pad(to_length=LARGE, ret_length=True, mask=True),
        "n": Stack(),
        "name": List(),
    }
)
LONGEST = Dict({"x": Stack(), "y": Pad(round_to=LARGE), "n": Stack()}, extra="drop")


def test_arrays_are_written_into_memory_from_empty() -> None:
    memory = np.zeros(10_000, np.uint8)
    asked = []

    def allocate(shape: tuple[int, ...], dtype: Any) -> Any:
        asked.append((shape, str(dtype)))
        return memory[: int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)

    def lie_there(function: Any, batch: Any) -> Any:
        asked.clear()
        with evaluating(allocate):
            out = function(batch)
        parts = out if isinstance(out, tuple | list) else [out]
        assert all(np.shares_memory(part, memory) for part in parts)
        return asked

    rows = [[1, 2], [3, 4]]
    assert lie_there(Stack("f4"), rows) == [((2, 2), "float32")]
    assert lie_there(Stack("f4"), np.array(rows)) == [((2, 2), "float32")]
    assert lie_there(Pad(), [[1.5], []]) == [((2, 1), "float64")]
    everything = Pad("all", ret_length=True, mask=True)
    assert lie_there(everything, rows) == [((2, 2), "int64"), ((2, 1), "int64"), ((2, 2), "bool")]
    assert lie_there(Append(), rows) == [((1, 2), "int64")] * 2


@pytest.mark.parametrize(
    ("kind", "collate_fn"), [(FORK, LONGEST), *((kind, FIXED) for kind in PROCESSES[:2])], ids=str
)
def test_batches_lie_in_the_slot_of_a_worker(kind: Kind, collate_fn: Any) -> None:
    batches = sk.batch(sk.smap(sample, range(64)), 16, collate_fn=collate_fn)
    with kind.ahead(batches) as node:
        held = node[0]
        statistics = node.statistics()
        assert (statistics.misses, statistics.copies, statistics.leased) == (0, 0, 1)
        same(held, batches[0])
        del held
        assert node.statistics().leased == 0


def test_a_batch_larger_than_its_slot_is_delivered() -> None:
    batches = sk.batch(sk.smap(sample, range(32)), 16, collate_fn=LONGEST)
    with FORK.ahead(batches, shm_size=24 * 4096) as node:
        with pytest.warns(RuntimeWarning, match="does not fit"):
            first = node[0]
        same(first, batches[0])
        assert node.statistics().misses > 0


# -------------------------------------------------------------------- tensors


def test_tensors_become_arrays() -> None:
    torch = pytest.importorskip("torch")
    same(Stack()([torch.ones(2), torch.zeros(2)]), np.array([[1, 1], [0, 0]], "f4"))
    same(Pad()([torch.ones(2), torch.ones(1)]), np.array([[1, 1], [1, 0]], "f4"))
    with pytest.raises(TypeError, match=r"Stack: batch\[1\] .*Tensor"):
        Stack()([torch.ones(2), torch.ones(2, requires_grad=True)])


def test_user_defined_sequences_are_samples() -> None:
    class Pair(Sequence):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: Any) -> Any:
            return [10, 20][i]

    same(Tuple(Stack(), List())([Pair(), (1, 2)]), (ints(10, 1), [20, 2]))
