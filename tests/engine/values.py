"""Values of every kind that travel between processes, and what it means that they arrived."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = ["DTYPES", "LAYOUTS", "arrays", "filled", "same", "through_pickle", "values"]

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

LAYOUTS = {
    "C": lambda array: array,
    "Fortran": np.asfortranarray,
    "transposed": lambda array: array.T,
    "every other": lambda array: array[..., ::2] if array.ndim else array,
    "reversed": lambda array: array[::-1] if array.ndim else array,
    "repeated": lambda array: np.broadcast_to(array, (2, *array.shape)),
}


def filled(dtype: Any, shape: tuple[int, ...], seed: int = 1) -> Any:
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


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    # Around the size above which buffers travel beside the tail, and all the corner cases below it.
    shapes = [(), (0,), (3, 0, 2), (1,), (7,), (2, 3), (4095,), (4096,), (64, 65), (5, 1, 1001)]
    array = filled(draw(st.sampled_from(DTYPES)), draw(st.sampled_from(shapes)), draw(st.integers(0, 99)))
    array = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](array)[...]
    if draw(st.booleans()):
        array.flags.writeable = False
    return array


_leaves = st.one_of(
    arrays(),
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers(),
    st.integers(-(1 << 66), 1 << 66),
    st.text(max_size=5),
    st.integers(0, 20_000).map(bytes),
    st.integers(0, 20_000).map(lambda n: bytearray(b"x" * n)),
    st.sampled_from([np.float32(2.5), np.datetime64("2020-01-01"), np.bool_(True), range(3), ...]),
)
values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    ),
    max_leaves=8,
)


def through_pickle(value: Any) -> Any:
    """Return what plain pickle makes of a value: numpy turns scattered arrays to native byte order."""
    return pickle.loads(pickle.dumps(value, protocol=5))


def same(a: Any, b: Any) -> bool:
    """Are two values equal to the last bit, and of the same types throughout?"""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        if a.dtype.names:  # their padding is nobody's
            return all(same(a[name], b[name]) for name in a.dtype.names)
        if a.dtype.hasobject:
            return same(a.tolist(), b.tolist())
        return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return repr(a) == repr(b)
