"""One batch, many workers: jobs for a batch become jobs for its pieces, whatever the backend.

Guarantees
----------
- what the reader gets is what one worker would have made of the batch, its errors included: where a piece
  fails, or the pieces do not go together, the batch is evaluated once more as a whole;
- where the backend has slots, the pieces of an array are written one behind the other into a slot of the
  batch, and the reader gets the array without a copy;
- a job is reported once, when nobody is at any of its pieces any more; until then nobody else gets the slot.

Relies on
---------
- the same calls from the same threads as any backend, see `Backend`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any, Protocol

from .protocol import Backend, Done, Event, Failed, Job, Joint, Lost, Parcel, Skipped, Unjoined
from .results import Outcomes, concatenated

__all__ = ["InPieces", "Pieces"]


class Pieces(Protocol):
    """Every batch of a view in pieces, as a view."""

    def of(self, i: int) -> range:
        """Return the places of the pieces of batch `i`; none where it is better left whole."""

    def whole(self, i: int) -> int:
        """Return the place of the whole of batch `i`."""

    @property
    def join(self) -> Callable[[list[Any], Callable[[list[Any]], Any]], Any]:
        """Make a batch of its pieces; the second argument makes one array of many."""


@dataclass(slots=True)
class _Batch:
    """A job, and what has become of its pieces."""

    job: Job
    tickets: list[int]
    joint: Joint | None
    missing: set[int] = field(default_factory=set)
    events: dict[int, Event] = field(default_factory=dict)


class InPieces:
    """A backend that hands every job, which is one batch, to another one in pieces."""

    def __init__(self, backend: Backend, pieces: Pieces, most: int) -> None:
        self._backend = backend
        self._pieces = pieces
        self._most = most  # pieces of a batch
        self.capacity = 1
        self._tickets = count(1)
        self._batches: dict[int, _Batch] = {}  # by the ticket of the job
        self._of: dict[int, _Batch] = {}  # by the ticket of a piece
        self._whole: set[tuple[int, int]] = set()  # epochs and numbers of batches to be evaluated whole
        self._joinable = True

    def start(self) -> None:
        self._backend.start()
        self.capacity = max(1, self._backend.capacity // self._most)
        self._joinable = self._backend.capacity >= self._most  # else they cannot be on their way together

    def ready(self) -> bool:
        return self._backend.ready()

    def submit(self, job: Job) -> None:
        (i,) = job.indices
        places = self._places(job.epoch, int(i))
        joint = self._backend.joint(len(places)) if len(places) > 1 else None
        batch = _Batch(job, list(islice(self._tickets, len(places))), joint)
        batch.missing.update(batch.tickets)
        self._batches[job.ticket] = batch
        for ticket, place in zip(batch.tickets, places, strict=True):
            self._of[ticket] = batch
            self._backend.submit(Job(ticket, job.epoch, range(place, place + 1), joint))

    def flush(self) -> None:
        self._backend.flush()

    def _places(self, epoch: int, i: int) -> range:
        places = self._pieces.of(i)
        if places and self._joinable and (epoch, i) not in self._whole:
            return places
        self._whole.discard((epoch, i))
        whole = self._pieces.whole(i)
        return range(whole, whole + 1)

    def receive(self, timeout: float | None) -> list[Event]:
        reported: list[Event] = []
        for event in self._backend.receive(timeout):
            if isinstance(event, Failed):
                reported.append(event)
                continue
            batch = self._of.pop(event.ticket)
            batch.events[event.ticket] = event
            batch.missing.discard(event.ticket)
            if not isinstance(event, Done):
                self._cancel_rest(batch)  # they are of no use by themselves
            if not batch.missing:
                del self._batches[batch.job.ticket]
                reported.append(self._report(batch))
        return reported

    def _report(self, batch: _Batch) -> Event:
        """Return what became of a job, now that all its pieces are back."""
        ticket, events = batch.job.ticket, [batch.events[ticket] for ticket in batch.tickets]
        done = [event for event in events if isinstance(event, Done)]
        if len(done) == len(events):
            cost_ns, worker = sum(event.cost_ns for event in done), done[-1].worker
            return Done(ticket, self._joined(batch, [event.parcel for event in done]), cost_ns, worker)
        for event in done:
            event.parcel.discard()
        if batch.joint is not None and batch.joint.outlived:
            self._joinable = False  # it would be so again and again
        lost = [event for event in events if isinstance(event, Lost)]
        if not lost:
            return Skipped(ticket)
        return replace(max(lost, key=lambda event: event.timed_out), ticket=ticket)

    def _joined(self, batch: _Batch, parcels: list[Parcel]) -> Parcel:
        if len(parcels) == 1:
            return parcels[0]
        (i,) = batch.job.indices
        key = batch.job.epoch, int(i)
        return _Joined(parcels, batch.joint, self._pieces.join, lambda: self._whole.add(key))

    # ---------------------------------------------------------------- what concerns all pieces of a job

    def cancel(self, ticket: int) -> None:
        batch = self._batches.get(ticket)
        if batch is not None:
            self._cancel_rest(batch)

    def _cancel_rest(self, batch: _Batch) -> None:
        for ticket in list(batch.missing):
            self._backend.cancel(ticket)

    def running_s(self) -> dict[int, float]:
        running: dict[int, float] = {}
        for piece, seconds in self._backend.running_s().items():
            batch = self._of.get(piece)
            if batch is not None:
                ticket = batch.job.ticket
                running[ticket] = max(seconds, running.get(ticket, 0.0))
        return running

    def stop(self, ticket: int) -> None:
        self.cancel(ticket)
        for piece in list(self._batches[ticket].missing):
            self._backend.stop(piece)

    # ---------------------------------------------------------------- what concerns none

    def joint(self, jobs: int) -> Joint | None:
        return None

    def is_worker(self) -> bool:
        return self._backend.is_worker()

    def wake(self) -> None:
        self._backend.wake()

    def statistics(self) -> dict[str, int]:
        return self._backend.statistics()

    def close(self) -> None:
        self._backend.close()


class _Joined:
    """The outcome of a batch, in pieces until it is opened."""

    def __init__(
        self,
        parcels: list[Parcel],
        joint: Joint | None,
        join: Callable[[list[Any], Callable[[list[Any]], Any]], Any],
        give_up: Callable[[], None],
    ) -> None:
        self._parcels = parcels
        self._joint = joint
        self._join = join
        self._give_up = give_up
        sizes = [parcel.nbytes for parcel in parcels]
        known = sum(size for size in sizes if size is not None) + (joint.nbytes if joint else 0)
        self.nbytes = None if None in sizes else known

    def must_copy(self) -> bool:
        return any(parcel.must_copy() for parcel in self._parcels)

    def claim(self) -> None:
        for parcel in self._parcels:
            parcel.claim()

    def open(self) -> Outcomes:
        try:
            if self._joint is not None and not self._joint.is_intact():
                raise ValueError("the pieces used their memory in different ways")
            pieces = [self._piece(parcel) for parcel in self._parcels]
            unite = concatenated if self._joint is None else self._joint.unite
            return Outcomes([self._join(pieces, unite)])
        except (Exception, SystemExit) as error:
            self._give_up()
            raise Unjoined("the pieces of a batch do not go together") from error
        finally:
            if self._joint is not None:
                self._joint.forget()

    def _piece(self, parcel: Parcel) -> Any:
        outcomes = parcel.open()
        if outcomes.failures:
            raise ValueError("a piece failed")
        (value,) = outcomes.values
        return value

    def detach(self) -> bool:
        detached = [parcel.detach() for parcel in self._parcels]
        return any(detached)

    def discard(self) -> None:
        for parcel in self._parcels:
            parcel.discard()
