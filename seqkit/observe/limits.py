"""Figures that follow from a measurement, and the words for them."""

from __future__ import annotations

from collections.abc import Callable

from ..core.units import percent, rounded
from ..prefetch.figures import SLEEPS, Speed
from .measurement import Measurement, NodeFigures, Stage

# Workers are busy from this share of the time on.
BUSY = 0.75
# Items hold the interpreter lock if two threads wait for it for more than this share of their time.
HOLDS = 0.3


def first_node(m: Measurement, applies: Callable[[NodeFigures], bool]) -> NodeFigures | None:
    return next(filter(applies, m.nodes), None)


def number_of_limiting(m: Measurement) -> int:
    """Return the number of the node whose workers limit the pipeline: the lowest that others wait for."""
    number = 0
    for below, stage in enumerate(stage for stage in m.stages if stage.waits):
        peers = [peer for peer in m.stages if peer.node == stage.node]
        if stage.node == number and stage.seconds > 0.5 * sum(peer.seconds for peer in peers):
            number = below
    return number


def limiting(m: Measurement) -> NodeFigures | None:
    return m.nodes[number_of_limiting(m)] if m.nodes else None


def costliest_of(m: Measurement) -> Stage:
    """Return the costliest stage of the node that limits the pipeline."""
    number = number_of_limiting(m) if m.nodes else -1
    peers = [stage for stage in m.stages if stage.node == number and not stage.waits]
    return max(peers, key=lambda stage: stage.seconds, default=m.costliest)


def busy(m: Measurement, node: NodeFigures) -> float:
    """Return the share of the time that the workers of a node are busy."""
    worked_s = node.worked_s or m.counted * work_s(m, m.nodes.index(node))  # of a node inside processes
    return min(1.0, max(worked_s / max(m.elapsed_s * node.workers, 1e-9), 1e-3))


def work_s(m: Measurement, number: int) -> float:
    """Return the seconds that the workers of a node compute for an item of the whole expression."""
    inside = [stage for stage in m.stages if stage.node == number and not stage.waits]
    # Workers have computed more items than the consumer has read.
    produced = next((stage.items for stage in m.stages if stage.node == 0), 0)
    return sum(stage.seconds for stage in inside) / max(m.items, produced, 1)


def differs(speed: Speed, node: NodeFigures) -> bool:
    """Return whether workers differ from those of a node. Otherwise only the load has changed."""
    return speed.method != node.method or speed.workers > node.workers


def speed_of(m: Measurement, method: str) -> float | None:
    found = [speed.items_per_s for speed in m.speeds if speed.method == method]
    return max(found) if found else None


def modelled(m: Measurement) -> Speed | None:
    """Return the speed of more workers where none was measured, if the stages sleep or CPUs are idle."""
    node = limiting(m)
    if node is None or not node.workers:
        return None
    inside = [stage for stage in m.stages if stage.node == number_of_limiting(m) and not stage.waits]
    wall_s, cpu_s = sum(stage.seconds for stage in inside), sum(stage.cpu_s for stage in inside)
    if not wall_s or busy(m, node) < BUSY:
        return None
    wall_s -= min(node.queued_s, wall_s - cpu_s)  # others used the CPUs, which is no sleep
    most = m.cpus if cpu_s > 0.8 * wall_s else min(32, int(m.cpus * wall_s / max(cpu_s, 1e-9)))
    if most <= node.workers:
        return None
    # The other nodes are as fast as their own work lets them be, and all together have so many CPUs.
    others = [number for number in range(len(m.nodes)) if number != number_of_limiting(m)]
    own = [m.nodes[other].workers / max(work_s(m, other), 1e-9) for other in others]
    cpu_s = m.cpu_s + sum(each.cpu_s for each in m.nodes)
    rate = min(m.rate * most / node.workers, m.counted * m.cpus / max(cpu_s, 1e-9), *own)
    return Speed(node.method, most, rate)


def hindered(m: Measurement, speed: float) -> float:
    """Return a speed of an idle machine on this one, where others use the CPUs, too."""
    if m.sleeps >= SLEEPS:  # it was measured as it is, on this machine
        return speed
    node = limiting(m)
    if node is None:
        return speed * max(0.05, 1 - m.queued_s / max(m.elapsed_s, 1e-9))
    wanted_s = node.cpu_s + node.queued_s
    if wanted_s < BUSY * m.elapsed_s * node.workers:  # workers mostly sleep, or wait for jobs
        return speed
    return speed * node.cpu_s / wanted_s


def limited(m: Measurement, rate: float) -> float:
    """Return a rate of workers, or that of the consumer if it is lower."""
    return min(rate, m.counted / m.step_s) if m.step_s else rate


def in_turn(m: Measurement, rate: float) -> float:
    """Return a rate of a consumer that computes items itself."""
    return 1 / (1 / rate + m.step_s / max(m.counted, 1))


def waited(m: Measurement) -> str:
    return f"The consumer waited {percent(m.waited_share)} of the time."


def lock_words(m: Measurement) -> str:
    if m.sleeps > 0.5:
        return " and mostly sleeps"
    if m.lock_share is None:
        return ""
    return f" and {'holds' if m.lock_share > HOLDS else 'releases'} the interpreter lock"


def times_faster(m: Measurement, rate: float) -> str:
    times = rate / max(m.rate, 1e-9)
    return f"about {times:.{1 if times < 10 else 0}f} times faster ({rounded(rate, 4)} items/s)"


def workers_of(method: str) -> str:
    return "processes" if method == "process" else "threads" if method == "thread" else f"{method} workers"
