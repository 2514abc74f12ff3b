"""Functions of one item, to be laid over a sequence with `smap`."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from .checks import as_bool, positive_int

__all__ = ["ClipSequence", "PadSequence"]

S = TypeVar("S", list[Any], tuple[Any, ...], np.ndarray[Any, Any])


class ClipSequence:
    """Cut what is longer than `length` down to it.

    Parameters
    ----------
    length : int
        Most elements to keep, at least 1; of an array, along its first axis.

    Raises
    ------
    TypeError, ValueError
        If `length` is no positive int.

    Notes
    -----
    One slice per item; arrays share memory with what they are cut from. After ``ClipSequence`` of GluonNLP.

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
    """Fill what is shorter than `length` up to it.

    Parameters
    ----------
    length : int
        Elements that items have then, at least 1; of an array, along its first axis.
    pad_val : Any
        What to fill with; in an array it takes the array's type.
    clip : bool
        Cut what is longer, so that all items have one length? Otherwise it stays as it is.

    Raises
    ------
    TypeError, ValueError
        If `length` is no positive int, or `clip` no bool; for an item that is no list, tuple or array of one
        axis at least; for a `pad_val` that an array cannot hold.

    Notes
    -----
    One copy of each item that is too short. After ``PadSequence`` of GluonNLP.

    Examples
    --------
    >>> import numpy as np, seqkit as sk
    >>> list(sk.smap(PadSequence(3), [[1], [1, 2, 3, 4]]))
    [[1, 0, 0], [1, 2, 3]]
    >>> PadSequence(3, pad_val=-1)(np.array([7, 8]))
    array([ 7,  8, -1])
    """

    def __init__(self, length: int, pad_val: Any = 0, clip: bool = True) -> None:
        self.length = positive_int(length, "PadSequence: length")
        self.pad_val = pad_val
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
            padded = np.empty((self.length, *sequence.shape[1:]), sequence.dtype)
            padded[: len(sequence)] = sequence
            padded[len(sequence) :] = self._as(sequence.dtype)
            return padded
        return sequence + type(sequence)([self.pad_val]) * missing

    def _as(self, dtype: np.dtype[Any]) -> Any:
        """Return the pad value in the type of an array, which must be able to hold it."""
        value = np.asarray(self.pad_val)
        with np.errstate(all="ignore"):
            held = value.astype(dtype)
        if not (held == value).all() and not (held != held).all():
            raise ValueError(f"PadSequence: an array of {dtype} cannot hold pad_val={self.pad_val!r}")
        return held

    def __repr__(self) -> str:
        return f"PadSequence({self.length}, pad_val={self.pad_val!r}, clip={self.clip})"
