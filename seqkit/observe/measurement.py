"""The record of a measurement: the stages of a pipeline, its nodes, and the time of the consumer."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..prefetch.statistics import Statistics
from .choice import Choice

__all__ = ["Measurement", "NodeFigures", "Stage"]


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
    first_s, median_s, p95_s : float
        Time of the first item, and of items in general.
    nbytes : int
        Size of an item in bytes, about.
    kind : str
        The type of its items, with dtypes and shapes.
    timed : int
        Number of reads that were timed.
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
    nbytes: int = 0
    kind: str = ""
    timed: int = 0
    waits: bool = False


@dataclass(frozen=True)
class NodeFigures:
    """A `prefetch` node while it was read.

    Attributes
    ----------
    view, method : str
    workers : int
    shm_size : int or None
        The argument of `prefetch`.
    start_s : float
        Seconds until the first item.
    figures : Statistics
        What was counted, without the start.
    """

    view: str
    method: str
    workers: int
    shm_size: int | None = None
    start_s: float = 0.0
    figures: Statistics = field(default_factory=Statistics)


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
    step_s : float or None
        Seconds of the consumer's own work for them. None if it has none.
    stages : tuple of Stage
        The outermost view first. A view that is used twice occurs once.
    nodes : tuple of NodeFigures
        The nodes of this process, the outermost first.
    choice : Choice or None
        The workers that would suit the node that limits the rate, as `tune` chooses them. None if others were
        not tried.
    subject : str
        The kind of the pipeline: "view", "prefetch" if it has a node, or the class of a loader.
    reads_stream : bool
        Whether the views that limit the rate read an iterable, which one worker reads.
    """

    items: int
    stages: tuple[Stage, ...]
    failed: int = 0
    elapsed_s: float = 0.0
    counted: int = 0
    step_s: float | None = None
    nodes: tuple[NodeFigures, ...] = ()
    choice: Choice | None = None
    subject: str = "view"
    reads_stream: bool = False

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
        return max(0.0, self.elapsed_s - (self.step_s or 0.0))

    @property
    def waited_share(self) -> float:
        """The share of the time that the consumer waited."""
        return self.waited_s / max(self.elapsed_s, 1e-9)

    @property
    def transport_s(self) -> float:
        """Seconds of workers for encoding and sending: the time that they worked, without their stages."""
        worked_s = self.nodes[0].figures.worked_ns / 1e9 if self.nodes else 0.0
        return max(0.0, worked_s - sum(stage.seconds for stage in self.computed_by(0)))

    def computed_by(self, node: int) -> list[Stage]:
        """Return the stages that the workers of a node compute, or those of the consumer for -1."""
        return [stage for stage in self.stages if stage.node == node and not stage.waits]

    @property
    def limiting(self) -> int:
        """The number of the node whose workers limit the rate: the lowest that others wait for, or -1."""
        number = 0 if self.nodes else -1
        for below, stage in enumerate(stage for stage in self.stages if stage.waits):
            peers = [peer for peer in self.stages if peer.node == stage.node]
            if stage.node == number and stage.seconds > 0.5 * sum(peer.seconds for peer in peers):
                number = below
        return number
