"""The names of the package, for type checkers. `__init__.py` imports them when they are used."""

from .batch import StreamBatch
from .loader import StreamLoader

__all__ = ["StreamBatch", "StreamLoader"]
