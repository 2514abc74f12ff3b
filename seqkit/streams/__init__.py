"""Sequential sources: batched in step, lazily transformed, cut into rows of text.

`StreamLoader` reads many streams side by side, one in each row of a batch. `count_chunks` counts their
chunks. `Stream` transforms iterables lazily. `bptt`, `bptt_rows` and `files` prepare text.
"""

from typing import TYPE_CHECKING

from ..core.lazy_imports import lazy_names

if TYPE_CHECKING:
    from .batch import StreamBatch
    from .counting import count_chunks
    from .loader import StreamLoader
    from .stream import Stream, shuffle_buffer
    from .text import bptt, bptt_rows, files

__all__ = [
    "Stream",
    "StreamBatch",
    "StreamLoader",
    "bptt",
    "bptt_rows",
    "count_chunks",
    "files",
    "shuffle_buffer",
]

if not TYPE_CHECKING:
    _MODULES = {
        **dict.fromkeys(("Stream", "shuffle_buffer"), "stream"),
        **dict.fromkeys(("bptt", "bptt_rows", "files"), "text"),
        "StreamBatch": "batch",
        "count_chunks": "counting",
        "StreamLoader": "loader",
    }
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)
