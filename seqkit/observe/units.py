"""Numbers as people read them, for displays."""

from __future__ import annotations

from ..core.units import count, number, percent, plural, seconds, size

__all__ = ["count", "number", "percent", "plural", "seconds", "size"]
