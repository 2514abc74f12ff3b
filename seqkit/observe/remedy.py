"""The arguments of a remedy, in the words of the object that was measured: a view, a node or a loader."""

from __future__ import annotations

from typing import Any

from ..core.iteration import is_one_shot
from ..core.view import View, walk
from ..views.uniter import Uniter

__all__ = ["in_words_of", "refuse_one_shots", "refuse_streams", "spelled", "told"]

# Arguments of `prefetch` that loaders call otherwise.
_OF_LOADERS = {"nworkers": "num_workers", "max_buffered": "prefetch_factor"}


def refuse_streams(loader: Any, who: str) -> None:
    """Raise TypeError for a loader whose items are no view."""
    if hasattr(loader, "with_workers") and not hasattr(loader, "view"):
        raise TypeError(
            f"{who}: {type(loader).__name__} reads streams, which are no sequence. Read it with watch."
            " If the consumer waits and workers are busy, pass more of them as `num_workers=`, or"
            " `method='thread'` for streams that sleep"
        )


def in_words_of(subject: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of `prefetch` as those of the object that was measured.

    >>> in_words_of("DataLoader", {"nworkers": 4, "method": "thread", "max_buffered": 8})
    {'num_workers': 4, 'method': 'thread', 'prefetch_factor': 2}
    """
    if subject in ("view", "prefetch"):
        return settings
    found = {_OF_LOADERS.get(name, name): value for name, value in settings.items()}
    if "prefetch_factor" in found:  # counts for each worker
        found["prefetch_factor"] = max(1, found["prefetch_factor"] // max(settings.get("nworkers", 1), 1))
    return found


def refuse_one_shots(sequence: Any, who: str, why: str = "it cannot be read twice") -> None:
    """Raise ValueError if a view or a loader reads an iterator that cannot begin again.

    >>> from seqkit import uniter
    >>> refuse_one_shots(uniter(iter("ab"), 2), "profile")
    Traceback (most recent call last):
    ValueError: profile: <str_...iterator object at ...> is an iterator that cannot begin again, so ...
    """
    if isinstance(sequence, View):
        sources = [node._wrapped() for node in walk(sequence) if isinstance(node, Uniter)]
    else:
        names = ("dataset", "sampler", "batch_sampler", "_streams", "view")
        sources = [getattr(sequence, name, None) for name in names]
    for source in sources:
        if isinstance(source, View):
            refuse_one_shots(source, who, why)
        elif is_one_shot(source):
            raise ValueError(
                f"{who}: {source!r} is an iterator that cannot begin again, so {why}. Pass an"
                " object that can be iterated again, or a function that returns an iterator to uniter"
            )


def spelled(settings: dict[str, Any]) -> str:
    """Return arguments as they stand in a call.

    >>> spelled({"nworkers": 4, "method": "thread", "shm_size": 48 << 20})
    "nworkers=4, method='thread', shm_size=48 << 20"
    """
    return ", ".join(
        f"{name}={value >> 20} << 20" if name == "shm_size" and value else f"{name}={value!r}"
        for name, value in settings.items()
    )


def told(subject: str, settings: dict[str, Any]) -> str:
    """Return a sentence with code to paste.

    >>> told("view", {"nworkers": 4})
    'Write `sk.prefetch(view, nworkers=4)`.'
    >>> told("DataLoader", {"num_workers": 4})
    'Pass `num_workers=4` to DataLoader.'
    """
    if subject == "view":
        return f"Write `sk.prefetch(view, {spelled(settings)})`."
    return f"Pass `{spelled(settings)}` to {'`prefetch`' if subject == 'prefetch' else subject}."
