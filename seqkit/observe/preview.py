"""`preview`: the first items of a view as cards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from ..core.arguments import as_bool, check_callable, int_at_least, optional_number, positive_int
from ..core.display import LoaderDisplay
from ..core.errors import EvaluationError, brief, summary
from ..core.indices import Unsized
from ..core.iteration import is_one_shot
from ..core.tracebacks import hiding_frames
from ..core.units import plural, seconds, size
from ..core.view import View, is_measured
from .cards import chain, label, path_of, stage_row, step_card
from .html import escape, faint, frame, pre, row, visible
from .steps import Step, Steps, draws_given_keys, failed_step, indices_known, viewed
from .structure import structure
from .summary import summarise
from .tree import text_of
from .ways import without_nodes

__all__ = ["Preview", "preview"]

_MOST_LETTERS = 1000  # of an item, in a terminal


@dataclass(frozen=True)
class Preview:
    """The first items of a view, for terminals and notebooks.

    Attributes
    ----------
    view : str
        The view with its arguments.
    rows : tuple of (int, tuple of Step)
        For each epoch its number and its items. The number is -1 for the view as it is.
    seconds : float
        Time that it took.
    nbytes : int
        Size of the items.
    is_cut : bool
        Whether the budget ended before the last item.
    stages : bool
        Whether the items are shown in all stages.
    """

    view: str
    rows: tuple[tuple[int, tuple[Step, ...]], ...]
    seconds: float
    nbytes: int
    is_cut: bool
    stages: bool

    @property
    def items(self) -> list[Step]:
        """The items of all epochs, in order."""
        return [step for _, steps in self.rows for step in steps]

    @property
    def structure(self) -> str:
        """What the items share, such as ``"image: uint8[28, 28], label: int"``."""
        values = [step.value for step in self.items if step.value is not None]
        return structure(values) if values else ""

    def cost(self) -> str:
        """Return the number of items that were read, their time and their size."""
        read = f"{plural(len(self.items), 'item')} in {seconds(self.seconds)}, {size(self.nbytes)}"
        return read + ". The budget is used up" * self.is_cut

    def to_dict(self) -> dict[str, Any]:
        """Return the items as plain values."""
        rows = [{"epoch": epoch, "items": [step.to_dict() for step in steps]} for epoch, steps in self.rows]
        return {"view": self.view, "structure": self.structure, "seconds": self.seconds, "rows": rows}

    def __str__(self) -> str:
        lines = [f"{self.view}: {self.cost()}", f"  {self.structure}"]
        for epoch, steps in self.rows:
            lines += [f"epoch {epoch}"] * (epoch >= 0)
            for step in steps:
                shown = chain(step) if self.stages else [step]
                lines += [f"  [{brief(step.index)}]  {_line(step, step)}"] if len(shown) == 1 else []
                if len(shown) > 1:
                    width = max(len(label(each)) for each in shown)
                    lines += [f"  {label(each):<{width}}  {_line(each, step)}" for each in shown] + [""]
        return visible("\n".join(lines).rstrip())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head = f"<div><b>{escape(self.view)}</b> {faint(escape(self.cost()))}</div>"
        parts = [head, pre(escape(self.structure))]
        for epoch, steps in self.rows:
            parts += [f"<div>{faint(f'epoch {epoch}')}</div>"] * (epoch >= 0)
            if self.stages:
                parts += [stage_row(step) for step in steps]
            else:
                parts.append(row(step_card(step, f"[{brief(step.index)}]") for step in steps))
        return frame(*parts)


def preview(
    sequence: Any,
    n: int = 5,
    *,
    stages: bool = False,
    epochs: Iterable[int] | None = None,
    max_seconds: float | None = 10.0,
    max_bytes: int = 1 << 28,
    clock: Callable[[], float] = perf_counter,
) -> Preview:
    """Show the first items of a view or loader as cards: images, curves, texts, tables and errors.

    Parameters
    ----------
    sequence : View, indexable, DataLoader or StreamLoader
    n : int
        Number of items (1 or more).
    stages : bool
        True shows each item in all stages: in the source, and after each function. False (the default) shows
        the items of the outermost view.
    epochs : iterable of int, optional
        Show the items in these epochs, below each other. None (the default) shows the view as it is.
    max_seconds : float or None
        Time in seconds. After it no further item is begun. None is no limit.
    max_bytes : int
        Size of the items in bytes. After it no further item is begun.
    clock : callable
        Returns seconds.

    Returns
    -------
    Preview
        Prints as text. Notebooks show cards.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, or an argument has the wrong type.
    ValueError
        If an argument is out of range, or a one-shot iterator would be used up.

    Notes
    -----
    Computes the items in this thread, without workers. At least one item is computed. An item that fails is
    a card with its error. Items that a cache holds are taken from it, unless with `stages`. Nothing is added
    to a cache. Of a StreamLoader, a copy opens the streams of the first epoch. A DataLoader whose order is
    known only when a given sampler is read is refused.

    Examples
    --------
    >>> import seqkit as sk
    >>> found = sk.smap(lambda x: 6 / (x - 1), range(100)).preview(3)
    >>> found.structure
    'float'
    >>> for step in found.items:
    ...     print(step.index, step.error or step.value.text)
    0 -6.0
    1 ZeroDivisionError: division by zero
    2 6.0
    """
    n = positive_int(n, "preview: n")
    stages = as_bool(stages, "preview: stages")
    max_seconds = optional_number(max_seconds, "preview: max_seconds", "seconds")
    max_bytes = positive_int(max_bytes, "preview: max_bytes")
    check_callable(clock, "preview: clock")
    if not isinstance(epochs, Iterable | None):
        raise TypeError(f"preview: epochs must be numbers of epochs, such as (0, 1), got {epochs!r}")
    chosen = None if epochs is None else [int_at_least(e, "preview: epochs", 0) for e in epochs]
    budget = _Budget(clock, max_seconds, max_bytes)
    if isinstance(sequence, LoaderDisplay) and not (indices_known(sequence) or draws_given_keys(sequence)):
        return _of_copy(sequence, n, chosen, budget)
    view = viewed(sequence, "preview")
    steps = Steps(clock, most=int(stages), uses_caches=not stages)
    with hiding_frames():
        rows = [(-1, view)] if chosen is None else [(epoch, view.at_epoch(epoch)) for epoch in chosen]
        found = tuple((epoch, tuple(budget.within(_items(each, n, steps)))) for epoch, each in rows)
    return Preview(text_of(view), found, budget.spent(), budget.nbytes, budget.is_cut, stages)


def _of_copy(loader: Any, n: int, epochs: list[int] | None, budget: _Budget) -> Preview:
    """Show the first batches of a loader, which a copy of it reads without workers."""
    name = type(loader).__name__
    for source in ("_streams", "dataset"):
        if is_one_shot(getattr(loader, source, None)):
            what = "the streams are" if source == "_streams" else "the data set is"
            raise ValueError(
                f"preview: {what} an iterator that cannot begin again, so a preview would use them up."
                " Pass an object that can be iterated again"
            )
    if epochs and getattr(loader, "last_batch", None) == "rollover":
        raise ValueError(
            "preview: epochs cannot be shown with last_batch='rollover', because an epoch begins with the"
            " samples that the epoch before has left. Leave epochs out"
        )
    rows = []
    with hiding_frames(), loader.with_workers(0) as copy:
        for epoch in [-1] if epochs is None else epochs:
            if epoch >= 0:
                copy.set_epoch(epoch)
            rows.append((epoch, tuple(budget.within(_read(lambda: iter(copy), name, name, n)))))
    return Preview(name, tuple(rows), budget.spent(), budget.nbytes, budget.is_cut, False)


def _items(view: View[Any], n: int, steps: Steps) -> Iterator[Step]:
    if is_measured(view):
        length = view._n
    else:
        view, text, name = without_nodes(view), text_of(view), view._name  # a scan would start their workers
        if view._streams:  # cheaper than to find the length first
            yield from _read(lambda: iter(view), text, name, n)
            return
        try:
            length = view._n
        except Exception as error:
            yield _failed(error, text, name, 0)
            return
    for i in range(n if isinstance(length, Unsized) else min(n, length)):
        yield steps.of(view, i)


def _read(begin: Callable[[], Iterator[Any]], text: str, name: str, n: int) -> Iterator[Step]:
    """Yield the first items of an iteration. One that fails is a step with its error."""
    iterator: Iterator[Any] | None = None
    for i in range(n):
        try:
            iterator = begin() if iterator is None else iterator
            item = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            yield _failed(error, text, name, i)
            if iterator is None:
                return
        else:
            yield Step(text, name, i, value=summarise(item))


def _failed(error: Exception, text: str, name: str, i: int) -> Step:
    """Return the step of an item that failed."""
    inner = failed_step(error) if isinstance(error, EvaluationError) else None
    if inner is None:
        told = error.message if isinstance(error, EvaluationError) else summary(error)
        return Step(text, name, i, error=told)
    return inner if inner.view == text else Step(text, name, i, parts=(inner,))


class _Budget:
    """Counts the time and the bytes of the items of one display."""

    def __init__(self, clock: Callable[[], float], max_seconds: float | None, max_bytes: int) -> None:
        self._clock, self._max_seconds, self._max_bytes = clock, max_seconds, max_bytes
        self._begun = clock()
        self.nbytes = 0
        self.is_cut = False

    def spent(self) -> float:
        return self._clock() - self._begun

    def within(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Yield steps as long as the budget lasts. The first one is always within it."""
        is_first = self.nbytes == 0
        while is_first or not self._is_used_up():
            step = next(steps, None)
            if step is None:
                return
            is_first = False
            self.nbytes += step.value.nbytes if step.value is not None else 0
            yield step
        self.is_cut = True

    def _is_used_up(self) -> bool:
        late = self._max_seconds is not None and self.spent() >= self._max_seconds
        return late or self.nbytes >= self._max_bytes


def _line(step: Step, item: Step) -> str:
    if step.value is not None:
        text = step.value.line()
        return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"
    path = item.failed()
    return f"✗ {path[-1].error}  ({path_of(path)})" if path else "not computed"
