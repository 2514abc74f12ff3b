"""`zip_members` and `tar_members`: the files in an archive."""

from __future__ import annotations

import re
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import partial
from os import PathLike
from typing import Any, BinaryIO, NoReturn

from ..core.arguments import as_bool
from ..core.progress import Progress, Report, check_progress, reporting
from ..core.source import as_view
from ..core.view import View
from ..views.smap import smap
from .files import existing, name_file
from .handles import Handles
from .per_process import WithHandle

__all__ = ["tar_members", "zip_members"]

Member = tuple[str, bytes]

ENCRYPTED = 1  # a bit in the flags of a member of a zip archive
APPLE = re.compile(r"(^|/)\._[^/]*$").search  # such as ._a.jpg beside a.jpg
COMPRESSION = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


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
        In the order of the archive. A name that occurs twice is in the view twice. Folders are left out, and
        so are the files that macOS adds, such as ``._a.jpg`` beside ``a.jpg``.

    Raises
    ------
    OSError, zipfile.BadZipFile
        If the archive cannot be read.
    FileNotFoundError
        If no name matches.
    ValueError
        If a file needs a password, or a name that matches is a symbolic link.

    Examples
    --------
    >>> import seqkit as sk, zipfile
    >>> with zipfile.ZipFile(path := getfixture("tmp_path") / "texts.zip", "w") as archive:
    ...     for name in ("a.txt", "b.txt", "c.png"): archive.writestr(name, name[0] * 3)
    >>> texts = zip_members(path, "*.txt")
    >>> texts[1], list(sk.starmap(lambda name, data: data.decode(), texts))
    (('b.txt', b'bbb'), ['aaa', 'bbb'])
    """
    archive_path = existing(path, "zip_members")
    _check_pattern(pattern, "zip_members")
    try:
        members = _zip_directory(archive_path, pattern)
    except zipfile.BadZipFile as error:
        name_file(error, archive_path)
        raise
    _check_found(members, pattern, archive_path, "zip_members")
    per_thread = as_bool(per_thread, "zip_members: per_thread")
    handles = Handles(partial(zipfile.ZipFile, archive_path), per_thread, bounded=True)
    return smap(WithHandle(handles, _read_zip, archive_path), as_view(members, "zip_members"))


def _zip_directory(path: str, pattern: str) -> list[tuple[str, int]]:
    """Return the name of each file, and its number in the archive."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
    members = []
    for number, info in enumerate(infos):
        if info.is_dir() or not _matches(info.filename, pattern):
            continue
        if info.flag_bits & ENCRYPTED:
            raise ValueError(
                f"zip_members: {info.filename!r} in {path} needs a password. Use per_process with a function"
                " that opens the archive and calls setpassword."
            )
        if info.compress_type not in COMPRESSION:
            raise ValueError(
                f"zip_members: {info.filename!r} in {path} is compressed by method {info.compress_type}, that"
                " Python cannot read. Unpack the archive, and make it again."
            )
        if stat.S_ISLNK(info.external_attr >> 16):
            _refuse_link(info.filename, path, "zip_members")
        members.append((info.filename, number))
    return members


def _refuse_link(name: str, path: str, who: str) -> NoReturn:
    raise ValueError(
        f"{who}: {name!r} in {path} is a link, and has no bytes of its own. Pass a pattern that leaves it"
        " out, or unpack the archive."
    )


def _read_zip(archive: zipfile.ZipFile, member: tuple[str, int]) -> Member:
    name, number = member
    return name, archive.read(archive.filelist[number])  # by its place, because a name may occur twice


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
        of its file. Folders and devices are left out, and so are the files that macOS adds, such as
        ``._a.jpg`` beside ``a.jpg``.

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
    archive_path = existing(path, "tar_members")
    _check_pattern(pattern, "tar_members")
    try:
        with reporting(progress, "tar_members") as report:
            members = list(_tar_directory(archive_path, pattern, report))
    except tarfile.ReadError as error:
        name_file(error, archive_path)
        raise
    _check_found(members, pattern, archive_path, "tar_members")
    handles = Handles(partial(_open_tar, archive_path), bounded=True)
    return smap(WithHandle(handles, _read_tar, archive_path), as_view(members, "tar_members"))


def _tar_directory(path: str, pattern: str, report: Report) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each file, where its bytes begin, and how many there are."""
    places: dict[str, tuple[int, int]] = {}
    for number, info in enumerate(_scan(path), 1):
        report(number, None)
        if info.isreg():
            places[info.name] = info.offset_data, info.size
        elif info.islnk() and info.linkname in places:  # a second name of a file before it
            places[info.name] = places[info.linkname]
        if not _matches(info.name, pattern):
            continue
        if info.issym() or (info.islnk() and info.linkname not in places):
            _refuse_link(info.name, path, "tar_members")
        if info.issparse():
            raise ValueError(
                f"tar_members: {info.name!r} in {path} is sparse and cannot be read in place. Unpack the"
                " archive."
            )
        if info.isreg() or info.islnk():
            yield info.name, *places[info.name]


def _scan(path: str) -> Iterator[tarfile.TarInfo]:
    """Yield the members of a tar archive, and of archives that were appended to it with all their blocks."""
    start: int | None = 0
    with open(path, "rb") as file:
        while start is not None:
            file.seek(start)
            found = 0
            try:
                with tarfile.open(fileobj=file, mode="r:") as archive:
                    while (info := archive.next()) is not None:
                        found += 1
                        yield info
                        archive.members = []  # type: ignore[attr-defined]  # or it keeps all of them
            except tarfile.ReadError as error:
                if start or found:
                    raise tarfile.ReadError(
                        f"tar_members: {path} is damaged or was cut short ({error}). Make it again."
                    ) from error
                raise tarfile.ReadError(
                    f"tar_members: {path} is no tar archive, or it is compressed ({error}). A compressed"
                    " archive has no random access: unpack it, or make a zip archive."
                ) from error
            end = start if start and not found else archive.offset
            # tarfile takes a damaged header for the end of the archive.
            start = _next_block(file, end)
            if start == end:
                raise tarfile.ReadError(f"tar_members: {path} is damaged at byte {end}. Make it again.")


def _next_block(file: BinaryIO, start: int) -> int | None:
    """Return where the first block with data begins after a position; None if there is none."""
    file.seek(start)
    while data := file.read(1 << 20):
        if (zeros := len(data) - len(data.lstrip(b"\0"))) < len(data):
            return start + zeros // tarfile.BLOCKSIZE * tarfile.BLOCKSIZE
        start += len(data)
    return None


def _open_tar(path: str) -> BinaryIO:
    return open(path, "rb")


def _read_tar(file: BinaryIO, member: tuple[str, int, int]) -> Member:
    name, start, size = member
    file.seek(start)
    data = file.read(size)
    if len(data) != size:
        raise EOFError(f"{name} has {size} bytes, but the archive ends after {len(data)} of them")
    return name, data


def _check_pattern(pattern: Any, who: str) -> None:
    if not isinstance(pattern, str):
        raise TypeError(f"{who}: pattern must be a str such as '*.jpg', got {pattern!r}")


def _matches(name: str, pattern: str) -> bool:
    """Does a name match, and is it not the attributes of another file, as macOS adds them to archives?"""
    return fnmatch(name, pattern) and (not APPLE(name) or bool(APPLE(pattern)))


def _check_found(members: list[Any], pattern: str, path: str, who: str) -> None:
    if not members:
        raise FileNotFoundError(f"{who}: no file in {path} matches {pattern!r}. Check the pattern.")
