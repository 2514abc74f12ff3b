"""`zip_members` and `tar_members`: the files in an archive."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from functools import partial
from os import PathLike
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..core.ahead import Ranges
from ..core.arguments import as_bool
from ..core.progress import Progress, Report, check_progress, reporting
from ..core.view import View
from .files import existing, naming, written_again
from .per_process import PerProcess
from .tar_headers import FILE, LINK, SPARSE, SYMLINK, scan

__all__ = ["tar_members", "zip_members"]

Member = tuple[str, bytes]


def zip_members(path: str | PathLike[str], pattern: str = "*", *, per_thread: bool = False) -> View[Member]:
    """Return a view of the files in a zip archive, each a pair of name and bytes.

    Parameters
    ----------
    path : path-like
        The archive. Its directory is read now. Each process opens the archive when it first reads.
    pattern : str
        Keep only names that match, such as ``"*.jpg"``; ``*`` matches ``/`` too.
    per_thread : bool
        True: each thread opens the archive, so that threads decompress at the same time.

    Returns
    -------
    View
        In the order of the archive. A name that occurs twice is in the view twice. Folders are left out.

    Raises
    ------
    OSError, zipfile.BadZipFile
        If the archive cannot be read.
    FileNotFoundError
        If no name matches.
    ValueError
        If a name that matches is a symbolic link.

    Examples
    --------
    >>> import seqkit as sk, zipfile
    >>> with zipfile.ZipFile(path := getfixture("tmp_path") / "texts.zip", "w") as archive:
    ...     for name in ("a.txt", "b.txt", "c.png"): archive.writestr(name, name[0] * 3)
    >>> texts = zip_members(path, "*.txt")
    >>> texts[1], list(sk.starmap(lambda name, data: data.decode(), texts))
    (('b.txt', b'bbb'), ['aaa', 'bbb'])
    """
    name = _checked(path, pattern, "zip_members")
    per_thread = as_bool(per_thread, "zip_members: per_thread")
    with naming(name):
        members = _zip_directory(name, pattern)
    _check_found(members, pattern, name, "zip_members")
    return PerProcess(partial(ZipRows, name, members), "zip_members", name, per_thread)


def _zip_directory(path: str, pattern: str) -> list[int]:
    """Return the number of each file in the archive."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
    numbers = []
    for number, info in enumerate(infos):
        if info.is_dir() or not fnmatch(info.filename, pattern):
            continue
        if stat.S_ISLNK(info.external_attr >> 16):
            _refuse("zip_members", info.filename, path, "is a link")
        numbers.append(number)
    return numbers


def _refuse(who: str, name: str, path: str, why: str) -> NoReturn:
    raise ValueError(
        f"{who}: {name!r} in {path} {why}, and cannot be read in place. Pass a pattern that leaves it out, or"
        " unpack the archive."
    )


class ZipRows:
    """The members of an opened zip archive, by their numbers, because a name may occur twice."""

    def __init__(self, path: str, numbers: Sequence[int]) -> None:
        self._numbers = numbers
        self._archive = zipfile.ZipFile(path)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, i: int) -> Member:
        info = self._archive.filelist[self._numbers[i]]
        return info.filename, self._archive.read(info)

    def close(self) -> None:
        self._archive.close()


