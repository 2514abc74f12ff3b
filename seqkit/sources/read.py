"""`read`: open a file as a view. The name of the file selects the reader."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from glob import has_magic, iglob
from importlib import import_module
from os import PathLike
from typing import Any

from ..core.arguments import check_callable
from ..core.lengths import sized
from ..core.tracebacks import hiding_frames
from ..core.view import View
from ..core.worker import Opened
from ..views.concatenate import Concatenate
from .files import as_path, existing, in_natural_order
from .parquet import PLAN
from .per_process import per_process

__all__ = ["read"]

# Suffix, and the function of `sources` that reads such files.
READERS = {
    ".npy": "npy.npy",
    ".npz": "npy.npz",
    ".h5": "hdf5.hdf5",
    ".hdf5": "hdf5.hdf5",
    ".zarr": "zarr.zarr",
    ".parquet": "parquet.parquet",
    ".arrow": "arrow.arrow",
    ".feather": "arrow.arrow",
    ".csv": "csv.csv",
    ".jsonl": "lines.jsonl",
    ".zip": "archives.zip_members",
    ".tar": "archives.tar_members",
}
# Readers that take a folder or a pattern themselves. Other readers take one file.
TAKE_PATTERNS = {
    *("files.files", "images.images", "audio.audio"),
    *("csv.csv", "lines.jsonl", "parquet.parquet", "remote.remote"),
}


@hiding_frames()
def read(
    path: str | PathLike[str], *arguments: Any, open_fn: Callable[[str], Any] | None = None, **options: Any
) -> View[Any]:
    """Open a file or folder as a view. The suffix of its name selects the reader.

    Parameters
    ----------
    path : path-like or URL
        ``.npy`` and ``.npz`` (numpy), ``.h5`` and ``.hdf5``, ``.zarr``, ``.parquet``, ``.arrow`` and
        ``.feather``, ``.csv`` and ``.csv.gz``, ``.jsonl``, ``.zip``, ``.tar``; an image or sound file. With a
        glob pattern, the items of its files follow each other, in natural order of their names. A folder of
        nothing but Parquet files or folders is read as one. Items of any other folder or pattern are paths.
        Items of a URL such as ``"s3://bucket/*.jpg"`` are bytes.
    *arguments, **options
        Passed to the function of `seqkit.sources` for this kind: ``read("faces.h5", "image")``.
    open_fn : callable, optional
        Decides in place of the suffix: ``open_fn(path)`` returns a sequence, and is called in each process,
        for each file of a pattern. See `per_process`.

    Returns
    -------
    View

    Raises
    ------
    TypeError
        If an argument is not one of the function for this kind.
    ValueError
        If the suffix is unknown.
    FileNotFoundError
        If there is nothing at `path`.

    Notes
    -----
    Costs as much as the function for this kind. Known elsewhere as ``load_dataset``, ``read_csv``.

    Examples
    --------
    >>> import numpy as np
    >>> path = getfixture("tmp_path") / "squares.npy"
    >>> np.save(path, np.arange(5) ** 2)
    >>> list(read(path)[1:3])
    [np.int64(1), np.int64(4)]
    >>> read(path, open_fn=np.load)[4]
    np.int64(16)
    """
    check_callable(open_fn, "read: open_fn", optional=True)
    name = as_path(path, "read")
    if open_fn is not None:
        return _each(name, lambda path: per_process(partial(open_fn, path, *arguments, **options)))
    kind = _reader(name)
    module, function = kind.split(".")
    reader: Callable[..., View[Any]] = getattr(import_module(f"seqkit.sources.{module}"), function)
    if kind in TAKE_PATTERNS:
        return reader(name, *arguments, **options)
    return _each(name, lambda path: reader(path, *arguments, **options))


def _each(path: str, reader: Callable[[str], View[Any]]) -> View[Any]:
    """Return the view of a file, or of the files of a pattern, one after the other."""
    if not _is_pattern(path):
        return reader(path)
    paths = in_natural_order(iglob(path, recursive=True))
    if not paths:
        raise FileNotFoundError(f"read: there is no file at {path!r}. Check the pattern.")
    return sized(Files(tuple(map(reader, paths))))


class Files(Concatenate, Opened):
    """The items of the files of a pattern, one after the other."""

    def close(self) -> None:
        """Close the files in this process. The next read opens them again."""
        for source in self._sources:
            if isinstance(source, Opened):
                source.close()

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return Files(sources)


Files._name = "read"


def _holds_only_parquet(folder: str) -> bool:
    """Has a folder nothing but Parquet files, and folders of partitions such as ``year=2020``?"""
    names = [name for name in os.listdir(folder) if not name.startswith((".", "_")) and name != PLAN]
    return bool(names) and all(name.endswith(".parquet") or "=" in name for name in names)


def _is_pattern(path: str) -> bool:
    return has_magic(path) and not os.path.exists(path)


def _reader(path: str) -> str:
    from .audio import SUFFIXES as SOUNDS
    from .images import SUFFIXES as IMAGES

    if "://" in path:
        return "remote.remote"
    name = path.rstrip(os.sep).lower()
    suffix = ".csv" if name.endswith((".csv.gz", ".csv.bz2")) else os.path.splitext(name)[1]
    is_pattern = _is_pattern(path)
    if not is_pattern:
        existing(path, "read")
    if suffix in READERS:
        return READERS[suffix]
    if suffix in IMAGES and not os.path.isdir(path):
        return "images.images"
    if suffix in SOUNDS and not os.path.isdir(path):
        return "audio.audio"
    if is_pattern:
        return "files.files"
    if not os.path.isdir(path):
        raise ValueError(
            f"read: the suffix {suffix!r} is unknown, got {path!r}. Use a function of sources, or pass"
            " open_fn=, a function of the path. For the lines of a text use sources.lines. Known"
            f" are {', '.join(READERS)}, images and sound."
        )
    return "parquet.parquet" if _holds_only_parquet(path) else "files.files"
