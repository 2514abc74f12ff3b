"""`trace`: the origin of an item, in each stage down to the sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

from ..core.arguments import positive_int
from ..core.errors import EvaluationError, brief
from ..core.lengths import is_measured
from ..core.tracebacks import hiding_frames
from ..core.units import plural
from ..core.view import Indexable
from .explain import column, drawing
from .html import cut, escape, frame, pre, visible
from .rewriting import without_nodes
from .steps import Step, Steps, key_of, label, path_of, stage_row
from .subject import refuse_one_shots, viewed
from .units import seconds

__all__ = ["Trace", "trace"]

_MOST_PARTS = 3  # of an item, with their values
_MOST_INDICES = 12


@dataclass(frozen=True)
class Trace:
    """The origin of an item.

    Attributes
    ----------
    step : Step
        The item in the outermost view. Its `parts` are the items below, with parts of their own.
    """

    step: Step

    @property
    def failed(self) -> tuple[Step, ...]:
        """The steps from the outermost view down to the one that failed; empty if none did."""
        return self.step.failed()

    def sources(self) -> dict[str, list[Any]]:
        """Return the indices that were read from each source.

        >>> import seqkit as sk
        >>> sk.batch(sk.shuffle("abcdef", seed=0), 2).trace(1).sources()
        {'<str of 6>': [5, 1]}
        """
        found: dict[str, dict[Any, Any]] = {}
        for step in self.step.walk():
            if not step.parts:
                found.setdefault(step.view, {}).setdefault(key_of(step.index), step.index)
        return {text: list(indices.values()) for text, indices in found.items()}

    def __str__(self) -> str:
        return visible("\n".join(map(cut, [self._title(), *_lines(self.step), *self._notes()])))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return frame(pre(escape(self), "pre-wrap"), stage_row(self.step))

    def _title(self) -> str:
        if path := self.failed:
            return f"{label(self.step)} failed: {path_of(path)}"
        steps = sum(not step.is_same for step in self.step.walk())
        return f"{label(self.step)}: {plural(steps, 'step')} in {seconds(self.step.all_seconds())}"

    def _notes(self) -> Iterator[str]:
        for name, indices in self.sources().items():
            more = f", … {len(indices) - _MOST_INDICES:,} more" if len(indices) > _MOST_INDICES else ""
            yield f"read from {name}: {', '.join(map(brief, indices[:_MOST_INDICES]))}{more}"


@overload
def trace(sequence: Indexable[Any] | Any, i: int, world: None = None) -> Trace: ...
@overload
def trace(sequence: Any, i: int, world: int) -> tuple[Trace, ...]: ...
def trace(sequence: Any, i: int, world: int | None = None) -> Trace | tuple[Trace, ...]:
    """Compute one item and return its origin: items of the views below, values and times.

    Parameters
    ----------
    sequence : View, indexable or DataLoader
    i : int
        Index of the item. Negative indices count from the end.
    world : int, optional
        Number of processes, for a loader over a `DistributedSampler` or `ShardedSampler`: batch `i` of each.

    Returns
    -------
    Trace, or tuple of Trace
        Prints as a tree. Notebooks show the values in all stages too. With `world`, one for each process.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, or `i` is not an int.
    ValueError
        If a one-shot iterator would be used up, or processes do not share the order of the loader.
    IndexError
        If there is no item `i`.

    Notes
    -----
    Computes the item in this thread, without workers. The function of each view is called once per step.
    Caches are not used. An item that fails raises nothing: the tree marks the stage that failed.

    Examples
    --------
    >>> import seqkit as sk
    >>> halves = sk.smap(lambda x: x / 2, sk.shuffle(range(10), seed=1))
    >>> found = sk.batch(halves, 2).trace(1)
    >>> [(step.name, step.index, step.value.line()) for step in found.step.walk()][:3]
    [('batch', 1, '[4.0, 3.5]'), ('smap', 2, '4.0'), ('shuffle', 2, '8')]
    """
    if world is not None:
        if not hasattr(type(sequence), "of_process"):
            raise ValueError(f"trace: world is for a DataLoader, got {brief(sequence)}")
        world = positive_int(world, "trace: world")
        return tuple(trace(sequence.of_process(rank, world), i) for rank in range(world))
    refuse_one_shots(sequence, "trace", "a trace would use it up")
    view = viewed(sequence, "trace")
    with hiding_frames():
        if is_measured(view):
            i = view._checked_index(i)
        else:
            view = without_nodes(view)  # a scan would start their workers
        return _traced(view, i)


def of_error(error: EvaluationError) -> Trace:
    """Compute the item that was requested when an error was raised, and return its trace.

    >>> of_error(EvaluationError("x", view=viewed("ab", "trace").smap(int), index=1)).failed[0].index
    1
    """
    view, key = error.path[0] if error.path else (error.view, error.index)
    with hiding_frames():
        return _traced(view, key)


def _traced(view: Any, i: Any) -> Trace:
    return Trace(Steps(_MOST_PARTS).of(view, i))


def _lines(root: Step) -> list[str]:
    tree: Iterator[tuple[str, Step | str]] = drawing(root, _parts)
    rows = [(branch + (step if isinstance(step, str) else label(step)), step) for branch, step in tree]
    width = column(head for head, _ in rows)
    found: list[str] = []
    for head, step in rows:
        taken, about = "", ""
        if not isinstance(step, str) and not step.is_same:
            about = f"✗ {step.error}" if step.error else "not computed"
            if step.value is not None:
                taken, about = seconds(step.seconds), step.value.line()
        found.append(f"{head:<{width}}   {taken:>8}  {about}".rstrip())
    return found


def _parts(step: Step | str) -> list[Step | str]:
    """Return the parts of a step that were looked at, and a line that counts the others."""
    if isinstance(step, str):
        return []
    inner: list[Step | str] = [part for part in step.parts if part.value is not None or part.failed()]
    left = len(step.parts) - len(inner)
    return [*inner, *[f"… {left:,} more"] * (left > 0)]
