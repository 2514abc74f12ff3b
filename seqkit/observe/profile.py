"""`profile`: measure the time of each view of an expression, in workers too."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.arguments import optional_number, positive_int
from ..core.errors import EvaluationError, errstate
from ..core.tracebacks import hiding_frames
from ..core.units import count, plural, size
from ..core.view import Indexable, View
from ..engine.prefetch import Prefetch, prefetch
from ..engine.statistics import Statistics
from . import html
from .choose import MEASURING_S, choose
from .diagnosis import Diagnosis, Measurement, NodeFigures, Stage, diagnose
from .explain import outline, text_of
from .probe import Event, Probe, Recording
from .subject import is_loader, refuse_one_shots, viewed
from .units import percent, rounded, seconds

__all__ = ["Profile", "profile"]


HEAD = ("stage", "share", "items", "median", "p95", "first", "size")


@dataclass(frozen=True, repr=False)
class Profile(Measurement):
    """What `profile` found. Its text is a table and the `diagnosis`."""

    @property
    def diagnosis(self) -> Diagnosis:
        """What limits the pipeline, and a remedy. Print it to see a few sentences."""
        return diagnose(self)

    def __str__(self) -> str:
        rows = [HEAD, *((stage.line, *self._cells(stage)) for stage in self.stages)]
        first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
        first = min(first, max(html.width() - sum(widths) - 2 * len(widths), 10))
        table = [
            html.cut(f"{stage:<{first}}", first)
            + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
            for stage, *cells in rows
        ]
        return html.visible("\n".join([*table, "", *self._summary(), str(self.diagnosis)]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html.text(self)

    def _cells(self, stage: Stage) -> list[str]:
        if not stage.items and not stage.failed:
            return ["-"] * 6
        share = "-" if stage.waits else percent(stage.seconds / max(self.seconds, 1e-9))
        items = count(stage.items) + (f" ({stage.failed} failed)" if stage.failed else "")
        times = [seconds(value) for value in (stage.median_s, stage.p95_s, stage.first_s)]
        return [share, items, *times, size(stage.nbytes) if stage.nbytes else "-"]

    def _summary(self) -> list[str]:
        """Return lines about the consumer and the nodes."""
        failed = f", {plural(self.failed, 'failure')}" if self.failed else ""
        lines = [f"{plural(self.items, 'item')}{failed}, {rounded(self.rate, 4)} per second."]
        for number, node in enumerate(self.nodes):
            now = node.figures
            elapsed_ns = max(1e9 * self.elapsed_s, 1)
            waited, busy = now.waited_ns / elapsed_ns, now.worked_ns / elapsed_ns / max(node.workers, 1)
            words = [f"waited {percent(min(waited, 1.0))}", f"workers busy {percent(min(busy, 1.0))}"]
            words.append(f"{plural(now.chunk, 'item')} per job")
            if not number:
                words += [f"started in {seconds(node.start_s)}", f"transport {seconds(self.transport_s)}"]
            if now.restarts:
                words.append(plural(now.restarts, "restart"))
            lines.append(f"{node.view}, {node.workers} × {node.method}: {', '.join(words)}.")
            if now.late_ns > LATE_NS:
                blocks = next((stage.view for stage in self.computed_by(number)), node.view)
                lines.append(
                    f"`{blocks}` blocked the loop for {seconds(now.late_ns / 1e9)} between two awaits."
                )
        return lines


# A loop of coroutines that was later than this is worth a line.
LATE_NS = 50_000_000
DEFAULT_S = 2.0
# Other workers are not tried if everything takes less than this.
SHORT_S = 0.2


@hiding_frames()
def profile(
    sequence: Indexable[Any],
    n: int | None = None,
    *,
    seconds: float | None = None,
    try_workers: bool = True,
) -> Profile:
    """Read a view or a loader, and return the time of each view in it, with the bottleneck and its remedy.

    Parameters
    ----------
    sequence : View, indexable or DataLoader
        It is rebuilt with its `prefetch` nodes, which get workers of their own.
    n : int, optional
        Largest number of items to read, 1 or more. None (the default): as many as `seconds` allow.
    seconds : float, optional
        How long to read, above 0. None (the default): 2 seconds.
    try_workers : bool
        Also ask `tune` for workers that suit better, if nothing else limits the rate. They run in processes
        of their own for about a second.

    Returns
    -------
    Profile
        Print it to see a table and the diagnosis.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, or an argument has the wrong type.
    ValueError
        If a number is out of range, or a one-shot iterator would be read.

    Notes
    -----
    Caches start empty. A failing item is counted, and reading goes on. Each thread times its first items,
    and then a sample, which takes a few per cent of the CPU time. An item that is not timed costs about 0.5
    µs per view, so quick items have a lower rate than without a profile.

    Examples
    --------
    >>> import seqkit as sk
    >>> def slow(x):
    ...     return sum(range(20_000))
    >>> found = profile(sk.batch(sk.smap(slow, sk.smap(abs, range(100))), 10))
    >>> found.items, found.costliest.view, found.costliest.items
    (10, 'smap(slow)', 100)
    """
    most = None if n is None else positive_int(n, "profile: n")
    limit_s = optional_number(seconds, "profile: seconds", "seconds") or (DEFAULT_S if n is None else None)
    refuse_one_shots(sequence, "profile")
    source = viewed(sequence, "profile")
    with tempfile.TemporaryDirectory(prefix="seqkit-profile-") as directory:
        recording = Recording(directory)
        try:
            pipeline = _ProbedPipeline(source, recording)
            recording.take()  # the reads that found lengths
            read = _read(pipeline, most, limit_s)
            events = recording.take()
        finally:
            recording.forget()
    found = Profile(
        read.items,
        tuple(_stages(source, pipeline, events)),
        read.failed,
        read.elapsed_s,
        read.counted,
        tuple(_nodes(pipeline, read)),
        subject=type(sequence).__name__ if is_loader(sequence) else "prefetch" if pipeline.nodes else "view",
    )
    limiting = pipeline.nodes[found.limiting][0] if pipeline.nodes else prefetch(source)
    below, settings = limiting._sources[0], limiting.engine.settings
    found = replace(found, reads_stream=below._readers == 1)
    is_open = found.diagnosis.cause == "slow stage" and read.elapsed_s > SHORT_S
    if not (try_workers and is_open and isinstance(settings.method, str)):
        return found
    return replace(found, choice=choose(below, settings, min(MEASURING_S, limit_s or read.elapsed_s)))


# -------------------------------------------------------------------- the pipeline with probes


class _ProbedPipeline:
    """An expression with a probe on each view.

    Attributes
    ----------
    numbers, owners : dict of int by `id`
        The stage that a view is, and the node whose workers compute it.
    nodes : list of pairs of nodes
        As given, and with probes below.
    view : View
    """

    def __init__(self, source: View[Any], recording: Recording) -> None:
        self._recording = recording
        self._probes: dict[int, View[Any]] = {}
        self.numbers: dict[int, int] = {}
        self.owners: dict[int, int] = {}
        self.nodes: list[tuple[Prefetch[Any], Prefetch[Any]]] = []
        self.view = self._probed(source, -1)

    def _probed(self, view: View[Any], owner: int) -> View[Any]:
        if id(view) in self._probes:
            return self._probes[id(view)]
        number = self.numbers[id(view)] = len(self.numbers)
        self.owners[id(view)] = below = owner
        if isinstance(view, Prefetch):
            below = len(self.nodes)
            self.nodes.append((view, view))
        rebuilt: Any
        sources = tuple(self._probed(source, below) for source in view._sources)
        if isinstance(view, Prefetch):
            view.engine.settle()  # decides what ``method="auto"`` is
            rebuilt = Prefetch(sources[0], view.engine.settings)
            rebuilt._epoch = view._epoch
            self.nodes[below] = view, rebuilt
        else:
            rebuilt = view._rebuild(sources)
        if not rebuilt._streams:
            _ = rebuilt._n  # before reading, because finding it may read items
        self._probes[id(view)] = Probe(rebuilt, number, self._recording)
        return self._probes[id(view)]


# -------------------------------------------------------------------- reading


@dataclass
class _Read:
    """The figures of the consumer. The items that count are those between two moments."""

    before: list[Statistics]
    after: list[Statistics]
    items: int = 0
    failed: int = 0
    elapsed_s: float = 0.0
    counted: int = 0
    start_s: float = 0.0


def _read(pipeline: _ProbedPipeline, most: int | None, limit_s: float | None) -> _Read:
    """Read items, and close the nodes. Count those after the first item of each worker."""
    nodes, now = [node for _, node in pipeline.nodes], time.perf_counter
    warm = max((node.engine.settings.workers for node in nodes), default=0)
    figures = [node.statistics() for node in nodes]
    read, begun, is_cold = _Read(figures, figures), now(), warm > 0
    with ExitStack() as stack:
        stack.enter_context(errstate("wrap"))  # tells the errors of items from those of the engine
        for node in nodes:
            stack.callback(node.close)
        since, done, items = begun, 0, pipeline.view._iter(pipeline.view._plan())
        while most is None or done < most:
            try:
                next(items)
            except StopIteration:
                break
            except (EvaluationError, RecursionError):
                read.failed += 1
            else:
                read.items += 1
            done += 1
            is_late = limit_s is not None and now() - since > limit_s
            if is_cold and (done == warm or is_late):  # a long start leaves time for items
                is_cold, warm = False, done
                read.start_s, since = now() - begun, now()
                read.before = [node.statistics() for node in nodes]
            elif is_late:
                break
        read.elapsed_s, read.counted = now() - since, done if is_cold else done - warm
        read.after = [node.statistics() for node in nodes]
        del items
    return read


# -------------------------------------------------------------------- figures


def _stages(source: View[Any], pipeline: _ProbedPipeline, events: Iterable[Event]) -> Iterator[Stage]:
    of_stages: dict[int, list[Event]] = {}
    for event in events:
        of_stages.setdefault(event.stage, []).append(event)
    seen: set[int] = set()
    for line, view in outline(source):
        if id(view) not in seen:
            seen.add(id(view))
            found = of_stages.get(pipeline.numbers[id(view)])
            figures = _figures(found) if found else {"items": 0, "seconds": 0.0}
            waits, node = isinstance(view, Prefetch) and view.has_workers(), pipeline.owners[id(view)]
            yield Stage(text_of(view), line=line, node=node, waits=waits, **figures)


def _figures(events: list[Event]) -> dict[str, Any]:
    """Add up the events of a stage."""
    first = min(events, key=lambda event: event.begun_s)
    each = np.array([float(event.own_s) / max(event.items, 1) for event in events])
    sizes = [event.nbytes / max(event.items, 1) for event in events if event.nbytes >= 0]
    return {
        "items": sum(event.items * event.weight for event in events if not event.failed),
        "failed": sum(event.weight for event in events if event.failed),
        "seconds": sum(event.own_s * event.weight for event in events),
        "first_s": first.own_s / max(first.items, 1),
        "median_s": float(np.median(each)),
        "p95_s": float(np.quantile(each, 0.95)),
        "nbytes": int(np.mean(sizes)) if sizes else 0,
    }


def _nodes(pipeline: _ProbedPipeline, read: _Read) -> Iterator[NodeFigures]:
    for (given, node), before, after in zip(pipeline.nodes, read.before, read.after, strict=True):
        settings = node.engine.settings
        sums = ("items", "jobs", "copies", "misses", "restarts", "waited_ns", "worked_ns")
        figures = replace(after, **{name: getattr(after, name) - getattr(before, name) for name in sums})
        method = settings.method if isinstance(settings.method, str) else type(settings.method).__name__
        yield NodeFigures(given._name, method, settings.workers, settings.shm_size, read.start_s, figures)
