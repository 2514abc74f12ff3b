"""`preview`: the first items of a view as cards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from ..core.arguments import as_bool, optional_number, positive_int
from ..core.errors import brief, summary
from ..core.lengths import Unsized, is_measured, streams
from ..core.tracebacks import hiding_frames
from ..core.units import plural, size
from ..core.view import View
from .explain import text_of
from .html import cut, escape, faint, frame, pre, row, visible
from .rewriting import without_nodes
from .steps import Step, Steps, chain, label, path_of, stage_row, step_card
from .subject import refuse_one_shots, viewed
from .summary import structure, summarise
from .units import seconds

__all__ = ["Preview", "preview"]


@dataclass(frozen=True)
class Preview:
    """The first items of a view, for terminals and notebooks.

    Attributes
    ----------
    view : str
        The view with its arguments.
    items : tuple of Step
    seconds : float
        Time that it took.
    is_cut : bool
        Whether the budget ended before the last item.
    stages : bool
        Whether the items are shown in all stages.
    """

    view: str
    items: tuple[Step, ...]
    seconds: float
    is_cut: bool
    stages: bool

    @property
    def structure(self) -> str:
        """What the items share, such as ``"image: uint8[28, 28], label: int"``."""
        values = [step.value for step in self.items if step.value is not None]
        return structure(values) if values else ""

    def cost(self) -> str:
        """Return the number of items that were read, their time and their size."""
        nbytes = sum(step.value.nbytes for step in self.items if step.value is not None)
        read = f"{plural(len(self.items), 'item')} in {seconds(self.seconds)}, {size(nbytes)}"
        return read + ". The budget is used up" * self.is_cut

    def __str__(self) -> str:
        lines = [f"{self.view}: {self.cost()}", f"  {self.structure}"]
        for step in self.items:
            shown = chain(step) if self.stages else [step]
            lines += [f"  [{brief(step.index)}]  {_line(step, step)}"] if len(shown) == 1 else []
            if len(shown) > 1:
                width = max(len(label(each)) for each in shown)
                lines += [f"  {label(each):<{width}}  {_line(each, step)}" for each in shown] + [""]
        return visible("\n".join(map(cut, lines)).rstrip())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head = f"<div><b>{escape(self.view)}</b> {faint(escape(self.cost()))}</div>"
        parts = [head, pre(escape(self.structure))]
        if self.stages:
            return frame(*parts, *map(stage_row, self.items))
        return frame(*parts, row(step_card(step, f"[{brief(step.index)}]") for step in self.items))


def preview(
    sequence: Any,
    n: int = 5,
    *,
    stages: bool = False,
    max_seconds: float | None = 10.0,
) -> Preview:
    """Show the first items of a view or loader as cards: images, curves, texts, tables and errors.

    Parameters
    ----------
    sequence : View, indexable or DataLoader
    n : int
        Number of items (1 or more).
    stages : bool
        True shows each item in all stages: in the source, and after each function. False (the default) shows
        the items of the outermost view.
    max_seconds : float or None
        Time in seconds. After it no further item is begun. None is no limit.

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
    a card with its error. Caches are not used. A loader whose order is known only when its sampler or data
    set is read is refused.

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
    refuse_one_shots(sequence, "preview", "a preview would use it up")
    view, steps = viewed(sequence, "preview"), Steps(int(stages))
    begun, is_cut, found = perf_counter(), False, list[Step]()
    with hiding_frames():
        for step in _items(view, n, steps):
            found.append(step)
            is_late = max_seconds is not None and perf_counter() - begun >= max_seconds
            if is_late and len(found) < n:
                is_cut = True
                break
    return Preview(text_of(view), tuple(found), perf_counter() - begun, is_cut, stages)


def _items(view: View[Any], n: int, steps: Steps) -> Iterator[Step]:
    text, name = text_of(view), view._name
    if not is_measured(view):
        view = without_nodes(view)  # a scan would start their workers
    needs_length = not is_measured(view) and not streams(view)  # to iterate, as a shuffle of a filter does
    if view._known is None and view._streams and not needs_length:  # cheaper than to find the length first
        iterator = iter(view)
        for i in range(n):
            begun = perf_counter()
            try:
                item = next(iterator)
            except StopIteration:
                return
            except Exception as error:
                yield Step(text, name, i, error=summary(error.__cause__ or error))
            else:
                yield Step(text, name, i, perf_counter() - begun, summarise(item))
        return
    try:
        length = view._n
    except Exception as error:
        yield Step(text, name, 0, error=summary(error.__cause__ or error))
        return
    for i in range(n if isinstance(length, Unsized) else min(n, length)):
        yield steps.of(view, i)


def _line(step: Step, item: Step) -> str:
    if step.value is not None:
        return step.value.line()
    path = item.failed()
    return f"✗ {path[-1].error}  ({path_of(path)})" if path else "not computed"
