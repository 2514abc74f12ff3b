"""The same batches for any number of workers, threads or processes, whatever the timing: those of the
model."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from seqkit.streams import StreamLoader

from .model import KINDS, batches, numbers, shown

every_kind = pytest.mark.parametrize(("workers", "method"), KINDS)
every_padding = pytest.mark.parametrize("padding", ["value", "restart", "drop_rows", "stop"])


@every_kind
@every_padding
def test_batches_are_those_of_the_model(workers: int, method: Any, padding: Any) -> None:
    lengths = [3, 1, 0, 2, 5, 0, 0, 7, 1, 1, 4]
    loader = StreamLoader(lengths, numbers, 3, workers, padding=padding, pad_value=-1, method=method)
    assert shown(loader) == batches([[*numbers(n)] for n in lengths], 3, padding, -1)


def slowly(length: int, cost_s: float) -> Iterator[int]:
    for chunk in numbers(length):
        time.sleep(cost_s * random.random())
        yield chunk


def timed(stream: tuple[int, float]) -> Iterator[int]:
    length, cost_s = stream
    return slowly(length, cost_s) if cost_s else numbers(length)


def check(seed: int) -> None:
    """Compare a random configuration with the model, for two ways to read it."""
    rng = random.Random(seed)
    costs = [0.0] if rng.random() < 0.5 else [0.0, 0.0005, 0.003]
    lengths = [max(0, round(rng.expovariate(1 / 4)) - 1) for _ in range(rng.randrange(30))]
    streams = [(length, rng.choice(costs)) for length in lengths]
    rows, padding = rng.randint(1, 9), rng.choice(["value", "restart", "drop_rows", "stop"])
    expected = batches([[*numbers(length)] for length in lengths], rows, padding, -1)
    for workers, method in [(0, "process"), (rng.choice([1, 2, 3, 7]), rng.choice(["thread", "process"]))]:
        source = rng.choice([list, tuple] if padding == "restart" else [list, tuple, iter])
        loader = StreamLoader(
            source(streams),
            timed,
            rows,
            workers,
            padding=padding,  # type: ignore[arg-type]
            pad_value=-1,
            method=method,  # type: ignore[arg-type]
            max_buffered=rng.choice([1, 2, 8, 40]),
            streams_ahead=rng.choice([None, 0, 1, 20]),
        )
        assert shown(loader) == expected, f"seed {seed}: {workers} workers, {method}"


@pytest.mark.parametrize("seed", range(15))
def test_a_random_configuration_gives_the_batches_of_the_model(seed: int) -> None:
    check(seed)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(100, 1100))
def test_a_thousand_random_configurations_give_the_batches_of_the_model(seed: int) -> None:
    check(seed)
