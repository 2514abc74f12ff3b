"""The figures of a node."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.display import facts_as_html
from ..core.units import count, seconds, size


@dataclass(frozen=True)
class Statistics:
    """The work of a prefetch node since its workers started.

    Attributes
    ----------
    items : int
        Items handed to consumers, including failed items.
    jobs : int
        Jobs delivered by workers. A job carries one item or a chunk of small items.
    restarts : int
        Workers replaced after a death or a timeout.
    waited_ns : int
        Time that consumers waited for workers, in nanoseconds.
    worked_ns : int
        Time that workers spent evaluating and encoding, in nanoseconds, summed over all workers.
    nbytes : int
        Bytes received through shared memory or pipes.
    copies : int
        Results copied out of their slot because too few slots were free.
    misses : int
        Results sent through a pipe because they did not fit a slot, or had no slot.
    slots, leased, retired : int
        Number of slots; slots that consumers' arrays hold now; slots whose memory a worker kept.
    slot_bytes : int
        Size of a slot.
    chunk : int
        Items per job at present.
    pickled : int
        Bytes of the pipeline that were pickled for process workers. 0 if they were forked.
    ready, in_work : int
        Items that wait for the consumer now, and items that were given to workers.
    """

    items: int = 0
    jobs: int = 0
    restarts: int = 0
    waited_ns: int = 0
    worked_ns: int = 0
    nbytes: int = 0
    copies: int = 0
    misses: int = 0
    slots: int = 0
    leased: int = 0
    retired: int = 0
    slot_bytes: int = 0
    chunk: int = 1
    pickled: int = 0
    ready: int = 0
    in_work: int = 0

    _repr_html_ = facts_as_html

    def __repr__(self) -> str:
        _, facts = self._facts()
        return f"Statistics({', '.join(f'{name}: {text}' for name, text in facts)})"

    def _facts(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the figures in readable units, without those of events that did not occur."""
        busy = self.waited_ns + self.worked_ns > 0
        found = [("items", count(self.items)), ("jobs", count(self.jobs)), ("chunk", count(self.chunk))]
        found += [("waited", seconds(self.waited_ns / 1e9)), ("worked", seconds(self.worked_ns / 1e9))] * busy
        found += [("received", size(self.nbytes))] * (self.nbytes > 0)
        if self.ready or self.in_work:
            found.append(("queue", f"{count(self.ready)} ready, {count(self.in_work)} in work"))
        if self.slots:
            free = self.slots - self.leased - self.retired
            found.append(("slots", f"{count(self.slots)} of {size(self.slot_bytes)}, {count(free)} free"))
        events = (("restarts", self.restarts), ("copies", self.copies), ("misses", self.misses))
        return "Statistics", [*found, *((name, count(n)) for name, n in events if n)]
