"""What is special about each source: refused arguments, corner cases, and the cost that is promised."""

from __future__ import annotations

import io
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import seqkit as sk
from seqkit import sources

from .test_table import same

# -------------------------------------------------------------------- files, images, audio


def test_files_are_in_natural_order_at_any_depth(tmp_path: Path) -> None:
    for name in ("b/10.txt", "b/9.txt", "a1.txt", "a10.txt", "a2.TXT", ".hidden", ".git/x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [str(Path(path).relative_to(tmp_path)) for path in sources.files(tmp_path)]
    assert found == ["a1.txt", "a2.TXT", "a10.txt", "b/9.txt", "b/10.txt"]
    assert len(sources.files(tmp_path / "*.txt")) == 2
    assert len(sources.files(tmp_path / "**/*.txt")) == 4
    assert len(sources.files(tmp_path, suffixes=[".txt"])) == 5


def test_progress_counts_the_files(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}").touch()
    told: list[tuple[int, int | None]] = []
    sources.files(tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, None), (2, None), (3, None)]


def test_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"files: there is no file with a suffix of \['.jpg'\] at"):
        sources.files(tmp_path, suffixes=[".jpg"])
    with pytest.raises(FileNotFoundError, match="files: there is no file at"):
        sources.files(tmp_path / "*.png")
    with pytest.raises(FileNotFoundError, match=r"files: there is nothing at '.*missing'"):
        sources.files(tmp_path / "missing", suffixes=[".jpg"])


def test_images_are_writable_and_converted(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.full((2, 3), 7, np.uint8)).save(tmp_path / "1.png")
    (tmp_path / "notes.txt").touch()
    assert len(sources.images(tmp_path)) == 1
    (pixels,) = sources.images(tmp_path)
    assert (pixels.shape, pixels.flags.writeable) == ((2, 3, 3), True)
    assert sources.images(tmp_path, None)[0].shape == (2, 3)


def test_names_of_images_are_read_beside_other_files(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.zeros((2, 3), np.uint8)).save(tmp_path / "1.png")
    (tmp_path / "0.txt").touch()
    read = sources.read_image
    ((name, pixels),) = sources.files(tmp_path, suffixes=[".png"], read=lambda name: (name, read(name)))
    assert (Path(name).name, pixels.shape) == ("1.png", (2, 3, 3))


def test_image_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "1.png").write_bytes(b"no picture")
    with pytest.raises(sk.EvaluationError, match=r"smap\[0\] failed: .*1\.png.*another library"):
        sources.images(tmp_path)[0]


def test_another_library_is_not_the_remedy_for_an_image_that_is_cut_off(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "1.png"
    image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(sk.EvaluationError, match=r"truncated.*1\.png") as caught:
        sources.images(tmp_path)[0]
    assert "another library" not in str(caught.value)


def test_modes_that_pillow_does_not_have_are_refused_at_once(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "1.png").touch()
    for mode, error in (("rgb", ValueError), (3, TypeError)):
        with pytest.raises(error, match=f"images: mode must be a mode of Pillow .* got {mode!r}"):
            sources.images(tmp_path, mode)  # type: ignore[arg-type]


# -------------------------------------------------------------------- numpy


def test_names_choose_arrays_of_npz(tmp_path: Path) -> None:
    x = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(4), empty=np.empty((0, 2)))
    rows = sources.npz(tmp_path / "a.npz", ["x", "y"])
    assert not rows[0]["x"].flags.writeable
    assert [row["x"].tolist() for row in rows] == x.tolist()
    assert len(sources.npz(tmp_path / "a.npz", "empty")) == 0
    with pytest.raises(ValueError, match=r"differ in length: {'x': 4, 'y': 4, 'empty': 0}\. Choose one"):
        len(sources.npz(tmp_path / "a.npz"))
    with pytest.raises(KeyError, match="z"):
        len(sources.npz(tmp_path / "a.npz", "z"))


def test_npz_of_one_array_is_its_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", np.arange(3))
    assert [*sources.npz(tmp_path / "a.npz")] == [0, 1, 2]
    np.savez(tmp_path / "b.npz", np.array([None]))
    with pytest.raises(ValueError, match="Object arrays"):
        len(sources.npz(tmp_path / "b.npz"))


