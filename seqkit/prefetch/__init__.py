"""Compute items ahead of the consumer, in threads or processes. See README.md."""

from typing import TYPE_CHECKING

from ..core.lazy_imports import lazy_names

if TYPE_CHECKING:
    from .node import Prefetch, prefetch

__all__ = ["Prefetch", "prefetch"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, {"Prefetch": "node", "prefetch": "node"})
