"""`remote`: files behind a URL, through fsspec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from glob import has_magic
from typing import Any, BinaryIO

from ..core.arguments import check_callable
from ..core.lazy import need
from ..core.source import as_view
from ..core.view import View
from ..views.smap import smap
from .files import in_natural_order, naming

__all__ = ["remote"]


def remote(
    url: str,
    *,
    read: Callable[[BinaryIO], Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> View[Any]:
    """Return a view of the files behind a URL of fsspec, in natural order of their names.

    Parameters
    ----------
    url : str
        A file, or a glob pattern, such as ``"s3://bucket/photos/*.jpg"``. Files are listed now.
    read : callable, optional
        Called with an open binary file, returns the item. None (the default): items are the bytes.
    storage_options : mapping, optional
        For the file system: keys, end points, caches. It is pickled with the view.

    Returns
    -------
    View
        Each access opens one file. Each process makes its own connection.

    Raises
    ------
    TypeError
        If `url` is no str, or `read` cannot be called.
    ImportError
        If fsspec is not installed, or the library of the file system.
    ValueError
        If the file system is unknown.
    FileNotFoundError
        If there is no file.

    Notes
    -----
    An error of an item names the URL of its file. To read each file once, wrap the view in `add_cache`, or
    put ``"simplecache::"`` before the URL.

    Examples
    --------
    >>> import fsspec
    >>> for name in ("b2", "b10"): fsspec.filesystem("memory").pipe(f"/letters/{name}", name.encode())
    >>> list(remote("memory://letters/*"))
    [b'b2', b'b10']
    """
    if not isinstance(url, str):
        raise TypeError(f"remote: url must be a str such as 's3://bucket/*.jpg', got {url!r}")
    need("fsspec", "remote")
    from fsspec.core import url_to_fs

    check_callable(read, "remote: read", optional=True)
    options = dict(storage_options or {})
    fs, path = url_to_fs(url, **options)
    if has_magic(path) and not fs.exists(path):
        found = fs.glob(path, detail=True)
        paths = in_natural_order(name for name in found if found[name]["type"] != "directory")
    else:
        paths = [path] if fs.isfile(path) else []
    if not paths:
        raise FileNotFoundError(
            f"remote: there is no file at {url!r}. For a folder, pass {url.rstrip('/')}/**."
        )
    return smap(partial(_read, url=url, options=options, read=read), as_view(paths, "remote"))


def _read(path: str, url: str, options: dict[str, Any], read: Callable[[BinaryIO], Any] | None) -> Any:
    from fsspec.core import url_to_fs

    # fsspec keeps one file system for each process, and makes another one after a fork.
    fs, _ = url_to_fs(url, **options)
    with naming(fs.unstrip_protocol(path)), fs.open(path, "rb") as file:
        return file.read() if read is None else read(file)
