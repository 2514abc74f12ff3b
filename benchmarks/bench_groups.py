"""How often each row group of Parquet is decoded in an epoch, by two process workers.

python -m benchmarks groups
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import seqkit as sk

from .measure import consume, seconds, table

GROUPS, ROWS = 100, 500


def counted(folder: Path) -> Any:
    """Open the rows of a file, and note in another one how often a row group is decoded."""
    from seqkit.sources.parquet import ParquetRows

    class Counted(ParquetRows):
        def _file(self, number: int) -> Any:
            with open(folder / "log", "a") as log:
                print(os.getpid(), file=log)
            return super()._file(number)

    return Counted([str(folder / "a.parquet")], [[ROWS] * GROUPS], None, 1)


def epochs(rows: sk.View[Any]) -> Iterable[tuple[str, Any]]:
    def ahead(view: sk.View[Any], k: int, **options: Any) -> Any:
        return sk.batch(view, k, collate_fn=len).prefetch(2, "process", **options)

    groups = sk.shuffle_groups(rows, seed=0)
    yield "shuffle, batches of 50", ahead(sk.shuffle(rows, seed=0)[:5000], 50)
    yield "shuffle_groups, batches of 50", ahead(groups, 50)
    yield "the same in a DataLoader", sk.DataLoader(groups, 50, num_workers=2, collate_fn=len)
    yield "chunk_size=10: a group", ahead(groups, 50, chunk_size=10)
    yield "chunk_size=40: four groups", ahead(groups, 50, chunk_size=40)
    yield "batches of 48, chunk_size=10", ahead(groups, 48, chunk_size=10)
    yield "batches of 48, chunk_size=40", ahead(groups, 48, chunk_size=40)


def main() -> None:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    lines: list[tuple[str, ...]] = [("order of reading", "decodes per group", "rows a second")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        numbers = range(GROUPS * ROWS)
        rows = pa.table({"text": [f"text {i}" for i in numbers], "x": numbers})
        write_table(rows, folder / "a.parquet", row_group_size=ROWS)
        for what, batches in epochs(sk.per_process(partial(counted, folder))):
            (folder / "log").write_text("")
            with batches:
                taken = seconds(partial(consume, batches))
            n = 5000 if what.startswith("shuffle,") else len(numbers)
            decoded = len((folder / "log").read_text().split())
            lines.append((what, f"{decoded * ROWS / n:.2f}", f"{n / taken:,.0f}"))
    table("a shuffled epoch with two workers, groups of 500 rows", lines)


if __name__ == "__main__":
    main()
