"""One or two sentences about a measurement: the bottleneck of the pipeline, and a remedy.

Each rule is a function of a `Measurement`. It returns a `Diagnosis`, or None if it does not apply. The first
rule that applies counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..core.units import size
from ..engine.statistics import Statistics
from .choose import Choice, arguments_of, instruction
from .units import percent

__all__ = ["Diagnosis", "Measurement", "NodeFigures", "Stage", "diagnose"]


@dataclass(frozen=True)
class Stage:
    """The figures of one view of an expression. Times are in seconds, without the views below it.

    Attributes
    ----------
    view : str
        The view without the views below it, as in `explain`.
    items, failed : int
        Number of its items that were read, and of those that it failed to compute.
    seconds : float
        Time for these items.
    line : str
        Its line in the drawing of the expression.
    node : int
        Number of the node that has workers to read it, or -1 if the consumer reads it.
    first_s, median_s, p95_s : float
        Time of the first item, and of items in general.
    nbytes : int
        Size of an item in bytes, about.
    waits : bool
        Whether its time is waiting for the workers of a node.
    """

    view: str
    items: int
    seconds: float
    line: str = ""
    node: int = -1
    failed: int = 0
    first_s: float = 0.0
    median_s: float = 0.0
    p95_s: float = 0.0
    nbytes: int = 0
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


# An advantage that is worth a change.
WORTH = 1.15
MIB = 1 << 20


@dataclass(frozen=True)
class Diagnosis:
    """What limits a pipeline.

    Attributes
    ----------
    cause : str
        A few words, such as ``"few workers"``.
    finding, remedy : str
        Sentences.
    settings : dict
        The arguments that the remedy changes: of the loader that was measured, or of `prefetch`.
    """

    cause: str
    finding: str
    remedy: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.finding} {self.remedy}".strip()


def diagnose(m: Measurement) -> Diagnosis:
    """Return the bottleneck of a measured pipeline.

    >>> stage = Stage("smap(decode)", 100, 2.0)
    >>> print(diagnose(Measurement(100, (stage,), elapsed_s=2.5, counted=100)).finding)
    `smap(decode)` takes 100 % of the computing time.
    """
    return next(found for rule in RULES if (found := rule(m)) is not None)


def _no_items(m: Measurement) -> Diagnosis | None:
    if m.items:
        return None
    if not m.failed:
        return Diagnosis("no items", "There are no items.", "")
    stage = max(m.stages, key=lambda stage: stage.failed)
    return Diagnosis("failures", f"All {m.failed} items failed, in `{stage.view}`.", "Repair it first.")


def _small_slots(m: Measurement) -> Diagnosis | None:
    for number, node in enumerate(m.nodes):
        now = node.figures
        if node.shm_size != 0 and now.misses > 0.1 * max(now.jobs, 1):
            nbytes = max((stage.nbytes for stage in m.computed_by(number)), default=0)
            need = -(-2 * now.slots * max(nbytes, now.slot_bytes) // MIB)
            finding = (
                f"{now.misses} of {now.jobs} results did not fit a slot of {size(now.slot_bytes)} and were"
                f" sent through a pipe. The workers need at least {need} MiB of shared memory."
            )
            settings = arguments_of(m.subject, {"shm_size": need * MIB})
            return Diagnosis("small slots", finding, instruction(m.subject, settings), settings)
    return None


def _computed_by_consumer(m: Measurement) -> Diagnosis | None:
    own = m.computed_by(-1)
    if not m.nodes or sum(stage.seconds for stage in own) < 0.5 * m.elapsed_s:
        return None
    finding = f"`{_costliest(own).view}` stands above `prefetch`, so the consumer computes it."
    return Diagnosis("stage above the node", finding, "Move `prefetch` above it.")


def _read_by_one(m: Measurement) -> Diagnosis | None:
    if not m.reads_stream:
        return None
    finding = f"{_where(m)} One worker reads it, because only an iteration gives its items."
    remedy = (
        "Read it in parts, with `DataLoader(…, iterable_split='workers')` or an `interleave`, or by index."
    )
    return Diagnosis("one worker reads it", finding, remedy)


def _other_workers(m: Measurement) -> Diagnosis | None:
    choice, node = m.choice, m.nodes[m.limiting] if m.nodes else None
    measured = None if choice is None else choice.measured
    if choice is None or measured is None or measured.cost.failed == measured.cost.items:
        return None
    if choice.workers <= (node.workers * WORTH if node else 0):
        speed, present = measured.of(choice.method), measured.of(node.method) if node else None
        if node is None or choice.method == node.method or speed is None:
            return None
        if speed.items_per_s < WORTH * (present.items_per_s if present else m.rate):
            return None
    cause = "tiny items" if choice.method == "inline" else "few workers"
    if measured.holds_lock and node is not None and node.method == "thread":
        cause = "interpreter lock"
    subject = "prefetch" if m.limiting > 0 else m.subject
    settings = arguments_of(subject, choice.settings)
    return Diagnosis(cause, f"{_where(m)} {choice.why}", instruction(subject, settings), settings)


def _slow_stage(m: Measurement) -> Diagnosis:
    if m.choice is None:
        tried = "Other workers were not tried: `tune` compares them."
    elif m.choice.measured is None:
        tried = f"Other workers were not tried. {m.choice.why}"
    else:
        tried = "`tune` chooses no other workers."
    return Diagnosis("slow stage", _where(m), f"{tried} Make this view faster, or cache its items.")


def _where(m: Measurement) -> str:
    """Return a sentence about the costliest view of the workers that limit the rate."""
    peers = m.computed_by(m.limiting) or [m.costliest]
    stage = _costliest(peers)
    share = stage.seconds / max(sum(peer.seconds for peer in peers), 1e-12)
    return f"`{stage.view}` takes {percent(share)} of the {'worker' if m.nodes else 'computing'} time."


def _costliest(stages: list[Stage]) -> Stage:
    return max(stages, key=lambda stage: stage.seconds)


RULES: tuple[Callable[[Measurement], Diagnosis | None], ...] = (
    _no_items,
    _small_slots,
    _computed_by_consumer,
    _read_by_one,
    _other_workers,
    _slow_stage,
)
