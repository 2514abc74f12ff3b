"""Views that time other views, in any thread or process, and the records of these times.

Guarantees
----------
- A thread of another process writes to a file of its own. A killed worker loses only unfinished items.
- A thread of this process writes no file, because it could lose the interpreter lock by writing.
- Quick items are timed in a sample, so that timing costs about a percent of CPU time. An event may stand for
  several items.
"""

from __future__ import annotations

import os
import pickle
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import tee
from time import perf_counter, thread_time
from typing import Any, NamedTuple

from ..core.errors import EndOfSequence
from ..core.indices import Indices, Plan
from ..core.iteration import surviving
from ..core.view import T, View
from ..core.worker import get_worker_info
from ..engine.hooks import generation
from ..engine.results import size_of

__all__ = ["END", "Event", "Probe", "Recording", "Tap", "Thread"]

# The first items of a thread are all timed. Later, timing may cost this share of the CPU time of the items,
# and at least one item of so many is timed.
SURE, SHARE, SPARSEST = 64, 0.005, 100
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


class Thread(NamedTuple):
    """A thread that has read views. `worker` is its number, or -1 for the consumer."""

    worker: int
    pid: int
    ident: int


@dataclass(frozen=True)
class Recording:
    """The events of the threads of this process, and a directory with a file for each thread of another one.

    It is pickled with the probes.
    """

    directory: str
    pid: int = field(default_factory=os.getpid)

    def of_thread(self) -> _Recorder:
        """Return the recorder of this thread."""
        recorder: _Recorder | None = getattr(_local, "recorder", None)
        # A forked child has a recorder of its own.
        if recorder is None or recorder.recording is not self or recorder.born != generation.number:
            recorder = _local.recorder = _Recorder(self)
        return recorder

    def take(self) -> list[tuple[Thread, list[Event]]]:
        """Return the threads that have recorded, the consumer first, with their events. Forget the events."""
        found: dict[Thread, list[Event]] = {}
        for recorder in _recorders.get(self.directory, []):
            taken, recorder.events = recorder.events, []
            found.setdefault(recorder.thread, []).extend(taken)
        for entry in os.scandir(self.directory):
            events = found.setdefault(Thread(*map(int, entry.name.split(","))), [])
            with open(entry.path, "rb+") as file:
                try:
                    while True:
                        events.extend(map(Event._make, pickle.load(file)))
                except (EOFError, pickle.UnpicklingError):  # the end, or a worker was killed
                    pass
                file.truncate(0)  # workers append
        return sorted((thread, events) for thread, events in found.items() if events)

    def forget(self) -> None:
        """Forget the recorders of the threads of this process."""
        _recorders.pop(self.directory, None)


class _Recorder:
    """The state of one thread.

    Attributes
    ----------
    events : list of Event
        Of this process.
    depth : int
        How many probes are being read, one inside the other.
    is_on, weight : bool and int
        Whether the item that is being read is timed, and for how many items it stands.
    below_s, below_cpu_s, cost_s : float
        Time of the probes below the one that is being read, and of timing.
    """

    def __init__(self, recording: Recording) -> None:
        info, pid = get_worker_info(), os.getpid()
        self.recording, self.born = recording, generation.number
        self.thread = Thread(-1 if info is None else info.id, pid, threading.get_ident())
        self.events: list[Event] = []
        self.described: dict[int, int] = {}
        self.depth = self.error = self._timed = self._skipped = self._to_skip = 0
        self.is_on, self.weight = True, 1
        self.below_s = self.below_cpu_s = self.cost_s = 0.0
        self._random = random.Random(self.thread.worker)  # not the global generator, which is the user's
        path, self._file = os.path.join(recording.directory, ",".join(map(str, self.thread))), None
        if pid == recording.pid:
            _recorders.setdefault(recording.directory, []).append(self)
        else:
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed with this object

    def begin(self) -> None:
        """Decide whether to time the next item."""
        self.is_on, self.weight = self._skipped >= self._to_skip, self._skipped + 1
        self._skipped = 0 if self.is_on else self.weight

    def end(self, cpu_s: float) -> None:
        """Write the events of an item. Skip items if timing one costs much of its CPU time."""
        if self._file is not None:
            self._file.write(pickle.dumps([tuple(event) for event in self.events]))
            self.events = []
        cost_s, self.cost_s = self.cost_s, 0.0
        self._timed += 1
        if self._timed >= SURE:
            mean = min(SPARSEST, cost_s / (SHARE * max(cpu_s, 1e-9)))
            # Not every kth item, because items may have a rhythm of their own.
            self._to_skip = 0 if mean < 1 else self._random.randint(0, int(2 * mean))


