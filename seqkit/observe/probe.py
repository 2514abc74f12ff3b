"""Views that time other views, in any thread or process, and the records of these times.

Guarantees
----------
- A thread of another process writes to a file of its own. A killed worker loses only unfinished items.
- A thread of this process writes no file, because it could lose the interpreter lock by writing.
- Quick items are timed in a sample, so that timing costs little CPU time. An event may stand for several
  items.
"""

from __future__ import annotations

import os
import pickle
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import tee
from time import perf_counter
from typing import Any, NamedTuple

from ..core.awaiting import Begin
from ..core.errors import EndOfSequence
from ..core.indices import Indices, Plan
from ..core.iteration import surviving
from ..core.view import T, View
from ..engine.hooks import generation
from ..engine.results import size_of

__all__ = ["END", "Event", "Probe", "Recording", "Tap"]

# The first items of a thread are all timed. Later, timing may cost this share of the time of the items, and
# at least one item of so many is timed.
SURE, SHARE, SPARSEST = 64, 0.005, 100
# The values of each view are sized in so many first items of a thread.
SIZED = 8


class Event(NamedTuple):
    """One read of a view. `own_s` leaves out the views below. `nbytes` is -1 if it was not looked at."""

    stage: int
    begun_s: float
    own_s: float
    items: int
    weight: int
    failed: bool
    nbytes: int


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

    def take(self) -> list[Event]:
        """Return the events so far, and forget them."""
        found: list[Event] = []
        for recorder in _recorders.get(self.directory, []):
            taken, recorder.events = recorder.events, []
            found.extend(taken)
        for entry in os.scandir(self.directory):
            with open(entry.path, "rb+") as file:
                try:
                    while True:
                        found.extend(map(Event._make, pickle.load(file)))
                except (EOFError, pickle.UnpicklingError):  # the end, or a worker was killed
                    pass
                file.truncate(0)  # workers append
        return found

    def forget(self) -> None:
        """Forget the recorders of the threads of this process."""
        _recorders.pop(self.directory, None)


class _Recorder:
    """The state of one thread.

    Attributes
    ----------
    events : list of Event
        Of this process.
    depth, timed : int
        How many probes are being read, one inside the other, and how many items were timed.
    is_on, weight : bool and int
        Whether the item that is being read is timed, and for how many items it stands.
    below_s, cost_s : float
        Time of the probes below the one that is being read, and of timing.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording, self.born = recording, generation.number
        self.events: list[Event] = []
        self.depth = self.error = self.timed = self._skipped = self._to_skip = 0
        self.is_on, self.weight = True, 1
        self.below_s = self.cost_s = 0.0
        self._random = random.Random(0)  # not the global generator, which is the user's
        self._file = None
        if os.getpid() == recording.pid:
            _recorders.setdefault(recording.directory, []).append(self)
        else:
            name = f"{os.getpid()},{threading.get_ident()}"
            self._file = open(os.path.join(recording.directory, name), "ab", buffering=0)  # noqa: SIM115

    def begin(self) -> None:
        """Decide whether to time the next item."""
        self.is_on, self.weight = self._skipped >= self._to_skip, self._skipped + 1
        self._skipped = 0 if self.is_on else self.weight

    def end(self, taken_s: float) -> None:
        """Write the events of an item. Skip items if timing one costs much of its time."""
        begun_s = perf_counter()
        if self._file is not None:
            self._file.write(pickle.dumps([tuple(event) for event in self.events]))
            self.events = []
        cost_s, self.cost_s = self.cost_s + perf_counter() - begun_s, 0.0
        self.timed += 1
        if self.timed >= SURE:
            mean = min(SPARSEST, cost_s / (SHARE * max(taken_s, 1e-9)))
            # Not every kth item, because items may have a rhythm of their own.
            self._to_skip = 0 if mean < 1 else self._random.randint(0, int(2 * mean))


# The recorders of this process, by directory. Not in `Recording`, which the engine examines.
_recorders: dict[str, list[_Recorder]] = {}
_local = threading.local()


END: Any = object()  # what a read returns that finds the end of an iteration


class Tap(View[T]):
    """A view of the items of its source."""

    _passes_on = _streams = True

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

    def _coroutines(self) -> Callable[[int], Begin] | None:
        return self._sources[0]._coroutines()

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
        before_s, recorder.below_s = recorder.below_s, 0.0
        begun_s = perf_counter()
        try:
            value = read(*args)
            return value
        except BaseException as error:
            failed = recorder.error not in (id(error), id(error.__cause__))
            recorder.error = id(error)
            raise
        finally:
            taken_s = perf_counter() - begun_s
            recorder.depth -= 1
            if value is not END or failed:
                nbytes = size_of(value) or 0 if recorder.timed < SIZED and value is not END else -1
                numbers = begun_s, taken_s - recorder.below_s, items, recorder.weight, failed, nbytes
                recorder.events.append(Event(self._number, *numbers))
            # The views above do not pay for recording.
            all_s = perf_counter() - begun_s
            recorder.cost_s += all_s - taken_s
            recorder.below_s = before_s + all_s
            if not recorder.depth:
                recorder.end(taken_s)

    def _coroutines(self) -> Callable[[int], Begin] | None:
        begin = self._sources[0]._coroutines()
        return begin and (lambda i: partial(self._timed, begin(i)))

    async def _timed(self, begin: Begin) -> Any:
        """Await an item. Others are awaited at the same time, so its time is that of waiting, too."""
        begun_s, failed = perf_counter(), True
        try:
            value = await begin()
            failed = False
            return value
        finally:
            took_s, recorder = perf_counter() - begun_s, self._recording.of_thread()
            recorder.events.append(Event(self._number, begun_s, took_s, 1, 1, failed, -1))

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Probe(sources[0], self._number, self._recording)
