"""`audio`: the sound files of a folder, as arrays."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

from ..view import View
from .files import Progress, files

__all__ = ["audio", "read_audio"]

SUFFIXES = (".aif", ".aiff", ".flac", ".mp3", ".ogg", ".wav")


def audio(
    path: str | PathLike[str], dtype: str = "float32", *, progress: Progress | None = None
) -> View[Any]:
    """Return a view of the sound files in a folder, in natural order of their names.

    Parameters
    ----------
    path : path-like
        A folder, whose sound files are found at any depth, or a glob pattern.
    dtype : "float32", "float64", "int16" or "int32"
        Type of the samples.
    progress : callable, optional
        See `files`.

    Returns
    -------
    View
        Of pairs (samples, rate): an array of shape (frames,) or (frames, channels), and samples per second.

    Raises
    ------
    FileNotFoundError
        If there is no sound file.

    Notes
    -----
    soundfile decodes.

    Examples
    --------
    >>> import numpy as np, soundfile
    >>> path = getfixture("tmp_path") / "tone.wav"
    >>> soundfile.write(path, np.sin(np.arange(800) / 8), 8000)
    >>> samples, rate = audio(path)[0]
    >>> samples.shape, samples.dtype, rate
    ((800,), dtype('float32'), 8000)
    """
    return files(path, read=partial(read_audio, dtype=dtype), suffixes=SUFFIXES, progress=progress)


def read_audio(path: str, dtype: str = "float32") -> tuple[Any, int]:
    """Return the samples of a sound file and their rate; see `audio`."""
    import soundfile

    samples, rate = soundfile.read(path, dtype=dtype)
    return samples, rate
