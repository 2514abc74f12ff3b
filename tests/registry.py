"""One line per case: a view, and the plain list that it must equal.

`test_conformance` holds every case against the laws of `seqkit.testing`; `test_architecture` demands a
case for every combinator and every class of view. The first word of a name is the combinator.
"""

from __future__ import annotations

import asyncio
import atexit
import operator
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Any

import numpy as np

import seqkit as sk
from seqkit.core.randomness import Permutation, item_generator, node_key
from seqkit.observe import debug, monitor_throughput
from seqkit.samplers import BatchSampler, RandomSampler
from seqkit.stores.add_cache.add_cache import add_cache
from seqkit.stores.materialize.materialize import materialize
from seqkit.stores.pack.pack import load_packed, pack
from seqkit.testing.subject import Build, Model, Reads, Writes
from seqkit.views.mix.by_size import BySize
from seqkit.views.mix.schedule import Schedule, in_stages
from seqkit.views.mix.shares import Shares

__all__ = ["CASES", "Case"]


@dataclass(frozen=True)
class Case:
    """A view under test; `items` turns ints into what its source shall hold."""

    name: str
    build: Build
    model: Model
    items: Callable[[list[int]], list[Any]] = list
    sizes: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 8)
    reads: Reads = "exact"
    writes: Writes = False
    length_reads: bool = False

    @property
    def combinator(self) -> str:
        return self.name.split()[0]


# -------------------------------------------------------------------- functions, items and models


def double(x: Any) -> Any:
    return x * 2


def triple(a: Any, b: Any, c: Any) -> tuple[Any, Any, Any]:
    return a, b, c


def second(_: Any, x: Any) -> Any:
    return x


def first_numbers(_: str, n: int) -> list[int]:
    return [*range(n)]


