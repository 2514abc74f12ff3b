"""`DataLoader`: the usual training pipeline under its usual name."""

from typing import TYPE_CHECKING

from ..core.lazy import lazy_names

if TYPE_CHECKING:
    from .loader import DataLoader

__all__ = ["DataLoader"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, {"DataLoader": "loader"})
