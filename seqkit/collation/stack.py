"""`Stack`, `Append` and `List`: arrays of one shape in one array, and lists of samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arguments import as_bool, int_at_least
from .base import Collate, Place
from .leaves import (
    Array,
    as_dtype,
    copied,
    is_array_of_samples,
    plain_arrays,
    stack,
)

__all__ = ["Append", "List", "Stack"]


@dataclass(repr=False, eq=False)
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
        of these, and for dtypes without a common one.
    ValueError
        For an empty batch, different shapes, and numbers that do not fit into the dtype.

    Notes
    -----
    One copy of the data, into memory of `seqkit.empty`. Tensors become arrays. Masked arrays are
    refused. Modelled on ``Stack`` of GluonNLP.

    Examples
    --------
    >>> Stack()([[1, 2], [3.5, 4]])
    array([[1. , 2. ],
           [3.5, 4. ]])
    >>> Stack("float32")([1, 2]).dtype
    dtype('float32')
    """

    takes_arrays = True  # see `Batch`

    dtype: npt.DTypeLike | None = None

    def __post_init__(self) -> None:
        self._dtype = as_dtype(self.dtype, "Stack")

    def __call__(self, batch: Iterable[Any]) -> Any:
        if self.dtype is None and is_array_of_samples(batch):
            return copied(batch)
        return super().__call__(batch)

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        return stack(samples, place, self._dtype)


@dataclass(repr=False, eq=False)
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

    expand: bool = True
    batch_axis: int = 0

    def __post_init__(self) -> None:
        self.expand = as_bool(self.expand, "Append: expand")
        self.batch_axis = int_at_least(self.batch_axis, "Append: batch_axis", -64)

    def _collate(self, samples: Sequence[Any], place: Place) -> list[Array]:
        arrays = plain_arrays(samples, place)
        return [copied(self._expanded(array, i, place)) for i, array in enumerate(arrays)]

    def _expanded(self, array: Array, i: int, place: Place) -> Array:
        if not self.expand:
            return array
        if not -array.ndim - 1 <= self.batch_axis <= array.ndim:
            raise ValueError(
                f"{place.who}: {place.at(i)} has shape {array.shape}, so there is no place for"
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
