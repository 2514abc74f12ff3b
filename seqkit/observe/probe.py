"""Views that time other views, in any thread or process, and the records of these times.

Guarantees
----------
- A thread of another process writes to a file of its own. A killed worker loses only unfinished items.
- A thread of this process writes no file, because it could lose the interpreter lock by writing.
- Quick items are timed in a sample, so that timing costs a few percent of CPU time. An event may stand for
  several items.
"""

from __future__ import annotations

import mmap
import os
import pickle
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from time import thread_time
from typing import Any, NamedTuple

from ..core.errors import EndOfSequence
from ..core.indices import Indices, Plan
from ..core.iteration import surviving
from ..core.view import View
from ..core.worker import get_worker_info
from ..prefetch.results import size_of

__all__ = ["Event", "Probe", "Recording", "Sums", "Thread", "forget"]

# Timing may cost this share of the CPU time of the items.
SHARE = 0.005
# The first items of a process are all timed, and more if this takes no longer, in seconds.
SURE, MORE, MORE_S = 64, 256, 0.005
# Later, at least one of so many is timed.
SPARSEST = 100
# The bytes of a counter, at the begin of each file.
COUNTER = 8
# So many values of each view are described.
DESCRIBED = 8


class Event(NamedTuple):
    """One read of a view, at an index or -1. `own_s` and `cpu_s` leave out the views below."""

    stage: int
    at: int
    begun_s: float
    taken_s: float
    own_s: float
    cpu_s: float
    items: int
    weight: int
    failed: bool
    nbytes: int
    kind: str


class Sums(NamedTuple):
    """How many items of a stage were read, and the seconds that they took."""

    items: int = 0
    seconds: float = 0.0

    def __add__(self, other: Any) -> Sums:
        return Sums(self.items + other.items, self.seconds + other.seconds)

    def __sub__(self, other: Sums) -> Sums:
        return Sums(self.items - other.items, self.seconds - other.seconds)


class Thread(NamedTuple):
    """A thread that has read views. `worker` is its number, or -1 for the consumer."""

    pid: int
    ident: int
    worker: int


@dataclass(frozen=True)
class Recording:
    """The records of the threads of this process, and a directory with a file for each thread of another one.

    It is pickled with the probes.
    """

    directory: str
    clock: Callable[[], float]
    pid: int = field(default_factory=os.getpid)
    keeps_events: bool = True

    def of_thread(self) -> _Recorder:
        """Return the recorder of this thread."""
        recorder = _local.recorder
        if recorder is None or recorder.recording is not self:
            recorder = _local.recorder = _Recorder(self)
        return recorder

    def clear(self) -> None:
        """Forget the records of this thread."""
        self.of_thread().clear()

    def sums(self) -> dict[int, Sums]:
        """Return the sums of each stage over all threads, if no events are kept."""
        of_threads = [dict(recorder.sums) for recorder in _recorders.get(self.directory, [])]
        for entry in os.scandir(self.directory):
            with open(entry.path, "rb") as file:
                try:
                    file.seek(COUNTER)
                    pickle.load(file)
                    of_threads.append(pickle.load(file))
                except (EOFError, pickle.UnpicklingError):  # the worker writes at this moment
                    pass
        found: dict[int, Sums] = {}
        for of_thread in of_threads:
            for stage, sums in of_thread.items():
                found[stage] = found.get(stage, Sums()) + Sums(*sums)
        return found

    def take(self) -> tuple[tuple[Thread, list[Event]], ...]:
        """Return the threads that have recorded, the consumer first, and their events. Forget them here."""
        recorders = _recorders.pop(self.directory, [])
        found = [(recorder.thread, _joined(recorder.items, recorder.skipped[0])) for recorder in recorders]
        for entry in os.scandir(self.directory):
            with open(entry.path, "rb") as file:
                skipped, thread = int.from_bytes(file.read(COUNTER), sys.byteorder), pickle.load(file)
                items: list[list[Event]] = []
                try:
                    while True:
                        items.append(list(map(Event._make, pickle.load(file))))
                except (EOFError, pickle.UnpicklingError):  # the end, or a worker was killed
                    pass
            found.append((thread, _joined(items, skipped)))
        found = [(thread, events) for thread, events in found if events]
        return tuple(sorted(found, key=lambda pair: (pair[0].worker, pair[1][0].begun_s)))


