"""`Stack`, `Append` and `List`: arrays of one shape in one array, and lists of samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arguments import as_flag
from ..core.casting import holds
from .base import Collate, Place
from .leaves import (
    Array,
    as_arrays,
    as_axis,
    as_dtype,
    copied,
    counted,
    hold,
    is_array_of_samples,
    plain_arrays,
    stack,
)

__all__ = ["Append", "List", "Stack"]


class Stack(Collate):
    """Stack arrays, numbers or nested lists of one shape.

    Parameters
    ----------
    dtype : dtype-like, optional
        Dtype of the batch. It must hold all values: floats are rounded to its precision, and nothing else
        changes. None (the default) is the dtype that numpy promotes all samples to, in any order. Samples of
        ints give ints.

    Raises
    ------
    TypeError
        If `dtype` does not hold numbers, bools, dates or records of them, for samples that are not arrays
        of these or have a unit, and for dtypes without a common one.
    ValueError
        For an empty batch, different shapes, and numbers that do not fit into the dtype.

    Notes
    -----
    One copy of the data, into memory of `seqkit.empty`. Masked arrays keep their mask; tensors become
    arrays. Modelled on ``Stack`` of GluonNLP.

    Examples
    --------
    >>> Stack()([[1, 2], [3.5, 4]])
    array([[1. , 2. ],
           [3.5, 4. ]])
    >>> Stack("float32")([1, 2]).dtype
    dtype('float32')
    """

    takes_arrays = True  # see `Batch`

    def __init__(self, dtype: npt.DTypeLike | None = None) -> None:
        self._given = {"dtype": dtype}
        self.dtype = as_dtype(dtype, "Stack")

    def __call__(self, batch: Iterable[Any]) -> Any:
        if not is_array_of_samples(batch):
            return super().__call__(batch)
        if self.dtype is not None and not holds(self.dtype, batch):
            hold(list(batch), self.dtype, Place("Stack"))  # names the sample
        return copied(batch, self.dtype)

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        return stack(as_arrays(samples, place), place, self.dtype)


class Append(Collate):
    """Make a list of arrays, one per sample, of any shapes.

    Parameters
    ----------
    expand : bool
        True (the default): give each array an axis of length 1 for the batch.
    batch_axis : int
        Position of that axis (-1 is the last). 0 by default.

    Raises
    ------
    TypeError
        If `batch_axis` is not an int, and for samples that are not arrays of numbers or are masked.
    ValueError
        If `expand` is not a bool, for an empty batch, and for a `batch_axis` out of range.

    Notes
    -----
    One copy of the data, into memory of `seqkit.empty`. Each array keeps its own dtype. Modelled on
    ``Append`` of Gluon.

    Examples
    --------
    >>> Append()([[1, 2], [3.5]])
    [array([[1, 2]]), array([[3.5]])]
    >>> Append(expand=False)([[1, 2], [3.5]])
    [array([1, 2]), array([3.5])]
    """

    def __init__(self, expand: bool = True, batch_axis: int = 0) -> None:
        self._given = {"expand": expand, "batch_axis": batch_axis}
        self.expand = as_flag(expand, "Append: expand")
        self.batch_axis = as_axis(batch_axis, "Append: batch_axis")

    def _collate(self, samples: Sequence[Any], place: Place) -> list[Array]:
        arrays = plain_arrays(samples, place)
        return [copied(self._expanded(array, i, place)) for i, array in enumerate(arrays)]

    def _expanded(self, array: Array, i: int, place: Place) -> Array:
        if not self.expand:
            return array
        if not -array.ndim - 1 <= self.batch_axis <= array.ndim:
            raise ValueError(
                f"{place.who}: {place.at(i)} has {counted(array.ndim)}, so there is no place for"
                f" batch_axis={self.batch_axis}"
            )
        return np.expand_dims(array, self.batch_axis)


class List(Collate):
    """Make a list of the samples as they are.

    Raises
    ------
    ValueError
        For an empty batch.

    Notes
    -----
    No copy. Modelled on ``List`` of GluonNLP and ``AsList`` of Gluon.

    Examples
    --------
    >>> List()(["a", None])
    ['a', None]
    """

    def _collate(self, samples: Sequence[Any], place: Place) -> list[Any]:
        return list(samples)
