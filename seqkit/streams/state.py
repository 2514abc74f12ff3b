"""The state of a `StreamLoader`."""

from __future__ import annotations

from typing import Any

__all__ = ["check_state"]

FIELDS = (
    "version",
    "epoch",
    "batch",
    "lanes",
    "seed",
    "streams",
    "batch_size",
    "padding",
    "rank",
    "world_size",
)


def check_state(state: Any) -> None:
    """Raise TypeError unless this is a state of a `StreamLoader`. Older ones have no `lost` and `failed`.

    >>> check_state({"epoch": 1})
    Traceback (most recent call last):
    TypeError: StreamLoader: a state is a dict with version, epoch, batch, ..., got {'epoch': 1}
    """
    if not isinstance(state, dict) or any(name not in state for name in FIELDS):
        raise TypeError(f"StreamLoader: a state is a dict with {', '.join(FIELDS)}, got {state!r}")
