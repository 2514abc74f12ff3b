"""One sentence about a measurement: the bottleneck of the pipeline, with a number and a remedy.

Each rule is a function of a `Measurement`. It returns a `Diagnosis`, or None if it does not apply. The first
rule that applies counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.units import percent, seconds, size
from .limits import (
    BUSY,
    HOLDS,
    busy,
    costliest_of,
    differs,
    first_node,
    hindered,
    in_turn,
    limited,
    limiting,
    lock_words,
    modelled,
    speed_of,
    times_faster,
    waited,
    workers_of,
)
from .measurement import SHORT_S, Measurement
from .remedy import in_words_of, told

__all__ = ["Diagnosis", "diagnose"]

# Below this share of waiting, faster loading is of no use.
LITTLE = 0.1
# An advantage that is worth a change.
WORTH = 1.15
MIB = 1 << 20
# From this size on, a pickled pipeline is worth a remark.
LARGE_PICKLE = 16 * MIB
# A straggler takes so many times the median, and stragglers raise the mean this much above it.
STRAGGLES = 8
RAISES = 1.3
# Items that take longer cost more than handing them over.
TINY_S = 5e-4
# Chunks that take less cost more to hand over than to compute.
SMALL_CHUNK_S = 2e-4


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
        The arguments that the remedy changes: of the loader that was measured, or of `prefetch`.
    """

    cause: str
    finding: str
    remedy: str
    rate: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.finding} {self.remedy}".strip()


def diagnose(m: Measurement) -> Diagnosis:
    """Return the bottleneck of a measured pipeline.

    >>> from seqkit.observe.measurement import Stage
    >>> stage = Stage("smap(decode)", 100, 2.0)
    >>> print(diagnose(Measurement(100, (stage,), elapsed_s=2.5, counted=100, step_s=2.4)))
    The consumer's own work takes 96 % of the time. Faster loading would gain at most 4 %.
    """
    for rule in RULES:
        if (found := rule(m)) is not None:
            return _with_code(found, m.subject) if found.settings else found
    return _nothing(m)


def _with_code(found: Diagnosis, subject: str) -> Diagnosis:
    """Return a diagnosis with code to paste, in the words of the measured view, node or loader."""
    settings = in_words_of(subject, found.settings)
    return replace(found, settings=settings, remedy=f"{found.remedy} {told(subject, settings)}")


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
    node, inside = m.nodes[0], [stage for stage in m.stages if stage.node == 0]
    # Workers have computed more items than the consumer has read.
    inside_s = sum(stage.seconds for stage in inside) / max(inside[0].items, 1) * node.items if inside else 0
    sleeps = sum(stage.cpu_s for stage in own) < 0.2 * own_s
    workers = node.workers if sleeps else min(node.workers, m.cpus)
    rate = limited(m, m.counted * workers / (own_s + inside_s))
    finding = (
        f"`{stage.view}` stands above `prefetch`, so the consumer computes it, for"
        f" {percent(min(1.0, own_s / m.elapsed_s))} of the time."
    )
    return Diagnosis(
        "stage above the node", finding, f"Move `prefetch` above it: {times_faster(m, rate)}.", rate
    )


# -------------------------------------------------------------------- memory and start


def _copied_at_start(m: Measurement) -> Diagnosis | None:
    long_s = max(1.0, m.elapsed_s / 2)
    node = first_node(m, lambda node: node.pickled >= LARGE_PICKLE and node.start_s > long_s)
    if node is None:
        return None
    finding = (
        f"{size(node.pickled)} of the pipeline were copied to the workers at their start, and the first"
        f" items took {seconds(node.start_s)}."
    )
    remedy = "Read the data from a file with numpy.memmap or seqkit.load_packed, which are not copied."
    return Diagnosis("copied at start", finding, remedy, m.rate)


def _old_batches(m: Measurement) -> Diagnosis | None:
    node = first_node(m, lambda node: node.copies > 0.1 * max(node.jobs, 1))
    if node is None:
        return None
    finding = (
        f"{node.copies} of {node.jobs} results were copied out of shared memory, because arrays that you keep"
        f" hold {node.leased} of {node.slots} slots."
    )
    return Diagnosis("kept arrays", finding, "Drop old items, keep copies of them, or raise `shm_size`.")


