"""Whole pipelines in every library: JPEG with augmentation, windows of tokens, table rows, a straggler."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np

from .compare import WARM, Endless, compare
from .work import WORKERS, Work, stack


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
    """Items of 10 ms, and one of 300 ms."""

    def __len__(self) -> int:
        return WARM + 60

    def __getitem__(self, i: int) -> int:
        sleep(0.3 if i == WARM + 4 else 0.01)
        return i


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compare("JPEG, augmented", Work(Jpegs(folder), 32, 32 * 128 * 128 * 3 * 4))
        compare("token windows", Work(Tokens(folder), 16, 16 * 1025 * 8))
        compare("table rows", Work(Rows(), 256))
    compare("straggler", Work(Straggler()), limit=False, seconds=10.0)
