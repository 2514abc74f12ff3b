"""The state of a loader: what is in the dict, and what of it fits another loader."""

from __future__ import annotations

from typing import Any

from ..checks import positive_int

__all__ = ["check_state", "load_sampler_state", "sampler_state"]

FIELDS = ("version", "epoch", "batch", "seed", "batch_size", "sampler")


def check_state(state: Any, batch_size: int | None, seed: int | None) -> None:
    """Refuse what is no state of a loader with this batch size and, if it was given one, this seed."""
    if not isinstance(state, dict) or any(name not in state for name in FIELDS):
        raise TypeError(f"DataLoader: a state is a dict with {', '.join(FIELDS)}, but got {state!r}")
    if state["version"] != 1:
        raise ValueError(f"DataLoader: the state is of version {state['version']!r}, known is 1")
    for name in ("epoch", "batch", "seed"):
        positive_int(state[name], f"DataLoader: {name} of a state", least=0)
    if state["batch_size"] != batch_size:
        raise ValueError(
            f"DataLoader: the state counts batches of {state['batch_size']}, this loader makes batches of"
            f" {batch_size}"
        )
    if seed is not None and state["seed"] != seed:
        raise ValueError(
            f"DataLoader: the state speaks for seed={state['seed']}, this loader was given another one; leave"
            " seed and generator out to take that of the state"
        )


def sampler_state(sampler: Any) -> Any:
    """Return the state of a sampler that has one, else None."""
    return sampler.state_dict() if hasattr(sampler, "state_dict") else None


def load_sampler_state(sampler: Any, state: Any) -> None:
    """Put a sampler back to a state that `sampler_state` returned."""
    if state is not None and hasattr(sampler, "load_state_dict"):
        sampler.load_state_dict(state)
