"""Find where a view is better computed by two nodes: the lower part sleeps, and the upper part computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.errors import EvaluationError, ItemTimeout, WorkerDied
from ..core.view import View, is_measured
from ..prefetch.child import in_child, limit_s
from ..prefetch.choice import Choice, WorkerBudget
from ..prefetch.figures import SLEEPS, Cost
from ..prefetch.measure import cost_of
from ..prefetch.stages import is_node

__all__ = ["Stages", "stages"]

# The least share of sleep of a part that gets threads of its own.
MOSTLY_SLEEPS = 0.5


@dataclass(frozen=True)
class Stages:
    """Two nodes for one view: threads for the part that sleeps, and the chosen workers above.

    Attributes
    ----------
    below : str
        The view that the lower node wraps, as its `repr`.
    threads, workers : int
        Number of workers of the lower and of the upper node.
    method : str
        The method of the upper node.
    sleep_share : float
        How much of its time the lower part sleeps.
    """

    below: str
    threads: int
    workers: int
    method: str
    sleep_share: float

    def __str__(self) -> str:
        return (
            f"Two stages: {self.below} sleeps {self.sleep_share:.0%} of its time, and the views above it"
            f" compute. Give each its own workers:\n"
            f"below = sk.prefetch({self.below}, nworkers={self.threads})\n"
            f"view = ...  # the views above, over `below`\n"
            f"sk.prefetch(view, nworkers={self.workers}, method={self.method!r})"
        )


def stages(view: View[Any], choice: Choice, budget: WorkerBudget, seconds: float) -> Stages | None:
    """Return two nodes that suit a view better than one, or None."""
    if choice.measured is None or choice.workers <= budget.cpus or choice.method != "process":
        return None  # one node with threads, or a process for each CPU, is enough
    parts = spine_of(view)
    if len(parts) < 2:
        return None
    try:
        costs: list[Cost] = in_child(view, Costs(seconds), limit_s(seconds))
    except (EvaluationError, ItemTimeout, WorkerDied):
        return None
    return _cut(parts, costs, budget)


def _cut(parts: list[View[Any]], costs: list[Cost], budget: WorkerBudget) -> Stages | None:
    """Cut as low as possible, so that the lower part sleeps and the upper part computes."""
    whole, counts = costs[0], counts_of(parts)
    for part, cost, count in list(zip(parts, costs, counts, strict=True))[:0:-1]:
        cpu_s, asleep_s = whole.cpu_s - count * cost.cpu_s, whole.asleep_s - count * cost.asleep_s
        computes = cpu_s > 0 and max(asleep_s, 0) < SLEEPS * (cpu_s + max(asleep_s, 0))
        if computes and cost.sleep_share >= MOSTLY_SLEEPS:
            threads = cost.useful_workers(budget.cpus)
            return Stages(repr(part), threads, budget.cpus, "process", cost.sleep_share)
    return None


@dataclass(frozen=True)
class Costs:
    """Measure the parts of a view, each on items of its own. Called with the view in a child."""

    seconds: float

    def __call__(self, view: View[Any]) -> list[Cost]:
        parts, costs = spine_of(view), []
        for number, part in enumerate(parts):
            start = number * len(part) // len(parts) if is_measured(part) and part._n < 2**63 else 0
            costs.append(cost_of(part, start, self.seconds / len(parts))[0])
        return costs


def spine_of(view: View[Any]) -> list[View[Any]]:
    """Return the views that a node can stand above, the outermost first, down to a node or a source."""
    found = []
    while len(view._sources) == 1 and not is_node(view):
        if not view._selects:
            found.append(view)
        view = view._sources[0]
    return found


def counts_of(parts: list[View[Any]]) -> list[int]:
    """Return how many items of each part make the first item of the first one."""
    counts, indices, view = [], [0], parts[0]
    for part in parts:
        while view is not part:
            indices = [j for i in indices for _, below in view._parts(i) for j in below]
            view = view._sources[0]
        counts.append(len(indices))
    return counts
