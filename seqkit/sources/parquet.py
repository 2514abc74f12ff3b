"""`parquet`: rows of Parquet files, with the row groups last used kept decoded."""

from __future__ import annotations

import json
import math
import os
import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from glob import escape, has_magic, iglob
from itertools import accumulate
from os import PathLike
from typing import Any

import numpy as np

from ..core.adapters import TableReader
from ..core.arguments import positive_int
from ..core.indices import Indices, as_array
from ..core.lazy import need
from ..core.progress import Progress, check_progress, reporting
from ..core.view import View
from ..views.bases.one_of_several import read_grouped
from .arrow import ArrowRows, kinds_of
from .columns import agreeing, as_names, check_names, listed
from .files import as_path, found, in_natural_order, name_file, naming
from .per_process import PerProcess

__all__ = ["PLAN", "SUCCESS", "ParquetRows", "parquet", "part_names"]

# Files in a folder that `materialize` writes: the plan while it does so, and an empty file at the end.
PLAN = "plan.json"
SUCCESS = "_SUCCESS"
CACHE_BYTES = 256 * 1024 * 1024


def parquet(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    columns: Sequence[str] | None = None,
    *,
    max_bytes: int = CACHE_BYTES,
    progress: Progress | None = None,
) -> View[dict[str, Any]]:
    """Return a view of the rows of Parquet files, each a dict from column to value.

    Parameters
    ----------
    path : path-like or sequence of path-like
        A file, a folder of files, or a glob pattern. Files follow each other in natural order of their names,
        and several paths in the order given. Names that begin with ``_`` or ``.`` are left out.
    columns : str or sequence of str, optional
        Names of the columns to read. None (the default): all.
    max_bytes : int
        Bytes of decoded row groups that each process keeps (1 or more). The last group is always kept. The
        default is 256 MiB.
    progress : True or callable, optional
        True shows a bar of tqdm while the files are scanned. A function is called with the number of files
        that are scanned and of all files.

    Returns
    -------
    View
        Files are scanned for their columns and rows now. Each process opens them when it first needs them.
        Folders named ``year=2020`` below `path` add a column ``year``.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ValueError
        If files have different columns, or columns of different types, or if a column does not exist. If two
        columns have one name. If `materialize` did not finish the folder.
    ImportError
        If pyarrow is not installed.
    pyarrow.ArrowInvalid
        If a file has another format.

    Notes
    -----
    A row costs about 1 µs per column if its group is decoded. In random order each read may decode a whole
    group: use `shuffle_groups`, which reads one group after the other. One file is open at a time.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet
    >>> path = getfixture("tmp_path") / "cities.parquet"
    >>> pyarrow.parquet.write_table(pa.table({"city": ["Oslo", "Rome"], "people": [7, 28]}), path)
    >>> parquet(path)[1], list(parquet(path, ["city"]))
    ({'city': 'Rome', 'people': 28}, [{'city': 'Oslo'}, {'city': 'Rome'}])
    """
    check_progress(progress, "parquet: progress")
    max_bytes = positive_int(max_bytes, "parquet: max_bytes")
    chosen = as_names(columns, "parquet: columns")
    need("pyarrow", "parquet")
    paths, partitions = zip(*_paths(path), strict=True)
    files = []
    with reporting(progress, "parquet") as report:
        for each in zip(paths, partitions, strict=True):
            files.append(_scanned(*each))
            report(len(files), len(paths))
    sizes, kinds = zip(*files, strict=True)
    names = agreeing("parquet", paths, kinds, [chosen] if isinstance(chosen, str) else chosen)
    open_fn = partial(ParquetRows, paths, sizes, names, max_bytes, partitions)
    return PerProcess(open_fn, "parquet", os.path.commonpath(paths))


# -------------------------------------------------------------------- files and partitions


