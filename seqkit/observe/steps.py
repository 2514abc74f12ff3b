"""Compute one item stage by stage, in this thread, and keep a summary of the value of each stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..core.errors import EvaluationError, brief, summary
from ..core.indices import UNKNOWN
from ..core.source import Source, as_view
from ..core.view import View, is_measured, walk
from ..prefetch import Prefetch
from ..views.bases.one_of_several import OneOfSeveral
from ..views.bases.random import Random
from ..views.bases.selection import Selection
from ..views.filter import Filter
from .remedy import refuse_one_shots
from .summary import Summary, summarise
from .tree import text_of

__all__ = [
    "Step",
    "Steps",
    "draws_given_keys",
    "failed_step",
    "indices_known",
    "key_of",
    "viewed",
]


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
        self._origins: dict[str, list[Any]] = {}  # the objects that have the same text

    def of(self, view: View[Any], i: Any) -> Step:
        """Return the steps of one item."""
        return self._step(view, i, True)[0]

    def _step(self, view: View[Any], i: Any, looks: bool) -> tuple[Step, Any]:
        """Return the steps of an item, and its value or `_FAILED`."""
        steps: list[Step] = []
        held: list[tuple[View[Any], Any, Any]] = []
        about: dict[str, Any] = {**self._about(view), "index": i}
        try:
            for source, indices in self._parts(view, i):
                for j in indices:
                    step, value = self._step(
                        source, _asked(view, source, j), looks and len(steps) < self._most
                    )
                    steps.append(step)
                    if value is _FAILED:
                        return Step(**about, parts=tuple(steps)), _FAILED
                    held.append((source, j, value))
            about["is_same"] = bool(held) and _passes_on(view, i)
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
        if _reads_at_once(view, i):
            return ((view._sources[0], (i,)),)
        if self._uses_caches and view._name == "add_cache" and not list(view._needs(i)):
            return ()
        return view._parts(i)

    def _about(self, view: View[Any]) -> dict[str, Any]:
        """Return what all steps of a view share."""
        if id(view) not in self._known:
            text = text_of(view)
            data = view._data if isinstance(view, Source) else view
            alike = self._origins.setdefault(text, [])
            if not any(data is one for one in alike):
                alike.append(data)
            origin = next(number for number, one in enumerate(alike) if one is data)
            self._known[id(view)] = (
                view,
                {"view": text, "name": view._name, "key": _key(view), "origin": origin},
            )
        return self._known[id(view)][1]


_FAILED = object()


def viewed(sequence: Any, who: str) -> View[Any]:
    """Return a sequence as a view, or the view of a loader."""
    if not hasattr(type(sequence), "_explained"):
        view = as_view(sequence, who)
        refuse_one_shots(view, who, f"a {who} would use it up")
        return view
    refuse_one_shots(sequence, who, f"a {who} would use it up")
    kind = type(sequence).__name__
    if draws_given_keys(sequence):
        raise TypeError(
            f"{who}: the order of this {kind} is known only when its sampler is read, and a {who} would use"
            f" up an order. Pass loader.dataset to {who}, or use next(iter(loader))."
        )
    if not indices_known(sequence):
        raise TypeError(
            f"{who}: the batches of this {kind} cannot be read by index. Use"
            " next(iter(loader)), which displays itself."
        )
    return as_view(sequence.view, who)


def indices_known(loader: Any) -> bool:
    """Return whether the items of a loader can be read by index without reading a sampler."""
    return hasattr(loader, "knows_its_order") and bool(loader.knows_its_order())


def draws_given_keys(loader: Any) -> bool:
    """Return whether a loader must read a sampler of the user to know its order."""
    given = getattr(getattr(loader, "_options", None), "given_sampler", None)
    return given is not None and not indices_known(loader)


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


def _takes_keys(view: View[Any]) -> bool:
    """Return whether a view is that of the samples of a `DataLoader` at the keys of its sampler."""
    return hasattr(view, "_takes_lists")


def _asked(view: View[Any], source: View[Any], key: Any) -> Any:
    """Return the index of a source for a key that a view asks for. Objects of the user get it as it is."""
    samples: Any = view if _takes_keys(view) else None
    if samples is not None and not samples._takes_keys and not _reads_at_once(view, key):
        return source._wrap_checked(key)
    return key


def _reads_at_once(view: View[Any], key: Any) -> bool:
    """Return whether a loader reads a list of keys as one key of the data set."""
    samples: Any = view
    return _takes_keys(view) and isinstance(key, list | np.ndarray) and bool(samples._takes_lists)


def _passes_on(view: View[Any], i: Any) -> bool:
    """Return whether an item is an item of a view below, so that there is nothing to compute."""
    if _takes_keys(view):
        return _reads_at_once(view, i) or not isinstance(i, list | np.ndarray)
    is_kept = view._name in ("add_cache", "at_keys", "monitor_throughput", "repeat")
    return is_kept or isinstance(view, Selection | OneOfSeveral | Filter | Prefetch)


def _reader(view: View[Any], i: Any, held: list[tuple[View[Any], Any, Any]]) -> Callable[[], Any]:
    """Return a function that computes an item from known items, or from others that the view reads."""
    if not held:
        return partial(view._get, i)
    if _passes_on(view, i):
        return lambda: held[-1][2]
    if _takes_keys(view):
        return lambda: [value for _, _, value in held]
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

    def __init__(self, source: View[Any], held: list[tuple[View[Any], Any, Any]]) -> None:
        super().__init__((), source._n if is_measured(source) else UNKNOWN)
        # The keys of random views above depend on these.
        self._random_count, self._order_count = source._random_count, source._order_count
        self._name = source._name
        self._original = source
        self._held = {key_of(j): value for view, j, value in reversed(held) if view is source}
        self.was_in_vain = False

    def _get(self, i: Any) -> Any:
        key = key_of(i)
        if key not in self._held:
            self.was_in_vain = True
            raise LookupError(f"item {brief(i)} is not known")
        return self._held[key]

    def _as_int(self, key: Any) -> Any:
        self.was_in_vain |= not isinstance(key, int)  # a key that only the source itself understands
        return super()._as_int(key)

    def _described(self, sources: list[str]) -> str:
        return repr(self._original)

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
