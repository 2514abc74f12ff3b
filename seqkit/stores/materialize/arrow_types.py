"""The types that values have in Arrow. All items of a Parquet file have one, and only null gives way.

Arrow itself would change values silently. With a type that was found before, it cuts 1.5 to 1, drops time
zones and further keys, and makes None of missing ones.
"""

from __future__ import annotations

from datetime import date, time, timedelta
from functools import reduce
from typing import Any

import numpy as np

from ...core.errors import summary

__all__ = ["merged", "type_of"]

# Values whose lists are left to Arrow. It turns ints among floats into equal floats, or refuses them.
_PLAIN = {int, float, bool, str, bytes, type(None)}
# Values that may lose something in Arrow, such as a zone or nanoseconds.
_COMPARED = (date, time, timedelta, set, frozenset)


def type_of(value: Any, place: str = "") -> Any:
    """Return the type of a value in Arrow. Raise TypeError if Arrow cannot hold the same value.

    >>> type_of({"x": 1.5, "y": [{"z": np.int8(1)}, {"z": None}]})
    StructType(struct<x: double, y: list<item: struct<z: int8>>>)
    """
    import pyarrow as pa

    if isinstance(value, dict):
        if not value or not all(type(key) is str for key in value):
            raise TypeError(f"{place or 'the item'} must be a dict with text as keys, got {list(value)}")
        return pa.struct([(key, type_of(part, f"{place}[{key!r}]")) for key, part in value.items()])
    parts = value.tolist() if isinstance(value, np.ndarray) and value.dtype.hasobject else value
    if isinstance(parts, list | tuple) and not _PLAIN.issuperset(map(type, parts)):
        kinds = (type_of(part, f"{place}[{k}]") for k, part in enumerate(parts))
        return pa.list_(reduce(lambda known, found: merged(known, found, f"{place}[…]"), kinds))
    try:
        scalar = pa.scalar(value)
        if isinstance(value, _COMPARED) and scalar.as_py() != value:
            raise ValueError(f"it would become {scalar.as_py()!r}")
        if isinstance(value, np.ma.MaskedArray):
            raise ValueError("it would lose its mask")
    except Exception as error:
        raise TypeError(
            f"{place}, a {type(value).__name__}, is no value of Parquet: {summary(error)}. Convert it to"
            " numbers, text, bytes, dates, or one-dimensional arrays, lists or dicts of them"
        ) from error
    return scalar.type


def merged(known: Any, found: Any, place: str = "") -> Any:
    """Return the one type of values of a known type and of another one. Raise TypeError if they differ.

    >>> import pyarrow as pa
    >>> merged(pa.list_(pa.null()), pa.list_(pa.int8()))
    ListType(list<item: int8>)
    """
    from pyarrow import list_, struct, types

    if known is None or known == found or types.is_null(known):
        return found
    if types.is_null(found):
        return known
    if types.is_list(known) and types.is_list(found):
        return list_(merged(known.value_type, found.value_type, f"{place}[…]"))
    if not (types.is_struct(known) and types.is_struct(found)):
        raise TypeError(
            f"{place} is {found}, and {known} in the items before. Convert one of them, so that all have"
            " one type"
        )
    names = [field.name for field in known]
    if {*names} != {field.name for field in found}:
        raise TypeError(
            f"{place or 'the item'} has the keys {[field.name for field in found]}, and in the items before"
            f" {names}. Use None for missing values, so that all items have the same keys"
        )
    return struct(
        [
            (name, merged(known.field(name).type, found.field(name).type, f"{place}[{name!r}]"))
            for name in names
        ]
    )
