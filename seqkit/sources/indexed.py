"""Files with an index: built once by a scan, kept on disk, and mapped into memory by each process."""

from __future__ import annotations

import errno
import math
import mmap
import os
import random
import re
import threading
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from glob import has_magic
from os import PathLike
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.adapters import TableReader
from ..core.ahead import Ranges
from ..core.arguments import as_bool
from ..core.awaiting import Begin
from ..core.lazy import need
from ..core.progress import Progress, reporting
from ..core.randomness import digest
from ..core.whole_files import read_buffers, replace_file, write_buffers
from .files import as_path, existing, found, in_natural_order, name_file

__all__ = ["Bytes", "IndexedFile", "IndexedRows", "Read", "Scan", "count_items", "finished", "indexed_files"]

# Returns the arrays of the index of a file, given the open file and its size in bytes.
Scan = Callable[[BinaryIO, int], Sequence[Any]]
# Reads bytes of a file, given the position of the first one and their number.
Read = Callable[[int, int], Awaitable[bytes]]

Bytes = npt.NDArray[np.int64]
T = TypeVar("T")

MOST_OPEN = 100  # files of one view in one process; each takes two descriptors
GZIP = b"\x1f\x8b\x08"  # the first bytes of such a file


class LocalFile:
    """A file on a disk."""

    def __init__(self, path: str) -> None:
        self.opened: BinaryIO = open(path, "rb", buffering=0)  # noqa: SIM115
        found = os.fstat(self.opened.fileno())
        self.size, self.stamp = found.st_size, f"{found.st_size} {found.st_mtime_ns}".encode()
        self.identity = os.path.realpath(path)
        self._turn = threading.Lock()

    def has_its_size(self) -> bool:
        return os.fstat(self.opened.fileno()).st_size == self.size

    def part(self, start: int, size: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self.opened.fileno(), size, start)
        with self._turn:
            self.opened.seek(start)
            return self.opened.read(size)

    def __del__(self) -> None:
        with suppress(AttributeError):  # it could not be opened
            self.opened.close()


