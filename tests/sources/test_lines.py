"""`lines` and `jsonl`: the lines of iterating the file, an index that is kept, and files that change."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import seqkit as sk
from seqkit import sources
from seqkit.sources import indexed

module = importlib.import_module("seqkit.sources.lines")
every_file = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
# Whatever ends a line somewhere: in a text file only the first three do.
BREAKS = ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "é", "a", "\ufeff"]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths of the indexes that are written from now on."""
    found: list[str] = []
    replace_file = indexed.replace_file

    def noting(path: str, *arguments: Any) -> None:
        found.append(path)
        replace_file(path, *arguments)

    monkeypatch.setattr(indexed, "replace_file", noting)
    return found


def iterated(path: Path, encoding: str = "utf-8") -> list[str]:
    with open(path, encoding=encoding) as file:
        return list(file)


def same_as_iterating(path: Path, encoding: str) -> None:
    expected = iterated(path, encoding)
    view = sources.lines(path, encoding)
    assert len(view) == len(expected)
    assert list(view) == expected
    assert [view[i] for i in range(len(view))] == expected
    assert list(view.__getitems__(range(len(view))[::-1])) == expected[::-1]


@every_file
@given(content=st.lists(st.sampled_from(BREAKS) | st.text(max_size=3)).map("".join), block=st.integers(1, 9))
@example(content="a\r\n", block=2)
@example(content="\r\r\n\r", block=1)
def test_lines_are_those_of_iterating_a_text_file(content: str, block: int, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content.encode("utf-8", "replace"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        same_as_iterating(tmp_path / "a.txt", "utf-8")
    same_as_iterating(tmp_path / "a.txt", "cp437")


@every_file
@given(content=st.binary() | st.lists(st.sampled_from([b"\r", b"\n", b"a"])).map(b"".join))
def test_lines_of_random_bytes_are_those_of_iterating(content: bytes, tmp_path: Path) -> None:
    assume(not content.startswith(indexed.GZIP))
    (tmp_path / "a.txt").write_bytes(content)
    same_as_iterating(tmp_path / "a.txt", "latin-1")


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "ascii", "cp1252", "shift_jis", "gb18030", "euc_kr"]
)
def test_encodings(encoding: str, tmp_path: Path) -> None:
    text = "a\n" if encoding == "ascii" else "\n일\n" if encoding == "euc_kr" else "ソ\r\n\\\n表"
    text = "é\nä" if encoding == "cp1252" else text
    (tmp_path / "a.txt").write_bytes((text * 3).encode(encoding))
    same_as_iterating(tmp_path / "a.txt", encoding)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le", "cp875", "cp037", "iso2022_jp", "utf-7", "hz"])
