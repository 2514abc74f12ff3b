"""When and where items are computed: ahead of the reader, in threads or processes. See README.md."""

from .engine import base_process
from .node import Prefetch, prefetch

__all__ = ["Prefetch", "base_process", "prefetch"]
