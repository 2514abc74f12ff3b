"""Write dicts to a folder of Parquet files."""

from __future__ import annotations

import base64
import json
import os
from typing import Any, NoReturn

from ...core.lazy import need
from ...core.view import View
from ...sources.parquet import PLAN, SUCCESS, parquet, part_names
from ..directory import replace_file
from .arrow_types import merged, type_of
from .plan import Plan, refuse_other

__all__ = ["ParquetFolder"]

KEY = b"seqkit"  # of the metadata


class ParquetFolder:
    """Writes each part to a file with one row group.

    The metadata of a part have the plan, and the errors of its items that are left out. The type of the items
    is that of a struct of Arrow.
    """

    kind: Any = None

    def __init__(self, path: str) -> None:
        self.folder = path

    def is_finished(self, wanted: Plan) -> bool:
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        if SUCCESS not in names:
            if (names and PLAN not in names) or (not names and os.path.isfile(self.folder)):
                self._refuse()
            return False
        try:
            plan = self._about("part-000000.parquet")["plan"]
        except (KeyError, OSError):
            self._refuse()
        refuse_other(plan, wanted, self.folder)
        return True

    def _refuse(self) -> NoReturn:
        raise FileExistsError(
            f"materialize: {self.folder!r} exists already, and materialize did not write it. Delete it, or"
            " write somewhere else."
        )

    def begin(self, first: Any, n: int) -> None:
        need("pyarrow", "materialize: .parquet")
        self.kind, _ = self.keep(None, first)

    def resume(self, plan: Plan) -> list[int]:
        self._plan = plan
        self._names = part_names(plan["n"], plan["k"])
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

        columns = pa.RecordBatch.from_struct_array(pa.array([*rows.values()], kind))
        about = json.dumps({"plan": self._plan, "failed": failed}).encode()
        self._replace(self._names[p], pa.Table.from_batches([columns]).replace_schema_metadata({KEY: about}))

    def _replace(self, name: str, table: Any) -> None:
        from pyarrow.parquet import write_table

        def write(file: Any) -> None:
            write_table(table, file, row_group_size=max(1, len(table)))

        replace_file(os.path.join(self.folder, name), write)

    def check(self, p: int) -> None:
        self.kind = merged(self.kind, self._kind_of(self._names[p]))

    def _metadata(self, name: str) -> dict[bytes, bytes]:
        from pyarrow.parquet import read_metadata

        return read_metadata(os.path.join(self.folder, name)).metadata or {}

    def _about(self, name: str) -> dict[str, Any]:
        about: dict[str, Any] = json.loads(self._metadata(name)[KEY])
        return about

    def _kind_of(self, name: str) -> Any:
        """Return the type that items had when they were written. Parquet itself has no seconds, for one."""
        import pyarrow as pa

        stored = base64.b64decode(self._metadata(name)[b"ARROW:schema"])
        return pa.struct(list(pa.ipc.read_schema(pa.py_buffer(stored))))

    def failed(self) -> dict[int, str]:
        parts = [self._about(name)["failed"] for name in self._names]
        return {int(i): text for failed in parts for i, text in failed.items()}

    def finish(self) -> None:
        for name in self._names:
            if self._kind_of(name) != self.kind:  # such as a column of None, whose type another part has
                self._cast(name)
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
        self._replace(name, table.select(wanted.names).cast(wanted))

    def view(self) -> View[Any]:
        return parquet(self.folder)
