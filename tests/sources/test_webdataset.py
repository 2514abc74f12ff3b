"""`webdataset`: samples are those of WebDataset, few bytes are read, and odd archives are refused."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import pickle
import re
import tarfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seqkit as sk
from seqkit import sources
from seqkit.sources import indexed

every_archive = settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
Members = Iterable[tuple[str, Any]]


def archive(file: Path, members: Members, format: str = "ustar", **headers: Any) -> Path:
    """Write a tar archive. Members are of a name and bytes, or of a name and a kind of tarfile."""
    with tarfile.open(file, "w", format=FORMATS[format]) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.pax_headers = headers
            if isinstance(content, bytes) and len(content) != 1:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content, "0.txt"
                tar.addfile(info)
    return file


def pairs(n: int, start: int = 0) -> list[tuple[str, bytes]]:
    numbers = range(start, start + n)
    return [(f"{i:03}.{suffix}", f"{suffix} {i}".encode()) for i in numbers for suffix in ("jpg", "json")]


def samples_of(n: int, start: int = 0) -> list[dict[str, Any]]:
    return [
        {"jpg": f"jpg {i}".encode(), "json": f"json {i}".encode(), "__key__": f"{i:03}"}
        for i in range(start, start + n)
    ]


def by_tarfile(path: Path) -> list[dict[str, Any]]:
    """Return the samples of an archive by the rules of WebDataset."""
    found: list[dict[str, Any]] = []
    with tarfile.open(path) as tar:
        for info in tar:
            parts = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", info.name)
            if not info.isreg() or not parts or re.match(r"__[^/]*__($|/)", info.name):
                continue
            if not found or found[-1]["__key__"] != parts[1]:
                found.append({"__key__": parts[1]})
            found[-1][parts[2].lower()] = tar.extractfile(info).read()  # type: ignore[union-attr]
    return found


FOLDERS = st.sampled_from(["", "a/", "v1.0/b/", "./", "long/" * 30, "é/"])
STEMS = st.text("ab é_-", min_size=1, max_size=4)
SUFFIXES = st.lists(
    st.sampled_from(["jpg", "JSON", "seg.png", "txt", "", ".x", "é"]), min_size=1, max_size=4, unique=True
)
CONTENT = st.sampled_from([b"", b"12", b"x" * 511, b"x" * 512, b"y" * 3000])
OTHERS = [("README", b"text"), ("f", tarfile.DIRTYPE), ("p.x", tarfile.FIFOTYPE), ("__meta__/a.b", b"00")]


@st.composite
def archives(draw: Any) -> list[tuple[str, Any]]:
    members: list[tuple[str, Any]] = []
    for key in draw(st.lists(st.builds(str.__add__, FOLDERS, STEMS), max_size=5, unique=True)):
        for suffix in draw(SUFFIXES):
            members += draw(st.lists(st.sampled_from(OTHERS), max_size=1))
            members.append((f"{key}.{suffix}", draw(CONTENT)))
    return members


def equal_to_its_samples(path: Path, expected: list[dict[str, Any]]) -> None:
    view = sources.webdataset(path)
    assert list(view) == expected
    assert [view[i] for i in range(len(view))[::-1]] == expected[::-1]
    for name in {name for sample in expected for name in sample}:
        wanted = [i for i, sample in enumerate(expected) if name in sample]
        assert list(view.select(name)[wanted]) == [expected[i][name] for i in wanted]  # type: ignore[attr-defined]


@every_archive
@given(members=archives(), format=st.sampled_from([*FORMATS]))
def test_samples_are_those_of_neighbouring_members(members: Members, format: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", members, format)
    equal_to_its_samples(path, by_tarfile(path))


@every_archive
@given(members=archives(), format=st.sampled_from([*FORMATS]))
def test_samples_are_those_of_the_reader_of_webdataset(members: Members, format: str, tmp_path: Path) -> None:
    tariterators = pytest.importorskip("webdataset.tariterators")
    path = archive(tmp_path / "a.tar", members, format)
    with open(path, "rb") as file:
        files = tariterators.tar_file_expander([{"url": str(path), "stream": file}])
        expected = list(tariterators.group_by_keys(files))
    for sample in expected:
        del sample["__url__"]
    equal_to_its_samples(path, expected)


def test_names_of_macos_are_left_out(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", [("x/._1.jpg", b"no"), ("x/1.jpg", b"yes"), (".hidden.jpg", b"no")])
    assert list(sources.webdataset(path)) == [{"jpg": b"yes", "__key__": "x/1"}]


@pytest.mark.parametrize("header", [{"mtime": "1.5"}, {"comment": "x" * 900}, {"path": "other/7.jpg"}])
def test_headers_of_the_format_pax(header: dict[str, str], tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", [("1.jpg", b"12")], "pax", **header)
    equal_to_its_samples(path, by_tarfile(path))


def test_an_archive_without_the_mark_of_its_end_is_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", pairs(2))
    os.truncate(path, 4 * 1024)
    assert list(sources.webdataset(path)) == samples_of(2)


REFUSED = {
    "symbolic link": ([*pairs(1), ("001.jpg", tarfile.SYMTYPE)], r"'001\.jpg' is a link.*--dereference"),
    "hard link": ([*pairs(1), ("001.jpg", tarfile.LNKTYPE)], r"'001\.jpg' is a link"),
    "torn group": ([*pairs(2), ("000.txt", b"late")], r"sample '000' do not follow each other.*--sort=name"),
    "duplicate": ([*pairs(1), ("000.JSON", b"late")], r"sample '000' has two members 'json'"),
    "key": ([("0.__key__", b"late")], r"sample '0' has two members '__key__'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_archives_that_cannot_be_read_right_are_refused(kind: str, tmp_path: Path) -> None:
    members, words = REFUSED[kind]
    path = archive(tmp_path / "a.tar", members)
    with pytest.raises(ValueError, match=words) as caught:
        sources.webdataset(path)
    assert caught.value.__notes__ == [f"file: {path}"]


def test_a_link_that_is_of_no_sample_is_left_out(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", [*pairs(1), ("latest", tarfile.SYMTYPE)])
    assert list(sources.webdataset(path)) == samples_of(1)


def test_a_sparse_member_is_refused(tmp_path: Path) -> None:
    sparse = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "0.jpg"}
    path = archive(tmp_path / "a.tar", [("0.jpg", b"1\n0\n0\n".ljust(512, b"\0"))], "pax", **sparse)
    with pytest.raises(ValueError, match=r"'0\.jpg' is sparse"):
        sources.webdataset(path)


@pytest.mark.parametrize("damage", ["cut", "header"])
def test_a_damaged_archive_is_named(damage: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", [("0.jpg", b"x" * 2000), ("1.jpg", b"12")])
    data = bytearray(path.read_bytes())
    data[2560 + 10] ^= 1
    path.write_bytes(data[:1800] if damage == "cut" else data)
    with pytest.raises(tarfile.ReadError) as caught:
        sources.webdataset(path)
    assert caught.value.__notes__ == [f"file: {path}"]


def test_a_compressed_archive_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", pairs(1))
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(ValueError, match=r"a\.tar\.gz is compressed.*gunzip"):
        sources.webdataset(tmp_path / "a.tar.gz")


# -------------------------------------------------------------------- select, decoders


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of bytes that are read from files from now on."""
    found: list[int] = []
    part = indexed.LocalFile.part

    def noting(file: Any, start: int, size: int) -> bytes:
        data = part(file, start, size)
        found.append(len(data))
        return data

    monkeypatch.setattr(indexed.LocalFile, "part", noting)
    return found


