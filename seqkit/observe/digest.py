"""The digest of an item: equal for items of equal content, bit for bit, in every process.

Arrays count with dtype, shape and bytes, whatever their memory order; floats with their bits, so NaN equals
NaN and 0.0 differs from -0.0; dicts with their order; sets without one. Other objects count as what `pickle`
would store of them.
"""

from __future__ import annotations

import hashlib
import io
import struct
import sys
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

__all__ = ["digest"]

_DEPTH = 60
_NAMED = (type, FunctionType, BuiltinFunctionType, ModuleType)


def digest(item: Any) -> bytes:
    """Return the digest of an item: 16 bytes.

    Objects whose content cannot be told, such as open files, count as their class.

    >>> import math
    >>> digest({"x": math.nan}) == digest({"x": math.nan}), digest(1) == digest(1.0)
    (True, False)
    """
    writer = _Writer()
    writer.write(item, _DEPTH)
    return writer.hash.digest()


class _Writer:
    """Writes the content of objects into a hash, each part with its kind and length.

    The digest of a part is written in place of the part, so that an object that occurs often is read once.
    """

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=16)
        self._open: set[int] = set()  # objects whose content is being written
        self._known: dict[int, tuple[Any, bytes]] = {}  # keeps the objects, so that no identifier comes twice

    def put(self, kind: str, data: Any = b"") -> None:
        view = memoryview(data).cast("B")
        self.hash.update(f"{kind} {len(view)} ".encode())
        self.hash.update(view)

    def write(self, item: Any, depth: int) -> None:
        kind = type(item)
        if kind is memoryview:  # a process sends it as bytes
            item, kind = item.tobytes(), bytes
        if kind in _ATOMS:
            self.put(kind.__name__, _ATOMS[kind](item))
        elif issubclass(kind, _NAMED):
            self.put("name", f"{getattr(item, '__module__', '')}.{item.__name__}".encode())
        elif depth == 0 or id(item) in self._open:
            self.put("again", kind.__qualname__.encode())
        else:
            if id(item) not in self._known:
                self._known[id(item)] = item, self._part(item, depth - 1)
            self.put("part", self._known[id(item)][1])

    def _part(self, item: Any, depth: int) -> bytes:
        """Return the digest of the content of an object."""
        outer, self.hash = self.hash, hashlib.blake2b(digest_size=16)
        self._open.add(id(item))
        try:
            self._write_content(item, depth)
            return self.hash.digest()
        finally:
            self._open.discard(id(item))
            self.hash = outer

    def _write_content(self, item: Any, depth: int) -> None:
        # Asks the class only: an item may fail for attributes that it lacks.
        kind = type(item)
        if issubclass(kind, io.StringIO | io.TextIOWrapper):  # a process sends a text file as a StringIO
            self.put("text file")
            return
        self.put("object", f"{kind.__module__}.{kind.__qualname__}".encode())
        if issubclass(kind, np.ndarray | np.generic):
            self._array(item, depth)
        elif issubclass(kind, getattr(sys.modules.get("torch"), "Tensor", ())):
            self._tensor(item, depth)
        elif issubclass(kind, dict):
            self._all((part for pair in item.items() for part in pair), depth)
        elif issubclass(kind, list | tuple):
            self._all(item, depth)
        elif issubclass(kind, set | frozenset):
            self.put("set", b"".join(sorted(map(digest, item))))
        elif issubclass(kind, getattr(sys.modules.get("PIL.Image"), "Image", ())):
            palette = (item.getpalette(None), item.info.get("transparency")) if "P" in item.mode else None
            self._all([item.mode, item.size, item.tobytes(), palette], depth)
        else:
            self._state(item, depth)

    def _all(self, parts: Iterable[Any], depth: int) -> None:
        for part in parts:
            self.write(part, depth)
        self.put("end")

    def _array(self, array: Any, depth: int) -> None:
        if isinstance(array, np.ma.MaskedArray):
            self._all([array.data, np.ma.getmaskarray(array)], depth)
            return
        plain = np.asarray(array)
        if names := plain.dtype.names:  # not the bytes between the fields
            self._all((part for name in names for part in (name, plain[name])), depth)
            return
        self.put("array", f"{plain.dtype.str} {plain.shape}".encode())
        if plain.dtype.hasobject:
            self._all(plain.ravel().tolist(), depth)
        else:
            self.put("bytes", _bytes_of(plain))

    def _tensor(self, tensor: Any, depth: int) -> None:
        torch = sys.modules["torch"]
        if tensor.is_nested:
            self._all(tensor.unbind(), depth)
            return
        self.put("tensor", f"{tensor.dtype} {tuple(tensor.shape)} {tensor.layout}".encode())
        if tensor.is_meta:  # it has no content
            return
        plain = tensor.detach().cpu()
        dense = (plain if plain.layout == torch.strided else plain.to_dense()).resolve_conj().resolve_neg()
        self.put("bytes", dense.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())

    def _state(self, item: Any, depth: int) -> None:
        """Write what `pickle` would store of an object."""
        try:
            reduced = item.__reduce_ex__(4)
        except TypeError:  # files, locks, and the like
            return
        except Exception:  # such as KeyError of a `__getattr__`
            reduced = (type(item), (), getattr(item, "__dict__", None))
        if isinstance(reduced, str):
            self.put("name", reduced.encode())
        else:
            self._all([part if i < 3 else list(part or ()) for i, part in enumerate(reduced[:5])], depth)


def _bytes_of(array: Any) -> bytes:
    """Return the bytes of an array without objects or fields, and without those that pad a long double.

    >>> len(_bytes_of(np.zeros((2, 3), "f4")))
    24
    """
    if array.dtype.char not in "gG" or np.finfo(np.longdouble).nmant != 63:
        return np.ascontiguousarray(array).tobytes()
    native = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    numbers = native.reshape(-1).view(np.longdouble)
    return numbers.view(np.uint8).reshape(len(numbers), -1)[:, :10].tobytes()


_ATOMS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"",
    bool: lambda value: b"1" if value else b"0",
    int: lambda value: b"%x" % value,  # decimal digits are limited
    float: lambda value: struct.pack("<d", value),
    complex: lambda value: struct.pack("<dd", value.real, value.imag),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bytes: lambda value: value,
    bytearray: bytes,
    range: lambda value: b"%x %x %x" % (value.start, value.stop, value.step),
}
