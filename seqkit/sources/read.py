"""`read`: a view of a file, of the kind that its name says."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from os import PathLike, fspath
from typing import Any

from ..checks import check_callable
from ..view import View
from .files import existing
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
    ".zip": "archives.zip_members",
    ".tar": "archives.tar_members",
}
# Folders of some formats contain a file of a certain name.
MARKS = {
    ".zarray": "zarr.zarr",
    ".zgroup": "zarr.zarr",
    "zarr.json": "zarr.zarr",
    "state.json": "huggingface.huggingface",
    "dataset_dict.json": "huggingface.huggingface",
}


def read(
    path: str | PathLike[str], *arguments: Any, open_fn: Callable[[str], Any] | None = None, **options: Any
) -> View[Any]:
    """Return a view of a file or folder, of the kind that its suffix says.

    Parameters
    ----------
    path : path-like or URL
        ``.npy`` and ``.npz`` (numpy), ``.h5`` and ``.hdf5``, ``.zarr``, ``.parquet``, ``.arrow`` and
        ``.feather``, ``.csv``, ``.zip``, ``.tar``; a data set that Hugging Face saved; a glob pattern of
        Parquet, image or sound files. Items of any other folder or pattern are paths. Items of a URL such as
        ``"s3://bucket/*.jpg"`` are bytes.
    *arguments, **options
        Passed to the function of `seqkit.sources` for this kind: ``read("faces.h5", "image")``.
    open_fn : callable, optional
        Decides in place of the suffix: ``open_fn(path)`` returns a sequence, and is called in each process.
        See `per_process`.

    Returns
    -------
    View

    Raises
    ------
    ValueError
        If the suffix is unknown.
    FileNotFoundError
        If there is nothing at `path`.

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
    name = fspath(path)
    if open_fn is not None:
        return per_process(partial(open_fn, name, *arguments, **options))
    module, function = _reader(name).split(".")
    reader: Callable[..., View[Any]] = getattr(import_module(f"seqkit.sources.{module}"), function)
    return reader(name, *arguments, **options)


def _reader(path: str) -> str:
    if "://" in path:
        return "remote.remote"
    suffix = os.path.splitext(path.rstrip(os.sep))[1].lower()
    if any(letter in path for letter in "*?[") and not os.path.exists(path):
        return _of_pattern(suffix)
    existing(path, "read")
    if suffix in READERS:
        return READERS[suffix]
    if os.path.isdir(path):
        marks = [MARKS[name] for name in MARKS if os.path.exists(os.path.join(path, name))]
        return marks[0] if marks else "files.files"
    raise ValueError(
        f"read: the suffix {suffix!r} is unknown, got {path!r}. Known are {', '.join(READERS)}. Pass open_fn="
        " to say how the file is opened."
    )


def _of_pattern(suffix: str) -> str:
    from .audio import SUFFIXES as SOUNDS
    from .images import SUFFIXES as IMAGES

    if suffix == ".parquet":
        return READERS[suffix]
    if suffix in IMAGES:
        return "images.images"
    return "audio.audio" if suffix in SOUNDS else "files.files"
