"""Whole pipelines in every library, in one run: images, JPEG, tokens, table rows, a straggler, start-up.

Every run has a process of its own. It reads for `SECONDS` after the first `WARM` results. In one run are
measured: results per second, seconds to the first result, CPU time of the consumer's process for a result, and
memory of a worker. The first result and the last are compared with what they should be.

The limit is measured in the same rounds: two processes that compute the same and hand nothing over.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any, NamedTuple

import numpy as np

from .measure import apart, in_rounds, record, table
from .peers import WORKERS, Unsuited, Work, installed, loop, seqkit, stack

SECONDS, ROUNDS, WARM, BUFFERS = 0.3, 3, 8, 3
LIMIT = f"bare processes, {BUFFERS} buffers each"
ENDLESS = 10**7


class Endless:
    def __len__(self) -> int:
        return ENDLESS


class Images(Endless):
    """64 resident images, over and over."""

    def __init__(self) -> None:
        self.images = np.random.default_rng(0).random((64, 3, 224, 224), np.float32)

    def __getitem__(self, i: int) -> Any:
        return self.images[i % 64]


def augmented(picture: Any, i: int) -> Any:
    """Crop and flip at random, and return float32."""
    rng = np.random.default_rng(i)
    top, left = rng.integers(0, 32, 2)
    cropped = np.asarray(picture)[top : top + 128, left : left + 128]
    return np.divide(cropped[:, :: rng.choice((-1, 1))], 255, dtype=np.float32)


class Jpegs(Endless):
    """Files of 160 x 160 pixels, decoded by Pillow and augmented."""

    def __init__(self, folder: Path) -> None:
        from PIL import Image

        rng = np.random.default_rng(0)
        self.paths = [str(folder / f"{i}.jpg") for i in range(256)]
        for path in self.paths:
            pixels = rng.integers(0, 256, (20, 20, 3), np.uint8).repeat(8, 0).repeat(8, 1)
            Image.fromarray(pixels).save(path)

    def __getitem__(self, i: int) -> Any:
        from PIL import Image

        return augmented(Image.open(self.paths[i % 256]), i)

    def huggingface(self, work: Work) -> Iterable[Any]:
        import datasets
        import torch

        def transform(rows: Any) -> Any:
            return {"image": [augmented(*pair) for pair in zip(rows["image"], rows["i"], strict=True)]}

        def collate(rows: Any) -> Any:
            return torch.from_numpy(stack([row["image"] for row in rows]))

        columns = {"image": self.paths * 32, "i": list(range(len(self.paths) * 32))}
        data: Any = datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())
        data = data.with_transform(transform)
        return torch.utils.data.DataLoader(data, work.size, num_workers=WORKERS, collate_fn=collate)


@cache
def opened(path: str) -> Any:
    return np.load(path, mmap_mode="r")


class Tokens(Endless):
    """Shuffled windows of 1,025 tokens in a memory map, which each process opens."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "tokens.npy")
        rng = np.random.default_rng(0)
        np.save(self.path, rng.integers(0, 50_000, 20_000_000, np.uint16))
        self.starts = rng.permutation(20_000_000 - 1025)[:100_000]

    def __getitem__(self, i: int) -> Any:
        start = self.starts[i % 100_000]
        return opened(self.path)[start : start + 1025].astype(np.int64)


