"""What becomes of items that fail while a sequence is written or listed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from ...core.errors import EvaluationError, errstate, summary
from ...core.tracebacks import warn

__all__ = ["LeftOut", "OnError", "attempt", "report_failed"]

R = TypeVar("R")
OnError: TypeAlias = Literal["raise", "skip"] | Callable[[EvaluationError], Any]

# A warning names so many items that failed.
_MOST_NAMED = 5


@dataclass(frozen=True)
class LeftOut:
    """Stands for an item that failed and is left out."""

    text: str


def attempt(read: Callable[[], Any], keep: Callable[[Any], R], on_error: OnError) -> R | LeftOut:
    """Return ``keep(read())``. If one of the two fails, do what `on_error` demands."""
    if on_error == "raise":
        return keep(read())
    try:
        with errstate("wrap"):
            return keep(read())
    except EvaluationError as error:
        if callable(on_error):
            return keep(on_error(error))
        return LeftOut(summary(error.__cause__ or error))


def report_failed(failed: dict[int, str], n: int) -> None:
    """Warn of items that failed and were left out."""
    if failed and len(failed) == n:
        raise ValueError(f"materialize: all {n} items failed. The last error was: {failed[max(failed)]}")
    if failed:
        named = [f"item {i}: {failed[i]}" for i in sorted(failed)[:_MOST_NAMED]]
        more = [f"and {len(failed) - _MOST_NAMED} more"] * (len(failed) > _MOST_NAMED)
        text = "; ".join([*named, *more])
        warn(f"materialize: {len(failed)} of {n} items failed and were left out. {text}", RuntimeWarning)
