"""Text for recurrent language models: files, rows of a corpus, and chunks with their targets."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.arguments import int_at_least, positive_int
from ..core.indices import batch_count
from ..core.iteration import is_one_shot
from .stream import Stream

__all__ = ["bptt", "bptt_rows", "files"]

Last = Literal["keep", "discard", "pad"]
LAST = ("keep", "discard", "pad")
Tokens = npt.NDArray[Any]


def bptt(
    tokens: Iterable[Any], length: int, *, last: Last = "keep", pad_token: Any = None, start: int = 0
) -> Stream[tuple[Tokens, Tokens]]:
    """Return a stream of chunks of tokens, each with the targets of a language model: the tokens shifted by
    one.

    Chunk i is the pair of ``tokens[i * length : (i + 1) * length]`` and the same from one token further on.
    So every token but the first is a target once. As `open_fn` of a `StreamLoader`:
    ``functools.partial(bptt, length=…)``.

    Parameters
    ----------
    tokens : array, sequence or iterable
        Numbers of words or characters. Arrays and lists are cut. Others are drawn as far as needed.
    length : int
        Tokens per chunk (1 or more).
    last : "keep", "discard" or "pad"
        The fate of a last chunk of fewer tokens: it comes as it is, is left out, or is filled up with
        `pad_token`.
    pad_token : number, optional
        Required with ``last="pad"``.
    start : int
        Number of the first chunk (0 or more). With arrays and lists it costs nothing.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, is out of range, or `pad_token` is missing.

    Notes
    -----
    Named after backpropagation through time. Modelled on ``StreamBPTTBatchify`` of GluonNLP.

    Examples
    --------
    >>> for inputs, targets in bptt([1, 2, 3, 4, 5, 6], 3):
    ...     print(inputs, targets)
    [1 2 3] [2 3 4]
    [4 5] [5 6]
    """
    length = positive_int(length, "bptt: length")
    start = int_at_least(start, "bptt: start", 0)
    _check_last(last, pad_token, "bptt")
    if not isinstance(tokens, Iterable):
        raise TypeError(f"bptt: tokens must be iterable, got {tokens!r}")
    if is_one_shot(tokens):
        tokens = Stream(tokens)  # refuses a second pass
    return Stream(partial(_chunks, tokens, length, last, pad_token, start))


def _chunks(
    tokens: Any, length: int, last: str, pad_token: Any, start: int
) -> Iterator[tuple[Tokens, Tokens]]:
    for piece in _pieces(tokens, length, start):
        missing = length + 1 - len(piece)
        if missing:
            if last == "discard" or len(piece) < 2:
                return
            if last == "pad":
                piece = np.concatenate([piece, np.full(missing, pad_token, piece.dtype)])
        yield piece[:-1], piece[1:]


def _pieces(tokens: Any, length: int, start: int) -> Iterator[Tokens]:
    """Yield `length` + 1 tokens at a time. The first one is the last token of the piece before."""
    if isinstance(tokens, np.ndarray | list | tuple):
        array = np.asarray(tokens)
        for first in range(start * length, len(array) - 1, length):
            yield array[first : first + length + 1]
        return
    rest = islice(iter(tokens), start * length, None)
    piece = list(islice(rest, length + 1))
    while len(piece) > 1:
        yield np.array(piece)
        piece = piece[length:] + list(islice(rest, length))


def bptt_rows(corpus: Any, rows: int, *, last: Last = "discard", pad_token: Any = None) -> list[Tokens]:
    """Cut a corpus into successive rows for a `StreamLoader`, one for each row of its batches.

    Each row overlaps the next one by a token, which is the last target of one and the first input of the
    other.

    Parameters
    ----------
    corpus : array or sequence
        The tokens.
    rows : int
        How many rows (1 or more).
    last : "keep", "discard" or "pad"
        What to do if the tokens do not fill all rows alike: the last rows are shorter, or empty; the tokens
        left over are left out (the default); or the last rows are filled up with `pad_token`.
    pad_token : number, optional
        Required with ``last="pad"``.

    Returns
    -------
    list of array
        Views of the corpus, where nothing is filled up.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, is out of range, or `pad_token` is missing.

    Notes
    -----
    Modelled on ``CorpusBPTTBatchify`` of GluonNLP.

    Examples
    --------
    >>> bptt_rows(range(8), 2)
    [array([0, 1, 2, 3]), array([3, 4, 5, 6])]
    >>> bptt_rows(range(8), 2, last="pad", pad_token=-1)
    [array([0, 1, 2, 3, 4]), array([ 4,  5,  6,  7, -1])]
    """
    rows = positive_int(rows, "bptt_rows: rows")
    _check_last(last, pad_token, "bptt_rows")
    tokens = np.asarray(corpus)
    if tokens.ndim != 1:
        raise TypeError(f"bptt_rows: corpus must have one dimension, got {tokens.ndim}")
    targets = max(len(tokens) - 1, 0)
    per_row = batch_count(targets, rows, last)
    if last == "pad":
        tokens = np.concatenate(
            [tokens, np.full(max(rows * per_row + 1 - len(tokens), 0), pad_token, tokens.dtype)]
        )
    return [tokens[row * per_row : row * per_row + per_row + 1] for row in range(rows)]


def files(*patterns: str | os.PathLike[str]) -> list[str]:
    """Return the files that match some patterns, in natural order: ``part2`` before ``part10``.

    Parameters
    ----------
    patterns : str or path
        As for `glob.glob`, with ``**`` for any folders. The files of each pattern follow those of the
        pattern before. A file that matches several patterns comes once.

    Raises
    ------
    ValueError
        If a pattern matches no file, or there is no pattern.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("part10.txt", "part2.txt"):
    ...     (folder / name).touch()
    >>> [pathlib.Path(path).name for path in files(folder / "*.txt")]
    ['part2.txt', 'part10.txt']
    """
    from ..sources.files import natural

    if not patterns:
        raise ValueError("files: pass at least one pattern")
    found: dict[str, None] = {}
    for pattern in patterns:
        matching = [path for path in glob.glob(os.fspath(pattern), recursive=True) if os.path.isfile(path)]
        if not matching:
            raise ValueError(f"files: no file matches {os.fspath(pattern)!r}")
        found.update(dict.fromkeys(sorted(matching, key=natural)))
    return list(found)


def _check_last(last: Any, pad_token: Any, who: str) -> None:
    if last not in LAST:
        raise ValueError(f"{who}: last must be 'keep', 'discard' or 'pad', got {last!r}")
    if last == "pad" and pad_token is None:
        raise ValueError(f"{who}: last='pad' needs pad_token")
