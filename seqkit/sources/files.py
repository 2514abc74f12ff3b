"""`files`: the files of a folder or of a glob pattern, in natural order."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from glob import has_magic, iglob
from os import PathLike, fspath
from typing import Any

from ..core.arguments import check_callable
from ..core.errors import brief
from ..core.expression import name_of
from ..core.progress import Progress, Report, check_progress, reporting
from ..core.source import as_view
from ..core.view import View
from ..views.smap import smap

__all__ = [
    *("as_path", "existing", "files", "found", "in_natural_order"),
    *("is_pointer", "name_file", "naming", "written_again"),
]

POINTER = b"version https://git-lfs"


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
        A folder, or a glob pattern such as ``"photos/**/*.jpg"``. Files in subfolders are found, too, also
        behind links. Each folder is listed once. Hidden files are left out.
    read : callable, optional
        Called with a path, returns the item. None (the default): items are the paths.
    suffixes : sequence of str, optional
        Keep only files with one of these suffixes, in any case, such as ``[".jpg", ".png"]``.
    progress : True or callable, optional
        True shows a bar of tqdm while the folder is listed. A function is called with the number of files
        found so far and None.

    Returns
    -------
    View
        The list of files is made now and does not change.

    Raises
    ------
    TypeError
        If `read` or `progress` has the wrong type.
    FileNotFoundError
        If there is no file, or a link leads nowhere.

    Notes
    -----
    An error of `read` names the file.

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
    check_progress(progress, "files: progress")
    endings = ("",) if suffixes is None else _endings(suffixes)
    name = as_path(path, "files")
    with reporting(progress, "files") as report:
        paths = found(name, "files", endings, report)
    if not paths:
        if not has_magic(name):
            existing(name, "files")
        kind = "" if suffixes is None else f" with a suffix of {brief(list(endings))}"
        raise FileNotFoundError(f"files: there is no file{kind} at {name!r}. Check the path or the pattern.")
    view = as_view(paths, "files")
    return view if read is None else smap(ReadFile(read), view)


def _endings(suffixes: Sequence[str]) -> tuple[str, ...]:
    if isinstance(suffixes, str) or not all(isinstance(suffix, str) for suffix in suffixes):
        raise TypeError(f"files: suffixes must be a sequence of str, such as ['.jpg'], got {suffixes!r}")
    return tuple(suffix.lower() for suffix in suffixes)


def found(
    path: str, who: str, endings: tuple[str, ...], report: Report = lambda done, total: None
) -> list[str]:
    """Return the files of a folder or pattern in natural order. Raise FileNotFoundError for a dead link."""
    paths: list[str] = []
    for name in _walk(path) if os.path.isdir(path) else _glob(path):
        if not name.lower().endswith(endings):
            continue
        if os.path.islink(name) and not os.path.exists(name):
            raise FileNotFoundError(
                f"{who}: {name!r} is a link to {os.readlink(name)!r}, where there is nothing. Restore or"
                " remove it, or choose other files with a pattern."
            )
        if os.path.isfile(name):  # reading a pipe would wait for its writer
            paths.append(name)
            report(len(paths), None)
    return in_natural_order(paths)


class ReadFile:
    """``read(path)``. Its errors name the file."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read
        self.__name__ = name_of(read)

    def __call__(self, path: str) -> Any:
        try:
            return self._read(path)
        except Exception as error:
            name_file(error, path)
            raise


def name_file(error: Exception, path: str | None) -> None:
    """Add the path of a file to an error as a note, unless the error names a file already.

    >>> error = ValueError("bad header")
    >>> name_file(error, "a.png")
    >>> error.__notes__
    ['file: a.png']
    """
    if path is None or any(note.startswith("file: ") for note in getattr(error, "__notes__", ())):
        return
    if is_pointer(path):
        error.add_note(f"file: {path} is a pointer of Git LFS and not the file itself. Run: git lfs pull")
    elif path not in str(error):
        error.add_note(f"file: {path}")


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the path of a file to errors within the block."""
    try:
        yield
    except Exception as error:
        name_file(error, path)
        raise


def written_again(who: str, path: str) -> ValueError:
    """Return the error of a view whose file is another one than when the view was built."""
    return ValueError(f"{who}: {path} was written again. Build the view again.")


def is_pointer(path: str) -> bool:
    """Return whether a file is what Git leaves in place of a large file that was not downloaded."""
    if not os.path.isfile(path):  # a folder, a URL, or a pipe, which would wait
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(POINTER)) == POINTER
    except OSError:
        return False


def as_path(path: Any, who: str) -> str:
    """Return a path as a str, with the folder of the user in place of ``~``.

    >>> as_path(3, "npy")
    Traceback (most recent call last):
    TypeError: npy: path must be a str or a path, got 3
    """
    name = path if isinstance(path, str) else fspath(path) if isinstance(path, PathLike) else None
    if not isinstance(name, str):
        raise TypeError(f"{who}: path must be a str or a path, got {path!r}")
    return os.path.expanduser(name)


def existing(path: str | PathLike[str], who: str) -> str:
    """Return a path as a string. Raise FileNotFoundError now and not in a worker if nothing is there.

    >>> existing("missing.csv", "csv")
    Traceback (most recent call last):
    FileNotFoundError: csv: there is nothing at 'missing.csv'. Check the path.
    """
    name = as_path(path, who)
    if "://" not in name and not os.path.exists(name):
        hint = "For a pattern, use sources.read" if has_magic(name) else "Check the path"
        raise FileNotFoundError(f"{who}: there is nothing at {name!r}. {hint}.")
    return name


def _walk(folder: str) -> Iterator[str]:
    """Yield the files in a folder at any depth. Links are followed, and each folder is listed once."""
    seen = {os.path.realpath(folder)}
    for where, folders, names in os.walk(folder, followlinks=True):
        yield from (os.path.join(where, name) for name in names if not name.startswith("."))
        folders.sort()
        for name in [*folders]:
            real = os.path.realpath(os.path.join(where, name))
            if name.startswith(".") or real in seen:
                folders.remove(name)
            seen.add(real)


def _glob(pattern: str) -> Iterator[str]:
    # A name may contain letters of patterns, such as "a[1].txt".
    return iter([pattern]) if os.path.exists(pattern) else iglob(pattern, recursive=True)


def in_natural_order(paths: Iterable[str]) -> list[str]:
    """Sort paths as people do: by the value of the numbers in them.

    >>> in_natural_order(["a10", "b1", "a9"])
    ['a9', 'a10', 'b1']
    """
    return sorted(paths, key=lambda path: (_natural(path), path))


def _natural(path: str) -> list[Any]:
    parts = re.split(r"(\d+)", path)
    return [int(part) if part.isdecimal() else part for part in parts]
