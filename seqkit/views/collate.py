"""`collate`: sequences of equal length, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, overload

from ..checks import check_sequences
from ..indices import UNBOUNDED, UNKNOWN, Indices, Length, Plan, Unsized
from ..iteration import Progress, restarting, step_over
from ..source import as_view
from ..view import Indexable, T, U, V, View

__all__ = ["Collate", "collate", "in_step"]


@overload
def collate(sequences: Mapping[str, Indexable[Any]]) -> View[dict[str, Any]]: ...
@overload
def collate(sequences: tuple[Indexable[T], Indexable[U]]) -> View[tuple[T, U]]: ...
@overload
def collate(sequences: tuple[Indexable[T], Indexable[U], Indexable[V]]) -> View[tuple[T, U, V]]: ...
@overload
def collate(sequences: Iterable[Indexable[Any]]) -> View[tuple[Any, ...]]: ...
def collate(sequences: Iterable[Any] | Mapping[str, Any]) -> View[Any]:
    """Return the view of tuples (or dicts) of the i-th items of several sequences.

    Parameters
    ----------
    sequences : iterable of View or indexable, or mapping of names to them
        At least one, all of the same length (those that have one). A mapping gives dict items.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If `sequences` is no iterable, or a sequence cannot be indexed.
    ValueError
        Without a sequence, or if lengths differ.

    Notes
    -----
    One access to every sequence per item. After ``collate`` of SeqTools; known elsewhere as ``zip``,
    ``StackDataset`` or ``ArrayDataset``. `default_collate` is something else: it stacks the samples of a
    batch.

    Examples
    --------
    >>> list(collate([[1, 2], "ab"]))
    [(1, 'a'), (2, 'b')]
    >>> collate({"x": [1, 2], "y": "ab"})[1]
    {'x': 2, 'y': 'b'}
    """
    if isinstance(sequences, Mapping):
        names = tuple(sequences)
        return Collate(tuple(as_view(sequences[name], "collate") for name in names), names)
    check_sequences(sequences, "collate: sequences")
    return Collate(tuple(as_view(s, "collate") for s in sequences), None)


class Collate(View[Any]):
    """The view behind `collate`, and behind maps over several sequences."""

    def __init__(
        self,
        sources: tuple[View[Any], ...],
        names: tuple[str, ...] | None,
        zip: str = "strict",
        who: str = "collate",
    ) -> None:
        super().__init__(*in_step(sources, zip, who))
        self._names = names
        self._zip = zip

    def _item(self, row: Sequence[Any]) -> Any:
        return tuple(row) if self._names is None else dict(zip(self._names, row, strict=True))

    def _get(self, i: int) -> Any:
        return self._item([source._get(i) for source in self._sources])

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        columns = [source._getmany(indices) for source in self._sources]
        return [self._item(row) for row in zip(*columns, strict=True)]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        iterators = [source._iter(plan) for source in self._sources]

        def run(progress: Progress) -> Iterator[Any]:
            while True:
                row: list[Any] = []
                try:
                    row.extend(map(next, iterators))
                except BaseException:
                    # The sources behind the failing one step over this item too, all of them.
                    with ExitStack() as behind:
                        for iterator in iterators[len(row) + 1 :]:
                            behind.callback(step_over, iterator)
                    raise
                if len(row) < len(iterators):
                    break
                yield self._item(row)
            progress.done = True

        return restarting(run)

    def _set(self, i: int, value: Any) -> None:
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
        for source, part in zip(self._sources, parts, strict=True):
            source._set(i, part)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Collate(sources, self._names, self._zip)

    def _arguments(self, sources: list[str]) -> list[str]:
        return ["[" + ", ".join(sources) + "]"]


def in_step(sources: tuple[View[Any], ...], zip: str, who: str) -> tuple[tuple[View[Any], ...], Length]:
    """Return sequences as they are read side by side, and their common length."""
    n = _common_length(sources, zip, who)
    if not isinstance(n, Unsized) and any(s._n is UNKNOWN for s in sources):
        # What may end anywhere must last as long as the others do.
        sources = tuple(s._take(range(n)) if s._n is UNKNOWN else s for s in sources)
    return sources, n


def _common_length(sources: tuple[View[Any], ...], zip: str, who: str) -> Length:
    if not sources:
        raise ValueError(f"{who}: at least one sequence is needed, got none")
    lengths = [source._n for source in sources]
    sized = [n for n in lengths if not isinstance(n, Unsized)]
    if zip == "strict" and len(set(sized)) > 1:
        raise ValueError(f"{who}: the sequences must have one length, got {', '.join(map(str, sized))}")
    if sized:
        return min(sized)
    return UNKNOWN if any(n is UNKNOWN for n in lengths) else UNBOUNDED
