"""Views and functions that several test files lay over each other."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import pytest

import seqkit as sk
from seqkit.core.indices import Plan
from seqkit.core.iteration import surviving
from seqkit.core.lengths import UNBOUNDED
from seqkit.testing.failing import by_index, by_iteration

__all__ = [
    "Clock",
    "FailsAt",
    "Interrupted",
    "InterruptsOnce",
    "Naturals",
    "Numbers",
    "agree_after_errors",
    "for_each",
    "mostly_stress",
    "past_errors",
]


class Numbers:
    """Samples that say which epoch their data set was told last."""

    epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> int:
        return 100 * self.epoch + i


class Naturals(sk.View[int]):
    """0, 1, 2, … without end."""

    def __init__(self) -> None:
        super().__init__((), UNBOUNDED)

    def _get(self, i: int) -> int:
        return i

    def _rebuild(self, sources: tuple[sk.View[Any], ...]) -> sk.View[int]:
        return self


class Interrupted(sk.View[Any]):
    """A view that reads ahead. Iterating it, Ctrl-C hits once, before item `at` is drawn."""

    def __init__(self, source: sk.View[Any], at: int) -> None:
        super().__init__((source,), source._n)
        self._reads_ahead = True
        self._at = at

    def _get(self, i: int) -> Any:
        return self._sources[0]._get(i)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        drawn, interrupts = 0, [KeyboardInterrupt()]

        def read(i: int) -> Any:
            nonlocal drawn
            if drawn == self._at and interrupts:
                raise interrupts.pop()
            drawn += 1
            return self._get(i)

        return surviving(self, plan, read)

    def _rebuild(self, sources: tuple[sk.View[Any], ...]) -> sk.View[Any]:
        return Interrupted(*sources, self._at)


class FailsAt:
    """The identity, but for some items, for which it raises."""

    def __init__(self, *items: Any, error: Callable[[str], BaseException] = ValueError) -> None:
        self.items = items
        self.error = error

    def __call__(self, item: Any, *_: Any) -> Any:
        if item in self.items:
            raise self.error(f"bad {item}")
        return item


class InterruptsOnce(FailsAt):
    """The identity, but the first time that it is called for some items, it raises."""

    def __init__(self, *items: Any, error: Callable[[], BaseException] = KeyboardInterrupt) -> None:
        super().__init__(*items, error=lambda _: error())

    def __call__(self, item: Any, *_: Any) -> Any:
        try:
            return super().__call__(item)
        except BaseException:
            self.items = tuple(other for other in self.items if other != item)
            raise


def agree_after_errors(view: sk.View[Any]) -> list[Any]:
    """Return what indexing gives, errors included, having seen that iterating gives the same."""
    found = by_index(view)
    assert by_iteration(iter(view)) == found
    assert by_iteration(reversed(view)) == found[::-1]
    return found


def past_errors(items: Iterator[Any]) -> list[Any]:
    """Return what an iterator gives when it is asked on after errors of every kind: items and errors."""
    found: list[Any] = []
    while len(found) < 1000:
        try:
            found.append(next(items))
        except StopIteration:
            return found
        except BaseException as error:
            found.append(error)
    raise AssertionError("an iterator gave a thousand items and errors and went on")


def for_each(names: str | tuple[str, ...], values: Iterable[Any]) -> Any:
    """Run a test once for each value, as `pytest.mark.parametrize` does, but as one test.

    Many cheap cases so cost no more than they compute. A case that fails names itself, and ends the test.
    """
    several = names if isinstance(names, tuple) else tuple(re.split(r",\s*", names))
    cases = [value if len(several) > 1 else (value,) for value in values]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def looped(**others: Any) -> None:
            for case in cases:
                named = dict(zip(several, case, strict=True))
                try:
                    test(**named, **others)
                except pytest.skip.Exception:
                    pass
                except BaseException as error:
                    error.add_note(f"with {', '.join(f'{name}={value!r}' for name, value in named.items())}")
                    raise

        signature = inspect.signature(test)
        rest = [each for name, each in signature.parameters.items() if name not in several]
        looped.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return looped

    return decorate


def mostly_stress(*values: Any, here: int = 1) -> list[Any]:
    """Return cases of a test: the first ones run under `make test`, and all of them under `make stress`."""
    cases = [value if isinstance(value, tuple) else (value,) for value in values]
    return [*values[:here], *(pytest.param(*case, marks=pytest.mark.stress) for case in cases[here:])]


class Clock:
    """Stands still until it is told how many seconds pass; exact."""

    def __init__(self) -> None:
        self.now = Fraction(0)

    def __call__(self) -> Any:
        return self.now

    def work(self, seconds: Any) -> Callable[[Any], Any]:
        """Return a function that takes that long."""

        def working(x: Any) -> Any:
            self.now += Fraction(seconds)
            return x

        return working
