"""`profile`: measure the time of each view of an expression, in workers too."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice, starmap
from typing import Any, NamedTuple

from ..core.arguments import check_callable, optional_number, positive_int
from ..core.errors import EvaluationError, errstate
from ..core.source import as_view
from ..core.tracebacks import hiding_frames
from ..core.view import Indexable, View
from ..prefetch.choice import WorkerBudget
from ..prefetch.choose import choose
from ..prefetch.measure import times_of_workers, times_s
from ..prefetch.node import Prefetch, prefetch
from ..prefetch.resources import usable_cpus
from ..prefetch.statistics import Statistics
from .measurement import SHORT_S, NodeFigures, Stage
from .probe import Probe, Recording
from .remedy import refuse_one_shots, refuse_streams
from .report import Profile
from .stage_times import stage_times
from .tree import outline

__all__ = ["profile"]

DEFAULT_S = 2.0
# Items that take less per stage are read again without probes, to find their rate.
PROBED_S = 2e-5


@hiding_frames()
def profile(
    sequence: Indexable[Any],
    n: int | None = None,
    *,
    seconds: float | None = None,
    step: Callable[[Any], Any] | None = None,
    try_workers: bool = True,
    clock: Callable[[], float] = time.perf_counter,
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
    step : callable, optional
        The consumer's work for an item, such as a training step. None (the default): no work.
    try_workers : bool
        Also measure how fast other workers compute the items, for the prediction, if the consumer waits for
        them. They run in processes of their own for up to half of `seconds`.
    clock : callable
        Returns the time in seconds. The default is `time.perf_counter`.

    Returns
    -------
    Profile
        Print it to see a table and the diagnosis. In a notebook it displays with bars.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, or an argument has the wrong type.
    ValueError
        If a number is out of range, or a one-shot iterator would be read.

    Notes
    -----
    Caches start empty. A failing item is counted, and reading goes on. Each process times its first items,
    and then a sample, which takes about 0.5 % of the CPU time. An item that is not timed costs about 0.3 µs
    per view. Quick items are read again without timing, to find their rate, unless `n` is given.

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
    check_callable(clock, "profile: clock")
    if step is not None:
        check_callable(step, "profile: step")
    source = _as_view(sequence)
    refuse_one_shots(sequence if hasattr(sequence, "with_workers") else source, "profile")
    with tempfile.TemporaryDirectory(prefix="seqkit-profile-") as directory:
        recording = Recording(directory, clock)
        try:
            pipeline = _ProbedPipeline.of(source, recording)
            recording.clear()  # the reads that found lengths
            read = _read(pipeline, most, limit_s, step)
        finally:
            threads = recording.take()
    found = stage_times(threads)
    if read.counted and limit_s and read.elapsed_s < PROBED_S * len(found) * read.counted:
        plainly = _read(_ProbedPipeline.of(source, None), None, limit_s / 2, step)
        read = replace(plainly, items=read.items, failed=read.failed, start_s=read.start_s)
    cpu_s, queued_s = _spent(read.before.consumer, read.after.consumer)
    profiled = Profile(
        read.items,
        tuple(_stages(source, pipeline, found)),
        read.failed,
        read.elapsed_s,
        read.counted,
        read.step_s,
        tuple(_nodes(pipeline, read)),
        usable_cpus(),
        caches=tuple(_stale_caches(source)),
        threads=threads,
        cpu_s=cpu_s,
        queued_s=queued_s,
        subject=_subject(sequence, pipeline),
    )
    if try_workers and read.elapsed_s > SHORT_S:
        return _with_speeds(profiled, source, limit_s or read.elapsed_s)
    return profiled


def _as_view(sequence: Any) -> View[Any]:
    """Return a view, or the view of a loader."""
    refuse_streams(sequence, "profile")
    view = getattr(sequence, "view", None)
    return view if isinstance(view, View) and not isinstance(sequence, View) else as_view(sequence, "profile")


def _subject(sequence: Any, pipeline: _ProbedPipeline) -> str:
    """Return the kind of the pipeline, for the words of the remedy."""
    if not isinstance(sequence, View) and hasattr(sequence, "view"):
        return type(sequence).__name__
    return "prefetch" if pipeline.nodes else "view"


# -------------------------------------------------------------------- the pipeline with probes


@dataclass
class _ProbedPipeline:
    """An expression with probes. `numbers` and `owners` say which stage and node belongs to a view."""

    recording: Recording | None
    probes: dict[int, View[Any]]
    numbers: dict[int, int]
    owners: dict[int, int]
    nodes: list[tuple[Prefetch[Any], Prefetch[Any]]]  # as given, and with probes below
    view: View[Any]

    @classmethod
    def of(cls, source: View[Any], recording: Recording | None) -> _ProbedPipeline:
        pipeline = cls(recording, {}, {}, {}, [], source)
        pipeline.view = pipeline.probed(source, -1)
        return pipeline

    def probed(self, view: View[Any], owner: int, is_bare: bool = False) -> View[Any]:
        """Return a view with a probe on it, unless it is bare, and on each view below."""
        if id(view) in self.probes:
            return self.probes[id(view)]
        number = self.numbers[id(view)] = len(self.numbers)
        self.owners[id(view)] = owner
        below = owner
        if isinstance(view, Prefetch):
            below = len(self.nodes)
            self.nodes.append((view, view))
        # The nodes of some loaders are read by the view above them, which knows them by their class.
        reads_nodes = not isinstance(view, Prefetch) and hasattr(view, "reading")
        sources = tuple(self.probed(source, below, reads_nodes) for source in view._sources)
        rebuilt: View[Any]
        if isinstance(view, Prefetch):
            view._engine.reads_here()  # decides what ``method="auto"`` is
            rebuilt = Prefetch(sources[0], view._engine.settings())
            rebuilt._epoch = view._epoch
            self.nodes[below] = view, rebuilt
        else:
            rebuilt = view._rebuild(sources)
        if not rebuilt._streams:
            _ = rebuilt._n  # before reading, because finding it may read items
        probe = rebuilt
        if self.recording is not None and not is_bare:
            probe = Probe(rebuilt, number, self.recording)
        self.probes[id(view)] = probe
        return probe


# -------------------------------------------------------------------- reading


class _Moment(NamedTuple):
    """The figures so far: of each node, and the seconds that its workers computed and waited for a CPU."""

    statistics: tuple[Statistics, ...]
    workers: tuple[tuple[float, float], ...]
    consumer: tuple[float, float]

    @classmethod
    def of(cls, nodes: list[Prefetch[Any]]) -> _Moment:
        return cls(
            tuple(node.statistics() for node in nodes),
            tuple(map(times_of_workers, nodes)),
            times_s("thread-self"),
        )


@dataclass
class _Read:
    """The figures of the consumer. The items that count are those between two moments."""

    before: _Moment
    after: _Moment
    items: int = 0
    failed: int = 0
    elapsed_s: float = 0.0
    counted: int = 0
    step_s: float = 0.0
    start_s: float = 0.0


def _read(
    pipeline: _ProbedPipeline, most: int | None, limit_s: float | None, step: Callable[[Any], Any] | None
) -> _Read:
    """Read items, and close the nodes. Count those after the first item of each worker."""
    nodes, now = [node for _, node in pipeline.nodes], time.perf_counter
    warm = max((node._engine.settings().workers for node in nodes), default=0)
    moment = _Moment.of(nodes)
    read, begun, is_cold = _Read(moment, moment), now(), warm > 0
    with ExitStack() as stack:
        stack.enter_context(errstate("wrap"))  # tells the errors of items from those of the engine
        for node in nodes:
            stack.callback(node.close)
        since, done, step_s = begun, 0, 0.0
        items = _items(pipeline.view, None if nodes else most)
        while most is None or read.items + read.failed < most:
            try:
                item = next(items)
            except StopIteration:
                break
            except (EvaluationError, RecursionError):
                read.failed += 1
            else:
                read.items += 1
                if step is not None:
                    before = now()
                    step(item)
                    step_s += now() - before
                del item
            done += 1
            is_late = limit_s is not None and now() - since > limit_s
            if is_cold and (done == warm or is_late):  # a long start leaves time for items
                is_cold, warm = False, done
                read.start_s, since, step_s = now() - begun, now(), 0.0
                read.before = _Moment.of(nodes)
            elif is_late:
                break
        read.elapsed_s, read.step_s = now() - since, step_s
        read.counted = done if is_cold else done - warm
        read.after = _Moment.of(nodes)
        del items
    return read


def _items(view: View[Any], most: int | None) -> Iterator[Any]:
    """Iterate a view. Without nodes, no more items are asked for than `most`."""
    plan = view._plan()
    if most is not None and isinstance(plan, range):
        return view._iter(plan[:most])
    items = view._iter(plan)
    return items if most is None else islice(items, most)


# -------------------------------------------------------------------- figures


def _stages(
    source: View[Any], pipeline: _ProbedPipeline, found: dict[int, dict[str, Any]]
) -> Iterator[Stage]:
    seen: set[int] = set()
    for line, view in outline(source):
        if id(view) not in seen:
            seen.add(id(view))
            name = line.lstrip(" │├└─")
            figures = found.get(pipeline.numbers[id(view)], {"items": 0, "seconds": 0.0})
            waits = isinstance(view, Prefetch) and view._engine.has_workers()
            yield Stage(name, line=line, node=pipeline.owners[id(view)], waits=waits, **figures)


def _spent(before: tuple[float, float], after: tuple[float, float]) -> tuple[float, float]:
    """Return the seconds of computing, and of waiting for a CPU, between two moments."""
    return max(0.0, after[0] - before[0]), max(0.0, after[1] - before[1])  # a worker may have been replaced


def _nodes(pipeline: _ProbedPipeline, read: _Read) -> Iterator[NodeFigures]:
    statistics = zip(read.before.statistics, read.after.statistics, strict=True)
    spent = starmap(_spent, zip(read.before.workers, read.after.workers, strict=True))
    for (given, node), (before, after), (cpu_s, queued_s) in zip(
        pipeline.nodes, statistics, spent, strict=True
    ):
        settings = node._engine.settings()
        counts = {
            name: getattr(after, name) - getattr(before, name)
            for name in ("items", "jobs", "copies", "misses", "restarts")
        }
        latest = {
            name: getattr(after, name) for name in ("slots", "slot_bytes", "leased", "chunk", "pickled")
        }
        yield NodeFigures(
            given._name,
            settings.method if isinstance(settings.method, str) else type(settings.method).__name__,
            settings.workers,
            settings.chunk_size,
            settings.max_buffered,
            settings.shm_size,
            settings.in_order,
            start_s=read.start_s,
            waited_s=(after.waited_ns - before.waited_ns) / 1e9,
            worked_s=(after.worked_ns - before.worked_ns) / 1e9,
            cpu_s=cpu_s,
            queued_s=queued_s,
            **counts,
            **latest,
        )


def _stale_caches(source: View[Any]) -> Iterator[str]:
    """Yield the caches that have other items in each epoch."""
    for line, view in outline(source):
        if view._name == "add_cache" and view._varies:
            yield line.lstrip(" │├└─")


def _with_speeds(found: Profile, source: View[Any], seconds: float) -> Profile:
    """Measure how fast other workers compute the items, if the consumer waits for them."""
    below = source._sources[0] if isinstance(source, Prefetch) else source
    is_nested = any(isinstance(view, Prefetch) for _, view in outline(below))
    if found.waited_share < 0.1 or is_nested:
        return found
    settings = source._engine.settings() if isinstance(source, Prefetch) else prefetch(below)._settings
    if not isinstance(settings.method, str):
        return found
    # More workers need more results ahead than the given ones. A loader scales its `prefetch_factor` itself.
    settings = replace(settings, max_buffered=None)
    choice = choose(below, settings, seconds / 2, WorkerBudget.of_this_process())
    measured = choice.measured
    if measured is None or measured.cost.failed == measured.cost.items:
        return found
    return replace(found, choice=choice)
