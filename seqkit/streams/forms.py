"""Describe a value in a few words, with the shapes and dtypes of its arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ..core.errors import brief
from ..core.plain import plain

__all__ = ["form"]

_MOST_PARTS = 6
_MOST_LEVELS = 3
_SHOWN = (bool, int, float, complex, type(None))


def form(value: Any, levels: int = _MOST_LEVELS) -> str:
    """Describe the structure of a value in one line. Numbers and short texts are shown themselves.

    `levels` is the depth to which the parts of lists and dicts are shown.

    >>> import numpy as np
    >>> form({"image": np.zeros((4, 3), np.uint8), "label": 3})
    '{image: uint8[4, 3], label: 3}'
    >>> form([(1, "a")] * 100), form("a long text " * 9)
    ("list of 100: (1, 'a')", 'str of 108')
    """
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and isinstance(shape, tuple):
        kind = str(dtype).removeprefix("torch.")
        return f"{kind}[{', '.join(map(str, shape))}]" if shape else f"{kind} {brief(plain(value))}"
    if isinstance(value, _SHOWN):
        return repr(value)
    if isinstance(value, str | bytes):
        return repr(value) if len(value) <= 24 else f"{type(value).__name__} of {len(value):,}"
    if _is_picture(value):
        return f"{value.mode} picture {value.width} × {value.height}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(_parts(value.items(), len(value), levels))}}}"
    if isinstance(value, tuple):
        names = getattr(value, "_fields", ("",) * len(value))
        head = type(value).__name__ if hasattr(value, "_fields") else ""
        return f"{head}({', '.join(_parts(zip(names, value, strict=True), len(value), levels))})"
    if isinstance(value, list) and value and levels:
        if isinstance(value[0], _SHOWN):
            return brief(value)
        return f"list of {len(value):,}: {form(value[0], levels - 1)}"
    size = f" of {len(value):,}" if hasattr(value, "__len__") else ""
    return f"{type(value).__name__}{size}"


def _parts(parts: Any, n: int, levels: int) -> Iterator[str]:
    if not levels:
        yield "…"
        return
    for i, (name, part) in enumerate(parts):
        if i == _MOST_PARTS:
            yield f"… {n - i:,} more"
            return
        yield f"{name}: {form(part, levels - 1)}" if name != "" else form(part, levels - 1)


def _is_picture(value: Any) -> bool:
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)