def test_select_reads_only_the_bytes_of_the_members(parts: list[int], tmp_path: Path) -> None:
    sizes = {"jpg": 9000, "cls": 2}
    members = [(f"{i}.{suffix}", bytes(size)) for i in range(9) for suffix, size in sizes.items()]
    view = sources.webdataset(archive(tmp_path / "a.tar", members))
    parts.clear()
    assert list(view.select("cls")) == [bytes(2)] * 9  # type: ignore[attr-defined]
    assert parts == [2] * 9
    parts.clear()
    assert view.select("cls", "__key__")[3] == {"cls": bytes(2), "__key__": "3"}  # type: ignore[attr-defined]
    assert parts == [512, 2]
    parts.clear()
    assert len(view[3]["jpg"]) == 9000
    assert parts == [512 + 9216 + 512 + 2]  # one read for a whole sample


def test_a_selected_member_that_is_missing_is_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", [*pairs(1), ("001.jpg", b"jpg 1")])
    view = sources.webdataset(path)
    assert view[1] == {"jpg": b"jpg 1", "__key__": "001"}
    with pytest.raises(sk.EvaluationError, match=r"sample '001' has no 'json'.*file: .*a\.tar"):
        view.select("json")[1]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"select: names must be some of \['jpg', 'json', '__key__'\]"):
        view.select("png")  # type: ignore[attr-defined]


