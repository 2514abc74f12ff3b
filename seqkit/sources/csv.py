"""`csv`: rows of a CSV file."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from os import PathLike
from typing import Any

from ..view import View
from .files import existing
from .per_process import PerProcess

__all__ = ["csv"]


def csv(path: str | PathLike[str], *, library: str | None = None, **options: Any) -> View[dict[str, Any]]:
    """Return a view of the rows of a CSV file, each a dict from column to value.

    Parameters
    ----------
    path : path-like
        The file. It is read into memory as a whole, when the first row or the length is needed.
    library : "pyarrow" or "pandas", optional
        What parses. None (the default): pyarrow if it is installed, else pandas.
    **options
        For `pyarrow.csv.read_csv` or `pandas.read_csv`.

    Returns
    -------
    View

    Raises
    ------
    ValueError
        If `library` is unknown.
    FileNotFoundError
        If there is no file.

    Notes
    -----
    Forked workers share the table if the program has read the length or a row. Others read the file again.
    For tables larger than memory, convert to Parquet: see `materialize`.

    Examples
    --------
    >>> with open(path := getfixture("tmp_path") / "cities.csv", "w") as file:
    ...     _ = file.write("city,people\\nOslo,7\\nRome,28\\n")
    >>> csv(path)[1]
    {'city': 'Rome', 'people': 28}
    """
    if library not in (None, "pyarrow", "pandas"):
        raise ValueError(f"csv: library must be 'pyarrow', 'pandas' or None, got {library!r}")
    if library is None:
        library = "pyarrow" if find_spec("pyarrow") else "pandas"
    read = _read_with_arrow if library == "pyarrow" else _read_with_pandas
    return PerProcess(partial(read, existing(path, "csv"), **options), inheritable=True)


def _read_with_arrow(path: str, **options: Any) -> Any:
    from pyarrow.csv import read_csv

    return read_csv(path, **options)


def _read_with_pandas(path: str, **options: Any) -> Any:
    from pandas import read_csv

    return read_csv(path, **options)
