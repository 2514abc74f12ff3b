"""The same batches for any number of workers, threads or processes, whatever the timing: those of the
model."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from seqkit import EvaluationError
from seqkit.streams import StreamLoader
from seqkit.streams.lanes import NoChunk

from .model import KINDS, batches, numbers, rows_of, shown

every_kind = pytest.mark.parametrize(("workers", "method"), KINDS)
skipped = pytest.mark.filterwarnings("ignore:StreamLoader. went on without:RuntimeWarning")
every_padding = pytest.mark.parametrize("padding", ["value", "restart", "drop_rows", "stop"])


@every_kind
@every_padding
def test_batches_are_those_of_the_model(workers: int, method: Any, padding: Any) -> None:
    lengths = [3, 1, 0, 2, 5, 0, 0, 7, 1, 1, 4]
    loader = StreamLoader(lengths, numbers, 3, workers, padding=padding, pad_value=-1, method=method)
    assert shown(loader) == batches([[*numbers(n)] for n in lengths], 3, padding, -1)


def timed(stream: tuple[int, float, bool]) -> Iterator[int]:
    length, cost_s, is_broken = stream
    for chunk in numbers(length):
        if cost_s:
            time.sleep(cost_s * random.random())
        yield chunk
    if is_broken:
        raise OSError("bad disk")


def check(seed: int) -> None:
    """Compare a random configuration with the model: streams, workers, padding, failures, and a resume."""
    rng = random.Random(seed)
    costs = [0.0] if rng.random() < 0.5 else [0.0, 0.0005, 0.003]
    lengths = [max(0, round(rng.expovariate(1 / 4)) - 1) for _ in range(rng.randrange(30))]
    failing = rng.choice([0.0, 0.0, 0.3, 1.0])
    streams = [(length, rng.choice(costs), rng.random() < failing) for length in lengths]
    rows, padding = rng.randint(1, 9), rng.choice(["value", "restart", "drop_rows", "stop"])
    broken = [number for number, stream in enumerate(streams) if stream[2]]
    expected = batches([[*numbers(length)] for length in lengths], rows, padding, -1, broken)
    source = rng.choice([list, tuple] if padding == "restart" else [list, tuple, iter])

    def loader() -> StreamLoader:
        return StreamLoader(
            source(streams),
            timed,
            rows,
            rng.choice([0, 1, 2, 3, 7]),
            padding=padding,  # type: ignore[arg-type]
            pad_value=-1,
            method=rng.choice(["thread", "process"]),  # type: ignore[arg-type]
            max_buffered=rng.choice([1, 2, 8, 40]),
            on_error=on_error,  # type: ignore[arg-type]
        )

    on_error = rng.choice(["raise", "skip"])
    first = loader()
    found = rows_until(iter(first), rng.choice([0, 1, 2, 5, 1000]))
    state = json.loads(json.dumps(first.state_dict()))
    second = loader()
    second.load_state_dict(state)
    if state["epoch"] == 0 and None not in found:
        found += rows_until(iter(second), 1000)
    assert found == expected, f"seed {seed}"


def rows_until(iterator: Any, most: int) -> list[Any]:
    """Return the rows of up to `most` batches. Errors of streams are passed over, and no chunk is None."""
    found: list[Any] = []
    while len(found) < most:
        try:
            found.append(rows_of(next(iterator)))
        except StopIteration:
            break
        except NoChunk:
            return [*found, None]
        except EvaluationError as error:
            if "bad disk" not in str(error):
                raise
    return found


@skipped
@pytest.mark.parametrize("seed", range(15))
def test_a_random_configuration_gives_the_batches_of_the_model(seed: int) -> None:
    check(seed)


@skipped
@pytest.mark.stress
@pytest.mark.parametrize("seed", range(100, 500))
def test_400_random_configurations_give_the_batches_of_the_model(seed: int) -> None:
    check(seed)
