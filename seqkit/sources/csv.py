"""`csv`: rows of CSV files, parsed by pyarrow, or as text by the module `csv` of Python."""

from __future__ import annotations

import bz2
import codecs
import csv as standard
import gzip
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from glob import has_magic
from importlib.util import find_spec
from os import PathLike
from typing import Any

from ..core.view import View
from .columns import DictRows, agreeing, check_names
from .files import as_path, existing, found, is_pointer, name_file
from .per_process import PerProcess

__all__ = ["csv"]

# Fields of a column of numbers or bools that are missing values.
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
INT = r"^-?(0|[1-9][0-9]{0,18})$"
# A float holds 15 digits. More of them, such as in an id, stay text.
FLOAT = r"^-?((0|[1-9][0-9]{0,14})(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$|^-?inf$"
BOOL = r"^(true|false|True|False|TRUE|FALSE)$"


def csv(path: str | PathLike[str], *, delimiter: str = ",", encoding: str = "utf-8") -> View[dict[str, Any]]:
    """Return a view of the rows of CSV files, each a dict from column to value.

    pyarrow parses if it is installed: a column is of ints, floats or bools if all its fields are, and empty
    fields and words such as ``NA`` are then None. All other columns are text as it is in the file: dates, and
    ints with leading zeros, such as postal codes. An empty field of text is ``""``. Without pyarrow all
    columns are text. The `repr` of the view says which one parses.

    Parameters
    ----------
    path : path-like
        A file, with the names of the columns in its first line, or a glob pattern. Files of one pattern
        follow each other in natural order of their names. They are read into memory as a whole, when the
        first row or the length is needed.
    delimiter : str
        One letter between two fields.
    encoding : str
        Name of the encoding of the text.

    Returns
    -------
    View

    Raises
    ------
    ValueError
        If `delimiter` is not one letter. When the files are first read: if a line has too few or too many
        fields, if two columns have one name, or if the text has another encoding. If two files of a pattern
        have different columns, or columns of different types.
    LookupError
        If `encoding` is unknown.
    FileNotFoundError
        If there is no file.

    Notes
    -----
    For other rules pass a table: ``view(pandas.read_csv(path, parse_dates=["day"]))``.

    Forked workers share the table if the program has read the length or a row. Others read the file again.
    For tables larger than memory, convert to Parquet: see `materialize`.

    Examples
    --------
    >>> with open(path := getfixture("tmp_path") / "cities.csv", "w") as file:
    ...     _ = file.write("city,people\\nOslo,7\\nRome,\\n")
    >>> csv(path)[0], csv(path)[1]
    ({'city': 'Oslo', 'people': 7}, {'city': 'Rome', 'people': None})
    """
    is_letter = isinstance(delimiter, str) and len(delimiter) == 1 and delimiter not in '"\r\n'
    if not is_letter:
        raise ValueError(f"csv: delimiter must be one letter, and no quote or line break, got {delimiter!r}")
    codecs.lookup(encoding)
    name = as_path(path, "csv")
    is_pattern = has_magic(name) and not os.path.exists(name)
    paths = found(name, "csv", ("",)) if is_pattern else [existing(path, "csv")]
    if not paths:
        raise FileNotFoundError(f"csv: there is no file at {name!r}. Check the pattern.")
    has_arrow = find_spec("pyarrow") is not None
    parser, read = ("pyarrow", _read_with_arrow) if has_arrow else ("csv of Python", _read_as_text)
    open_fn = partial(read, paths, delimiter, encoding)
    return PerProcess(open_fn, "csv", name, inheritable=True, about=f"parsed by {parser}")


def _each(read: Callable[..., Any], paths: Sequence[str], delimiter: str, encoding: str) -> list[Any]:
    found = []
    for path in paths:
        try:
            found.append(read(path, delimiter, encoding))
        except ValueError as error:
            name_file(error, path)
            error.add_note("For text of another encoding or delimiter pass, for example, encoding='latin-1'.")
            raise
    return found


def _read_with_arrow(paths: Sequence[str], delimiter: str, encoding: str) -> Any:
    import pyarrow as pa

    from .arrow import ArrowRows, kinds_of

    tables = _each(_table, paths, delimiter, encoding)
    names = agreeing("csv", paths, [kinds_of(table.schema) for table in tables])
    return ArrowRows(pa.concat_tables([table.select(names) for table in tables], promote_options="default"))


def _table(path: str, delimiter: str, encoding: str) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow

    names = _names(path, delimiter, encoding)
    # A field in quotes may contain line breaks, and a line must fit in a block.
    read = arrow.ReadOptions(encoding=encoding, block_size=1 << 24)
    parse = arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    convert = arrow.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, check_utf8=True
    )
    texts = arrow.read_csv(path, read, parse, convert)
    return pa.table({name: _typed(texts[name]) for name in texts.column_names})


def _typed(texts: Any) -> Any:
    """Return a column of texts as numbers or bools, if all of them are."""
    import pyarrow as pa
    from pyarrow import compute

    trimmed = compute.utf8_trim_whitespace(texts)
    is_missing = compute.is_in(trimmed, value_set=pa.array(MISSING))
    values = compute.if_else(is_missing, None, trimmed)
    if values.null_count == len(values):
        return pa.nulls(len(values))
    for pattern, kind in ((INT, "int64"), (FLOAT, "float64"), (BOOL, "bool")):
        if compute.all(compute.match_substring_regex(values, pattern)).as_py():
            with suppress(pa.ArrowInvalid):  # an int of more than 64 bits
                return values.cast(kind)
    return texts


def _read_as_text(paths: Sequence[str], delimiter: str, encoding: str) -> Any:
    files = _each(_texts, paths, delimiter, encoding)
    names = agreeing("csv", paths, [dict.fromkeys(file, "text") for file in files])
    return DictRows({name: [text for file in files for text in file[name]] for name in names}, paths[0])


def _texts(path: str, delimiter: str, encoding: str) -> dict[str, Sequence[str]]:
    names = _names(path, delimiter, encoding)
    with _opened(path, encoding) as file:
        _, *rows = (line for line in standard.reader(file, delimiter=delimiter) if line)
    for row in rows:
        if len(row) != len(names):
            raise ValueError(f"csv: each line needs {len(names)} fields, got {len(row)} in {row!r}")
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}


def _names(path: str, delimiter: str, encoding: str) -> list[str]:
    if is_pointer(path):
        raise ValueError("csv: the file holds no table")  # the note that names the file says why
    standard.field_size_limit(2**31 - 1)  # texts may be longer than the 128 KiB that Python allows
    with _opened(path, encoding) as file:
        names = next((line for line in standard.reader(file, delimiter=delimiter) if line), [])
    if not names:
        raise ValueError("csv: the file is empty, but needs a line with the names of its columns")
    check_names(names, path, "csv")
    return names


def _opened(path: str, encoding: str) -> Any:
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
    opened = openers.get(os.path.splitext(path)[1], open)
    return opened(path, "rt", encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="")
