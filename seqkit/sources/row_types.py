"""The types of the items in a Parquet file: what the types of Arrow do not say.

A type is a value of JSON, kept in the metadata of the file:

=============================  ==========================================================
type                           values
=============================  ==========================================================
None                           None; the type of other items is not known yet
"int", "str", …                values of this class of Python; see `PYTHON`
["datetime", tz]               datetimes of this time zone, or without one
["timestamp", tz, unit]        the same of pandas
["scalar", dtype]              numpy scalars
["array", dtype, shape]        arrays; `shape` without the first axis, None for none
["list", type]                 lists
["tuple", [type, …]]           tuples of this length
["dict", {key: type, …}]       dicts with these keys
=============================  ==========================================================

In Parquet, arrays are lists (of lists of fixed sizes), and tuples are structs with the fields "0", "1", ….
Other programs read them as such.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Sequence
from itertools import chain, repeat
from math import prod
from typing import Any

import numpy as np

from .number_lists import number_list

__all__ = ["KEY", "decoded", "encoded", "fields_of", "is_complete", "joined", "row_type_in", "type_of"]

KEY = b"seqkit"  # of the metadata
PYTHON: dict[type, str] = {
    bool: "bool_",
    int: "int64",
    float: "float64",
    str: "string",
    bytes: "binary",
    datetime.date: "date32",
}
_WITH_UNIT: dict[type, str] = {datetime.time: "time64", datetime.timedelta: "duration"}
_NAMES = {kind.__name__: kind for kind in (*PYTHON, *_WITH_UNIT)}
_ALLOWED = (
    "Allowed are numbers, text, bytes, None, dates, arrays, and dicts, tuples and lists of them. Convert it"
)
Type = Any


# -------------------------------------------------------------------- the type of a value


def type_of(value: Any) -> Type:
    """Return the type of a value. Raise TypeError or ValueError if Parquet could not return the same value.

    >>> type_of({"x": np.zeros((2, 3), "f4"), "y": (1, [0.5])})
    ['dict', {'x': ['array', '<f4', [3]], 'y': ['tuple', ['int', ['list', 'float']]]}]
    """
    kind = type(value)
    if value is None or kind in (float, bool, str, bytes):
        if kind is str and not value.isascii():
            _check_text(value)
        return None if value is None else kind.__name__
    if kind is int:
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"{value} does not fit into int64")
        return "int"
    if isinstance(value, np.generic):
        return ["scalar", _dtype(value.dtype)]
    if kind in (np.ndarray, np.memmap):
        if 0 in value.shape[1:]:
            raise ValueError(f"an array of shape {value.shape} has no elements in an axis after the first")
        return ["array", _dtype(value.dtype), list(value.shape[1:]) if value.ndim else None]
    if isinstance(value, dict | tuple) and not value:
        raise TypeError(f"an empty {kind.__name__} has no type in Parquet. Use None")
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str:
                raise TypeError(f"keys must be text, got {key!r}")
        return ["dict", {key: _within(f"[{key!r}]", part) for key, part in value.items()}]
    if kind is tuple:
        return ["tuple", [_within(f"[{k}]", part) for k, part in enumerate(value)]]
    if isinstance(value, list):
        return ["list", _type_of_elements(value)]
    if kind is datetime.datetime:
        return ["datetime", _zone(value)]
    if (pandas := sys.modules.get("pandas")) is not None and kind is pandas.Timestamp:
        return ["timestamp", _zone(value), value.unit]
    if kind is datetime.time and value.tzinfo is not None:
        raise TypeError(f"Parquet has no time with a zone, such as {value}. Convert it")
    if kind in (datetime.date, *_WITH_UNIT):
        return kind.__name__
    raise TypeError(f"a {kind.__name__} would come back as something else. {_ALLOWED}")


def _within(place: str, part: Any) -> Type:
    try:
        return type_of(part)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{place}: {error}" if str(error)[:1] != "[" else f"{place}{error}") from None


def _type_of_elements(values: list[Any]) -> Type:
    kinds = set(map(type, values))
    if kinds == {str}:
        _check_text("".join(values))
        return "str"
    if kinds == {float}:
        return "float"
    if kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        return "int"
    found: Type = None
    for k, value in enumerate(values):
        found = _joined_at(k, found, _within(f"[{k}]", value), widens=True)
    return found


def _check_text(text: str) -> None:
    """Refuse text that is not Unicode, such as the name of a file in another encoding."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        wrong = text[error.start : error.start + 1]
        raise ValueError(f"text with {wrong!r} is no UTF-8. Use bytes, such as os.fsencode(name)") from None


