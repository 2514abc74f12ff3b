"""Views and functions that several test files lay over each other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import seqkit as sk
from seqkit.indices import UNBOUNDED
from seqkit.testing.failing import by_index, by_iteration

__all__ = ["FailsAt", "Naturals", "agree_after_errors", "says"]


class Naturals(sk.View[int]):
    """0, 1, 2, … without end."""

    def __init__(self) -> None:
        super().__init__((), UNBOUNDED)

    def _get(self, i: int) -> int:
        return i

    def _rebuild(self, sources: tuple[sk.View[Any], ...]) -> sk.View[int]:
        return self


class FailsAt:
    """The identity, but for some items, for which it raises."""

    def __init__(self, *items: Any, error: Callable[[str], BaseException] = ValueError) -> None:
        self.items = items
        self.error = error

    def __call__(self, item: Any, *_: Any) -> Any:
        if item in self.items:
            raise self.error(f"bad {item}")
        return item


def agree_after_errors(view: sk.View[Any]) -> list[Any]:
    """Return what indexing gives, errors included, having seen that iterating gives the same."""
    found = by_index(view)
    assert by_iteration(iter(view)) == found
    assert by_iteration(reversed(view)) == found[::-1]
    return found


def says(kind: type[Exception], text: str) -> Any:
    """Expect an exception of just this text."""
    return pytest.raises(kind, match=f"^{re.escape(text)}$")