def test_memory_map_is_shared_with_workers(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(1000).reshape(100, 10))
    view = sources.npy(tmp_path / "a.npy")
    with sk.batch(view, 10, collate_fn=np.stack).prefetch(2, "process", context="spawn") as ahead:
        assert np.array_equal(np.concatenate([*ahead]), np.arange(1000).reshape(100, 10))


# -------------------------------------------------------------------- archives


def test_members_are_chosen_by_pattern_in_the_order_of_the_archive(tmp_path: Path) -> None:
    names = ["b/2.txt", "a/1.txt", "c.png"]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.mkdir("b")
        for name in names:
            archive.writestr(name, name)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(name)
            tar.addfile(info, io.BytesIO(name.encode()))
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "c.png"
        tar.addfile(link)  # is left out by the pattern
    told: list[tuple[int, int | None]] = []
    for view in (
        sources.zip_members(tmp_path / "a.zip", "*.txt"),
        sources.tar_members(
            tmp_path / "a.tar", "*.txt", progress=lambda done, total: told.append((done, total))
        ),
    ):
        assert [*view] == [(name, name.encode()) for name in names[:2]]
    assert told == [(1, None), (2, None), (3, None), (4, None)]
    for function, name in ((sources.zip_members, "a.zip"), (sources.tar_members, "a.tar")):
        with pytest.raises(FileNotFoundError, match=r"no file in .* matches '\*.gif'"):
            function(tmp_path / name, "*.gif")


def test_archives_without_random_access_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("a"), io.BytesIO())
    with pytest.raises(tarfile.ReadError, match="A compressed archive has no random access: unpack it"):
        sources.tar_members(tmp_path / "a.tar.gz")
    (tmp_path / "a.zip").write_bytes(b"nothing")
    with pytest.raises(zipfile.BadZipFile):
        sources.zip_members(tmp_path / "a.zip")


