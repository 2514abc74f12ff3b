"""Write dicts to a folder of Parquet files."""

from __future__ import annotations

import base64
import json
import os
from datetime import date, time, timedelta
from functools import reduce
from typing import Any, NoReturn

import numpy as np

from ...core.errors import summary
from ...core.lazy import need
from ...core.view import View
from ...core.whole_files import replace_file
from ...sources.parquet import PLAN, SUCCESS, parquet, part_names
from ..files import refuse_other
from .attempts import report_failed

__all__ = ["ParquetFolder"]

KEY = b"seqkit"  # of the metadata
# Values whose lists are left to Arrow. It turns ints among floats into equal floats, or refuses them.
_PLAIN = {int, float, bool, str, bytes, type(None)}
# Values that may lose something in Arrow, such as a zone or nanoseconds.
_COMPARED = (date, time, timedelta, set, frozenset)


class ParquetFolder:
    """Writes each part to a file with one row group.

    The metadata of a part have the plan, and the errors of its items that are left out. The type of the items
    is that of a struct of Arrow.
    """

    kind: Any = None

    def __init__(self, path: str) -> None:
        self.folder = path

    def is_finished(self, wanted: dict[str, Any]) -> bool:
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        if SUCCESS not in names:
            if (names and PLAN not in names) or (not names and os.path.isfile(self.folder)):
                self._refuse()
            return False
        try:
            plan = json.loads(self._metadata("part-000000.parquet")[KEY])["plan"]
        except (KeyError, OSError):
            self._refuse()
        refuse_other(plan, wanted, f"materialize: {self.folder}")
        if PLAN in names:  # it was finished, and killed before the last step
            os.unlink(os.path.join(self.folder, PLAN))
        return True

    def _refuse(self) -> NoReturn:
        raise FileExistsError(
            f"materialize: {self.folder!r} exists already, and materialize did not write it. Delete it, or"
            " write somewhere else."
        )

    def begin(self, first: Any, n: int) -> None:
        need("pyarrow", "materialize: .parquet")
        self.kind, _ = self.keep(None, first)

    def resume(self, plan: dict[str, Any]) -> list[int]:
        self._plan = plan
        self._names = part_names(plan["n"], plan["k"])
        # The type of each part, and the errors of the items that it left out.
        self._written: dict[int, tuple[Any, dict[str, str]]] = {}
        missing = []
        for p in range(len(self._names)):
            try:
                self.check(p)
            except (FileNotFoundError, TypeError):  # it was not written, or refused afterwards
                missing.append(p)
        return missing

    def keep(self, kind: Any, item: Any) -> tuple[Any, Any]:
        if not isinstance(item, dict):
            raise TypeError(
                f".parquet needs dicts, got {type(item).__name__}. Use .npy for numbers and arrays, or return"
                " {'x': item}"
            )
        return merged(kind, type_of(item)), item

    def write(self, p: int, kind: Any, rows: dict[int, Any], failed: dict[int, str]) -> None:
        import pyarrow as pa

        columns = pa.RecordBatch.from_struct_array(pa.array([*rows.values()], kind or pa.struct([])))
        about = json.dumps({"plan": self._plan, "failed": failed}).encode()
        self._replace(self._names[p], pa.Table.from_batches([columns]).replace_schema_metadata({KEY: about}))

    def _replace(self, name: str, table: Any) -> None:
        from pyarrow.parquet import write_table

        def write(file: Any) -> None:
            write_table(table, file, row_group_size=max(1, len(table)))

        replace_file(os.path.join(self.folder, name), write)

    def check(self, p: int) -> None:
        import pyarrow as pa

        metadata = self._metadata(self._names[p])
        # The schema that Arrow adds has the types of the items. Parquet itself has no seconds, for one.
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(metadata[b"ARROW:schema"])))
        kind = pa.struct(list(schema))
        if kind.num_fields:  # otherwise all of the first items that were computed failed
            self.kind = merged(self.kind, kind)
        self._written[p] = kind, json.loads(metadata[KEY])["failed"]

    def _metadata(self, name: str) -> dict[bytes, bytes]:
        from pyarrow.parquet import read_metadata

        return read_metadata(os.path.join(self.folder, name)).metadata or {}

    def finish(self) -> None:
        failed = {int(i): text for _, failed in self._written.values() for i, text in failed.items()}
        report_failed(failed, self._plan["n"])
        for p, (kind, _) in self._written.items():
            if kind != self.kind:  # such as a column of None, whose type another part has
                self._cast(self._names[p])
        for name in os.listdir(self.folder):
            if name.startswith("."):  # a draft of a worker that was killed
                os.unlink(os.path.join(self.folder, name))
        replace_file(os.path.join(self.folder, SUCCESS), lambda file: None)
        os.unlink(os.path.join(self.folder, PLAN))

    def _cast(self, name: str) -> None:
        import pyarrow as pa
        from pyarrow.parquet import read_table

        table = read_table(os.path.join(self.folder, name), use_threads=False)
        wanted = pa.schema(list(self.kind), table.schema.metadata)
        is_empty = not len(table)
        self._replace(name, wanted.empty_table() if is_empty else table.select(wanted.names).cast(wanted))

    def view(self) -> View[Any]:
        return parquet(self.folder)


# -------------------------------------------------------------------- types
#
# All items have one type, and only null gives way. Arrow itself would change values silently: with a given
# type, it cuts 1.5 to 1, drops time zones and further keys, and makes None of missing ones.


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