def half_of(path: str, n: int) -> list[int]:
    """Return the first or the last numbers below `n`, according to which of two files is opened."""
    return [*range(n // 2)] if path.endswith("test_collate.py") else [*range(n // 2, n)]


def only_even(x: int) -> int:
    if x % 2:
        raise ArithmeticError(x)
    return x


class FailsOnce:
    """Returns each item, after an error when it is first called with it."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def __call__(self, x: int) -> int:
        if x not in self._seen:
            self._seen.add(x)
            raise ArithmeticError(x)
        return x


def minus_one(error: Any) -> int:
    if not isinstance(error.__cause__, ArithmeticError):
        raise error
    return -1


def plus_one(x: Any) -> Any:
    return x + 1


def jitter(x: int, rng: np.random.Generator) -> int:
    return x * 1000 + int(rng.integers(1000))


def chunks(items: list[Any], k: int, last: str = "keep", pad: Any = None) -> list[list[Any]]:
    rows = [items[i : i + k] for i in range(0, len(items), k)]
    if last == "discard":
        return [row for row in rows if len(row) == k]
    return [row + [pad] * (k - len(row) if last == "pad" else 0) for row in rows]


def flat(rows: Iterable[Any]) -> list[Any]:
    return list(chain.from_iterable(rows))


def arrays(items: list[Any], k: int) -> list[Any]:
    return [np.array(row) for row in chunks(items, k)]


class Told:
    """A data set of `n` samples that follows the epochs of its reader."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        assert self.epoch >= 0
        return i


def pairs(values: list[int]) -> list[Any]:
    return [(x, x % 7) for x in values]


def named(values: list[int]) -> list[Any]:
    return [{"a": x, "b": 1 - x} for x in values]


def in_threes(values: list[int]) -> list[Any]:
    return chunks(values, 3)


def shuffled(items: list[Any], seed: int, epoch: int = 0, salt: int | str = 0) -> list[Any]:
    permutation = Permutation(len(items), node_key("shuffle", seed, epoch, salt))
    return [items[permutation.one(i)] for i in range(len(items))]


def buffered(items: list[Any], size: int, seed: int, salt: int = 0) -> list[Any]:
    rng = np.random.Generator(np.random.Philox(key=node_key("shuffle_buffer", seed, 0, salt)))
    held, found = items[:size], []
    for item in items[size:]:
        place = rng.integers(size)
        found.append(held[place])
        held[place] = item
    rng.shuffle(held)
    return found + held[::-1]


def group_shuffled(items: list[Any], size: int, seed: int, at_once: int = 1) -> list[Any]:
    def key(what: str) -> int:
        return node_key(f"shuffle_groups {what}", seed, 0, 0)

    groups = chunks(items, size)
    order = Permutation(len(groups), key("order")).many(range(len(groups))).tolist()
    runs = [flat(run) for run in chunks([groups[g] for g in order], at_once)]
    return flat(
        [run[Permutation(len(run), key(f"run {k}")).one(i)] for i in range(len(run))]
        for k, run in enumerate(runs)
    )


def jittered(items: list[Any], seed: int, salt: int | str = 0) -> list[Any]:
    key = node_key("random_map", seed, 0, salt)
    return [jitter(x, item_generator(key, i)) for i, x in enumerate(items)]


def every_other(n: int) -> list[bool]:
    return [i % 2 == 1 for i in range(n)]


def is_even(x: int) -> bool:
    return x % 2 == 0


class Counted:
    """A function that returns an iterator, and pickles."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self) -> Any:
        return iter(range(self.n))


def best_fit_decreasing(
    lengths: list[int], capacity: int, long: str, most: int = 1 << 60, order: Iterable[int] | None = None
) -> list[list[Any]]:
    """Pack documents one by one: each piece into the fullest bin that has room, then the lowest number.

    Documents of one length are taken in a given order, but for those that fill a bin alone.
    """

    def rank(piece: list[int]) -> tuple[int, int]:
        document, start, stop = piece
        return start - stop, document if stop - start == capacity else 0

    pieces = []
    for document in range(len(lengths)) if order is None else order:
        length = lengths[document]
        ends = [*range(capacity, length + 1, capacity)]
        if long == "split":
            ends += [length] * (length % capacity > 0)
            pieces += [[document, start, stop] for start, stop in pairwise([0, *ends])]
        elif long == "clip" or length <= capacity:
            pieces.append([document, 0, min(length, capacity)])
    bins: list[list[Any]] = []
    room: list[int] = []
    for piece in sorted(pieces, key=rank):
        length = piece[2] - piece[1]
        fitting = [b for b in range(len(bins)) if room[b] >= length and len(bins[b]) < most]
        if not fitting:
            fitting = [len(bins)]
            bins.append([])
            room.append(capacity)
        chosen = min(fitting, key=lambda b: room[b])
        bins[chosen].append(piece)
        room[chosen] -= length
    return bins


def in_bins(n: int, capacity: int, long: str, most: int = 1 << 60, seed: int | None = None) -> list[Any]:
    """Return the bins of `n` documents as `bins` gives them."""
    drawn = None if seed is None else Permutation(n, node_key("bins 0", seed, 0, 0)).many(range(n)).tolist()
    return [np.array(rows) for rows in best_fit_decreasing(some_lengths(n), capacity, long, most, drawn)]


def some_lengths(n: int) -> list[int]:
    return [i * 5 % 9 + 1 for i in range(n)]


def some_groups(n: int) -> list[list[int]]:
    return [[*range(i, n, 3)] + [i] * (i % 2) for i in range(n)]


def rows_of(n: int) -> list[Any]:
    """Return groups of rows that cut the items of `lines`."""
    return [[(i, 0, 2), (n - 1 - i, 1, 1 + i % 2)] for i in range(n)]


def lines(values: list[int]) -> list[Any]:
    return [[x, -x] for x in values]


def by_rows(items: list[Any], groups: list[Any]) -> list[Any]:
    return [[items[i][start:stop] for i, start, stop in rows] for rows in groups]


def back_and_forth(n: int) -> list[int]:
    return [*range(n - 1, -1, -1), *range(n)]


# -------------------------------------------------------------------- the cases

GROUPS = [
    Case(
        "bins",
        lambda s: sk.bins(some_lengths(len(s)), 6, long="split"),
        lambda x: in_bins(len(x), 6, "split"),
        writes=False,
    ),
    Case(
        "bins clip",
        lambda s: sk.bins(np.array(some_lengths(len(s)), np.uint16), 7, long="clip", max_items=2),
        lambda x: in_bins(len(x), 7, "clip", 2),
        writes=False,
    ),
    Case(
        "bins drop, slice",
        lambda s: sk.bins(some_lengths(len(s)), 8, long="drop")[::-2],
        lambda x: in_bins(len(x), 8, "drop")[::-2],
        writes=False,
    ),
    Case(
        "bins error",
        lambda s: sk.bins(some_lengths(len(s)), 9, long="error", seed=0),
        lambda x: in_bins(len(x), 9, "error", seed=0),
        writes=False,
    ),
    Case(
        "gather_groups",
        lambda s: sk.gather_groups(s, some_groups(len(s))),
        lambda x: [[x[i] for i in group] for group in some_groups(len(x))],
        writes=False,
    ),
    Case(
        "gather_groups of arrays",
        lambda s: sk.gather_groups(s, np.arange(len(s)).reshape(-1, 1)),
        lambda x: [[i] for i in x],
        writes=False,
    ),
    Case(
        "gather_groups of rows",
        lambda s: sk.gather_groups(s, rows_of(len(s))),
        lambda x: by_rows(x, rows_of(len(x))),
        lines,
        writes=False,
    ),
    Case(
        "gather_groups of a sampler",
        lambda s: sk.gather_groups(s, BatchSampler(RandomSampler(len(s), seed=2), 3)),
        lambda x: chunks(list(sk.gather(x, RandomSampler(len(x), seed=2))), 3),
        writes=False,
    ),
    Case(
        "gather_groups of bins",
        lambda s: sk.gather_groups(s, sk.bins([2] * len(s), 3, long="split")),
        lambda x: by_rows(x, best_fit_decreasing([2] * len(x), 3, "split")),
        lines,
        writes=False,
    ),
]

VIEWS = [
    Case("view", sk.view, list, writes=True),
    Case(
        "view of a data set that is told the epoch",
        lambda s: sk.smap(second, sk.view(Told(len(s))), s).at_epoch(3),
        list,
    ),
    Case("view [1:]", lambda s: sk.view(s)[1:], lambda x: x[1:], writes=True),
    Case("view [::-1]", lambda s: sk.view(s)[::-1], lambda x: x[::-1], writes=True),
    Case("view [::2][::-1]", lambda s: sk.view(s)[::2][::-1], lambda x: x[::2][::-1], writes=True),
    Case("view [-3:-1]", lambda s: sk.view(s)[-3:-1], lambda x: x[-3:-1], writes=True),
    Case(
        "view [1:] of an endless one, beside others",
        lambda s: sk.collate([s, sk.cycle(s)[1:]]) if len(s) else sk.collate([s, s]),
        lambda x: list(zip(x, x[1:] + x[:1], strict=True)),
        writes="elsewhere",
    ),
    Case("view head", lambda s: sk.view(s).head(3), lambda x: x[:3], writes=True),
    Case("view skip", lambda s: sk.view(s).skip(2), lambda x: x[2:], writes=True),
    Case("view [mask]", lambda s: sk.view(s)[every_other(len(s))], lambda x: x[1::2], writes=True),
]

MAPS = [
    Case("smap", lambda s: sk.smap(double, s), lambda x: [i * 2 for i in x]),
    Case("smap of a map", lambda s: sk.smap(plus_one, sk.smap(double, s)), lambda x: [i * 2 + 1 for i in x]),
    Case(
        "smap three deep",
        lambda s: sk.smap(str, sk.smap(plus_one, sk.smap(double, s))),
        lambda x: [str(i * 2 + 1) for i in x],
    ),
    Case(
        "smap of two",
        lambda s: sk.smap(operator.sub, s, sk.view(s)[::-1]),
        lambda x: [a - b for a, b in zip(x, x[::-1], strict=True)],
    ),
    Case(
        "smap zip=shortest",
        lambda s: sk.smap(operator.add, s, sk.view(s)[1:], zip="shortest"),
        lambda x: [a + b for a, b in pairwise(x)],
    ),
    Case(
        "smap of a map, and of two maps of two",
        lambda s: sk.smap(
            triple,
            sk.smap(double, s),
            sk.smap(plus_one, sk.smap(operator.sub, s, sk.view(s)[::-1])),
            sk.smap(operator.add, s, s),
        ),
        lambda x: [(a * 2, a - b + 1, a + a) for a, b in zip(x, x[::-1], strict=True)],
    ),
    Case("smap of a slice", lambda s: sk.smap(double, sk.view(s)[::-2]), lambda x: [i * 2 for i in x[::-2]]),
    Case(
        "smap over a shuffle and itself",
        lambda s: sk.smap(max, sk.shuffle(s, seed=1), s),
        lambda x: [max(a, b) for a, b in zip(shuffled(x, 1), x, strict=True)],
    ),
    Case("starmap", lambda s: sk.starmap(pow, s), lambda x: [a**b for a, b in x], pairs),
    Case("starmap of mappings", lambda s: sk.starmap(dict, s), lambda x: [dict(d) for d in x], named),
    Case(
        "starmap of a collation",
        lambda s: sk.starmap(operator.mul, sk.collate([s, sk.smap(plus_one, s)])),
        lambda x: [i * (i + 1) for i in x],
    ),
]

SELECTIONS = [
    Case("gather of nothing", lambda s: sk.gather(s, []), lambda x: [], writes=True),
    Case(
        "gather repeats",
        lambda s: sk.gather(s, back_and_forth(len(s))),
        lambda x: x[::-1] + x,
        writes=True,
    ),
    Case(
        "gather array",
        lambda s: sk.gather(s, np.arange(len(s), dtype=np.uint32)[::-1]),
        lambda x: x[::-1],
        writes=True,
    ),
    Case("gather mask", lambda s: sk.gather(s, np.arange(len(s)) % 2 == 0), lambda x: x[::2], writes=True),
    Case("gather range", lambda s: sk.gather(s, range(len(s) - 1, -1, -2)), lambda x: x[::-2], writes=True),
    Case("gather negative range", lambda s: sk.gather(s, range(-len(s), 0)), list, writes=True),
    Case(
        "gather range about 0",
        lambda s: sk.gather(s, range(-min(2, len(s)), min(2, len(s)))),
        lambda x: x[-2:] + x[:2],
        writes=True,
    ),
    Case(
        "gather generator",
        lambda s: sk.gather(s, (-i - 1 for i in range(len(s)))),
        lambda x: x[::-1],
        writes=True,
    ),
    Case(
        "gather of a gather",
        lambda s: sk.gather(sk.gather(s, back_and_forth(len(s))), range(0, 2 * len(s), 3)),
        lambda x: (x[::-1] + x)[::3],
        writes=True,
    ),
    Case(
        "gather of a map",
        lambda s: sk.gather(sk.smap(double, s), back_and_forth(len(s))),
        lambda x: [i * 2 for i in x[::-1] + x],
    ),
    Case(
        "gather check",
        lambda s: sk.gather(s, back_and_forth(len(s)), check=True),
        lambda x: x[::-1] + x,
        writes=True,
    ),
    Case(
        "gather of a view",
        lambda s: sk.gather(s, sk.view(range(-len(s), 0))[::-1]),
        lambda x: x[::-1],
        writes=True,
    ),
    Case(
        "gather of a random view",
        lambda s: sk.view(s)[sk.shuffle(np.arange(len(s)), seed=4)],
        lambda x: shuffled(x, 4),
        writes=True,
    ),
    Case(
        "gather of a sampler",
        lambda s: sk.gather(s, RandomSampler(len(s), seed=2)),
        lambda x: shuffled(x, 2),
        writes=True,
    ),
    Case(
        "gather of a view, over prefetch",
        lambda s: sk.gather(sk.prefetch(s, 2, "thread"), sk.view(range(len(s)))[::-1]),
        lambda x: x[::-1],
    ),
    Case("take", lambda s: sk.take(s, back_and_forth(len(s))), lambda x: x[::-1] + x, writes=True),
]

SHAPES = [
    Case("concatenate", lambda s: sk.concatenate([s, s]), lambda x: x + x, writes=True),
    Case("concatenate one", lambda s: sk.concatenate([s]), list, writes=True),
    Case("concatenate nothing", lambda s: sk.concatenate([]), lambda x: [], sizes=(0,)),
    Case(
        "concatenate with empty parts",
        lambda s: sk.concatenate([[], s, (), [], sk.view(s).head(1), []]),
        lambda x: x + x[:1],
        writes=True,
    ),
    Case(
        "concatenate nested",
        lambda s: sk.concatenate([sk.concatenate([s, sk.view(s)[::-1]]), s]),
        lambda x: x + x[::-1] + x,
        writes=True,
    ),
    Case(
        "concatenate of kinds",
        lambda s: sk.concatenate([sk.smap(double, s), range(3), np.arange(2), sk.shuffle(s, seed=5)]),
        lambda x: [i * 2 for i in x] + [0, 1, 2, 0, 1] + shuffled(x, 5),
        writes=None,
    ),
    Case(
        "collate",
        lambda s: sk.collate([s, sk.view(s)[::-1]]),
        lambda x: list(zip(x, x[::-1], strict=True)),
        writes=True,
    ),
    Case("collate twice the same", lambda s: sk.collate([s, s]), lambda x: [(i, i) for i in x], writes=True),
    Case("collate one", lambda s: sk.collate([s]), lambda x: [(i,) for i in x], writes=True),
    Case(
        "collate names",
        lambda s: sk.collate({"x": s, "y": s}),
        lambda x: [{"x": i, "y": i} for i in x],
        writes=True,
    ),
    Case(
        "collate by keywords",
        lambda s: sk.collate(x=s, y=s).select("y", "x"),
        lambda x: [{"y": i, "x": i} for i in x],
        writes=True,
    ),
    Case(
        "collate with a map",
        lambda s: sk.collate({"x": s, "y": sk.smap(str, s)}),
        lambda x: [{"x": i, "y": str(i)} for i in x],
    ),
]

BATCHES = [
    Case("batch 1", lambda s: sk.batch(s, 1), lambda x: chunks(x, 1), writes=True),
    Case("batch 3", lambda s: sk.batch(s, 3), lambda x: chunks(x, 3), writes=True),
    Case("batch larger than all", lambda s: sk.batch(s, 100), lambda x: chunks(x, 100), writes=True),
    Case(
        "batch drop_last",
        lambda s: sk.batch(s, 2, drop_last=True),
        lambda x: chunks(x, 2, "discard"),
        writes=True,
    ),
    Case("batch pad", lambda s: sk.batch(s, 4, pad=-1), lambda x: chunks(x, 4, "pad", -1), writes=True),
    Case(
        "batch pad with None",
        lambda s: sk.batch(s, 2, last="pad"),
        lambda x: chunks(x, 2, "pad"),
        writes=True,
    ),
    Case("batch sum", lambda s: sk.batch(s, 3, collate_fn=sum), lambda x: [sum(row) for row in chunks(x, 3)]),
    Case(
        "batch asarray", lambda s: sk.batch(s, 3, collate_fn=np.asarray), lambda x: arrays(x, 3), writes=True
    ),
    Case("batch stack", lambda s: sk.batch(s, 2, collate_fn=np.stack), lambda x: arrays(x, 2), writes=True),
    Case(
        "batch of a batch",
        lambda s: sk.batch(sk.batch(s, 2), 2),
        lambda x: chunks(chunks(x, 2), 2),
        writes=True,
    ),
    Case(
        "batch of a gather, stacked",
        lambda s: sk.batch(sk.gather(s, back_and_forth(len(s))), 4, collate_fn=np.asarray),
        lambda x: arrays(x[::-1] + x, 4),
        writes=True,
    ),
    Case(
        "batch of a shuffle of a map",
        lambda s: sk.batch(sk.shuffle(sk.smap(double, s), seed=7), 3, drop_last=True),
        lambda x: chunks(shuffled([i * 2 for i in x], 7), 3, "discard"),
    ),
    Case(
        "batch of a concatenation",
        lambda s: sk.batch(sk.concatenate([s, sk.smap(double, s)]), 3),
        lambda x: chunks(x + [i * 2 for i in x], 3),
        writes=None,
    ),
    Case(
        "batch of a collation",
        lambda s: sk.batch(sk.collate([s, s]), 2),
        lambda x: chunks([(i, i) for i in x], 2),
        writes=True,
    ),
    Case(
        "batch of a random map",
        lambda s: sk.batch(sk.random_map(jitter, s, seed=3), 2),
        lambda x: chunks(jittered(x, 3), 2),
    ),
    Case("unbatch", lambda s: sk.unbatch(s, 3), flat, in_threes, length_reads=True),
    Case("unbatch of a batch", lambda s: sk.unbatch(sk.batch(s, 2), 2), list, length_reads=True),
    Case(
        "unbatch full",
        lambda s: sk.unbatch(sk.batch(s, 2, drop_last=True), 2, last_batch_size=0),
        lambda x: x[: len(x) // 2 * 2],
    ),
    Case("unbatch told its end", lambda s: sk.unbatch(sk.batch(s, 3), 3, (len(s) - 1) % 3 + 1), list),
    Case(
        "unbatch of mapped batches",
        lambda s: sk.unbatch(sk.smap(double, sk.batch(s, 2, collate_fn=np.asarray)), 2),
        lambda x: [i * 2 for i in x],
        length_reads=True,
    ),
    Case(
        "unbatch of a shuffle of batches",
        lambda s: sk.unbatch(sk.shuffle(sk.batch(s, 2, drop_last=True), seed=0), 2),
        lambda x: flat(shuffled(chunks(x, 2, "discard"), 0)),
        length_reads=True,
    ),
]

RANDOM = [
    Case("shuffle", lambda s: sk.shuffle(s, seed=0), lambda x: shuffled(x, 0), writes=True),
    Case("shuffle epoch 3", lambda s: sk.shuffle(s, 4, epoch=3), lambda x: shuffled(x, 4, 3), writes=True),
    Case("shuffle_buffer", lambda s: sk.shuffle_buffer(s, 3, 0), lambda x: buffered(x, 3, 0), writes=True),
    Case(
        "shuffle_buffer above a shuffle",
        lambda s: sk.shuffle_buffer(sk.shuffle(s, seed=1), 4, seed=2),
        lambda x: buffered(shuffled(x, 1), 4, 2, salt=1),
        writes=True,
    ),
    Case(
        "shuffle named",
        lambda s: sk.shuffle(s, seed=0, name="data"),
        lambda x: shuffled(x, 0, salt="data"),
        writes=True,
    ),
    Case(
        "shuffle of a shuffle",
        lambda s: sk.shuffle(sk.shuffle(s, seed=0), seed=0),
        lambda x: shuffled(shuffled(x, 0), 0, salt=1),
        writes=True,
    ),
    Case(
        "shuffle of batches",
        lambda s: sk.shuffle(sk.batch(s, 2, drop_last=True), seed=2),
        lambda x: shuffled(chunks(x, 2, "discard"), 2),
        writes=True,
    ),
    Case("shuffle slice", lambda s: sk.shuffle(s, seed=9)[::-2], lambda x: shuffled(x, 9)[::-2], writes=True),
    Case(
        "shuffle_groups",
        lambda s: sk.shuffle_groups(s, 2, seed=5),
        lambda x: group_shuffled(x, 2, 5),
        writes=True,
    ),
    Case(
        "shuffle_groups, two at once",
        lambda s: sk.shuffle_groups(s, 2, seed=5, groups_at_once=2),
        lambda x: group_shuffled(x, 2, 5, 2),
        writes=True,
    ),
    Case("random_map", lambda s: sk.random_map(jitter, s, seed=0), lambda x: jittered(x, 0)),
    Case(
        "random_map named",
        lambda s: sk.random_map(jitter, s, seed=0, name="noise"),
        lambda x: jittered(x, 0, "noise"),
    ),
    Case(
        "random_map of a shuffle",
        lambda s: sk.random_map(jitter, sk.shuffle(s, seed=0), seed=0),
        lambda x: jittered(shuffled(x, 0), 0, 1),
    ),
    Case(
        "random_map of a random map, sliced",
        lambda s: sk.random_map(jitter, sk.random_map(jitter, s, seed=0), seed=0)[1:],
        lambda x: jittered(jittered(x, 0), 0, 1)[1:],
    ),
]

CHAINED = [
    Case(
        "smap by method",
        lambda s: sk.view(s).smap(double).shuffle(seed=0).batch(2),
        lambda x: chunks(shuffled([i * 2 for i in x], 0), 2),
    ),
    Case(
        "gather by method",
        lambda s: sk.view(s).gather(back_and_forth(len(s))).batch(2).unbatch(2),
        lambda x: x[::-1] + x,
        length_reads=True,
    ),
]


def ahead(name: str, build: Build, model: Model, **options: Any) -> Case:
    """A view that works ahead of its reader: it is asked fewer questions, and no reads are counted."""
    return Case(name, build, model, reads="ahead", **{"sizes": (0, 1, 4), **options})


async def double_later(x: Any) -> Any:
    await asyncio.sleep(0)
    return double(x)


class AtOnce(ThreadPoolExecutor):
    """Runs its tasks when it gets them: no thread is left over."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future

    def __repr__(self) -> str:
        return repr("thread")  # as a copy of the node has it, which leaves the executor behind


def two_stages(s: Any, below: str, above: str) -> Any:
    def stage(view: Any, kind: str) -> Any:
        if kind == "thread":
            return sk.prefetch(view, 2)
        return sk.prefetch(view, 1, "process", context=kind)  # type: ignore[arg-type]

    return stage(sk.smap(double, stage(s, below)), above)


PREFETCH = [
    ahead("prefetch inline", lambda s: sk.prefetch(sk.smap(double, s), 0), lambda x: [i * 2 for i in x]),
    ahead("prefetch thread", lambda s: sk.prefetch(sk.smap(double, s), 2), lambda x: [i * 2 for i in x]),
    *(
        ahead(
            f"prefetch process, {context}",
            lambda s, context=context: sk.prefetch(sk.smap(double, s), 1, "process", context=context),
            lambda x: [i * 2 for i in x],
            sizes=sizes,
        )
        for context, sizes in [("fork", (0, 3)), ("forkserver", (2,)), ("spawn", (2,))]
    ),
    ahead(
        "prefetch of coroutines",
        lambda s: sk.prefetch(sk.smap(double_later, s), 2, "async"),
        lambda x: [i * 2 for i in x],
    ),
    ahead(
        "prefetch by an executor",
        lambda s: sk.prefetch(sk.smap(double, s), 2, AtOnce()),
        lambda x: [i * 2 for i in x],
    ),
    ahead(
        "prefetch in chunks",
        lambda s: sk.prefetch(sk.smap(double, s), 2, max_buffered=5, chunk_size=3),
        lambda x: [i * 2 for i in x],
        sizes=(8,),
    ),
    ahead("prefetch sliced", lambda s: sk.prefetch(s, 2)[::-2], lambda x: x[::-2]),
    ahead("prefetch below a map", lambda s: sk.smap(double, sk.prefetch(s, 2)), lambda x: [i * 2 for i in x]),
    ahead(
        "prefetch of a random map",
        lambda s: sk.prefetch(sk.random_map(jitter, s, seed=0), 2),
        lambda x: jittered(x, 0),
    ),
    ahead(
        "prefetch below a random map",
        lambda s: sk.random_map(jitter, sk.prefetch(s, 2), seed=0),
        lambda x: jittered(x, 0),
    ),
    ahead("prefetch below a batch", lambda s: sk.batch(sk.prefetch(s, 2), 3), lambda x: chunks(x, 3)),
    ahead(
        "prefetch below a batch of a shuffle",
        lambda s: sk.batch(sk.shuffle(sk.prefetch(s, 0), seed=1), 2, drop_last=True),
        lambda x: chunks(shuffled(x, 1), 2, "discard"),
    ),
    ahead(
        "prefetch below an unbatch",
        lambda s: sk.unbatch(sk.prefetch(sk.batch(s, 2), 0), 2, (len(s) - 1) % 2 + 1),
        list,
    ),
    ahead(
        "prefetch within a concatenation",
        lambda s: sk.concatenate([sk.prefetch(s, 0), s, sk.prefetch(sk.smap(double, s), 0)]),
        lambda x: x + x + [i * 2 for i in x],
        writes=None,
    ),
    ahead(
        "prefetch within a collation",
        lambda s: sk.collate([sk.prefetch(s, 0), s, sk.prefetch(sk.smap(double, s), 0)]),
        lambda x: [(i, i, i * 2) for i in x],
    ),
    ahead(
        "prefetch of a prefetch",
        lambda s: sk.prefetch(sk.batch(sk.prefetch(s, 2), 2), 2),
        lambda x: chunks(x, 2),
    ),
    *(
        ahead(
            f"prefetch {above} of a prefetch {below}",
            partial(two_stages, below=below, above=above),
            lambda x: [i * 2 for i in x],
            sizes=sizes,
        )
        for below, above, sizes in [
            ("thread", "fork", (2,)),
            ("fork", "thread", (3,)),
            ("fork", "fork", (3,)),
            ("thread", "spawn", (2,)),
            ("spawn", "thread", (2,)),
        ]
    ),
    ahead(
        "prefetch of a prefetch of a prefetch",
        lambda s: sk.prefetch(sk.smap(double, sk.prefetch(sk.shuffle(sk.prefetch(s, 2), seed=1), 2)), 2),
        lambda x: [i * 2 for i in shuffled(x, 1)],
    ),
]

# -------------------------------------------------------------------- sequences in turn, and made of little


def in_turn(*lists: list[Any]) -> list[Any]:
    longest = max(map(len, lists), default=0)
    return [items[r] for r in range(longest) for items in lists if r < len(items)]


def thirds(n: int) -> list[int]:
    return [i * 2 % 3 for i in range(n)]


def selected(which: list[Any], *lists: list[Any]) -> list[Any]:
    return [lists[k][i] for i, k in enumerate(which)]


TURNS = [
    Case("arange", lambda s: sk.arange(len(s)), lambda x: list(range(len(x)))),
    Case("arange down", lambda s: sk.arange(len(s), -9, -4), lambda x: list(range(len(x), -9, -4))),
    Case("arange in steps", lambda s: sk.arange(3, 3 + len(s), 7), lambda x: list(range(3, 3 + len(x), 7))),
    Case("cycle", lambda s: sk.cycle(s, 2 * len(s)), lambda x: x + x, writes=True),
    Case(
        "cycle cut short",
        lambda s: sk.cycle(s, 3 * len(s) // 2),
        lambda x: (x + x)[: 3 * len(x) // 2],
        writes=True,
    ),
    Case(
        "cycle shorter than a pass",
        lambda s: sk.cycle(s, len(s) // 2),
        lambda x: x[: len(x) // 2],
        writes=True,
    ),
    Case("cycle of nothing", lambda s: sk.cycle(s, 0), lambda x: [], writes=True),
    Case(
        "cycle slice of an endless one",
        lambda s: sk.cycle(sk.concatenate([[3], s]))[2:9],
        lambda x: ([3, *x] * 9)[2:9],
        writes=None,
    ),
    Case(
        "cycle of long passes",
        lambda s: sk.cycle(sk.smap(double, sk.concatenate([s, range(64)])), 120),
        lambda x: [i * 2 for i in ([*x, *range(64)] * 3)[:120]],
        sizes=(0, 3),
    ),
    Case(
        "cycle of a shuffle of a map",
        lambda s: sk.cycle(sk.shuffle(sk.smap(double, s), seed=1), 2 * len(s)),
        lambda x: shuffled([i * 2 for i in x], 1) * 2,
    ),
    Case("repeat", lambda s: sk.repeat("x", len(s)), lambda x: ["x"] * len(x), writes=True),
    Case(
        "repeat slice of an endless one",
        lambda s: sk.repeat(1)[: len(s) : 2],
        lambda x: [1] * len(x[::2]),
        writes=True,
    ),
    Case(
        "repeat beside others",
        lambda s: sk.collate([s, sk.repeat("x")]),
        lambda x: [(i, "x") for i in x],
        writes=True,
    ),
    Case(
        "interleave", lambda s: sk.interleave(s, sk.view(s)[::-1]), lambda x: in_turn(x, x[::-1]), writes=True
    ),
    Case("interleave one", lambda s: sk.interleave(s), list, writes=True),
    Case("interleave nothing", lambda s: sk.interleave(), lambda x: [], sizes=(0,), writes=True),
    Case(
        "interleave of unequal lengths",
        lambda s: sk.interleave(sk.view(s)[::3], [], s, sk.view(s)[1:], sk.view(s)[::2]),
        lambda x: in_turn(x[::3], x, x[1:], x[::2]),
        writes=True,
    ),
    Case(
        "interleave slice with an endless one",
        lambda s: sk.interleave(s, sk.arange(2), sk.cycle([1, 2]))[:20:3],
        lambda x: in_turn(x, [0, 1], [1, 2] * 20)[:20:3],
        writes=None,
    ),
    Case(
        "interleave of maps, shuffles and batches",
        lambda s: sk.interleave(
            sk.smap(double, s), sk.shuffle(sk.smap(str, s), seed=3), sk.smap(str, sk.batch(range(5), 2))
        ),
        lambda x: in_turn([i * 2 for i in x], shuffled(list(map(str, x)), 3), ["[0, 1]", "[2, 3]", "[4]"]),
    ),
    Case(
        "switch",
        lambda s: sk.switch(every_other(len(s)), s, sk.view(s)[::-1]),
        lambda x: selected(every_other(len(x)), x[::-1], x),
        writes=True,
    ),
    Case(
        "switch by its own items",
        lambda s: sk.switch(sk.smap(is_even, s), s, sk.smap(str, s)),
        lambda x: [i if i % 2 == 0 else str(i) for i in x],
        reads="any",
        writes="elsewhere",
    ),
    Case(
        "switch between endless ones",
        lambda s: sk.switch(sk.smap(is_even, s), sk.repeat("even"), sk.cycle([1, 3])),
        lambda x: ["even" if item % 2 == 0 else 1 + i % 2 * 2 for i, item in enumerate(x)],
        writes="elsewhere",
    ),
    Case(
        "case",
        lambda s: sk.case(thirds(len(s)), s, sk.view(s)[::-1], s),
        lambda x: selected(thirds(len(x)), x, x[::-1], x),
        writes=True,
    ),
    Case(
        "case of an endless selector",
        lambda s: sk.case(sk.cycle([-1, 0]), sk.smap(double, s), sk.shuffle(sk.smap(str, s), seed=0)),
        lambda x: selected(
            [i % 2 for i in range(len(x))], shuffled(list(map(str, x)), 0), [i * 2 for i in x]
        ),
    ),
    Case("uniter", lambda s: sk.uniter(range(len(s))), lambda x: list(range(len(x)))),
    Case(
        "uniter of a function",
        lambda s: sk.uniter(Counted(len(s)), cache_size=2, n_parallel=3, size=len(s)),
        lambda x: list(range(len(x))),
    ),
    Case(
        "uniter beneath a batch of a shuffle",
        lambda s: sk.batch(sk.shuffle(sk.uniter(range(len(s))), seed=0), 3),
        lambda x: chunks(shuffled(list(range(len(x))), 0), 3),
    ),
    ahead(
        "cycle of a prefetch",
        lambda s: sk.cycle(sk.prefetch(s, 0), 2 * len(s)),
        lambda x: x + x,
    ),
    ahead(
        "interleave of prefetches",
        lambda s: sk.interleave(sk.prefetch(s, 2), range(2), sk.prefetch(sk.smap(double, s), 0)),
        lambda x: in_turn(x, [0, 1], [i * 2 for i in x]),
    ),
    ahead(
        "switch between prefetches",
        lambda s: sk.switch(sk.smap(is_even, s), sk.prefetch(s, 2), sk.prefetch(sk.smap(double, s), 0)),
        lambda x: [i if i % 2 == 0 else i * 2 for i in x],
    ),
    ahead("cycle beneath a prefetch", lambda s: sk.prefetch(sk.cycle(s, 3 * len(s)), 2), lambda x: x * 3),
]

# -------------------------------------------------------------------- what is kept

NUMBERS = count()


@cache
def files() -> str:
    """Return a directory of this process; workers that import this module need none."""
    directory = tempfile.TemporaryDirectory(prefix="seqkit-registry-")
    atexit.register(directory.cleanup)
    return directory.name


def new_path() -> str:
    return f"{files()}/{next(NUMBERS)}"


def saved(items: list[Any]) -> str:
    path = new_path()
    pack(items).save(path)
    return path


def ignore(index: int, item: Any) -> None:
    pass


# `pack` and `materialize` read everything when they are built: their source is the length alone.
KEPT = [
    Case("add_cache", add_cache, list, writes=True),
    Case("add_cache off", lambda s: add_cache(s, 0), list, writes=True),
    Case("add_cache of a map", lambda s: add_cache(sk.smap(double, s), 100), lambda x: [i * 2 for i in x]),
    Case(
        "add_cache of a slice, fifo",
        lambda s: add_cache(sk.view(s)[::-1], 2, policy="fifo"),
        lambda x: x[::-1],
        writes=True,
    ),
    Case(
        "add_cache of repeats",
        lambda s: add_cache(sk.gather(s, back_and_forth(len(s))), 100),
        lambda x: x[::-1] + x,
        writes=True,
    ),
    Case("add_cache of some bytes", lambda s: add_cache(s, max_bytes=100), list, writes=True),
    Case("add_cache in a dict", lambda s: add_cache(s, cache={}), list, writes=True),
    Case(
        "add_cache of a shuffle",
        lambda s: add_cache(sk.shuffle(s, seed=0), 3),
        lambda x: shuffled(x, 0),
        writes=True,
    ),
    Case(
        "add_cache beneath a batch of a shuffle",
        lambda s: sk.batch(sk.shuffle(add_cache(sk.smap(double, s), 4), seed=0), 3),
        lambda x: chunks(shuffled([i * 2 for i in x], 0), 3),
    ),
    Case(
        "add_cache on disk",
        lambda s: add_cache(sk.smap(str, s), store=new_path()),
        lambda x: [str(i) for i in x],
        sizes=(0, 3),
    ),
    ahead("add_cache of a prefetch", lambda s: add_cache(sk.prefetch(s, 2), 2), list),
    ahead("add_cache beneath a prefetch", lambda s: sk.prefetch(add_cache(s, 2), 2), list),
    Case("pack", lambda s: pack(range(len(s))), lambda x: list(range(len(x)))),
    Case(
        "pack of text",
        lambda s: pack(["é" * i for i in range(len(s))]),
        lambda x: ["é" * i for i in range(len(x))],
    ),
    Case("pack of anything", lambda s: pack(pairs([*range(len(s))])), lambda x: pairs([*range(len(x))])),
    Case(
        "pack of arrays",
        lambda s: pack([np.full(3, i) for i in range(len(s))]),
        lambda x: [np.full(3, i) for i in range(len(x))],
    ),
    Case(
        "pack of arrays that differ",
        lambda s: pack([np.arange(i) for i in range(len(s))]),
        lambda x: [np.arange(i) for i in range(len(x))],
    ),
    Case("load_packed", lambda s: load_packed(saved([*range(len(s))])), lambda x: list(range(len(x)))),
    Case(
        "per_process",
        lambda s: sk.per_process(partial(list, range(len(s)))),
        lambda x: list(range(len(x))),
    ),
    Case("per_process of items", lambda s: sk.per_process(list, second, s), list),
    Case(
        "read",
        lambda s: sk.read("-", len(s), open_fn=first_numbers),
        lambda x: list(range(len(x))),
    ),
    Case(
        "read of two files",
        lambda s: sk.read(Path(__file__).parent / "views" / "test_co*.py", len(s), open_fn=half_of),
        lambda x: list(range(len(x))),
    ),
    Case(
        "materialize",
        lambda s: materialize(sk.smap(double, range(len(s)))),
        lambda x: [i * 2 for i in range(len(x))],
        writes="elsewhere",
    ),
    Case("debug", lambda s: debug(s, ignore), list, writes=True),
    Case(
        "debug of a batch",
        lambda s: debug(sk.batch(s, 2), ignore, max_calls=3),
        lambda x: chunks(x, 2),
        writes=True,
    ),
    Case("monitor_throughput", monitor_throughput, list, writes=True),
    Case(
        "monitor_throughput beneath a batch",
        lambda s: sk.batch(monitor_throughput(sk.smap(double, s)), 2),
        lambda x: chunks([i * 2 for i in x], 2),
    ),
    ahead(
        "monitor_throughput of a prefetch",
        lambda s: monitor_throughput(debug(sk.prefetch(s, 2), ignore)),
        list,
    ),
]


# -------------------------------------------------------------------- parts, passes and mixtures


def is_odd(x: Any) -> Any:
    return x % 2 == 1


def is_anything(x: Any) -> bool:
    return True


def ragged(values: list[int]) -> list[list[int]]:
    return [[x] * (i % 3) for i, x in enumerate(values)]


def windows(items: list[Any], size: int, stride: int, last: str = "discard") -> list[list[Any]]:
    rows = [items[i : i + size] for i in range(0, len(items), stride)]
    full = [row for row in rows if len(row) == size]
    covered = bool(full) and (len(full) - 1) * stride + size >= len(items)
    rest = [] if covered or last == "discard" or len(full) == len(rows) else [rows[len(full)]]
    return full + [row + [None] * (size - len(row) if last == "pad" else 0) for row in rest]


turns_of = cache(Schedule)  # making their table takes milliseconds


def mixed(
    lists: list[list[Any]], shares: tuple[int, ...], n: int, seed: int, salt: int | str = 0
) -> list[Any]:
    turns = turns_of(shares, node_key("mix", seed, 0, salt))
    places = [turns.at(i) for i in range(n)]
    return [lists[which][j % len(lists[which])] for which, j in places]


MIX_KEY = node_key("mix", 2, 0, 0)


def by_size(sizes: list[list[int]]) -> BySize:
    return BySize(Shares((0,), ((1,) * len(sizes),)), [np.array(each) for each in sizes], MIX_KEY, True)


def scheduled(turns: Any, lists: list[list[Any]], n: int | None = None) -> list[Any]:
    total = sum(map(len, lists)) if n is None else n
    return [lists[which][j] for which, j in map(turns.at, range(total))]


def dealt(items: list[Any], sizes: list[int], seed: int) -> list[list[Any]]:
    order = Permutation(len(items), node_key(f"random_split of {len(items)}", seed, 0, 0))
    row = [items[order.one(i)] for i in range(len(items))]
    return [row[: sizes[0]], row[sizes[0] :]]


PASSES = [
    Case("split", lambda s: sk.smap(list, sk.split(s, [1, 3])), lambda x: [x[:1], x[1:3], x[3:]]),
    Case(
        "split equally",
        lambda s: sk.smap(list, sk.split(s, max(len(s) - 1, 0))),
        lambda x: [[i] for i in x] or [[]],
    ),
    Case(
        "split into ranges",
        lambda s: sk.smap(list, sk.split(s, [(1, 4), (0, -1), (9, 12), (2, 2)])),
        lambda x: [x[1:4], x[0:-1], x[9:12], []],
    ),
    Case("window", lambda s: sk.window(s, 3), lambda x: windows(x, 3, 1)),
    Case("window 1", lambda s: sk.window(s, 1), lambda x: windows(x, 1, 1)),
    Case("window stride", lambda s: sk.window(s, 3, 2, last="keep"), lambda x: windows(x, 3, 2, "keep")),
    Case("window pad", lambda s: sk.window(s, 4, 3, last="pad"), lambda x: windows(x, 4, 3, "pad")),
    Case("window apart", lambda s: sk.window(s, 2, 3, last="keep"), lambda x: windows(x, 2, 3, "keep")),
    Case("window batch", lambda s: sk.window(s, 3, 3, last="keep"), lambda x: chunks(x, 3)),
    Case(
        "window as arrays",
        lambda s: sk.window(s, 3, 2, last="keep", collate_fn=np.asarray),
        lambda x: [np.asarray(row) for row in windows(x, 3, 2, "keep")],
    ),
    Case("window summed", lambda s: sk.window(s, 3, collate_fn=sum), lambda x: [*map(sum, windows(x, 3, 1))]),
    Case("window slice", lambda s: sk.window(s, 3)[::-2], lambda x: windows(x, 3, 1)[::-2]),
    Case(
        "window of a shuffle of a map",
        lambda s: sk.window(sk.shuffle(sk.smap(double, s), seed=3), 2),
        lambda x: windows(shuffled([i * 2 for i in x], 3), 2, 1),
    ),
    Case(
        "window of windows",
        lambda s: sk.window(sk.window(s, 2), 2),
        lambda x: windows(windows(x, 2, 1), 2, 1),
    ),
    Case(
        "window batched",
        lambda s: sk.batch(sk.window(s, 3, pad=0, collate_fn=list), 2),
        lambda x: chunks([[i or 0 for i in row] for row in windows(x, 3, 1, "pad")], 2),
    ),
    Case("shard", lambda s: sk.shard(s, 1, 3), lambda x: x[len(x[::3]) :][: len(x[1::3])], writes=True),
    Case("shard strided", lambda s: sk.shard(s, 1, 3, False), lambda x: x[1::3], writes=True),
    Case(
        "shard padded",
        lambda s: sk.shard(s, 2, 3, even="pad"),
        lambda x: (x * 3)[2 * -(-len(x) // 3) : 3 * -(-len(x) // 3)],
        writes=True,
    ),
    Case(
        "shard strided and padded",
        lambda s: sk.shard(s, 3, 4, False, even="pad"),
        lambda x: (x * 4)[: 4 * -(-len(x) // 4)][3::4],
        writes=True,
    ),
    Case("shard dropped", lambda s: sk.shard(s, 0, 2, even="drop"), lambda x: x[: len(x) // 2], writes=True),
    Case(
        "shard of a shuffle of a map",
        lambda s: sk.shard(sk.shuffle(sk.smap(double, s), seed=2), 0, 2, False),
        lambda x: shuffled([i * 2 for i in x], 2)[::2],
    ),
    Case(
        "random_split",
        lambda s: sk.random_split(s, [len(s) // 3, len(s) - len(s) // 3], seed=4)[1],
        lambda x: dealt(x, [len(x) // 3], 4)[1],
        writes=True,
    ),
    Case(
        "kfold",
        lambda s: sk.kfold(s, 2)[1][0] if len(s) > 1 else sk.view(s),
        lambda x: x[: -(-len(x) // 2)],
        writes=True,
    ),
    Case(
        "time_split",
        lambda s: sk.time_split(s, range(len(s), 0, -1), 1)[0][1] if len(s) > 1 else sk.view(s),
        lambda x: x[::-1][len(x) // 2 :] if len(x) > 1 else x,
        writes=True,
    ),
    Case(
        "fallback",
        lambda s: sk.fallback(minus_one, sk.smap(only_even, s)),
        lambda x: [-1 if i % 2 else i for i in x],
    ),
    Case(
        "fallback skip",
        lambda s: sk.concatenate([s, sk.fallback("skip", [])]),
        list,
        writes=True,
        length_reads=True,
    ),
    Case(
        "fallback above prefetch",
        lambda s: sk.fallback(minus_one, sk.prefetch(sk.smap(only_even, s), 2, "thread")),
        lambda x: [-1 if i % 2 else i for i in x],
        reads="ahead",
    ),
    Case("retry", lambda s: sk.retry(s, 2), list),
    Case(
        "retry of items that fail once",
        lambda s: sk.retry(sk.smap(FailsOnce(), s), 2, ArithmeticError, wait=0),
        list,
        reads="any",
    ),
    Case(
        "retry of random numbers",
        lambda s: sk.retry(sk.random_map(jitter, s, seed=3), 3),
        lambda x: jittered(x, 3),
    ),
    Case(
        "filter",
        lambda s: sk.filter(is_odd, s),
        lambda x: [i for i in x if i % 2],
        length_reads=True,
        writes=True,
    ),
    Case("filter nothing", lambda s: sk.filter(is_anything, s), list, length_reads=True, writes=True),
    Case("filter all", lambda s: sk.filter(callable, s), lambda x: [], length_reads=True, writes=True),
    Case(
        "batch of a map of a filter",
        lambda s: sk.batch(sk.smap(double, sk.filter(is_anything, s)), 2),
        lambda x: chunks([i * 2 for i in x], 2),
        length_reads=True,
    ),
    Case(
        "window of a filter",
        lambda s: sk.window(sk.filter(is_anything, s), 2, last="keep"),
        lambda x: windows(x, 2, 1, "keep"),
        length_reads=True,
    ),
    Case(
        "filter of a filter of a slice",
        lambda s: sk.filter(is_odd, sk.filter(is_anything, sk.view(s)[::-1])),
        lambda x: [i for i in x[::-1] if i % 2],
        length_reads=True,
        writes=True,
    ),
    Case("flatten", lambda s: sk.flatten(s), lambda x: flat(x), ragged, length_reads=True),
    Case(
        "flatten told the lengths",
        lambda s: sk.flatten(s, [i % 3 for i in range(len(s))]),
        lambda x: flat(x),
        ragged,
    ),
    Case(
        "flatten told by a view",
        lambda s: sk.flatten(sk.batch(s, 3), sk.smap(min, sk.repeat(3), range(len(s), 0, -3))),
        list,
    ),
    Case("flatten batches", lambda s: sk.flatten(sk.batch(s, 3)), list, length_reads=True),
    Case(
        "flatten views",
        lambda s: sk.flatten(sk.smap(sk.view, s)),
        lambda x: flat(x),
        ragged,
        length_reads=True,
    ),
    Case(
        "epochs",
        lambda s: sk.epochs(sk.shuffle(s, 3), 2),
        lambda x: shuffled(x, 3) + shuffled(x, 3, 1),
        writes=True,
    ),
    Case("epochs alike", lambda s: sk.epochs(s, 3), lambda x: x * 3, writes=True),
    Case("epochs none", lambda s: sk.epochs(sk.shuffle(s, 3), 0), lambda x: [], writes=True),
    Case(
        "epochs of a map of a shuffle, batched",
        lambda s: sk.batch(sk.epochs(sk.smap(double, sk.shuffle(s, seed=1)), 2), 3),
        lambda x: chunks([i * 2 for i in shuffled(x, 1) + shuffled(x, 1, 1)], 3),
    ),
    Case(
        "epochs slice of an endless one",
        lambda s: sk.epochs(sk.shuffle(sk.concatenate([s, [1, 2]]), 0))[1:9],
        lambda x: flat(shuffled([*x, 1, 2], 0, e) for e in range(9))[1:9],
        writes=None,
    ),
    Case(
        "mix",
        lambda s: sk.mix([s, sk.view(s)[::-1]], [2, 1], seed=0),
        lambda x: mixed([x, x[::-1]], (2, 1), len(x) * 3 // 2, 0),
        writes=True,
    ),
    Case("mix one", lambda s: sk.mix([s], seed=0), list, writes=True),
    Case(
        "mix with an endless one",
        lambda s: sk.mix([sk.smap(double, s), sk.repeat(7)], [0.3, 0.7], seed=5, name="m"),
        lambda x: mixed([[i * 2 for i in x], [7]], (3, 7), len(x) * 10 // 3, 5, "m"),
        writes=None,
    ),
    Case(
        "mix with passes",
        lambda s: sk.mix([s, sk.epochs(sk.view(s)[:1], max(len(s), 1))], seed=2),
        lambda x: mixed([x, x[:1]], (1, 1), len(x) * 2, 2),
        writes=True,
    ),
    Case(
        "mix all",
        lambda s: sk.mix([s, sk.view(s)[:1]], [3, 1], seed=2, stop="all"),
        lambda x: scheduled(in_stages(Shares((0,), ((3, 1),)), MIX_KEY, [len(x), len(x[:1])]), [x, x[:1]]),
        writes=True,
    ),
    Case(
        "mix in stages",
        lambda s: sk.mix([s, sk.smap(double, s)], {0: [1, 0], 2: [1, 2]}, seed=2),
        lambda x: scheduled(
            in_stages(Shares((0, 2), ((1, 0), (1, 2))), MIX_KEY),
            [x, [i * 2 for i in x]],
            len(x) if len(x) < 2 else min(2 + (len(x) - 2) * 3, 2 + len(x) * 3 // 2),
        ),
        writes=None,
    ),
    Case(
        "mix by names",
        lambda s: sk.mix({"a": sk.shuffle(s, seed=1), "b": s}, {"b": 1, "a": 1}, seed=2, name="m"),
        lambda x: mixed([shuffled(x, 1, salt="a/0"), x], (1, 1), len(x) * 2, 2, "m"),
        writes=True,
    ),
    Case(
        "mix by sizes",
        lambda s: sk.mix([s, s], seed=2, sizes=[some_lengths(len(s)), [4] * len(s)], stop="all"),
        lambda x: scheduled(by_size([some_lengths(len(x)), [4] * len(x)]), [x, x]),
        writes=True,
    ),
    Case(
        "mix slice of an endless one",
        lambda s: sk.mix([sk.epochs(sk.concatenate([s, [5]])), sk.epochs(range(2)), sk.repeat("x")], seed=1)[
            3:12
        ],
        lambda x: mixed([[*x, 5], [0, 1], ["x"]], (1, 1, 1), 12, 1)[3:],
        writes=None,
    ),
    ahead("window over a prefetch", lambda s: sk.window(sk.prefetch(s, 0), 3), lambda x: windows(x, 3, 1)),
    ahead(
        "window apart over a prefetch",
        lambda s: sk.window(sk.prefetch(s, 0), 1, 2),
        lambda x: windows(x, 1, 2),
        sizes=(0, 5),
    ),
    ahead(
        "filter over a prefetch",
        lambda s: sk.filter(is_odd, sk.prefetch(s, 2)),
        lambda x: [i for i in x if i % 2],
        length_reads=True,
    ),
    ahead(
        "flatten over a prefetch",
        lambda s: sk.flatten(sk.prefetch(s, 2)),
        lambda x: flat(x),
        items=ragged,
        length_reads=True,
    ),
    ahead(
        "epochs over a prefetch",
        lambda s: sk.epochs(sk.prefetch(sk.shuffle(s, seed=0), 2), 2),
        lambda x: shuffled(x, 0) + shuffled(x, 0, 1),
    ),
    ahead(
        "epochs beneath a prefetch",
        lambda s: sk.prefetch(sk.epochs(sk.shuffle(s, 0), 2), 2),
        lambda x: shuffled(x, 0) + shuffled(x, 0, 1),
    ),
    ahead(
        "gather_groups over a prefetch",
        lambda s: sk.gather_groups(sk.prefetch(s, 0), some_groups(len(s))),
        lambda x: [[x[i] for i in group] for group in some_groups(len(x))],
    ),
    ahead(
        "mix over prefetches",
        lambda s: sk.mix([sk.prefetch(s, 0), sk.prefetch(sk.smap(double, s), 0)], [1, 2], seed=0),
        lambda x: mixed([x, [i * 2 for i in x]], (1, 2), len(x) * 3 // 2, 0),
    ),
]

CASES = [
    *GROUPS,
    *VIEWS,
    *MAPS,
    *SELECTIONS,
    *SHAPES,
    *BATCHES,
    *RANDOM,
    *CHAINED,
    *PREFETCH,
    *TURNS,
    *KEPT,
    *PASSES,
]
