"""`images`: the images of a folder, as arrays."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any, Literal

import numpy as np

from ..core.arguments import int_at_least
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

OTHER_LIBRARY = "Read it with another library: sources.files(path, read=...)"
SAMPLE_FORMAT, SIGNED = 339, 2  # a tag of TIFF, and one of its values
PHOTOMETRIC, WHITE_IS_ZERO = 262, 0

Frame = int | Literal["all"] | None


def images(
    path: str | PathLike[str],
    mode: str | None = "RGB",
    *,
    frame: Frame = None,
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
    frame : int, "all" or None
        The frame of an animation, or the page of a TIFF file, from 0. ``"all"``: all frames, as an array with
        one more axis in front. None (the default): files of several frames are refused.
    progress : True or callable, optional
        See `files`.

    Returns
    -------
    View
        Of arrays of shape (height, width, channels), or (height, width) for one channel.

    Raises
    ------
    TypeError, ValueError
        If `mode` or `frame` has a wrong type or value. An item raises ValueError, which names the file, if it
        has several frames, or values that `mode` would clip or that Pillow cannot read.
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
    _check(mode, frame)
    return files(path, read=partial(read_image, mode=mode, frame=frame), suffixes=SUFFIXES, progress=progress)


def read_image(path: str, mode: str | None = "RGB", *, frame: Frame = None) -> Any:
    """Return an image file as a writable array; see `images`."""
    from PIL import Image, UnidentifiedImageError

    _check(mode, frame)
    try:
        with Image.open(path) as image:
            return _frames(image, mode, frame)
    except Exception as error:
        if isinstance(error, UnidentifiedImageError):
            error.add_note(OTHER_LIBRARY.replace("Read", "read", 1))
        name_file(error, str(path))
        raise


def _check(mode: Any, frame: Any) -> None:
    if mode is not None and not isinstance(mode, str):
        raise TypeError(f"images: mode must be a mode of Pillow such as 'RGB', or None, got {mode!r}")
    if frame is not None and frame != "all":
        int_at_least(frame, "images: frame", 0, " or 'all'")


def _frames(image: Any, mode: str | None, frame: Frame) -> Any:
    # The further images of an MPO file, which phones write, are no frames.
    n = getattr(image, "n_frames", 1) if image.format != "MPO" and getattr(image, "is_animated", False) else 1
    if frame == "all":
        frames = [_frame(image, k, mode) for k in range(n)]
        if len(shapes := {array.shape for array in frames}) > 1:
            raise ValueError(
                f"the {n} frames have the shapes {sorted(shapes)}. Read one with frame=, or pass mode='RGB'"
                " if only their channels differ"
            )
        return np.stack(frames)
    if frame is None and n > 1:
        raise ValueError(f"the image has {n} frames. Pass frame=0 for the first one, or frame='all'")
    if frame is not None and frame >= n:
        raise ValueError(f"the image has {n} frames, so there is no frame {frame}")
    return _frame(image, frame or 0, mode)


def _frame(image: Any, k: int, mode: str | None) -> Any:
    if k:
        image.seek(k)
    rawmode = _rawmode(image)
    _check_values(image, rawmode, mode)
    image.load()
    if any(key in image.info for key in ("exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif")):
        from PIL import ImageOps

        image = ImageOps.exif_transpose(image)
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
    return _native(array)


def _rawmode(image: Any) -> str:
    """Return how Pillow names the values in the file, such as ``"RGB;16B"``."""
    arguments = image.tile[0][3] if image.tile else ""
    rawmode = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return rawmode if isinstance(rawmode, str) else ""


def _check_values(image: Any, rawmode: str, mode: str | None) -> None:
    """Refuse values that Pillow reads as others."""
    if mode is None and ";16" in rawmode and not image.mode.startswith("I"):
        raise ValueError(
            "Pillow reads the upper 8 of its 16 bits per channel. Pass mode='RGB' if they are enough."
            f" {OTHER_LIBRARY}"
        )
    if image.format != "TIFF":
        return
    if mode is None and "X" in rawmode:
        raise ValueError(
            f"Pillow leaves out channels of {rawmode!r}. Pass mode='RGB' to do so. {OTHER_LIBRARY}"
        )
    if image.mode == "L" and SIGNED in image.tag_v2.get(SAMPLE_FORMAT, ()):
        raise ValueError(f"Pillow reads its signed 8 bit ints as unsigned ones. {OTHER_LIBRARY}")
    if image.mode in DEEP and image.tag_v2.get(PHOTOMETRIC) == WHITE_IS_ZERO:
        raise ValueError(f"0 is white in this image, and Pillow reads it as black. {OTHER_LIBRARY}")


def _native(array: Any) -> Any:
    """Return an array whose bytes are in the order of this machine."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)