def _paths(path: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the path of each file, and the columns that the names of its folders give."""
    if isinstance(path, Iterable) and not isinstance(path, str | PathLike):
        return [pair for each in path for pair in _paths(each)]
    name = as_path(path, "parquet")
    base = name if os.path.isdir(name) else _base(name)
    paths = [each for each in _files(name) if not re.search(r"(^|[/\\])_", os.path.relpath(each, base))]
    if not paths:
        raise FileNotFoundError(f"parquet: there is no Parquet file at {name!r}. Check the path.")
    if not any("=" in os.path.relpath(each, base) for each in paths):
        return [(each, {}) for each in paths]
    from pyarrow.dataset import dataset, get_partition_keys, partitioning

    hive = partitioning(flavor="hive")
    files = dataset(paths, format="parquet", partitioning=hive, partition_base_dir=base).get_fragments()
    return [
        (each, get_partition_keys(file.partition_expression)) for each, file in zip(paths, files, strict=True)
    ]


def _files(path: str) -> list[str]:
    if os.path.isdir(path):
        _refuse_unfinished(path)
        return found(path, "parquet", (".parquet",))
    if os.path.exists(path):
        return [path]
    each = [_files(name) if os.path.isdir(name) else [name] for name in iglob(path, recursive=True)]
    unique = {name for names in each for name in names}
    return in_natural_order(unique)


def part_names(items: int, rows: int) -> list[str]:
    """Return the names of the files in which `materialize` keeps a number of items, `rows` in each."""
    return [f"part-{p:06}.parquet" for p in range(math.ceil(items / rows))]


def _refuse_unfinished(path: str) -> None:
    """Raise ValueError if `materialize` did not finish a folder at or below a path."""
    for plan in iglob(os.path.join(escape(path), "**", PLAN), recursive=True):
        with open(plan, encoding="utf-8") as file:
            text = file.read()
        folder = os.path.dirname(plan)
        if '"seqkit"' not in text or os.path.exists(os.path.join(folder, SUCCESS)):
            continue
        found = json.loads(text)
        names = part_names(found["n"], found["k"])
        missing = [name for name in names if not os.path.exists(os.path.join(folder, name))]
        raise ValueError(
            f"parquet: {folder} is not complete. Of its {len(names)} parts, {len(missing)} are missing:"
            f" {listed(missing)}. Call materialize again to finish it, or delete it."
        )


def _base(path: str) -> str:
    """Return the folder in which a pattern begins to choose, or that of a file."""
    while has_magic(path):
        path = os.path.dirname(path)
    return path if os.path.isdir(path) else os.path.dirname(path)


# -------------------------------------------------------------------- columns


def _scanned(path: str, partition: dict[str, Any]) -> tuple[list[int], dict[str, str]]:
    """Return the rows of each row group of a file, and the kind of each column."""
    from pyarrow.parquet import read_metadata

    with naming(path):
        metadata = read_metadata(path)
        schema = metadata.schema.to_arrow_schema()
    check_names([*schema.names, *partition], path, "parquet")
    sizes = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
    return sizes, kinds_of(schema) | dict.fromkeys(partition, "")


# -------------------------------------------------------------------- rows


class ParquetRows(TableReader):
    """The rows of opened Parquet files.

    Parameters
    ----------
    paths : sequence of str
    sizes : sequence of list of int
        The number of rows of each row group, for each file.
    names : sequence of str
        The columns.
    max_bytes : int
    partitions : sequence of dict
        Further columns of each file, which have one value.
    """

    takes_arrays = True  # of indices

    def __init__(
        self,
        paths: Sequence[str],
        sizes: Sequence[list[int]],
        names: Sequence[str],
        max_bytes: int,
        partitions: Sequence[dict[str, Any]],
    ) -> None:
        self._arguments = paths, sizes, max_bytes, partitions
        self._paths, self._partitions, self._max_bytes = paths, partitions, max_bytes
        self.names = tuple(names)
        self._groups = [(file, k) for file, groups in enumerate(sizes) for k in range(len(groups))]
        self.group_sizes = [rows for groups in sizes for rows in groups]
        self._ends = list(accumulate(self.group_sizes))
        self._decoded: OrderedDict[int, ArrowRows] = OrderedDict()
        self._opened: tuple[int, Any] = (-1, None)  # the file that was read last

    def __len__(self) -> int:
        return sum(self.group_sizes)

    def __getitem__(self, i: int) -> dict[str, Any]:
        group = bisect_right(self._ends, i)
        try:
            return self._table(group)[i - self._ends[group] + self.group_sizes[group]]  # type: ignore[no-any-return]
        except Exception as error:
            name_file(error, self._paths[self._groups[group][0]])
            raise

    def __getitems__(self, indices: Indices) -> Sequence[Any]:
        wanted = as_array(indices)
        groups = np.searchsorted(self._ends, wanted, side="right")

        def read(group: int, positions: Any) -> Sequence[Any]:
            rows = wanted[positions] - self._ends[group] + self.group_sizes[group]
            with naming(self._paths[self._groups[group][0]]):
                return self._table(group).__getitems__(rows)

        return read_grouped(groups, read)

    def select(self, names: Sequence[str]) -> ParquetRows:
        paths, sizes, max_bytes, partitions = self._arguments
        return ParquetRows(paths, sizes, names, max_bytes, partitions)

    def _table(self, group: int) -> ArrowRows:
        """Return the rows of a row group, decoded now or before."""
        if group in self._decoded:
            self._decoded.move_to_end(group)
            return self._decoded[group]
        self._decoded[group] = rows = ArrowRows(self._decode(*self._groups[group]))
        while len(self._decoded) > 1 and sum(r.nbytes for r in self._decoded.values()) > self._max_bytes:
            self._decoded.popitem(last=False)
        return rows

    def _decode(self, file: int, number: int) -> Any:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile

        if self._opened[0] != file:
            self._opened = file, ParquetFile(self._paths[file], memory_map=True)
        partition = self._partitions[file]
        names = [name for name in self.names if name not in partition]
        table = self._opened[1].read_row_group(number, columns=names, use_threads=False).combine_chunks()
        for key, value in partition.items():
            table = table.append_column(key, pa.array([value] * table.num_rows))
        return table.select(self.names)