def test_members_are_decoded_by_their_suffix(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", [("0.json", b'{"x": 1}'), ("0.txt", b"text"), ("1.json", b"no")])
    view = sources.webdataset(path, {"json": json.loads})
    assert view[0] == {"json": {"x": 1}, "txt": b"text", "__key__": "0"}
    assert view.select("json")[0] == {"x": 1}  # type: ignore[attr-defined]
    words = r"JSONDecodeError.*member: 'json' of sample '1'; file: .*a\.tar"
    with pytest.raises(sk.EvaluationError, match=words):
        view[1]


def test_threads_read_and_decode_at_the_same_time(tmp_path: Path) -> None:
    both = threading.Barrier(2)

    def decode(data: bytes) -> bytes:
        both.wait(30)
        return data

    view = sources.webdataset(archive(tmp_path / "a.tar", pairs(4)), {"json": decode})
    with view.prefetch(2, "thread", chunk_size=1) as ahead:
        assert list(ahead) == samples_of(4)


@pytest.mark.parametrize(
    ("decode", "words"),
    [
        ("json", "webdataset: decode must be a mapping of suffixes to functions, got 'json'"),
        ({"json": 3}, r"webdataset: decode\['json'\] must be callable, got 3"),
        (
            {"png": len},
            r"webdataset: decode must have suffixes of members, got \['png'\]. There are 'jpg'",
        ),
    ],
)
def test_decoders_are_checked(decode: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        sources.webdataset(archive(tmp_path / "a.tar", pairs(1)), decode)


# -------------------------------------------------------------------- several archives


def shards(folder: Path, *counts: int) -> list[dict[str, Any]]:
    for k, n in enumerate(counts):
        archive(folder / f"train-{k:03}.tar", pairs(n, sum(counts[:k])))
    return samples_of(sum(counts))


def test_archives_of_a_pattern_follow_each_other(tmp_path: Path) -> None:
    expected = shards(tmp_path, 3, 0, 2, 4)
    done: list[tuple[int, int | None]] = []
    view = sources.webdataset(
        str(tmp_path / "train-{000..003}.tar"), progress=lambda *report: done.append(report)
    )
    assert list(view) == list(sources.webdataset(tmp_path / "*.tar")) == expected
    assert [view[i] for i in (8, 3, 2, 0)] == [expected[i] for i in (8, 3, 2, 0)]
    assert done == [(k, 4) for k in (1, 2, 3, 4)]
    assert view.group_sizes == [3, 0, 2, 4]  # type: ignore[attr-defined]


def test_several_paths_are_read_in_the_order_given(tmp_path: Path) -> None:
    expected = shards(tmp_path, 3, 2, 4)
    view = sources.webdataset([tmp_path / "train-002.tar", str(tmp_path / "train-{000..001}.tar")])
    assert list(view) == expected[5:] + expected[:5]
    assert repr(view) == "webdataset(train-002.tar, …, 9 items)"
    with pytest.raises(ValueError, match=r"webdataset: path must have a file, got \[\]"):
        sources.webdataset([])
    with pytest.raises(TypeError, match="lines: path must be a str or a path, got 3"):
        sources.lines(3)  # type: ignore[arg-type]


def test_samples_do_not_mix_where_a_member_is_missing(tmp_path: Path) -> None:
    members = [member for member in pairs(6) if member[0] != "003.json"]
    view = sources.webdataset(archive(tmp_path / "a.tar", members))
    assert [{*sample} for sample in view] == [{"jpg", "json", "__key__"}] * 3 + [{"jpg", "__key__"}] + [
        {"jpg", "json", "__key__"}
    ] * 2


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    shards(tmp_path, 1)
    with pytest.raises(FileNotFoundError, match=r"train-001\.tar"):
        sources.webdataset(str(tmp_path / "train-{000..001}.tar"))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a-{8..11}.tar", ["a-8.tar", "a-9.tar", "a-10.tar", "a-11.tar"]),
        ("a-{08..11}", ["a-08", "a-09", "a-10", "a-11"]),
        ("{0..1}/{000..01}", ["0/000", "0/001", "1/000", "1/001"]),
    ],
)
def test_ranges_of_numbers_are_those_of_a_shell(pattern: str, expected: list[str]) -> None:
    assert [*indexed.Numbered(pattern)] == expected
    assert indexed.Numbered(pattern)[-1] == expected[-1]


