"""Sequential sources, batched in step.

`StreamLoader` reads many streams side by side, one in each row of a batch. Transforms of a stream are views
over `uniter`.
"""

from ..core.lazy import lazy_names

# Each name is imported when it is first used. Type checkers read `__init__.pyi`.
_modules = {"StreamBatch": "batch", "StreamLoader": "loader"}
__all__ = sorted(_modules)
__getattr__, __dir__ = lazy_names(__name__, _modules)
