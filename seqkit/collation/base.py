"""The protocol of collate functions: callable with a batch, and with a part of the samples of a batch."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..core.arguments import is_table
from ..core.errors import brief
from ..core.expression import name_of

__all__ = ["Collate", "Place", "as_collate", "as_samples", "shown"]


class Place:
    """A part of the samples of a batch, and the function that collates it. Messages begin with it.

    >>> place = Place("Pad").item("image").field("x")
    >>> place.who, place.at(3)
    ('Pad', "batch[3]['image'].x")
    """

    __slots__ = ("batch", "path", "who")

    def __init__(self, who: str, path: str = "", batch: str = "batch") -> None:
        self.who = who
        self.path = path
        self.batch = batch

    def at(self, i: int | str) -> str:
        """Return this part of sample `i` as an expression."""
        return f"{self.batch}[{i}]{self.path}"

    def by(self, who: str) -> Place:
        """Return the same place for another function."""
        return Place(who, self.path, self.batch)

    def item(self, key: Any) -> Place:
        """Return the place of the part at a key or position."""
        return Place(self.who, f"{self.path}[{key!r}]", self.batch)

    def field(self, name: str) -> Place:
        """Return the place of a field of named tuples."""
        return Place(self.who, f"{self.path}.{name}", self.batch)


def as_samples(batch: Any, who: str) -> list[Any]:
    """Return a batch as a list. Refuse text, mappings and tables, because their elements are no samples.

    >>> as_samples({"x": 1}, "Stack")
    Traceback (most recent call last):
    TypeError: Stack: a batch must be a list of samples, got {'x': 1}
    """
    if isinstance(batch, list):
        return batch
    if is_table(batch):
        raise TypeError(f"{who}: a batch must be a list of samples, got a table. Pass list(view(table)).")
    if not isinstance(batch, Iterable) or isinstance(batch, Mapping | str | bytes | bytearray):
        raise TypeError(f"{who}: a batch must be a list of samples, got {brief(batch)}")
    return list(batch)


@dataclass(repr=False, eq=False)
class Collate:
    """A function that makes a batch of samples.

    A subclass defines `_collate`. Composed functions call `collate_at` for a part of their samples, so that
    error messages name the place in the sample. Any other function is a `Collate` by way of `as_collate`.

    Attributes
    ----------
    takes_arrays : bool
        Whether it takes the samples of an array source as one array. `batch` asks for this.
    """

    takes_arrays = False

    def __call__(self, batch: Iterable[Any]) -> Any:
        """Return one batch of samples."""
        return self.collate_at(as_samples(batch, type(self).__name__), Place(""))

    def collate_at(self, samples: Sequence[Any], place: Place) -> Any:
        """Return one batch of the parts that lie at a place in samples."""
        place = place.by(getattr(self, "__name__", type(self).__name__))
        if not len(samples):
            raise ValueError(f"{place.who}: the {place.batch} is empty, at least one sample is needed")
        return self._collate(samples, place)

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _collate(samples, place)")

    def __repr__(self) -> str:
        given = [
            f"{field.name}={value!r}"
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        ]
        return f"{type(self).__name__}({', '.join(given)})"


class _Function(Collate):
    """A plain function of a list. Its errors get a note that names the place."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def collate_at(self, samples: Sequence[Any], place: Place) -> Any:
        try:
            return self.function(samples)
        except Exception as error:
            error.add_note(f"raised by {self!r} for {place.at('...')}")
            raise

    def __repr__(self) -> str:
        return name_of(self.function)


def as_collate(function: Callable[..., Any]) -> Collate:
    """Return a function as a `Collate`.

    >>> as_collate(sum), as_collate(sum)([1, 2])
    (sum, 3)
    """
    return function if isinstance(function, Collate) else _Function(function)


def shown(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return the arguments that are not the defaults, as text.

    >>> shown({"key": None, "reverse": False}, {"key": abs, "reverse": False})
    ['key=abs']
    """
    options = []
    for name, value in given.items():
        if type(value) is not type(defaults[name]) or value != defaults[name]:
            options.append(f"{name}={_short(value)}")
    return options


def _short(value: Any) -> str:
    text = getattr(value, "__name__", reprlib.repr(value))
    is_cut = "..." in text and not hasattr(value, "__getitem__")
    return f"<{type(value).__name__}>" if is_cut or text.startswith("<") else text
