"""`notice_draws`: warn of draws whose numbers another run does not get again."""

from __future__ import annotations

from collections.abc import Callable

from .randomness import DrawnSeed, global_states
from .tracebacks import warn
from .worker import in_process_worker

__all__ = ["notice_draws"]


def notice_draws(who: str, remedy: str, call: Callable[[], object]) -> None:
    """Call a function that passes over items. Warn if it draws numbers that another program does not get.

    `who` begins the warning, and `remedy` ends it. The loaders seed the global generators of worker
    processes, so there is no warning of them there.

    >>> import random, warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     notice_draws("open_fn", "Seed a generator of its own", random.random)
    ...     notice_draws("open_fn", "Seed a generator of its own", list)
    >>> len(caught)
    1
    """
    made, before = DrawnSeed.made, {} if in_process_worker() else global_states()
    call()
    after = global_states() if before else {}
    drawn = sorted(f"`{name}`" for name, state in after.items() if before[name] not in (None, state))
    drawn += ["the system, because a seed is None"] * (DrawnSeed.made > made)
    if drawn:
        warn(
            f"{who}: numbers are drawn from {' and '.join(drawn)}, and another program draws others. If they"
            f" decide the order, then items come twice or are missed. {remedy}",
            UserWarning,
        )