@dataclass
class _Recorder:
    """The state of one thread.

    Attributes
    ----------
    depth : int
        How many probes are being read, one inside the other.
    is_on : bool
        Whether the item that is being read is timed.
    below_s, below_cpu_s : float
        Time of the probes below the one that is being read.
    cost_s, spent_s : float
        Time that timing took so far, of the item and of all.
    skipped : list of int, or memoryview
        How many items were not timed since the last one that was. Of other processes, in the file.
    """

    recording: Recording
    pid: int = field(default_factory=os.getpid)
    depth: int = 0
    is_on: bool = True
    weight: int = 1
    below_s: float = 0.0
    below_cpu_s: float = 0.0
    cost_s: float = 0.0
    error: int = 0
    timed: int = 0
    spent_s: float = 0.0
    to_skip: int = 0
    skipped: Any = field(default_factory=lambda: [0])
    events: list[Event] = field(default_factory=list)
    items: list[list[Event]] = field(default_factory=list)
    described: dict[int, int] = field(default_factory=dict)
    sums: dict[int, Sums] = field(default_factory=dict)

    def __post_init__(self) -> None:
        info, self._file = get_worker_info(), None
        thread = self.thread = Thread(self.pid, threading.get_ident(), -1 if info is None else info.id)
        self._random = random.Random(thread.worker)  # not the global generator, which is the user's
        if self.pid == self.recording.pid:
            _recorders.setdefault(self.recording.directory, []).append(self)
            return
        path = os.path.join(self.recording.directory, f"{thread.pid}-{thread.ident}-{id(self)}")
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115 - closed with this object
        self._file.write(bytes(COUNTER) + pickle.dumps(thread))
        self.skipped = memoryview(mmap.mmap(self._file.fileno(), COUNTER)).cast("q")
        self._begin = self._file.tell()

    def clear(self) -> None:
        self.items.clear()
        self.described.clear()
        self.sums.clear()
        self.timed = self.to_skip = self.skipped[0] = 0
        self.spent_s = 0.0

    def begin(self) -> None:
        """Decide whether to time the next item."""
        skipped = self.skipped[0]
        self.is_on, self.weight = skipped >= self.to_skip, skipped + 1
        self.skipped[0] = 0 if self.is_on else skipped + 1

    def write(self) -> None:
        """Write the events of an item."""
        if not self.recording.keeps_events:
            self._add_up()
        elif self._file is not None:
            self._file.write(pickle.dumps([tuple(event) for event in self.events]))
        else:
            self.items.append(self.events)
        self.events = []

    def end(self, cpu_s: float) -> None:
        """Skip items if timing one costs much of its CPU time."""
        cost_s, self.cost_s = self.cost_s, 0.0
        self.timed, self.spent_s = self.timed + 1, self.spent_s + cost_s
        threads = len(_recorders.get(self.recording.directory, ())) or 1
        if self.timed * threads < SURE or (self.timed * threads < MORE and self.spent_s * threads < MORE_S):
            return
        mean = min(SPARSEST, cost_s / (SHARE * max(cpu_s, 1e-9)))
        # Not every kth item, because items may have a rhythm of their own.
        self.to_skip = 0 if mean < 1 else self._random.randint(0, int(2 * mean))

    def _add_up(self) -> None:
        """Add the events of an item to the sums, and write these."""
        for event in self.events:
            sums = self.sums.get(event.stage, Sums())
            self.sums[event.stage] = sums + Sums(event.items * event.weight, event.own_s * event.weight)
        if self._file is not None:
            plain = {stage: tuple(sums) for stage, sums in self.sums.items()}
            os.pwrite(self._file.fileno(), pickle.dumps(plain), self._begin)


def _joined(items: list[list[Event]], skipped: int) -> list[Event]:
    """Return the events of all items. The last item stands for those that were skipped after it too."""
    last = [event._replace(weight=event.weight + skipped) for event in items[-1]] if items else []
    return [*chain.from_iterable(items[:-1]), *last]


# The recorders of this process, by directory. Not in `Recording`, which the engine examines.
_recorders: dict[str, list[_Recorder]] = {}


class _Local(threading.local):
    recorder: _Recorder | None = None


_local = _Local()


def _after_fork_in_child() -> None:
    _local.recorder = None  # the child's thread has a recorder of its own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def forget(directory: str) -> None:
    """Forget the records of the threads of this process."""
    _recorders.pop(directory, None)


