"""Compute one item stage by stage, in this thread, and keep a summary of the value of each stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..core.errors import EvaluationError, brief, summary
from ..core.indices import UNKNOWN
from ..core.source import Source
from ..core.view import View, is_measured, walk
from ..prefetch import Prefetch
from ..stores.add_cache.add_cache import AddCache
from ..views.bases.random import Random
from .summary import Summary, summarise
from .tree import text_of

__all__ = ["Step", "Steps", "failed_step", "key_of"]


@dataclass(frozen=True)
class Step:
    """An item of one view, and the items of the views below that it is made of.

    Attributes
    ----------
    view : str
        The view with its arguments, such as ``"smap(decode)"``.
    name : str
        The name of the view, such as ``"smap"``.
    index : object
        Index of the item in the view: an int, or a key of a sampler.
    seconds : float
        Time that the view took for the item, without the views below it.
    value : Summary or None
        None if the item failed, or if its summary was not asked for.
    error : str
        The error that was raised in this view, or "".
    is_same : bool
        Whether the item is an item of a view below, as it is.
    key : str
        Seed and epoch of a random view, and the key that its random numbers are drawn from; or "".
    parts : tuple of Step
        The items that the item is made of.
    origin : int
        Number of the source among those with the same text, from 0 on.
    """

    view: str
    name: str
    index: Any
    seconds: float = 0.0
    value: Summary | None = None
    error: str = ""
    is_same: bool = False
    key: str = ""
    parts: tuple[Step, ...] = ()
    origin: int = 0

    def walk(self) -> Iterator[Step]:
        """Yield this step and all steps below, from the outside to the inside."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def all_seconds(self) -> float:
        """Return the time of all views for the item."""
        return sum(step.seconds for step in self.walk())

    def failed(self) -> tuple[Step, ...]:
        """Return the steps from this one down to the one that failed; empty if none did."""
        if self.error:
            return (self,)
        return next(((self, *path) for part in self.parts if (path := part.failed())), ())

    def to_dict(self) -> dict[str, Any]:
        """Return the step as plain values, with the steps below it."""
        found: dict[str, Any] = {"view": self.view, "index": _as_data(self.index), "seconds": self.seconds}
        if self.value is not None:
            found["value"] = self.value.to_dict()
        found.update((name, text) for name in ("error", "key") if (text := getattr(self, name)))
        return {**found, "parts": [part.to_dict() for part in self.parts]} if self.parts else found


class Steps:
    """Computes items stage by stage.

    The function of each view is called once, with the values of the views below. Workers are not started, and
    nothing is written to caches.

    Parameters
    ----------
    clock : callable
        Returns seconds.
    most : int
        Parts of an item whose values are summarised. 0: only the item itself.
    uses_caches : bool
        Whether items that a cache holds are taken from it, without the steps below.
    """

    def __init__(self, clock: Callable[[], float], most: int, uses_caches: bool) -> None:
        self._clock = clock
        self._most = most
        self._uses_caches = uses_caches
        self._known: dict[int, tuple[View[Any], dict[str, Any]]] = {}  # what all steps of a view share
        self._origins: dict[str, dict[int, int]] = {}  # the objects that have the same text

    def of(self, view: View[Any], i: Any) -> Step:
        """Return the steps of one item."""
        return self._step(view, i, True)[0]

    def _step(self, view: View[Any], i: Any, looks: bool) -> tuple[Step, Any]:
        """Return the steps of an item, and its value or `_FAILED`."""
        steps: list[Step] = []
        held: Held = []
        about: dict[str, Any] = {**self._about(view), "index": i}
        try:
            for source, indices in self._parts(view, i):
                for j in indices:
                    step, value = self._step(source, j, looks and len(steps) < self._most)
                    steps.append(step)
                    if value is _FAILED:
                        return Step(**about, parts=tuple(steps)), _FAILED
                    held.append((source, j, value))
            about["is_same"] = bool(held) and view._passes_on and not _is_list_of(held, i)
            read = _reader(view, i, held)
            begun = self._clock()
            value = read()
            about["seconds"] = self._clock() - begun
        except Exception as error:
            known = zip(steps, held, strict=False)  # the part that failed has no value
            inputs = tuple(replace(step, value=step.value or summarise(item)) for step, (_, _, item) in known)
            return Step(**about, error=_text(error), parts=inputs), _FAILED
        # Before the value is passed on: a function may change its item in place.
        look = summarise(value) if looks else None
        return Step(**about, value=look, parts=tuple(steps)), value

    def _parts(self, view: View[Any], i: Any) -> Iterable[tuple[View[Any], Iterable[Any]]]:
        if isinstance(view, Prefetch):
            return ((view.below(), (i,)),)
        if self._uses_caches and isinstance(view, AddCache) and not list(view._needs(i)):
            return ()
        return view._parts(i)

    def _about(self, view: View[Any]) -> dict[str, Any]:
        """Return what all steps of a view share."""
        if id(view) not in self._known:
            text = text_of(view)
            alike = self._origins.setdefault(text, {})
            origin = alike.setdefault(id(view._data if isinstance(view, Source) else view), len(alike))
            about = {"view": text, "name": view._name, "key": _key(view), "origin": origin}
            self._known[id(view)] = view, about
        return self._known[id(view)][1]


