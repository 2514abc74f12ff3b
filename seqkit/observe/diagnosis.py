"""One sentence about a measurement: what limits the pipeline, with a number and a remedy.

Each rule is a function of a `Measurement`. It returns a `Diagnosis`, or None if it does not apply. The first
rule that applies counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..prefetch.measure import Speed
from .measurement import Measurement, NodeFigures, Stage
from .units import percent, seconds, size

__all__ = ["Diagnosis", "diagnose"]

# Below this share of waiting, faster loading is of no use.
LITTLE = 0.1
# An advantage that is worth a change, and workers that are busy.
WORTH = 1.15
BUSY = 0.75
# From this size on, a pickled pipeline is worth a remark.
LARGE_PICKLE = 64 << 20
# A straggler takes so many times the median, and stragglers raise the mean this much above it.
STRAGGLES = 8
RAISES = 1.3
# Items that take longer cost more than handing them over.
TINY_S = 5e-4


@dataclass(frozen=True)
class Diagnosis:
    """What limits a pipeline.

    Attributes
    ----------
    cause : str
        One word or two, such as ``"slow consumer"``.
    finding, remedy : str
        Sentences.
    rate : float or None
        The items per second that are expected after the remedy, or None if it cannot be predicted.
    settings : dict
        The arguments of `prefetch` that the remedy changes.
    """

    cause: str
    finding: str
    remedy: str
    rate: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.finding} {self.remedy}".strip()


def diagnose(m: Measurement) -> Diagnosis:
    """Return what limits the pipeline of a measurement.

    >>> stage = Stage("smap(decode)", 100, 2.0)
    >>> print(diagnose(Measurement(100, (stage,), elapsed_s=2.5, counted=100, step_s=2.4)))
    The consumer's own work takes 96 % of the time. Faster loading would gain at most 4 %.
    """
    for rule in RULES:
        if (found := rule(m)) is not None:
            return found
    return _nothing(m)


# -------------------------------------------------------------------- the consumer


def _no_items(m: Measurement) -> Diagnosis | None:
    if m.items:
        return None
    if not m.failed:
        return Diagnosis("no items", "There are no items.", "")
    stage = max(m.stages, key=lambda stage: stage.failed)
    return Diagnosis("failures", f"All {m.failed} items failed, in `{stage.view}`.", "Repair it first.")


def _slow_consumer(m: Measurement) -> Diagnosis | None:
    if m.waited_share >= LITTLE or not m.step_s:
        return None
    share = round(100 * m.waited_share)
    finding = f"The consumer's own work takes {100 - share} % of the time."
    return Diagnosis(
        "slow consumer", finding, f"Faster loading would gain at most {share} %.", m.counted / m.step_s
    )


def _computed_by_consumer(m: Measurement) -> Diagnosis | None:
    """A slow stage stands above the node."""
    own = [stage for stage in m.stages if stage.node == -1 and not stage.waits]
    own_s = sum(stage.seconds for stage in own)
    if not m.nodes or own_s < 0.5 * m.waited_s:
        return None
    stage = max(own, key=lambda stage: stage.seconds)
    inside = sum(stage.seconds for stage in m.stages if stage.node == 0)
    workers = min(m.nodes[0].workers, m.cpus)
    rate = _limited(m, m.counted * workers / (own_s + inside))
    finding = (
        f"`{stage.view}` stands above `prefetch`, so the consumer computes it, for"
        f" {percent(own_s / m.elapsed_s)} of the time."
    )
    return Diagnosis("stage above the node", finding, f"Move `prefetch` above it: {_times(m, rate)}.", rate)


# -------------------------------------------------------------------- memory and start


def _copied_at_start(m: Measurement) -> Diagnosis | None:
    node = _first(m, lambda node: node.pickled >= LARGE_PICKLE and node.start_s > 0.2 * m.elapsed_s)
    if node is None:
        return None
    finding = (
        f"{size(node.pickled)} of the pipeline were copied to the workers at their start, and the first"
        f" items took {seconds(node.start_s)}."
    )
    remedy = "Read the data from a file with numpy.memmap or seqkit.load_packed, which are not copied."
    return Diagnosis("copied at start", finding, remedy, m.rate)


def _old_batches(m: Measurement) -> Diagnosis | None:
    node = _first(m, lambda node: node.copies > 0.1 * max(node.jobs, 1))
    if node is None:
        return None
    finding = (
        f"{node.copies} of {node.jobs} results were copied out of shared memory, because arrays that you keep"
        f" hold {node.leased} of {node.slots} slots."
    )
    return Diagnosis("kept arrays", finding, "Drop old items, keep copies of them, or raise `shm_size`.")


def _small_slots(m: Measurement) -> Diagnosis | None:
    node = _first(m, lambda node: node.shm_size != 0 and node.misses > 0.1 * max(node.jobs, 1))
    if node is None:
        return None
    nbytes = max((stage.nbytes for stage in m.stages if stage.node == 0), default=0)
    finding = (
        f"{node.misses} of {node.jobs} results did not fit a slot of {size(node.slot_bytes)} and were sent"
        " through a pipe."
    )
    need = size(2 * node.slots * max(nbytes, node.slot_bytes))
    return Diagnosis("small slots", finding, f"Set `shm_size` to at least {need}.")


# -------------------------------------------------------------------- work done twice


def _stale_cache(m: Measurement) -> Diagnosis | None:
    if not m.caches:
        return None
    below = sum(stage.seconds for stage in m.stages if not stage.waits) / max(m.counted, 1)
    finding = (
        f"`{m.caches[0]}` is above a view whose items differ in each epoch, so every epoch computes them"
        f" again, at {seconds(below)} per item."
    )
    return Diagnosis("cache above shuffle", finding, "Put the cache below the shuffle or random view.")


def _loaded_again(m: Measurement) -> Diagnosis | None:
    stage = m.costliest
    if stage.timed < 20 or 2 * stage.indices > stage.timed or m.share_of(stage) < 0.3:
        return None
    times = stage.timed / stage.indices
    share = m.share_of(stage)
    rate = _limited(m, m.rate / (1 - share * (1 - 1 / times)))
    finding = (
        f"`{stage.view}` takes {percent(share)} of the time and computed each of its items {times:.1f} times."
    )
    remedy = f"Read its items in groups with `shuffle_groups`, or cache them: {_times(m, rate)}."
    return Diagnosis("loaded again", finding, remedy, rate)


# -------------------------------------------------------------------- how items are handed over


def _straggler(m: Measurement) -> Diagnosis | None:
    node, stage = _limiting(m), m.costliest
    is_slow = stage.longest_s > STRAGGLES * stage.median_s and stage.each_s > RAISES * stage.median_s
    if node is None or not node.in_order or not is_slow or node.workers < 2 or _busy(m, node) > BUSY:
        return None
    rate = _limited(m, m.rate / _busy(m, node))
    finding = (
        f"One item of `{stage.view}` took {seconds(stage.longest_s)}, the median"
        f" {seconds(stage.median_s)}. Workers waited for it and were busy for"
        f" {percent(_busy(m, node))} of the time."
    )
    remedy = f"Use `in_order=False`, or a larger `max_buffered`: {_times(m, rate)}."
    return Diagnosis("straggler", finding, remedy, rate, {"in_order": False})


def _large_chunks(m: Measurement) -> Diagnosis | None:
    node = _limiting(m)
    if node is None or (node.chunk_size or 1) == 1 or _busy(m, node) > BUSY:
        return None
    each_s = node.worked_s / max(node.items, 1)
    if node.chunk * each_s < 0.05:
        return None
    rate = _limited(m, m.rate / _busy(m, node))
    finding = (
        f"A chunk of {node.chunk} items takes {seconds(node.chunk * each_s)}, and workers were busy for"
        f" {percent(_busy(m, node))} of the time."
    )
    settings = {"chunk_size": "auto"}
    return Diagnosis("large chunks", finding, f"Use `chunk_size='auto'`: {_times(m, rate)}.", rate, settings)


def _tiny_items(m: Measurement) -> Diagnosis | None:
    node, inline = _limiting(m), _speed(m, "inline")
    if node is None or inline is None or 1 / inline > TINY_S or _in_turn(m, inline) < WORTH * m.rate:
        return None
    rate = _in_turn(m, inline)
    others = [speed.items_per_s for speed in m.speeds if speed.method != "inline"]
    if max(others, default=0.0) > WORTH * inline:
        return None
    each_s = 1 / inline
    handing_s = max(0.0, m.waited_s / max(m.counted, 1) - each_s)
    finding = f"An item takes {seconds(each_s)} to compute and {seconds(handing_s)} more to hand over."
    if node.chunk_size is not None and node.chunk_size * each_s < 2e-4:
        remedy = f"`chunk_size={node.chunk_size}` is too small: use `chunk_size='auto'`, or no workers"
        return Diagnosis("small chunks", finding, f"{remedy}: {_times(m, rate)}.", rate, {"nworkers": 0})
    remedy = f"Read without `prefetch`, or batch below it: {_times(m, rate)}."
    return Diagnosis("tiny items", finding, remedy, rate, {"nworkers": 0})


# -------------------------------------------------------------------- workers


def _interpreter_lock(m: Measurement) -> Diagnosis | None:
    node, process = _limiting(m), _speed(m, "process")
    if node is None or node.method != "thread" or node.workers < 2 or process is None:
        return None
    stage, rate = m.costliest, _limited(m, process)
    if rate < WORTH * m.rate or stage.seconds < 1.3 * stage.cpu_s:
        return None
    finding = (
        f"{_waited(m)} `{stage.view}` computes for {percent(stage.cpu_s / stage.seconds)} of its time, and"
        " waits for the interpreter lock in the rest."
    )
    workers = next(speed.workers for speed in m.speeds if speed.method == "process")
    remedy = f"{workers} processes would be {_times(m, rate)}."
    settings = {"nworkers": workers, "method": "process"}
    return Diagnosis("interpreter lock", finding, remedy, rate, settings)


def _few_workers(m: Measurement) -> Diagnosis | None:
    best = max(m.speeds, key=lambda speed: speed.items_per_s, default=None) or _modelled(m)
    if best is None or best.method == "inline" or best.workers < 1:
        return None
    rate = _limited(m, best.items_per_s)
    if rate < WORTH * m.rate:
        return None
    stage = _costliest_of(m)
    finding = (
        f"{_waited(m)} `{stage.view}` takes {percent(m.share_of(stage))} of"
        f" {'worker time' if m.nodes else 'it'}{_kind(m, stage)}:"
    )
    workers = "1 worker" if best.workers == 1 else f"{best.workers} {_plural(best.method)}"
    settings = {"nworkers": best.workers, "method": best.method}
    return Diagnosis("few workers", finding, f"{workers} would be {_times(m, rate)}.", rate, settings)


def _nothing(m: Measurement) -> Diagnosis:
    stage = _costliest_of(m)
    finding = f"{_waited(m)} `{stage.view}` takes {percent(m.share_of(stage))} of the computing time."
    remedy = "No other workers would be faster. Make this stage faster, or cache its items."
    return Diagnosis("slow stage", finding, remedy)


RULES: tuple[Callable[[Measurement], Diagnosis | None], ...] = (
    _no_items,
    _copied_at_start,
    _slow_consumer,
    _old_batches,
    _small_slots,
    _stale_cache,
    _computed_by_consumer,
    _loaded_again,
    _tiny_items,
    _straggler,
    _large_chunks,
    _interpreter_lock,
    _few_workers,
)


# -------------------------------------------------------------------- figures and words


def _first(m: Measurement, applies: Callable[[NodeFigures], bool]) -> NodeFigures | None:
    return next(filter(applies, m.nodes), None)


def _number(m: Measurement) -> int:
    """Return the number of the node whose workers limit the pipeline: the lowest that others wait for."""
    number = 0
    for below, stage in enumerate(stage for stage in m.stages if stage.waits):
        peers = [peer for peer in m.stages if peer.node == stage.node]
        if stage.node == number and stage.seconds > 0.5 * sum(peer.seconds for peer in peers):
            number = below
    return number


def _limiting(m: Measurement) -> NodeFigures | None:
    return m.nodes[_number(m)] if m.nodes else None


def _costliest_of(m: Measurement) -> Stage:
    """Return the costliest stage of the node that limits the pipeline."""
    number = _number(m) if m.nodes else -1
    peers = [stage for stage in m.stages if stage.node == number and not stage.waits]
    return max(peers, key=lambda stage: stage.seconds, default=m.costliest)


def _busy(m: Measurement, node: NodeFigures) -> float:
    return min(1.0, max(node.worked_s / max(m.elapsed_s * node.workers, 1e-9), 1e-3))


def _speed(m: Measurement, method: str) -> float | None:
    found = [speed.items_per_s for speed in m.speeds if speed.method == method]
    return max(found) if found else None


def _modelled(m: Measurement) -> Speed | None:
    """Return the speed of more workers where none was measured, if the stages sleep or CPUs are idle."""
    node = _limiting(m)
    if node is None or not node.workers:
        return None
    inside = [stage for stage in m.stages if stage.node == _number(m) and not stage.waits]
    wall_s, cpu_s = sum(stage.seconds for stage in inside), sum(stage.cpu_s for stage in inside)
    if not wall_s or _busy(m, node) < BUSY:
        return None
    most = m.cpus if cpu_s > 0.8 * wall_s else min(32, int(m.cpus * wall_s / max(cpu_s, 1e-9)))
    return Speed(node.method, most, m.rate * most / node.workers) if most > node.workers else None


def _limited(m: Measurement, rate: float) -> float:
    """Return a rate of workers, or that of the consumer if it is lower."""
    return min(rate, m.counted / m.step_s) if m.step_s else rate


def _in_turn(m: Measurement, rate: float) -> float:
    """Return a rate of a consumer that computes items itself."""
    return 1 / (1 / rate + m.step_s / max(m.counted, 1))


def _waited(m: Measurement) -> str:
    return f"The consumer waited {percent(m.waited_share)} of the time."


def _kind(m: Measurement, stage: Stage) -> str:
    inline, thread = _speed(m, "inline"), _speed(m, "thread")
    if m.sleeps > 0.5:
        return " and mostly sleeps"
    threads = max((speed.workers for speed in m.speeds if speed.method == "thread"), default=0)
    if inline and thread and threads > 1:
        holds = thread < 1.3 * inline
        return f" and {'holds' if holds else 'releases'} the interpreter lock"
    return ""


def _times(m: Measurement, rate: float) -> str:
    times = rate / max(m.rate, 1e-9)
    return f"about {times:.{1 if times < 10 else 0}f} times faster ({rate:,.4g} items/s)"


def _plural(method: str) -> str:
    return "processes" if method == "process" else "threads" if method == "thread" else f"{method} workers"