class Probe(View[Any]):
    """A view that times another one. The probes of all epochs of a view have the same number."""

    _is_observer = True

    def __init__(self, source: View[Any], number: int, recording: Recording) -> None:
        super().__init__((source,), source._known)
        self._number = number
        self._recording = recording

    @property
    def _streams(self) -> bool:
        return self._sources[0]._known is None and self._sources[0]._streams

    def _timed(self, index: int, items: int, read: Callable[..., Any], *args: Any) -> Any:
        recorder = self._recording.of_thread()
        if not recorder.depth:
            recorder.begin()
        elif not recorder.is_on:
            return read(*args)
        recorder.depth += 1
        try:
            return self._event(recorder, index, items, read, *args) if recorder.is_on else read(*args)
        finally:
            recorder.depth -= 1

    def _event(
        self, recorder: _Recorder, index: int, items: int, read: Callable[..., Any], *args: Any
    ) -> Any:
        clock, value, failed = self._recording.clock, _END, False
        before_s, before_cpu_s = recorder.below_s, recorder.below_cpu_s
        recorder.below_s = recorder.below_cpu_s = 0.0
        entered_s, begun_cpu_s, begun_s = clock(), thread_time(), clock()  # `thread_time` takes a microsecond
        try:
            value = read(*args)
            return value
        except BaseException as error:
            failed = recorder.error not in (id(error), id(error.__cause__))
            recorder.error = id(error)
            raise
        finally:
            taken_s = clock() - begun_s
            cpu_s = thread_time() - begun_cpu_s
            if value is not _END or failed:
                own = taken_s - recorder.below_s, max(0.0, cpu_s - recorder.below_cpu_s)
                about = self._about(recorder, value, index < 0) if value is not _END else (-1, "")
                numbers = index, begun_s, taken_s, *own, items, recorder.weight
                recorder.events.append(Event(self._number, *numbers, failed, *about))
                if recorder.depth == 1:
                    recorder.write()
            # The views above do not pay for recording.
            cost_below_s, all_s = recorder.cost_s, clock() - entered_s
            recorder.cost_s += all_s - taken_s
            recorder.below_s = before_s + all_s
            recorder.below_cpu_s = before_cpu_s + cpu_s + (all_s - taken_s)
            if recorder.depth == 1:
                recorder.end(cpu_s - cost_below_s)

    def _about(self, recorder: _Recorder, value: Any, is_many: bool) -> tuple[int, str]:
        """Return the size of a value, or of many, and their kind. -1 and "" if enough have been described."""
        seen = recorder.described.get(self._number, 0)
        if seen >= DESCRIBED:
            return -1, ""
        recorder.described[self._number] = seen + 1
        return size_of(value) or 0, kind_of(value, is_many)

    def _get(self, i: int) -> Any:
        return self._timed(i, 1, self._sources[0]._get, i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return self._timed(-1, len(indices), self._sources[0]._getmany, indices)  # type: ignore[no-any-return]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        items = self._sources[0]._iter(plan)

        def read(i: int) -> Any:
            item = self._timed(i, 1, next, items, _END)
            if item is _END:
                raise EndOfSequence(f"the sequence ends before index {i}")
            return item

        return surviving(self, plan, read)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Probe(sources[0], self._number, self._recording)


_END = object()


def kind_of(value: Any, is_many: bool = False) -> str:
    """Return the type of a value, with dtypes and shapes, or that of the first of many values.

    >>> import numpy as np
    >>> kind_of({"image": np.zeros((2, 3), "uint8"), "label": 4})
    '{image: uint8[2, 3], label: int}'
    """
    try:
        return kind_of(value[0]) if is_many and len(value) else _kind_of(value)
    except Exception:  # methods of user code
        return type(value).__name__


def _kind_of(value: Any) -> str:
    if hasattr(value, "dtype") and isinstance(getattr(value, "shape", None), tuple):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype}{list(value.shape)}" if len(value.shape) else dtype
    if isinstance(value, dict) and len(value) <= 8:
        return "{" + ", ".join(f"{key}: {kind_of(part)}" for key, part in value.items()) + "}"
    if isinstance(value, tuple) and len(value) <= 8:
        return "(" + ", ".join(map(kind_of, value)) + ")"
    if isinstance(value, list | tuple | dict | str | bytes):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__
