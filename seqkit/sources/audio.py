"""`audio`: the sound files of a folder, as arrays."""

from __future__ import annotations

import os
import re
from os import PathLike
from typing import Any

from ..core.lazy import need
from ..core.progress import Progress
from ..core.view import View
from .files import files, naming

__all__ = ["audio", "read_audio"]

# The last line has formats that soundfile may not read. Its error is better than a file left out.
SUFFIXES = (
    *(".aif", ".aifc", ".aiff", ".au", ".caf", ".flac", ".mp3", ".oga", ".ogg", ".opus", ".rf64"),
    *(".w64", ".wav"),
    *(".aac", ".m4a", ".wma"),
)


def audio(path: str | PathLike[str], *, progress: Progress | None = None) -> View[Any]:
    """Return a view of the sound files in a folder, in natural order of their names.

    Parameters
    ----------
    path : path-like
        A folder, whose sound files are found at any depth, or a glob pattern.
    progress : True or callable, optional
        See `files`.

    Returns
    -------
    View
        Of pairs (samples, rate): an array of float32 of shape (frames,) or (frames, channels), and samples
        per second.

    Raises
    ------
    ImportError
        If soundfile is not installed.
    FileNotFoundError
        If there is no sound file.

    Notes
    -----
    soundfile decodes. Items that fail are errors that name the file: those of an unknown format, and those
    that were cut short. Loud samples of MP3, Vorbis and Opus may be larger than 1.0. For samples of another
    type pass a function to `files`: ``files(path, read=partial(soundfile.read, dtype="int16"))``.

    Examples
    --------
    >>> import numpy as np, soundfile
    >>> path = getfixture("tmp_path") / "tone.wav"
    >>> soundfile.write(path, np.sin(np.arange(800) / 8), 8000)
    >>> samples, rate = audio(path)[0]
    >>> samples.shape, samples.dtype, rate
    ((800,), dtype('float32'), 8000)
    """
    need("soundfile", "audio")
    return files(path, read=read_audio, suffixes=SUFFIXES, progress=progress)


def read_audio(path: str) -> tuple[Any, int]:
    """Return the samples of a sound file and their rate; see `audio`."""
    need("soundfile", "audio")
    import soundfile

    with naming(str(path)), soundfile.SoundFile(path) as file:
        samples = file.read(dtype="float32")
        _check_complete(file, len(samples))
        return samples, file.samplerate


def _check_complete(file: Any, n: int) -> None:
    """Raise EOFError if the file has fewer samples than it says. soundfile returns those that are there."""
    is_guess = file.format == "MP3" and not _has_count(file.name)
    said = max([0 if is_guess else file.frames, *map(int, _COUNT.findall(file.extra_info))])
    if n < said:
        raise EOFError(f"the file has {said} frames, but ends after {n} of them")
    for size, there in _SIZES.findall(file.extra_info):
        if int(there) + 8 < int(size) < STREAMED:
            raise EOFError(f"the file has {size} bytes of samples, but ends after {there} of them")
    if not n and _NO_SIZE.search(file.extra_info):
        raise EOFError("the file says that it has no samples, and more bytes follow. Was it finished?")
    if file.format == "OGG" and not _has_last_page(file.name):
        raise EOFError(f"the file ends after {n} frames, without the page that marks the end of its stream")


# In the log of libsndfile. A program that writes to a pipe says that there is as much as possible.
_SIZES = re.compile(r"^ *(?:data|riff|SSND|Data Size) *: (\d+) \(should be (\d+)\)", re.M)
_COUNT = re.compile(r"does not match value from 'ds64' chunk of (\d+)")
_NO_SIZE = re.compile(r"^data : 0\n(\*\*\*|Have 0 marker)", re.M)
STREAMED = 0x7FFF0000
MOST_PAGE = 65307  # bytes of a page of Ogg
LAST_PAGE = 4  # a bit in its flags


def _has_last_page(path: Any) -> bool:
    """Does an Ogg file end with the whole page that is marked as the last one?"""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - MOST_PAGE))
        end = file.read()
    page = end[end.rfind(b"OggS") :]
    n_segments = page[26] if len(page) > 26 else 0
    body = sum(page[27 : 27 + n_segments])
    return len(page) > 26 and bool(page[5] & LAST_PAGE) and len(page) >= 27 + n_segments + body


def _has_count(path: Any) -> bool:
    """Does an MP3 file say how many frames it has? soundfile guesses the number of others."""
    with open(path, "rb") as file:
        head = file.read(1 << 16)
    return b"Xing" in head or b"Info" in head
