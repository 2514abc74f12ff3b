"""`PackSequences`: the documents of a bin in one row, as language models read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.arguments import int_at_least, optional_int, positive_int
from ..core.worker import empty
from .base import Collate, Place
from .leaves import Array, check_shapes, common_dtype, plain_arrays

__all__ = ["PackSequences"]

IGNORED = -100  # the label that PyTorch's losses leave out
MADE = ("segment_ids", "positions", "cu_seqlens")


@dataclass(repr=False, eq=False)
class PackSequences(Collate):
    """Lay documents end to end in a row of fixed length, and say which token belongs to which document.

    Parameters
    ----------
    capacity : int
        Length of the row in tokens, 1 or more.
    max_items : int, optional
        Most documents in a row, 1 or more. It sets the length of ``cu_seqlens``. None (the default) is
        `capacity`.
    pad : int
        Token after the last document, 0 or more. 0 by default.

    Returns
    -------
    dict of numpy.ndarray
        ``tokens``, of shape ``(capacity,)``. ``segment_ids``: 1, 2, … for the documents, 0 for padding.
        ``positions`` in the document. ``cu_seqlens``, of shape ``(max_items + 1,)``: where documents start,
        then the end of the last one, repeated. These three are int32. ``labels``: the next token of the same
        document, -100 at its last token and for padding, int64.

    Raises
    ------
    TypeError
        For arguments of a wrong type, and for documents that are not arrays of numbers.
    ValueError
        For arguments out of range, for documents that are empty or too many or do not fit, and for fields of
        different names, lengths or shapes.

    Notes
    -----
    One copy of the tokens, into memory of `seqkit.empty`. A document is an array or list of tokens, or a dict
    with the field ``tokens``. Further fields of a dict have a value for each token. They are laid out like
    the tokens, filled with 0. The field ``labels`` takes the place of the next tokens, filled with -100.
    Known elsewhere as sequence packing, ``DataCollatorWithFlattening``.

    Examples
    --------
    >>> row = PackSequences(6, max_items=3)([[7, 8, 9], [5, 6]])
    >>> row["tokens"], row["labels"]
    (array([7, 8, 9, 5, 6, 0]), array([   8,    9, -100,    6, -100, -100]))
    >>> [row[name].tolist() for name in ("segment_ids", "positions", "cu_seqlens")]
    [[1, 1, 1, 2, 2, 0], [0, 1, 2, 0, 1, 0], [0, 3, 5, 5]]
    """

    capacity: int
    max_items: int | None = field(default=None, kw_only=True)
    pad: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        self.capacity = positive_int(self.capacity, "PackSequences: capacity")
        self.max_items = optional_int(self.max_items, "PackSequences: max_items")
        self.pad = int_at_least(self.pad, "PackSequences: pad", 0)

    def _collate(self, samples: Sequence[Any], place: Place) -> dict[str, Array]:
        columns = _columns(samples, place)
        lengths = self._lengths(columns, place)
        ends = np.cumsum(lengths)
        row = {"tokens": self._laid_out(columns.pop("tokens"), self.pad, place)}
        row["segment_ids"] = self._filled(np.repeat(np.arange(1, len(ends) + 1), lengths))
        row["positions"] = self._filled(np.arange(ends[-1]) - np.repeat(ends - lengths, lengths))
        row["cu_seqlens"] = empty((self.max_items or self.capacity) + 1, np.dtype(np.int32))
        row["cu_seqlens"][0] = 0
        row["cu_seqlens"][1 : len(ends) + 1] = ends
        row["cu_seqlens"][len(ends) + 1 :] = ends[-1]
        labels = columns.pop("labels", None)
        given = _next_tokens(row["tokens"], ends) if labels is None else np.concatenate(labels)
        row["labels"] = self._filled(given, IGNORED, np.int64)
        return row | {name: self._laid_out(arrays, 0, place.item(name)) for name, arrays in columns.items()}

    def _lengths(self, columns: dict[str, list[Array]], place: Place) -> Array:
        """Return the length of each document, checked."""
        lengths = np.array([len(array) for array in columns["tokens"]])
        for name, arrays in columns.items():
            for i, array in enumerate(arrays):
                if len(array) != lengths[i] or not lengths[i]:
                    raise ValueError(
                        f"{place.who}: {name!r} of {place.at(i)} must be as long as its {lengths[i]} tokens,"
                        f" and not empty, got {len(array)}"
                    )
        if lengths.sum() > self.capacity or len(lengths) > (self.max_items or self.capacity):
            raise ValueError(
                f"{place.who}: {len(lengths)} documents of {lengths.sum()} tokens do not fit into capacity="
                f"{self.capacity}, max_items={self.max_items}. Pass both to bins, too."
            )
        return lengths

    def _laid_out(self, arrays: list[Array], filler: int, place: Place) -> Array:
        check_shapes([array[0] for array in arrays], place)
        return self._filled(np.concatenate(arrays), filler, common_dtype(arrays, place))

    def _filled(self, values: Array, filler: int = 0, dtype: Any = np.int32) -> Array:
        """Return values in a row of fixed length."""
        out = empty((self.capacity, *values.shape[1:]), np.dtype(dtype))
        out[: len(values)] = values
        out[len(values) :] = filler
        return out


def _columns(samples: Sequence[Any], place: Place) -> dict[str, list[Array]]:
    """Return the fields of documents: for each name, an array of each document."""
    if not isinstance(samples[0], Mapping):
        return {"tokens": plain_arrays(samples, place)}
    names = [*samples[0]]
    if "tokens" not in names or {*names} & {*MADE}:
        raise ValueError(
            f"{place.who}: documents must have a field 'tokens', and none of {list(MADE)}, got {names}"
        )
    for i, sample in enumerate(samples):
        if not isinstance(sample, Mapping) or [*sample] != names:
            raise ValueError(f"{place.who}: {place.at(i)} must be a dict of {names} as the others")
    return {name: plain_arrays([sample[name] for sample in samples], place.item(name)) for name in names}


def _next_tokens(tokens: Array, ends: Array) -> Array:
    """Return the next token for each token, in the same document."""
    labels = np.append(tokens[1 : ends[-1]].astype(np.int64), IGNORED)
    labels[ends - 1] = IGNORED
    return labels