class Rows(Endless):
    """Rows of a table with four columns of numbers, as dicts."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.columns = {name: rng.random(100_000) for name in "abc"} | {"label": rng.integers(0, 9, 100_000)}

    def __getitem__(self, i: int) -> Any:
        return {name: column[i % 100_000] for name, column in self.columns.items()}

    def huggingface(self, work: Work) -> Iterable[Any]:
        import datasets

        return datasets.Dataset.from_dict(self.columns).with_format("numpy").iter(work.size)


class Straggler:
    """Items of 10 ms, one of which takes 300 ms."""

    def __len__(self) -> int:
        return WARM + 60

    def __getitem__(self, i: int) -> int:
        sleep(0.3 if i == WARM + 4 else 0.01)
        return i


class Objects(Endless):
    """100,000 dicts, a large data set to hand to a new process."""

    def __init__(self) -> None:
        self.rows = [{"x": i, "y": i / 2, "name": str(i)} for i in range(100_000)]

    def __getitem__(self, i: int) -> Any:
        return np.full(8, self.rows[i % 100_000]["x"], np.float32)


# -------------------------------------------------------------------- measuring


class Found(NamedTuple):
    """What one run measured."""

    per_second: float
    first_ms: float
    consumer_us: float  # CPU time of the consumer's process for a result
    worker_mib: float  # PSS: memory shared by n processes counts as 1/n in each


def leaf(result: Any) -> Any:
    return np.asarray(next(iter(result.values())) if isinstance(result, dict) else result)


def descendants(pid: int) -> Iterator[int]:
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield int(child)
            yield from descendants(int(child))


def memory_of_workers() -> float:
    """Return the proportional set size of all processes below this one, in MiB."""
    texts = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in descendants(os.getpid()))
    return sum(int(text.split("Pss:")[1].split()[0]) for text in texts) / 1024


def read(make: Callable[[Work], Iterable[Any]], work: Work, seconds: float = SECONDS) -> Found:
    begun = perf_counter()
    iterator: Iterator[Any] = iter(make(work))
    item = next(iterator)
    first = perf_counter() - begun
    np.testing.assert_allclose(leaf(item), leaf(work.result(0)), 1e-6)  # Hugging Face has float32
    number = 0
    for _ in range(WARM):
        item, number = next(iterator), number + 1
    begun, worked = perf_counter(), process_time()
    while perf_counter() - begun < seconds and number < len(work) - 1:
        item, number = next(iterator), number + 1
        leaf(item).ravel()[0]
    taken, worked = perf_counter() - begun, process_time() - worked
    memory = memory_of_workers() / WORKERS
    np.testing.assert_allclose(leaf(item), leaf(work.result(number)), 1e-6)
    timed = number - WARM
    return Found(timed / taken, first * 1e3, worked / max(timed, 1) * 1e6, memory)


def bare(work: Work) -> Found:
    """Compute in two processes, each into buffers that are there already, and hand nothing over."""
    context = get_context("fork")
    gate, counts = context.Barrier(WORKERS + 1), context.Array("q", WORKERS)

    def compute(worker: int) -> None:
        buffers = [work.result(k) for k in range(BUFFERS)]
        gate.wait()
        begun, k = perf_counter(), worker
        while perf_counter() - begun < SECONDS:
            buffers[k % BUFFERS] = work.result(k, buffers[k % BUFFERS])
            counts[worker] += 1
            k += WORKERS

    processes = [context.Process(target=compute, args=(worker,)) for worker in range(WORKERS)]
    for process in processes:
        process.start()
    gate.wait()
    for process in processes:
        process.join()
    return Found(sum(counts) / SECONDS, 0.0, 0.0, 0.0)


def compare(title: str, work: Work, limit: bool = True, around: Any = None, **options: Any) -> None:
    """Measure every library that can do the work, and record the figures of `Found` one after the other."""
    runs: dict[str, Callable[[], Found]] = {}
    for name, make in {"seqkit": seqkit, "a loop": loop, **installed()}.items():
        run = partial(read, make, work, **options)
        runs[name] = partial(apart, partial(around, run) if around else run)
        try:
            runs[name]()
        except RuntimeError as error:
            del runs[name]
            if Unsuited.__name__ not in str(error):
                print(f"{title}: {name} fails: {error}", file=sys.stderr)
    if limit:
        runs[LIMIT] = partial(apart, partial(bare, work))
    found = in_rounds(runs, ROUNDS)
    rows: list[tuple[str, ...]] = [(title, *Found._fields)]
    medians = [
        record({name: [float(one[field]) for one in each] for name, each in found.items()})
        for field in range(len(Found._fields))
    ]
    rows += [(name, *(f"{median[name]:.4g}" for median in medians)) for name in runs]
    table(title, rows)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compare("images stacked, 18 MiB", Work(Images(), 32, 32 * 3 * 224 * 224 * 4))
        compare("JPEG, augmented", Work(Jpegs(folder), 32, 32 * 128 * 128 * 3 * 4))
        compare("token windows", Work(Tokens(folder), 16, 16 * 1025 * 8))
        compare("table rows", Work(Rows(), 256))
        compare("straggler", Work(Straggler()), limit=False, seconds=10.0)
