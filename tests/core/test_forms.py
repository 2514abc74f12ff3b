"""`form`: a value in a few words."""

from typing import NamedTuple

import numpy as np
import pytest

from seqkit.core.forms import form


class Sample(NamedTuple):
    image: object
    label: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (None, "None"),
        ("a.png", "'a.png'"),
        ("x" * 2000, "str of 2,000"),
        (b"\x00" * 30, "bytes of 30"),
        (np.float64(2), "float64 2.0"),
        (np.array(7), "int64 7"),
        (np.zeros((256, 213, 3), np.uint8), "uint8[256, 213, 3]"),
        ([0.5, 1.5], "[0.5, 1.5]"),
        ([np.zeros(2)] * 32, "list of 32: float64[2]"),
        ([], "list of 0"),
        ({"x": np.zeros(2), "y": 1}, "{x: float64[2], y: 1}"),
        ((1, "a"), "(1, 'a')"),
        (Sample(np.zeros(2), 3), "Sample(image: float64[2], label: 3)"),
        ({i: i for i in range(9)}, "{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, … 3 more}"),
        ({"a": {"b": {"c": {"d": 1}}}}, "{a: {b: {c: {…}}}}"),
        (object(), "object"),
        (range(5), "range of 5"),
    ],
)
def test_a_value_is_told_in_a_few_words(value, text):
    assert form(value) == text


def test_tensors_and_pictures_are_told():
    torch, pillow = pytest.importorskip("torch"), pytest.importorskip("PIL.Image")
    assert form(torch.zeros(2, 3)) == "float32[2, 3]"
    assert form(torch.tensor(3)) == "int64 3"
    assert form(pillow.new("L", (5, 7))) == "L picture 5 × 7"