def _dtype(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "U":
        return "U" if dtype.isnative else dtype.str
    unit = np.datetime_data(dtype)[0] if dtype.kind in "mM" else ""
    allowed = ("D", "s", "ms", "us", "ns")[dtype.kind == "m" :] if unit else ("",)
    if dtype.kind not in "biufmM" or dtype.itemsize > 8 or unit not in allowed or dtype.metadata:
        raise TypeError(f"Parquet has no type for the dtype {dtype}. {_ALLOWED}")
    return dtype.str


def _zone(value: datetime.datetime) -> str | None:
    import pyarrow as pa

    return pa.scalar(value).type.tz  # type: ignore[no-any-return]


def joined(known: Type, found: Type, widens: bool = False) -> Type:
    """Return the type of values of a known type and of another one. Raise TypeError if they differ.

    Ints fit among floats. With `widens`, as in a list, the first number may be an int.

    >>> joined(["list", None], ["list", "int"]), joined("float", "int")
    (['list', 'int'], 'float')
    """
    if known is None or found is None or known == found:
        return found if known is None else known
    if (known, found) == ("float", "int") or (widens and (known, found) == ("int", "float")):
        return "float"
    if isinstance(known, list) and isinstance(found, list) and known[0] == found[0]:
        if known[0] == "list":
            return ["list", joined(known[1], found[1], widens)]
        if known[0] == "tuple" and len(known[1]) == len(found[1]):
            pairs = enumerate(zip(known[1], found[1], strict=True))
            return ["tuple", [_joined_at(k, *pair, widens) for k, pair in pairs]]
        if known[0] == "dict" and known[1].keys() == found[1].keys():
            return ["dict", {key: _joined_at(key, known[1][key], found[1][key], widens) for key in known[1]}]
    raise TypeError(_difference(known, found))


def _joined_at(key: str | int, known: Type, found: Type, widens: bool) -> Type:
    try:
        return joined(known, found, widens)
    except TypeError as error:
        raise TypeError(f"[{key!r}]{error}") from None


def _difference(known: Type, found: Type) -> str:
    if isinstance(known, list) and isinstance(found, list) and known[0] == found[0] == "dict":
        return f" has the keys {list(found[1])}, in the items before {list(known[1])}"
    loss = ", and would be truncated" if (known, found) == ("int", "float") else ""
    return f" is {_shown(found)}, in the items before {_shown(known)}{loss}"


def _shown(kind: Type) -> str:
    if not isinstance(kind, list):
        return str(kind)
    if kind[0] == "array":
        shape = "()" if kind[2] is None else f"({', '.join(['n', *map(str, kind[2])])})"
        return f"an array of {np.dtype(kind[1])} {shape}"
    if kind[0] == "scalar":
        return f"numpy.{np.dtype(kind[1])}"
    if kind[0] == "tuple":
        return f"a tuple of {len(kind[1])}"
    is_time = kind[0] in ("datetime", "timestamp")
    return f"a {kind[0]} of the zone {kind[1]}" if is_time else f"a {kind[0]}"


def is_complete(kind: Type) -> bool:
    """Return whether no part of a type is unknown."""
    if not isinstance(kind, list) or kind[0] in ("scalar", "array", "datetime", "timestamp"):
        return kind is not None
    parts = kind[1].values() if kind[0] == "dict" else kind[1] if kind[0] == "tuple" else [kind[1]]
    return all(map(is_complete, parts))


# -------------------------------------------------------------------- to Arrow


def encoded(kind: Type, values: Sequence[Any]) -> Any:
    """Return an array of Arrow with values of a type, or None."""
    import pyarrow as pa

    name = kind[0] if isinstance(kind, list) else None
    if name in (None, "datetime", "timestamp"):
        return pa.array(values, _arrow_type(kind))
    nulls = np.fromiter((value is None for value in values), bool, len(values))
    if name == "scalar" or (name == "array" and kind[2] is None):
        if nulls.any() and np.dtype(kind[1]).kind in "mM":
            raise TypeError("None would come back as NaT among dates of numpy. Use NaT")
        filler = np.zeros((), kind[1])
        return _flat(kind[1], np.array([filler if value is None else value for value in values]), nulls)
    if name == "array":
        rows = [np.ascontiguousarray(value).reshape(-1) for value in values if value is not None]
        inner = _flat(kind[1], np.concatenate(rows) if rows else np.empty(0, kind[1]))
        for size in reversed(kind[2]):
            inner = pa.FixedSizeListArray.from_arrays(inner, size)
        return _listed(inner, values, nulls)
    if name == "list":
        inner = encoded(kind[1], list(chain.from_iterable(value for value in values if value is not None)))
        return _listed(inner, values, nulls)
    parts = fields_of(kind)
    keys = parts if name == "dict" else range(len(parts))
    columns = [
        encoded(part, [None if value is None else value[key] for value in values])
        for key, part in zip(keys, parts.values(), strict=True)
    ]
    return pa.StructArray.from_arrays(columns, names=list(parts), mask=pa.array(nulls))


def _dtype_of_numbers(kind: Type) -> Any:
    """Return the dtype of the numbers in nested lists, or None if they are not lists of numbers."""
    while isinstance(kind, list) and kind[0] == "list":
        kind = kind[1]
    return np.dtype(PYTHON[_NAMES[kind]]) if kind in ("int", "float", "bool") else None


def fields_of(kind: Type) -> dict[str, Type]:
    """Return the types of the fields of a struct."""
    if kind[0] == "dict":
        return dict(kind[1])
    return {str(k): part for k, part in enumerate(kind[1])}


def _arrow_type(kind: Type) -> Any:
    import pyarrow as pa

    if kind is None:
        return pa.null()
    if isinstance(kind, list):
        return pa.timestamp("us" if kind[0] == "datetime" else kind[2], kind[1])
    python = _NAMES[kind]
    return getattr(pa, _WITH_UNIT[python])("us") if python in _WITH_UNIT else getattr(pa, PYTHON[python])()


def _flat(dtype: str, values: Any, nulls: Any = None) -> Any:
    import pyarrow as pa

    if values.dtype.kind in "mM":  # with a mask, pyarrow takes some NaT for dates
        nulls = np.isnat(values)
    return pa.array(values.astype(np.dtype(dtype).newbyteorder("="), copy=False), mask=nulls)


def _listed(inner: Any, values: Sequence[Any], nulls: Any) -> Any:
    """Return an array of lists of the lengths of `values`. `inner` has the elements of all."""
    import pyarrow as pa

    ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)])
    offsets = pa.array(ends, pa.int32())  # raises ArrowInvalid for more than 2**31 elements
    return pa.ListArray.from_arrays(offsets, inner, mask=pa.array(nulls))


