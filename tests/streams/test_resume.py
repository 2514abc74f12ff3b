"""A stream that is opened again goes on at its next chunk, whatever its parameters and methods are called."""

from __future__ import annotations

import codecs
import functools
import gzip
import io
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.streams import StreamLoader

from .model import KINDS

# Processes open streams by the same code as threads, so a few kinds of streams are enough there.
IN_PROCESSES = ("blocks", "view", "stream", "binary file")

FRAMES = np.arange(40)


def blocks(stream: int, blocksize: int = 4, start: int = 0) -> Iterator[np.ndarray]:
    """As in soundfile: `start` counts frames."""
    for first in range(start, len(FRAMES), blocksize):
        yield FRAMES[first : first + blocksize] + 100 * stream


def from_default(stream: int, start: int = 20) -> Iterator[np.ndarray]:
    return blocks(stream, start=start)


def from_number(stream: int, *, start: int) -> Iterator[np.ndarray]:
    return blocks(stream, start=start)


# ruff: noqa: SIM115 - streams are closed by the loader
OPENED: dict[str, Callable[[Path], Callable[..., Any]]] = {
    "blocks": lambda folder: partial(blocks, blocksize=4),
    "bound start": lambda folder: partial(blocks, start=20),
    "default start": lambda folder: from_default,
    "required start": lambda folder: partial(from_number, start=8),
    "keywords": lambda folder: lambda stream, **options: blocks(stream, **options),
    "positional": lambda folder: lambda stream, start=12: blocks(stream, 4, start),
    "list": lambda folder: lambda stream: list(blocks(stream)),
    "array": lambda folder: lambda stream: FRAMES + stream,
    "view": lambda folder: lambda stream: sk.smap(lambda i: i + 100 * stream, range(9)),
    "view without a length": lambda folder: lambda stream: sk.uniter(lambda: blocks(stream)),
    "filter view": lambda folder: lambda stream: sk.filter(lambda i: i % 3, range(20)),
    "random view": lambda folder: lambda stream: sk.shuffle(range(9), seed=stream),
    "stream": lambda folder: lambda stream: sk.uniter(lambda: blocks(stream)).smap(lambda x: x + 1),
    "batches": lambda folder: lambda stream: sk.uniter(range(22)).smap(lambda x: x + stream).batch(2),
    "split": lambda folder: lambda stream: sk.uniter(range(22))[stream::2].smap(lambda x: -x),
    "two views": lambda folder: lambda stream: sk.collate([sk.batch(FRAMES + stream, 4), range(10)]),
    "binary file": lambda folder: lambda stream: open(folder / "lines", "rb"),
    "text file": lambda folder: lambda stream: open(folder / "lines"),
    "gzip": lambda folder: lambda stream: gzip.open(folder / "lines.gz", "rb"),
    "codecs": lambda folder: lambda stream: codecs.open(str(folder / "lines"), encoding="utf-8"),
    "file in memory": lambda folder: lambda stream: io.StringIO((folder / "lines").read_text()),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = "".join(f"line {number} of a file\n" for number in range(30))
    (tmp_path / "lines").write_text(text)
    with gzip.open(tmp_path / "lines.gz", "wt") as file:
        file.write(text)
    return tmp_path


def found(loader: Any) -> list[str]:
    return [str(batch.data) for batch in loader]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize(
    ("name", "workers", "method"),
    [(name, *kind) for name in OPENED for kind in KINDS[:2]] + [(name, *KINDS[3]) for name in IN_PROCESSES],
)
def test_what_is_left_is_the_rest_of_an_uninterrupted_pass(
    name: str, workers: int, method: Any, folder: Path
) -> None:
    open_fn = OPENED[name](folder)
    options: dict[str, Any] = {"padding": "drop_rows"}
    whole = found(StreamLoader([0, 1], open_fn, 2, **options))
    assert whole[0] == str(next(iter(StreamLoader([0, 1], lambda s: list(open_fn(s)), 2, **options))).data)
    loader = StreamLoader([0, 1], open_fn, 2, workers, method=method, **options)
    with loader:
        batches = iter(loader)
        seen = found(islice(batches, 3))
        state = loader.state_dict()
    other = StreamLoader([0, 1], open_fn, 2, workers, method=method, **options)
    other.load_state_dict(state)
    assert seen + found(other) == whole


def test_streams_say_that_start_is_the_number_of_a_chunk() -> None:
    asked = []

    def open_fn(stream: int, start: int = 0) -> Iterator[int]:
        asked.append(start)
        return iter(range(start, 9))

    for resume, expected in ((None, [0]), ("start", [3])):
        loader = StreamLoader([0], open_fn, 1, resume=resume)  # type: ignore[arg-type]
        for _ in islice(loader, 3):
            pass
        other = StreamLoader([0], open_fn, 1, resume=resume)  # type: ignore[arg-type]
        other.load_state_dict(loader.state_dict())
        asked.clear()
        assert next(iter(other)).data == 3
        assert asked == expected


@pytest.mark.parametrize(
    ("open_fn", "resume", "text"),
    [
        (range, "seek", "resume must be one of 'start', None, got 'seek'"),
    ],
)
def test_a_resume_that_cannot_work_is_refused(open_fn: Any, resume: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        StreamLoader([1], open_fn, 1, resume=resume)


def test_a_decorated_function_may_take_start() -> None:
    @functools.wraps(lambda stream: None)
    def open_fn(*args: Any, **options: Any) -> Iterator[np.ndarray]:
        return from_number(*args, **options)

    loader = StreamLoader([1], open_fn, 1, resume="start")
    assert next(iter(loader)).data.tolist() == [[100, 101, 102, 103]]


@pytest.mark.parametrize("kind", ["view", "stream", "batches", "split"])
def test_chunks_that_were_read_are_not_transformed_again(kind: str) -> None:
    calls: list[int] = []

    def transform(x: int) -> int:
        calls.append(x)
        return x

    def open_fn(stream: int) -> Any:
        steps = sk.uniter(lambda: iter(range(100))).smap(transform)
        return {
            "view": sk.smap(transform, range(100)),
            "stream": steps,
            "batches": steps.batch(2),
            "split": sk.uniter(range(100))[1::2].smap(transform),
        }[kind]

    loader = StreamLoader([0], open_fn, 1, 0, list)
    for _ in islice(loader, 40):
        pass
    other = StreamLoader([0], open_fn, 1, 0, list)
    other.load_state_dict(loader.state_dict())
    calls.clear()
    batch = next(iter(other))
    assert batch.chunk.tolist() == [40]
    assert len(calls) <= 2
