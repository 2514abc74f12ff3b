"""`collate`: sequences of equal length, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, overload

from ..core.arguments import check_sequences
from ..core.indices import Indices
from ..core.lengths import sized
from ..core.source import as_view
from ..core.view import Indexable, T, U, V, View
from .bases.columns import Columns, Rows
from .bases.side_by_side import SideBySide

__all__ = ["Collate", "collate"]


@overload
def collate(sequences: Mapping[str, Indexable[Any]]) -> View[dict[str, Any]]: ...
@overload
def collate(sequences: tuple[Indexable[T], Indexable[U]]) -> View[tuple[T, U]]: ...
@overload
def collate(sequences: tuple[Indexable[T], Indexable[U], Indexable[V]]) -> View[tuple[T, U, V]]: ...
@overload
def collate(sequences: Iterable[Indexable[Any]]) -> View[tuple[Any, ...]]: ...
@overload
def collate(**named: Indexable[Any]) -> View[dict[str, Any]]: ...
def collate(sequences: Any = None, **named: Any) -> View[Any]:
    """Return the view of tuples (or dicts) of the i-th items of several sequences.

    Parameters
    ----------
    sequences : iterable of View or indexable, or mapping of names to them
        At least one. All that have a length must have the same one. A mapping gives dict items.
    **named : View or indexable
        The sequences by name, in place of a mapping.

    Returns
    -------
    Collate
        Its method ``select(*names)`` returns the view of some columns. So do slices, splits, shuffles and
        batches of it.

    Raises
    ------
    TypeError
        If `sequences` is not an iterable, if a sequence cannot be indexed, or with both kinds of arguments.
    ValueError
        Without a sequence, or if lengths differ. If lengths are unknown, iterating and indexing raise it
        where the first sequence ends.

    Notes
    -----
    One access to each sequence per item. After ``collate`` of SeqTools; known elsewhere as
    ``zip``, ``StackDataset`` or ``ArrayDataset``. Not to be confused with `default_collate`, which stacks the
    samples of a batch.

    Examples
    --------
    >>> list(collate([[1, 2], "ab"]))
    [(1, 'a'), (2, 'b')]
    >>> collate(x=[1, 2], y="ab")[1]
    {'x': 2, 'y': 'b'}
    """
    if named and sequences is not None:
        names = ", ".join(f"{name}=…" for name in named)
        raise TypeError(
            f"collate: either all sequences have names or none, got {names} beside sequences without a name."
            f" Name them all: seqkit.collate(first=…, {names})"
        )
    if named or isinstance(sequences, Mapping):
        columns = named or sequences
        return _collated([as_view(s, "collate") for s in columns.values()], tuple(columns))
    check_sequences(sequences, "collate: sequences")
    return _collated([as_view(s, "collate") for s in sequences], None)


def _collated(sources: list[View[Any]], names: tuple[str, ...] | None) -> Collate:
    if not sources:
        raise ValueError("collate: at least one sequence is needed, got none")
    return sized(Collate(tuple(sources), names))


class Collate(SideBySide, Columns[Any]):
    """The view that `collate` returns."""

    def __init__(self, sources: tuple[View[Any], ...], names: tuple[str, ...] | None) -> None:
        super().__init__(sources)
        self._names = names

    def _column_names(self) -> tuple[str, ...] | None:
        return self._names

    def _select(self, names: tuple[str, ...]) -> View[Any]:
        columns = dict(zip(self._names or (), self._sources, strict=False))
        if not names or not columns.keys() >= set(names):
            raise ValueError(f"select: names must be some of {list(columns)}, got {list(names)}")
        if len(names) == 1:
            return columns[names[0]]
        return sized(Collate(tuple(columns[name] for name in names), names))

    def _item(self, row: Sequence[Any]) -> Any:
        return tuple(row) if self._names is None else dict(zip(self._names, row, strict=True))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        if self._names is None:
            return super()._getmany(indices)
        return Rows(dict(zip(self._names, self._columns(indices), strict=True)), len(indices))

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        if self._names is None:
            parts = list(value)
        elif not isinstance(value, Mapping):
            raise TypeError(f"collate: an item of {list(self._names)} must be a mapping, got {value!r}")
        elif set(value) != set(self._names):
            raise ValueError(f"collate: assigned parts {list(value)} to an item of {list(self._names)}")
        else:
            parts = [value[name] for name in self._names]
        if len(parts) != len(self._sources):
            raise ValueError(f"collate: assigned {len(parts)} values to an item of {len(self._sources)}")
        return chain(*[source._set(i, part) for source, part in zip(self._sources, parts, strict=True)])

    def _ordered(self, items: bool) -> tuple[Any, ...]:
        return (self._names,)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Collate(sources, self._names)

    def _arguments(self, sources: list[str]) -> list[str]:
        return ["[" + ", ".join(sources) + "]"]
