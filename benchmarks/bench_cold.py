"""Cold data: items of files that are not in memory, with and without advice to the system.

Each run evicts the file first and asserts that it is evicted. The bytes are those that all processes of a run
have read from the disk. The files are in the folder of `tempfile`, which must be on a disk.
"""

from __future__ import annotations

import io
import os
import resource
import statistics
import sys
import tarfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import numpy as np

import seqkit as sk
from seqkit.core.ahead import Ahead
from seqkit.sources import lines, tar_members, webdataset

from .measure import apart, consume, keep, table

MIB = 1 << 20
ROW = 512  # bytes
ROWS = 768 * MIB // ROW
WINDOW = 4  # rows
WINDOWS, WARM = 4000, 40_000
BATCH = 16
MEMBERS = 30_000
ROUNDS = 6

Run = Callable[[], tuple[float, int]]


def evict(path: Path) -> None:
    """Remove a file from memory. No process may have mapped it."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        for _ in range(50):  # pages that are being read stay
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            left = sum(is_in_memory(file.fileno(), offset) for offset in range(0, os.path.getsize(path), MIB))
            if not left:
                return
            sleep(0.1)
    raise RuntimeError(f"{path} is still in memory: {left} MiB")


def is_in_memory(descriptor: int, offset: int) -> bool:
    try:
        return os.preadv(descriptor, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False


def fill(path: Path) -> None:
    """Read a whole file into memory."""
    with open(path, "rb") as file:
        while file.read(MIB):
            pass


def blocks() -> int:
    return sum(resource.getrusage(who).ru_inblock for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def measured(path: Path, prepare: Callable[[Path], None], make: Callable[[Path], Any], advice: bool) -> Run:
    """Return a run in a process of its own: seconds without the start of workers, and bytes from disk."""

    def work() -> tuple[float, int]:
        if not advice:
            Ahead.reach = lambda ahead, position: setattr(ahead, "position", sys.maxsize)  # type: ignore
        items = make(path)
        if isinstance(items, sk.View) and hasattr(items, "start"):
            items.start()
        before, begun = blocks(), perf_counter()
        consume(items)
        end = perf_counter()
        if hasattr(items, "close"):
            items.close()
        return end - begun, 512 * (blocks() - before)

    def run() -> tuple[float, int]:
        prepare(path)
        return apart(work)

    return run


def mapped(path: Path) -> Any:
    return np.memmap(path, np.uint8, "r").reshape(-1, ROW)


def windows(path: Path, count: int = WINDOWS) -> Any:
    """Return batches of windows of a memory map, in random order."""
    chosen = sk.shuffle(sk.window(mapped(path), WINDOW, WINDOW), seed=0)[:count]
    return sk.batch(chosen, BATCH, collate_fn=np.stack)


def by_hand(path: Path) -> tuple[range, Callable[[int], Any]]:
    """Return the numbers of batches of windows, and a function that reads one of them with numpy."""
    data = np.asarray(mapped(path))
    starts = (WINDOW * np.random.default_rng(0).permutation(ROWS // WINDOW)[:WINDOWS]).tolist()

    def read(i: int) -> Any:
        return np.stack([data[start : start + WINDOW] for start in starts[i * BATCH : (i + 1) * BATCH]])

    return range(WINDOWS // BATCH), read


def looped(path: Path) -> Iterable[Any]:
    numbers, read = by_hand(path)
    return map(read, numbers)


def in_threads(path: Path) -> Iterable[Any]:
    numbers, read = by_hand(path)
    with ThreadPoolExecutor(32) as pool:
        yield from pool.map(read, numbers)


@cache
def opened(source: Callable[[Path], Any], path: Path) -> Any:
    """Return a view of a file, which is scanned once."""
    return source(path)


def members(path: Path, source: Callable[[Path], Any] = tar_members) -> Any:
    """Return a few members of an archive, or lines of a text, in random order."""
    return sk.shuffle(opened(source, path), seed=0)[: MEMBERS // 20]


samples = partial(members, source=partial(webdataset, beside=True))
documents = partial(members, source=partial(lines, beside=True))


def places(path: Path) -> list[list[int]]:
    """Return first byte and size of as many members or lines, in random order."""
    chosen = np.random.default_rng(0).permutation(MEMBERS)[: MEMBERS // 20]
    source = tar_members if path.suffix == ".tar" else partial(lines, beside=True)
    ((_, starts, stops, _),) = opened(source, path)._ahead(chosen, 1)
    return np.stack([starts, stops - starts], axis=1).tolist()  # type: ignore[no-any-return]


def members_looped(path: Path) -> Iterable[Any]:
    with open(path, "rb") as file:
        for start, size in places(path):
            file.seek(start)
            yield file.read(size)


def members_in_threads(path: Path) -> Iterable[Any]:
    with open(path, "rb") as file, ThreadPoolExecutor(32) as pool:
        yield from pool.map(lambda place: os.pread(file.fileno(), place[1], place[0]), places(path))


def ahead(make: Callable[[Path], Any], workers: int, method: Any, path: Path) -> Any:
    return sk.prefetch(make(path), workers, method)


def rows(title: str, runs: dict[str, Run], count: int, used: float) -> None:
    """Print items a second, their ratio to the first run, and bytes from disk in ratio to those used."""
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in runs}
    for number in range(ROUNDS):
        for name in list(runs)[:: -1 if number % 2 else 1]:  # the run after another one may gain or lose
            found[name].append(runs[name]())
    keep(
        title,
        {name: {"s": [s for s, _ in each], "bytes": [n for _, n in each]} for name, each in found.items()},
    )
    seconds = {name: statistics.median(s for s, _ in each) for name, each in found.items()}
    first = next(iter(seconds.values()))
    lines = [("", "items a second", "ratio", "MiB from disk", "MiB / MiB used")]
    for name, each in found.items():
        nbytes = statistics.median(n for _, n in each)
        rate, ratio = f"{count / seconds[name]:,.0f}", f"{first / seconds[name]:.2f}"
        lines.append((name, rate, ratio, f"{nbytes / MIB:,.1f}", f"{nbytes / MIB / used:.1f}"))
    table(title, lines)


def of(path: Path, loop: Any, threads: Any, make: Any) -> dict[str, Run]:
    """Return the runs of one table."""
    run = partial(measured, path, evict)
    return {
        "a loop": run(loop, False),
        "32 threads": run(threads, False),
        "seqkit without advice": run(make, False),
        "seqkit": run(make, True),
        "seqkit, 2 threads": run(partial(ahead, make, 2, "thread"), True),
        "seqkit, 2 processes": run(partial(ahead, make, 2, "process"), True),
    }


def both(path: Path, prepare: Callable[[Path], None], count: int) -> dict[str, Run]:
    make = partial(windows, count=count)
    return {
        "seqkit without advice": measured(path, prepare, make, False),
        "seqkit": measured(path, prepare, make, True),
    }


def main() -> None:
    with TemporaryDirectory() as folder:
        array, archive, text = (Path(folder, name) for name in ("rows.bin", "members.tar", "text.txt"))
        rng = np.random.default_rng(0)
        with open(array, "wb") as file:
            for _ in range(ROWS * ROW // (16 * MIB)):
                file.write(rng.bytes(16 * MIB))
        with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(MEMBERS):
                info = tarfile.TarInfo(f"{number:06d}.bin")
                info.size = int(rng.integers(5_000, 35_000))
                tar.addfile(info, io.BytesIO(rng.bytes(info.size)))
        with open(text, "w") as file:
            for size in rng.integers(2_500, 17_500, MEMBERS).tolist():
                file.write(rng.bytes(size).hex() + "\n")
        size = WINDOW * ROW / MIB
        title = f"{WINDOWS} random windows of 2 KiB of a cold memory map of 768 MiB, in batches of {BATCH}"
        rows(title, of(array, looped, in_threads, windows), WINDOWS, WINDOWS * size)
        used = sum(size for _, size in places(archive)) / MIB
        title = f"{MEMBERS // 20} of {MEMBERS} members of a cold tar archive, in random order"
        rows(title, of(archive, members_looped, members_in_threads, members), MEMBERS // 20, used)
        title = "as many samples of the archive, as webdataset reads them, in random order"
        rows(title, of(archive, members_looped, members_in_threads, samples), MEMBERS // 20, used)
        used = sum(size for _, size in places(text)) / MIB
        title = f"{MEMBERS // 20} of {MEMBERS} lines of a cold text file, in random order"
        rows(title, of(text, members_looped, members_in_threads, documents), MEMBERS // 20, used)
        every = ROWS // WINDOW // BATCH * BATCH
        rows("all windows of the cold memory map, in random order", both(array, evict, every), every, 768)
        title = f"{WARM} random windows of the memory map, which is in memory"
        rows(title, both(array, fill, WARM), WARM, WARM * size)
