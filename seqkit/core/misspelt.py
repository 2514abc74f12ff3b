"""Suggestions for names that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["meant"]


def meant(name: str, names: Iterable[str], elsewhere: Mapping[str, str] | None = None) -> str:
    """Return the most similar of `names`, or "" if none is similar.

    `elsewhere` maps names of other libraries to their replacements here.

    >>> meant("bath_size", ["batch_size", "seed"]), meant("colour", ["batch_size"])
    ('batch_size', '')
    >>> meant("map", ["smap", "batch"], {"map": "smap"})
    'smap'
    """
    if elsewhere and name in elsewhere:
        return elsewhere[name]
    from difflib import get_close_matches  # only for an error

    return next(iter(get_close_matches(name, list(names), 1, 0.75)), "")
