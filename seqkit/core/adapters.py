"""Sources that need help before a view can wrap them, recognised by the names of their types.

The core holds the table of names below. It imports `seqkit.sources` only when an object of one of these types
is used, and never imports the libraries themselves.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Set
from importlib import import_module
from typing import Any

import numpy as np

from .indices import UNKNOWN, Length
from .randomness import generators_kept

__all__ = ["first_failing", "length_of", "many_at_once", "reads_alike", "recognise"]

# Package and class, and the class or function of `sources` that returns it as a sequence by position.
READERS = {
    ("pandas", "DataFrame"): "pandas:PandasRows",
    ("pandas", "Series"): "pandas:PandasColumn",
    ("pandas", "Index"): "pandas:PandasColumn",
    ("polars", "DataFrame"): "polars:PolarsRows",
    ("polars", "Series"): "polars:PolarsColumn",
    ("pyarrow", "Table"): "arrow:ArrowRows",
    ("pyarrow", "RecordBatch"): "arrow:ArrowRows",
    ("pyarrow", "ChunkedArray"): "arrow:ArrowColumn",
    ("pyarrow", "Array"): "arrow:ArrowColumn",
    ("datasets", "Dataset"): "huggingface:as_rows",
    ("datasets", "Column"): "huggingface:HuggingFaceColumn",
    ("h5py", "Dataset"): "hdf5:Hdf5Rows",
    ("zarr", "Array"): "zarr:ZarrRows",
}
# Package and class, and what to use in its place.
REMEDIES = {
    ("polars", "LazyFrame"): "Call .collect() first",
    ("pyarrow", "Dataset"): "Use sources.parquet(folder), or call .to_table() first",
    ("pyarrow", "ParquetFile"): "Use sources.parquet(path)",
    ("pyarrow", "RecordBatchReader"): "Call .read_all() first",
    ("pandas", "DataFrameGroupBy"): "Make a list of its groups: [frame for _, frame in groups]",
    ("datasets", "DatasetDict"): "Choose a split, such as data['train']",
    ("datasets", "IterableDataset"): "Use uniter, or load the data set without streaming=True",
    (
        "h5py",
        "File",
    ): "Choose a data set, such as file['images'], or use sources.hdf5(path, name)",
    ("h5py", "Group"): "Choose a data set of the group, such as group['images']",
    ("zarr", "Group"): "Choose an array of the group, such as group['images']",
    ("numpy", "NpzFile"): "Choose an array, such as file['images'], or use sources.npz(path)",
    ("zipfile", "ZipFile"): "Use sources.zip_members(path)",
    ("tarfile", "TarFile"): "Use sources.tar_members(path)",
    ("sqlite3", "Connection"): "Use sources.sqlite(path, query)",
    ("seqkit", "DataLoader"): "Use its batches as a view: loader.view",
    ("seqkit", "Stream"): "Use uniter(stream), or iterate it",
}
PLAIN = {list, tuple, range, str, bytes, np.ndarray}


def recognise(source: Any, who: str) -> Any:
    """Return an object that is read by position: `source` itself, or a wrapper for a known type.

    Raises
    ------
    TypeError
        If the type is known not to be a sequence. The message says what to use.

    >>> recognise({3, 1}, "batch")
    Traceback (most recent call last):
    TypeError: batch: a set has no order, got set. Use sorted(s) or list(s).
    """
    kind = type(source)
    if kind in PLAIN:
        return source
    for base in kind.__mro__:
        name = base.__module__.partition(".")[0], base.__name__
        if name in READERS:
            module, reader = READERS[name].split(":")
            return getattr(import_module(f"seqkit.sources.{module}"), reader)(source)
        if name in REMEDIES:
            raise TypeError(f"{who}: a {name[0]}.{name[1]} is not a sequence of items. {REMEDIES[name]}.")
    _refuse_builtins(source, who)
    return source


def _refuse_builtins(source: Any, who: str) -> None:
    kind = type(source).__name__
    if isinstance(source, Set) and not hasattr(source, "__getitem__"):
        raise TypeError(f"{who}: a set has no order, got {kind}. Use sorted(s) or list(s).")
    if isinstance(source, Generator):
        raise TypeError(
            f"{who}: a generator can be read only once and not by position, got {kind}. Use list(generator)"
            " if the items fit in memory, or uniter with an object that can be iterated again."
        )
    # A DataLoader may have a sampler that gives keys.
    if not isinstance(source, Mapping) or hasattr(source, "__missing__") or who == "DataLoader":
        return
    if source and 0 not in source:
        first = next(iter(source))
        raise TypeError(
            f"{who}: items are read at 0, 1, 2, …, and this {kind} has other keys, such as {first!r}. For"
            " a dict of columns use collate(d), for a dict of items list(d.values()), or a DataLoader with a"
            " sampler of its keys."
        )


def many_at_once(data: Any, indices: Any) -> Any:
    """Return the items that ``data.__getitems__`` gives for some indices."""
    items = data.__getitems__(indices)
    if isinstance(items, Mapping | str | bytes):
        raise TypeError(f"__getitems__ returned a {type(items).__name__}, not a list of {len(indices)} items")
    if len(items) != len(indices):
        raise ValueError(f"__getitems__ returned {len(items)} items for {len(indices)} indices")
    return items


def first_failing(data: Any, indices: Any, error: Exception) -> Any:
    """Return the first index at which an object raises an error of the same type, or None."""
    with generators_kept():
        for index in indices:
            try:
                data[index]
            except type(error):
                return index
            except Exception:
                return None
    return None


def reads_alike(data: Any, index: Any, item: Any) -> bool:
    """Return whether `item`, which ``data.__getitems__`` gave for an index, is what ``data[index]`` gives.

    Compares types, those of the parts of a dict, tuple or array too. The global generators stay where they
    are. Arrays, readers of seqkit, and data sets that are parts of others are believed.

    >>> class Table:
    ...     def __getitem__(self, i):
    ...         return {"x": np.float64(i)}
    >>> reads_alike(Table(), 3, {"x": np.float64(3)}), reads_alike(Table(), 3, {"x": 3.0})
    (True, False)
    """
    if isinstance(data, np.ndarray) or type(data).__module__.startswith(_BELIEVED):
        return True
    with generators_kept():
        try:
            single = data[index]
        except Exception:
            return True  # it can be read in batches only
    return _is_like(single, item)


# The modules of readers that need no comparison, which costs the data set a read more.
_BELIEVED = ("seqkit.sources.", "torch.utils.data.dataset")


def _is_like(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_like(part, other[key]) for key, part in one.items())
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_is_like, one, other))
    if isinstance(one, list):
        return all(map(_is_like, one[:1], other[:1]))
    return all(getattr(one, name, None) == getattr(other, name, None) for name in ("dtype", "ndim"))


def length_of(data: Any) -> Length:
    """Return the number of items: `len`, or the first axis of an array without `len`, or `UNKNOWN`.

    >>> length_of("abc"), length_of(iter("abc")) is UNKNOWN
    (3, True)
    """
    if hasattr(data, "__len__"):
        return len(data)
    shape = getattr(data, "shape", None)
    return shape[0] if isinstance(shape, tuple) and shape and isinstance(shape[0], int) else UNKNOWN