def test_archive_that_was_cut_short_is_an_error(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        info = tarfile.TarInfo("a")
        info.size = 9
        tar.addfile(info, io.BytesIO(b"123456789"))
    view = sources.tar_members(tmp_path / "a.tar")
    with open(tmp_path / "a.tar", "r+b") as file:
        file.truncate(515)
    with pytest.raises(sk.EvaluationError, match=r"a\.tar was written again"):
        view[0]


# -------------------------------------------------------------------- sqlite


def test_query_needs_a_place_for_the_id_and_ids(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.db")
    database.execute('CREATE TABLE "odd""name" (x)')
    database.executemany('INSERT INTO "odd""name" VALUES (?)', [(1,), (2,)])
    database.commit()
    database.close()
    assert [*sources.sqlite(tmp_path / "a.db", 'odd"name')] == [{"x": 1}, {"x": 2}]
    assert sources.sqlite(tmp_path / "a.db", 'odd"name', [2])[0] == {"x": 2}
    assert [*sources.sqlite(tmp_path / "a.db", 'odd"name', np.array([2, 1])).batch(2)[0]] == [
        {"x": 2},
        {"x": 1},
    ]
    assert len(sources.sqlite(tmp_path / "a.db", 'odd"name', [])) == 0
    with pytest.raises(ValueError, match="a query needs ids"):
        sources.sqlite(tmp_path / "a.db", "SELECT ?")
    with pytest.raises(sqlite3.OperationalError):
        sources.sqlite(tmp_path / "a.db", "t")
    with pytest.raises(sk.EvaluationError, match="id 3 has no row, one is needed"):
        sources.sqlite(tmp_path / "a.db", 'odd"name', [3])[0]


# -------------------------------------------------------------------- HDF5, Zarr


def test_names_choose_data_sets(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["deep/x"], file["deep/y"] = np.arange(3), np.arange(3) * 2
    assert [*sources.hdf5(tmp_path / "a.h5", "deep/x")] == [0, 1, 2]
    assert sources.hdf5(tmp_path / "a.h5", ["deep/x", "deep/y"])[2] == {"deep/x": 2, "deep/y": 4}
    with pytest.raises(ValueError, match=r"'deep' is a group .*\['.*'\]"):
        len(sources.hdf5(tmp_path / "a.h5"))
    with pytest.raises(KeyError):
        len(sources.hdf5(tmp_path / "a.h5", "z"))


def test_group_of_zarr_is_read_as_rows(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(tmp_path / "a.zarr")
    for name in "xy":
        group.create_array(name, data=np.arange(6), chunks=(2,))
    rows = sk.read(tmp_path / "a.zarr")
    assert rows[5] == {"x": 5, "y": 5}
    assert sk.read(tmp_path / "a.zarr", "x")[3] == 3
    assert rows.group_sizes == 2  # type: ignore[attr-defined]


# -------------------------------------------------------------------- Parquet


def parquet_files(folder: Path, rows: int) -> Path:
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    for k in range(3):
        table = pa.table({"x": range(100 * k, 100 * k + 100)})
        write_table(table, folder / f"{k}.parquet", row_group_size=rows)
    return folder


def test_files_of_a_folder_follow_each_other(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    rows = sources.parquet(
        parquet_files(tmp_path, 30), progress=lambda done, total: told.append((done, total))
    )
    assert [row["x"] for row in rows] == [*range(300)]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert rows.group_sizes == [30, 30, 30, 10] * 3  # type: ignore[attr-defined]
    assert len(sources.parquet(tmp_path / "[01].parquet")) == 200
    with pytest.raises(FileNotFoundError, match="parquet: there is no Parquet file at"):
        sources.parquet(tmp_path / "none")


class CountedGroups:
    """Counts in a file how often each row group is decoded, in any process."""

    def __init__(self, folder: Path, log: Path, cache_bytes: int) -> None:
        self._arguments = folder, log, cache_bytes

    def __call__(self) -> Any:
        from seqkit.sources.parquet import ParquetRows

        folder, log, cache_bytes = self._arguments

        class Counted(ParquetRows):
            def _table(self, group: int) -> Any:
                if group not in self._decoded:
                    with open(log, "a") as file:
                        print(group, file=file)
                return super()._table(group)

        paths = [str(folder / f"{k}.parquet") for k in range(3)]
        return Counted(paths, [[25] * 4] * 3, ["x"], cache_bytes, [{}] * 3)


def decoded(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()]


def test_shuffle_of_groups_decodes_each_group_once(tmp_path: Path) -> None:
    folder = parquet_files(tmp_path, 25)
    rows = sk.per_process(CountedGroups(folder, tmp_path / "log", 1))
    order = sk.shuffle_groups(rows, seed=0)
    batches = sk.batch(order, 5)
    assert sorted(row["x"] for batch in batches for row in batch) == [*range(300)]
    assert sorted(decoded(tmp_path / "log")) == [*range(12)]


def test_each_group_is_decoded_by_one_worker_if_a_chunk_is_a_group(tmp_path: Path) -> None:
    folder = parquet_files(tmp_path, 25)
    rows = sk.per_process(CountedGroups(folder, tmp_path / "log", 1))
    batches = sk.batch(sk.shuffle_groups(rows, seed=0), 5)
    with batches.prefetch(2, "process", chunk_size=25 // 5) as ahead:
        assert sorted(row["x"] for batch in ahead for row in batch) == [*range(300)]
    assert sorted(decoded(tmp_path / "log")) == [*range(12)]


def test_the_last_group_of_a_batch_is_still_decoded_for_the_next_batch(tmp_path: Path) -> None:
    folder = parquet_files(tmp_path, 25)
    rows = sk.per_process(CountedGroups(folder, tmp_path / "log", 1))
    read = rows.gather([60, 61, 10, 11, 12, 13]).batch(4)
    assert [row["x"] for batch in read for row in batch] == [60, 61, 10, 11, 12, 13]
    assert decoded(tmp_path / "log") == [2, 0]


def test_shuffled_reads_within_the_cache_decode_each_group_once(tmp_path: Path) -> None:
    folder = parquet_files(tmp_path, 25)
    rows = sk.per_process(CountedGroups(folder, tmp_path / "log", 1 << 20))
    assert sorted(row["x"] for row in sk.shuffle(rows, seed=0)) == [*range(300)]
    assert sorted(decoded(tmp_path / "log")) == [*range(12)]


# -------------------------------------------------------------------- CSV


def test_forked_workers_share_a_table_that_was_read(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n2\n")
    view = sources.csv(path)
    assert len(view) == 2
    path.unlink()
    with view.prefetch(1, "process", context="fork") as ahead:
        assert [*ahead] == [{"x": 1}, {"x": 2}]


# -------------------------------------------------------------------- fsspec


def test_remote_files_are_read_as_open_files(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    np.save(tmp_path / "a.npy", np.arange(3))
    assert sources.remote(f"file://{tmp_path}/a.npy", read=np.load)[0].tolist() == [0, 1, 2]
    with pytest.raises(FileNotFoundError, match="remote: there is no file at"):
        sources.remote(f"file://{tmp_path}/none")
    with pytest.raises(FileNotFoundError, match="remote: there is no file at"):
        sources.remote(f"file://{tmp_path}/*.png")


def test_options_reach_the_file_system_that_a_url_names() -> None:
    fsspec = pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    class Bucket(MemoryFileSystem):  # type: ignore[misc]
        """A server that is faked: it serves files to those who pass the option `anon`."""

        protocol = "fake"
        store: ClassVar[dict[str, Any]] = {}
        pseudo_dirs: ClassVar[list[str]] = [""]

        def __init__(self, anon: bool = False, **options: Any) -> None:
            super().__init__(**options)
            if not anon:
                raise PermissionError("no keys")

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return str(super()._strip_protocol(path.removeprefix("fake://")))

    fsspec.register_implementation("fake", Bucket, clobber=True)
    Bucket(anon=True).pipe("/bucket/a.txt", b"a")
    view = sources.remote("fake://bucket/*.txt", storage_options={"anon": True})
    assert [*view] == [b"a"]
    with pytest.raises(PermissionError, match="no keys"):
        sources.remote("fake://bucket/*.txt")


def test_files_of_a_web_server_are_read(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    (tmp_path / "a.txt").write_text("text")
    code = """
import functools, http.server, sys, threading
from seqkit import sources
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_): ...
handler = functools.partial(Quiet, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_address[1]}"
assert sources.remote(f"{address}/a.txt")[0] == b"text"
assert sources.remote(f"{address}/a.txt", read=lambda file: file.read(2))[0] == b"te"
try:
    sources.remote(f"{address}/none.txt")
except FileNotFoundError as error:
    assert "none.txt" in str(error)
else:
    raise AssertionError
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=50
    )
    assert run.returncode == 0, run.stderr


# -------------------------------------------------------------------- read


def test_open_fn_decides_in_place_of_the_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("1\n2\n")
    view = sk.read(tmp_path / "a.parquet", open_fn=lambda path: Path(path).read_text().split())
    assert [*view] == ["1", "2"]


def test_patterns_of_images_and_folders_of_files(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.zeros((2, 3), np.uint8)).save(tmp_path / "1.png")
    assert sk.read(tmp_path / "*.png", mode="L")[0].shape == (2, 3)
    assert sk.read(tmp_path)[0] == str(tmp_path / "1.png")


def test_unknown_suffixes_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").touch()
    with pytest.raises(ValueError, match=r"read: the suffix '.xyz' is unknown, .* pass open_fn="):
        sk.read(tmp_path / "a.xyz")
    with pytest.raises(FileNotFoundError, match="read: there is nothing at"):
        sk.read(tmp_path / "b.xyz")


@pytest.mark.parametrize("name", ["npy", "npz", "h5", "zarr", "csv", "feather", "zip", "tar", "png", "wav"])
def test_a_pattern_gives_the_items_of_its_files_for_every_suffix(name: str, tmp_path: Path) -> None:
    for number in (10, 2):
        write_one(tmp_path / f"{number}.{name}", number)
    single = [item for number in (2, 10) for item in sk.read(tmp_path / f"{number}.{name}")]
    assert same(list(sk.read(tmp_path / f"*.{name}")), single)
    assert len(single) >= 2
    with pytest.raises(FileNotFoundError, match=r"there is no file"):
        sk.read(tmp_path / f"none*.{name}")


def write_one(path: Path, number: int) -> None:
    array = np.array([number, number], np.uint8)
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, x=array, y=array)
    elif path.suffix == ".h5":
        with pytest.importorskip("h5py").File(path, "w") as file:
            file["x"] = array
    elif path.suffix == ".zarr":
        pytest.importorskip("zarr").create_array(path, data=array)
    elif path.suffix == ".csv":
        path.write_text(f"x\n{number}\n")
    elif path.suffix == ".feather":
        pytest.importorskip("pyarrow.feather").write_feather(
            pytest.importorskip("pyarrow").table({"x": [number]}), str(path)
        )
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", str(number))
    elif path.suffix == ".tar":
        with tarfile.open(path, "w") as archive:
            archive.addfile(tarfile.TarInfo(f"a{number}"))
    elif path.suffix == ".png":
        pytest.importorskip("PIL.Image").fromarray(array.reshape(1, 2)).save(path)
    else:
        pytest.importorskip("soundfile").write(path, array.astype(np.int16), 8000)


def test_an_argument_that_the_reader_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    with pytest.raises(TypeError, match=r"npz\(\) got an unexpected keyword argument 'nmae'"):
        sk.read(tmp_path / "a.npz", nmae="x")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sk.read(3), "read: path must be a str or a path, got 3"),
        (lambda: sources.files(None), "files: path must be a str or a path, got None"),
        (lambda: sources.files(".", suffixes=".png"), "files: suffixes must be a sequence of str"),
        (lambda: sources.npy(b"a"), "npy: path must be a str or a path, got b'a'"),
        (lambda: sources.hdf5(__file__, 3), "hdf5: name must be a str, a sequence of str or None, got 3"),
        (
            lambda: sources.npz(__file__, [1]),
            r"npz: name must be a str, a sequence of str or None, got \[1\]",
        ),
        (lambda: sources.parquet(__file__, 3), "parquet: columns must be a str, a sequence of str or None"),
        (lambda: sources.sqlite(__file__, 3), "sqlite: query must be a str, got 3"),
        (lambda: sources.zip_members(__file__, 3), "zip_members: pattern must be a str"),
        (
            lambda: sources.images(".", 3),
            "images: mode must be a mode of Pillow such as 'RGB', or None, got 3",
        ),
        (lambda: sources.files(".", progress=3), "files: progress must be True or a function"),
        (lambda: sources.parquet(__file__, progress=3), "parquet: progress must be True or a function"),
        (
            lambda: sources.tar_members(__file__, progress=3),
            "tar_members: progress must be True or a function",
        ),
        (lambda: sources.remote(3), "remote: url must be a str such as"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused_at_once(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}"):
        call()


def test_values_of_arguments_are_checked_at_once() -> None:
    with pytest.raises(ValueError, match="hdf5: name must have names that differ"):
        sources.hdf5(__file__, [])


@pytest.mark.parametrize("name", ["csv", "npz", "hdf5", "zarr", "arrow", "parquet", "zip", "tar"])
def test_a_missing_file_is_refused_when_the_view_is_built(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="read: there is nothing at"):
        sk.read(tmp_path / f"missing.{name}")


@pytest.mark.parametrize("name", ["csv", "npz", "hdf5", "zarr", "arrow"])
def test_each_function_refuses_a_missing_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"^{name}: there is nothing at"):
        getattr(sources, name)(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match=r"^sqlite: there is nothing at"):
        sources.sqlite(tmp_path / "missing.db", "SELECT ?", [1])


def test_a_pattern_of_parquet_files_is_read_as_rows(tmp_path: Path) -> None:
    parquet_files(tmp_path, 50)
    assert sk.read(tmp_path / "[12].parquet")[0] == {"x": 100}


def test_functions_are_not_hidden_by_their_modules() -> None:
    code = """
import seqkit.sources.hdf5, seqkit.sources.read, importlib
from seqkit import sources
for name in sources.__all__:
    importlib.import_module(f"seqkit.sources.{sources._MODULES[name]}")
    assert callable(getattr(sources, name)), name
import seqkit as sk
assert sk.read is sources.read and sk.per_process is sources.per_process
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert run.returncode == 0, run.stderr
