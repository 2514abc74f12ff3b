"""Sources beside the same files read by hand, and beside torch's DataLoader over that reader.

Each reader by hand opens its file when it is first used, and reads a batch in the way its library documents.
All read the same rows in the same order: groups of neighbours, shuffled within. Batches are counted and not
sent, so that reading is measured: in CPU time without workers, in time on the clock with two.

python -m benchmarks sources
SEQKIT_BEFORE=folder python -m benchmarks sources  # beside the seqkit in this folder, in CPU time per item

Needs the libraries of the extra ``sources``, and torch for the last three columns. These need an idle
machine: beside other busy processes, the scheduler prefers workers that sleep between batches, as torch's do.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import seqkit as sk
from seqkit import sources

from .measure import consume, in_turn, seconds, table

BEFORE = os.environ.get("SEQKIT_BEFORE", "")
N, BATCH, GROUP = 4000, 50, 500
PIXELS = (32, 32, 3)


class Reader:
    """A data set written by hand for one kind of file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> Any:
        return self.__getitems__([i])[0]

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        raise NotImplementedError


def pictures() -> Any:
    smooth = np.linspace(0, 200, N * 3).reshape(N, 1, 1, 3)
    return (smooth + np.random.default_rng(0).integers(0, 50, (N, *PIXELS))).astype(np.uint8)


class Files(Reader):
    def write(self) -> sk.View[Any]:
        for i, picture in enumerate(pictures()):
            (self.folder / f"{i}.bin").write_bytes(picture.tobytes())
        return sources.files(self.folder, read=read_bytes)

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        return [read_bytes(f"{self.folder}/{i}.bin") for i in indices]


def read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


class Images(Reader):
    def write(self) -> sk.View[Any]:
        from PIL import Image

        for i, picture in enumerate(pictures()):
            Image.fromarray(picture).save(self.folder / f"{i}.png")
        return sources.images(self.folder)

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        from PIL import Image

        found = []
        for i in indices:
            with Image.open(f"{self.folder}/{i}.png") as image:
                found.append(np.array(image))
        return found


class Npy(Reader):
    def write(self) -> sk.View[Any]:
        np.save(self.folder / "a.npy", pictures())
        return sk.read(self.folder / "a.npy")

    @cached_property
    def array(self) -> Any:
        return np.load(self.folder / "a.npy", mmap_mode="r")

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        return self.array[indices]  # type: ignore[no-any-return]


class Zip(Reader):
    def write(self) -> sk.View[Any]:
        with zipfile.ZipFile(self.folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for i, picture in enumerate(pictures()):
                archive.writestr(str(i), picture.tobytes())
        return sk.read(self.folder / "a.zip")

    @cached_property
    def archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.folder / "a.zip")

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        return [self.archive.read(str(i)) for i in indices]


class Hdf5(Reader):
    def write(self) -> sk.View[Any]:
        import h5py

        with h5py.File(self.folder / "a.h5", "w") as file:
            file.create_dataset("x", data=pictures(), chunks=(GROUP, *PIXELS))
        return sk.read(self.folder / "a.h5")

    @cached_property
    def rows(self) -> Any:
        import h5py

        return h5py.File(self.folder / "a.h5")["x"]

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        order = np.argsort(indices)
        found = np.empty((len(indices), *PIXELS), np.uint8)
        found[order] = self.rows[np.array(indices)[order]]
        return found  # type: ignore[return-value]


class Zarr(Reader):
    def write(self) -> sk.View[Any]:
        import zarr

        zarr.create_array(self.folder / "a.zarr", data=pictures(), chunks=(GROUP, *PIXELS))
        return sk.read(self.folder / "a.zarr")

    @cached_property
    def rows(self) -> Any:
        import zarr

        return zarr.open(self.folder / "a.zarr", mode="r")

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        return self.rows.oindex[np.array(indices)]  # type: ignore[no-any-return]


def rows() -> Any:
    import pyarrow as pa

    return pa.table(
        {"text": [f"a text with the number {i}" for i in range(N)], "x": np.arange(N), "y": np.ones(N)}
    )