def test_encodings_without_lines_of_bytes_are_refused(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(ValueError, match=rf"lines: encoding '{encoding}' .* Convert the file to UTF-8"):
        sources.lines(tmp_path / "a.txt", encoding)


def test_the_mark_of_the_byte_order_is_left_out_of_the_first_line_only(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufeff1\n\ufeff2\n", encoding="utf-8")
    same_as_iterating(tmp_path / "a.txt", "utf-8-sig")
    assert sources.jsonl(tmp_path / "a.txt")[0] == 1


def test_an_index_takes_eight_bytes_a_line_and_is_built_once(built: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n" * 1000)
    views = [sources.lines(tmp_path / "a.txt") for _ in range(3)]
    assert list(views[0]) == list(pickle.loads(pickle.dumps(views[1]))) == list(views[2])
    (kept,) = built
    assert Path(kept).parent == Path(os.environ["XDG_CACHE_HOME"], "seqkit")
    assert 8000 < os.path.getsize(kept) < 8200


def test_an_index_lies_beside_the_file_if_it_is_asked_for_or_there(built: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\n2\n")
    assert len(sources.lines(path, beside=True)) == len(sources.lines(path)) == 2
    assert built == [str(tmp_path / ".a.txt.sk-lines")]
    assert {*os.listdir(tmp_path)} == {"a.txt", ".a.txt.sk-lines"}
    assert len(sources.lines(tmp_path / "*")) == 2  # the index is hidden


@pytest.mark.parametrize("content", [b"", b"damaged" * 20])
def test_a_damaged_index_is_built_again(content: bytes, built: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\n2\n")
    sources.lines(path, beside=True)
    (tmp_path / ".a.txt.sk-lines").write_bytes(content)
    assert list(sources.lines(path, beside=True)) == ["1\n", "2\n"]
    assert len(built) == 2


def test_a_folder_that_cannot_have_the_index_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("1\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a.txt"))
    with pytest.raises(NotADirectoryError) as caught:
        sources.lines(tmp_path / "a.txt")
    assert "XDG_CACHE_HOME" in caught.value.__notes__[0]


def test_a_file_that_is_written_anew_has_another_index(built: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\n2\n")
    before = sources.lines(path)
    path.write_text("12\n3")
    os.utime(path, ns=(0, 1))
    assert list(sources.lines(path)) == list(before) == ["12\n", "3"]  # as many bytes, at another time
    path.write_text("12345\n6\n")
    before.close()  # type: ignore[attr-defined]
    with pytest.raises(sk.EvaluationError, match=r"a\.txt was written again. Build the view again"):
        before[0]
    assert len(built) == 3


@pytest.mark.parametrize(
    ("now", "later"), [("1\n2\n", "3\n"), ("1\n2", "3\n"), ("1\n2\r", "\n3"), ("", "1\n")]
)
def test_a_view_keeps_the_lines_of_a_file_that_grows(now: str, later: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(now.encode())
    view, opened = sources.lines(path), sources.lines(path)
    expected = list(opened)
    with open(path, "ab") as file:
        file.write(later.encode())
    assert list(view) == list(opened) == expected
    assert list(sources.lines(path)) == iterated(path)


def test_a_file_that_is_cut_off_is_an_error_of_its_lost_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\n22\n")
    view = sources.lines(path)
    assert view[0] == "1\n"
    os.truncate(path, 3)
    with pytest.raises(sk.EvaluationError, match=r"a\.txt is shorter than before"):
        view[1]
    assert view[0] == "1\n"


def test_a_line_that_is_not_json_is_named_and_the_next_ones_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n{"x": 2\n\n{"x": 4}\n')
    view = sources.jsonl(tmp_path / "a*")
    items = iter(view)
    found: list[Any] = []
    for _ in range(4):
        try:
            found.append(next(items))
        except sk.EvaluationError as error:
            found.append(re.findall(r"JSONDecodeError|file: .*/a\.jsonl;|line: \d", str(error)))
    bad = [["JSONDecodeError", str(tmp_path), f"line: {n}"] for n in (2, 3)]
    for notes in (found[1], found[2]):
        notes[1] = str(tmp_path)
    assert found == [{"x": 1}, *bad, {"x": 4}]
    with pytest.raises(sk.EvaluationError, match=r"jsonl\[1\] failed: JSONDecodeError.*line: 2"):
        view[1]
    assert list(sk.fallback("skip", view)) == [{"x": 1}, {"x": 4}]


def test_a_line_of_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\n\xe9\nb\n")
    view = sources.lines(tmp_path / "a.txt")
    with pytest.raises(sk.EvaluationError, match=r"UnicodeDecodeError.*file: .*a\.txt; line: 2"):
        view[1]
    assert (view[0], view[2]) == ("a\n", "b\n")


def test_a_compressed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"1\n"))
    for function in (sources.lines, sources.jsonl):
        with pytest.raises(ValueError, match=r"a\.jsonl\.gz is compressed.*gunzip"):
            function(tmp_path / "a.jsonl.gz")


def test_files_of_a_pattern_follow_each_other(tmp_path: Path) -> None:
    rows = [{"n": i} for i in range(30)]
    for k in range(3):
        part = rows[10 * k : 10 * k + 10]
        (tmp_path / f"{k + 8}.jsonl").write_text("\n".join(map(json.dumps, part)))
    (tmp_path / "9a.jsonl").touch()
    done: list[tuple[int, int | None]] = []
    view = sources.jsonl(tmp_path / "*.jsonl", progress=lambda *report: done.append(report))
    assert list(view) == rows
    assert [view[i] for i in (29, 10, 9, 0)] == [rows[i] for i in (29, 10, 9, 0)]
    assert view.__getitems__(range(5, 25)) == rows[5:25]
    assert view.__getitems__([3, 12, 4]) == [rows[3], rows[12], rows[4]]
    assert done == [(k, 4) for k in (1, 2, 3, 4)]


def test_more_files_than_may_be_open_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(indexed, "MOST_OPEN", 2)
    for k in range(5):
        (tmp_path / f"{k}.txt").write_text(f"{k}\n")
    view = sources.lines(tmp_path / "*.txt")
    order = np.random.default_rng(0).integers(5, size=50)
    before = len(os.listdir("/proc/self/fd"))
    assert [int(line) for line in view[order]] == order.tolist()
    assert len(os.listdir("/proc/self/fd")) <= before + 4
    view.close()  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="lines: there is nothing at"):
        sources.lines(tmp_path / "a.txt")
    with pytest.raises(FileNotFoundError, match="jsonl: there is no file at"):
        sources.jsonl(tmp_path / "*.jsonl")
