"""Whether a dtype holds numbers: the one rule of all functions that convert values.

A conversion may round floats to the precision of the dtype. It changes nothing else: integers stay exact,
nothing overflows, and dates keep their time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["always_holds", "holds", "lost_missing", "not_held"]

DType = np.dtype[Any]
Flags = npt.NDArray[np.bool_]


def holds(dtype: DType, values: npt.ArrayLike) -> bool:
    """Return whether a dtype holds all values, with floats rounded to its precision.

    >>> holds(np.dtype("f4"), 0.1), holds(np.dtype("u1"), [3, 300]), holds(np.dtype("f4"), 2**24 + 1)
    (True, False, False)
    """
    array = np.asarray(values)
    return always_holds(dtype, array.dtype) or not not_held(dtype, array).any()


def always_holds(dtype: DType, found: DType) -> bool:
    """Return whether a dtype holds all values of another dtype.

    >>> always_holds(np.dtype("f8"), np.dtype("i4")), always_holds(np.dtype("f8"), np.dtype("i8"))
    (True, False)
    """
    if found == dtype:
        return True
    if found.kind not in "biufc" or dtype.kind not in "biufc":
        return False
    if found.kind in "iu" and dtype.kind in "fc" and found.itemsize * 8 > np.finfo(dtype).nmant:
        return False  # numpy calls int64 to float64 safe
    return np.can_cast(found, dtype)


def not_held(dtype: DType, values: npt.NDArray[Any]) -> Flags:
    """Return an array that is True for the values that a dtype does not hold.

    >>> not_held(np.dtype("i1"), np.array([1, 300, 1.5]))
    array([False,  True,  True])
    """
    found = values.dtype
    if always_holds(dtype, found):
        return np.zeros(values.shape, bool)
    with np.errstate(all="ignore"):
        if found.kind in "biuf" and dtype.kind in "biu":
            return _outside(dtype, values)
        if found.kind in "iu" and dtype.kind in "fc":
            return _rounded(dtype, values)
        if found.kind in "fc" and dtype.kind in "fc" and (dtype.kind == "c" or found.kind == "f"):
            return np.asarray(np.isfinite(values) & ~np.isfinite(values.astype(dtype)))
        if found.kind == dtype.kind and found.kind in "mM" and np.can_cast(found, dtype, "same_kind"):
            return _other_time(dtype, values)
    return np.full(values.shape, dtype.kind in "mM" or not np.can_cast(found, dtype))


def lost_missing(sample: Any, array: npt.NDArray[Any]) -> bool:
    """Return whether ints became floats because some are missing, as in a column of pandas or polars."""
    declared = str(getattr(sample, "dtype", getattr(sample, "type", ""))).lower()
    return array.dtype.kind == "f" and declared.startswith(("int", "uint"))


def _outside(dtype: DType, values: npt.NDArray[Any]) -> Flags:
    """Return where numbers are no ints, or out of the range of a dtype of ints or bools."""
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if values.dtype.kind == "f":  # the float next to `most` may be larger than it
        inside: Flags = (values >= least) & (values < float(most + 1))
        return np.asarray(~(inside & (values == np.trunc(values))))
    return np.asarray((values < least) | (values > most))


def _rounded(dtype: DType, values: npt.NDArray[Any]) -> Flags:
    """Return where ints are not exact as floats."""
    exact = 2 << int(np.finfo(dtype).nmant)
    suspects = np.asarray((values > exact) | (values < -exact))
    held = values[suspects].astype(dtype).tolist()  # Python compares ints and floats exactly
    suspects[suspects] = [one != other for one, other in zip(values[suspects].tolist(), held, strict=True)]
    return suspects


def _other_time(dtype: DType, values: npt.NDArray[Any]) -> Flags:
    """Return where dates or durations change with their unit."""
    held = values.astype(dtype)
    return np.asarray(~np.isnat(values) & (np.isnat(held) | (held.astype(values.dtype) != values)))
