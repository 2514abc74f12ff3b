"""Notice draws whose numbers nobody gets again, and warn of them."""

from __future__ import annotations

from collections.abc import Callable

from .randomness import DrawnSeed, global_states
from .tracebacks import warn
from .worker import in_process_worker

__all__ = ["draws_of", "notice_draws"]

_SYSTEM = "the system, because a seed is None"


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
    drawn = draws_of(call)
    if in_process_worker():
        drawn = [name for name in drawn if name == _SYSTEM]
    if drawn:
        warn(
            f"{who}: numbers are drawn from {' and '.join(drawn)}, and another program draws others. If they"
            f" decide the order, then items come twice or are missed. {remedy}",
            UserWarning,
        )


def draws_of(call: Callable[[], object]) -> list[str]:
    """Call a function. Return from which generators it draws that this process shares with other code.

    >>> import random
    >>> draws_of(random.random), draws_of(list)
    (['`random`'], [])
    """
    made, before = DrawnSeed.made, global_states()
    call()
    after = global_states()
    drawn = sorted(f"`{name}`" for name, state in after.items() if before[name] not in (None, state))
    return [*drawn, *[_SYSTEM] * (DrawnSeed.made > made)]
