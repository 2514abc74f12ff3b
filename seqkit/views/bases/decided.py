"""`Decided`: the plan of a source whose indices are decided one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...core.indices import Plan, each

__all__ = ["Decided"]


class Decided:
    """The indices to read from a source for the items of a plan, each decided once, when it is first needed.

    A decision is an index, or with `members` an object that stands for several. None and exceptions mean that
    nothing is read. A view uses it to tell a source that works ahead which items will be read, even
    if the decision would differ at a later time. It is the plan of the source.

    >>> seen = Decided([7, 8, 9], lambda i: i if i % 2 else None)
    >>> list(seen), seen.at(1)
    ([7, 9], None)
    """

    def __init__(
        self,
        plan: Plan,
        decide: Callable[[int], Any],
        members: Callable[[Any], Iterable[int]] = lambda decision: (decision,),
    ) -> None:
        self.plan = plan
        self._decide = decide
        self._members = members
        self._undecided = each(plan)
        self._decisions: list[Any] = []
        self._lock = threading.RLock()

    def at(self, position: int) -> Any:
        """Return the decision about the item at a position of the plan."""
        with self._lock:
            while len(self._decisions) <= position:
                self._decisions.append(self._decide(next(self._undecided)))
            return self._decisions[position]

    def __iter__(self) -> Iterator[int]:
        for position, _ in enumerate(each(self.plan)):
            decision = self.at(position)
            if decision is not None and not isinstance(decision, Exception):
                yield from self._members(decision)
