"""`profile`: measure the time that each view of an expression takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..core.arguments import check_callable, positive_int
from ..core.errors import EndOfSequence, EvaluationError
from ..core.indices import Indices, Plan
from ..core.iteration import surviving
from ..core.source import as_view
from ..core.tracebacks import hiding_frames
from ..core.view import Indexable, View
from ..prefetch.node import Prefetch
from .tree import outline

__all__ = ["Profile", "Stage", "profile"]


def profile(
    sequence: Indexable[Any], n: int = 100, *, clock: Callable[[], float] = time.perf_counter
) -> Profile:
    """Return the time that each view of an expression takes for the first items, without the views below it.

    Parameters
    ----------
    sequence : View or indexable
    n : int
        Largest number of items to read, 1 or more.
    clock : callable
        Returns the time in seconds. The default is `time.perf_counter`.

    Returns
    -------
    Profile
        Print it to see a table. ``costliest`` is the stage that took longest.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, `n` is not an int, or `clock` is not callable.
    ValueError
        If `n` is below 1.
    EvaluationError
        If an item cannot be computed.

    Notes
    -----
    Reads up to n items in this thread, in a copy of the expression without `prefetch` and with empty caches.
    Measuring adds about 1 µs per item and view.

    Examples
    --------
    >>> import seqkit as sk
    >>> def slow(x):
    ...     return sum(range(20_000))
    >>> found = profile(sk.batch(sk.smap(slow, sk.smap(abs, range(100))), 10))
    >>> found.items, found.costliest.view, found.costliest.items
    (10, 'smap(slow)', 100)
    """
    n = positive_int(n, "profile: n")
    check_callable(clock, "profile: clock")
    with hiding_frames():
        return _profile(as_view(sequence, "profile"), n, _Meter(clock))


def _profile(source: View[Any], n: int, meter: _Meter) -> Profile:
    probes: dict[int, _Probe] = {}
    probed = _probed(source, meter, probes)
    for probe in probes.values():
        probe.tally.items, probe.tally.seconds = 0, 0.0  # without the reads that found lengths
    most = int(min(n, source._n))
    count = 0
    try:
        for _ in islice(probed._iter(range(most)), most):
            count += 1
    except EvaluationError:
        source[count]  # fails again, in the expression as it was given
        raise
    return Profile(count, tuple(_stages(source, probes)))


@dataclass(frozen=True)
class Stage:
    """The time that one view of an expression took.

    Attributes
    ----------
    view : str
        The view without the views below it, as in `explain`.
    items : int
        Number of its items that were read.
    seconds : float
        Time for these items, without the views below it.
    line : str
        Its line in the drawing of the expression.
    """

    view: str
    items: int
    seconds: float
    line: str


@dataclass(frozen=True)
class Profile:
    """The times of the views of an expression. Its text is a table.

    Attributes
    ----------
    items : int
        Number of items of the whole expression that were read.
    stages : tuple of Stage
        The outermost view first. A view that is used twice occurs once.
    """

    items: int
    stages: tuple[Stage, ...]

    @property
    def seconds(self) -> float:
        """The time of all stages together."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def costliest(self) -> Stage:
        """The stage that took longest."""
        return max(self.stages, key=lambda stage: stage.seconds)

    def __str__(self) -> str:
        total = self.seconds or 1.0
        width = max(len(stage.line) for stage in self.stages)
        rows = [f"{'own time':<{width}}   share     items   per item"]
        for stage in self.stages:
            each = _short(stage.seconds / stage.items) if stage.items else "-"
            share = f"{stage.seconds / total:.1%}"
            rows.append(f"{stage.line:<{width}}  {share:>6}  {stage.items:>8}  {each:>9}")
        return "\n".join(rows)


def _short(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _stages(source: View[Any], probes: dict[int, _Probe]) -> Iterator[Stage]:
    seen: set[int] = set()
    for line, node in outline(source):
        if id(node) not in seen:
            seen.add(id(node))
            tally = probes[id(node)].tally if id(node) in probes else _Tally()
            yield Stage(line.lstrip("│├└─ "), tally.items, tally.seconds, line)


def _probed(node: View[Any], meter: _Meter, probes: dict[int, _Probe]) -> View[Any]:
    """Return an expression with a probe on each of its views."""
    if isinstance(node, Prefetch):
        return _probed(node._sources[0], meter, probes)
    if id(node) not in probes:
        sources = tuple(_probed(source, meter, probes) for source in node._sources)
        probes[id(node)] = _Probe(node._rebuild(sources), meter, _Tally())
    return probes[id(node)]


class _Meter:
    """The time spent in the probes below the one that is being read."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.inner = 0.0


@dataclass
class _Tally:
    """The items read through a probe, and its own time. The probes of all epochs of a view share it."""

    items: int = 0
    seconds: float = 0.0


class _Probe(View[Any]):
    """A view that measures the time of another, without the time of the probes below."""

    def __init__(self, source: View[Any], meter: _Meter, tally: _Tally) -> None:
        super().__init__((source,), source._n)
        self._meter = meter
        self.tally = tally

    def _timed(self, count: int, read: Callable[..., Any], *args: Any) -> Any:
        meter = self._meter
        before, meter.inner = meter.inner, 0.0
        begun = meter.clock()
        try:
            found = read(*args)
            self.tally.items += count
            return found
        finally:
            taken = meter.clock() - begun
            self.tally.seconds += taken - meter.inner
            meter.inner = before + taken

    def _get(self, i: int) -> Any:
        return self._timed(1, self._sources[0]._get, i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return self._timed(len(indices), self._sources[0]._getmany, indices)  # type: ignore[no-any-return]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        items = self._sources[0]._iter(plan)

        def read(i: int) -> Any:
            item = self._timed(1, next, items, _END)
            if item is _END:
                self.tally.items -= 1
                raise EndOfSequence(f"the sequence ends before index {i}")
            return item

        return surviving(self, plan, read)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return _Probe(sources[0], self._meter, self.tally)


_END = object()