class Parquet(Reader):
    def write(self) -> sk.View[Any]:
        import pyarrow.parquet

        pyarrow.parquet.write_table(rows(), self.folder / "a.parquet", row_group_size=GROUP)
        return sk.read(self.folder / "a.parquet")

    @cached_property
    def file(self) -> Any:
        import pyarrow.parquet

        self.group, self.table = -1, None
        return pyarrow.parquet.ParquetFile(self.folder / "a.parquet", memory_map=True)

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        file, found = self.file, [{}] * len(indices)
        for group in {i // GROUP for i in indices}:
            if group != self.group:
                self.group, self.table = group, file.read_row_group(group, use_threads=False)
            places = [place for place, i in enumerate(indices) if i // GROUP == group]
            assert self.table is not None
            taken = self.table.take([indices[place] % GROUP for place in places]).to_pylist()
            for place, row in zip(places, taken, strict=True):
                found[place] = row
        return found


class Feather(Reader):
    def write(self) -> sk.View[Any]:
        import pyarrow.feather

        pyarrow.feather.write_feather(rows(), str(self.folder / "a.feather"), compression="uncompressed")
        return sk.read(self.folder / "a.feather")

    @cached_property
    def table(self) -> Any:
        import pyarrow.feather

        return pyarrow.feather.read_table(str(self.folder / "a.feather"), memory_map=True)

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        return self.table.take(indices).to_pylist()  # type: ignore[no-any-return]


class Csv(Feather):
    def write(self) -> sk.View[Any]:
        import pyarrow.csv

        pyarrow.csv.write_csv(rows(), self.folder / "a.csv")
        return sk.read(self.folder / "a.csv")

    @cached_property
    def table(self) -> Any:
        import pyarrow.csv

        return pyarrow.csv.read_csv(self.folder / "a.csv")


class Pandas(Reader):
    def write(self) -> sk.View[Any]:
        self.frame = rows().to_pandas()
        return sk.view(self.frame)

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        return self.frame.iloc[indices].to_dict("records")  # type: ignore[no-any-return]


class Polars(Reader):
    def write(self) -> sk.View[Any]:
        import polars

        self.frame = polars.from_arrow(rows())
        return sk.view(self.frame)  # type: ignore[arg-type]

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        return [self.frame.row(i, named=True) for i in indices]  # type: ignore[union-attr]


class Sqlite(Reader):
    def write(self) -> sk.View[Any]:
        database = sqlite3.connect(self.folder / "a.db")
        database.execute("CREATE TABLE a (text, x, y)")
        database.executemany("INSERT INTO a VALUES (:text, :x, :y)", rows().to_pylist())
        database.commit()
        database.close()
        return sources.sqlite(self.folder / "a.db", "a")

    @cached_property
    def database(self) -> sqlite3.Connection:
        opened = sqlite3.connect(self.folder / "a.db", check_same_thread=False)
        opened.row_factory = sqlite3.Row
        return opened

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        read = self.database.execute
        return [dict(read("SELECT * FROM a WHERE rowid = ?", (i + 1,)).fetchone()) for i in indices]


class HuggingFace(Reader):
    def write(self) -> sk.View[Any]:
        import datasets

        datasets.disable_progress_bars()
        datasets.Dataset(rows()).save_to_disk(self.folder / "a")
        return sk.read(self.folder / "a", open_fn=datasets.load_from_disk)

    @cached_property
    def data(self) -> Any:
        import datasets

        return datasets.load_from_disk(self.folder / "a")

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        return self.data.__getitems__(indices)  # type: ignore[no-any-return]


class Audio(Reader):
    def write(self) -> sk.View[Any]:
        import soundfile

        for i in range(N // 4):
            soundfile.write(self.folder / f"{i}.wav", np.sin(np.arange(4000) / (i + 1)), 8000)
        return sources.audio(self.folder)

    def __len__(self) -> int:
        return N // 4

    def __getitems__(self, indices: list[int]) -> Sequence[Any]:
        import soundfile

        return [soundfile.read(f"{self.folder}/{i}.wav", dtype="float32") for i in indices]


KINDS: list[Any] = [
    *(Files, Images, Audio, Npy, Zip, Hdf5, Zarr),
    *(Parquet, Feather, Csv, Sqlite, HuggingFace, Pandas, Polars),
]


def count(items: Any) -> int:
    """Count the items of a batch, which may come as one array, as they do from the readers."""
    return len(items)


count.takes_arrays = True  # type: ignore[attr-defined]  # like `default_collate` and `numpy.stack`


def by_hand(reader: Reader, order: list[int]) -> Callable[[], float]:
    batches = [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
    return lambda: cpu_seconds(lambda: [count(reader.__getitems__(batch)) for batch in batches])


def cpu_seconds(run: Callable[[], Any]) -> float:
    begun = process_time()
    run()
    return process_time() - begun


def measured(kind: Any, folder: Path) -> dict[str, float]:
    reader = kind(folder)
    view = reader.write()
    order = [*sk.shuffle_groups(range(len(view)), GROUP, seed=0)]
    batches = sk.batch(sk.gather(view, order), BATCH, collate_fn=count)
    runs: dict[str, Callable[[], float]] = {
        "hand": by_hand(kind_like(reader, kind, folder), order),
        "seqkit": lambda: cpu_seconds(lambda: consume(batches)),
    }
    try:
        from torch.utils.data import DataLoader
    except ImportError:
        return in_turn(runs)
    if BEFORE:
        return in_turn(runs)
    options: Any = {"collate_fn": count, "num_workers": 2, "persistent_workers": True}
    theirs = DataLoader(reader, BATCH, sampler=order, **options)
    ours = sk.DataLoader(view, BATCH, sampler=order, **options)
    runs["torch"] = lambda: seconds(lambda: consume(theirs))
    runs["loader"] = lambda: seconds(lambda: consume(ours))
    return in_turn(runs)


def before(name: str) -> float:
    """Return the seconds of an earlier seqkit for a source, in a process of its own."""
    code = (
        f"import sys, tempfile; sys.path.insert(0, {BEFORE!r}); from benchmarks import bench_sources as here;"
        f" from pathlib import Path; folder = tempfile.TemporaryDirectory();"
        f" print(here.measured(here.{name}, Path(folder.name))['seqkit'])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(run.stdout.split()[-1])


def compare() -> None:
    """Print the CPU time per item by hand, of this seqkit, and of the one in `BEFORE`."""
    lines: list[tuple[str, ...]] = [("µs of CPU per item", "by hand", "seqkit", "before", "before / seqkit")]
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            figures = measured(kind, Path(folder)) | {"before": before(kind.__name__)}
        n = len(kind(Path()))
        cells = [f"{figures[name] / n * 1e6:.2f}" for name in ("hand", "seqkit", "before")]
        lines.append((kind.__name__, *cells, f"{figures['before'] / figures['seqkit']:.2f}"))
    table("a shuffled epoch, in batches of 50, groups of 500", lines)


def kind_like(reader: Any, kind: Any, folder: Path) -> Reader:
    """Return a reader with handles of its own, so that none is open in this process before workers fork."""
    other: Reader = kind(folder)
    if "frame" in vars(reader):
        vars(other)["frame"] = reader.frame
    return other


def main() -> None:
    if BEFORE:
        compare()
        return
    lines: list[tuple[str, ...]] = [
        ("items a second", "by hand", "seqkit", "ratio", "torch, 2", "seqkit, 2", "ratio")
    ]
    for kind in KINDS:
        try:
            with tempfile.TemporaryDirectory() as folder:
                figures = measured(kind, Path(folder))
        except ImportError as error:
            lines.append((kind.__name__, str(error), *[""] * 5))
            continue
        n = len(kind(Path()))
        cells = [f"{n / figures['hand']:,.0f}", f"{n / figures['seqkit']:,.0f}"]
        cells.append(f"{figures['hand'] / figures['seqkit']:.2f}")
        if "torch" in figures:
            cells += [f"{n / figures['torch']:,.0f}", f"{n / figures['loader']:,.0f}"]
            cells.append(f"{figures['torch'] / figures['loader']:.2f}")
        lines.append((kind.__name__, *cells, *[""] * (6 - len(cells))))
    table("a shuffled epoch, in batches of 50, groups of 500", lines)


if __name__ == "__main__":
    main()
