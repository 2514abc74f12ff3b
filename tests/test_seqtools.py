"""Programs written for SeqTools run: its names are here, with its parameters, order and defaults.

What behaves otherwise is listed on docs/explanation/seqtools.md. SeqTools itself is not needed here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "seqtools.md"

# The signatures of SeqTools 1.4.1, as functions that have them.
SEQTOOLS: dict[str, Callable[..., Any]] = {
    "EvaluationError": lambda *args: None,
    "SerializableFunc": lambda func: None,
    "add_cache": lambda arr, cache_size=1, cache=None: None,
    "arange": lambda start, stop=None, step=None: None,
    "batch": lambda sequence, k, drop_last=False, pad=None, collate_fn=None: None,
    "case": lambda selector, *values: None,
    "collate": lambda sequences: None,
    "concatenate": lambda sequences: None,
    "cycle": lambda sequence, limit=None: None,
    "debug": lambda sequence, func, max_calls=None, max_rate=None: None,
    "gather": lambda sequence, indexes: None,
    "interleave": lambda *sequences: None,
    "monitor_throughput": lambda sequence: None,
    "prefetch": lambda seq, nworkers=0, method="thread", max_buffered=10, start_hook=None, shm_size=0: None,
    "repeat": lambda value, times=None: None,
    "seterr": lambda evaluation=None: None,
    "smap": lambda f, *sequences: None,
    "split": lambda sequence, edges: None,
    "starmap": lambda f, sequence: None,
    "switch": lambda condition, x, y: None,
    "take": lambda sequence, indexes: None,
    "unbatch": lambda sequence, batch_size, last_batch_size=None: None,
    "uniter": lambda iterable, cache_size=0, n_parallel=1, size=None: None,
}

# The defaults in which seqkit differs, which the page names.
OWN_DEFAULTS = {
    ("add_cache", "cache_size"): None,  # all items, up to 1 GiB
    ("prefetch", "nworkers"): None,
    ("prefetch", "max_buffered"): None,
    ("prefetch", "shm_size"): None,
}

# Parameters that may be left out in seqkit: sequences can be given by keyword instead.
MAY_BE_LEFT_OUT = {("collate", "sequences"): None}

every_name = pytest.mark.parametrize("name", sorted(SEQTOOLS))


def parameters(f: Callable[..., Any]) -> list[Parameter]:
    return list(inspect.signature(f).parameters.values())


def positional(f: Callable[..., Any]) -> list[Parameter]:
    return [p for p in parameters(f) if p.kind not in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)]


@every_name
def test_the_name_is_public(name: str) -> None:
    assert name in sk.__all__
    assert callable(getattr(sk, name))


@every_name
def test_parameters_have_the_same_names_order_and_kinds(name: str) -> None:
    ours, theirs = positional(getattr(sk, name)), parameters(SEQTOOLS[name])
    assert [(p.name, p.kind) for p in ours] == [(p.name, p.kind) for p in theirs]


@every_name
def test_defaults_are_the_same_but_for_those_on_the_page(name: str) -> None:
    theirs = {p.name: p.default for p in parameters(SEQTOOLS[name])}
    own = {parameter: default for (f, parameter), default in OWN_DEFAULTS.items() if f == name}
    optional = {parameter: default for (f, parameter), default in MAY_BE_LEFT_OUT.items() if f == name}
    assert own.keys() <= {p for p, default in theirs.items() if default is not Parameter.empty}
    assert {p.name: p.default for p in positional(getattr(sk, name))} == theirs | own | optional


@every_name
def test_arguments_that_seqkit_adds_are_optional(name: str) -> None:
    added = [p for p in parameters(getattr(sk, name)) if p.kind is Parameter.KEYWORD_ONLY]
    assert [p.name for p in added if p.default is Parameter.empty] == []


@pytest.mark.parametrize(("name", "parameter"), OWN_DEFAULTS)
def test_the_page_lists_the_defaults_that_differ(name: str, parameter: str) -> None:
    title, rows = "", []
    for line in PAGE.read_text("utf-8").splitlines():
        title = line if line.startswith("#") else title
        if f"`{parameter}`" in line and "default" in line and name in title + line:
            rows.append(line)
    assert len(rows) == 1


def test_a_cache_of_no_size_keeps_all_items() -> None:
    calls: list[int] = []
    cached = sk.add_cache(sk.smap(calls.append, range(3)))
    for i in (0, 0, 1, 1, 0):
        cached[i]
    assert calls == [0, 1]


def test_take_is_gather() -> None:
    assert list(sk.take("abc", [2, 0])) == list(sk.gather("abc", [2, 0])) == ["c", "a"]


def test_seterr_sets_and_returns_the_setting() -> None:
    with sk.errstate("wrap"):
        assert [sk.seterr(), sk.seterr("passthrough"), sk.seterr(evaluation="wrap")] == [
            "wrap",
            "passthrough",
            "wrap",
        ]


def test_arguments_are_given_by_position_as_in_seqtools() -> None:
    kept: dict[int, Any] = {}
    seen: list[tuple[int, Any]] = []
    numbers = sk.add_cache(sk.uniter(range(7), 2, 1, 7), 3, kept)
    batches = sk.batch(sk.debug(numbers, lambda i, item: seen.append((i, item)), 2), 3, False, -1, tuple)
    with sk.prefetch(batches, 1, "thread", 4, lambda: None, 0) as ahead:
        assert list(sk.unbatch(ahead, 3, 0)) == [*range(7), -1, -1]
    assert seen == [(0, 0), (1, 1)]
    assert sorted(kept) == [4, 5, 6]
