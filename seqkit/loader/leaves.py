"""The leaves of a batch: many arrays, numbers or tensors into one.

Results are allocated by `seqkit.empty`: in a process worker they lie in the slot of the current item.
Every function gets the samples and their `path` in the tree, for messages.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..context import empty

__all__ = ["ARRAYS", "copied", "holds_objects", "is_tensor", "stack", "stack_tensors"]

Array = npt.NDArray[Any]

ARRAYS = (np.ndarray, np.generic, bool, int, float, complex)


def stack(batch: Sequence[Any], path: str) -> Any:
    """Return one array of arrays, numpy scalars or numbers."""
    kinds = set(map(type, batch))
    if len(kinds) == 1 and (python := _PYTHON_DTYPES.get(type(batch[0]))) is not None:
        return _stack_scalars(batch, python, path)
    if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
        return _stack_masked(batch, path)
    _check_shapes(batch, path)
    plain = kinds == {np.ndarray}
    dtypes = {array.dtype for array in batch} if plain else set(map(_dtype, batch))
    dtype = _promoted(dtypes, batch, path)
    if not getattr(batch[0], "shape", ()):
        return _stack_scalars(batch, dtype, path)
    return _stack_arrays(batch if plain else list(map(np.asarray, batch)), dtype)


_PYTHON_DTYPES = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}


def _dtype(sample: Any) -> np.dtype[Any]:
    if isinstance(sample, np.ndarray | np.generic):
        return sample.dtype
    return next(dtype for kind, dtype in _PYTHON_DTYPES.items() if isinstance(sample, kind))


def _promoted(dtypes: set[np.dtype[Any]], batch: Sequence[Any], path: str) -> np.dtype[Any]:
    """Return the dtype that holds all of them, in native byte order."""
    for dtype in dtypes:
        if holds_objects(dtype):
            i = next(i for i, sample in enumerate(batch) if _dtype(sample) == dtype)
            raise TypeError(
                f"default_collate: batch[{i}]{path} is an array of dtype {dtype}; allowed are numbers,"
                " bools, dates and records of them: convert it, or pass another collate_fn"
            )
    try:
        return np.result_type(*dtypes)
    except TypeError as error:
        names = ", ".join(sorted(map(str, dtypes)))
        raise TypeError(
            f"default_collate: batch[...]{path} has dtypes that go into no common one: {names}"
        ) from error


def holds_objects(dtype: np.dtype[Any]) -> bool:
    """Does an array of this dtype hold Python objects or text?"""
    return dtype.hasobject or dtype.kind in "SUT"


def _stack_scalars(batch: Sequence[Any], dtype: np.dtype[Any], path: str) -> Array:
    out = empty(len(batch), dtype)
    try:
        out[...] = batch
    except OverflowError:
        i = next(i for i, sample in enumerate(batch) if not -(2**63) <= sample < 2**63)
        raise ValueError(
            f"default_collate: batch[{i}]{path} is {batch[i]}, which does not fit into {dtype}"
        ) from None
    return out


def _stack_arrays(arrays: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """Stack arrays of one shape and at least one dimension."""
    shape = arrays[0].shape
    out = empty((len(arrays), *shape), dtype)
    # What np.stack does, three times faster for small arrays: there is nothing left to check.
    np.concatenate(arrays, out=out.reshape(len(arrays) * shape[0], *shape[1:]))
    return out


def copied(array: Array) -> Array:
    """Return a copy of an array, in native byte order."""
    out = empty(array.shape, array.dtype.newbyteorder("="))
    out[...] = array
    return out


def _stack_masked(batch: Sequence[Any], path: str) -> Any:
    masks = [np.ma.getmaskarray(sample) for sample in batch]
    data = stack([np.ma.getdata(sample, subok=False) for sample in batch], path)
    return np.ma.MaskedArray(data, mask=stack(masks, path))


def stack_tensors(batch: Sequence[Any], path: str) -> Any:
    """Return one PyTorch tensor of many."""
    _check_shapes(batch, path)
    return sys.modules["torch"].stack(list(batch))


def is_tensor(kind: type) -> bool:
    """Is this a class of PyTorch tensors?"""
    # Whoever hands us a tensor has imported torch; we never do.
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and issubclass(kind, tensor)


def _check_shapes(batch: Sequence[Any], path: str) -> None:
    shapes = [getattr(sample, "shape", ()) for sample in batch]
    for i, shape in enumerate(shapes if len(set(shapes)) > 1 else ()):
        if shape != shapes[0]:
            raise ValueError(
                f"default_collate: batch[{i}]{path} has shape {tuple(shape)}, batch[0]{path} has"
                f" {tuple(shapes[0])}; make them equal, pad them, or pass another collate_fn"
            )
