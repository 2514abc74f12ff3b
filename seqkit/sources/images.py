"""`images`: the images of a folder, as arrays."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..view import View
from .files import Progress, files

__all__ = ["images", "read_image"]

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


def images(
    path: str | PathLike[str],
    mode: str | None = "RGB",
    *,
    library: str = "pillow",
    progress: Progress | None = None,
) -> View[Any]:
    """Return a view of the images in a folder, each a numpy array, in natural order of their names.

    Parameters
    ----------
    path : path-like
        A folder or a glob pattern. Images in subfolders are found, too.
    mode : str, optional
        The mode of Pillow that images are converted to: ``"RGB"`` (the default), ``"L"``, ``"RGBA"``, … None
        leaves them as they are.
    library : "pillow" or "imageio"
        The library that decodes the files. imageio reads more formats. `mode` is passed to it.
    progress : callable, optional
        See `files`.

    Returns
    -------
    View
        Of arrays of shape (height, width, channels), or (height, width) for one channel.

    Raises
    ------
    ValueError
        If `library` is unknown.
    FileNotFoundError
        If there is no image.

    Notes
    -----
    For the names too, read the files yourself:
    ``files(path, suffixes=[".jpg"], read=lambda name: (name, read_image(name)))``. For labels, read a table:
    ``smap(lambda row: (read_image(row["path"]), row["label"]), table)``.

    Examples
    --------
    >>> from PIL import Image
    >>> folder = getfixture("tmp_path")
    >>> for number in range(3): Image.new("L", (8, 4), number).save(folder / f"{number}.png")
    >>> pictures = images(folder, "L")
    >>> len(pictures), pictures[2].shape, int(pictures[2].max())
    (3, (4, 8), 2)
    """
    if library not in ("pillow", "imageio"):
        raise ValueError(f"images: library must be 'pillow' or 'imageio', got {library!r}")
    read = partial(read_image, mode=mode, library=library)
    return files(path, read=read, suffixes=SUFFIXES, progress=progress)


def read_image(path: str, mode: str | None = "RGB", library: str = "pillow") -> Any:
    """Return an image file as a writable array; see `images`."""
    if library == "imageio":
        from imageio.v3 import imread

        return imread(path) if mode is None else imread(path, mode=mode)
    from PIL import Image

    with Image.open(path) as image:
        return np.array(image if mode is None or image.mode == mode else image.convert(mode))
