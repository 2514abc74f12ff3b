"""`images`: the images of a folder, as arrays."""

from __future__ import annotations

import os
from functools import partial
from os import PathLike
from typing import Any, Literal

import numpy as np

from ..core.arguments import int_at_least
from ..core.view import View
from .files import Progress, files, name_file

__all__ = ["images", "read_image"]

# The last line has formats that Pillow may not read. Its error is better than an image left out.
SUFFIXES = (
    *(
        ".apng",
        ".bmp",
        ".gif",
        ".jfif",
        ".jpe",
        ".jpeg",
        ".jpg",
        ".pbm",
        ".pgm",
        ".png",
        ".pnm",
        ".ppm",
        ".tga",
    ),
    *(".tif", ".tiff", ".webp"),
    *(".avif", ".heic", ".heif", ".j2k", ".jp2", ".jxl"),
)
# Modes of Pillow with more than 8 bits, and the modes that hold all of their values.
DEEP = {"I": ("I",), "F": ("F",), **dict.fromkeys(("I;16", "I;16B", "I;16L", "I;16N"), ("I", "F"))}

Frame = int | Literal["all"] | None


def images(
    path: str | PathLike[str],
    mode: str | None = "RGB",
    *,
    library: str = "pillow",
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
    library : "pillow" or "imageio"
        What decodes the files. With ``"imageio"``, imageio decodes the files that Pillow cannot.
    frame : int, "all" or None
        The frame of an animation, or the page of a TIFF file, from 0. ``"all"``: all frames, as an array with
        one more axis in front. None (the default): files of several frames are refused.
    progress : callable, optional
        See `files`.

    Returns
    -------
    View
        Of arrays of shape (height, width, channels), or (height, width) for one channel.

    Raises
    ------
    TypeError, ValueError
        If `library`, `mode` or `frame` is unknown. An item raises ValueError, which names the file, if it has
        several frames, or more than 8 bits that `mode` would clip.
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
    _check(mode, library, frame)
    read = partial(read_image, mode=mode, library=library, frame=frame)
    return files(path, read=read, suffixes=SUFFIXES, progress=progress)


def read_image(path: str, mode: str | None = "RGB", library: str = "pillow", *, frame: Frame = None) -> Any:
    """Return an image file as a writable array; see `images`."""
    from PIL import Image

    _check(mode, library, frame)
    try:
        try:
            with Image.open(path) as image:
                return _frames(image, mode, frame)
        except (Image.UnidentifiedImageError, _NotByPillow) as error:
            if library == "imageio":
                return _with_imageio(path, mode, frame)
            raise (ValueError(str(error)) if isinstance(error, _NotByPillow) else error) from None
    except Exception as error:
        name_file(error, str(path))
        raise


def _check(mode: Any, library: Any, frame: Any) -> None:
    if library not in ("pillow", "imageio"):
        raise ValueError(f"images: library must be 'pillow' or 'imageio', got {library!r}")
    if mode is not None and not isinstance(mode, str):
        raise TypeError(f"images: mode must be a mode of Pillow such as 'RGB', or None, got {mode!r}")
    if frame is not None and frame != "all":
        int_at_least(frame, "images: frame", 0, " or 'all'")


class _NotByPillow(ValueError):
    """Pillow would change the values of this image."""


def _frames(image: Any, mode: str | None, frame: Frame) -> Any:
    # The further images of an MPO file, which phones write, are no frames.
    n = getattr(image, "n_frames", 1) if image.format != "MPO" and getattr(image, "is_animated", False) else 1
    if frame == "all":
        return np.stack([_frame(image, k, mode) for k in range(n)])
    _check_frame(frame, n)
    return _frame(image, frame or 0, mode)


def _check_frame(frame: Any, n: int) -> None:
    if frame is None and n > 1:
        raise ValueError(f"the image has {n} frames. Pass frame=0 for the first one, or frame='all'")
    if frame is not None and frame >= n:
        raise ValueError(f"the image has {n} frames, so there is no frame {frame}")


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
        raise _NotByPillow(
            "Pillow reads the upper 8 of its 16 bits per channel. Pass mode='RGB' if they are enough, or read"
            " the file with another library: files(path, read=...)"
        )
    if image.format == "TIFF" and image.mode == "L" and 2 in image.tag_v2.get(339, ()):
        raise _NotByPillow("Pillow reads its signed 8 bit ints as unsigned ones")


def _with_imageio(path: str, mode: str | None, frame: Frame) -> Any:
    from imageio.v3 import imread

    with open(path, "rb") as file:  # with a path, imageio leaves a file open for each plugin that fails
        data = file.read()
    suffix = os.path.splitext(path)[1]
    array = np.array(imread(data, extension=suffix) if suffix else imread(data))
    is_stack = array.ndim > 3 or (array.ndim == 3 and array.shape[-1] > 4)
    frames = array if is_stack else array[np.newaxis]
    if frame == "all":
        return np.stack([_converted(each, mode) for each in frames])
    _check_frame(frame, len(frames))
    return _converted(frames[frame or 0], mode)


def _converted(array: Any, mode: str | None) -> Any:
    if mode is None:
        return _native(array)
    from PIL import Image

    if array.dtype != np.uint8:
        raise ValueError(
            f"the image has values of {array.dtype}, which {mode!r} would clip. Pass mode=None and scale the"
            " array"
        )
    return np.array(Image.fromarray(array).convert(mode))


def _native(array: Any) -> Any:
    """Return an array whose bytes are in the order of this machine."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)
