"""A hook for observers. The engine imports no observer: `observe` registers one function here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Called with the `Engine` of a node, once, before it is read. It may replace the settings, the pipeline and
# the observer of the engine. Set by seqkit/__init__.py.
prepare: Callable[[Any], object]
