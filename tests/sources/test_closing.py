"""Files that are written again, and handles that are closed: by `close`, and with a loader."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit import sources

from .table import KINDS, Kind

KEEP_NO_FILE = {"files", "images, Pillow", "audio", "fsspec, local", "fsspec, memory", "zarr array"}
TABLES = {"pandas", "polars", "pyarrow"}  # in memory


def is_open(path: Path) -> bool:
    """Does this process have a file open, or mapped into memory?"""
    names = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    return str(path) in "\n".join(names) + Path("/proc/self/maps").read_text()


def is_closed_soon(path: Path) -> bool:
    """Is a file closed within seconds? A thread of pyarrow may hold it a little longer than its reader."""
    until = monotonic() + 5
    while is_open(path) and monotonic() < until:
        sleep(0.01)
    return not is_open(path)


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if k.name not in KEEP_NO_FILE | TABLES], ids=lambda k: k.name
)
def test_a_closed_view_opens_its_file_again(kind: Kind, tmp_path: Path) -> None:
    for library in kind.needs:
        pytest.importorskip(library)
    view: Any = kind.make(tmp_path)[0]
    first = view[0]
    before = repr(first)
    del first
    view.close()
    assert is_closed_soon(tmp_path)
    assert repr(view[0]) == before
    view.close()


def test_an_hdf5_file_can_be_written_after_close(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
    view: Any = sk.read(tmp_path / "a.h5")
    assert view[1] == 1
    with pytest.raises(OSError, match=r"lock|open"):
        h5py.File(tmp_path / "a.h5", "a")
    view.close()
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["x"][1] = 7
    assert view[1] == 7


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_closes_the_files_that_it_opened(workers: int, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    for number in range(2):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"] = np.arange(8)
    view = sk.read(tmp_path / "*.h5")
    with sk.DataLoader(view, 4, num_workers=workers) as loader:
        assert sum(len(batch) for batch in loader) == 16
    assert is_closed_soon(tmp_path)
    for number in range(2):
        h5py.File(tmp_path / f"{number}.h5", "a").close()


def test_a_pattern_of_files_is_closed(tmp_path: Path) -> None:
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", np.arange(3))
    view: Any = sk.read(tmp_path / "*.npy")
    assert list(view) == [0, 1, 2, 0, 1, 2]
    assert is_open(tmp_path)
    view.close()
    assert is_closed_soon(tmp_path)


# -------------------------------------------------------------------- files that are written again


def test_a_npy_file_that_was_written_again_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full(1000, 1.0))
    view = sk.read(tmp_path / "a.npy")
    items = iter(view)
    assert next(items) == view[5] == 1
    copy = pickle.dumps(view)
    np.save(tmp_path / "a.npy", np.full(1000, 2.0))  # of the same size
    assert next(items) == 1  # it was read before
    reads: list[Any] = [lambda: view[5], lambda: view._getmany([5])]
    for read in (*reads, lambda: list(view), lambda: sk.batch(view, 2)[0], lambda: pickle.loads(copy)[0]):
        with pytest.raises((ValueError, sk.EvaluationError), match=r"a\.npy was written again\. Build"):
            read()
    assert "a.npy" in repr(view)
    assert sk.read(tmp_path / "a.npy")[5] == 2


def test_large_rows_of_a_npy_file_are_checked_one_by_one(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((4, 20_000)))
    items = iter(sk.read(tmp_path / "a.npy"))
    next(items)
    np.save(tmp_path / "a.npy", np.ones((4, 20_000)))
    for _ in range(3):
        with pytest.raises(sk.EvaluationError, match="was written again"):
            next(items)
    with pytest.raises(StopIteration):
        next(items)


def test_a_npy_file_that_is_shorter_now_does_not_kill_the_process(tmp_path: Path) -> None:
    code = """
import sys, numpy as np, seqkit as sk
np.save(sys.argv[1], np.full(1_000_000, 1.0))
view = sk.read(sys.argv[1])
assert view[500_000] == 1
np.save(sys.argv[1], np.full(10, 2.0))
try:
    view[500_000]
except sk.EvaluationError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.npy")], capture_output=True, text=True, timeout=50
    )
    assert "was written again" in run.stdout, run


def test_a_npy_file_that_was_replaced_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    view = sk.read(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.arange(3, 6))
    (tmp_path / "b.npy").replace(tmp_path / "a.npy")
    with pytest.raises(sk.EvaluationError, match="was written again"):
        view[0]


# -------------------------------------------------------------------- missing libraries


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("images", "PIL", "pillow"),
        ("audio", "soundfile", "soundfile"),
        ("hdf5", "h5py", "h5py"),
        ("zarr", "zarr", "zarr"),
        ("parquet", "pyarrow", "pyarrow"),
        ("arrow", "pyarrow", "pyarrow"),
    ],
)
def test_a_missing_library_is_named_when_the_view_is_built(
    name: str, module: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"^{name} needs a library .*: pip install {package}$"):
        getattr(sources, name)(tmp_path)


def test_fsspec_is_named_when_the_view_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match=r"^remote needs a library .*: pip install fsspec$"):
        sources.remote("memory://a")


# -------------------------------------------------------------------- other complaints


def test_open_fn_is_called_for_each_file_of_a_pattern(tmp_path: Path) -> None:
    for name in ("10", "2"):
        (tmp_path / f"{name}.jsonl").write_text(f'"{name} a\u2028b"\n"\x85"\n', encoding="utf-8")

    def lines(path: str) -> list[str]:
        with open(path, encoding="utf-8") as file:
            return list(file)

    view = sk.read(tmp_path / "*.jsonl", open_fn=lines)
    assert list(view) == ['"2 a\u2028b"\n', '"\x85"\n', '"10 a\u2028b"\n', '"\x85"\n']
    with pytest.raises(FileNotFoundError, match="read: there is no file at"):
        sk.read(tmp_path / "*.txt", open_fn=lines)
    assert list(sk.read(tmp_path / "*.jsonl")) == ["2 a\u2028b", "\x85", "10 a\u2028b", "\x85"]
    (tmp_path / "a.text").touch()
    with pytest.raises(ValueError, match=r"For the lines of a text use sources\.lines"):
        sk.read(tmp_path / "a.text")


@pytest.mark.parametrize("silence", [0, 100])
def test_a_wav_file_without_its_size_is_refused(silence: int, tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    path = tmp_path / "a.wav"
    samples = np.r_[np.zeros(silence), np.sin(np.arange(1, 8000) / 5)]
    soundfile.write(path, samples, 8000)
    data = bytearray(path.read_bytes())
    place = data.find(b"data")
    data[4:8] = data[place + 4 : place + 8] = bytes(4)
    path.write_bytes(data)
    with pytest.raises(sk.EvaluationError, match=r"no samples, and more bytes follow.*a\.wav"):
        sources.audio(tmp_path)[0]
