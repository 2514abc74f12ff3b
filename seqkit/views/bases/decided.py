"""`Decided`: a decision about each item of a plan, made once for all iterations of the plan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from ...core.indices import Plan, each

__all__ = ["Decided"]


class Decided:
    """Decisions about the items of a plan, made in order, each when it is first needed.

    A view uses it to split a plan among sources that work ahead. All of them must use the same decisions,
    even if the decision would differ at a later time.

    >>> seen = Decided([7, 8, 9], lambda i: i % 2)
    >>> list(seen.where(1)), seen.at(1)
    ([7, 9], 0)
    """

    def __init__(self, plan: Plan, decide: Callable[[int], Any]) -> None:
        self.plan = plan
        self._decide = decide
        self._undecided = each(plan)
        self._decisions: list[Any] = []
        self._lock = threading.RLock()

    def at(self, position: int) -> Any:
        """Return the decision about the item at a position of the plan."""
        with self._lock:
            while len(self._decisions) <= position:
                self._decisions.append(self._decide(next(self._undecided)))
            return self._decisions[position]

    def where(self, wanted: Any) -> Plan:
        """Return the part of the plan whose items have this decision."""
        return _Part(self, lambda i, decision: i if decision == wanted else None)

    def ints(self) -> Plan:
        """Return the plan of the decisions that are ints, such as indices in another sequence."""
        return _Part(self, lambda i, decision: decision if isinstance(decision, int) else None)


class _Part:
    """The indices that `choose` makes of the items of a plan and their decisions, apart from None."""

    def __init__(self, decided: Decided, choose: Callable[[int, Any], int | None]) -> None:
        self.plan = decided.plan
        self._decided = decided
        self._choose = choose

    def __iter__(self) -> Iterator[int]:
        for position, i in enumerate(each(self.plan)):
            j = self._choose(i, self._decided.at(position))
            if j is not None:
                yield j
