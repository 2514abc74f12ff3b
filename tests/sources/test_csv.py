"""`sources.csv`: types of columns with pyarrow, text without it, and files of one pattern."""

from __future__ import annotations

import bz2
import gzip
import importlib
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import seqkit as sk
from seqkit import sources

LONG = "y" * 1000

# Text, and the rows that pyarrow makes of it.
READ: dict[str, tuple[str, list[Any]]] = {
    "missing values": (
        "a,b,c\n1,,x\n,2,\n",
        [{"a": 1, "b": None, "c": "x"}, {"a": None, "b": 2, "c": ""}],
    ),
    "words for missing": ("a,b\nNA,NA\n1.5,x\n", [{"a": None, "b": "NA"}, {"a": 1.5, "b": "x"}]),
    "column without values": ("a,b\n,1\nNA,2\n", [{"a": None, "b": 1}, {"a": None, "b": 2}]),
    "bools": ("a\ntrue\nFALSE\nNA\n", [{"a": True}, {"a": False}, {"a": None}]),
    "dates": ("a\n2020-01-01\n2021-01-01\n", [{"a": "2020-01-01"}, {"a": "2021-01-01"}]),
    "large ints": ("a\n9223372036854775807\n-1\n", [{"a": 2**63 - 1}, {"a": -1}]),
    "larger ints": ("a\n9223372036854775808\n1\n", [{"a": "9223372036854775808"}, {"a": "1"}]),
    "floats": ("a\n0.1\n1e3\n-inf\n2\n", [{"a": 0.1}, {"a": 1000.0}, {"a": -np.inf}, {"a": 2.0}]),
    "ints and text": ("a\n1\nx\n", [{"a": "1"}, {"a": "x"}]),
    "leading zeros": ("a,b\n01234,1\n9,02.5\n", [{"a": "01234", "b": "1"}, {"a": "9", "b": "02.5"}]),
    "leading zeros in quotes": ('a\n"007"\n', [{"a": "007"}]),
    "zero": ("a\n0\n-0\n0.5\n", [{"a": 0.0}, {"a": 0.0}, {"a": 0.5}]),
    "ints that no float holds": (
        "a\n9007199254740993\n0.5\n",
        [{"a": "9007199254740993"}, {"a": "0.5"}],
    ),
    "points": ("a\n.5\n1.\n", [{"a": 0.5}, {"a": 1.0}]),
    "hexadecimal": ("a\n0x1f\n", [{"a": "0x1f"}]),
    "thousands": ('a\n"1,000"\n1_000\n', [{"a": "1,000"}, {"a": "1_000"}]),
    "spaces": ("a,b\n 1,x \n", [{"a": 1, "b": "x "}]),
    "other line ends in text": ("a\nx\u2028y\x85z\x0bw\n", [{"a": "x\u2028y\x85z\x0bw"}]),
    "line breaks in quotes": ('a,b\r\n1,"x\r\ny"', [{"a": 1, "b": "x\r\ny"}]),
    "quotes in quotes": ('a,b\n2,"q""q"\n', [{"a": 2, "b": 'q"q'}]),
    "empty lines": ("a\n1\n\n2\n\n", [{"a": 1}, {"a": 2}]),
    "late text": (
        "a,b\n" + f"1,{LONG}\n" * 1100 + "x,y\n",
        [{"a": "1", "b": LONG}] * 1100 + [{"a": "x", "b": "y"}],
    ),
    "field of 3 MB": ("a,b\n1," + "x" * 3_000_000 + "\n", [{"a": 1, "b": "x" * 3_000_000}]),
    "no rows": ("a,b\n", []),
    "mark of UTF-8": ("\ufeffa\né\n", [{"a": "é"}]),
    "name without text": ('a,""\n1,2\n', [{"a": 1, "": 2}]),
}
# Text, and what the error says.
REFUSED: dict[str, tuple[bytes, str]] = {
    "equal names": (b"a,a\n1,2\n", r"a\.csv need different names, got 'a' twice"),
    "too many fields": (b"a,b\n1,2\n4,5,6\n", r"a\.csv"),
    "too few fields": (b"a,b\n1,2\n3\n", r"a\.csv"),
    "empty file": (b"", r"the file is empty[^*]*a\.csv"),
    "Latin-1": ("a\né\n".encode("latin-1"), r"a\.csv[^*]*encoding='latin-1'"),
    "Latin-1 in a name": ("é\n1\n".encode("latin-1"), r"a\.csv[^*]*encoding='latin-1'"),
}


