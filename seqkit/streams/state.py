"""The state of a `StreamLoader`."""

from __future__ import annotations

from typing import Any

__all__ = ["check_state"]


def check_state(state: Any, own: dict[str, Any], takes_seed: bool) -> None:
    """Refuse an object that is no state, and the state of a loader that differs in a field of `own`.

    With `takes_seed`, the seed of the state may be another one.

    >>> check_state({"epoch": 1}, {"version": 1, "rank": 0}, False)
    Traceback (most recent call last):
    TypeError: StreamLoader: a state is a dict with version, rank, epoch, batch, lanes, lost, failed,
    worker_seed, got {'epoch': 1}
    """
    names = [*own, "epoch", "batch", "lanes", "lost", "failed", "worker_seed"]
    if not isinstance(state, dict) or any(name not in state for name in names):
        raise TypeError(f"StreamLoader: a state is a dict with {', '.join(names)}, got {state!r}")
    for name, value in own.items():
        may_differ = name == "seed" and takes_seed and state["seed"] is not None
        if state[name] != value and not may_differ:
            raise ValueError(
                f"StreamLoader: the state is of a loader with {name}={state[name]!r}, this one has {value!r}"
            )