class RemoteFile:
    """A file behind a URL of fsspec, read by ranges of bytes."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        from fsspec.core import url_to_fs

        # fsspec keeps one file system for each process, and makes another one after a fork.
        self._fs, self._name = url_to_fs(url, **options)
        about = self._fs.info(self._name)
        if about["size"] is None:
            raise ValueError(f"the server of {url} does not tell its size. Copy it to a disk.")
        self.size, self.stamp = about["size"], digest(repr(about))
        self.identity = url

    def has_its_size(self) -> bool:
        return True  # to ask for it takes a request

    @property
    def opened(self) -> BinaryIO:
        return self._fs.open(self._name, "rb")  # type: ignore[no-any-return]

    def part(self, start: int, size: int) -> bytes:
        return self._fs.cat_file(self._name, start=start, end=min(start + size, self.size))  # type: ignore[no-any-return]

    async def fetch(self, start: int, size: int) -> bytes:
        import asyncio  # takes long, and is there if this is called

        # The sessions of fsspec are in a loop of its own.
        reading = self._fs._cat_file(self._name, start=start, end=min(start + size, self.size))
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(reading, self._fs.loop))


class IndexedFile:
    """A file that is open for reading, and the arrays of its index. Threads may read at the same time.

    The index is in the cache folder of the user, or next to the file if one is there. It holds the size and
    the time of the file, and is built again if they have changed.

    Parameters
    ----------
    path : str
        A path, or a URL of fsspec.
    kind : str
        Kind of the index, in eight letters: ``"sk-lines"``.
    scan : callable
        Builds the index.
    beside : bool
        Keep the index next to the file.
    options : dict
        For the file system of a URL.
    """

    def __init__(self, path: str, kind: str, scan: Scan, beside: bool, options: dict[str, Any]) -> None:
        self.path = path
        self._file: Any = RemoteFile(path, options) if "://" in path else LocalFile(path)
        try:
            self.index = self._kept(kind, scan, beside)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            self.index = self._kept(kind, scan, beside)  # the index was replaced on a network disk

    def _kept(self, kind: str, scan: Scan, beside: bool) -> list[Any]:
        """Return the arrays of the index, mapped into memory."""
        folder, name = os.path.split(self._file.identity)
        places = [os.path.join(folder, f".{name}.{kind}")]
        if not beside:
            places.append(_in_cache(f"{digest(self._file.identity).hex()}.{kind}"))
        for place in places:
            if (kept := _mapped(place, kind, self._file.stamp)) is not None:
                return kept
        if finished(self.read(0, min(len(GZIP), self._file.size))) == GZIP:
            raise ValueError(f"{self.path} is compressed, and has no random access. Unpack it with gunzip.")
        arrays = scan(self._file.opened, self._file.size)
        write = partial(write_buffers, magic=kind.encode(), buffers=[self._file.stamp, *arrays])
        try:
            os.makedirs(os.path.dirname(places[-1]), exist_ok=True)
            replace_file(places[-1], write)
        except OSError as error:
            error.add_note(
                "The index is kept there. Set XDG_CACHE_HOME to another folder, or change beside=."
            )
            raise
        # Another process may have replaced the file and its index.
        return _mapped(places[-1], kind, self._file.stamp) or [memoryview(array) for array in arrays]

    def fileno(self) -> int:
        """Return the descriptor of a file on a disk."""
        return self._file.opened.fileno()  # type: ignore[no-any-return]

    def has_its_size(self) -> bool:
        """Return False if the file was written in place, and has another size than its index."""
        return self._file.has_its_size()  # type: ignore[no-any-return]

    async def read(self, start: int, size: int, in_loop: bool = False) -> bytes:
        """Return `size` bytes of the file. Without `in_loop` it never waits: see `finished`."""
        parts = []
        while size:
            part = await self._file.fetch(start, size) if in_loop else self._file.part(start, size)
            if len(part) > size:
                raise ValueError(f"the server of {self.path} sends no ranges of bytes. Copy it to a disk.")
            if not part:
                raise EOFError(f"{self.path} is shorter than before. Build the view again.")
            parts.append(part)
            start, size = start + len(part), size - len(part)
        return b"".join(parts)


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def _in_cache(name: str) -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "seqkit", name)


def _mapped(path: str, kind: str, stamp: bytes) -> list[Any] | None:
    """Return the arrays of an index, or None if it is not there, or of another state of the file."""
    try:
        with open(path, "rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        kept, *arrays = read_buffers(content, kind.encode())
    except ValueError:  # an empty or damaged file, or one of another version
        return None
    except OSError as error:
        if error.errno == errno.ESTALE:
            raise
        return None
    return arrays if kept == stamp else None


class IndexedRows(TableReader):
    """The items of several indexed files, one file after the other. The files used last stay open.

    Parameters
    ----------
    counts : array of int
        The number of items of each file.
    open_fn : callable
        Opens a file, given its number.
    """

    concurrent = True

    def __init__(self, counts: npt.NDArray[np.int64], open_fn: Callable[[int], Any]) -> None:
        self._counts = counts
        self._ends = np.cumsum(counts)
        self._opened = lru_cache(MOST_OPEN)(open_fn)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def _place(self, i: int) -> tuple[int, int]:
        """Return the number of the file with item `i`, and the position of the item in it."""
        k = bisect_right(self._ends, i)  # faster than numpy for one number
        return k, i - int(self._ends[k] - self._counts[k])

    def __getitem__(self, i: int) -> Any:
        k, row = self._place(i)
        opened = self._opened(k)
        return finished(self._item(opened, row, opened.file.read))

    def begin(self, i: int) -> Begin:
        """Open the file of an item, and return the function that begins to fetch the item."""
        k, row = self._place(i)
        opened = self._opened(k)
        return partial(self._item, opened, row, partial(opened.file.read, in_loop=True))

    async def _item(self, opened: Any, row: int, read: Read) -> Any:
        raise NotImplementedError

    def ranges(self, indices: Bytes) -> Iterator[Ranges]:
        """Yield the bytes of some items, file by file."""
        numbers = np.searchsorted(self._ends, indices, "right")
        for k in np.unique(numbers).tolist():
            opened, first = self._opened(k), self._ends[k] - self._counts[k]
            starts, stops = self._places(opened, indices[numbers == k] - first)
            yield Ranges(opened.file.fileno(), starts, stops, len(self._counts))

    def _places(self, opened: Any, indices: Bytes) -> tuple[Bytes, Bytes]:
        """Return where the bytes of items of an open file begin, and where they end."""
        raise NotImplementedError

    def close(self) -> None:
        self._opened.cache_clear()


def count_items(
    paths: Sequence[str],
    open_fn: Callable[[str], IndexedFile],
    count: Callable[[IndexedFile], Any],
    progress: Progress | None,
    who: str,
) -> list[Any]:
    """Return ``count(file)`` for each file, after its index was found or built.

    The files are taken in a random order, so that processes which begin together share the work.
    """
    found: list[Any] = [None] * len(paths)
    with reporting(progress, who) as report:
        for done, k in enumerate(random.Random().sample(range(len(paths)), len(paths)), 1):
            try:
                found[k] = count(open_fn(paths[k]))
            except Exception as error:
                name_file(error, paths[k])
                raise
            report(done, len(paths))
    return found


def indexed_files(
    who: str, path: Any, kind: str, scan: Scan, beside: Any, storage_options: Mapping[str, Any] | None
) -> tuple[Sequence[str], Callable[[str], IndexedFile], str, str]:
    """Return the files of a path, pattern or sequence of them, a function that opens each, their name, and
    where they are: see `PerProcess`."""
    is_one = isinstance(path, str | PathLike) or not isinstance(path, Iterable)
    names = [as_path(each, who) for each in ([path] if is_one else path)]
    options = dict(storage_options or {})
    if as_bool(beside, f"{who}: beside") and any("://" in name for name in names):
        raise ValueError(f"{who}: beside=True needs files on a disk, got {names[0]!r}. Leave it out.")
    open_fn = partial(IndexedFile, kind=kind, scan=scan, beside=bool(beside), options=options)
    files = [_files_of(name, who, options) for name in names]
    paths = files[0] if is_one else [each for some in files for each in some]
    if not paths:
        raise ValueError(f"{who}: path must have a file, got {path!r}")
    name = names[0] if is_one else f"{paths[0]}, …"
    return paths, open_fn, name, _where(names, options)


def _where(names: list[str], options: dict[str, Any]) -> str:
    """Return where files are: see `PerProcess`."""
    if not any("://" in name for name in names):
        return "disk"
    from fsspec.core import url_to_fs

    return "loop" if all(url_to_fs(name, **options)[0].async_impl for name in names) else ""


def _files_of(path: str, who: str, options: dict[str, Any]) -> Sequence[str]:
    if "://" in path:
        need("fsspec", who)
    if RANGE.search(path):
        return Numbered(path)
    if not has_magic(path) or os.path.exists(path):
        return [existing(path, who)]
    if "://" in path:
        from fsspec.core import url_to_fs

        fs, pattern = url_to_fs(path, **options)
        paths = in_natural_order(map(fs.unstrip_protocol, fs.glob(pattern)))
    else:
        paths = found(path, who, ("",))
    if not paths:
        raise FileNotFoundError(f"{who}: there is no file at {path!r}. Check the pattern.")
    return paths


RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


class Numbered(Sequence[str]):
    """The paths of a pattern with ranges of numbers. Each is made when it is needed.

    >>> paths = Numbered("train-{008..511}.tar")
    >>> len(paths), paths[-1]
    (504, 'train-511.tar')
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        ends = RANGE.findall(pattern)
        self._ranges = [range(int(first), int(last) + 1) for first, last in ends]
        self._digits = [len(first) for first, _ in ends]
        if not len(self):
            raise ValueError(f"{pattern!r} has a range without numbers. Put the lower number first.")

    def __len__(self) -> int:
        return math.prod(map(len, self._ranges))

    def __getitem__(self, k: Any) -> Any:
        k, numbers = range(len(self))[k], list[str]()
        for each, digits in zip(self._ranges[::-1], self._digits[::-1], strict=True):
            k, place = divmod(k, len(each))
            numbers.insert(0, f"{each[place]:0{digits}}")
        return RANGE.sub(lambda _: numbers.pop(0), self._pattern)
