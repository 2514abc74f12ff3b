"""`files`: the files of a folder or of a glob pattern, in natural order."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from glob import iglob
from os import PathLike, fspath
from typing import Any

from ..checks import check_callable
from ..source import as_view
from ..view import View
from ..views.smap import smap

__all__ = ["Progress", "existing", "files", "natural"]

Progress = Callable[[int, int | None], Any]


def files(
    path: str | PathLike[str],
    *,
    read: Callable[[str], Any] | None = None,
    suffixes: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> View[Any]:
    """Return a view of the paths of the files in a folder, in natural order: ``img2`` before ``img10``.

    Parameters
    ----------
    path : path-like
        A folder, or a glob pattern such as ``"photos/**/*.jpg"``. Files in subfolders are found, too. Hidden
        files are left out.
    read : callable, optional
        Called with a path, returns the item. None (the default): items are the paths.
    suffixes : sequence of str, optional
        Keep only files with one of these suffixes, in any case, such as ``[".jpg", ".png"]``.
    progress : callable, optional
        Called with the number of files found so far and None, while the folder is listed.

    Returns
    -------
    View
        The list of files is made now and does not change.

    Raises
    ------
    TypeError
        If `read` or `progress` cannot be called.
    FileNotFoundError
        If there is no file.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> [(folder / f"{number}.txt").write_text(f"text {number}") for number in (10, 9)]
    [7, 6]
    >>> [os.path.basename(path) for path in files(folder)]
    ['9.txt', '10.txt']
    >>> from pathlib import Path
    >>> files(folder / "*.txt", read=lambda path: Path(path).read_text())[1]
    'text 10'
    """
    check_callable(read, "files: read", optional=True)
    check_callable(progress, "files: progress", optional=True)
    endings = None if suffixes is None else tuple(suffix.lower() for suffix in suffixes)
    root = fspath(path)
    paths: list[str] = []
    for found in _walk(root) if os.path.isdir(root) else _glob(root):
        if endings is None or found.lower().endswith(endings):
            paths.append(found)
            if progress is not None:
                progress(len(paths), None)
    if not paths:
        kind = f" with a suffix of {list(endings)}" if endings is not None else ""
        raise FileNotFoundError(f"files: there is no file{kind} at {root!r}. Check the path or the pattern.")
    view = as_view(sorted(paths, key=natural), "files")
    return view if read is None else smap(read, view)


def existing(path: str | PathLike[str], who: str) -> str:
    """Return a path as a string. Raise FileNotFoundError now and not in a worker if nothing is there.

    >>> existing("missing.csv", "csv")
    Traceback (most recent call last):
    FileNotFoundError: csv: there is nothing at 'missing.csv'. Check the path.
    """
    name = fspath(path)
    if "://" not in name and not os.path.exists(name):
        raise FileNotFoundError(f"{who}: there is nothing at {name!r}. Check the path.")
    return name


def _walk(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(folder, name) for name in names if not name.startswith("."))


def _glob(pattern: str) -> Iterator[str]:
    return (path for path in iglob(pattern, recursive=True) if os.path.isfile(path))


def natural(path: str) -> list[Any]:
    """Return the key that sorts paths as people do: by the value of the numbers in them.

    >>> sorted(["a10", "b1", "a9"], key=natural)
    ['a9', 'a10', 'b1']
    """
    parts = re.split(r"(\d+)", path)
    return [int(part) if part.isdecimal() else part for part in parts]
