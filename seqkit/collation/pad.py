"""`Pad`: arrays of different lengths in one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.arguments import as_bool, int_at_least, optional_int
from ..core.errors import brief
from ..core.worker import empty
from .base import Collate, Place
from .casting import holds
from .leaves import (
    Array,
    DType,
    as_dtype,
    common_dtype,
    copied,
    holds_objects,
    padded,
    plain_arrays,
)

__all__ = ["Pad"]


@dataclass(repr=False, eq=False)
class Pad(Collate):
    """Stack arrays or nested lists of different lengths, the shorter ones filled up.

    Parameters
    ----------
    axis : int or "all"
        Axis of a sample along which lengths may differ (-1 is the last axis), or ``"all"`` for every axis.
        0 by default.
    pad : number
        Value to fill with, 0 by default. It takes the dtype of the samples.
    ret_length : bool
        True: also return the lengths of the samples, an int64 array of shape ``(n,)``. With ``axis="all"``
        it has the shape ``(n, ndim)``, where ndim is the number of axes of a sample.
    dtype : dtype-like, optional
        Dtype of the batch. It must hold all values: floats are rounded to its precision, and nothing else
        changes. None (the default) is the dtype that numpy promotes all samples to. Samples of ints give
        ints.
    round_to : int, optional
        Fill up to a multiple of this (1 or more).
    to_length : int, optional
        Fill up to this length (1 or more). None (the default) is the length of the longest sample in the
        batch.
    mask : bool
        True: also return a bool array that is True for data. It has the shape ``(n, length)``, or with
        ``axis="all"`` the shape of the batch.

    Returns
    -------
    numpy.ndarray or tuple
        The batch, or ``(batch, lengths)``, ``(batch, mask)`` or ``(batch, lengths, mask)``.

    Raises
    ------
    TypeError
        For arguments of a wrong type, and for samples that are not arrays or are masked.
    ValueError
        For arguments out of range, `round_to` together with `to_length`, values or a `pad` that the dtype
        cannot hold, an empty batch, numbers of axes or lengths that differ elsewhere, and a sample longer
        than `to_length`.

    Notes
    -----
    One copy of the data, into memory of `seqkit.empty`, and about 2 µs per sample. Samples may be empty: they
    take their dtype, and an empty list its other lengths, from the rest of the batch. Samples of several
    parts need a function for each part, such as ``Tuple(Pad(), Stack())``. Modelled on ``Pad`` of GluonNLP,
    whose lengths are int32.

    Examples
    --------
    >>> Pad()([[1.5, 2], [3]])
    array([[1.5, 2. ],
           [3. , 0. ]])
    >>> Pad(pad=-1, ret_length=True, to_length=3)([[1, 2], []])
    (array([[ 1,  2, -1],
           [-1, -1, -1]]), array([2, 0]))
    >>> Pad(axis="all")([np.ones((1, 2)), np.ones((2, 1))])
    array([[[1., 1.],
            [0., 0.]],
    <BLANKLINE>
           [[1., 0.],
            [1., 0.]]])
    """

    axis: int | Literal["all"] = 0
    pad: Any = 0
    ret_length: bool = False
    dtype: npt.DTypeLike | None = None
    round_to: int | None = None
    to_length: int | None = field(default=None, kw_only=True)
    mask: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.axis != "all":
            self.axis = int_at_least(self.axis, "Pad: axis", -64, " or 'all'")
        number = np.asarray(self.pad)
        if number.ndim or holds_objects(number.dtype):
            raise TypeError(f"Pad: pad must be a number, got {brief(self.pad)}")
        self.ret_length = as_bool(self.ret_length, "Pad: ret_length")
        self._dtype = as_dtype(self.dtype, "Pad")
        self.round_to = optional_int(self.round_to, "Pad: round_to")
        self.to_length = optional_int(self.to_length, "Pad: to_length")
        self.mask = as_bool(self.mask, "Pad: mask")
        if self.round_to is not None and self.to_length is not None:
            raise ValueError("Pad: pass either to_length or round_to, not both")
        if self._dtype is not None:
            self._filler(self._dtype, "an array")

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        arrays = plain_arrays(samples, place)
        filled = [array for array in arrays if array.size] or arrays
        dtype = common_dtype(filled, place, self._dtype)
        # An empty list has no lengths along other axes.
        arrays = [filled[0][:0] if array.shape == (0,) and filled[0].ndim else array for array in arrays]
        axes = self._axes(arrays, place)
        lengths = np.array([[array.shape[axis] for axis in axes] for array in arrays])
        shape = np.array(arrays[0].shape)
        shape[axes] = self._padded_lengths(lengths, axes, place)
        parts = [padded(arrays, shape.tolist(), dtype, self._filler(dtype, place.at("...")))]
        if self.ret_length:
            parts.append(copied(lengths if self.axis == "all" else lengths[:, 0]))
        if self.mask:
            parts.append(_inside(lengths, shape[axes].tolist()))
        return tuple(parts) if len(parts) > 1 else parts[0]

    def _filler(self, dtype: DType, what: str) -> Array:
        """Return the value to fill with, in a dtype."""
        if not holds(dtype, self.pad):
            raise ValueError(
                f"Pad: {what} of dtype {dtype} cannot hold pad={self.pad}; choose another one, or"
                " another dtype"
            )
        return np.asarray(self.pad).astype(dtype)

    def _axes(self, arrays: Sequence[Array], place: Place) -> list[int]:
        """Return the axes to pad along. Refuse samples that differ elsewhere."""
        shape = arrays[0].shape
        axes = [*range(len(shape))] if isinstance(self.axis, str) else [self.axis % max(len(shape), 1)]
        for i, array in enumerate(arrays):
            if not array.ndim:
                raise ValueError(
                    f"{place.who}: {place.at(i)} is a single number; Stack makes an array of such"
                )
            if array.ndim != len(shape) or any(
                length != shape[axis] for axis, length in enumerate(array.shape) if axis not in axes
            ):
                raise ValueError(
                    f"{place.who}: {place.at(i)} has shape {array.shape}, {place.at(0)} has {shape}; they may"
                    f" differ along axis {self.axis} only: make them equal, or pad with axis='all'"
                )
        if not isinstance(self.axis, str) and not -len(shape) <= self.axis < len(shape):
            raise ValueError(f"{place.who}: {place.at(0)} has shape {shape}, so there is no axis {self.axis}")
        return axes

    def _padded_lengths(self, lengths: Array, axes: list[int], place: Place) -> list[int]:
        """Return the lengths of the batch along some axes."""
        if self.to_length is None:
            multiple = self.round_to or 1
            return [-(-int(longest) // multiple) * multiple for longest in lengths.max(axis=0)]
        too_long = np.argwhere(lengths > self.to_length)
        if len(too_long):
            i, k = too_long[0]
            raise ValueError(
                f"{place.who}: {place.at(i)} has length {lengths[i, k]} along axis {axes[k]}, to_length is"
                f" {self.to_length}; cut it (ClipSequence), or raise to_length"
            )
        return [self.to_length] * len(axes)


def _inside(lengths: Array, shape: Sequence[int]) -> Array:
    """Return bool arrays of a shape, one for each row of lengths, that are True within these lengths."""
    out = empty((len(lengths), *shape), bool)
    out[...] = False
    for row, stops in zip(out, lengths, strict=True):
        row[tuple(map(slice, stops))] = True
    return out
