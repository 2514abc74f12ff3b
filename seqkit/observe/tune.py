"""`tune`: measure a view, and say which workers compute its items fastest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Any

from ..core.arguments import optional_int, optional_number
from ..core.source import as_view
from ..core.tracebacks import hiding_frames
from ..core.units import plural, rounded, size
from ..core.view import Indexable, View
from ..prefetch.choice import Choice, WorkerBudget
from ..prefetch.choose import choose
from ..prefetch.figures import Speed
from ..prefetch.node import Prefetch, prefetch
from ..prefetch.settings import Settings
from .remedy import in_words_of, refuse_streams, spelled, told

__all__ = ["Tuning", "tune"]

DEFAULT_S = 1.0


@hiding_frames()
def tune(
    sequence: Indexable[Any] | Any,
    seconds: float | None = None,
    *,
    cpus: int | None = None,
    memory: int | None = None,
) -> Tuning:
    """Measure items of a view or a loader, and return the workers that compute them fastest.

    Parameters
    ----------
    sequence : View, indexable or DataLoader
        What `prefetch` will wrap. If it is a `prefetch` view, its source is measured. The answer for a loader
        is about its own arguments.
    seconds : float, optional
        How long to measure, above 0, without the start of processes. None (the default): 1 second. An item
        should take less than half of it.
    cpus : int, optional
        How many CPUs workers may keep busy (1 or more). None (the default): those that this process may use,
        also by its control group.
    memory : int, optional
        How many bytes items may take that are computed ahead (1 or more). None (the default): a quarter of
        the memory of the machine, or of the control group.

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
    A view that other processes must not read is not measured: one-shot iterators, open file handles, and
    generators that a function holds.

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
    length_s = optional_number(seconds, "tune: seconds", "seconds") or DEFAULT_S
    view, settings, subject = _to_measure(sequence)
    usual = WorkerBudget.of_this_process()
    cpus = optional_int(cpus, "tune: cpus") or usual.cpus
    budget = WorkerBudget(cpus, optional_int(memory, "tune: memory") or usual.nbytes)
    choice = choose(view, settings, length_s, budget)
    return Tuning(repr(view if subject == "view" else sequence), choice, subject)


def _to_measure(sequence: Any) -> tuple[View[Any], Settings, str]:
    """Return the view that workers would compute, how they would start, and what was given."""
    refuse_streams(sequence, "tune")
    subject = "view"
    if hasattr(sequence, "with_workers"):
        subject = type(sequence).__name__
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
        The view, as its `repr`.
    choice : Choice
        With `method`, `workers`, `max_buffered`, `why` and the figures in `measured`.
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
        """The code to paste: a call of `prefetch`, or the arguments of a loader."""
        return self.choice.code if self.subject == "view" else spelled(self.settings)

    def __str__(self) -> str:
        code = self.code if self.subject == "view" else told(self.subject, self.settings)
        return "\n".join([f"tune: {self.view}", *self._table(), "", self.choice.why, code])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _table(self) -> list[str]:
        measured = self.choice.measured
        if measured is None or not measured.cost.items:
            return []
        cost = measured.cost
        rows = [
            (_workers(speed), f"{rounded(speed.items_per_s)} items/s", self._note(speed))
            for speed in measured.compared
        ]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        table = [f"{name:<{widths[0]}}  {rate:>{widths[1]}}  {note}".rstrip() for name, rate, note in rows]
        failed = f", {cost.failed} failed: {cost.error}" if cost.failed else ""
        return [*table, f"({plural(cost.items, 'item')} of about {size(cost.nbytes)}{failed})"]

    def _note(self, speed: Speed) -> str:
        return "chosen" if speed.method == self.choice.method else ""


def _workers(speed: Speed) -> str:
    names = {"inline": "workers", "thread": "threads", "process": "processes"}
    name = names[speed.method] if speed.workers != 1 else speed.method
    return f"{speed.workers or 'no'} {name}"
