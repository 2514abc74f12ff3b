"""Arguments that do not fit are refused at once, by an error that names the function and the parameter."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit import observe, samplers, testing
from seqkit.testing import UnsizedSource

from .helpers import Naturals

sks: Any = sk  # the calls have wrong types
Table = dict[str, Callable[[Any], object]]

# What a parameter refuses: the calls with a value in its place, by the beginning of the error.
POSITIVE: Table = {
    "batch: k": lambda x: sks.batch("abcd", x),
    "window: size": lambda x: sks.window("abcd", x),
    "window: stride": lambda x: sks.window("abcd", 2, x),
    "unbatch: batch_size": lambda x: sks.unbatch([[1, 2]], x),
    "shard: world_size": lambda x: sks.shard("abc", 0, x),
    "uniter: n_parallel": lambda x: sks.uniter([], n_parallel=x),
    "bins: capacity": lambda x: sks.bins([1], x, long="split"),
    "PackSequences: capacity": sks.PackSequences,
    "ClipSequence: length": sks.ClipSequence,
    "PadSequence: length": sks.PadSequence,
}
AT_LEAST_0: Table = {
    "shard: rank": lambda x: sks.shard("abc", x, 3),
    "shuffle: epoch": lambda x: sks.shuffle("abc", 0, x),
    "at_epoch: epoch": lambda x: sks.view("abc").at_epoch(x),
    "uniter: cache_size": lambda x: sks.uniter([], cache_size=x),
}
AT_LEAST_0_OR_NONE: Table = {
    "cycle: limit": lambda x: sks.cycle("abc", x),
    "uniter: size": lambda x: sks.uniter([], size=x),
    "epochs: n": lambda x: sks.epochs("ab", x),
    "unbatch: last_batch_size": lambda x: sks.unbatch([[1, 2]], 2, x),
    "debug: max_calls": lambda x: observe.debug("abc", print, x),
    "shuffle: seed": lambda x: sks.shuffle("abc", x),
    "random_map: seed": lambda x: sks.random_map(lambda item, rng: 0, "abc", seed=x),
    "random_split: seed": lambda x: sks.random_split("abc", [3], seed=x),
    "mix: seed": lambda x: sks.mix(["a"], seed=x),
    "bins: seed": lambda x: sks.bins([1], 2, long="split", seed=x),
    "PackSequences: pad": lambda x: sks.PackSequences(2, pad=0 if x is None else x),
    "add_cache: cache_size": lambda x: sks.add_cache("abc", x),
}
BOOLS: Table = {
    "batch: drop_last": lambda x: sks.batch("abc", 2, x),
    "gather: check": lambda x: sks.gather("abc", [0], check=x),
    "shard: contiguous": lambda x: sks.shard("abc", 0, 2, x),
    "PadSequence: clip": lambda x: sks.PadSequence(3, clip=x),
}
FUNCTIONS: Table = {
    "smap: f": lambda x: sks.smap(x, [1]),
    "starmap: f": lambda x: sks.starmap(x, [(1,)]),
    "random_map: f": lambda x: sks.random_map(x, [1]),
    "filter: predicate": lambda x: sks.filter(x, [1]),
    "batch: collate_fn": lambda x: sks.batch("ab", 2, collate_fn=x),
    "window: collate_fn": lambda x: sks.window("ab", 2, collate_fn=x),
    "debug: func": lambda x: observe.debug("abc", x),
}
NAMES: Table = {
    "shuffle: name": lambda x: sks.shuffle("abc", name=x),
    "mix: name": lambda x: sks.mix(["a"], name=x),
    "random_map: name": lambda x: sks.random_map(lambda item, rng: 0, [1], name=x),
}
# One of some words.
WORDS: Table = {
    "batch: last": lambda x: sks.batch("abc", 2, last=x),
    "window: last": lambda x: sks.window("abc", 2, last=x),
    "bins: long": lambda x: sks.bins([1], 2, long=x),
    "mix: stop": lambda x: sks.mix(["a"], stop=x),
    "shard: even": lambda x: sks.shard("abc", 0, 1, even=x),
    "smap: zip": lambda x: sks.smap(max, [1], [2], zip=x),
    "seterr: evaluation": sks.seterr,
    "check_view: reads": lambda x: testing.check_view(sk.view, list, reads=x),
    "check_view: writes": lambda x: testing.check_view(sk.view, list, writes=x),
}
# What has no ``[i]``.
SEQUENCES: Table = {
    "smap: a sequence": lambda x: sks.smap(abs, x),
    "filter: a sequence": lambda x: sks.filter(abs, x),
    "interleave: a sequence": lambda x: sks.interleave([1], x),
    "switch: a sequence": lambda x: sks.switch([1], x, [2]),
    "batch: a sequence": lambda x: sks.batch(x, 2),
    "gather_groups: a sequence": lambda x: sks.gather_groups(x, [[0]]),
    "profile: a sequence": observe.profile,
}
LISTS_OF_SEQUENCES: Table = {
    "mix: sequences": sks.mix,
    "collate: sequences": sks.collate,
    "concatenate: sequences": sks.concatenate,
}
# What has no length, and no end.
SIZED: Table = {
    "cycle: the sequence": sks.cycle,
    "epochs: the sequence": lambda x: sks.epochs(x, 2),
    "random_split: the sequence": lambda x: sks.random_split(x, [3]),
    "shard: the sequence": lambda x: sks.shard(x, 0, 1),
    "shuffle: the sequence": sks.shuffle,
    "split: the sequence": lambda x: sks.split(x, 1),
}

TYPES = [True, 2.5, "2", [1]]
CASES = [
    (POSITIVE, [(0, ValueError), (-1, ValueError), (None, TypeError), *((x, TypeError) for x in TYPES)]),
    (AT_LEAST_0, [(-1, ValueError), (None, TypeError), *((x, TypeError) for x in TYPES)]),
    (AT_LEAST_0_OR_NONE, [(-1, ValueError), *((x, TypeError) for x in TYPES)]),
    (BOOLS, [(x, TypeError) for x in (0, 1, None, "no", [True])]),
    (FUNCTIONS, [(3, TypeError), ("abs", TypeError)]),
    (NAMES, [(3, TypeError), (b"a", TypeError)]),
    (WORDS, [("unknown", ValueError), (3, ValueError)]),
    (SEQUENCES, [(5, TypeError), (object(), TypeError), (iter("ab"), TypeError)]),
    (LISTS_OF_SEQUENCES, [(5, TypeError), (None, TypeError)]),
    (SIZED, [(UnsizedSource("ab"), TypeError), (Naturals(), TypeError)]),
]

# Further arguments: the type of the error, how its text begins, and the call.
OTHERS: list[tuple[type[Exception], str, Callable[[], object]]] = [
    (
        ValueError,
        "batch: drop_last=True means last=",
        lambda: sks.batch("abc", 2, drop_last=True, last="keep"),
    ),
    (ValueError, "batch: pad needs last=", lambda: sks.batch("abc", 2, pad=0, last="keep")),
    (ValueError, "window: pad needs last=", lambda: sks.window("abc", 2, pad=0, last="keep")),
    (ValueError, "unbatch: last_batch_size must be at most", lambda: sks.unbatch([[1, 2]], 2, 3)),
    (ValueError, "shard: rank must be below world_size", lambda: sks.shard("abc", 3, 3)),
    (ValueError, "case: at least one sequence", lambda: sks.case([])),
    (ValueError, "smap: at least one sequence", lambda: sks.smap(abs)),
    (ValueError, "mix: at least one sequence", lambda: sks.mix([])),
    (ValueError, "collate: at least one sequence", lambda: sks.collate([])),
    (ValueError, "collate: at least one sequence", lambda: sks.collate({})),
    (TypeError, "uniter: iterable", lambda: sks.uniter(3)),
    (TypeError, "mix: each sequence", lambda: sks.mix(["a", UnsizedSource("b")])),
    (TypeError, "mix: weights", lambda: sks.mix(["a", "b"], 3)),
    (ValueError, "mix: weights", lambda: sks.mix(["a", "b"], [1])),
    *(
        (ValueError, "mix: a weight must be a number above 0", lambda x=x: sks.mix(["a", "b"], [1, x]))
        for x in (0, -1, -0.5, float("nan"), float("inf"), np.float64("nan"))
    ),
    *(
        (TypeError, "mix: a weight must be a number above 0", lambda x=x: sks.mix(["a", "b"], [1, x]))
        for x in ("1", None, True, [1])
    ),
    *(
        (ValueError, "mix: a weight must be at least one in 16384", lambda x=x: sks.mix(["a", "b"], x))
        for x in ([0.000001, 0.999999], [1, 40000.5], [1e-300, 1e300])
    ),
    (ValueError, "flatten: lengths must be as many", lambda: sks.flatten(["a", "b"], [1])),
    (ValueError, "flatten: lengths[1] must be an int", lambda: sks.flatten(["a", "b"], [1, -1])),
    (TypeError, "flatten: lengths[0] must be an int", lambda: sks.flatten(["a"], [1.0])),
    (TypeError, "flatten: lengths", lambda: sks.flatten(["a"], 3)),
    (TypeError, "flatten: lengths", lambda: sks.flatten(["a"], "12")),
    (TypeError, "flatten: lengths", lambda: sks.flatten(["a"], Naturals())),
    *(
        (TypeError, "split: edges must be", lambda x=x: sks.split("abcd", x))
        for x in (
            None,
            1.5,
            "12",
            True,
            [1.5],
            [(1, 2, 3)],
            [(1,)],
            [1, (1, 2)],
            [None],
            np.zeros((1, 2)),
            [(0, "1")],
        )
    ),
    (ValueError, "split: edges must be", lambda: sks.split("abcd", -1)),
    (ValueError, "random_split: lengths must add up to 3", lambda: sks.random_split("abc", [1, 1])),
    (ValueError, "random_split: a length must be", lambda: sks.random_split("abc", [4, -1])),
    *(
        (ValueError, "random_split: fractions must be", lambda x=x: sks.random_split("abc", x))
        for x in ([0.1], [0.5, 0.6], [1.5, -0.5], [float("nan"), 1.0])
    ),
    *(
        (TypeError, "random_split: lengths must be ints or fractions", lambda x=x: sks.random_split("abc", x))
        for x in (None, 3, "12", [None], ["a"], [0.5, None])
    ),
    (
        ValueError,
        "random_split: pass either",
        lambda: sks.random_split("abc", [3], groups="abc", stratify="abc"),
    ),
    (
        ValueError,
        "random_split: groups must be as many",
        lambda: sks.random_split("abc", [3], groups=["a", "b"]),
    ),
    (ValueError, "random_split: groups", lambda: sks.random_split("abc", [3], groups="patient")),
    (TypeError, "random_split: stratify", lambda: sks.random_split("abc", [3], stratify=[[], [], []])),
    (TypeError, "random_split: stratify", lambda: sks.random_split("abc", [3], stratify=5)),
    *(
        (TypeError, "gather: indexes must be", lambda x=x: sks.gather("abc", x))
        for x in ("012", [0.5], ["0"], 3, None, np.zeros((2, 2), int), np.array([0.0]))
    ),
    (ValueError, "debug: max_rate", lambda: observe.debug("abc", print, None, 0)),
    (TypeError, "debug: max_rate", lambda: observe.debug("abc", print, None, "1")),
    (ValueError, "profile: n", lambda: observe.profile("abc", 0)),
    (TypeError, "watch: the sequence", lambda: observe.watch(3)),
    (ValueError, "watch: interval", lambda: observe.watch([1], interval=0)),
    (TypeError, "load_packed: path", lambda: sks.load_packed(3)),
    (TypeError, "save: path", lambda: sks.pack("ab").save(None)),
    (TypeError, "pack: the sequence", lambda: sks.pack(Naturals())),
    (TypeError, "materialize: the sequence", lambda: sks.materialize(Naturals())),
    (
        TypeError,
        "gather: the indices of InfiniteSampler",
        lambda: sks.gather("abc", samplers.InfiniteSampler([1])),
    ),
]


def refused(kind: type[Exception], begin: str, call: Callable[[], object]) -> None:
    try:
        with pytest.raises(kind, match=f"^{re.escape(begin)}"):
            call()
    except BaseException as failure:
        failure.add_note(f"for {begin}")
        raise


def test_values_of_the_wrong_type_or_size_are_refused() -> None:
    for table, values in CASES:
        for begin, use in table.items():
            for value, kind in values:
                refused(kind, f"{begin} ", lambda use=use, value=value: use(value))


def test_arguments_that_do_not_go_together_are_refused() -> None:
    for kind, begin, call in OTHERS:
        refused(kind, begin, call)
