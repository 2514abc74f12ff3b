"""The processes that share a job: those of PyTorch's process group, if there is one."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["process_group"]


def process_group() -> Any:
    """Return PyTorch's module for process groups if a group is initialised, otherwise None."""
    group: Any = sys.modules.get("torch.distributed")  # a program with a process group has imported it
    return group if group is not None and group.is_available() and group.is_initialized() else None
