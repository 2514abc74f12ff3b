"""`Pad`: arrays of different lengths in one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.arguments import as_flag, optional_int, positive_int
from ..core.casting import holds
from ..core.errors import as_given
from .base import Collate, Place
from .leaves import (
    Array,
    DType,
    as_axis,
    as_dtype,
    common_dtype,
    copied,
    counted,
    hold,
    holds_objects,
    inside,
    padded,
    plain_arrays,
)

__all__ = ["Pad"]


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
    to_length : int or sequence of int, optional
        Fill up to this length (1 or more). With ``axis="all"`` it may be one length for each axis. None
        (the default) is the length of the longest sample in the batch.
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
    One copy of the data, into memory of `seqkit.empty`, and about 2 µs per sample. Samples may be empty: an
    empty list takes dtype and other lengths from the rest of the batch. Modelled on ``Pad`` of GluonNLP,
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

    def __init__(
        self,
        axis: int | Literal["all"] = 0,
        pad: Any = 0,
        ret_length: bool = False,
        dtype: npt.DTypeLike | None = None,
        round_to: int | None = None,
        *,
        to_length: int | Sequence[int] | None = None,
        mask: bool = False,
    ) -> None:
        self._given = {
            "axis": axis,
            "pad": pad,
            "ret_length": ret_length,
            "dtype": dtype,
            "round_to": round_to,
            "to_length": to_length,
            "mask": mask,
        }
        every = isinstance(axis, str) and axis == "all"
        self.axis = "all" if every else as_axis(axis, "Pad: axis", " or 'all'")
        self.pad = _as_number(pad, "Pad: pad")
        self.ret_length = as_flag(ret_length, "Pad: ret_length")
        self.dtype = as_dtype(dtype, "Pad")
        self.round_to = optional_int(round_to, "Pad: round_to")
        self.to_length = None if to_length is None else self._as_lengths(to_length)
        self.mask = as_flag(mask, "Pad: mask")
        if self.round_to is not None and self.to_length is not None:
            raise ValueError("Pad: pass either to_length or round_to, not both")
        if self.dtype is not None:
            self._filler(self.dtype, "an array")

    def _as_lengths(self, to_length: int | Sequence[int]) -> int | tuple[int, ...]:
        if self.axis == "all" and isinstance(to_length, list | tuple):
            return tuple(positive_int(length, "Pad: each to_length") for length in to_length)
        return positive_int(to_length, "Pad: to_length")

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        arrays = _alike(samples, plain_arrays(samples, place))
        _check_dimensions(arrays, place)
        axes = self._axes(arrays[0].ndim, place)
        _check_other_axes(arrays, axes, place)
        dtype = common_dtype(arrays, place, self.dtype)
        hold(arrays, dtype, place)
        filler = self._filler(dtype, place.at("..."))
        lengths = np.array([[array.shape[axis] for axis in axes] for array in arrays])
        shape = list(arrays[0].shape)
        for axis, length in zip(axes, self._padded_lengths(lengths, axes, place), strict=True):
            shape[axis] = length
        parts = [padded(arrays, shape, dtype, filler)]
        if self.ret_length:
            parts.append(copied(lengths if self.axis == "all" else lengths[:, 0]))
        if self.mask:
            parts.append(inside(lengths, [shape[axis] for axis in axes]))
        return tuple(parts) if len(parts) > 1 else parts[0]

    def _filler(self, dtype: DType, what: str) -> Array:
        """Return what to fill with, as that dtype."""
        if not holds(dtype, self.pad):
            raise ValueError(
                f"Pad: {what} of dtype {dtype} cannot hold pad={self.pad}; choose another one, or"
                " another dtype"
            )
        return self.pad.astype(dtype)

    def _axes(self, dimensions: int, place: Place) -> list[int]:
        """Return the axes to pad along."""
        if isinstance(self.axis, str):
            return list(range(dimensions))
        if not -dimensions <= self.axis < dimensions:
            raise ValueError(
                f"{place.who}: {place.at(0)} has {counted(dimensions)}, so there is no axis {self.axis}"
            )
        return [self.axis % dimensions]

    def _padded_lengths(self, lengths: Array, axes: list[int], place: Place) -> list[int]:
        """Return how long the batch is to be along each of some axes."""
        if self.to_length is None:
            multiple = self.round_to or 1
            return [-(-int(longest) // multiple) * multiple for longest in lengths.max(axis=0)]
        wanted = self.to_length if isinstance(self.to_length, tuple) else (self.to_length,) * len(axes)
        if len(wanted) != len(axes):
            raise ValueError(
                f"{place.who}: to_length has {len(wanted)} lengths, {place.at(0)} has {counted(len(axes))}"
            )
        too_long = np.argwhere(lengths > wanted)
        if len(too_long):
            i, k = too_long[0]
            raise ValueError(
                f"{place.who}: {place.at(i)} has length {lengths[i, k]} along axis {axes[k]}, to_length is"
                f" {wanted[k]}; cut it (ClipSequence), or raise to_length"
            )
        return list(wanted)


def _as_number(value: Any, who: str) -> Array:
    """Return a number as an array without axes."""
    number = np.asarray(value)
    if number.ndim or holds_objects(number.dtype):
        raise TypeError(f"{who} must be a number, got {as_given(value)}")
    return number


def _alike(samples: Sequence[Any], arrays: list[Array]) -> list[Array]:
    """Return the arrays, those of lists without elements with the dtype of the others.

    Such a list does not say what its elements would be; a flat one not even how many axes they would have.
    """
    bare = [
        isinstance(sample, list | tuple) and not array.size
        for sample, array in zip(samples, arrays, strict=True)
    ]
    if all(bare):
        return arrays
    like = np.atleast_1d(arrays[bare.index(False)])[:0]
    return [
        (like if array.ndim == 1 else np.empty(array.shape, like.dtype)) if is_bare else array
        for array, is_bare in zip(arrays, bare, strict=True)
    ]


def _check_dimensions(arrays: Sequence[Array], place: Place) -> None:
    """Refuse numbers, and samples of different numbers of axes."""
    for i, array in enumerate(arrays):
        if not array.ndim:
            raise ValueError(f"{place.who}: {place.at(i)} is a single number; Stack makes an array of such")
        if array.ndim != arrays[0].ndim:
            raise ValueError(
                f"{place.who}: {place.at(i)} has {counted(array.ndim)}, {place.at(0)} has {arrays[0].ndim};"
                " the samples of a batch must have as many, reshape them or pass another collate_fn"
            )


def _check_other_axes(arrays: Sequence[Array], axes: Sequence[int], place: Place) -> None:
    """Refuse samples of different lengths along an axis that is not padded."""
    first = arrays[0].shape
    others = [axis for axis in range(len(first)) if axis not in axes]
    for i, array in enumerate(arrays if others else ()):
        if any(array.shape[axis] != first[axis] for axis in others):
            raise ValueError(
                f"{place.who}: {place.at(i)} has shape {array.shape}, {place.at(0)} has {first}; they may"
                f" differ along axis {axes[0]} only: make them equal, or pad with axis='all'"
            )
