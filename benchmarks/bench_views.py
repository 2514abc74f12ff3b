"""What a view costs in one process: iterating, indexing, building, gathering, shuffling."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

import seqkit as sk

from .measure import consume, in_turn, seconds, table

N = 200_000


def successor(x: int) -> int:
    return x + 1


def per_call(call: Callable[[], object], count: int = 20_000) -> float:
    begun = perf_counter()
    for _ in range(count):
        call()
    return (perf_counter() - begun) / count


def iterating() -> None:
    items = list(range(N))

    def maps(depth: int, layer: Callable[..., object]) -> float:
        result: object = items
        for _ in range(depth):
            result = layer(successor, result)
        return seconds(lambda: consume(result)) / N * 1e9

    rows = [("layers", "map ns", "smap ns", "ratio")]
    for depth in (1, 3):
        found = in_turn({"map": partial(maps, depth, map), "smap": partial(maps, depth, sk.smap)})
        ratio = found["smap"] / found["map"]
        rows.append((str(depth), f"{found['map']:.0f}", f"{found['smap']:.0f}", f"{ratio:.2f}"))
    table("iterating smap beside builtin map, per item", rows)


def indexing() -> None:
    import seqtools

    items = list(range(N))
    one, three = sk.smap(successor, items), items
    theirs = seqtools.smap(successor, items)
    for _ in range(3):
        three = sk.smap(successor, three)
    found = in_turn(
        {
            "seqkit, 1 layer": lambda: per_call(lambda: one[77]) * 1e9,
            "seqkit, 3 layers": lambda: per_call(lambda: three[77]) * 1e9,
            "SeqTools, 1 layer": lambda: per_call(lambda: theirs[77]) * 1e9,
            "building, seqkit": lambda: per_call(lambda: sk.smap(successor, items)) * 1e9,
            "building, SeqTools": lambda: per_call(lambda: seqtools.smap(successor, items), 2000) * 1e9,
        }
    )
    table("indexing and building, ns", [(name, f"{value:.0f}") for name, value in found.items()])


def gathering() -> None:
    data = np.random.default_rng(0).random((10**6, 16), np.float32)
    order = np.random.default_rng(1).permutation(10**6)

    def plain() -> float:
        return seconds(lambda: [data[order[i : i + 256]] for i in range(0, 10**6, 256)])

    found = in_turn(
        {
            "plain x[perm[i:i+256]]": plain,
            "batch(gather(x, perm), 256)": lambda: seconds(
                lambda: list(sk.batch(sk.gather(data, order), 256, collate_fn=np.asarray))
            ),
            "batch(shuffle(x), 256)": lambda: seconds(
                lambda: list(sk.batch(sk.shuffle(data, 0), 256, collate_fn=np.asarray))
            ),
        }
    )
    base = found["plain x[perm[i:i+256]]"]
    table(
        "batches of 256 from 10^6 x 16 float32",
        [(name, f"{value * 1e3:.0f} ms", f"{value / base:.2f}") for name, value in found.items()],
    )


def shuffling() -> None:
    order = sk.shuffle(range(10**12), seed=0)
    found = in_turn(
        {
            "first item, us": lambda: seconds(lambda: next(iter(sk.shuffle(range(10**12), seed=1)))) * 1e6,
            "scattered access, us": lambda: per_call(lambda: order[123_456_789]) * 1e6,
            "in sequence, ns an index": lambda: seconds(lambda: consume(islice(order, 10**6))) * 1e3,
        },
        rounds=3,
    )
    table("shuffle at 10^12 items", [(name, f"{value:.1f}") for name, value in found.items()])


def smaller() -> None:
    """What is told on the pages of views and functions that cost little."""
    items, text = list(range(N)), ["an item"] * N
    sentences = [np.arange(n % 50 + 1) for n in range(512)]
    tick, pad = sk.SerializableFunc(successor), sk.Pad()
    limit = sk.debug(items, print, max_calls=0)
    cached = sk.add_cache(sk.smap(successor, items), N)
    folder = TemporaryDirectory()
    stored = {
        kind: sk.add_cache(source, 0, store=f"{folder.name}/{kind}")
        for kind, source in (("small", items[:2000]), ("large", np.zeros((100, 4096))))
    }
    for view in (cached, *stored.values()):
        consume(view)
    odd, groups = [math.pi, math.e, 1.0], [i // 100 for i in items]

    def of(view: Iterable[object], count: int = N) -> Callable[[], float]:
        return lambda: seconds(lambda: consume(view)) / count * 1e6

    figures = {
        "debug, max_calls used up": of(limit),
        "debug, a call": of(sk.debug(items, lambda i, item: None)),
        "monitor_throughput": of(sk.monitor_throughput(items)),
        "a list through a view": of(sk.gather(items, np.arange(N))),
        "add_cache, in memory": of(cached),
        "add_cache, not in memory": lambda: of(sk.add_cache(sk.smap(successor, items), N))(),
        "add_cache, small items of a store": of(stored["small"], 2000),
        "add_cache, large items of a store": of(stored["large"], 100),
        "SerializableFunc, a call": lambda: per_call(lambda: tick(1)) * 1e6,
        "SerializableFunc, pickling": lambda: per_call(lambda: pickle.dumps(tick), 500) * 1e6,
        "Pad, a sample": lambda: per_call(lambda: pad(sentences), 20) / len(sentences) * 1e6,
        "random_split, an item": lambda: seconds(lambda: sk.random_split(text, [0.5, 0.5], seed=0)) / N * 1e6,
        "random_split with groups, an item": lambda: (
            seconds(lambda: sk.random_split(text, [0.5, 0.5], seed=0, groups=groups)) / N * 1e6
        ),
        "pack, a number of numpy": of(sk.pack(np.arange(N))),
        "pack, a string": of(sk.pack(text)),
        "mix, its table": lambda: seconds(lambda: sk.mix([items, text], seed=0)[0]) * 1e6,
        "mix, its table for odd weights": lambda: (
            seconds(lambda: sk.mix([items, text, items], odd, seed=0)[0]) * 1e6
        ),
    }
    found = in_turn(figures, rounds=3)
    table("smaller views and functions, us an item", [(name, f"{us:.2f}") for name, us in found.items()])
    folder.cleanup()


def main() -> None:
    iterating()
    indexing()
    gathering()
    shuffling()
    smaller()
