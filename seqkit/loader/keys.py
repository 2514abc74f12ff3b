"""The keys that a sampler gives: of single samples, of batches, of batches in parts."""

from __future__ import annotations

from typing import Any

from ..samplers.keys import as_key as plain_key

__all__ = ["KeyList", "Sample", "Shards", "as_key", "as_keys", "by_number", "numbered"]


class KeyList(list[Any]):
    """The keys of a batch, with the number of the batch, from which workers seed the global generators."""

    number = 0


class Shards(KeyList):
    """Lists of keys. Each list makes a batch of its own."""


def numbered(keys: Any, number: int) -> Any:
    """Return the keys of a batch with its number. A single key stays as it is.

    >>> keys = numbered([4, 2], 7)
    >>> keys, keys.number
    ([4, 2], 7)
    """
    if not isinstance(keys, list):
        return keys
    keys = keys if isinstance(keys, KeyList) else KeyList(keys)
    keys.number = number
    return keys


def as_key(key: Any) -> Any:
    """Return a key of a sampler as a plain Python value. A bool is refused.

    >>> import numpy as np
    >>> as_key(np.int32(2)), as_key("a")
    (2, 'a')
    """
    return plain_key("DataLoader: sampler", key)


def as_keys(keys: Any) -> list[Any]:
    """Return the keys of a batch as a list, or as `Shards` if the batch consists of rows of keys.

    Rows are lists and arrays. In a tuple they may be tuples, too. In a list, tuples are keys.

    >>> import numpy as np
    >>> as_keys(np.array([3, 1])), as_keys([(0, 1), (2, 3)]), as_keys(((0, 1), (2,)))
    ([3, 1], [(0, 1), (2, 3)], [[0, 1], [2]])
    """
    try:
        found: list[Any] = list(keys)
    except TypeError:
        raise TypeError(
            f"DataLoader: batch_sampler should yield lists of indices, but yielded {keys!r}"
        ) from None
    if found and all(_is_row(row, isinstance(keys, tuple)) for row in found):
        return Shards(list(map(as_key, row)) for row in found)
    return list(map(as_key, found))


def _is_row(row: Any, may_be_tuple: bool) -> bool:
    kinds = (list, tuple) if may_be_tuple else list
    return isinstance(row, kinds) or getattr(row, "ndim", 0) == 1


class Sample:
    """A sample that was read already, as the key of itself. Messages name its number, or its part and its
    number there.
    """

    __slots__ = ("number", "value")

    def __init__(self, number: int | tuple[int, int], value: Any) -> None:
        self.number = number
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample, (self.number, self.value)

    def __eq__(self, other: object) -> bool:
        return self.number == getattr(other, "number", other)

    def __hash__(self) -> int:
        return hash(self.number)

    def __repr__(self) -> str:
        return str(self.number)


def by_number(index: Any) -> Any:
    """Return the index of an error with numbers in place of samples.

    >>> by_number([Sample(3, "a"), Sample((0, 1), "b")])
    [3, (0, 1)]
    """
    if isinstance(index, Sample):
        return index.number
    return list(map(by_number, index)) if type(index) in (list, KeyList) else index