def text_of(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def parsed_by(has_arrow: bool) -> Any:
    if has_arrow:
        pytest.importorskip("pyarrow")
        return nullcontext()
    return mock.patch.object(importlib.import_module("seqkit.sources.csv"), "find_spec", return_value=None)


each_parser = pytest.mark.parametrize("has_arrow", [True, False])


@pytest.mark.parametrize("name", READ)
def test_pyarrow_finds_the_types_of_columns(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    text, rows = READ[name]
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    view = sources.csv(tmp_path / "a.csv")
    assert list(view) == rows
    assert [{key: type(value) for key, value in row.items()} for row in view] == [
        {key: type(value) for key, value in row.items()} for row in rows
    ]


@pytest.mark.parametrize("name", READ)
def test_without_pyarrow_all_columns_are_text(name: str, tmp_path: Path) -> None:
    text, rows = READ[name]
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    with parsed_by(False):
        found = list(sources.csv(tmp_path / "a.csv"))
    assert len(found) == len(rows)
    for texts, row in zip(found, rows, strict=True):
        assert texts.keys() == row.keys()
        assert all(isinstance(value, str) for value in texts.values())
        assert all(texts[key] == value for key, value in row.items() if isinstance(value, str))


@each_parser
@pytest.mark.parametrize("name", REFUSED)
def test_bad_files_are_refused_by_name(name: str, has_arrow: bool, tmp_path: Path) -> None:
    text, pattern = REFUSED[name]
    (tmp_path / "a.csv").write_bytes(text)
    with parsed_by(has_arrow):
        view = sources.csv(tmp_path / "a.csv")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the text is checked below
        list(view)
    assert re.search(pattern, text_of(caught.value)), text_of(caught.value)


def test_repr_says_which_one_parses(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert repr(sources.csv(tmp_path / "a.csv")) == "csv(a.csv, parsed by pyarrow)"
    with parsed_by(False):
        assert repr(sources.csv(tmp_path / "a.csv")) == "csv(a.csv, parsed by csv of Python)"


@each_parser
@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("zip,n\n01220,1\n", "zip,n\n94107,2\n", r"'zip' is string in .*1\.csv and int in .*2\.csv"),
        ("a\n1\n", "a\nunknown\n", r"'a' is int in .*1\.csv and string in .*2\.csv"),
        ("a,b\n1,2\n", "a\n3\n", r"only one of .*1\.csv and .*2\.csv has 'b'"),
    ],
)
def test_files_of_a_pattern_that_differ_are_refused(
    first: str, second: str, message: str, has_arrow: bool, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_text(first)
    (tmp_path / "2.csv").write_text(second)
    with parsed_by(has_arrow):
        view = sk.read(tmp_path / "*.csv")
    if has_arrow or "only one" in message:
        with pytest.raises(ValueError, match=message):
            len(view)
    else:  # all is text
        assert {type(value) for row in view for value in row.values()} == {str}


def test_files_of_a_pattern_follow_each_other(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for number in (2, 10):
        (tmp_path / f"{number}.csv").write_text(f"a,b\n{number},x\n")
    (tmp_path / "11.csv").write_text("b,a\ny,\n")  # other columns first, and no value
    rows = [{"a": 2, "b": "x"}, {"a": 10, "b": "x"}, {"a": None, "b": "y"}]
    assert list(sk.read(tmp_path / "*.csv")) == rows
    with pytest.raises(FileNotFoundError, match="csv: there is no file at"):
        sk.read(tmp_path / "none*.csv")


@each_parser
@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_compressed_files_are_read(suffix: str, compress: Any, has_arrow: bool, tmp_path: Path) -> None:
    (tmp_path / f"a.csv{suffix}").write_bytes(compress(b"a,b\nx,01\n"))
    with parsed_by(has_arrow):
        for name in (f"a.csv{suffix}", f"*.csv{suffix}"):
            assert list(sk.read(tmp_path / name)) == [{"a": "x", "b": "01"}]


@each_parser
def test_delimiter_and_encoding(has_arrow: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("a;é\n1;ü\n".encode("latin-1"))
    with parsed_by(has_arrow):
        (row,) = sources.csv(path, delimiter=";", encoding="latin-1")
        assert (str(row["a"]), row["é"]) == ("1", "ü")
        path.write_bytes("a,b\n1,é\n".encode("utf-16"))
        assert sources.csv(path, encoding="utf-16")[0]["b"] == "é"
    with pytest.raises(ValueError, match=r"csv: delimiter .*got ';;'"):
        sources.csv(path, delimiter=";;")
    with pytest.raises(LookupError, match="latin-99"):
        sources.csv(path, encoding="latin-99")
