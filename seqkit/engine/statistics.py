"""The figures of a node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
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
        Bytes received through slots or files in memory.
    copies : int
        Results copied out of their slot because too few slots were free.
    misses : int
        Results sent in a file in memory because they did not fit a slot, or had no slot.
    slots, leased, retired : int
        Number of slots; slots that consumers' arrays hold now; slots whose memory a worker kept.
    slot_bytes : int
        Size of a slot.
    chunk : int
        Items per job at present.
    late_ns : int
        How late the loop of coroutines was at most, because code between two awaits blocked it.
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
    late_ns: int = 0
    pickled: int = 0
    ready: int = 0
    in_work: int = 0

    def __repr__(self) -> str:
        """Return the figures that are not 0."""
        found = [f"{name}={number:_}" for name, number in vars(self).items() if number]
        return f"Statistics({', '.join(found)})"
