"""Sources that need a reader before a view can wrap them, recognised by the names of their types.

`seqkit/__init__.py` says which module of `seqkit.sources` reads an object of one of these types. The
libraries themselves are never imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from .arguments import refuse_set
from .lazy import TABLE, load

__all__ = ["TableReader", "as_results", "reads_many", "recognise"]

# Classes of lazy or sparse data, which is read late, column by column or not at all; and what to use.
_REMEDIES = {
    **dict.fromkeys(
        [("scipy", "sparray"), ("scipy", "spmatrix")],
        "For its rows, use smap(lambda i: matrix[[i]], range(matrix.shape[0])), or matrix.toarray()",
    ),
    **dict.fromkeys(
        [("dask", "DataFrame"), ("dask", "Series"), ("dask", "Array")],
        "Call .compute() first, or read its files with sources.parquet",
    ),
}

# These are read as they are. Looking no further saves 1 µs for each list of `flatten`.
_PLAIN = (list, tuple, range, str, bytes)


class TableReader:
    """The base of classes that read a table by position."""

    _data: Any  # the object that is read
    names: Any = None  # of its columns, if it has any
    concurrent = False  # threads may read at the same time


def recognise(source: Any, who: str) -> Any:
    """Return an object that is read by position: `source` itself, or a wrapper for a known type.

    Raises
    ------
    TypeError
        For a set, a mapping that has other keys than 0, 1, 2, …, sparse matrices of scipy and data of dask.

    >>> recognise({3, 1}, "batch")
    Traceback (most recent call last):
    TypeError: batch: a set has no order, got set. Use sorted(s) or list(s).
    """
    if type(source) in _PLAIN:
        return source
    for base in type(source).__mro__:
        name = base.__module__.partition(".")[0], base.__name__
        if name in TABLE:
            return load(name)(source)
        if name in _REMEDIES:
            raise TypeError(f"{who}: a {name[0]}.{name[1]} is not a sequence of items. {_REMEDIES[name]}.")
    refuse_set(source, who)
    is_indexed = not isinstance(source, Mapping) or hasattr(source, "__missing__") or 0 in source
    if not is_indexed and source and who != "DataLoader":  # which may have a sampler that gives keys
        raise TypeError(
            f"{who}: items are read at 0, 1, 2, …, and this {type(source).__name__} has other keys, such as"
            f" {next(iter(source))!r}. For a dict of columns use collate(d), for a dict of items"
            " list(d.values()), or a DataLoader with a sampler of its keys."
        )
    return source


def reads_many(data: Any) -> bool:
    """Return whether the `__getitems__` of an object gives the items that its `__getitem__` gives.

    It does if the class that defines `__getitem__`, or a class derived from that, defines `__getitems__`.

    >>> class Rows:
    ...     def __getitem__(self, i): return i
    ...     def __getitems__(self, indices): return indices
    >>> class Scaled(Rows):
    ...     def __getitem__(self, i): return 10 * i
    >>> reads_many(Rows()), reads_many(Scaled())
    (True, False)
    """
    for kind in type(data).__mro__:
        if "__getitems__" in vars(kind):
            return vars(kind)["__getitems__"] is not None
        if "__getitem__" in vars(kind):
            return False
    return False


def as_results(found: Any, count: int, who: str) -> Sequence[Any]:
    """Return what a function of many items has returned, if it is a list or an array of as many items.

    An array is an object with `__dlpack__` and a shape, as those of numpy and torch are.

    >>> import numpy as np
    >>> as_results(np.zeros((2, 3)), 2, "f").shape
    (2, 3)
    >>> as_results(([1, 2], [3, 4]), 2, "f")
    Traceback (most recent call last):
    TypeError: f returned a tuple, not a list or an array of 2 items. Return a list with one item for each.
    >>> as_results([1], 2, "f")
    Traceback (most recent call last):
    ValueError: f returned 1 items for 2. Return one item for each.
    """
    shape = getattr(found, "shape", None) if hasattr(type(found), "__dlpack__") else None
    if not isinstance(found, list) and not (isinstance(shape, tuple) and shape):
        raise TypeError(
            f"{who} returned a {type(found).__name__}, not a list or an array of {count} items."
            " Return a list with one item for each."
        )
    if len(found) != count:
        raise ValueError(f"{who} returned {len(found)} items for {count}. Return one item for each.")
    return cast(Sequence[Any], found)
