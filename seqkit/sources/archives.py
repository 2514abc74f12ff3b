"""`zip_members` and `tar_members`: the files in an archive."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import partial
from os import PathLike, fspath
from typing import Any, BinaryIO

from ..checks import check_callable
from ..view import View
from .files import Progress
from .per_process import per_process

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
        In the order of the archive.

    Raises
    ------
    OSError, zipfile.BadZipFile
        If the archive cannot be read.
    FileNotFoundError
        If no name matches.

    Examples
    --------
    >>> import seqkit as sk, zipfile
    >>> with zipfile.ZipFile(path := getfixture("tmp_path") / "texts.zip", "w") as archive:
    ...     for name in ("a.txt", "b.txt", "c.png"): archive.writestr(name, name[0] * 3)
    >>> texts = zip_members(path, "*.txt")
    >>> texts[1], list(sk.starmap(lambda name, data: data.decode(), texts))
    (('b.txt', b'bbb'), ['aaa', 'bbb'])
    """
    with zipfile.ZipFile(path) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
    names = [name for name in names if fnmatch(name, pattern)]
    _check_found(names, pattern, fspath(path), "zip_members")
    open_fn = partial(zipfile.ZipFile, fspath(path))
    return per_process(open_fn, _read_zip, names, per_thread=per_thread)


def _read_zip(archive: zipfile.ZipFile, name: str) -> Member:
    return name, archive.read(name)


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
    progress : callable, optional
        Called with the number of members scanned so far and None.

    Returns
    -------
    View
        In the order of the archive. Links and folders are left out.

    Raises
    ------
    OSError, tarfile.ReadError
        If the archive cannot be read, or is compressed.
    FileNotFoundError
        If no name matches.

    Notes
    -----
    One read of the file per access: the scan finds where each member lies.

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
    check_callable(progress, "tar_members: progress", optional=True)
    members = []
    for number, info in enumerate(_scan(fspath(path)), 1):
        if info.isreg() and not info.issparse() and fnmatch(info.name, pattern):
            members.append((info.name, info.offset_data, info.size))
        if progress is not None:
            progress(number, None)
    _check_found(members, pattern, fspath(path), "tar_members")
    return per_process(partial(_open_tar, fspath(path)), _read_tar, members)


def _scan(path: str) -> Iterator[tarfile.TarInfo]:
    try:
        with tarfile.open(path, "r:") as archive:
            while (info := archive.next()) is not None:
                yield info
                archive.members = []  # type: ignore[attr-defined]  # or it keeps all of them
    except tarfile.ReadError as error:
        raise tarfile.ReadError(
            f"tar_members: {path} is no tar archive, or it is compressed ({error}). A compressed archive has"
            " no random access: unpack it, or make a zip archive."
        ) from error


def _open_tar(path: str) -> BinaryIO:
    return open(path, "rb")


def _read_tar(file: BinaryIO, member: tuple[str, int, int]) -> Member:
    name, start, size = member
    file.seek(start)
    data = file.read(size)
    if len(data) != size:
        raise EOFError(f"{name} has {size} bytes, but the archive ends after {len(data)} of them")
    return name, data


def _check_found(members: list[Any], pattern: str, path: str, who: str) -> None:
    if not members:
        raise FileNotFoundError(f"{who}: no file in {path} matches {pattern!r}. Check the pattern.")
