"""The rule that decides whether a dtype holds numbers, and the functions that obey it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqkit as sk
from seqkit import Pad, Stack
from seqkit.collation.casting import holds, not_held

CASES = [
    ("f4", 0.1, True),
    ("f4", -1e9, True),
    ("f4", 10**8, True),
    ("f4", 2**24 + 1, False),
    ("f2", float("-inf"), True),
    ("f2", 1e9, False),
    ("f2", 70_000, False),
    ("f8", float("nan"), True),
    ("f8", 2**63 - 1, False),
    ("f8", np.uint64(2**63), True),
    ("f8", np.uint64(2**64 - 1), False),
    ("f8", 2**70, False),
    ("f8", 1j, False),
    ("f8", np.longdouble("1e400"), False),
    ("c8", 2**24 + 1, False),
    ("c16", 1j, True),
    ("i8", 3.0, True),
    ("i8", 1.5, False),
    ("i8", float("nan"), False),
    ("i8", 2.0**63, False),
    ("i8", -(2.0**63), True),
    ("i8", np.uint64(2**63), False),
    ("i8", "3", False),
    ("i8", None, False),
    ("i8", np.datetime64("2020", "s"), False),
    ("i4", [], True),
    ("u1", True, True),
    ("u1", -1, False),
    ("u1", [3, 256], False),
    ("u8", -1, False),
    ("?", [0.0, 1], True),
    ("?", 2, False),
    ("m8[s]", 3, False),
    ("m8[D]", np.timedelta64(1, "Y"), False),
    ("M8[s]", np.timedelta64(1, "s"), False),
    ("M8[s]", np.datetime64("NaT"), True),
    ("M8[ns]", np.datetime64("2020-01-01", "s"), True),
    ("M8[ns]", np.datetime64("2500-01-01", "s"), False),
    ("M8[D]", np.datetime64("2020-01-01T05"), False),
    ("U2", "ab", True),
    ("U2", "abc", False),
    ("S2", b"abc", False),
]


@pytest.mark.parametrize(("dtype", "value", "expected"), CASES)
def test_a_dtype_holds_what_it_keeps_up_to_the_precision_of_floats(
    dtype: Any, value: Any, expected: bool
) -> None:
    assert holds(np.dtype(dtype), value) is expected


@given(
    st.sampled_from(["b", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]),
    st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1),
)
def test_ints_are_held_where_each_comes_back(dtype: str, values: list[int]) -> None:
    for value in values:
        with np.errstate(all="ignore"):
            try:
                held = np.array(value).astype(dtype)
                same = np.isfinite(held) and int(held) == value
            except OverflowError:
                same = False
        assert bool(not_held(np.dtype(dtype), np.array(value))) is not same


CONVERTING: dict[str, Callable[[str, Any], Any]] = {
    "Stack numbers": lambda dtype, value: Stack(dtype)([value]),
    "Stack lists": lambda dtype, value: Stack(dtype)([[value]]),
    "Stack arrays": lambda dtype, value: Stack(dtype)([np.array([value])]),
    "Stack an array": lambda dtype, value: Stack(dtype)(np.array([[value]])),
    "Stack scalars": lambda dtype, value: Stack(dtype)([np.array(value)[()]]),
    "Pad": lambda dtype, value: Pad(dtype=dtype)([[value], []]),
    "Pad pad": lambda dtype, value: Pad(pad=value, dtype=dtype),
    "PadSequence": lambda dtype, value: sk.PadSequence(2, value)(np.zeros(1, dtype)),
    "StreamLoader": lambda dtype, value: [
        *sk.streams.StreamLoader(
            ["ab", "c"], lambda name: [np.zeros(2, dtype)] * len(name), 2, pad_value=value
        )
    ],
}


@pytest.mark.parametrize("convert", CONVERTING.values(), ids=CONVERTING)
@pytest.mark.parametrize(
    ("dtype", "value"),
    [("i1", 300), ("u1", -1), ("i4", 1.5), ("i4", float("nan")), ("?", 2), ("f2", 1e9), ("f4", 2**24 + 1)],
)
def test_a_value_that_does_not_fit_is_refused_everywhere(
    convert: Callable[[str, Any], Any], dtype: str, value: Any
) -> None:
    with pytest.raises(ValueError, match=r"does not fit into|cannot hold pad"):
        convert(dtype, value)


@pytest.mark.parametrize("convert", CONVERTING.values(), ids=CONVERTING)
@pytest.mark.parametrize(("dtype", "value"), [("i1", 3.0), ("f4", 0.1), ("f2", float("inf")), ("f4", 10**8)])
def test_floats_may_be_rounded(convert: Callable[[str, Any], Any], dtype: str, value: Any) -> None:
    convert(dtype, value)
