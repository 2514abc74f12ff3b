"""Indices that were chosen in one epoch, of a sequence whose length differs in another one."""

from __future__ import annotations

from typing import Any

from ...core.tracebacks import warn
from ...core.view import View

__all__ = ["known_length", "warn_of_changed_length"]


def known_length(view: View[Any]) -> int | None:
    """Return the length of a view if it was found already, and may differ in other epochs."""
    n = view._known
    return n if isinstance(n, int) and view._varies() else None


def warn_of_changed_length(who: str, source: View[Any], before: int | None) -> None:
    """Warn if the length of a sequence is not the one `before`, where indices were chosen."""
    n = source._n
    if before is None or n == before or not isinstance(n, int):
        return
    warn(
        f"{who} were chosen for {before} items, but the sequence has {n} in this epoch, so items are left out"
        " or missing. Choose them below the view whose length varies, such as flatten or filter, or again in"
        " each epoch",
        UserWarning,
    )