# -------------------------------------------------------------------- from Arrow


def row_type_in(metadata: dict[bytes, bytes] | None) -> Type:
    """Return the type of rows that the metadata of a table say, or None."""
    if not metadata or KEY not in metadata:
        return None
    found = json.loads(metadata[KEY])
    if found["version"] != 1:
        raise ValueError(f"parquet: rows have format {found['version']}, this seqkit knows 1. Update seqkit.")
    return found["row"]


def decoded(kind: Type, column: Any) -> list[Any]:
    """Return the values of an array of Arrow."""
    if not isinstance(kind, list) or kind[0] == "datetime":
        return column.to_pylist()  # type: ignore[no-any-return]
    if kind[0] == "timestamp":
        import pandas as pd

        return [None if time is None else pd.Timestamp(time).as_unit(kind[2]) for time in column.to_pylist()]
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else repeat(False)
    name = kind[0]
    if name == "scalar" or (name == "array" and kind[2] is None):
        values = _numpy(kind[1], column)
        if np.dtype(kind[1]).kind in "mM":
            nulls = repeat(False)  # they are NaT
        return [
            None if null else value if name == "scalar" else np.array(value)
            for value, null in zip(values, nulls, strict=False)
        ]
    if name in ("array", "list"):
        offsets = column.offsets.to_numpy()
        inner = column.values.slice(offsets[0], offsets[-1] - offsets[0])
        ends = (offsets - offsets[0]).tolist()
        rows = list(zip(ends, ends[1:], nulls, strict=False))
        if name == "list":
            values, dtype = decoded(kind[1], inner), _dtype_of_numbers(kind)
            lists = [None if null else values[i:j] for i, j, null in rows]
            return lists if dtype is None else [number_list(each, dtype) for each in lists]
        for _ in kind[2]:
            inner = inner.flatten()
        size, flat = prod(kind[2]), _numpy(kind[1], inner)
        found = [flat[i * size : j * size].reshape(j - i, *kind[2]).copy() for i, j, _ in rows]
        if kind[1] == "U":  # as wide as the longest text of the row
            found = [np.array(row.tolist(), "U").reshape(row.shape) for row in found]
        return [None if null else row for row, null in zip(found, nulls, strict=False)]
    columns = {key: decoded(part, column.field(key)) for key, part in fields_of(kind).items()}
    made: Any = zip(*columns.values(), strict=True)
    if name == "dict":
        made = [dict(zip(columns, row, strict=True)) for row in made]
    return [None if null else row for row, null in zip(made, nulls, strict=False)]


def _numpy(dtype: str, column: Any) -> Any:
    if np.dtype(dtype).kind == "U":
        return np.array(["" if text is None else text for text in column.to_pylist()], "U")
    if column.null_count and np.dtype(dtype).kind not in "mM":
        column = column.fill_null(False if np.dtype(dtype).kind == "b" else 0)
    return column.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
