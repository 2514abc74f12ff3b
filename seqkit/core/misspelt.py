"""What a name that does not exist probably means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["meant"]


def meant(name: str, names: Iterable[str], elsewhere: Mapping[str, str] | None = None) -> str:
    """Return the one of `names` that a name means, or "" if none is close.

    `elsewhere` says what to use instead of names that other libraries have.

    >>> meant("bath_size", ["batch_size", "seed"]), meant("colour", ["batch_size"])
    ('batch_size', '')
    >>> meant("map", ["smap", "batch"], {"map": "smap"})
    'smap'
    """
    from difflib import get_close_matches  # only for an error

    if elsewhere and name in elsewhere:
        return elsewhere[name]
    return next(iter(get_close_matches(name, list(names), 1, 0.75)), "")
