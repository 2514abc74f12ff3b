"""Compute one item stage by stage, in this thread, and keep a summary of the value of each stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..core.errors import EvaluationError, brief, summary
from ..core.indices import UNKNOWN
from ..core.source import as_view
from ..core.view import View, is_measured
from ..prefetch import Prefetch
from ..views.bases.one_of_several import OneOfSeveral
from ..views.bases.random import Random
from ..views.bases.selection import Selection
from ..views.filter import Filter
from .summary import Summary, summarise
from .tree import text_of

__all__ = ["Step", "Steps", "viewed"]


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
        found: dict[str, Any] = {"view": self.view, "index": self.index, "seconds": self.seconds}
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

    def of(self, view: View[Any], i: Any) -> Step:
        """Return the steps of one item."""
        return self._step(view, i, True)[0]

    def _step(self, view: View[Any], i: Any, looks: bool) -> tuple[Step, Any]:
        """Return the steps of an item and its value, which is `_FAILED` if it failed."""
        steps: list[Step] = []
        held: list[tuple[View[Any], Any, Any]] = []
        about: dict[str, Any] = {"view": text_of(view), "name": view._name, "index": i, "key": _key(view)}
        try:
            for source, indices in self._parts(view, i):
                for j in indices:
                    step, value = self._step(source, j, looks and len(steps) < self._most)
                    steps.append(step)
                    if value is _FAILED:
                        return Step(**about, parts=tuple(steps)), _FAILED
                    held.append((source, j, value))
            about["is_same"] = bool(held) and _passes_on(view)
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
        is_own = not type(view).__module__.startswith("seqkit.")
        if is_own and type(view)._parts is View._parts:
            return ()  # the default may be wrong
        if self._uses_caches and view._name == "add_cache" and not list(view._needs(i)):
            return ()
        return view._parts(i)


_FAILED = object()


def viewed(sequence: Any, who: str) -> View[Any]:
    """Return a sequence, or what a loader reads, as a view."""
    if not hasattr(type(sequence), "_explained"):
        return as_view(sequence, who)
    if not hasattr(sequence, "view"):
        raise TypeError(
            f"{who}: the batches of a {type(sequence).__name__} cannot be read by index. Use"
            " next(iter(loader)), which displays itself."
        )
    return as_view(sequence.view, who)


def _passes_on(view: View[Any]) -> bool:
    """Return whether an item is an item of a view below, so that there is nothing to compute."""
    is_kept = view._name in ("add_cache", "at_keys", "monitor_throughput", "repeat", "bound")
    return is_kept or isinstance(view, Selection | OneOfSeveral | Filter | Prefetch)


def _reader(view: View[Any], i: Any, held: list[tuple[View[Any], Any, Any]]) -> Callable[[], Any]:
    """Return what computes an item from items of the sources. A view that needs others reads them itself."""
    if not held:
        return partial(view._get, i)
    if _passes_on(view):
        return lambda: held[-1][2]
    sources = tuple(_Held(source, held) for source in view._sources)
    rebuilt = view._rebuild(sources)

    def read() -> Any:
        try:
            return rebuilt._get(i)
        except Exception:
            if not any(source.was_in_vain for source in sources):
                raise
        return view._get(i)

    return read


class _Held(View[Any]):
    """A view of which a few items are known."""

    def __init__(self, source: View[Any], held: list[tuple[View[Any], Any, Any]]) -> None:
        super().__init__((), source._n if is_measured(source) else UNKNOWN)
        self._random_count = source._random_count  # which the keys of random views above depend on
        self._held = [(j, value) for view, j, value in held if view is source]
        self.was_in_vain = False

    def _get(self, i: Any) -> Any:
        for j, value in self._held:
            if j is i or (type(j) is not list and j == i):
                return value
        self.was_in_vain = True
        raise LookupError(f"item {brief(i)} is not known")

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
