"""Items that are awaited, in the loop of a `prefetch` node with the method ``"async"``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any

__all__ = ["Begin", "awaited", "is_awaited", "open_in_loop", "sleep_in_loop", "unawaited"]

# Begins to compute an item, in the loop.
Begin = Callable[[], Awaitable[Any]]

# In the loop of a node: opens a handle, such as a session, once, and lets it end with the loop.
open_in_loop: ContextVar[Callable[[Callable[[], Any]], Awaitable[Any]]] = ContextVar("seqkit.open_in_loop")
# In the loop of a node: waits a number of seconds, while other items go on.
sleep_in_loop: ContextVar[Callable[[float], Awaitable[None]]] = ContextVar("seqkit.sleep_in_loop")


def is_awaited(kind: type) -> bool:
    """Return whether values of a type must be awaited.

    >>> is_awaited(int)
    False
    """
    return hasattr(kind, "__await__")


def unawaited(value: Any) -> TypeError:
    """Return the error of an item that nothing awaits, and end it."""
    if isinstance(value, Coroutine):
        value.close()  # otherwise Python warns that it was never awaited
    return TypeError(
        f"the item is a {type(value).__name__}, which nothing awaits. Read it with prefetch(…, nworkers,"
        " 'async') directly above smap"
    )


async def awaited(value: Any) -> Any:
    """Return the result of an awaitable. Refuse other values."""
    if not is_awaited(type(value)):
        raise TypeError(
            "method='async' needs a function that returns an awaitable, got"
            f" {type(value).__name__}. Map other functions above the node"
        )
    return await value