def test_a_million_names_are_made_when_they_are_needed() -> None:
    paths = indexed.Numbered("s3://bucket/{000000..999999}.tar")
    assert (len(paths), paths[123456]) == (10**6, "s3://bucket/123456.tar")
    assert len(pickle.dumps(paths)) < 300
    with pytest.raises(ValueError, match=r"'\{5\.\.3\}' has a range without numbers"):
        indexed.Numbered("{5..3}")


# -------------------------------------------------------------------- the index


def kept() -> set[Path]:
    return {*Path(os.environ["XDG_CACHE_HOME"], "seqkit").glob("*")}


def test_an_index_takes_at_most_sixteen_bytes_a_member(tmp_path: Path) -> None:
    before = kept()
    path = archive(tmp_path / "a.tar", ((f"{i}.x", b"12") for i in range(1000)))
    sources.webdataset(path)
    (index,) = kept() - before
    assert 16000 < index.stat().st_size < 16400


def test_members_may_be_larger_than_four_gibibytes(tmp_path: Path) -> None:
    path, large = tmp_path / "a.tar", 2**32 + 512
    archive(path, [("0.x", b"12"), ("1.cls", b"34")])
    data = path.read_bytes()
    header = tarfile.TarInfo("0.x")
    header.size = large
    with open(path, "wb") as file:
        file.write(header.tobuf())
        file.seek(512 + large)  # a hole
        file.write(data[1024:])
    view = sources.webdataset(path)
    assert view.select("cls")[1] == b"34"  # type: ignore[attr-defined]
    read: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexed.LocalFile, "part", lambda file, *place: read.append(place) or b"")
        with pytest.raises(sk.EvaluationError, match="shorter than before"):
            view.select("x")[0]  # type: ignore[attr-defined]
    assert read == [(512, large)]


def test_processes_that_begin_together_leave_one_index(tmp_path: Path) -> None:
    before = kept()
    expected = shards(tmp_path, 40)
    path, together = tmp_path / "train-000.tar", threading.Barrier(4)
    views: list[Any] = []

    def build() -> None:
        together.wait(30)
        views.append(sources.webdataset(path))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [list(view) for view in views] == [expected] * 4
    assert len(kept() - before) == 1


def test_a_stale_handle_is_tried_once_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = shards(tmp_path, 2)
    sources.webdataset(tmp_path / "train-000.tar")
    mapped, stale = indexed.mmap.mmap, [True, False]

    def mapping(*arguments: Any, **options: Any) -> Any:
        if stale.pop(0) if stale else False:
            raise OSError(errno.ESTALE, "Stale file handle")
        return mapped(*arguments, **options)

    monkeypatch.setattr(indexed.mmap, "mmap", mapping)
    assert list(sources.webdataset(tmp_path / "train-000.tar")) == expected
    assert stale == []


