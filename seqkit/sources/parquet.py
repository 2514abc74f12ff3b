"""`parquet`: rows of Parquet files, with the row groups last used kept decoded."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from glob import escape, glob
from itertools import accumulate
from os import PathLike, fspath
from typing import Any

import numpy as np

from ..checks import check_callable, positive_int
from ..errors import brief
from ..view import View
from ..views.several import read_grouped
from .arrow import Rows
from .files import Progress, natural
from .per_process import PerProcess

__all__ = ["ParquetRows", "parquet"]

CACHE_BYTES = 256 * 1024 * 1024


def parquet(
    path: str | PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    cache_bytes: int = CACHE_BYTES,
    progress: Progress | None = None,
) -> View[dict[str, Any]]:
    """Return a view of the rows of Parquet files, each a dict from column to value.

    Parameters
    ----------
    path : path-like
        A file, a folder of files, or a glob pattern. Files follow each other in natural order of their names.
    columns : str or sequence of str, optional
        Names of the columns to read. None (the default): all.
    cache_bytes : int
        Bytes of decoded row groups that each process keeps (1 or more). The last group is always kept. The
        default is 256 MiB.
    progress : callable, optional
        Called with the number of files whose size is known and the number of files, while they are scanned.

    Returns
    -------
    View
        Files are scanned for their number of rows now. Each process opens them when it first needs them.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    pyarrow.ArrowInvalid
        If a file has another format.

    Notes
    -----
    A row costs about 1 µs per column if its group is decoded. In random order each read may decode a whole
    group: use `shuffle_groups`, which reads one group after the other.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet
    >>> path = getfixture("tmp_path") / "cities.parquet"
    >>> pyarrow.parquet.write_table(pa.table({"city": ["Oslo", "Rome"], "people": [7, 28]}), path)
    >>> parquet(path)[1], list(parquet(path, ["city"]))
    ({'city': 'Rome', 'people': 28}, [{'city': 'Oslo'}, {'city': 'Rome'}])
    """
    check_callable(progress, "parquet: progress", optional=True)
    cache_bytes = positive_int(cache_bytes, "parquet: cache_bytes")
    paths = _paths(fspath(path))
    if columns is not None:
        columns = _known_columns(paths[0], columns)
    sizes = [_group_sizes(each, number, len(paths), progress) for number, each in enumerate(paths, 1)]
    return PerProcess(partial(ParquetRows, paths, sizes, columns, cache_bytes))


def _paths(path: str) -> list[str]:
    if os.path.isdir(path):
        found = glob(os.path.join(escape(path), "**", "*.parquet"), recursive=True)
    else:
        found = [path] if os.path.exists(path) else glob(path, recursive=True)
    if not found:
        raise FileNotFoundError(f"parquet: there is no Parquet file at {path!r}")
    return sorted(found, key=natural)


def _known_columns(path: str, columns: Sequence[str]) -> list[str]:
    """Return the names of columns. pyarrow would leave out names that the file lacks."""
    from pyarrow.parquet import read_schema

    names = [columns] if isinstance(columns, str) else list(columns)
    known = read_schema(path).names
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"parquet: columns must be among {brief(known)}, got {brief(missing)}")
    return names


def _group_sizes(path: str, number: int, total: int, progress: Progress | None) -> list[int]:
    from pyarrow.parquet import read_metadata

    metadata = read_metadata(path)
    if progress is not None:
        progress(number, total)
    return [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]


class ParquetRows:
    """The rows of opened Parquet files.

    Parameters
    ----------
    paths : list of str
    sizes : list of list of int
        Rows of each row group of each file.
    columns : sequence of str or None
    cache_bytes : int
    """

    takes_arrays = True  # of indices

    def __init__(
        self, paths: list[str], sizes: list[list[int]], columns: Sequence[str] | None, cache_bytes: int
    ) -> None:
        self._paths = paths
        self._columns = None if columns is None else list(columns)
        self._cache_bytes = cache_bytes
        self._groups = [(file, k) for file, groups in enumerate(sizes) for k in range(len(groups))]
        self.group_sizes = [rows for groups in sizes for rows in groups]
        self._ends = list(accumulate(self.group_sizes))
        self._files: dict[int, Any] = {}
        self._decoded: OrderedDict[int, Any] = OrderedDict()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, i: int) -> dict[str, Any]:
        if not 0 <= i < len(self):
            raise IndexError(f"row {i} is out of range for {len(self)} rows")
        group = bisect_right(self._ends, i)
        row: dict[str, Any] = Rows(self._table(group))[i - self._ends[group] + self.group_sizes[group]]
        return row

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        wanted = np.asarray(indices, np.int64)
        groups = np.searchsorted(self._ends, wanted, side="right")

        def read(group: int, positions: Any) -> list[dict[str, Any]]:
            rows = wanted[positions] - self._ends[group] + self.group_sizes[group]
            return self._table(group).take(rows).to_pylist()  # type: ignore[no-any-return]

        return read_grouped(groups, read)

    def _table(self, group: int) -> Any:
        """Return a row group, decoded now or before."""
        if group in self._decoded:
            self._decoded.move_to_end(group)
            return self._decoded[group]
        file, number = self._groups[group]
        table = self._file(file).read_row_group(number, columns=self._columns, use_threads=False)
        self._decoded[group] = table = table.combine_chunks()
        while len(self._decoded) > 1 and sum(t.nbytes for t in self._decoded.values()) > self._cache_bytes:
            self._decoded.popitem(last=False)
        return table

    def _file(self, number: int) -> Any:
        if number not in self._files:
            from pyarrow.parquet import ParquetFile

            self._files[number] = ParquetFile(self._paths[number], memory_map=True)
        return self._files[number]

    def close(self) -> None:
        for file in self._files.values():
            file.close()
