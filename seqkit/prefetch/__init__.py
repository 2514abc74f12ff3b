"""When and where items are computed: ahead of the reader, in threads or processes. See README.md."""

from .node import Prefetch, fork_server, prefetch

__all__ = ["Prefetch", "fork_server", "prefetch"]