def test_another_archive_under_the_name_is_noticed(tmp_path: Path) -> None:
    expected = shards(tmp_path, 2)
    path = tmp_path / "train-000.tar"
    opened, later, other = (sources.webdataset(path) for _ in range(3))
    assert list(opened) == expected
    os.replace(archive(tmp_path / "new", pairs(2, 5)), path)
    assert list(opened) == expected  # the open file is the old one
    assert list(later) == list(sources.webdataset(path)) == samples_of(2, 5)
    os.replace(archive(tmp_path / "new", pairs(3, 5)), path)
    with pytest.raises(sk.EvaluationError, match=r"train-000\.tar was written again. Build the view again"):
        other[0]


def test_an_archive_that_is_written_in_place_is_refused(tmp_path: Path) -> None:
    shards(tmp_path, 2)
    path = tmp_path / "train-000.tar"
    samples, members = sources.webdataset(path), sources.tar_members(path)
    for view in (samples, samples.select("json"), members):
        assert view[0]
    path.write_bytes(archive(tmp_path / "new", pairs(30, 50)).read_bytes())
    for view in (samples, samples.select("json"), members):
        with pytest.raises(
            sk.EvaluationError, match=r"train-000\.tar was written again. Build the view again"
        ):
            view[0]
    samples = sources.webdataset(archive(path, pairs(2, 5)))
    assert samples[0]
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(sk.EvaluationError, match="was written again"):
        samples[0]


def test_a_pickle_holds_paths_and_counts(tmp_path: Path) -> None:
    expected = shards(tmp_path, *[5] * 20)
    view = sources.webdataset(str(tmp_path / "train-{000..019}.tar"))
    assert len(pickle.dumps(view)) < 1500
    assert list(pickle.loads(pickle.dumps(view))) == expected


# -------------------------------------------------------------------- behind a URL


def test_samples_and_lines_behind_a_url_are_read_by_ranges(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    expected = shards(tmp_path, 2, 3)
    for path in tmp_path.iterdir():
        memory.pipe(f"/{tmp_path.name}/{path.name}", path.read_bytes())
    memory.pipe(f"/{tmp_path.name}/a.jsonl", b"[1]\n[2]\n")
    base = f"memory://{tmp_path.name}"
    for pattern in ("train-{000..001}.tar", "*.tar"):
        view = sources.webdataset(f"{base}/{pattern}")
        assert list(view) == list(pickle.loads(pickle.dumps(view))) == expected
    assert list(sources.jsonl(f"{base}/a.jsonl")) == [[1], [2]]
    ranges: list[int] = []
    cat_file = type(memory).cat_file

    def noting(fs: Any, path: str, start: int, end: int) -> Any:
        ranges.append(end - start)
        return cat_file(fs, path, start=start, end=end)

    monkeypatch.setattr(type(memory), "cat_file", noting)
    assert view.select("json")[3] == b"json 3"  # type: ignore[attr-defined]
    assert ranges == [6]
    memory.pipe(f"/{tmp_path.name}/a.jsonl", b"[1]\n[2]\n[3]\n")
    assert len(sources.jsonl(f"{base}/a.jsonl")) == 3
    with pytest.raises(ValueError, match="webdataset: beside=True needs files on a disk"):
        sources.webdataset(f"{base}/*.tar", beside=True)
    with pytest.raises(FileNotFoundError):
        sources.lines(f"{base}/none.txt")


def test_a_server_without_ranges_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe("/unranged.txt", b"1\n2\n3\n")
    monkeypatch.setattr(type(memory), "cat_file", lambda fs, path, **_: b"1\n2\n3\n")
    with pytest.raises(ValueError, match=r"memory://unranged\.txt sends no ranges of bytes"):
        sources.lines("memory://unranged.txt")
