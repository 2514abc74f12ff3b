"""Sequential sources, batched in step.

`StreamLoader` reads many streams side by side, one in each row of a batch. `count_chunks` counts their
chunks. Transforms of a stream are views over `uniter`.
"""

from typing import TYPE_CHECKING

from ..core.lazy import lazy_names

if TYPE_CHECKING:
    from .batch import StreamBatch
    from .counting import count_chunks
    from .loader import StreamLoader

__all__ = ["StreamBatch", "StreamLoader", "count_chunks"]

if not TYPE_CHECKING:
    _MODULES = {"StreamBatch": "batch", "count_chunks": "counting", "StreamLoader": "loader"}
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)
