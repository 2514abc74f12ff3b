"""The processes that share a job: those of PyTorch's process group, if there is one."""

from __future__ import annotations

import sys
from typing import Any

from .randomness import DrawnSeed
from .tracebacks import warn

__all__ = ["process_group", "warn_of_drawn_seed"]


def process_group() -> Any:
    """Return PyTorch's module for process groups if a group is initialised, otherwise None."""
    group: Any = sys.modules.get("torch.distributed")  # a program with a process group has imported it
    return group if group is not None and group.is_available() and group.is_initialized() else None


def warn_of_drawn_seed(seed: int, who: str, what: str) -> None:
    """Warn if each of several processes has drawn a seed of its own for what all must agree on."""
    if not isinstance(seed, DrawnSeed):
        return
    group = process_group()
    if group is not None and (processes := group.get_world_size()) > 1:
        warn(
            f"{who}: each of the {processes} processes of torch.distributed draws another seed, so {what}."
            " Pass the same seed in all processes",
            UserWarning,
        )
