"""The file format of `pack`: ``| magic | length of header | header: JSON | arrays |``.

Each array starts at a multiple of 64 bytes.
"""

from __future__ import annotations

import json
import mmap
import os
from ast import literal_eval
from typing import Any, BinaryIO, NoReturn

import numpy as np

from ..files import replace_file
from .layouts import LAYOUTS, Array, Layout, Pieces

__all__ = ["read_layout", "write_layout"]

_MAGIC = b"\x93SEQPACK"
_ALIGNMENT = 64
_VERSION = 1


def _aligned(offset: int) -> int:
    return offset + -offset % _ALIGNMENT


def write_layout(layout: Layout, path: str) -> None:
    """Write a layout to a file. An existing file is replaced when the new one is complete."""
    arrays = [np.ascontiguousarray(values) for values in layout.arrays()]
    described, end = [], 0
    for values in arrays:
        dtype = repr(np.lib.format.dtype_to_descr(values.dtype))
        described.append({"dtype": dtype, "shape": values.shape, "offset": end})
        end = _aligned(end + values.nbytes)
    header = {"version": _VERSION, "kind": layout.kind, "arrays": described, "bytes": end}
    text = json.dumps(header).encode()

    def write(file: BinaryIO) -> None:
        file.write(_MAGIC + len(text).to_bytes(8, "little") + text)
        for values in arrays:
            file.write(bytes(_aligned(file.tell()) - file.tell()))
            file.write(values.reshape(-1).view(np.uint8).data if values.size else b"")
        file.write(bytes(_aligned(file.tell()) - file.tell()))

    replace_file(path, write)


def read_layout(path: str) -> Layout:
    """Return the layout in a file, mapped into memory."""
    with open(path, "rb") as file:
        start = file.read(len(_MAGIC) + 8)
        if start[: len(_MAGIC)] != _MAGIC:
            _refuse(path, "is not a file of packed items")
        length = int.from_bytes(start[len(_MAGIC) :], "little")
        try:
            header = json.loads(file.read(length))
            version, end = header["version"], header["bytes"]
        except (ValueError, LookupError, TypeError, MemoryError, OverflowError):
            _refuse(path, "is damaged: its header cannot be read")
        if version != _VERSION:
            _refuse(path, f"has format {version}, this seqkit knows {_VERSION}")
        begin = _aligned(len(start) + length)
        if os.fstat(file.fileno()).st_size != begin + end:
            _refuse(path, f"is damaged: it should have {begin + end} bytes")
        block = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        layout: Layout = LAYOUTS[header["kind"]](*(_mapped(block, begin, one) for one in header["arrays"]))
        _check(layout)
    except (ValueError, LookupError, TypeError, SyntaxError):
        _refuse(path, "is damaged: its header does not fit its content")
    return layout


def _mapped(block: mmap.mmap, begin: int, described: Any) -> Array:
    dtype = np.lib.format.descr_to_dtype(literal_eval(described["dtype"]))
    shape = tuple(described["shape"])
    return np.ndarray(shape, dtype, block, begin + described["offset"])


def _check(layout: Layout) -> None:
    if isinstance(layout, Pieces):
        values, starts = layout.arrays()
        if starts[0] != 0 or starts[-1] != len(values):
            raise ValueError("pieces do not cover the values")


def _refuse(path: str, why: str) -> NoReturn:
    raise ValueError(f"load_packed: {path} {why}")