_FAILED = object()


def failed_step(error: EvaluationError) -> Step | None:
    """Return the steps of an error, from the requested item to the one that failed, without values.

    >>> failed_step(EvaluationError("x", view=as_view("ab", "steps"), index=1)).view
    '<str of 2>'
    """
    step: Step | None = None
    for view, index in reversed(error.path or ((error.view, error.index),)):
        if view is not None:
            told = "" if step else summary(error.__cause__ or error)
            step = Step(text_of(view), view._name, index, error=told, parts=(step,) if step else ())
    return step


def key_of(index: Any) -> Any:
    """Return an index as a value that can be a key of a dict. Equal indices give equal keys.

    >>> import numpy as np
    >>> key_of(np.array([1, 2])) == key_of(np.array([1, 2])), key_of(np.int64(3)), key_of("a")
    (True, 3, 'a')
    """
    index = index.tolist() if callable(getattr(index, "tolist", None)) else index
    try:
        hash(index)
    except TypeError:
        return type(index), repr(index)
    return index


def _as_data(index: Any) -> Any:
    """Return an index as a value of JSON: arrays and tuples as lists, objects as texts."""
    index = index.tolist() if callable(getattr(index, "tolist", None)) else index
    if isinstance(index, list | tuple):
        return [_as_data(part) for part in index]
    return index if index is None or isinstance(index, int | float | str) else brief(index)


Held = list[tuple[View[Any], Any, Any]]  # items of the views below: the view, the index and the item


def _is_list_of(held: Held, i: Any) -> bool:
    """Is the item at a list of keys the list of the items at each key? Otherwise the list is one key."""
    return isinstance(i, list | np.ndarray) and held[0][1] is not i


def _reader(view: View[Any], i: Any, held: Held) -> Callable[[], Any]:
    """Return a function that computes an item from known items, or from others that the view reads."""
    if not held:
        return partial(view._get, i)
    if view._passes_on:
        return lambda: [item for *_, item in held] if _is_list_of(held, i) else held[-1][2]
    sources = tuple(_Held(source, held) for source in view._sources)
    rebuilt = view._rebuild(sources)

    def read() -> Any:
        try:
            value = rebuilt._get(i)
            if not _reads_later(value):
                return value
        except Exception:
            if not any(source.was_in_vain for source in sources):
                raise
        return view._get(i)

    return read


def _reads_later(value: Any) -> bool:
    """Return whether a value is a view of known items, which may read others later."""
    return isinstance(value, View) and any(isinstance(node, _Held) for node in walk(value))


class _Held(View[Any]):
    """A view with a few known items."""

    def __init__(self, source: View[Any], held: Held) -> None:
        super().__init__((), source._n if is_measured(source) else UNKNOWN)
        # The keys of random views above depend on these.
        self._random_count, self._order_count = source._random_count, source._order_count
        self._name = source._name
        self._held = {key_of(j): value for view, j, value in reversed(held) if view is source}
        self.was_in_vain = False

    def _get(self, i: Any) -> Any:
        key = key_of(i)
        if key not in self._held:
            self.was_in_vain = True
            raise LookupError(f"item {brief(i)} is not known")
        return self._held[key]

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self


def _key(view: View[Any]) -> str:
    if not isinstance(view, Random):
        return ""
    return f"seed {view._seed}, epoch {view._epoch}, key {view._key:032x}"


def _text(error: Exception) -> str:
    """Return the text of the user's exception."""
    cause = error.__cause__ if isinstance(error, EvaluationError) and error.__cause__ else error
    return summary(cause)