def tar_members(
    path: str | PathLike[str], pattern: str = "*", *, progress: Progress | None = None
) -> View[Member]:
    """Return a view of the files in a tar archive, each a pair of name and bytes.

    Parameters
    ----------
    path : path-like
        The archive, not compressed. It is scanned once, now. Each process opens it when it first reads.
    pattern : str
        Keep only names that match, such as ``"*.jpg"``; ``*`` matches ``/`` too.
    progress : True or callable, optional
        True shows a bar of tqdm. A function is called with the number of members scanned so far and None.

    Returns
    -------
    View
        In the order of the archive. A name that occurs twice is in the view twice. A hard link has the bytes
        of its file. Folders and devices are left out.

    Raises
    ------
    OSError, tarfile.ReadError
        If the archive cannot be read, is damaged or compressed.
    ValueError
        If a name that matches is a symbolic link, or a file is sparse.
    FileNotFoundError
        If no name matches.

    Notes
    -----
    Use `webdataset` for samples of several members, such as ``7.jpg`` and ``7.json``: a `batch` of neighbours
    mixes samples where a member is missing.

    One read of the file per access: the scan finds where each member lies. An archive that ends between two
    members, without the mark of its end, is read to there, as `tarfile` does.

    Examples
    --------
    >>> import io, tarfile
    >>> with tarfile.open(path := getfixture("tmp_path") / "texts.tar", "w") as archive:
    ...     for name in ("a.txt", "b.txt"):
    ...         info = tarfile.TarInfo(name); info.size = 3
    ...         archive.addfile(info, io.BytesIO(name[:1].encode() * 3))
    >>> tar_members(path)[1]
    ('b.txt', b'bbb')
    """
    check_progress(progress, "tar_members: progress")
    name = _checked(path, pattern, "tar_members")
    with naming(name), reporting(progress, "tar_members") as report:
        size = os.stat(name).st_size
        members = list(_tar_directory(name, pattern, report))
    _check_found(members, pattern, name, "tar_members")
    names = [name for name, _, _ in members]
    places = np.array([place for _, *place in members], np.int64)
    return PerProcess(partial(TarRows, name, size, names, places), "tar_members", name, where="disk")


def _tar_directory(path: str, pattern: str, report: Report) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each file, where its bytes begin, and how many there are."""
    places: dict[str, tuple[int, int]] = {}
    for number, (name, kind, start, size, target) in enumerate(_scanned(path), 1):
        report(number, None)
        if kind == LINK and target in places:  # a second name of a file before it
            kind, (start, size) = FILE, places[target]
        if kind == FILE:
            places[name] = start, size
        if not fnmatch(name, pattern):
            continue
        if kind in (LINK, SYMLINK):
            _refuse("tar_members", name, path, "is a link")
        if kind == SPARSE:
            _refuse("tar_members", name, path, "is sparse")
        if kind == FILE:
            yield name, start, size


def _scanned(path: str) -> Iterator[tuple[str, str, int, int, str]]:
    with open(path, "rb") as file:
        try:
            yield from scan(file)
        except tarfile.ReadError as error:
            raise tarfile.ReadError(
                f"tar_members: {path} cannot be read: {error}. A compressed archive has no random access:"
                " unpack it, or make a zip archive."
            ) from error


class TarRows:
    """The members of an opened tar archive of `size` bytes: the name of each, its first byte and its size."""

    def __init__(self, path: str, size: int, names: list[str], places: npt.NDArray[np.int64]) -> None:
        self._path, self._size, self._names, self._places = path, size, names, places
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  # a buffer would read beyond the member

    def __len__(self) -> int:
        return len(self._names)

    def ranges(self, indices: npt.NDArray[np.int64]) -> Iterator[Ranges]:
        starts, sizes = self._places[indices].T
        yield Ranges(self._file.fileno(), starts, starts + sizes)

    def __getitem__(self, i: int) -> Member:
        name, (start, size) = self._names[i], self._places[i].tolist()
        self._file.seek(start)
        data = self._file.read(size)
        while len(data) < size and (more := self._file.read(size - len(data))):
            data += more
        if os.fstat(self._file.fileno()).st_size != self._size:
            raise written_again("tar_members", self._path)
        return name, data

    def close(self) -> None:
        self._file.close()


def _checked(path: Any, pattern: Any, who: str) -> str:
    if not isinstance(pattern, str):
        raise TypeError(f"{who}: pattern must be a str such as '*.jpg', got {pattern!r}")
    return existing(path, who)


def _check_found(members: list[Any], pattern: str, path: str, who: str) -> None:
    if not members:
        raise FileNotFoundError(f"{who}: no file in {path} matches {pattern!r}. Check the pattern.")