def _small_slots(m: Measurement) -> Diagnosis | None:
    node = first_node(m, lambda node: node.shm_size != 0 and node.misses > 0.1 * max(node.jobs, 1))
    if node is None:
        return None
    nbytes = max((stage.nbytes for stage in m.stages if stage.node == 0), default=0)
    finding = (
        f"{node.misses} of {node.jobs} results did not fit a slot of {size(node.slot_bytes)} and were sent"
        " through a pipe."
    )
    need = -(-2 * node.slots * max(nbytes, node.slot_bytes) // MIB)
    remedy = f"The workers need at least {need} MiB of shared memory."
    return Diagnosis("small slots", finding, remedy, settings={"shm_size": need * MIB})


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
    times = stage.items / stage.indices  # the timed items, a sample, have nearly all of the indices
    share = m.share_of(stage)
    rate = limited(m, m.rate / (1 - share * (1 - 1 / times)))
    finding = (
        f"`{stage.view}` takes {percent(share)} of the time and computed each of its items {times:.1f} times."
    )
    remedy = f"Read its items in groups with `shuffle_groups`, or cache them: {times_faster(m, rate)}."
    return Diagnosis("loaded again", finding, remedy, rate)


# -------------------------------------------------------------------- how items are handed over


def _straggler(m: Measurement) -> Diagnosis | None:
    node, stage = limiting(m), m.costliest
    is_slow = stage.longest_s > STRAGGLES * stage.median_s and stage.each_s > RAISES * stage.median_s
    if node is None or not node.in_order or not is_slow or node.workers < 2 or busy(m, node) > BUSY:
        return None
    if node.queued_s > 0.3 * (stage.seconds - stage.items * stage.median_s):  # items waited for a CPU
        return None
    rate = limited(m, m.rate / busy(m, node))
    finding = (
        f"One item of `{stage.view}` took {seconds(stage.longest_s)}, the median"
        f" {seconds(stage.median_s)}. Workers waited for it and were busy for"
        f" {percent(busy(m, node))} of the time."
    )
    remedy = f"Delivered in the order of completion, or read further ahead: {times_faster(m, rate)}."
    return Diagnosis("straggler", finding, remedy, rate, {"in_order": False})


def _large_chunks(m: Measurement) -> Diagnosis | None:
    node = limiting(m)
    if node is None or (node.chunk_size or 1) == 1 or busy(m, node) > BUSY:
        return None
    each_s = node.worked_s / max(node.items, 1)
    if node.chunk * each_s < 0.05:
        return None
    rate = limited(m, m.rate / busy(m, node))
    finding = (
        f"A chunk of {node.chunk} items takes {seconds(node.chunk * each_s)}, and workers were busy for"
        f" {percent(busy(m, node))} of the time."
    )
    remedy = f"Smaller chunks would be {times_faster(m, rate)}."
    return Diagnosis("large chunks", finding, remedy, rate, {"chunk_size": "auto"})


def _tiny_items(m: Measurement) -> Diagnosis | None:
    node, inline = limiting(m), speed_of(m, "inline")
    if node is None or inline is None or 1 / inline > TINY_S:
        return None
    rate = in_turn(m, inline)
    if rate < WORTH * m.rate:
        return None
    others = [speed.items_per_s for speed in m.speeds if speed.method != "inline"]
    if max(others, default=0.0) > WORTH * inline:
        return None
    each_s = 1 / inline
    handing_s = max(0.0, m.waited_s / max(m.counted, 1) - each_s)
    finding = f"An item takes {seconds(each_s)} to compute and {seconds(handing_s)} more to hand over."
    cause, remedy = "tiny items", "Larger batches help, and no workers would be"
    if node.chunk_size is not None and node.chunk_size * each_s < SMALL_CHUNK_S:
        cause = "small chunks"
        remedy = f"`chunk_size={node.chunk_size}` is too small: 'auto' helps, and no workers would be"
    return Diagnosis(cause, finding, f"{remedy} {times_faster(m, rate)}.", rate, {"nworkers": 0})


# -------------------------------------------------------------------- workers


def _interpreter_lock(m: Measurement) -> Diagnosis | None:
    node, process = limiting(m), speed_of(m, "process")
    if node is None or node.method != "thread" or node.workers < 2 or process is None:
        return None
    stage, rate = m.costliest, limited(m, hindered(m, process))
    if rate < WORTH * m.rate or (m.lock_share or 0.0) < HOLDS:
        return None
    finding = (
        f"{waited(m)} `{stage.view}` holds the interpreter lock: {node.workers} threads compute"
        f" {node.workers * stage.cpu_s / max(stage.seconds, 1e-9):.1f} items at a time."
    )
    workers = next(speed.workers for speed in m.speeds if speed.method == "process")
    remedy = f"{workers} processes would be {times_faster(m, rate)}."
    settings = {"nworkers": workers, "method": "process"}
    return Diagnosis("interpreter lock", finding, remedy, rate, settings)


def _few_workers(m: Measurement) -> Diagnosis | None:
    node = limiting(m)
    best = m.choice.speed if m.choice is not None else modelled(m)
    if best is None or best.method == "inline" or (node is not None and not differs(best, node)):
        return None
    rate = limited(m, hindered(m, best.items_per_s) if m.choice is not None else best.items_per_s)
    if rate < WORTH * m.rate:
        return None
    stage = costliest_of(m)
    finding = (
        f"{waited(m)} `{stage.view}` takes {percent(m.share_of(stage))} of"
        f" {'worker time' if m.nodes else 'it'}{lock_words(m)}:"
    )
    workers = "1 worker" if best.workers == 1 else f"{best.workers} {workers_of(best.method)}"
    settings = {"nworkers": best.workers, "method": best.method}
    return Diagnosis("few workers", finding, f"{workers} would be {times_faster(m, rate)}.", rate, settings)


def _nothing(m: Measurement) -> Diagnosis:
    stage = costliest_of(m)
    finding = f"{waited(m)} `{stage.view}` takes {percent(m.share_of(stage))} of the computing time."
    tried = "No other workers would be faster."
    if m.choice is None and not m.speeds:
        tried = "Other workers were not tried."
        if m.elapsed_s <= SHORT_S:
            tried = f"Other workers were not tried: all that was read took {seconds(m.elapsed_s)}."
    return Diagnosis("slow stage", finding, f"{tried} Make this stage faster, or cache its items.")


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
