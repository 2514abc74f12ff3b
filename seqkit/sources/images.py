"""`images`: the images of a folder, as arrays."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..core.lazy import need
from ..core.progress import Progress
from ..core.view import View
from .files import files, name_file

__all__ = ["images", "read_image"]

# The last line has formats that Pillow may not read. Its error is better than an image left out.
SUFFIXES = (
    *(".apng", ".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm"),
    *(".tga", ".tif", ".tiff", ".webp"),
    *(".avif", ".heic", ".heif", ".j2k", ".jp2", ".jxl"),
)
# Modes of Pillow with more than 8 bits, and the modes that hold all of their values.
DEEP = {"I": ("I",), "F": ("F",), **dict.fromkeys(("I;16", "I;16B", "I;16L", "I;16N"), ("I", "F"))}

OTHER_LIBRARY = "To read it with another library: sources.files(path, read=...)"
SAMPLE_FORMAT, SIGNED = 339, 2  # a tag of TIFF, and one of its values
PHOTOMETRIC, WHITE_IS_ZERO = 262, 0


def images(
    path: str | PathLike[str],
    mode: str | None = "RGB",
    *,
    progress: Progress | None = None,
) -> View[Any]:
    """Return a view of the images in a folder, each a numpy array, in natural order of their names.

    Images are turned upright according to their EXIF orientation.

    Parameters
    ----------
    path : path-like
        A folder or a glob pattern. Images in subfolders are found, too.
    mode : str, optional
        The mode of Pillow that images are converted to: ``"RGB"`` (the default, without alpha), ``"L"``,
        ``"RGBA"``, … None leaves them as they are: 16 bit, floats, indices of a palette.
    progress : True or callable, optional
        See `files`.

    Returns
    -------
    View
        Of arrays of shape (height, width, channels), or (height, width) for one channel.

    Raises
    ------
    ImportError
        If Pillow is not installed.
    TypeError
        If `mode` has a wrong type.
    ValueError
        If Pillow has no `mode` of this name. An item raises it, with the name of the file, if it has several
        frames, as animations and TIFF files of several pages have, or values that `mode` would clip or that
        Pillow cannot read.
    FileNotFoundError
        If there is no image.

    Notes
    -----
    For the names too, read the files yourself:
    ``files(path, suffixes=[".jpg"], read=lambda name: (name, read_image(name)))``. For labels, read a table:
    ``smap(lambda row: (read_image(row["path"]), row["label"]), table)``. For another decoder, pass it to
    `files`: ``files(path, read=tifffile.imread)``.

    Examples
    --------
    >>> from PIL import Image
    >>> folder = getfixture("tmp_path")
    >>> for number in range(3): Image.new("L", (8, 4), number).save(folder / f"{number}.png")
    >>> pictures = images(folder, "L")
    >>> len(pictures), pictures[2].shape, int(pictures[2].max())
    (3, (4, 8), 2)
    """
    _check(mode)
    return files(path, read=partial(read_image, mode=mode), suffixes=SUFFIXES, progress=progress)


def read_image(path: str, mode: str | None = "RGB") -> Any:
    """Return an image file as a writable array; see `images`."""
    _check(mode)
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            # The further images of an MPO file, which phones write, are no frames.
            if image.format != "MPO" and (n := getattr(image, "n_frames", 1)) > 1:
                raise ValueError(f"the image has {n} frames, and one is needed")
            return _array(image, mode)
    except Exception as error:
        name_file(error, str(path))
        # No library can read a file that is cut off or missing.
        if isinstance(error, UnidentifiedImageError | ValueError):
            error.add_note(OTHER_LIBRARY)
        raise


def _check(mode: Any) -> None:
    need("PIL", "images", "pillow")
    if mode is None:
        return
    from PIL.ImageMode import getmode

    wanted = f"images: mode must be a mode of Pillow such as 'RGB', or None, got {mode!r}"
    if not isinstance(mode, str):
        raise TypeError(wanted)
    try:
        getmode(mode)
    except KeyError:
        raise ValueError(wanted) from None


def _array(image: Any, mode: str | None) -> Any:
    from PIL import ImageOps

    rawmode = _rawmode(image)
    _check_values(image, rawmode, mode)
    image.load()
    ImageOps.exif_transpose(image, in_place=True)
    if mode is not None and image.mode != mode:
        if mode not in DEEP.get(image.mode, (mode,)):
            raise ValueError(
                f"the image has values of mode {image.mode!r}, which {mode!r} would clip. Pass mode=None and"
                " scale the array"
            )
        if image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")
        image = image.convert(mode)
    array = np.array(image)
    if rawmode.startswith("I;32") and "S" not in rawmode:  # Pillow takes them for signed ints
        array = array.view(np.uint32)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _rawmode(image: Any) -> str:
    """Return how Pillow names the values in the file, such as ``"RGB;16B"``."""
    arguments = image.tile[0][3] if image.tile else ""
    rawmode = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return rawmode if isinstance(rawmode, str) else ""


def _check_values(image: Any, rawmode: str, mode: str | None) -> None:
    """Refuse values that Pillow reads as others."""
    tags = image.tag_v2 if image.format == "TIFF" else {}
    wrong = ""
    if mode is None and ";16" in rawmode and not image.mode.startswith("I"):
        wrong = "the upper 8 of its 16 bits per channel. Pass mode='RGB' if they are enough"
    elif mode is None and tags and "X" in rawmode:
        wrong = f"{rawmode!r} without some of its channels. Pass mode='RGB' to do so"
    elif image.mode == "L" and SIGNED in tags.get(SAMPLE_FORMAT, ()):
        wrong = "its signed 8 bit ints as unsigned ones"
    elif image.mode in DEEP and tags.get(PHOTOMETRIC) == WHITE_IS_ZERO:
        wrong = "its white, which is 0, as black"
    if wrong:
        raise ValueError(f"Pillow reads {wrong}")
