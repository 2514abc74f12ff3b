"""Find out whether a call draws random numbers that cannot be repeated, and warn of it."""

from __future__ import annotations

from collections.abc import Callable

from .randomness import DrawnSeed, changed_generators, global_states
from .tracebacks import warn
from .worker import in_process_worker

__all__ = ["draws_of", "notice_draws"]

_SYSTEM = "the system, because a seed is None"


def notice_draws(who: str, remedy: str, call: Callable[[], object]) -> None:
    """Call a function that skips items. Warn if it draws random numbers that another program cannot repeat.

    `who` begins the warning, and `remedy` ends it. In worker processes the global generators are seeded by
    the loaders, so their numbers can be repeated.

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
    """Call a function. Return the names of the global generators that it draws from.

    >>> import random
    >>> draws_of(random.random), draws_of(list)
    (['`random`'], [])
    """
    made, before = DrawnSeed.made, global_states()
    call()
    drawn = [f"`{name}`" for name in changed_generators(before)]
    return [*drawn, *[_SYSTEM] * (DrawnSeed.made > made)]
