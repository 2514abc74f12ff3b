"""Compute one item stage by stage, in this thread, and keep a summary of the value of each stage."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ..core.awaiting import is_awaited
from ..core.errors import EvaluationError, brief, summary
from ..core.expression import walk
from ..core.lengths import UNKNOWN, is_measured
from ..core.view import View
from .explain import text_of
from .html import ALARM, MONO, card, escape, faint, row, table
from .summary import Summary, summarise
from .units import seconds

__all__ = ["Step", "Steps", "chain", "key_of", "label", "path_of", "stage_row", "step_card"]


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


class Steps:
    """Computes items stage by stage.

    The function of each view is called once, with the values of the views below. Workers are not started, and
    caches are not used.

    Parameters
    ----------
    most : int
        Parts of an item whose values are summarised. 0: only the item itself.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def of(self, view: View[Any], i: Any) -> Step:
        """Return the steps of one item."""
        return self._step(view, i, True)[0]

    def _step(self, view: View[Any], i: Any, looks: bool) -> tuple[Step, Any]:
        """Return the steps of an item, and its value or `_FAILED`."""
        steps: list[Step] = []
        held: Held = []
        step = Step(text_of(view), view._name, i)
        try:
            for source, indices in view._parts(i):
                for j in indices:
                    part, value = self._step(source, j, looks and len(steps) < self._most)
                    steps.append(part)
                    if value is _FAILED:
                        return replace(step, parts=tuple(steps)), _FAILED
                    held.append((source, j, value))
            is_same = bool(held) and view._passes_on and not _is_list_of(held, i)
            read = _reader(view, i, held)
            begun = perf_counter()
            value = read()
            if is_awaited(type(value)):
                from ..engine.coroutines import result_of  # imports `asyncio`, which takes long

                value = result_of(value)
            seconds = perf_counter() - begun
        except Exception as error:
            known = zip(steps, held, strict=False)  # the part that failed has no value
            parts = tuple(replace(part, value=part.value or summarise(item)) for part, (_, _, item) in known)
            cause = error.__cause__ if isinstance(error, EvaluationError) and error.__cause__ else error
            return replace(step, error=summary(cause), parts=parts), _FAILED
        # Before the value is passed on: a function may change its item in place.
        look = summarise(value) if looks else None
        return replace(step, seconds=seconds, value=look, is_same=is_same, parts=tuple(steps)), value


_FAILED = object()


def key_of(index: Any) -> Any:
    """Return an index as a value that can be a key of a dict. Equal indices give equal keys.

    >>> import numpy as np
    >>> key_of(np.array([1, 2])) == key_of(np.array([1, 2])), key_of(np.int64(3)), key_of("a")
    (True, 3, 'a')
    """
    index = index.tolist() if callable(getattr(index, "tolist", None)) else index
    return index if isinstance(index, Hashable) else repr(index)


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
            # A view of known items may read others later.
            if not (isinstance(value, View) and any(isinstance(node, _Held) for node in walk(value))):
                return value
        except Exception:
            if not any(source.lacked_an_item for source in sources):
                raise
        return view._get(i)

    return read


class _Held(View[Any]):
    """A view with a few known items."""

    def __init__(self, source: View[Any], held: Held) -> None:
        super().__init__((), source._n if is_measured(source) else UNKNOWN)
        # The keys of random views above depend on these.
        self._random_count, self._order_count = source._random_count, source._order_count
        self._name = source._name
        self._held = {key_of(j): value for view, j, value in reversed(held) if view is source}
        self.lacked_an_item = False

    def _get(self, i: Any) -> Any:
        key = key_of(i)
        if key not in self._held:
            self.lacked_an_item = True
            raise LookupError(f"item {brief(i)} is not known")
        return self._held[key]

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self


def value(summary: Summary) -> str:
    """Return a value as HTML.

    >>> from .summary import summarise
    >>> "mean 2" in value(summarise(range(3))), "hello" in value(summarise("hello"))
    (False, True)
    """
    if summary.parts:
        parts = [(name or str(i), part) for i, (name, part) in enumerate(summary.parts)]
        pictures = "".join(_array(part, name) for name, part in parts if part.picture)
        rows = [[faint(escape(name)), value(part)] for name, part in parts if not part.picture]
        more = faint(escape(f"… {summary.text}")) if summary.text else ""
        return pictures + (table(rows) if rows else "") + more
    if summary.shape is not None:
        return _array(summary)
    shown = summary.text or summary.type
    return f'<span style="overflow-wrap:anywhere">{escape(shown)}</span>{_alarm(summary.alarm)}'


def _array(summary: Summary, name: str = "") -> str:
    kind = f'<span style="{MONO};font-size:12px">{escape(summary.type)}</span>'
    head = f"{faint(escape(name))} {kind}" if name else kind
    about = f"<div>{faint(escape(summary.text))}</div>" if summary.text else ""
    return f"{summary.picture}<div>{head}{_alarm(summary.alarm)}</div>{about}"


def _alarm(text: str) -> str:
    return f' <b style="color:{ALARM}">⚠ {escape(text)}</b>' if text else ""


def step_card(step: Step, title: str = "", path: Sequence[Step] = ()) -> str:
    """Return the card of a step: its value, or in red the error at the end of the path to it.

    With a title, the time is that of the item in all views. Otherwise it is that of this view.
    """
    taken = step.all_seconds() if title else step.seconds
    title = title or label(step)
    if step.value is not None:
        return card(escape(title), value(step.value), f"<div>{faint(seconds(taken))}</div>")
    path = path or step.failed()
    text = f'<div style="overflow-wrap:anywhere">{escape(path[-1].error)}</div>'
    return card(escape(title), text, f"<div>{faint(escape(path_of(path)))}</div>", colour=ALARM)


def path_of(path: Sequence[Step]) -> str:
    """Return the way to a failing step, as errors show it: ``batch[3] → smap[97]``."""
    return " → ".join(f"{step.name}[{brief(step.index)}]" for step in path)


def chain(step: Step) -> list[Step]:
    """Return the stages of an item from the source on, without those that only choose an item.

    Of several parts the first is followed, or the one that failed.
    """
    path = list(step.failed()) or [step]
    while path[-1].parts:
        path.append(path[-1].parts[0])
    return [each for each in reversed(path) if not each.is_same and (each.value is not None or each.error)]


def label(step: Step) -> str:
    """Return a view with the index of its item: ``smap(decode)[97]``."""
    return f"{step.view}[{brief(step.index)}]"


def stage_row(step: Step) -> str:
    """Return the cards of an item in all stages, from the source on."""
    arrow = '<div style="display:inline-block;margin-top:28px;opacity:0.6">→</div>'
    cards = [step_card(each, path=step.failed()) for each in chain(step)]
    return row((part for i, each in enumerate(cards) for part in [arrow] * (i > 0) + [each]))
