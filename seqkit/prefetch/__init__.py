"""When and where items are computed: ahead of the consumer, in threads or processes. See README.md."""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .engine import base_process
    from .node import Prefetch, prefetch

__all__ = ["Prefetch", "base_process", "prefetch"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__, {"Prefetch": "node", "base_process": "engine", "prefetch": "node"}
    )
