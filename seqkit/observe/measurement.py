"""The record of a measurement: the stages of a pipeline, its nodes, and the time of the consumer."""

from __future__ import annotations

from dataclasses import dataclass

from ..prefetch.choice import Choice
from ..prefetch.figures import Measured, Speed

__all__ = ["SHORT_S", "Measurement", "NodeFigures", "Stage"]

# Other workers are not tried if everything takes less than this.
SHORT_S = 0.2


@dataclass(frozen=True)
class Stage:
    """The figures of one view of an expression. Times are in seconds, without the views below it.

    Attributes
    ----------
    view : str
        The view without the views below it, as in `explain`.
    items, failed : int
        Number of its items that were read, and of those that it failed to compute.
    seconds, cpu_s : float
        Time for these items, and CPU time of it.
    line : str
        Its line in the drawing of the expression.
    node : int
        Number of the node that has workers to read it, or -1 if the consumer reads it.
    first_s, median_s, p95_s, longest_s : float
        Time of the first item, and of items in general.
    nbytes : int
        Size of an item in bytes, about.
    kind : str
        The type of its items, with dtypes and shapes.
    indices : int
        Number of different indices among `timed` items.
    timed : int
        Number of items that were timed one by one.
    waits : bool
        Whether its time is waiting for the workers of a node.
    """

    view: str
    items: int
    seconds: float
    line: str = ""
    node: int = -1
    failed: int = 0
    cpu_s: float = 0.0
    first_s: float = 0.0
    median_s: float = 0.0
    p95_s: float = 0.0
    longest_s: float = 0.0
    nbytes: int = 0
    kind: str = ""
    indices: int = 0
    timed: int = 0
    waits: bool = False

    @property
    def each_s(self) -> float:
        """Seconds per item."""
        return self.seconds / max(self.items, 1)


@dataclass(frozen=True)
class NodeFigures:
    """A `prefetch` node while it was read.

    Attributes
    ----------
    view : str
    method : str
    workers : int
    chunk_size, max_buffered, shm_size : int or None
        The arguments of `prefetch`; None is automatic.
    in_order : bool
    chunk : int
        Items per job at the end.
    start_s : float
        Seconds until the first item.
    items, jobs, copies, misses, restarts, slots, slot_bytes, leased : int
        See `Statistics`.
    waited_s, worked_s : float
        Seconds that the consumer waited, and that all workers worked.
    cpu_s, queued_s : float
        Seconds that all workers computed, and waited for a CPU, because others used it. 0 if unknown.
    pickled : int
        Bytes that were pickled for the workers.
    """

    view: str
    method: str
    workers: int
    chunk_size: int | None = None
    max_buffered: int | None = None
    shm_size: int | None = None
    in_order: bool = True
    chunk: int = 1
    start_s: float = 0.0
    items: int = 0
    jobs: int = 0
    copies: int = 0
    misses: int = 0
    restarts: int = 0
    slots: int = 0
    slot_bytes: int = 0
    leased: int = 0
    waited_s: float = 0.0
    worked_s: float = 0.0
    cpu_s: float = 0.0
    queued_s: float = 0.0
    pickled: int = 0


@dataclass(frozen=True)
class Measurement:
    """The figures of a pipeline, measured while it was read.

    Attributes
    ----------
    items, failed : int
        Number of items of the whole expression that were read, and that failed.
    elapsed_s : float
        Seconds for the items that count: without the start of the workers.
    counted : int
        Number of these items.
    step_s : float
        Seconds of the consumer's own work for them.
    stages : tuple of Stage
        The outermost view first. A view that is used twice occurs once.
    nodes : tuple of NodeFigures
        The nodes of this process, the outermost first.
    cpus : int
        Number of CPUs that workers may use.
    choice : Choice or None
        The workers that would suit the whole expression, with the figures of those that were tried. None if
        others were not tried.
    caches : tuple of str
        Caches above a view that has other items in each epoch.
    queued_s : float
        Seconds that the consumer's thread waited for a CPU, because others used it. 0 if unknown.
    cpu_s : float
        Seconds that the consumer's thread computed. 0 if unknown.
    subject : str
        The kind of the pipeline: "view", "prefetch" if it has a node, or the class of a loader.
    """

    items: int
    stages: tuple[Stage, ...]
    failed: int = 0
    elapsed_s: float = 0.0
    counted: int = 0
    step_s: float = 0.0
    nodes: tuple[NodeFigures, ...] = ()
    cpus: int = 1
    choice: Choice | None = None
    caches: tuple[str, ...] = ()
    queued_s: float = 0.0
    cpu_s: float = 0.0
    subject: str = "view"

    @property
    def speeds(self) -> tuple[Speed, ...]:
        """How many items per second no workers and others compute, if that was measured."""
        return () if self._measured is None else self._measured.compared

    @property
    def sleeps(self) -> float:
        """The share of sleep in the time that an item would take on an idle machine. 0 if unknown."""
        return 0.0 if self._measured is None else self._measured.cost.sleep_share

    @property
    def lock_share(self) -> float | None:
        """The share of their time that two threads wait for the interpreter lock. None if not measured.

        It is a half if the items hold the lock.
        """
        return None if self._measured is None else self._measured.lock_share

    @property
    def _measured(self) -> Measured | None:
        return None if self.choice is None else self.choice.measured

    @property
    def seconds(self) -> float:
        """The time of all stages together, in all threads and processes, without waiting."""
        return sum(stage.seconds for stage in self.stages if not stage.waits)

    @property
    def costliest(self) -> Stage:
        """The stage that took longest. Waiting for workers does not count."""
        return max(self.stages, key=lambda stage: 0.0 if stage.waits else stage.seconds)

    @property
    def rate(self) -> float:
        """Items per second."""
        return self.counted / max(self.elapsed_s, 1e-9)

    @property
    def waited_s(self) -> float:
        """Seconds that the consumer waited for items: for workers, or for its own thread."""
        return max(0.0, self.elapsed_s - self.step_s)

    @property
    def waited_share(self) -> float:
        """The share of the time that the consumer waited."""
        return self.waited_s / max(self.elapsed_s, 1e-9)

    @property
    def transport_s(self) -> float:
        """Seconds of workers for encoding and sending: the time that they worked, without their stages."""
        if not self.nodes:
            return 0.0
        inline = [speed.items_per_s for speed in self.speeds if speed.method == "inline"]
        if inline:  # more accurate for quick items
            return max(0.0, self.nodes[0].worked_s - self.nodes[0].items / inline[0])
        inside = sum(stage.seconds for stage in self.stages if stage.node == 0)
        return max(0.0, self.nodes[0].worked_s - inside)

    def share_of(self, stage: Stage) -> float:
        """Return the share of a stage in the time of all stages of its workers, or of the consumer."""
        peers = [other.seconds for other in self.stages if other.node == stage.node and not other.waits]
        return stage.seconds / max(sum(peers), 1e-12)
