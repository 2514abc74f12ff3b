"""`tune`: measure a view, and say which workers compute its items fastest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..core.arguments import optional_number
from ..core.source import as_view
from ..core.tracebacks import hiding_frames
from ..core.units import plural, rounded, size
from ..core.view import Indexable, View
from ..prefetch.node import Prefetch, prefetch
from ..prefetch.settings import Settings
from . import html
from .choice import Choice, Speed
from .choose import MEASURING_S, choose
from .remedy import in_words_of, is_loader, told, viewed
from .tree import text_of

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
    view, settings, subject = _to_measure(sequence)
    text = text_of(view) if subject == "view" else subject
    return Tuning(text, choose(view, settings, length_s), subject)


def _to_measure(sequence: Any) -> tuple[View[Any], Settings, str]:
    """Return the view that workers would compute, how they would start, and what was given."""
    subject = "view"
    if is_loader(sequence):
        subject = type(sequence).__name__
        viewed(sequence, "tune")  # refuses a loader whose view cannot be read
        sequence = sequence.with_workers(1).view
    view = as_view(sequence, "tune")
    node = view if isinstance(view, Prefetch) else prefetch(view)
    # `max_buffered` is for the given number of workers.
    return node._sources[0], replace(node._settings, max_buffered=None), subject


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
        return in_words_of(self.subject, self.choice.settings)

    @property
    def code(self) -> str:
        """A sentence with code to paste: a call of `prefetch`, or the arguments of a loader."""
        return told(self.subject, self.settings)

    def __str__(self) -> str:
        return html.visible("\n".join([f"tune: {self.view}", *self._table(), self.choice.why, self.code]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        words = f"{html.escape(self.choice.why)} {html.with_code(self.code)}"
        table = html.pre(html.escape("\n".join([f"tune: {self.view}", *self._table()])))
        return html.frame(table, f"<div>{words}</div>")

    def _table(self) -> list[str]:
        measured = self.choice.measured
        if measured is None or not measured.cost.items:
            return []
        cost = measured.cost
        rows = [
            (_workers(speed), f"{rounded(speed.items_per_s)} items/s", speed) for speed in measured.compared
        ]
        name_width, rate_width = (max(len(row[column]) for row in rows) for column in (0, 1))
        failed = f", {cost.failed} failed: {cost.error}" if cost.failed else ""
        return [
            f"Measured here, just now, {plural(cost.items, 'item')} of about {size(cost.nbytes)}{failed}:",
            *(
                f"  {name:<{name_width}}  {rate:>{rate_width}}"
                + "  chosen" * (speed.method == self.choice.method)
                for name, rate, speed in rows
            ),
        ]


def _workers(speed: Speed) -> str:
    names = {"inline": "workers", "thread": "threads", "process": "processes"}
    name = names[speed.method] if speed.workers != 1 else speed.method
    return f"{speed.workers or 'no'} {name}"
