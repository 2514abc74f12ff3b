"""`notice_draws`: warn of draws whose numbers another run does not get again."""

from __future__ import annotations

from collections.abc import Callable

from .randomness import global_states
from .tracebacks import warn
from .worker import in_process_worker

__all__ = ["notice_draws"]


def notice_draws(who: str, remedy: str, call: Callable[[], object]) -> None:
    """Call a function that passes over items. Warn if it draws from generators that are the program's.

    `who` draws them, and `remedy` ends the warning. The loaders seed the generators of worker processes, so
    there is no warning there.

    >>> import random, warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     notice_draws("open_fn", "Seed a generator of its own", random.random)
    ...     notice_draws("open_fn", "Seed a generator of its own", list)
    >>> len(caught)
    1
    """
    if in_process_worker():
        call()
        return
    before = global_states()
    call()
    drawn = sorted(name for name, state in global_states().items() if before[name] not in (None, state))
    if drawn:
        warn(
            f"{who} draws from the global generators of {' and '.join(drawn)}, whose states are not resumed."
            f" If it draws its order, then items come twice or are missed. {remedy}",
            UserWarning,
        )
