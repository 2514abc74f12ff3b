"""Stages: nodes above nodes, against the rate of the slowest one, and beside other libraries.

The functions sleep, so that the rate of a stage is known: its number of workers through the time of an item.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter, sleep
from typing import Any

import numpy as np

import seqkit as sk

from .measure import apart, in_turn, table

Stages = list[tuple[int, float, str]]  # workers, milliseconds for an item, method; the lowest first

PIPELINES: dict[str, tuple[Stages, int]] = {
    "16 x 20 ms below 2 x 5 ms": ([(16, 20, "thread"), (2, 5, "thread")], 400),
    "2 x 10 ms below 1 x 2 ms": ([(2, 10, "thread"), (1, 2, "thread")], 200),
    "2 processes x 10 ms below 1 x 2 ms": ([(2, 10, "process"), (1, 2, "thread")], 200),
    "8 x 20 ms below 2 processes x 5 ms": ([(8, 20, "thread"), (2, 5, "process")], 300),
}
# SeqTools 1.3 does not return from the others.
RUN_BY_SEQTOOLS = {"2 x 10 ms below 1 x 2 ms", "2 processes x 10 ms below 1 x 2 ms"}
# The same with arrays as items.
SIZED: dict[str, tuple[Stages, int]] = {
    "16 x 20 ms below 2 x 5 ms": ([(16, 20, "thread"), (2, 5, "thread")], 400),
    "16 x 20 ms below 2 processes x 5 ms": ([(16, 20, "thread"), (2, 5, "process")], 400),
    "2 processes x 5 ms below 2 x 2 ms": ([(2, 5, "process"), (2, 2, "thread")], 400),
    "16 x 20 ms below 2 processes x 5 ms below 2 x 2 ms": (
        [(16, 20, "thread"), (2, 5, "process"), (2, 2, "thread")],
        400,
    ),
}
SIZES = (1_000, 30_000, 150_000, 1_000_000)  # bytes
ROWS = 32  # in a batch of pictures


class Wait:
    """A function that takes some milliseconds."""

    def __init__(self, ms: float) -> None:
        self.seconds = ms / 1e3

    def __call__(self, x: Any) -> Any:
        sleep(self.seconds)
        return x


def ideal(stages: Stages, count: int) -> float:
    """Return how many seconds the slowest stage needs."""
    return max(count * ms / 1e3 / workers for workers, ms, _ in stages)


def taken(make: Callable[[], Iterable[Any]], count: int) -> float:
    """Return the seconds from building a pipeline to its last item."""
    begun = perf_counter()
    items = make()
    assert sum(1 for _ in items) == count
    seconds = perf_counter() - begun
    close = getattr(items, "close", None)
    if close is not None:
        close()
    return seconds


def seqkit_stages(stages: Stages, count: int) -> Iterable[Any]:
    view: Any = range(count)
    for workers, ms, method in stages:
        view = sk.prefetch(sk.smap(Wait(ms), view), workers, method)  # type: ignore[arg-type]
    return view  # type: ignore[no-any-return]


def seqtools_stages(stages: Stages, count: int) -> Iterable[Any]:
    import seqtools

    view: Any = range(count)
    for workers, ms, method in stages:
        view = seqtools.prefetch(
            seqtools.smap(Wait(ms), view), nworkers=workers, method=method, max_buffered=2 * workers + 2
        )
    return view  # type: ignore[no-any-return]


def spdl_stages(stages: Stages, count: int) -> Iterable[Any]:
    """SPDL runs the functions of all stages in one pool of threads."""
    from spdl.pipeline import PipelineBuilder

    builder = PipelineBuilder().add_source(range(count))
    for workers, ms, _ in stages:
        builder = builder.pipe(Wait(ms), concurrency=workers, output_order="input")
    pipeline = builder.add_sink(4).build(num_threads=sum(workers for workers, _, _ in stages))

    def items() -> Iterable[Any]:
        with pipeline.auto_stop():
            yield from pipeline

    return items()


def nodes_stages(stages: Stages, count: int) -> Iterable[Any]:
    from torchdata import nodes

    node: Any = nodes.IterableWrapper(range(count))
    for workers, ms, method in stages:
        node = nodes.ParallelMapper(node, Wait(ms), workers, method=method)  # type: ignore[arg-type]
    return nodes.Loader(node)  # type: ignore[no-any-return]


def has(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def compare() -> None:
    makers = {"seqkit": seqkit_stages}
    if has("seqtools"):
        makers["SeqTools"] = seqtools_stages
    if has("spdl.pipeline"):
        makers["SPDL"] = spdl_stages
    if has("torchdata.nodes"):
        makers["torchdata.nodes"] = nodes_stages
    rows = []
    for title, (stages, count) in PIPELINES.items():
        best = ideal(stages, count)

        def run(make: Any, stages: Stages = stages, count: int = count) -> float:
            return apart(partial(taken, partial(make, stages, count), count)) / ideal(stages, count)

        able = dict(makers)
        if title not in RUN_BY_SEQTOOLS:
            able.pop("SeqTools", None)
        if any(method != "thread" for _, _, method in stages):
            able.pop("SPDL", None)
        found = in_turn({name: partial(run, make) for name, make in able.items()}, rounds=3)
        rows.append(
            (title, f"{best:.2f}", *(f"{found[name]:.2f}" if name in found else "" for name in makers))
        )
    head = ("pipeline", "ideal, s", *makers)
    table("stages: seconds, start included, as multiples of the slowest stage's", [head, *rows])


def sizes() -> None:
    """Print the seconds of stages whose items are arrays, as multiples of the slowest stage's."""
    rows = []
    for title, (stages, count) in SIZED.items():

        def run(size: int, stages: Stages = stages, count: int = count) -> float:
            def make() -> Any:
                view: Any = sk.smap(lambda i: np.full(size, i % 251, np.uint8), range(count))
                for workers, ms, method in stages:
                    view = sk.prefetch(sk.smap(Wait(ms), view), workers, method)  # type: ignore[call-overload]
                return view

            return apart(partial(taken, make, count)) / ideal(stages, count)

        found = in_turn({f"{size:_} bytes": partial(run, size) for size in SIZES}, rounds=3)
        rows.append((title, *(f"{value:.2f}" for value in found.values())))
    head = ("pipeline", *(f"{size:_} bytes" for size in SIZES))
    table("stages of arrays: seconds, start included, as multiples of the slowest stage's", [head, *rows])


