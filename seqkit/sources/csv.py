"""`csv`: rows of a CSV file, with the same values whether pyarrow is installed or not."""

from __future__ import annotations

import bz2
import codecs
import csv as standard
import gzip
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain
from os import PathLike
from typing import Any

from ..core.view import View
from .columns import DictRows, check_names
from .files import existing, is_pointer
from .per_process import PerProcess

__all__ = ["csv"]

# Fields that are missing values in a column of numbers or bools: those of pyarrow.
MISSING = frozenset(
    [
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A"),
        *("NA", "NULL", "NaN", "n/a", "nan", "null"),
    ]
)
BOOLS = {
    **dict.fromkeys(("true", "True", "TRUE", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "0"), False),
}
INT = re.compile(r"-?[0-9]+|0[xX][0-9a-fA-F]{1,16}").fullmatch
LEADING_ZERO = re.compile(r"0[0-9]").match
FLOAT = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf(inity)?|[+-]?nan", re.I
).fullmatch
WIDEST = 2**63
END = "the end of the file"  # a last line, which an open quote takes for text
EXACT = 2**53  # larger ints may have no float of their value


def csv(
    path: str | PathLike[str], *, delimiter: str | None = None, encoding: str | None = None
) -> View[dict[str, Any]]:
    """Return a view of the rows of a CSV file, each a dict from column to value.

    A column is of ints, floats or bools if all its fields are. Empty fields and words such as ``NA`` are then
    None. All other columns are text as it is in the file: dates stay text, and an empty field is ``""``.
    Ints with leading zeros, such as postal codes, stay text too. A column without any value is None.

    Parameters
    ----------
    path : path-like
        The file, with the names of the columns in its first line. It is read into memory as a whole, when the
        first row or the length is needed.
    delimiter : str, optional
        One letter between two fields. None (the default): a comma. A file with one column, whose name
        contains ``;``, ``|`` or a tab, is refused.
    encoding : str, optional
        Name of the encoding of the text. None (the default): UTF-8, or UTF-16 or UTF-32 if the file begins
        with its mark.

    Returns
    -------
    View

    Raises
    ------
    ValueError
        If `delimiter` is not one letter. When the file is first read: if a line has too few or too many
        fields, if two columns have one name, if the text has another encoding or delimiter, or if the file
        ends within quotes.
    LookupError
        If `encoding` is unknown.
    FileNotFoundError
        If there is no file.

    Notes
    -----
    pyarrow parses if it is installed, else the module `csv` of Python. The values are the same. For other
    rules pass a table: ``view(pandas.read_csv(path, parse_dates=["day"]))``.

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
    if delimiter is not None and not is_letter:
        raise ValueError(f"csv: delimiter must be one letter, and no quote or line break, got {delimiter!r}")
    if encoding is not None:
        codecs.lookup(encoding)
    read = _read_with_arrow if find_spec("pyarrow") else _read_plain
    name = existing(path, "csv")
    return PerProcess(partial(_read, read, name, delimiter, encoding), inheritable=True, path=name)


def _read(read: Callable[..., Any], path: str, delimiter: str | None, encoding: str | None) -> Any:
    try:
        names, table = read(path, delimiter or ",", encoding or _encoding(path))
    except UnicodeDecodeError as error:
        raise _not_decoded(path, encoding or "utf-8", str(error)) from None
    if is_pointer(path):
        raise ValueError("csv: the file holds no table")  # the note that names the file says why
    if delimiter is None and len(names) == 1 and (other := re.search(r"[;|\t]", names[0])):
        raise ValueError(
            f"csv: {path} has a single column {names[0]!r}. Pass delimiter={other[0]!r}, or delimiter=',' if"
            " its name is meant so."
        )
    return table


def _not_decoded(path: str, encoding: str, why: str) -> ValueError:
    return ValueError(
        f"csv: the text of {path} is not {encoding} ({why}). Pass its encoding, such as encoding='latin-1'."
    )


def _encoding(path: str) -> str:
    with open(path, "rb") as file:
        start = file.read(4)
    if start in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return "utf-32"
    return "utf-16" if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8"


# -------------------------------------------------------------------- pyarrow


def _read_with_arrow(path: str, delimiter: str, encoding: str) -> Any:
    from pyarrow import ArrowInvalid
    from pyarrow import csv as arrow

    if sum(block.count(b'"') for block in _blocks(path)) % 2:  # pyarrow accepts an open quote at the end
        return _read_plain(path, delimiter, encoding)
    # A field in quotes may contain line breaks.
    parse = arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    read = partial(arrow.read_csv, path, arrow.ReadOptions(encoding=encoding), parse)
    try:
        table = read()
    except ArrowInvalid:  # such as a line longer than a block, or no line break after the names
        return _read_plain(path, delimiter, encoding)
    check_names(table.schema.names, path, "csv")
    has_odd_ints = cache(lambda: encoding != "utf-8" or _has_odd_ints(path, delimiter))
    if as_text := [name for name in table.column_names if _is_doubtful(table[name], has_odd_ints)]:
        texts = read(arrow.ConvertOptions(column_types=dict.fromkeys(as_text, "string")))
        for name in as_text:
            k = table.schema.get_field_index(name)
            table = table.set_column(k, name, _as_written(texts[name], table[name]))
    if bad := [field.name for field in table.schema if str(field.type) == "binary"]:
        raise _not_decoded(path, encoding, f"in the column {bad[0]!r}")
    return table.column_names, table


def _is_doubtful(values: Any, has_odd_ints: Callable[[], bool]) -> bool:
    """May pyarrow have taken text for dates or ints, or large ints for floats or for negative ints?"""
    from pyarrow import compute, types

    if types.is_floating(values.type):
        least, most = compute.min_max(values).as_py().values()
        return most is not None and max(-least, most) >= EXACT
    return types.is_temporal(values.type) or (types.is_integer(values.type) and has_odd_ints())


def _has_odd_ints(path: str, delimiter: str) -> bool:
    """May there be ints with leading zeros, or hexadecimal ones?"""
    odd = re.compile(rb'0(?:(?<=[\n\r"%s]0)[0-9]|[xX])' % re.escape(delimiter.encode()))
    last = b"\n"
    for block in _blocks(path):
        if odd.search(last + block):
            return True
        last = block[-2:]
    return False


def _blocks(path: str) -> Iterator[bytes]:
    """Yield the content of a file, decompressed."""
    import pyarrow as pa

    with pa.input_stream(path) as file:
        while block := file.read(1 << 20):
            yield block


def _as_written(texts: Any, values: Any) -> Any:
    """Return a column by its texts, if pyarrow changed their values."""
    import pyarrow as pa

    found = _typed(texts.to_pylist())
    kinds = {type(value) for value in found if value is not None}
    if kinds == {str}:
        return texts
    return values if kinds == {float} else pa.chunked_array([pa.array(found, _int_type(found))])


def _int_type(values: Sequence[Any]) -> str:
    return "int64" if max(value for value in values if value is not None) < WIDEST else "uint64"


# -------------------------------------------------------------------- the module of Python


def _read_plain(path: str, delimiter: str, encoding: str) -> Any:
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
    opened = openers.get(os.path.splitext(path)[1], open)
    standard.field_size_limit(2**31 - 1)  # texts may be longer than the 128 KiB that Python allows
    with opened(path, "rt", encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="") as file:
        rows = [line for line in standard.reader(chain(file, [END]), delimiter=delimiter) if line]
    last = rows.pop()
    if last != [END]:
        text = last[-1].removesuffix(END)[:40]
        raise ValueError(f"csv: {path} ends within quotes, which begin before {text!r}. Was it cut short?")
    if not rows:
        raise ValueError(f"csv: {path} is empty, but needs a line with the names of its columns")
    names, *rows = rows
    check_names(names, path, "csv")
    if wrong := [row for row in rows if len(row) != len(names)]:
        raise ValueError(
            f"csv: each line of {path} needs {len(names)} fields, got {len(wrong[0])} in {wrong[0]!r}"
        )
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return names, DictRows({name: _typed(texts) for name, texts in zip(names, columns, strict=True)}, path)


def _typed(texts: Sequence[str]) -> Sequence[Any]:
    """Return the values of a column.

    >>> _typed(["1", "", "3"]), _typed(["1", "NA", "x"]), _typed(["NA", ""])
    ([1, None, 3], ['1', 'NA', 'x'], [None, None])
    """
    trimmed = [None if text in MISSING else text.strip(" \t") for text in texts]
    present = [text for text in trimmed if text is not None]
    if all(map(INT, present)):
        if any(map(LEADING_ZERO, texts)):
            return texts
        ints = [
            None if text is None else int(text, 16 if text[1:2] in ("x", "X") else 10) for text in trimmed
        ]
        known = [value for value in ints if value is not None]
        is_wide = known and not -WIDEST <= min(known) <= max(known) < WIDEST
        if is_wide and (min(known) < 0 or max(known) >= 2 * WIDEST):
            return texts
        return ints
    if all(text in BOOLS for text in texts if text not in MISSING):
        return [BOOLS.get(text) for text in texts]
    if all(map(FLOAT, present)):
        large = [text for text in present if abs(float(text)) >= EXACT and INT(text)]
        if all(int(text) == float(text) for text in large):
            return [None if text is None else float(text) for text in trimmed]
    return texts
