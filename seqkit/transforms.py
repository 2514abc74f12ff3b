"""Functions of one item, for `smap`."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from .collation.casting import holds
from .core.arguments import as_bool, positive_int

__all__ = ["ClipSequence", "PadSequence"]

S = TypeVar("S", list[Any], tuple[Any, ...], np.ndarray[Any, Any])


class ClipSequence:
    """Cut longer sequences to a length.

    Parameters
    ----------
    length : int
        Largest number of elements to keep, 1 or more. Arrays are cut along their first axis.

    Raises
    ------
    TypeError, ValueError
        If `length` is not a positive int.

    Notes
    -----
    One slice per item. A cut array shares memory with the original. After ``ClipSequence`` of GluonNLP.

    Examples
    --------
    >>> import seqkit as sk
    >>> list(sk.smap(ClipSequence(2), ["abc".split("b"), [1, 2, 3], [1]]))
    [['a', 'c'], [1, 2], [1]]
    """

    def __init__(self, length: int) -> None:
        self.length = positive_int(length, "ClipSequence: length")

    def __call__(self, sequence: S) -> S:
        return sequence[: self.length]

    def __repr__(self) -> str:
        return f"ClipSequence({self.length})"


class PadSequence:
    """Pad shorter sequences to a length.

    Parameters
    ----------
    length : int
        Number of elements after padding, 1 or more. Arrays are padded along their first axis.
    pad : Any
        The value of the new elements. In an array, it is converted to the dtype of the array.
    clip : bool
        Also cut longer items to `length`. False keeps them as they are.

    Raises
    ------
    TypeError, ValueError
        If `length` is not a positive int, or `clip` not a bool. An item raises one of them if it is not a
        list, tuple or array with an axis, or if its dtype cannot hold `pad`.

    Notes
    -----
    One copy of each item that is too short. After ``PadSequence`` of GluonNLP.

    Examples
    --------
    >>> import numpy as np, seqkit as sk
    >>> list(sk.smap(PadSequence(3), [[1], [1, 2, 3, 4]]))
    [[1, 0, 0], [1, 2, 3]]
    >>> PadSequence(3, pad=-1)(np.array([7, 8]))
    array([ 7,  8, -1])
    """

    def __init__(self, length: int, pad: Any = 0, clip: bool = True) -> None:
        self.length = positive_int(length, "PadSequence: length")
        self.pad = pad
        self.clip = as_bool(clip, "PadSequence: clip")

    def __call__(self, sequence: S) -> S:
        if not isinstance(sequence, list | tuple | np.ndarray):
            raise TypeError(
                f"PadSequence: an item must be a list, a tuple or an array, got {type(sequence).__name__}"
            )
        missing = self.length - len(sequence)
        if missing <= 0:
            return sequence[: self.length] if self.clip else sequence
        if isinstance(sequence, np.ndarray):
            if not holds(sequence.dtype, self.pad):
                raise ValueError(f"PadSequence: an array of {sequence.dtype} cannot hold pad={self.pad!r}")
            widths = [(0, missing), *[(0, 0)] * (sequence.ndim - 1)]
            return np.pad(sequence, widths, constant_values=self.pad)
        return sequence + type(sequence)([self.pad]) * missing

    def __repr__(self) -> str:
        return f"PadSequence({self.length}, pad={self.pad!r}, clip={self.clip})"
