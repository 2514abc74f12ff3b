"""Time to the first batch: of other libraries too, in a notebook, and of data too large to copy.

The libraries start on a large data set: with fork, beside the thread of a progress bar, and with spawn. The
part about notebooks needs ipykernel and jupyter_client.
"""

from __future__ import annotations

import os
import resource
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import seqkit as sk

from .compare import Endless, Found, compare
from .measure import table
from .work import Work

DICTS = 500_000
GIB = 1 << 30

IN_A_KERNEL = """
import time
import seqkit as sk
from benchmarks.bench_start import DICTS, epochs

data = [{{"x": i, "y": i / 2, "name": str(i)}} for i in range(DICTS)]
print(*(f"{{ms:.0f}}" for ms in epochs(data)), sep=", ")
"""


@contextmanager
def a_progress_bar() -> Iterator[None]:
    """Have a thread that waits as tqdm's monitor does, or tqdm's own."""
    try:
        from tqdm import tqdm  # type: ignore[import-untyped]
    except ImportError:
        leave = threading.Event()
        thread = threading.Thread(target=leave.wait)
        thread.start()
        yield
        leave.set()
        thread.join()
    else:
        with tqdm(total=1):
            yield


class Objects(Endless):
    """100,000 dicts, a large data set to hand to a new process."""

    def __init__(self) -> None:
        self.rows = [{"x": i, "y": i / 2, "name": str(i)} for i in range(100_000)]

    def __getitem__(self, i: int) -> Any:
        return np.full(8, self.rows[i % 100_000]["x"], np.float32)


def beside_a_bar(run: Callable[[], Found]) -> Found:
    with a_progress_bar():
        return run()


def libraries() -> None:
    forked, spawned = (Work(Objects(), 64, context=context) for context in ("fork", "spawn"))
    compare("start, fork", forked, limit=False)
    compare("start, fork, single samples", Work(Objects()), limit=False)
    compare("start, fork, beside a progress bar", forked, limit=False, around=beside_a_bar)
    compare("start, spawn", spawned, limit=False)


def epochs(data: Any, **options: Any) -> list[float]:
    """Return how long each of three epochs takes to its first batch, in ms."""
    taken = []
    with sk.DataLoader(data, batch_size=64, num_workers=2, **options) as loader:
        for _ in range(3):
            begun = perf_counter()
            next(iter(loader))
            taken.append((perf_counter() - begun) * 1e3)
    return taken


def in_a_kernel() -> str:
    try:
        from jupyter_client.manager import start_new_kernel
    except ImportError:
        return "not measured: jupyter_client is missing"
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        printed: list[str] = []
        client.execute_interactive(
            IN_A_KERNEL.format(),
            timeout=120,
            output_hook=lambda message: printed.append(str(message["content"].get("text", ""))),
        )
        return "".join(printed).strip()
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def of_a_memory_map(path: Path, context: str) -> tuple[str, str]:
    data = np.memmap(path, "u1", "r", shape=(4096, 1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = epochs(data[:, :4096], multiprocessing_context=context)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return ", ".join(f"{ms:.0f}" for ms in taken), f"{grown / 1024:.0f}"


def main() -> None:
    libraries()
    data = [{"x": i, "y": i / 2, "name": str(i)} for i in range(DICTS)]
    with a_progress_bar():
        threaded = epochs(data)
    rows = [
        ("500,000 dicts, two workers, beside a progress bar: three epochs, ms", listed(threaded)),
        ("the same in a Jupyter kernel, ms", in_a_kernel()),
        ("the same from a template, ms", listed(epochs(data, multiprocessing_context="forkserver"))),
    ]
    del data
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "map")
        with open(path, "wb+") as file:
            file.truncate(4 * GIB)
            for row in range(4096):  # otherwise the first epochs measure how fast the disk is
                os.pread(file.fileno(), 1 << 17, row << 20)
        for context in ("fork", "forkserver", "spawn"):
            taken, grown = of_a_memory_map(path, context)
            rows.append((f"memory map of 4 GiB, {context}: three epochs, ms", taken))
            rows.append((f"memory map of 4 GiB, {context}: growth of this process, MiB", grown))
    table("start", rows)


def listed(values: list[float]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)
