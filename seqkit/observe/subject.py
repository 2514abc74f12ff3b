"""What a display is asked to look at: a view or a loader that can be read by index, and twice."""

from __future__ import annotations

from typing import Any

from ..core.adapters import TableReader
from ..core.expression import walk
from ..core.iteration import is_one_shot
from ..core.source import as_view
from ..core.view import View
from ..views.uniter import Uniter

__all__ = ["data_of", "is_loader", "one_shot_of", "refuse_one_shots", "viewed"]

# Attributes of loaders with the objects that they read.
_READ = ("dataset", "sampler", "batch_sampler", "_streams")


def is_loader(sequence: Any) -> bool:
    """Is an object a loader, which can have other workers?"""
    return hasattr(type(sequence), "with_workers")


def data_of(leaf: View[Any]) -> Any:
    """Return the user's object that a view without sources reads, or None.

    >>> data_of(as_view("ab", "x"))
    'ab'
    """
    if isinstance(leaf, Uniter):
        return leaf._passes.iterable
    data = getattr(leaf, "_data", None)
    return data._data if isinstance(data, TableReader) else data


def one_shot_of(sequence: Any) -> Any:
    """Return the iterator that a view or a loader reads and that cannot begin again, or None.

    >>> from seqkit import uniter
    >>> letters = iter("ab")
    >>> one_shot_of(uniter(letters, 2)) is letters, one_shot_of(uniter("ab", 2))
    (True, None)
    """
    if isinstance(sequence, View):
        found = [data_of(node) for node in walk(sequence) if not node._sources]
    else:
        given = [getattr(sequence, name, None) for name in _READ]
        found = [one_shot_of(one) if isinstance(one, View) else one for one in given]
    return next((one for one in found if is_one_shot(one)), None)


def refuse_one_shots(sequence: Any, who: str, why: str = "it cannot be read twice") -> None:
    """Raise ValueError if a view or a loader reads an iterator that cannot begin again."""
    if (found := one_shot_of(sequence)) is not None:
        raise ValueError(
            f"{who}: {found!r} is an iterator that cannot begin again, so {why}. Pass an"
            " object that can be iterated again, or a function that returns an iterator to uniter"
        )


def viewed(sequence: Any, who: str) -> View[Any]:
    """Return a sequence as a view, or the view of a loader. Refuse what cannot be read by index."""
    if not is_loader(sequence):
        return as_view(sequence, who)
    has_view = hasattr(type(sequence), "view")
    if not has_view or not sequence.knows_its_order():
        why = "its sampler or data set must be read to know its order" if has_view else "it reads streams"
        raise TypeError(
            f"{who}: the batches of this {type(sequence).__name__} cannot be read by index, because {why}."
            " Pass its data set, use next(iter(loader)), which displays itself, or iterate it with watch."
        )
    view: View[Any] = sequence.view
    return view
