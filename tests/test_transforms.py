"""`ClipSequence` and `PadSequence`."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import seqkit as sk


@pytest.mark.parametrize("n", range(6))
@pytest.mark.parametrize("length", [1, 3, 5])
def test_items_have_the_length_they_are_given(n: int, length: int) -> None:
    items = list(range(10, 10 + n))
    filled = (items + [0] * length)[:length]
    for kind in (list, tuple, np.array):
        item: Any = kind(items)
        for transform, expected in (
            (sk.ClipSequence(length), items[:length]),
            (sk.PadSequence(length), filled),
            (sk.PadSequence(length, clip=False), items if n > length else filled),
        ):
            found = transform(item)
            assert type(found) is type(item)
            assert list(found) == expected
            assert len(item) == n  # untouched


def test_arrays_are_filled_along_their_first_axis_in_their_own_type() -> None:
    rows = np.ones((2, 3), np.float32)
    found = sk.PadSequence(4, pad=-1)(rows)
    assert found.dtype == np.float32
    assert found.tolist() == [[1, 1, 1], [1, 1, 1], [-1, -1, -1], [-1, -1, -1]]
    assert np.isnan(sk.PadSequence(3, pad=np.nan)(rows)[2]).all()
    assert sk.PadSequence(2, pad="x")(["a"]) == ["a", "x"]


@pytest.mark.parametrize(("dtype", "value"), [(np.uint8, -1), (np.uint8, 256), (int, 0.5), (int, np.nan)])
def test_a_value_that_the_array_cannot_hold_is_refused(dtype: Any, value: Any) -> None:
    with pytest.raises(ValueError, match="cannot hold pad"):
        sk.PadSequence(3, pad=value)(np.zeros(1, dtype))


def test_items_of_other_kinds_are_refused() -> None:
    with pytest.raises(TypeError, match="PadSequence: an"):
        sk.PadSequence(3)("ab")  # type: ignore[type-var]


def test_transforms_pickle_and_have_a_repr() -> None:
    pad, clip = sk.PadSequence(3, pad=7), sk.ClipSequence(2)
    assert pickle.loads(pickle.dumps(pad))([1]) == [1, 7, 7]
    assert pickle.loads(pickle.dumps(clip))([1, 2, 3]) == [1, 2]
    assert (repr(pad), repr(clip)) == ("PadSequence(3, pad=7, clip=True)", "ClipSequence(2)")
    with sk.prefetch(sk.smap(pad, [[1], [2, 3]]), 2) as ahead:
        assert list(ahead) == [[1, 7, 7], [2, 3, 7]]
