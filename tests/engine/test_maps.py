"""Arrays over mapped files travel to workers as references."""

from __future__ import annotations

import mmap
import os
import pickle
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine import maps
from seqkit.engine.pickling import dumps_by_value, dumps_for_workers

from .kinds import PROCESSES, Kind

GIB = 1 << 30


def sent(value: Any) -> Any:
    """Return what a worker gets, which must not take more than a reference."""
    data = dumps_for_workers(value, protocol=5)
    assert len(data) < 2000
    return pickle.loads(data)


def by_value(array: Any) -> Any:
    """Return what a worker gets if the bytes travel."""
    buffers: list[pickle.PickleBuffer] = []
    data = dumps_for_workers(array, protocol=5, buffer_callback=buffers.append)
    assert sum(buffer.raw().nbytes for buffer in buffers) + len(data) > array.nbytes
    return pickle.loads(data, buffers=[bytearray(buffer) for buffer in buffers])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a file"
    np.arange(10_000, dtype="<i4").tofile(path)
    return path


def test_a_memmap_and_its_parts_are_mapped_again_at_their_place(path: Path) -> None:
    whole = np.memmap(path, "<i4", "r", offset=8, shape=(99, 100))[::-1]
    flat = np.memmap(path, "<i4", "r")
    parts = [
        whole[part] for part in (np.s_[7:], np.s_[::-3, 5:9], np.s_[50], np.s_[98:, 99:], np.s_[..., None])
    ]
    parts += [whole[:, ::-1], flat.reshape(10, -1).T, flat.view("<u2")]
    parts += [flat.view([("x", "<i4"), ("y", "<i4")])["y"]]
    for original in parts:
        found, plain = sent(original), sent(np.asarray(original))
        assert (type(found), type(plain)) == (np.memmap, np.ndarray)
        assert (found.strides, found.flags.writeable) == (original.strides, False)
        assert (found == original).all()
        assert (plain == original).all()


def test_memory_that_can_be_written_is_shared(path: Path) -> None:
    original = np.memmap(path, "<i4", "r+", shape=(100, 100))
    found = sent(original)
    found[3, 4] = -1
    assert original[3, 4] == -1
    found.flush()
    original.flags.writeable = False
    assert not sent(original).flags.writeable
    made = np.memmap(path.with_name("new"), "f8", "w+", shape=(1000,))
    made[:] = 3  # opening the file with this mode again would empty it
    assert (sent(made) == 3).all()


def test_arrays_over_other_mappings_are_references(path: Path) -> None:
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
        late = mmap.mmap(file.fileno(), 0, offset=mmap.PAGESIZE, prot=mmap.PROT_READ)
    for original in (
        np.frombuffer(mapped, "<i4"),
        np.ndarray((5, 5), "<i4", mapped, offset=12),
        np.frombuffer(memoryview(late)[4:], "<i4"),
    ):
        found = sent(original)
        assert (found == original).all()
        assert found.flags.writeable == original.flags.writeable


def test_shared_memory_stays_shared() -> None:
    memory = shared_memory.SharedMemory(create=True, size=40_000)
    try:
        original = np.ndarray((10_000,), "i4", memory.buf)
        found = sent(original)
        found[7] = 7
        assert original[7] == 7
        del original, found
    finally:
        memory.close()
        memory.unlink()
        tracker: Any = resource_tracker._resource_tracker  # type: ignore[attr-defined]
        tracker._stop()  # or it is left behind


def test_arrays_over_one_mapping_share_one_mapping_in_the_worker(path: Path) -> None:
    original = np.memmap(path, "<i4", "r").reshape(100, 100)
    rows = pickle.loads(dumps_for_workers(list(original), protocol=5))
    assert len({id(row.base) for row in rows}) == 1
    assert all((row == original[i]).all() for i, row in enumerate(rows))


def test_memory_that_no_file_holds_travels_by_value(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = np.memmap(path, "<i4", "c")
    private[0] = -1
    found = by_value(private)
    assert (type(found), found[0]) == (np.memmap, -1)
    found[1] = -2
    assert private[1] == 1
    assert by_value(np.frombuffer(mmap.mmap(-1, 8192), np.uint8)).shape == (8192,)
    assert by_value(np.arange(5000)).sum() == 12_497_500
    assert by_value(np.memmap(path, "<i4", "r")[:0]).shape == (0,)
    original = np.memmap(path, "<i4", "r")
    path.rename(path.with_name("moved"))
    assert (sent(original) == original).all()
    with monkeypatch.context() as patch:
        patch.setattr(maps, "_open", lambda *_: Path.open(path / "not to be opened"))
        assert (by_value(original) == original).all()
    path.with_name("moved").unlink()
    assert (by_value(original) == original).all()
    for name in ("moved", "moved (deleted)"):  # the second is how the system names the file now
        np.zeros(10_000, "<i4").tofile(path.with_name(name))
        assert (by_value(original) == original).all()


def test_an_array_over_a_mapping_that_advice_has_split_travels_by_value(path: Path) -> None:
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    mapped.madvise(mmap.MADV_RANDOM, 0, 4 * mmap.PAGESIZE)
    whole = np.frombuffer(mapped, "<i4")
    for part in (whole[:4096], whole[4096:]):
        assert (sent(part) == part).all()
        assert (sent(part[::-1]) == part[::-1]).all()
    for array in (whole, whole[::-1], whole[10:4097], whole[4096:10:-1]):
        assert (by_value(array) == array).all()


def test_devices_may_be_named_in_two_ways(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = np.memmap(path, "<i4", "r")
    monkeypatch.setattr(os, "major", lambda device: 0)  # as on Btrfs
    assert (sent(original) == original).all()
    np.ones(10_000, "<i4").tofile(path.with_name("other"))
    path.with_name("other").rename(path)
    assert (by_value(original) == original).all()


def test_a_file_that_is_replaced_on_the_way_is_refused(path: Path) -> None:
    data = dumps_for_workers(np.memmap(path, "<i4", "r"), protocol=5)
    path.rename(path.with_name("moved"))
    np.zeros(10_000, "<i4").tofile(path)
    with pytest.raises(FileNotFoundError, match="a file was replaced"):
        pickle.loads(data)


def test_other_machines_get_the_bytes(path: Path) -> None:
    data = dumps_by_value(np.memmap(path, "<i4", "r"), protocol=5)
    path.unlink()
    assert (pickle.loads(data) == np.arange(10_000)).all()


@pytest.mark.parametrize("kind", PROCESSES[1:], ids=str)
def test_workers_read_a_mapped_file_without_a_copy(kind: Kind, tmp_path: Path) -> None:
    original = np.memmap(tmp_path / "sparse", "u1", "w+", shape=(4 * GIB,))
    original[::GIB] = [1, 2, 3, 4]
    rows = original.reshape(4, GIB)

    def item(i: int) -> tuple[int, str]:
        rows[i, 1] = 10 * i
        return int(rows[i, 0]), type(rows).__name__

    with kind.ahead(sk.smap(item, range(4)), 1) as node:
        assert list(node) == [(i + 1, "memmap") for i in range(4)]
    assert rows[:, 1].tolist() == [0, 10, 20, 30]
