"""Plans that the files of a folder must agree on."""

from __future__ import annotations

from typing import Any

__all__ = ["refuse_other"]


def refuse_other(found: dict[str, Any], wanted: dict[str, Any], who: str) -> None:
    """Raise ValueError, naming each field that differs, if a folder has another plan."""
    other = [
        f"{name} is {found.get(name)!r} there and {value!r} here"
        for name, value in wanted.items()
        if found.get(name) != value
    ]
    if other:
        raise ValueError(
            f"{who} has another plan: {', '.join(other)}. Pass the same arguments and seeds, use another"
            " path, or delete it."
        )
