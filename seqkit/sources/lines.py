"""`lines` and `jsonl`: the lines of text files, at any index."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import StringIO
from os import PathLike
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.indices import Indices, as_array
from ..core.progress import Progress, check_progress
from ..core.view import View
from .files import name_file, written_again
from .indexed import Bytes, IndexedFile, IndexedRows, Read, count_items, finished, indexed_files
from .per_process import PerProcess

__all__ = ["jsonl", "lines"]

BLOCK = 1 << 20  # bytes that a scan reads at once
AT_ONCE = 64  # lines that an iteration reads at once
# Encodings in which the bytes 10 and 13 are always line breaks, and that need no bytes before a line.
BY_LINE = re.compile(
    r"utf-8(-sig)?|ascii|iso8859-\d+|cp\d+|koi8-\w|mac-\w+|gbk|gb2312|gb18030|big5(hkscs)?|euc_\w+|shift_jis\w*"
)
Decode = Callable[[str], Any]
Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


def lines(
    path: Paths,
    encoding: str = "utf-8",
    *,
    beside: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> View[str]:
    """Return a view of the lines of text files, at any index.

    Items are exactly the strings that iterating the open file gives: they end with ``"\\n"``, also where the
    file has ``"\\r\\n"`` or ``"\\r"``, except perhaps the last one. Other characters, such as U+2028, do not
    end a line.

    Parameters
    ----------
    path : path-like or sequence of path-like
        A file, a glob pattern, a pattern with a range of numbers such as ``"part-{000..511}.txt"``, or one of
        these behind a URL of fsspec. Files of a pattern follow each other in natural order of their names,
        and several paths in the order given. Not compressed.
    encoding : str
        Name of the encoding of the text. UTF-16, UTF-32 and encodings with a state are refused.
    beside : bool
        True: keep the index of a file in its folder, under a hidden name. False (the default): use an index
        that is there, or keep one in the cache folder of the user, ``$XDG_CACHE_HOME`` or ``~/.cache``.
    progress : True or callable, optional
        True shows a bar of tqdm while the files are scanned. A function is called with the number of files
        that are scanned and of all files.
    storage_options : mapping, optional
        For the file system of a URL: keys, end points. It is pickled with the view.

    Returns
    -------
    View
        The number of lines does not change. If a file has grown since, its new lines are in a new view.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ValueError
        If a file is compressed, or the encoding has no lines that can be read alone. When an item is read: if
        the file was replaced by one with other lines.
    LookupError
        If `encoding` is unknown.
    UnicodeDecodeError
        When an item is read that has another encoding. The next ones can be read.

    Notes
    -----
    A file is scanned once, at about 1 GB/s, for an index of 8 bytes a line, which is kept. It is built again
    when the size or the time of the file has changed. An access is one read, and takes about 10 µs.

    Examples
    --------
    >>> with open(path := getfixture("tmp_path") / "poem.txt", "w", encoding="utf-8") as file:
    ...     _ = file.write("Tyger Tyger,\\nburning bright,\\nIn the forests of the night;\\n")
    >>> poem = lines(path)
    >>> poem[-1], list(poem[::2].smap(len))
    ('In the forests of the night;\\n', [13, 29])
    """
    known = codecs.lookup(encoding).name
    if not BY_LINE.fullmatch(known) or b"\r\n".decode(known) != "\r\n":
        raise ValueError(
            f"lines: encoding {encoding!r} has no lines that can be read alone. Convert the file to UTF-8,"
            f" for example with iconv -f {encoding} -t utf-8."
        )
    return _view(path, "lines", known, None, beside, progress, storage_options)


def jsonl(
    path: Paths,
    *,
    beside: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> View[Any]:
    """Return a view of the values of JSON-lines files, at any index: ``json.loads`` of each line.

    Parameters
    ----------
    path : path-like or sequence of path-like
        A file in UTF-8, or several: see `lines`. Not compressed.
    beside : bool
        True: keep the index of a file in its folder. False (the default): in the cache folder of the user.
        See `lines`.
    progress : True or callable, optional
        True shows a bar of tqdm while the files are scanned. A function is called with the number of files
        that are scanned and of all files.
    storage_options : mapping, optional
        For the file system of a URL: keys, end points. It is pickled with the view.

    Returns
    -------
    View
        Most often of dicts.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ValueError
        If a file is compressed. When an item is read: if the line is not JSON, such as an empty line. The
        error names the file and the line, and the next ones can be read.

    Notes
    -----
    The file is indexed as by `lines`. An access costs that of `lines` and ``json.loads``. To leave out bad
    lines use ``fallback("skip", jsonl(path))``.

    Examples
    --------
    >>> with open(path := getfixture("tmp_path") / "cities.jsonl", "w") as file:
    ...     _ = file.write('{"city": "Oslo", "people": 7}\\n{"city": "Rome", "people": 28}\\n')
    >>> cities = jsonl(path)
    >>> cities[1]["city"], list(cities.smap(lambda city: city["people"]))
    ('Rome', [7, 28])
    """
    return _view(path, "jsonl", "utf-8-sig", json.loads, beside, progress, storage_options)


def _view(
    path: Paths,
    who: str,
    encoding: str,
    decode: Decode | None,
    beside: bool,
    progress: Progress | None,
    storage_options: Mapping[str, Any] | None,
) -> View[Any]:
    check_progress(progress, f"{who}: progress")
    paths, open_fn, name, where = indexed_files(who, path, "sk-lines", _scan, beside, storage_options)
    sizes = np.array(count_items(paths, open_fn, _size, progress, who))
    rows = partial(LineRows, paths, sizes, open_fn, encoding, decode)
    return PerProcess(rows, who, name, block=AT_ONCE, where=where)


# -------------------------------------------------------------------- the index


def _scan(file: BinaryIO, size: int) -> list[Any]:
    """Return the position after each line of a file."""
    found, held = [np.empty(0, np.int64)], b""
    start = 0
    while start < size:
        data = held + file.read(min(BLOCK, size - start - len(held)))
        if len(data) == len(held):
            raise EOFError(f"the file became shorter than {size} bytes while it was scanned")
        # "\r" and "\n" are one end of a line, which a block must not cut.
        held = b"\r" if data.endswith(b"\r") and start + len(data) < size else b""
        letters = np.frombuffer(data, np.uint8, len(data) - len(held))
        found.append(np.flatnonzero(_ends_a_line(letters)) + (start + 1))
        start += len(letters)
    ends = np.concatenate(found)
    return [ends if size == (ends[-1] if len(ends) else 0) else np.append(ends, size)]


def _ends_a_line(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    is_end: npt.NDArray[np.bool_] = letters == ord("\n")
    returns = np.flatnonzero(letters == ord("\r"))
    if len(returns):
        following = letters[np.minimum(returns + 1, len(letters) - 1)]
        is_end[returns[following != ord("\n")]] = True
    return is_end


def _ends(file: IndexedFile) -> Bytes:
    return np.frombuffer(file.index[0], np.int64)


def _size(file: IndexedFile) -> tuple[int, int]:
    """Return the number of lines of a file, and their bytes."""
    ends = _ends(file)
    return len(ends), int(ends[-1]) if len(ends) else 0


# -------------------------------------------------------------------- the lines


class OpenLines(NamedTuple):
    """An open file, where its lines end, and the bytes of the lines that were counted."""

    file: IndexedFile
    ends: Bytes
    size: int


class LineRows(IndexedRows):
    """The lines of opened files.

    Parameters
    ----------
    paths : sequence of str
    sizes : array of int
        The number of lines of each file, and their bytes.
    open_fn : callable
        Returns the `IndexedFile` of a path.
    encoding : str
    decode : callable, optional
        Returns the item, given the text of the line.
    """

    takes_arrays = True  # of indices

    def __init__(
        self,
        paths: Sequence[str],
        sizes: npt.NDArray[np.int64],
        open_fn: Callable[[str], IndexedFile],
        encoding: str,
        decode: Decode | None,
    ) -> None:
        super().__init__(sizes[:, 0], partial(_opened, paths, sizes, open_fn))
        self._encoding, self._decode = encoding, decode

    def __getitems__(self, indices: Indices) -> list[Any]:
        wanted = as_array(indices)
        if (np.diff(wanted) == 1).all():
            return self._run(int(wanted[0]), int(wanted[-1]) + 1)
        return [self[i] for i in wanted.tolist()]

    def _places(self, opened: OpenLines, indices: Bytes) -> tuple[Bytes, Bytes]:
        starts = np.where(indices > 0, opened.ends[indices - 1], 0)
        return starts, np.minimum(opened.ends[indices], opened.size)

    def _run(self, start: int, stop: int) -> list[Any]:
        """Return successive lines, with one read for each file."""
        found: list[Any] = []
        while (i := start + len(found)) < stop:
            k, first = self._place(i)
            opened = self._opened(k)
            last = min(first + stop - i, int(self._counts[k]))
            found += finished(self._several(opened, first, last, opened.file.read))
        return found

    async def _item(self, opened: OpenLines, row: int, read: Read) -> Any:
        return (await self._several(opened, row, row + 1, read))[0]

    async def _several(self, opened: OpenLines, first: int, stop: int, read: Read) -> list[Any]:
        """Return successive lines of a file."""
        file, ends, size = opened
        start = int(ends[first - 1]) if first else 0
        try:
            data = await read(start, min(int(ends[stop - 1]), size) - start)
            # Only the first line has a mark of the byte order.
            encoding = self._encoding.removesuffix("-sig") if start else self._encoding
            texts = list(StringIO(data.decode(encoding), newline=None))
            if len(texts) != stop - first:
                raise written_again("lines", file.path)
            return texts if self._decode is None else list(map(self._decode, texts))
        except Exception as error:
            name_file(error, file.path)
            error.add_note(f"line: {first + 1}")
            raise


def _opened(
    paths: Sequence[str], sizes: npt.NDArray[np.int64], open_fn: Callable[[str], IndexedFile], k: int
) -> OpenLines:
    file = open_fn(paths[k])
    ends = _ends(file)
    n, size = sizes[k].tolist()
    # A file that has grown has the lines that were counted, and perhaps more of the last one.
    if np.searchsorted(ends, size) != max(n - 1, 0):
        raise written_again("lines", file.path)
    return OpenLines(file, ends, size)
