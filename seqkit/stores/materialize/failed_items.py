"""What becomes of items that fail while a sequence is written or listed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, TypeAlias

from ...core.errors import EvaluationError, errstate
from ...core.tracebacks import warn

__all__ = ["OnError", "report_failed", "tolerating"]

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[EvaluationError], Any]

# A warning names so many items that failed.
_MOST_NAMED = 5


def tolerating(on_error: OnError) -> AbstractContextManager[None]:
    """Return a context in which each item that fails raises an `EvaluationError`, if it is to be caught."""
    return nullcontext() if on_error == "raise" else errstate("wrap")


def report_failed(failed: dict[int, str], n: int) -> None:
    """Warn of items that failed and were left out."""
    if failed and len(failed) == n:
        raise ValueError(f"materialize: all {n} items failed. The last error was: {failed.popitem()[1]}")
    if failed:
        named = [f"item {i}: {failed[i]}" for i in sorted(failed)[:_MOST_NAMED]]
        more = [f"and {len(failed) - _MOST_NAMED} more"] * (len(failed) > _MOST_NAMED)
        text = "; ".join([*named, *more])
        warn(f"materialize: {len(failed)} of {n} items failed and were left out. {text}", RuntimeWarning)
