"""`tune`: measure a view, and say which workers compute its items fastest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..core.arguments import optional_number
from ..core.tracebacks import hiding_frames
from ..core.units import plural
from ..core.view import Indexable
from ..engine.prefetch import Prefetch, prefetch
from . import html
from .choose import MEASURING_S, Choice, arguments_of, choose, instruction
from .explain import text_of
from .subject import is_loader, viewed
from .units import rounded

__all__ = ["Tuning", "tune"]


@hiding_frames()
def tune(sequence: Indexable[Any] | Any, seconds: float | None = None) -> Tuning:
    """Measure items of a view or a loader, and return the workers that compute them fastest.

    Parameters
    ----------
    sequence : View, indexable or DataLoader
        What `prefetch` will wrap. If it is a `prefetch` view, its source is measured. The answer for a loader
        is about its own arguments.
    seconds : float, optional
        How long to measure, above 0, without the start of processes. None (the default): 1 second. An item
        should take less than half of it.

    Returns
    -------
    Tuning
        Print it to see figures, the reason, and the code to paste: a call of `prefetch`, or arguments of the
        loader.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, or a number has the wrong type.
    ValueError
        If a number is out of range.

    Notes
    -----
    Items are computed in worker processes. One of them measures items in one thread, and in several threads.
    If threads are far from their ideal, processes are tried too. A failing item is counted. If an item hangs
    or kills its process, the process is replaced by the default and the reason told.
    A view that other processes must not read is not measured: a one-shot iterator, or a stream.

    Examples
    --------
    >>> import seqkit as sk, time
    >>> def download(name):
    ...     time.sleep(0.01)
    ...     return name
    >>> found = tune(sk.smap(download, range(1000)), seconds=0.5)
    >>> found.settings["method"], found.settings["nworkers"] > 8
    ('thread', True)
    """
    length_s = optional_number(seconds, "tune: seconds", "seconds") or MEASURING_S
    given: Any = sequence
    view, subject = viewed(given, "tune"), "view"
    if is_loader(given):
        view, subject = given.with_workers(1).view, type(given).__name__
    node = view if isinstance(view, Prefetch) else prefetch(view)
    text = text_of(node._sources[0]) if subject == "view" else subject
    # `max_buffered` is for the given number of workers.
    settings = replace(node._settings, max_buffered=None)
    return Tuning(text, choose(node._sources[0], settings, length_s), subject)


@dataclass(frozen=True, repr=False)
class Tuning:
    """Which workers `tune` found best for a view. Its text is a table of what was measured.

    Attributes
    ----------
    view : str
        The view with its arguments, or the class of the loader.
    choice : Choice
        With `method`, `workers`, `why` and the figures in `measured`.
    subject : str
        "view", or the class of a loader.
    """

    view: str
    choice: Choice
    subject: str = "view"

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `prefetch` or of the loader: ``sk.prefetch(view, **found.settings)``."""
        return arguments_of(self.subject, self.choice.settings)

    @property
    def code(self) -> str:
        """A sentence with code to paste: a call of `prefetch`, or the arguments of a loader."""
        return instruction(self.subject, self.settings)

    def __str__(self) -> str:
        return html.visible("\n".join([f"tune: {self.view}", *self._table(), self.choice.why, self.code]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html.text(self)

    def _table(self) -> list[str]:
        measured = self.choice.measured
        if measured is None or not measured.cost.items:
            return []
        cost, names = measured.cost, {"inline": "no workers", "thread": "threads", "process": "processes"}
        failed = f", {cost.failed} failed: {cost.error}" if cost.failed else ""
        lines = [f"Measured here, just now, {plural(cost.items, 'item')}{failed}:"]
        for method, workers, rate in measured.compared:
            name = f"{workers or ''} {names[method] if workers != 1 else method}".strip()
            chosen = "  chosen" * (method == self.choice.method)
            lines.append(f"  {name:<14}{rounded(rate):>8} items/s{chosen}")
        return lines
