"""When and where items are computed: ahead of the reader, in threads or processes. See README.md."""

from .engine import fork_server
from .node import Prefetch, prefetch

__all__ = ["Prefetch", "fork_server", "prefetch"]
