"""Stack and pad the leaves of samples: many arrays, numbers or tensors become one.

Results are allocated by `seqkit.empty`. In a process worker they lie in the slot of the current item.
Functions get the samples and their `Place`, which error messages name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from ..context import empty
from .base import Place

__all__ = [
    "ARRAYS",
    "Array",
    "DType",
    "as_arrays",
    "as_axis",
    "as_dtype",
    "common_dtype",
    "copied",
    "counted",
    "holds_objects",
    "inside",
    "is_array_of_samples",
    "is_masked",
    "is_object_array",
    "is_tensor",
    "padded",
    "plain_arrays",
    "stack",
    "stack_arrays",
    "stack_tensors",
]

Array = npt.NDArray[Any]
DType = np.dtype[Any]

ARRAYS = (np.ndarray, np.generic, bool, int, float, complex)


def stack(batch: Sequence[Any], place: Place, dtype: DType | None = None) -> Any:
    """Return one array of arrays, numpy scalars or numbers, of `dtype` or of the dtype that holds all of
    them.
    """
    kinds = set(map(type, batch))
    if dtype is None and len(kinds) == 1 and (python := _PYTHON_DTYPES.get(type(batch[0]))) is not None:
        return _stack_scalars(batch, python, place)
    if any(map(is_masked, kinds)):
        return _stack_masked(batch, place, dtype)
    _check_shapes(batch, place)
    common = common_dtype(batch, place, dtype)
    if not getattr(batch[0], "shape", ()):
        return _stack_scalars(batch, common, place)
    return stack_arrays(batch if kinds == {np.ndarray} else list(map(np.asarray, batch)), common)


_PYTHON_DTYPES = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}


def _dtype(sample: Any) -> DType:
    if isinstance(sample, np.ndarray | np.generic):
        return sample.dtype
    return next(dtype for kind, dtype in _PYTHON_DTYPES.items() if isinstance(sample, kind))


def common_dtype(batch: Sequence[Any], place: Place, dtype: DType | None = None) -> DType:
    """Return the dtype that holds all samples, in native byte order, or `dtype`; refuse objects and text."""
    dtypes = _dtypes(batch)
    for found in dtypes:
        if holds_objects(found):
            i = next(i for i, sample in enumerate(batch) if _dtype(sample) == found)
            raise TypeError(
                f"{place.who}: {place.at(i)} is an array of dtype {found}; allowed are numbers,"
                " bools, dates and records of them: convert it, or pass another collate_fn"
            )
    common = dtype or _promoted(dtypes)
    if common is None:
        i = next(i for i in range(len(batch)) if _promoted(_dtypes(batch[: i + 1])) is None)
        raise TypeError(
            f"{place.who}: {place.at(i)} has dtype {_dtype(batch[i])}, {place.at(0)} has {_dtype(batch[0])};"
            " no dtype holds both: convert them"
        )
    return common


def _dtypes(batch: Sequence[Any]) -> set[DType]:
    try:
        return {sample.dtype for sample in batch}
    except AttributeError:  # numbers of Python
        return set(map(_dtype, batch))


def _promoted(dtypes: set[DType]) -> DType | None:
    try:
        return np.result_type(*dtypes)
    except TypeError:
        return None


def holds_objects(dtype: DType) -> bool:
    """Return whether an array of this dtype holds Python objects or text."""
    return dtype.hasobject or dtype.kind in "SUT"


def is_object_array(sample: Any) -> bool:
    """Return whether a sample is an array of Python objects or text."""
    return isinstance(sample, np.ndarray | np.generic) and holds_objects(sample.dtype)


def is_array_of_samples(batch: Any) -> TypeGuard[Array]:
    """Return whether a batch is an array already, of samples that can be stacked."""
    return type(batch) is np.ndarray and batch.ndim > 0 and batch.size > 0 and not holds_objects(batch.dtype)


def _stack_scalars(batch: Sequence[Any], dtype: DType, place: Place) -> Array:
    out = empty(len(batch), dtype)
    try:
        out[...] = batch
    except (OverflowError, TypeError, ValueError):
        i = next(i for i, sample in enumerate(batch) if not _fits(sample, dtype))
        raise ValueError(
            f"{place.who}: {place.at(i)} is {batch[i]}, which does not fit into {dtype}"
        ) from None
    return out


def _fits(number: Any, dtype: DType) -> bool:
    try:
        np.empty(1, dtype)[...] = [number]
    except (OverflowError, TypeError, ValueError):
        return False
    return True


def stack_arrays(arrays: Sequence[Array], dtype: DType) -> Array:
    """Stack arrays of one shape and at least one dimension."""
    shape = arrays[0].shape
    out = empty((len(arrays), *shape), dtype)
    # The same as np.stack, but three times faster for small arrays, because nothing needs to be checked.
    np.concatenate(arrays, out=out.reshape(len(arrays) * shape[0], *shape[1:]), casting="unsafe")
    return out


def copied(array: Array, dtype: DType | None = None) -> Array:
    """Return a copy of an array, as `dtype` or in native byte order."""
    out = empty(array.shape, dtype or array.dtype.newbyteorder("="))
    out[...] = array
    return out


def _stack_masked(batch: Sequence[Any], place: Place, dtype: DType | None) -> Any:
    masks = [np.ma.getmaskarray(sample) for sample in batch]
    data = stack([np.ma.getdata(sample, subok=False) for sample in batch], place, dtype)
    return np.ma.MaskedArray(data, mask=stack(masks, place))


def stack_tensors(batch: Sequence[Any], place: Place) -> Any:
    """Return one PyTorch tensor of many."""
    _check_shapes(batch, place)
    return sys.modules["torch"].stack(list(batch))


def as_arrays(samples: Sequence[Any], place: Place) -> list[Any]:
    """Return samples as arrays. Numbers stay numbers."""
    return [
        sample if isinstance(sample, ARRAYS) else _as_array(sample, place, i)
        for i, sample in enumerate(samples)
    ]


def _as_array(sample: Any, place: Place, i: int) -> Array:
    what = f"{place.who}: {place.at(i)} is of type {type(sample).__name__}"
    try:
        array = np.asarray(sample)
    except Exception as error:
        raise TypeError(f"{what}, of which numpy makes no array: {error}") from error
    if holds_objects(array.dtype):
        raise TypeError(f"{what}; allowed are arrays, numbers and nested lists of them: convert it")
    return array


def plain_arrays(samples: Sequence[Any], place: Place) -> list[Array]:
    """Return samples and numbers as arrays. Refuse masked arrays, whose masks would be lost."""
    masked = set(filter(is_masked, set(map(type, samples))))
    for i, sample in enumerate(samples if masked else ()):
        if type(sample) in masked:
            raise TypeError(f"{place.who}: {place.at(i)} is a masked array; fill it before (numpy.ma.filled)")
    return [np.asarray(array) for array in as_arrays(samples, place)]


def padded(arrays: Sequence[Array], shape: Sequence[int], dtype: DType, filler: Array) -> Array:
    """Return arrays as one array, each filled up to a shape. Every element is written once."""
    out = empty((len(arrays), *shape), dtype)
    for row, array in zip(out, arrays, strict=True):
        within = tuple(map(slice, array.shape))
        row[within] = array
        for axis, length in enumerate(array.shape):
            if length < shape[axis]:
                row[(*within[:axis], slice(length, None))] = filler
    return out


def inside(lengths: Array, shape: Sequence[int]) -> Array:
    """Return bool arrays of a shape, one for each row of lengths, that are True within these lengths."""
    out = empty((len(lengths), *shape), bool)
    out[...] = False
    for row, stops in zip(out, lengths, strict=True):
        row[tuple(map(slice, stops))] = True
    return out


def is_masked(kind: type) -> bool:
    """Return whether a class is one of masked arrays."""
    # `np.ma` would import `numpy.ma`, which takes longer than most batches. Without it, no sample is masked.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return masked is not None and issubclass(kind, masked)


def is_tensor(kind: type) -> bool:
    """Return whether a class is one of PyTorch tensors."""
    # A tensor can exist only if torch was imported already.
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and issubclass(kind, tensor)


def _check_shapes(batch: Sequence[Any], place: Place) -> None:
    shapes = [getattr(sample, "shape", ()) for sample in batch]
    for i, shape in enumerate(shapes if len(set(shapes)) > 1 else ()):
        if shape != shapes[0]:
            raise ValueError(
                f"{place.who}: {place.at(i)} has shape {tuple(shape)}, {place.at(0)} has"
                f" {tuple(shapes[0])}; make them equal, pad them, or pass another collate_fn"
            )


def as_dtype(value: npt.DTypeLike | None, who: str) -> DType | None:
    """Return the `dtype` argument of a function, checked."""
    try:
        dtype = None if value is None else np.dtype(value)
    except TypeError:
        dtype = np.dtype(object)
    if dtype is not None and holds_objects(dtype):
        raise TypeError(
            f"{who}: dtype must be one of numbers, bools, dates or records of them, got {value!r}"
        )
    return dtype


def as_axis(value: Any, who: str, other: str = "") -> int:
    """Return the number of an axis, checked."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(f"{who} must be an int{other}, got {value!r}")
    return int(value)


def counted(dimensions: int) -> str:
    """Return a number of dimensions in words."""
    return f"{dimensions} dimension{'s' * (dimensions != 1)}"
