"""Lines of JSON at any index, beside the ways in which they are read without seqkit. CPU time and memory.

Every run is a process of its own. The file is in memory, and the index of seqkit and the table of datasets
are made in a temporary folder.
"""

from __future__ import annotations

import json
import linecache
import logging
import os
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from seqkit import sources

from .measure import apart, consume, in_rounds, keep, table

LINES, READ = 300_000, 20_000
ROUNDS = 5

Open = Callable[[Path], Any]


class Looped(Sequence[Any]):
    """All values in a list."""

    def __init__(self, path: Path) -> None:
        with open(path, encoding="utf-8") as file:
            self._values = list(map(json.loads, file))

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, i: Any) -> Any:
        return self._values[i]


class Cached(Looped):
    """The lines that `linecache` keeps."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        linecache.getlines(self._path)

    def __len__(self) -> int:
        return LINES

    def __getitem__(self, i: Any) -> Any:
        if i >= LINES:
            raise IndexError(i)
        return json.loads(linecache.getline(self._path, i + 1))


class Sought(Cached):
    """The position of each line in a list, as is often written by hand."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "rb")  # noqa: SIM115
        self._starts = [0]
        for line in self._file:
            self._starts.append(self._starts[-1] + len(line))

    def __getitem__(self, i: Any) -> Any:
        if i >= LINES:
            raise IndexError(i)
        self._file.seek(self._starts[i])
        return json.loads(self._file.readline())


def huggingface(path: Path) -> Any:
    import datasets

    datasets.disable_progress_bars()
    return datasets.load_dataset(
        "json", data_files=str(path), split="train", cache_dir=str(path.parent / "huggingface")
    )


WAYS: dict[str, Open] = {
    "all values in a list": Looped,
    "linecache": Cached,
    "positions in a list": Sought,
    "seqkit": sources.jsonl,
    "Hugging Face datasets": huggingface,
}


def own_memory() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))


def measured(open_fn: Open, path: Path, order: list[int]) -> tuple[float, ...]:
    """Return CPU seconds to open, and µs for a random line and for a line in order, and MiB."""

    def work() -> tuple[float, ...]:
        logging.disable(logging.WARNING)
        before, begun = own_memory(), process_time()
        values = open_fn(path)
        opened = process_time()
        for i in order:
            values[i]
        read = process_time()
        consume(values)
        end = process_time()
        used = (own_memory() - before) / 1024
        return opened - begun, (read - opened) / READ * 1e6, (end - read) / LINES * 1e6, used

    return apart(work)


def main() -> None:
    rng = np.random.default_rng(0)
    order = rng.integers(LINES, size=READ).tolist()
    with TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        path = Path(folder, "lines.jsonl")
        with open(path, "w") as file:
            for number in range(LINES):
                text = rng.bytes(int(rng.integers(20, 80))).hex()
                file.write(json.dumps({"id": number, "text": text, "label": number % 10}) + "\n")
        runs = {}
        for name, open_fn in WAYS.items():
            try:
                measured(open_fn, path, order[:1])  # makes what is kept
                runs[name] = partial(measured, open_fn, path, order)
            except RuntimeError as error:
                print(f"left out: {name} ({str(error).splitlines()[-1]})")
        found = in_rounds(runs, ROUNDS)
    title = f"{LINES:,} JSON lines of 100 to 200 bytes"
    columns = ("open, s", "a random line, µs", "a line in order, µs", "memory, MiB")
    rows = [("", *columns)]
    kept = {}
    for name, each in found.items():
        kept[name] = {
            column: list(values) for column, values in zip(columns, zip(*each, strict=True), strict=True)
        }
        rows.append((name, *(f"{statistics.median(values):,.2f}" for values in kept[name].values())))
    keep(title, kept)
    table(title, rows)
