"""What becomes of items that fail while a folder of Parquet files is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from ...core.errors import EvaluationError, errstate, summary
from ...core.tracebacks import warn

__all__ = ["LeftOut", "OnError", "attempt", "report_failed"]

R = TypeVar("R")
OnError: TypeAlias = Literal["raise", "skip"]

# A warning names so many items that failed.
_MOST_NAMED = 5


@dataclass(frozen=True)
class LeftOut:
    """Stands for an item that failed and is left out."""

    text: str


def attempt(compute: Callable[[], R], on_error: OnError) -> R | LeftOut:
    """Return ``compute()``, or the error of its item with "skip"."""
    if on_error == "raise":
        return compute()
    try:
        with errstate("wrap"):
            return compute()
    except EvaluationError as error:
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
