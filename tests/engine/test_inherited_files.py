"""Files that were opened before a fork: each worker has a position of its own in them."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk

from .kinds import PROCESSES, Kind
from .traces import until

PATIENCE_S = 20
LINE = 10


def lines(path: Path, count: int) -> Path:
    path.write_bytes(b"".join(b"%09d\n" % i for i in range(count)))
    return path


def meeting(folder: Path, parties: int) -> Callable[[], None]:
    """Return a function that returns when so many workers have called it."""

    def meet() -> None:
        (folder / f"met {os.getpid()}").touch()
        until(lambda: len(list(folder.glob("met *"))) >= parties, PATIENCE_S)

    return meet


class Lines:
    """Opens its file when it is unpickled, as data sets do that hold one."""

    def __init__(self, path: Path, meet: Callable[[], None], buffering: int = -1) -> None:
        self.state = path, meet, buffering
        self.__setstate__(self.state)

    def __getstate__(self) -> Any:
        return self.state

    def __setstate__(self, state: Any) -> None:
        self.state = state
        self.file = open(state[0], "rb", buffering=state[2])  # noqa: SIM115 - a data set holds it

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> bytes:
        self.file.seek(LINE * i)
        self.state[1]()
        return self.file.read(LINE)


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_workers_that_read_at_once_through_one_file_read_their_own_lines(kind: Kind, tmp_path: Path) -> None:
    for buffering in (-1, 0):
        folder = tmp_path / str(buffering)
        folder.mkdir()
        samples = Lines(lines(folder / "lines", 6), meeting(folder, 3), buffering)
        with samples.file, kind.ahead(sk.view(samples), 3, chunk_size=1) as ahead:
            assert list(ahead) == [b"%09d\n" % i for i in range(6)]


def test_members_of_an_archive_that_was_opened_before(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for i in range(40):
            archive.writestr(str(i), str(i) * 5000)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        names = [str(i % 40) for i in range(600)]
        with sk.prefetch(sk.smap(archive.read, names), 3, "process", context="fork") as ahead:
            assert list(ahead) == [(name * 5000).encode() for name in names]


def test_a_worker_begins_where_the_file_was_and_moves_nothing_here(tmp_path: Path) -> None:
    with open(lines(tmp_path / "lines", 9), "rb", buffering=0) as file:
        file.seek(3 * LINE)
        with sk.prefetch(sk.smap(lambda i: file.read(LINE), [0, 1]), 1, "process", context="fork") as ahead:
            assert list(ahead) == [b"000000003\n", b"000000004\n"]
        assert file.tell() == 3 * LINE


def test_a_file_that_was_deleted_is_read_on(tmp_path: Path) -> None:
    with tempfile.TemporaryFile(dir=tmp_path) as writing:
        writing.write(b"text")
        writing.flush()
        fd = os.open(f"/proc/self/fd/{writing.fileno()}", os.O_RDONLY)
        try:
            reading = sk.smap(lambda i: os.read(fd, i), [2, 2])
            with sk.prefetch(reading, 1, "process", context="fork") as ahead:
                assert list(ahead) == [b"te", b"xt"]
            assert os.lseek(fd, 0, os.SEEK_CUR) == 0
        finally:
            os.close(fd)


@pytest.fixture
def others(tmp_path: Path) -> Iterator[dict[str, int]]:
    """Descriptors that are no files, or that are written to."""
    ours, theirs = socket.socketpair()
    pipe = os.pipe()
    path = lines(tmp_path / "written", 3)
    fds = {
        "socket": ours.detach(),
        "other end": theirs.detach(),
        "pipe": pipe[0],
        "end to write": pipe[1],
        "folder": os.open(tmp_path, os.O_RDONLY),
        "device": os.open("/dev/null", os.O_RDONLY),
        "both": os.open(path, os.O_RDWR),
        "written": os.open(path, os.O_WRONLY | os.O_APPEND),
    }
    yield fds
    for fd in fds.values():
        os.close(fd)


def test_no_other_descriptor_is_touched(others: dict[str, int], tmp_path: Path) -> None:
    def seen(fd: int) -> Any:
        status = os.fstat(fd)
        return status.st_dev, status.st_ino, fcntl.fcntl(fd, fcntl.F_GETFL), os.get_inheritable(fd)

    reading = os.open(lines(tmp_path / "lines", 3), os.O_RDONLY)
    os.set_inheritable(reading, True)
    fds = [*others.values(), reading]

    def item(i: int) -> Any:
        os.lseek(others["both"], 20, os.SEEK_SET)
        os.write(others["end to write"], b"from the worker")
        os.write(others["other end"], b"from the worker")
        return [seen(fd) for fd in fds]

    try:
        with sk.prefetch(sk.smap(item, [0]), 1, "process", context="fork") as ahead:
            assert ahead[0] == [seen(fd) for fd in fds]
        assert os.lseek(others["both"], 0, os.SEEK_CUR) == 20  # shared, as before
        assert os.read(others["pipe"], 99) == os.read(others["socket"], 99) == b"from the worker"
    finally:
        os.close(reading)


def test_a_worker_has_no_further_descriptor(tmp_path: Path) -> None:
    def count(_: int) -> int:
        return len(os.listdir("/proc/self/fd"))

    counts = []
    for opened in (0, 5):
        with ExitStack() as files:
            for _ in range(opened):
                files.enter_context(open(lines(tmp_path / "lines", 3)))
            with sk.prefetch(sk.smap(count, [0]), 1, "process", context="fork") as ahead:
                counts.append(ahead[0] - opened)
    assert counts[0] == counts[1]
