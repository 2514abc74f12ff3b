"""States that go on with another number of processes: chains of them, against the order that all share."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit import samplers

BATCH = 3  # indices of a batch of a batch sampler


def jitter(x: Any, rng: np.random.Generator) -> tuple[Any, int]:
    return x, int(rng.integers(1 << 30))


class Job:
    """A program with a data set, an order, and the numbers of its processes, which change from run to run."""

    def __init__(self, rng: random.Random) -> None:
        self.kind = rng.choice(["distributed", "weighted", "mixture", "batches"])
        self.n = rng.randrange(1, 60)
        self.even: Any = rng.choice(["pad", "drop"])
        self.seed = rng.randrange(9)
        items = range(self.n)
        if self.kind == "mixture":
            items = sk.mix([range(self.n), range(100, 100 + 3 * self.n)], [1, 2], seed=self.seed)
        self.data = sk.random_map(jitter, items, seed=1)

    def sampler(self, world: int, rank: int, step: int | None) -> dict[str, Any]:
        of = {"num_replicas": world, "rank": rank, "global_batch": step}
        if self.kind == "batches":
            batches = samplers.BatchSampler(samplers.RandomSampler(self.n, seed=self.seed), BATCH)
            return {"batch_sampler": samplers.ShardedSampler(batches, even=self.even, **of)}
        if self.kind == "weighted":
            weights = np.arange(1.0, self.n + 1)
            drawn = samplers.WeightedRandomSampler(weights, self.n, seed=self.seed)
            return {"sampler": samplers.ShardedSampler(drawn, even=self.even, **of)}
        of |= {"shuffle": self.kind == "distributed", "drop_last": self.even == "drop"}
        return {"sampler": samplers.DistributedSampler(self.data, seed=self.seed, **of)}

    def loaders(self, world: int, step: int) -> list[sk.DataLoader]:
        size = {} if self.kind == "batches" else {"batch_size": step // world}
        return [
            sk.DataLoader(self.data, **size, **self.sampler(world, rank, step), collate_fn=list)
            for rank in range(world)
        ]

    def order(self) -> list[Any]:
        """Return what all processes together read in the first epoch: samples, or batches of samples."""
        (sampler,) = self.sampler(1, 0, None).values()
        keys = list(sampler)
        return [[self.data[i] for i in key] if self.kind == "batches" else self.data[key] for key in keys]

    def read(self, loaders: list[sk.DataLoader], steps: int) -> Iterator[Any]:
        """Yield what all processes read in so many steps, in the order that they share."""
        iterators = list(map(iter, loaders))
        for _ in range(steps):
            batches = [next(one, None) for one in iterators]
            if None in batches:
                assert batches == [None] * len(loaders), "processes have other numbers of steps"
                return
            yield from (
                batches if self.kind == "batches" else (x for row in zip(*batches, strict=True) for x in row)
            )


def follow(seed: int, same_step: bool) -> None:
    """Read an epoch in several runs, each with another number of processes, and compare with the order."""
    rng = random.Random(seed)
    job, state, found = Job(rng), None, list[Any]()
    step, largest = rng.choice([4, 6, 8, 12]), 0
    for run in range(4):
        if not same_step:
            step = rng.choice([4, 6, 8, 12])
        largest = max(largest, step)
        world = rng.choice([count for count in (1, 2, 3, 4, 6, 12) if step % count == 0])
        loaders = job.loaders(world, step)
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(json.loads(json.dumps(state)))
        found += job.read(loaders, 1000 if run == 3 else rng.randrange(9))
        states = [loader.state_dict() for loader in loaders]
        assert all(one == states[0] for one in states)
        state = states[0]
        assert len(json.dumps(state)) <= 300
        if state["epoch"]:
            break
    order = job.order()
    assert found[: len(order)] == order[: len(found)]
    rest = len(found) - len(order)
    assert 0 <= rest < largest if job.even == "pad" else -step < rest <= 0


@pytest.mark.filterwarnings("ignore:DataLoader. an epoch has no batches")
@pytest.mark.parametrize("same_step", [True, False], ids=["one global batch", "others"])
@pytest.mark.parametrize("block", [0, *(pytest.param(i, marks=pytest.mark.stress) for i in range(1, 17))])
def test_chains_of_states_read_the_order_once(block: int, same_step: bool) -> None:
    for seed in range(30 * block, 30 * block + 30):
        follow(seed, same_step)


@pytest.mark.parametrize("even", ["pad", "drop"])
def test_each_step_has_the_same_items_for_any_number_of_processes(even: Any) -> None:
    def steps(world: int) -> list[set[int]]:
        loaders = [
            sk.DataLoader(
                range(100),
                12 // world,
                sampler=samplers.DistributedSampler(
                    100, world, rank, drop_last=even == "drop", global_batch=12
                ),
            )
            for rank in range(world)
        ]
        return [{int(x) for batch in batches for x in batch} for batches in zip(*loaders, strict=True)]

    assert len(steps(1)) == (9 if even == "pad" else 8)
    assert all(steps(world) == steps(1) for world in (2, 3, 4, 6, 12))


def test_the_loader_shows_that_the_rest_of_an_epoch_is_dealt_anew() -> None:
    def loader(step: int, world: int) -> sk.DataLoader:
        sampler = samplers.DistributedSampler(40, world, 0, global_batch=step)
        return sk.DataLoader(range(40), step // world, sampler=sampler)

    first, same, other = loader(12, 4), loader(12, 2), loader(10, 2)
    items = iter(first)
    next(items), next(items)
    same.load_state_dict(first.state_dict())
    other.load_state_dict(first.state_dict())
    assert "dealt anew" not in repr(same)
    assert "dealt anew after 24 of the epoch" in repr(other)
    list(other)
    assert "dealt anew" not in repr(other)


@pytest.mark.parametrize(("size", "world", "step", "right"), [(4, 4, 12, 3), (1, 2, 12, 6), (None, 2, 4, 2)])
def test_a_batch_size_that_does_not_make_the_global_batch_is_refused(
    size: int | None, world: int, step: int, right: int
) -> None:
    sampler = samplers.DistributedSampler(40, world, 0, global_batch=step)
    with pytest.raises(ValueError, match=f"batch_size must be {right}, global_batch"):
        sk.DataLoader(range(40), size, sampler=sampler)


# -------------------------------------------------------------------- the table of the page

N = 96
ITEMS = sk.view(range(N))
DOCUMENTS = [[number] * (1 + 7 * number % 60) for number in range(400)]
BINS = sk.bins(list(map(len, DOCUMENTS)), 99, long="split", seed=1)
PACKS = sk.smap(lambda group: sum(map(sum, group)), sk.gather_groups(DOCUMENTS, BINS))[:N]
MIXTURE = sk.mix([ITEMS, range(100, 200)], [1, 1], seed=1)


class Foreign:
    """A sampler of another library, for one of several processes."""

    def __init__(self, world: int, rank: int) -> None:
        self.keys = range(rank, N, world)

    def __iter__(self) -> Iterator[int]:
        return iter(self.keys)


def of(**given: Any) -> Callable[..., sk.DataLoader]:
    """Return a function that makes the loader of a process. Arguments may depend on world, rank and step."""

    def make(world: int, rank: int, step: int, **options: Any) -> sk.DataLoader:
        own = {name: f(world, rank, step) for name, f in given.items() if callable(f)}
        size = {} if "batch_sampler" in own else {"batch_size": step // world}
        return sk.DataLoader(**{"dataset": ITEMS, **size, **given, **own, **options})

    return make


# By the first column of the table on the page.
ORDERS = {
    "`DistributedSampler`": of(
        sampler=lambda world, rank, step: samplers.DistributedSampler(N, world, rank, global_batch=step)
    ),
    "`ShardedSampler` of weights": of(
        sampler=lambda world, rank, step: samplers.ShardedSampler(
            samplers.WeightedRandomSampler([1.0] * N, N, seed=1), world, rank, global_batch=step
        )
    ),
    "`mix` below the sampler": of(
        dataset=MIXTURE,
        sampler=lambda world, rank, step: samplers.DistributedSampler(
            MIXTURE, world, rank, shuffle=False, global_batch=step
        ),
    ),
    "`bins` below the sampler": of(
        dataset=PACKS,
        sampler=lambda world, rank, step: samplers.DistributedSampler(
            PACKS, world, rank, seed=2, global_batch=step
        ),
    ),
    "`ShardedSampler` of a batch sampler": of(
        batch_sampler=lambda world, rank, step: samplers.ShardedSampler(
            samplers.BatchSampler(samplers.RandomSampler(N, seed=1), 3), world, rank
        )
    ),
    "`contiguous=True`": of(
        sampler=lambda world, rank, step: samplers.ShardedSampler(
            samplers.RandomSampler(N, seed=0), world, rank, contiguous=True
        )
    ),
    "`shard` as data set": of(dataset=lambda world, rank, step: sk.shard(ITEMS, rank, world)),
    "a batch sampler over a share": of(
        batch_sampler=lambda world, rank, step: samplers.BatchSampler(
            samplers.DistributedSampler(N, world, rank), step // world
        )
    ),
    "a sampler of another library": of(sampler=lambda world, rank, step: Foreign(world, rank)),
    "a stream dealt by `shard`": of(
        dataset=lambda world, rank, step: sk.shard(
            sk.uniter(lambda: iter(range(N))), rank, world, False, even="pad"
        )
    ),
}
EXACT, ANEW, REFUSED = "exact", "dealt anew", "refused"
CHANGES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "workers": (2, 12, {"num_workers": 2, "method": "thread"}),
    "processes": (4, 12, {}),
    "global batch": (2, 8, {}),
}
# The columns are those of `CHANGES`.
OUTCOMES = {
    "`DistributedSampler`": (EXACT, EXACT, ANEW),
    "`ShardedSampler` of weights": (EXACT, EXACT, ANEW),
    "`mix` below the sampler": (EXACT, EXACT, ANEW),
    "`bins` below the sampler": (EXACT, EXACT, ANEW),
    "`ShardedSampler` of a batch sampler": (EXACT, ANEW, EXACT),
    "`contiguous=True`": (EXACT, REFUSED, ANEW),
    "`shard` as data set": (EXACT, REFUSED, ANEW),
    "a batch sampler over a share": (EXACT, REFUSED, REFUSED),
    "a sampler of another library": (EXACT, REFUSED, ANEW),
    "a stream dealt by `shard`": (EXACT, REFUSED, ANEW),
}


def rest(steps: Iterator[Any]) -> list[list[int]]:
    return [sorted(int(x) for batch in step for x in batch) for step in steps]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("order", ORDERS)
def test_a_change_in_the_middle_of_an_epoch_is_exact_dealt_anew_or_refused(order: str, change: str) -> None:
    def resumed(rank: int) -> list[Any]:
        loader = make(world, rank, step, **options)
        loader.load_state_dict(states[min(rank, 1)])
        return list(loader)

    make, (world, step, options) = ORDERS[order], CHANGES[change]
    loaders = [make(2, rank, 12) for rank in range(2)]
    iterators = [iter(loader) for loader in loaders]
    for _ in range(2):
        [next(one) for one in iterators]
    states = [json.loads(json.dumps(loader.state_dict())) for loader in loaders]
    outcome = OUTCOMES[order][list(CHANGES).index(change)]
    if outcome == REFUSED:
        with pytest.raises(ValueError, match=r"DataLoader: the (state|data set or sampler|sampler) "):
            [resumed(rank) for rank in range(world)]
        return
    expected = rest(zip(*iterators, strict=True))
    found = rest(zip(*[resumed(rank) for rank in range(world)], strict=True))
    assert sorted(chain(*found)) == sorted(chain(*expected))
    assert (found == expected) is (outcome == EXACT)


def test_the_page_has_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "elastic-states.md"
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", page.read_text(), re.MULTILINE)
    assert {order: tuple(outcomes) for order, *outcomes in rows if outcomes[0] == EXACT} == OUTCOMES


# -------------------------------------------------------------------- which samples made step k


@pytest.mark.parametrize("order", [name for name, (_, after, _) in OUTCOMES.items() if after == EXACT])
@pytest.mark.parametrize("world", [1, 2, 4])
def test_a_trace_names_the_samples_of_a_step_of_all_processes(order: str, world: int) -> None:
    make = ORDERS[order]
    loaders = [make(world, rank, 12) for rank in range(world)]
    for loader in loaders:
        loader.set_epoch(1)
    steps = [list(loader) for loader in loaders]
    tracing = make(2, 1, 12, num_workers=0)
    tracing.set_epoch(1)
    for k in (0, 3):
        traces = tracing.trace(k, world=world)  # type: ignore[attr-defined]
        found = [[part.value.line() for part in trace.step.parts[:3]] for trace in traces]
        assert found == [[str(int(x)) for x in share[k][:3]] for share in steps]


def test_a_trace_of_all_processes_needs_an_order_that_they_share() -> None:
    with pytest.raises(ValueError, match="trace: world needs a loader over a DistributedSampler"):
        sk.trace(sk.DataLoader(range(9)), 0, world=2)
    with pytest.raises(ValueError, match="trace: world is for a DataLoader"):
        sk.trace(range(9), 0, world=2)


def test_another_batch_size_with_rollover_is_refused() -> None:
    def loader(size: int) -> sk.DataLoader:
        return sk.DataLoader(range(50), size, shuffle=True, seed=0, last_batch="rollover")

    first = loader(12)
    next(iter(first))
    for _ in range(2):  # in the middle of an epoch, and between two
        with pytest.raises(ValueError, match="of batches of 12, but this loader has batches of 7"):
            loader(7).load_state_dict(first.state_dict())
        list(first)
    loader(7).load_state_dict(loader(12).state_dict())  # at the beginning
