"""Sequential sources: batched in step, and lazily transformed.

`StreamLoader` reads many streams side by side, one in each row of a batch. `count_chunks` counts their
chunks. `Stream` transforms iterables lazily.
"""

from typing import TYPE_CHECKING

from ..core.lazy import lazy_names

if TYPE_CHECKING:
    from .batch import StreamBatch
    from .counting import count_chunks
    from .loader import StreamLoader
    from .stream import Stream, shuffle_buffer

__all__ = [
    "Stream",
    "StreamBatch",
    "StreamLoader",
    "count_chunks",
    "shuffle_buffer",
]

if not TYPE_CHECKING:
    _MODULES = {
        **dict.fromkeys(("Stream", "shuffle_buffer"), "stream"),
        "StreamBatch": "batch",
        "count_chunks": "counting",
        "StreamLoader": "loader",
    }
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)
