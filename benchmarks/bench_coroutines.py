"""Many coroutines at once beside the peers that run them: how near to the ideal, and CPU time for an item.

Each request waits, so that nothing but the machinery takes CPU time. Every run is a process of its own, from
building to closing. Results come in order, but for the coroutines alone, which hand nothing over.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
from collections.abc import Callable
from functools import partial
from importlib import import_module
from time import perf_counter, process_time
from typing import Any

import seqkit as sk

from .measure import apart, consume, in_rounds, keep, table

REQUESTS, AT_ONCE, REQUEST_S = 10_000, 500, 0.05
ROUNDS = 7


async def request(x: int) -> int:
    await asyncio.sleep(REQUEST_S)
    return x


def seqkit() -> None:
    with sk.prefetch(sk.smap(request, range(REQUESTS)), AT_ONCE, "async") as node:
        consume(node)


def alone() -> None:
    """Tasks that take one number after the other."""

    async def run() -> None:
        left = iter(range(REQUESTS))

        async def work() -> None:
            for x in left:
                await request(x)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    asyncio.run(run())


def gathered() -> None:
    """A task for each request, which waits for a semaphore: the usual recipe."""

    async def run() -> list[int]:
        turn = asyncio.Semaphore(AT_ONCE)

        async def work(x: int) -> int:
            async with turn:
                return await request(x)

        return await asyncio.gather(*map(work, range(REQUESTS)))

    consume(asyncio.run(run()))


def spdl() -> None:
    from spdl.pipeline import PipelineBuilder

    builder: Any = PipelineBuilder().add_source(range(REQUESTS))
    builder = builder.pipe(request, concurrency=AT_ONCE, output_order="input").add_sink(AT_ONCE)
    pipeline = builder.build(num_threads=1)
    with pipeline.auto_stop():
        consume(pipeline)


def huggingface() -> None:
    """`map` keeps all results, as rows of a table, and cannot hand them over before it ends."""
    import datasets

    async def row(given: dict[str, int]) -> dict[str, int]:
        return {"y": await request(given["x"])}

    datasets.disable_progress_bars()
    datasets.config.MAX_NUM_RUNNING_ASYNC_MAP_FUNCTIONS_IN_PARALLEL = AT_ONCE
    consume(datasets.Dataset.from_dict({"x": range(REQUESTS)}).map(row, load_from_cache_file=False)["y"])


RUNS: dict[str, tuple[str, Callable[[], None]]] = {
    "asyncio: 500 tasks that hand nothing over": ("asyncio", alone),
    "asyncio: a semaphore and gather": ("asyncio", gathered),
    "seqkit": ("seqkit", seqkit),
    "SPDL": ("spdl.pipeline", spdl),
    "Hugging Face datasets": ("datasets", huggingface),
}


def measured(run: Callable[[], None]) -> tuple[float, float]:
    """Return seconds, and seconds of CPU time."""

    def work() -> tuple[float, float]:
        logging.disable(logging.WARNING)
        begun, used = perf_counter(), process_time()
        run()
        return perf_counter() - begun, process_time() - used

    return apart(work)


def main() -> None:
    runs = {}
    for name, (module, run) in RUNS.items():
        try:
            import_module(module)  # so that no run has to
            runs[name] = partial(measured, run)
        except ImportError as error:
            print(f"left out: {module} ({error})")
    title = f"{REQUESTS:,} requests of {REQUEST_S * 1e3:.0f} ms, {AT_ONCE} at once"
    rows = [("", "requests a second", "of ideal", "CPU µs a request")]
    found = in_rounds(runs, ROUNDS + 1, skip=1)
    keep(
        title,
        {name: {"s": [s for s, _ in each], "cpu": [c for _, c in each]} for name, each in found.items()},
    )
    for name, each in found.items():
        taken, used = (statistics.median(column) for column in zip(*each, strict=True))
        share = REQUESTS / AT_ONCE * REQUEST_S / taken
        rows.append((name, f"{REQUESTS / taken:,.0f}", f"{share:.2f}", f"{used / REQUESTS * 1e6:.0f}"))
    table(title, rows)
