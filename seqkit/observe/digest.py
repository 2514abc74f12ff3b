"""The digest of any item, by which `verify` compares items."""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

__all__ = ["digest"]


_ATOMS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"",
    bool: lambda value: b"1" if value else b"0",
    int: lambda value: b"%x" % value,  # decimal digits are limited
    float: lambda value: struct.pack("<d", value),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bytes: bytes,
    bytearray: bytes,
}


def digest(item: Any) -> bytes:
    """Return the digest of an item: equal for items of equal content, bit for bit, in every process.

    Arrays count with dtype, shape and bytes, whatever their memory order; floats with their bits, so NaN
    equals NaN and 0.0 differs from -0.0; dicts with their order; sets without one. Other objects count as
    what `pickle` would store of them. Objects whose content cannot be told, such as open files and functions,
    count as their class.

    >>> import math
    >>> digest({"x": math.nan}) == digest({"x": math.nan}), digest(1) == digest(1.0)
    (True, False)
    """
    return _Digests().of(item)


class _Digests:
    """The digests of objects, each computed once however often it occurs."""

    def __init__(self) -> None:
        self._open: set[int] = set()  # objects whose content is being read
        self._known: dict[int, tuple[Any, bytes]] = {}  # keeps the objects, so that no identifier comes twice

    def of(self, item: Any) -> bytes:
        kind = type(item)  # not `__class__`: an item may fail for attributes that it lacks
        if kind in _ATOMS:
            return _hash(kind.__name__, [_ATOMS[kind](item)])
        if id(item) in self._open:
            return _hash(f"again {kind.__qualname__}")
        if id(item) not in self._known:
            self._open.add(id(item))
            about, content = _content(item, kind)
            is_whole = isinstance(content, bytes)
            parts = [content] if is_whole else [self.of(part) for part in content]
            parts = sorted(parts) if issubclass(kind, set | frozenset) else parts
            self._known[id(item)] = item, _hash(f"{kind.__module__}.{kind.__qualname__} {about}", parts)
            self._open.discard(id(item))
        return self._known[id(item)][1]


def _hash(kind: str, parts: Iterable[Any] = ()) -> bytes:
    found = hashlib.blake2b(kind.encode(), digest_size=16)
    for part in parts:
        found.update(b" %d " % len(part) + part)
    return found.digest()


def _content(item: Any, kind: type) -> tuple[str, Any]:
    """Return a text about an object, and its bytes or its parts."""
    torch: Any = sys.modules.get("torch")
    if issubclass(kind, np.ma.MaskedArray):
        return "", [item.data, np.ma.getmaskarray(item)]
    if issubclass(kind, np.ndarray | np.generic):
        plain = np.asarray(item)
        if names := plain.dtype.names:  # not the bytes between the fields
            return str(names), [plain[name] for name in names]
        is_whole = not plain.dtype.hasobject
        content = np.ascontiguousarray(plain).tobytes() if is_whole else plain.ravel().tolist()
        return f"{plain.dtype.str} {plain.shape}", content
    is_tensor = torch and issubclass(kind, torch.Tensor) and item.layout == torch.strided
    if is_tensor and not (item.is_nested or item.is_meta):
        bits = item.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
        return f"{item.dtype} {tuple(item.shape)}", bits.numpy().tobytes()
    if issubclass(kind, dict):
        return "", [part for pair in item.items() for part in pair]
    if issubclass(kind, list | tuple | set | frozenset):
        return "", item
    try:  # what `pickle` would store
        reduced = item.__reduce_ex__(4)
    except Exception:  # of files, locks, functions, and the like
        return "", ()
    if isinstance(reduced, str):
        return reduced, ()
    return "", [part if i < 3 else list(part or ()) for i, part in enumerate(reduced[:5])]
