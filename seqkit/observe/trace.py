"""`trace`: what made an item: the items of each stage, down to those of the sources."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.arguments import check_callable
from ..core.errors import EndOfSequence, EvaluationError, brief, summary
from ..core.forms import form
from ..core.indices import Indices, Plan, as_list
from ..core.iteration import surviving
from ..core.source import as_view
from ..core.tracebacks import hides_frames
from ..core.units import seconds
from ..core.view import Indexable, View
from ..prefetch.node import Prefetch
from ..views.bases.random import Random
from .html import ALARM, escape, faint, frame, pre
from .summary import summarise
from .tree import branches

__all__ = ["Trace", "trace"]

_MOST_INPUTS = 6  # drawn of one item
_LONGEST = 60  # letters of a column of values


@dataclass(frozen=True)
class Trace:
    """An item of a view, and the items that made it.

    Attributes
    ----------
    view : str
        The view without the views below it, as in `explain`.
    index : int
        Index of the item in that view.
    value : str
        What the item is made of, such as ``"uint8[256, 256, 3] 0 … 255, mean 118"``, with an alarm for NaN.
        "" if it could not be computed.
    seconds : float
        Time to compute the item, without the time of its inputs.
    inputs : tuple of Trace
        The items of the views below that were read for it, in the order of reading.
    random : dict or None
        Seed, epoch and index, which determine the random numbers of the item. None if there are none.
    error : str
        The error of the item, in one line. "" if it succeeded or if one of its inputs failed.
    item : object
        The item itself; None if it could not be computed. If a later stage changed it in place, the
        changed item. `value` describes the item before.
    """

    view: str
    index: int
    value: str
    seconds: float
    inputs: tuple[Trace, ...] = ()
    random: dict[str, int] | None = None
    error: str = ""
    item: Any = field(default=None, repr=False, compare=False)

    @property
    def failed(self) -> Trace | None:
        """The item that failed: this one or one below. None if all succeeded."""
        return next((found for found in self._all() if found.error), None)

    @property
    def sources(self) -> tuple[tuple[str, int], ...]:
        """The items of sources that were read, each with the source and the index in it."""
        return tuple(
            (found.view, found.index)
            for found in self._all()
            if not found.inputs and found.view.startswith("<")
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as a dict for JSON, without the items.

        >>> import seqkit as sk
        >>> sk.trace(sk.smap(abs, [-1]), 0, clock=lambda: 0).to_dict()["inputs"][0]["value"]
        '-1'
        """
        names = ("view", "index", "value", "seconds", "random", "error")
        inputs = [inner.to_dict() for inner in self.inputs]
        return {**{name: getattr(self, name) for name in names}, "inputs": inputs}

    def _all(self) -> Iterator[Trace]:
        pending = [self]
        while pending:
            yield (found := pending.pop())
            pending.extend(reversed(found.inputs))

    def __str__(self) -> str:
        return "\n".join(branch + text.rstrip() for branch, text, _ in _drawn(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return frame(pre("\n".join(_html_line(*line) for line in _drawn(self))))


@hides_frames
def trace(sequence: Indexable[Any], i: int, *, clock: Callable[[], float] = time.perf_counter) -> Trace:
    """Return what made an item: which items of each view below it, their values and their times.

    Parameters
    ----------
    sequence : View or indexable
    i : int
        Index of the item. A negative index counts from the end.
    clock : callable
        Returns the time in seconds. The default is `time.perf_counter`.

    Returns
    -------
    Trace
        A tree. Print it or show it in a notebook. If the item fails, nothing is raised: the tree ends at the
        stage that failed, which is marked.

    Raises
    ------
    TypeError
        If `sequence` cannot be indexed, `i` is not an int, or `clock` is not callable.
    IndexError
        If there is no item `i`.

    Notes
    -----
    Computes the item once, in this thread, in a copy of the expression without `prefetch` and with empty
    caches. Batches read their items one by one. A `filter` below scans again.

    Examples
    --------
    >>> import seqkit as sk
    >>> train = sk.batch(sk.smap(lambda x: x / 10, sk.shuffle(range(100), seed=0)), 2)
    >>> sk.trace(train, 3, clock=lambda: 0)
    batch(2)[3]                     list of 2: 2.2   0 s
    ├─ smap(<lambda>)[6]            2.2   0 s
    │  └─ shuffle(seed=0)[6]        22   0 s
    │     └─ <range of 100>[22]     22   0 s
    └─ smap(<lambda>)[7]            2.1   0 s
       └─ shuffle(seed=0)[7]        21   0 s
          └─ <range of 100>[21]     21   0 s
    """
    check_callable(clock, "trace: clock")
    view = as_view(sequence, "trace")
    return of_key(view, view._wrap_checked(i), clock)


def of_key(view: View[Any], key: Any, clock: Callable[[], float] = time.perf_counter) -> Trace:
    """Return what made the item at an index, or at a key that is none, of a view.

    >>> of_key(as_view("ab", "trace"), 1).value
    "'b'"
    """
    record = _Record(clock, {id(line.view): line.text for line in branches(view)})
    probed = _probed(view, record, {})
    try:
        probed._get(key)
    except Exception:
        pass  # the trace tells it
    return record.found[0]


def of_error(error: EvaluationError) -> str:
    """Return the display of an error: its text, and the stages that led to the failing item.

    >>> "smap(abs)[3]" in of_error(EvaluationError("x", view=as_view("ab", "trace").smap(abs), index=3))
    True
    """
    found: Trace | None = None
    path = error.path or ([(error.view, error.index)] if error.view is not None else [])
    for view, index in reversed(path):
        text = next(branches(view)).text
        told = summary(error.__cause__ or error) if found is None else ""
        found = Trace(text, index, "", 0.0, (found,) if found else (), None, told)
    message = pre(f'<span style="color:{ALARM}">{escape(error)}</span>')
    return frame(message, pre("\n".join(_html_line(*line) for line in _drawn(found))) if found else "")


class _Record:
    """The items read so far by the view that is being read, and the time that reading them took."""

    def __init__(self, clock: Callable[[], float], texts: dict[int, str]) -> None:
        self.clock = clock
        self.texts = texts
        self.found: list[Trace] = []
        self.inner = 0.0
        self.is_scanning = False


def _probed(node: View[Any], record: _Record, probes: dict[int, View[Any]]) -> View[Any]:
    """Return an expression with a probe on each of its views."""
    if isinstance(node, Prefetch):
        return _probed(node._sources[0], record, probes)
    if id(node) not in probes:
        sources = tuple(_probed(source, record, probes) for source in node._sources)
        probes[id(node)] = _Probe(node._rebuild(sources), node, record)
    return probes[id(node)]


class _Probe(View[Any]):
    """A view that records each item that is read from another one by its index."""

    def __init__(self, source: View[Any], original: View[Any], record: _Record) -> None:
        super().__init__((source,), source._known)
        self._original = original
        self._record = record

    @property
    def _reads_on_demand(self) -> bool:
        return bool(self._sources[0]._reads_on_demand)

    def _get(self, i: int) -> Any:
        record = self._record
        if record.is_scanning:
            return self._sources[0]._get(i)
        above, record.found = record.found, []
        before, record.inner = record.inner, 0.0
        item, error, has_failed = None, "", True
        begun = record.clock()
        try:
            item = self._sources[0]._get(i)
        except Exception as caught:
            failed_below = any(inner.failed for inner in record.found)
            error = "" if failed_below else summary(caught.__cause__ or caught)
            raise
        else:
            has_failed = False
        finally:
            taken = record.clock() - begun - record.inner
            value = "" if has_failed else _told(item)
            text = record.texts[id(self._original)]
            inputs = tuple(record.found)
            above.append(Trace(text, i, value, taken, inputs, self._random(i), error, item))
            record.found, record.inner = above, before + record.clock() - begun
        return item

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return [self._get(i) for i in as_list(indices)]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        """Iterate without recording: a view such as `filter` scans to find its items."""
        items, record = self._sources[0]._iter(plan), self._record

        def read(i: int) -> Any:
            outer, record.is_scanning = record.is_scanning, True
            try:
                for item in items:
                    return item
            finally:
                record.is_scanning = outer
            raise EndOfSequence(f"the sequence ends before index {i}")

        return surviving(self, plan, read)

    def _random(self, i: int) -> dict[str, int] | None:
        view = self._original
        return {"seed": view._seed, "epoch": view._epoch, "index": i} if isinstance(view, Random) else None

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return _Probe(sources[0], self._original, self._record)


def _told(item: Any) -> str:
    """Return what an item is made of, the range of an array, and an alarm for NaN."""
    found = summarise(item)
    if not found.parts:
        return found.line()
    alarms = found.alarms()
    return f"{form(item)} ({', '.join(alarms)})" if alarms else form(item)


def _drawn(root: Trace) -> list[tuple[str, str, bool]]:
    """Return the branches and the text of each line, and whether its item failed."""
    lines = list(_lines(root))
    width = max(len(branch + head) for branch, head, _ in lines)
    longest = max((len(found.value) for _, _, found in lines if found and not found.error), default=0)
    drawn = []
    for branch, head, found in lines:
        text = f"{head:<{width - len(branch)}}   "
        if found and found.error:
            text += f"✗ {found.error}"
        elif found and found.value:
            value = found.value if len(found.value) <= _LONGEST else found.value[: _LONGEST - 1] + "…"
            text += f"{value:<{min(longest, _LONGEST)}}   {seconds(found.seconds):>7}"
        drawn.append((branch, text, bool(found and found.error)))
    return drawn


def _lines(root: Trace) -> Iterator[tuple[str, str, Trace | None]]:
    """Yield the branches and the head of each line, with its item. A line of three dots has none."""
    pending: list[tuple[Trace | str, str, str]] = [(root, "", "")]
    while pending:
        found, before, branch = pending.pop()
        if isinstance(found, str):
            yield before + branch, found, None
            continue
        yield before + branch, f"{found.view}[{brief(found.index)}]", found
        before += {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        inner = [(part, before, "├─ ") for part in _shortened(found.inputs)]
        pending.extend((p, b, t if n else "└─ ") for n, (p, b, t) in enumerate(reversed(inner)))


def _shortened(inputs: tuple[Trace, ...]) -> list[Trace | str]:
    """Return the inputs that are drawn: the first ones, and the one that failed."""
    if len(inputs) <= _MOST_INPUTS:
        return list(inputs)
    left_out = inputs[_MOST_INPUTS - 1 :]
    failed = [found for found in left_out if found.failed]
    shown: list[Trace | str] = list(inputs[: _MOST_INPUTS - 1])
    more = len(left_out) - len(failed)
    return [*shown, *[f"… {more:,} more"] * (more > 0), *failed]


def _html_line(branch: str, text: str, has_failed: bool) -> str:
    line = faint(branch) + escape(text.rstrip())
    return f'<span style="color:{ALARM};font-weight:600">{line}</span>' if has_failed else line