# -------------------------------------------------------------------- pictures


def jpeg() -> bytes:
    from PIL import Image

    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8).repeat(12, 0).repeat(12, 1)
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "jpeg", quality=90)
    return file.getvalue()


def decode(data: bytes) -> Any:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data)))


def pictures() -> None:
    """Decode in processes, stack, and copy each batch in one thread, as to a device."""
    data, count = jpeg(), 20
    device = np.empty((ROWS, 384, 384, 3), np.uint8)

    def to_device(batch: Any) -> Any:
        np.copyto(device, batch)
        return batch.shape

    def decoded() -> Any:
        batches = sk.batch(sk.smap(decode, [data] * (ROWS * count)), ROWS, collate_fn=np.stack)
        return sk.prefetch(batches, 2, "process")

    runs = {
        "decode and stack alone": lambda: taken(decoded, count),
        "below a thread that copies": lambda: taken(
            lambda: sk.prefetch(sk.smap(to_device, decoded()), 1), count
        ),
    }
    found = in_turn(runs)
    alone = found["decode and stack alone"]
    head = ("pictures", "batches/s", "of the stage alone")
    rows = [(name, f"{count / took:.1f}", f"{alone / took:.2f}") for name, took in found.items()]
    table(f"batches of {ROWS} pictures of 384 x 384", [head, *rows])


def large() -> None:
    """Batches of 18 MiB from two processes, with and without a stage of one thread above."""
    count = 300

    def made() -> Any:
        batches = sk.smap(lambda i: np.full((32, 224, 224, 3), i, np.float32), range(count))
        return sk.prefetch(batches, 2, "process")

    runs = {
        "one node": lambda: taken(made, count),
        "below a stage of one thread": lambda: taken(lambda: sk.prefetch(made(), 1), count),
    }
    found = in_turn(runs)
    head = ("18 MiB", "batches/s", "of one node")
    rows = [(name, f"{count / took:.0f}", f"{found['one node'] / took:.2f}") for name, took in found.items()]
    table("large batches through a stage", [head, *rows])


def main() -> None:
    compare()
    sizes()
    if has("PIL"):
        pictures()
    large()
