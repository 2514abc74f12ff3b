"""What to do with a short last group: the arguments `last` and `pad` of `batch` and `window`."""

from __future__ import annotations

from typing import Any, Literal

__all__ = ["Last", "check_last"]

Last = Literal["keep", "discard", "pad"]


def check_last(last: Any, pad: Any, default: Last, who: str) -> Last:
    """Return the policy for a short last group, checked.

    >>> check_last(None, 0, "keep", "batch")
    'pad'
    """
    if last is None:
        return default if pad is None else "pad"
    if last not in ("keep", "discard", "pad"):
        raise ValueError(f"{who}: last must be 'keep', 'discard' or 'pad', got {last!r}")
    if pad is not None and last != "pad":
        raise ValueError(f"{who}: pad needs last='pad', got last={last!r}")
    return last  # type: ignore[no-any-return]
