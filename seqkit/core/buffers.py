"""`pickle_apart`: a pickle, and the memory of large arrays apart from it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

__all__ = ["INLINE_BYTES", "pickle_apart"]

# A smaller buffer stays in the pickle: copying it costs less than keeping track of it.
INLINE_BYTES = 4096


def pickle_apart(value: Any, dumps: Callable[..., bytes] = pickle.dumps) -> tuple[bytes, list[memoryview]]:
    """Return the pickle of a value, and its larger buffers in order, as they are.

    >>> import numpy as np
    >>> pickled, buffers = pickle_apart([np.zeros(1000), np.zeros(3)])
    >>> [buffer.nbytes for buffer in buffers], len(pickle.loads(pickled, buffers=buffers))
    ([8000], 2)
    """
    buffers: list[memoryview] = []

    def aside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= INLINE_BYTES:
            buffers.append(raw)
        return raw.nbytes < INLINE_BYTES

    return dumps(value, protocol=5, buffer_callback=aside), buffers