# The recorders of this process, by directory. Not in `Recording`, which the engine examines.
_recorders: dict[str, list[_Recorder]] = {}
_local = threading.local()


END: Any = object()  # what a read returns that finds the end of an iteration


class Tap(View[T]):
    """A view of the items of its source."""

    _passes_on = True

    @property
    def _streams(self) -> bool:
        return self._sources[0]._known is None and bool(self._sources[0]._streams)

    def _look(self, i: int, items: int, read: Callable[..., Any], *args: Any) -> Any:
        """Return ``read(*args)``: item `i`, or the items at ``args[0]`` if `i` is -1, or `END`."""
        raise NotImplementedError

    def _get(self, i: int) -> Any:
        return self._look(i, 1, self._sources[0]._get, i)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return self._look(-1, len(indices), self._sources[0]._getmany, indices)  # type: ignore[no-any-return]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        plan, of_source = tee(plan) if isinstance(plan, Iterator) else (plan, plan)
        items = self._sources[0]._iter(of_source)

        def read(i: int) -> Any:
            item = self._look(i, 1, next, items, END)
            if item is END:
                raise EndOfSequence(f"the sequence ends before index {i}")
            return item

        return surviving(self, plan, read)

    def _set(self, i: int, value: Any) -> Iterable[Any]:
        return self._sources[0]._set(i, value)


class Probe(Tap[Any]):
    """A view that times another one. The probes of all epochs of a view have the same number."""

    def __init__(self, source: View[Any], number: int, recording: Recording) -> None:
        super().__init__((source,), source._known)
        self._name = ""  # errors do not name it
        self._number = number
        self._recording = recording

    def _look(self, i: int, items: int, read: Callable[..., Any], *args: Any) -> Any:
        recorder = self._recording.of_thread()
        if not recorder.depth:
            recorder.begin()
        recorder.depth += 1
        if not recorder.is_on:
            try:
                return read(*args)
            finally:
                recorder.depth -= 1
        value, failed = END, False
        before_s, before_cpu_s = recorder.below_s, recorder.below_cpu_s
        recorder.below_s = recorder.below_cpu_s = 0.0
        entered_s, begun_cpu_s, begun_s = (
            perf_counter(),
            thread_time(),
            perf_counter(),
        )  # `thread_time` takes a microsecond
        try:
            value = read(*args)
            return value
        except BaseException as error:
            failed = recorder.error not in (id(error), id(error.__cause__))
            recorder.error = id(error)
            raise
        finally:
            taken_s, cpu_s = perf_counter() - begun_s, thread_time() - begun_cpu_s
            recorder.depth -= 1
            if value is not END or failed:
                own = taken_s - recorder.below_s, max(0.0, cpu_s - recorder.below_cpu_s)
                about = self._about(recorder, value, i < 0) if value is not END else (-1, "")
                numbers = i, begun_s, taken_s, *own, items, recorder.weight, failed
                recorder.events.append(Event(self._number, *numbers, *about))
            # The views above do not pay for recording.
            cost_below_s, all_s = recorder.cost_s, perf_counter() - entered_s
            recorder.cost_s += all_s - taken_s
            recorder.below_s = before_s + all_s
            recorder.below_cpu_s = before_cpu_s + cpu_s + (all_s - taken_s)
            if not recorder.depth:
                recorder.end(cpu_s - cost_below_s)

    def _about(self, recorder: _Recorder, value: Any, is_many: bool) -> tuple[int, str]:
        """Return the size of a value, or of many, and their kind. -1 and "" if enough have been described."""
        seen = recorder.described.get(self._number, 0)
        if seen >= DESCRIBED:
            return -1, ""
        recorder.described[self._number] = seen + 1
        return size_of(value) or 0, kind_of(value, is_many)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Probe(sources[0], self._number, self._recording)


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
