"""What observers do for nodes. The engine imports no observer: they register themselves here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Returns the settings of a node with ``method="auto"``, and why. Set by seqkit/__init__.py.
choose: Callable[[Any, Any], tuple[Any, Any]]

# Makes an observer of a pipeline with so many workers, when a node starts. None: nothing is observed.
begin: Callable[[Any, int], Any] | None = None
