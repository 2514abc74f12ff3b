"""`state_dict` and `load_state_dict`: a loader goes on where another one was, whatever its workers."""

from __future__ import annotations

import json
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import chain, islice
from typing import Any, NoReturn

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.reader import Reader
from seqkit.samplers import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler
from seqkit.samplers.distributed import DistributedSampler, SplitSampler
from seqkit.samplers.random_order import WeightedRandomSampler
from seqkit.testing import UnsizedSource
from tests.engine.traces import children, drawn, until
from tests.helpers import InterruptsOnce, for_each, mostly_stress

from .ways import WAYS

N = 22

every_way = pytest.mark.parametrize("way", WAYS)
some_ways = pytest.mark.parametrize(
    "way", [*WAYS[:2], pytest.param(*WAYS[2].values, id="processes", marks=pytest.mark.stress)]
)

Loader = sk.DataLoader


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def noisy() -> Any:
    """Samples that differ with the seed and the epoch."""
    return sk.random_map(lambda i, rng: (i, rng.normal()), range(N), seed=5)


class Keys:
    """A sampler that has no state, and no length."""

    def __iter__(self) -> Iterator[int]:
        return iter([i * 5 % N for i in range(N)])


class Stream:
    """Can only be iterated."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(100, 100 + N))


def random_batches(last: Any = None) -> BatchSampler:
    return BatchSampler(RandomSampler(N, seed=3), 4, last=last)


SETUPS: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": lambda: {"batch_size": 4},
    "shuffled": lambda: {"batch_size": 4, "shuffle": True, "seed": 1},
    "shuffled, whole batches": lambda: {"batch_size": 4, "shuffle": True, "seed": 1, "drop_last": True},
    "single samples": lambda: {"batch_size": None, "shuffle": True, "seed": 1},
    "generator": lambda: {"batch_size": 4, "shuffle": True, "generator": 7},
    "list of indices": lambda: {"batch_size": 4, "sampler": [7, 3, 3, 1, 20, 5, 6, 0, 0]},
    "sequential": lambda: {"batch_size": 4, "sampler": SequentialSampler(N)},
    "random": lambda: {"batch_size": 4, "sampler": RandomSampler(N, seed=2)},
    "random, single samples": lambda: {"batch_size": None, "sampler": RandomSampler(N, seed=2)},
    "with replacement": lambda: {"batch_size": 4, "sampler": RandomSampler(N, True, 30, seed=2)},
    "subset": lambda: {"batch_size": 4, "sampler": SubsetRandomSampler(range(1, N, 2), seed=2)},
    "weighted": lambda: {"batch_size": 4, "sampler": WeightedRandomSampler(range(N), 17, seed=2)},
    "distributed": lambda: {"batch_size": 4, "sampler": DistributedSampler(N, 3, 1, seed=2)},
    "stateless sampler": lambda: {"batch_size": 4, "sampler": Keys()},
    "lists": lambda: {"batch_sampler": [[0, 1], [2], [3, 4, 5], [6], [0], [1]]},
    "batch sampler": lambda: {"batch_sampler": random_batches()},
    "batch sampler, rollover": lambda: {"batch_sampler": random_batches("rollover")},
    "rollover": lambda: {"batch_size": 4, "shuffle": True, "seed": 1, "last_batch": "rollover"},
    "padded": lambda: {"batch_size": 4, "shuffle": True, "seed": 1, "last_batch": "pad"},
}
every_setup = pytest.mark.parametrize("setup", SETUPS)


def made(setup: str, **more: Any) -> sk.DataLoader:
    return Loader(noisy(), **SETUPS[setup](), **more)


def position_of(state: dict[str, Any], batch_size: int = 4) -> tuple[int, int]:
    """Return the epoch of a state, and the number of batches of it that were delivered."""
    size = batch_size if state["unit"] == "samples" else 1
    return state["epoch"], state["delivered"] // size


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(state))
    assert copy == state
    return copy


def epochs(loader: sk.DataLoader, count: int = 3) -> list[Any]:
    """Whole epochs, or the rest of one and whole ones behind it."""
    return [plain(list(loader)) for _ in range(count)]


def resumed(setup: str, state: dict[str, Any], count: int, **way: Any) -> list[Any]:
    with made(setup, **way) as loader:
        loader.load_state_dict(through_json(state))
        return epochs(loader, count)


# -------------------------------------------------------------------- at any step


@every_setup
def test_after_any_batch_the_rest_comes_and_then_the_next_epochs(setup: str) -> None:
    expected = epochs(made(setup))
    for number in range(2):
        loader = made(setup)
        assert epochs(loader, number) == expected[:number]
        batches = iter(loader)
        for position, batch in enumerate(expected[number]):
            rest = [expected[number][position:], *expected[number + 1 :]]
            assert resumed(setup, loader.state_dict(), 3 - number) == rest
            assert plain(next(batches)) == batch


@every_setup
@some_ways
def test_before_the_first_batch_the_whole_epoch_comes(setup: str, way: dict[str, Any]) -> None:
    expected = epochs(made(setup))
    with made(setup, **way) as loader:
        assert resumed(setup, loader.state_dict(), 2) == expected[:2]
        batches = iter(loader)
        assert resumed(setup, loader.state_dict(), 2, **way) == expected[:2]
        assert plain(list(batches)) == expected[0]


@every_setup
@some_ways
def test_after_the_last_batch_the_next_epoch_comes(setup: str, way: dict[str, Any]) -> None:
    expected = epochs(made(setup))
    with made(setup, **way) as loader:
        for number in range(2):
            batches = iter(loader)
            for _ in expected[number]:
                next(batches)
            if setup != "stateless sampler":  # whose end is a step of its own, see below
                assert resumed(setup, loader.state_dict(), 1) == [expected[number + 1]]
            assert list(batches) == []
            assert resumed(setup, loader.state_dict(), 1) == [expected[number + 1]]


def test_without_a_length_the_end_of_an_epoch_is_a_step_of_its_own() -> None:
    expected = epochs(made("stateless sampler"))
    loader = made("stateless sampler")
    batches = iter(loader)
    for _ in expected[0]:
        next(batches)
    assert resumed("stateless sampler", loader.state_dict(), 2) == [[], expected[1]]
    assert list(batches) == []
    assert resumed("stateless sampler", loader.state_dict(), 1) == [expected[1]]


@every_setup
def test_a_loader_that_goes_on_can_be_saved_again_at_any_step(setup: str) -> None:
    expected = epochs(made(setup))
    state, found = made(setup).state_dict(), []
    for _ in range(2 * max(map(len, expected))):
        loader = made(setup)
        loader.load_state_dict(state)
        batches = iter(loader)
        batch = next(batches, None)
        if batch is None:
            list(batches)
        else:
            found.append(plain(batch))
        state = loader.state_dict()
    following = [batch for part in epochs(made(setup), 4) for batch in part]
    assert len(found) > len(expected[0])
    assert found == following[: len(found)]


@pytest.mark.parametrize("position", [0, 1, 3, 6])
@every_way
def test_workers_that_read_ahead_do_not_move_the_position(way: dict[str, Any], position: int) -> None:
    expected = epochs(made("random"))
    ahead = {"prefetch_factor": 4} if way else {}
    with made("random", **way, **ahead) as loader:
        batches = iter(loader)
        for _ in range(position):
            next(batches)
        state = loader.state_dict()
    assert resumed("random", state, 2) == [
        expected[0][position:] or expected[1],
        expected[1 + (position == 6)],
    ]


def test_a_state_stays_as_it_is_while_its_loader_goes_on() -> None:
    loader = made("batch sampler, rollover")
    list(loader)
    state = loader.state_dict()
    before = json.dumps(state)
    list(loader)
    assert json.dumps(state) == before


def test_an_early_break_is_where_the_reader_is() -> None:
    expected = epochs(made("shuffled"))
    loader = made("shuffled")
    for number, _ in enumerate(loader):
        if number == 2:
            break
    assert resumed("shuffled", loader.state_dict(), 2) == [expected[0][3:], expected[1]]


def test_the_state_is_that_of_the_latest_iterator() -> None:
    expected = epochs(made("shuffled"))
    loader = made("shuffled")
    early, late = iter(loader), iter(loader)
    next(early)
    next(late)
    next(late)
    state = loader.state_dict()
    assert resumed("shuffled", state, 1) == [expected[1][2:]]
    list(early)
    assert loader.state_dict() == state


def test_set_epoch_is_part_of_the_state() -> None:
    expected = epochs(made("shuffled"))
    loader = made("shuffled")
    next(iter(loader))
    loader.set_epoch(2)
    assert resumed("shuffled", loader.state_dict(), 1) == [expected[2]]


# -------------------------------------------------------------------- other workers


@pytest.mark.parametrize(
    "setup",
    [
        "shuffled",
        pytest.param("random", marks=pytest.mark.stress),
        pytest.param("rollover", marks=pytest.mark.stress),
    ],
)
@pytest.mark.parametrize(
    ("before", "after"),
    [(before.values[0], after.values[0]) for before, after in zip(WAYS, WAYS[-1:] + WAYS[:-1], strict=True)],
)
def test_number_and_kind_of_workers_may_change(
    setup: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    expected = epochs(made(setup))
    with made(setup, **before) as loader:
        first = plain(list(islice(loader, 2)))
        state = loader.state_dict()
    assert [first, *resumed(setup, state, 2, **after)] == [expected[0][:2], expected[0][2:], expected[1]]


@pytest.mark.parametrize("context", mostly_stress("spawn", "forkserver"))
def test_the_start_method_may_change(context: str) -> None:
    expected = epochs(made("shuffled"))
    loader = made("shuffled")
    list(islice(loader, 2))
    state = loader.state_dict()
    found = resumed("shuffled", state, 1, num_workers=1, multiprocessing_context=context)
    assert found == [expected[0][2:]]


@every_way
def test_the_same_loader_may_be_put_back(way: dict[str, Any]) -> None:
    expected = epochs(made("shuffled"))
    with made("shuffled", **way) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        assert plain(list(batches)) == expected[0][1:]
        assert epochs(loader, 1) == [expected[1]]
        for _ in range(2):
            loader.load_state_dict(state)
            assert epochs(loader, 2) == [expected[0][1:], expected[1]]


@every_way
def test_lengths_are_those_of_whole_epochs(way: dict[str, Any]) -> None:
    with made("shuffled", **way) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with made("shuffled", **way) as loader:
        loader.load_state_dict(state)
        assert len(loader) == 6
        assert [len(list(loader)) for _ in range(2)] == [5, 6]


# -------------------------------------------------------------------- no seed of one's own


@pytest.mark.parametrize("options", [{}, {"seed": None}, {"num_workers": 1}], ids=str)
def test_without_a_seed_that_of_the_state_is_taken_over(options: dict[str, Any]) -> None:
    with Loader(range(N), 4, True, **options) as one:
        first = plain(list(islice(one, 2)))
        state = through_json(one.state_dict())
        one.load_state_dict(state)
        rest = epochs(one, 2)
    with Loader(range(N), 4, True, **options) as other:
        other.load_state_dict(state)
        assert epochs(other, 2) == rest
        assert other.seed == one.seed
    assert sorted(chain.from_iterable(first + rest[0])) == list(range(N))


@pytest.mark.parametrize("seed", [0, 2**32, 2**63])
def test_any_seed_survives_json(seed: int) -> None:
    state = Loader(range(N), 4, True, seed=seed).state_dict()
    assert through_json(state)["seed"] == seed


def test_samplers_without_a_seed_take_over_that_of_the_state() -> None:
    one, other = (Loader(range(N), 4, sampler=RandomSampler(N)) for _ in range(2))
    list(islice(one, 3))
    state = through_json(one.state_dict())
    other.load_state_dict(state)
    one.load_state_dict(state)
    assert epochs(one, 2) == epochs(other, 2)


# -------------------------------------------------------------------- samplers of others


@every_way
def test_a_sampler_with_a_state_of_its_own_is_asked_for_it(way: dict[str, Any]) -> None:
    class Own:
        def __init__(self, turn: int = 0) -> None:
            self.turn = turn

        def __iter__(self) -> Iterator[int]:
            self.turn += 1
            return iter([(i + self.turn) % 8 for i in range(8)])

        def __len__(self) -> int:
            return 8

        def state_dict(self) -> dict[str, int]:
            return {"turn": self.turn}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.turn = state["turn"]

    expected = epochs(Loader(range(8), 3, sampler=Own()))
    for consumed in range(4):
        with Loader(range(8), 3, sampler=Own(), **way) as loader:
            list(loader)
            batches = iter(loader)
            list(islice(batches, consumed))
            state = through_json(loader.state_dict())
        with Loader(range(8), 3, sampler=Own(turn=50), **way) as other:
            other.load_state_dict(state)
            if consumed < 3:
                assert epochs(other, 2) == [expected[1][consumed:], expected[2]]
            else:
                assert epochs(other, 1) == [expected[2]]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_every_replica_goes_on_with_its_own_share(shuffle: bool, drop_last: bool) -> None:
    def loader(rank: int) -> sk.DataLoader:
        sampler = DistributedSampler(N, 3, rank, shuffle, seed=4, drop_last=drop_last)
        return Loader(range(N), 2, sampler=sampler)

    seen: list[int] = []
    for rank in range(3):
        expected = epochs(loader(rank), 2)
        one, other = loader(rank), loader(rank)
        first = plain(list(islice(one, 2)))
        other.load_state_dict(through_json(one.state_dict()))
        rest = epochs(other, 2)
        assert [first + rest[0], rest[1]] == expected
        seen += chain.from_iterable(expected[0])
    assert set(seen) == set(range(N)) or drop_last
    assert len(seen) == (21 if drop_last else 24)


# -------------------------------------------------------------------- small, and without cost


@every_setup
def test_a_state_is_json_of_at_most_350_bytes(setup: str) -> None:
    loader = made(setup)
    sizes = [len(json.dumps(loader.state_dict()))]
    for _ in range(2):
        for _ in loader:
            sizes.append(len(json.dumps(loader.state_dict())))
        sizes.append(len(json.dumps(loader.state_dict())))
    assert max(sizes) <= 350


def test_resuming_far_into_a_huge_epoch_reads_no_item_before() -> None:
    def item(i: int) -> int:
        asked.append(i)
        return i

    asked: list[int] = []
    loader = Loader(sk.smap(item, range(10**9)), 4, True, seed=0)
    state = {**loader.state_dict(), "delivered": 4 * 10**8}
    loader.load_state_dict(state)
    batch = next(iter(loader))
    assert asked == batch.tolist()
    assert asked == list(sk.shuffle(range(10**9), seed=0)[4 * 10**8 : 4 * 10**8 + 4])


def test_resuming_far_into_a_sampler_with_an_order_draws_nothing_before() -> None:
    sampler = RandomSampler(10**9, seed=0)
    loader = Loader(range(10**9), 4, sampler=sampler)
    loader.load_state_dict({**loader.state_dict(), "delivered": 4 * 10**8})
    expected = list(sampler.order[4 * 10**8 : 4 * 10**8 + 4])
    assert next(iter(loader)).tolist() == expected


@every_way
def test_a_state_asked_for_at_once_comes_at_once(way: dict[str, Any]) -> None:
    with made("shuffled", **way) as loader:
        batches = iter(loader)
        assert position_of(loader.state_dict()) == (0, 0)
        next(batches)
        assert [position_of(loader.state_dict()) for _ in range(3)] == [(0, 1)] * 3


@every_setup
def test_a_loaded_state_is_the_loaders_until_it_reads(setup: str) -> None:
    loader = made(setup)
    list(loader)
    next(iter(loader))
    state = loader.state_dict()
    other = made(setup)
    other.load_state_dict(state)
    assert other.state_dict() == state
    batches = iter(other)
    assert other.state_dict() == state
    next(batches)
    assert other.state_dict() != state


def test_loading_a_state_starts_no_workers() -> None:
    here = children()
    with made("shuffled", num_workers=2) as loader:
        loader.load_state_dict(made("shuffled").state_dict())
        assert children() == here


# -------------------------------------------------------------------- several loaders


@every_way
def test_loaders_read_in_turns_keep_their_own_places(way: dict[str, Any]) -> None:
    names = ("shuffled", "random")
    expected = [epochs(made(name), 1)[0] for name in names]
    with made(names[0], **way) as one, made(names[1], **way) as other:
        list(islice(zip(one, other, strict=True), 2))
        next(iter(other))
        states = [one.state_dict(), other.state_dict()]
    assert [position_of(state) for state in states] == [(0, 2), (1, 1)]
    with made(names[0], **way) as one, made(names[1], **way) as other:
        one.load_state_dict(states[0])
        other.load_state_dict(
            {**made(names[1]).state_dict(), "delivered": 8},
        )
        pairs = list(zip(one, other, strict=True))
    for which in range(2):
        assert plain([pair[which] for pair in pairs]) == expected[which][2:]


def test_a_pickled_loader_begins_with_the_next_epoch() -> None:
    expected = epochs(Loader(range(N), 4, True, seed=1))
    loader = Loader(range(N), 4, True, seed=1)
    list(islice(loader, 2))
    copy = pickle.loads(pickle.dumps(loader))
    assert epochs(copy, 1) == [expected[1]]
    loader.load_state_dict(copy.state_dict() | {"epoch": 0})
    assert epochs(pickle.loads(pickle.dumps(loader)), 1) == [expected[0]]


# -------------------------------------------------------------------- data sets that can only be iterated


@every_way
@pytest.mark.parametrize(
    "options", [{"batch_size": 4}, {"batch_size": 4, "drop_last": True}, {"batch_size": None}]
)
def test_what_can_only_be_iterated_goes_on_behind_what_was_read(
    way: dict[str, Any], options: dict[str, Any]
) -> None:
    whole = epochs(Loader(Stream(), **options), 1)[0]
    for consumed in (0, 1, len(whole) - 1):
        with Loader(Stream(), **options, **way) as loader:
            list(islice(loader, consumed))
            state = loader.state_dict()
        with Loader(Stream(), **options, **way) as other:
            other.load_state_dict(through_json(state))
            assert epochs(other, 2) == [whole[consumed:], whole]


@some_ways
def test_the_end_of_what_can_only_be_iterated_is_the_next_epoch(way: dict[str, Any]) -> None:
    with Loader(Stream(), 4, **way) as loader:
        whole = plain(list(loader))
        state = loader.state_dict()
    assert position_of(state) == (1, 0)
    with Loader(Stream(), 4, **way) as other:
        other.load_state_dict(state)
        assert epochs(other, 1) == [whole]


@pytest.mark.parametrize("batch_size", [None, 2, 4])
@pytest.mark.parametrize("way", WAYS[:2])
def test_an_epoch_of_a_stream_is_begun_once(way: dict[str, Any], batch_size: int | None) -> None:
    class Counting(Stream):
        begun = 0

        def __iter__(self) -> Iterator[int]:
            self.begun += 1
            return super().__iter__()

    dataset = Counting()
    with Loader(dataset, batch_size, **way) as loader:
        assert dataset.begun == 0
        for number in (1, 2):
            list(loader)
            loader.state_dict()
            assert dataset.begun == number


# -------------------------------------------------------------------- errors


@every_way
def test_a_batch_that_fails_counts_as_read(way: dict[str, Any]) -> None:
    def item(i: int) -> int:
        if i == 5:
            raise ValueError("five")
        return i

    dataset = sk.smap(item, range(12))
    with Loader(dataset, 2, **way) as loader:
        batches = iter(loader)
        seen = []
        for _ in range(3):
            try:
                seen.append(plain(next(batches)))
            except sk.EvaluationError:
                seen.append("failed")
        state = loader.state_dict()
    assert seen == [[0, 1], [2, 3], "failed"]
    with Loader(dataset, 2, **way) as other:
        other.load_state_dict(state)
        assert epochs(other, 1) == [[[6, 7], [8, 9], [10, 11]]]


@every_way
def test_a_failing_batch_fails_again_where_the_state_is_before_it(way: dict[str, Any]) -> None:
    def item(i: int) -> int:
        if i == 5:
            raise ValueError("five")
        return i

    dataset = sk.smap(item, range(8))
    with Loader(dataset, 2, **way) as loader:
        list(islice(loader, 2))
        state = loader.state_dict()
    with Loader(dataset, 2, **way) as other:
        other.load_state_dict(state)
        found = drawn(iter(other))
    assert isinstance(found[0], sk.EvaluationError)
    assert plain(found[1:]) == [[6, 7]]


@every_way
def test_skipped_batches_count_as_read(way: dict[str, Any]) -> None:
    def item(i: int) -> int:
        if i in (2, 3):
            raise ValueError
        return i

    dataset = sk.smap(item, range(8))
    with Loader(dataset, 2, on_error="skip", **way) as loader:
        assert plain(list(islice(loader, 2))) == [[0, 1], [4, 5]]
        state = loader.state_dict()
    with Loader(dataset, 2, on_error="skip", **way) as other:
        other.load_state_dict(state)
        assert epochs(other, 1) == [[[6, 7]]]


def test_an_error_of_worker_init_fn_leaves_the_place_of_a_loaded_state() -> None:
    def begin(number: int) -> None:
        raise ValueError("no such device")

    state = {**made("shuffled").state_dict(), "delivered": 8}
    with made("shuffled", num_workers=1, worker_init_fn=begin) as loader:
        loader.load_state_dict(state)
        with pytest.raises(RuntimeError, match="no such device"):
            next(iter(loader))
    with made("shuffled", num_workers=1) as loader:
        loader.load_state_dict(state)
        assert epochs(loader, 1) == [epochs(made("shuffled"), 1)[0][2:]]


@pytest.mark.parametrize("way", WAYS[1:])
def test_what_ends_the_reading_is_no_batch(way: dict[str, Any]) -> None:
    loader = made("shuffled", **way)
    batches = iter(loader)
    read = [plain(next(batches))]
    loader.close()
    *more, error = drawn(batches)
    read += plain(more)
    assert "closed" in str(error)
    assert not isinstance(error, sk.EvaluationError)
    state = loader.state_dict()
    assert position_of(state) == (0, len(read))
    with made("shuffled", **way) as other:
        other.load_state_dict(state)
        assert [read + epochs(other, 1)[0]] == epochs(made("shuffled"), 1)


class Failing:
    """A sampler that raises on its way."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __iter__(self) -> Iterator[int]:
        yield from range(self.at)
        raise KeyError("the sampler")


@every_way
@pytest.mark.parametrize("at", [0, 13])
def test_an_error_of_a_sampler_is_no_batch_and_ends_the_workers(way: dict[str, Any], at: int) -> None:
    before = children()
    with Loader(range(40), 4, sampler=Failing(at), **way) as loader:
        batches = iter(loader)
        *read, error = drawn(batches)
        assert plain(read) == [[b, b + 1, b + 2, b + 3] for b in range(0, at - 3, 4)]
        assert isinstance(error, KeyError)
        state = loader.state_dict()
        assert position_of(state) == (0, len(read))
        if not way.get("persistent_workers"):
            assert until(lambda: children() == before)
        *read, error = drawn(iter(loader))
        assert isinstance(error, KeyError)


class Struck:
    """Data that Ctrl-C, or an error, strikes when it is sent to the workers for the first time."""

    def __init__(self, error: type[BaseException] | None) -> None:
        self.error = error

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> int:
        return i

    def __reduce__(self) -> Any:
        error, self.error = self.error, None
        if error is not None:
            raise error
        return Struck, (None,)


@pytest.mark.parametrize(
    ("setup", "error"),
    [
        *mostly_stress(
            ("rollover", KeyboardInterrupt),
            ("random", ValueError),
            ("shuffled", KeyboardInterrupt),
            ("weighted", KeyboardInterrupt),
            ("batch sampler, rollover", ValueError),
            ("rollover", ValueError),
            here=2,
        ),
    ],
)
def test_an_epoch_that_does_not_begin_is_not_over(setup: str, error: type[BaseException]) -> None:
    options = {"num_workers": 1, "multiprocessing_context": "forkserver", **SETUPS[setup]()}
    expected = epochs(Loader(range(N), **SETUPS[setup]()), 2)
    with Loader(Struck(error), **options) as loader:
        before = loader.state_dict()
        with pytest.raises((KeyboardInterrupt, TypeError)):
            next(iter(loader))
        assert loader.state_dict() == before
        assert epochs(loader, 2) == expected


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_what_a_handler_raises_while_an_epoch_is_read_is_not_its_end(
    way: dict[str, Any], error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Loader(range(10), 2, **way) as loader:
        epoch = iter(loader)
        found = plain([next(epoch), next(epoch)])

        def struck(reader: Reader) -> NoReturn:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(Reader, "next", struck)
            with pytest.raises(error):
                found.extend(map(plain, epoch))
        with_workers = "num_workers" in way
        for _ in range(2 * with_workers):
            with pytest.raises(RuntimeError, match="begin a new one"):
                next(epoch)
        found += [] if with_workers else plain(list(epoch))
        state = loader.state_dict()
    with Loader(range(10), 2) as other:
        other.load_state_dict(state)
        found += [] if len(found) == 5 else plain(list(other))
    assert found == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


@pytest.mark.parametrize("at", [0, 9, N - 1])
@pytest.mark.parametrize(
    "options",
    [
        {"dataset": range(100, 100 + N)},
        {"dataset": range(100, 100 + N), "shuffle": True, "seed": 3, "last_batch": "rollover"},
        {"dataset": range(100, 100 + N), "sampler": Keys(), "on_error": "skip"},
        {"dataset": range(100, 100 + N), "batch_size": None, "batch_sampler": [[21, 0, 9], [4, 5], [3]]},
        {"dataset": Stream()},
        {"dataset": Stream(), "iterable_split": "reader"},
    ],
    ids=str,
)
def test_after_ctrl_c_in_a_sample_a_loader_goes_on_from_the_state(options: Any, at: int) -> None:
    options = {"batch_size": 4, **options}
    if options["batch_size"] is None:
        del options["batch_size"]
    expected = plain(list(Loader(**options)))
    loader = Loader(**options, transform=InterruptsOnce(100 + at))
    epoch, found = iter(loader), list[Any]()
    while True:
        before = loader.state_dict()
        try:
            found.append(plain(next(epoch)))
        except KeyboardInterrupt:
            break
    assert loader.state_dict() == before
    with pytest.raises(RuntimeError):
        next(epoch)
    with Loader(**options) as other:
        other.load_state_dict(before)
        assert plain(list(other)) == expected[len(found) :]


def test_an_epoch_whose_sampler_was_interrupted_is_not_over() -> None:
    class Slow(Keys):
        def __iter__(self) -> Iterator[int]:
            return (i for i in map(InterruptsOnce(15), super().__iter__()))

    loader = Loader(range(N), 2, sampler=Slow())
    epoch = iter(loader)
    assert plain(next(epoch)) == [0, 5]
    with pytest.raises(KeyboardInterrupt):
        next(epoch)
    with pytest.raises(RuntimeError, match="Begin a new one"):
        next(epoch)
    assert position_of(loader.state_dict(), 2) == (0, 1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("breaks_at", range(4))
def test_a_stream_that_breaks_before_the_place_to_go_on_from_says_so(
    way: dict[str, Any], breaks_at: int
) -> None:
    class Breaking:
        def __iter__(self) -> Iterator[int]:
            yield from range(breaks_at)
            raise ConnectionError("down")

    class Whole:
        def __iter__(self) -> Iterator[int]:
            return iter(range(10))

    with Loader(Whole(), 2, **way) as loader:
        epoch = iter(loader)
        assert plain([next(epoch), next(epoch)]) == [[0, 1], [2, 3]]
        state = loader.state_dict()
    with Loader(Breaking(), 2, **way) as loader:
        loader.load_state_dict(state)
        (found,) = drawn(iter(loader))
        assert isinstance(found, sk.EvaluationError)
        assert "down" in str(found)
        assert position_of(loader.state_dict(), 2) == (1, 0)


@pytest.mark.parametrize("strikes_at", range(4))
def test_ctrl_c_while_batches_are_passed_over_is_none_of_a_batch(strikes_at: int) -> None:
    class Struck:
        strikes = True

        def __iter__(self) -> Iterator[int]:
            for i in range(10):
                if i == strikes_at and self.strikes:
                    self.strikes = False
                    raise KeyboardInterrupt
                yield i

    loader = Loader(Struck(), 2)
    loader.load_state_dict({**Loader(Struck(), 2).state_dict(), "delivered": 4})
    epoch = iter(loader)
    with pytest.raises(KeyboardInterrupt):
        next(epoch)
    assert position_of(loader.state_dict(), 2) == (0, 2)
    loader.load_state_dict(loader.state_dict())
    epoch = iter(loader)
    assert plain([next(epoch)]) == [[4, 5]]
    assert position_of(loader.state_dict(), 2) == (0, 3)


@pytest.mark.parametrize("way", WAYS[1:])
def test_an_error_of_worker_init_fn_while_samples_are_passed_over_is_no_batch(
    way: dict[str, Any],
) -> None:
    def begin(number: int) -> None:
        raise ValueError("no such device")

    with Loader(Stream(), 4, worker_init_fn=begin, **way) as loader:
        loader.load_state_dict({**loader.state_dict(), "epoch": 3, "delivered": 8})
        with pytest.raises(RuntimeError, match="no such device"):
            next(iter(loader))
        state = loader.state_dict()
        assert position_of(state) == (3, 2)


def outcome(epoch: Iterator[Any]) -> Any:
    try:
        return next(epoch)
    except sk.EvaluationError as error:
        return error


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("read", [0, 1, 2, 3])
def test_a_batch_that_fails_of_what_has_no_length_is_one_batch(way: dict[str, Any], read: int) -> None:
    def item(i: int) -> int:
        if i == 103:
            raise ValueError(i)
        return i

    def a_loader() -> sk.DataLoader:
        return Loader(UnsizedSource(range(100, 110)), 2, transform=item, **way)

    with a_loader() as loader:
        epoch = iter(loader)
        found = [outcome(epoch) for _ in range(read)]
        state = loader.state_dict()
        found += drawn(epoch)
    assert plain(found[:1] + found[2:]) == [[100, 101], [104, 105], [106, 107], [108, 109]]
    assert isinstance(found[1], sk.EvaluationError)
    with a_loader() as loader:
        loader.load_state_dict(state)
        left = drawn(iter(loader))
        assert len(left) == len(found) - read
        assert plain(left[-2:]) == [[106, 107], [108, 109]]
        assert loader.state_dict()["epoch"] == 1


BATCHES = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def read_twice(dataset: Any, **options: Any) -> dict[str, Any]:
    """Return the state of a loader after two batches."""
    loader = Loader(dataset, **options)
    batches = iter(loader)
    next(batches), next(batches)
    return through_json(loader.state_dict())


@pytest.mark.parametrize(
    ("saved", "options"),
    [
        ((range(10), {"shuffle": True, "seed": 0}), (range(12), {"shuffle": True, "seed": 0})),
        ((range(10), {}), (range(8), {})),
        (
            (range(10), {"sampler": RandomSampler(10, seed=0)}),
            (range(9), {"sampler": RandomSampler(9, seed=0)}),
        ),
        ((range(10), {"shuffle": True}), (range(10), {})),
        ((range(10), {}), (range(10), {"shuffle": True})),
        ((range(10), {"shuffle": True, "seed": 0}), (sk.shuffle(range(10), 0), {"shuffle": True, "seed": 0})),
        ((range(10), {"sampler": [*range(9, -1, -1)]}), (range(10), {})),
    ],
    ids=str,
)
def test_a_state_of_another_order_or_length_is_refused(saved: Any, options: Any) -> None:
    state = read_twice(saved[0], batch_size=2, **saved[1])
    loader = Loader(options[0], 2, **options[1])
    before = loader.state_dict()
    with pytest.raises(ValueError, match="has another order than when the state was saved"):
        loader.load_state_dict(state)
    assert loader.state_dict() == before


def test_at_the_beginning_of_an_epoch_the_data_set_may_have_grown() -> None:
    loader = Loader(range(10), 5, shuffle=True, seed=0)
    list(loader)
    other = Loader(range(12), 5, shuffle=True, seed=0)
    other.load_state_dict(loader.state_dict())
    assert sorted(chain.from_iterable(plain(list(other)))) == list(range(12))


SAMPLERS: dict[str, Any] = {
    "list": (lambda: [*range(10)], lambda: [*range(9, -1, -1)]),
    "array": (lambda: np.arange(10), lambda: np.arange(10)[::-1]),
    "names": (lambda: list("abcdefghij"), lambda: list("jihgfedcba")),
    "random": (lambda: RandomSampler(10, seed=1), lambda: RandomSampler(10, True, 10, seed=1)),
    "set": (lambda: dict.fromkeys(range(10)).keys(), lambda: dict.fromkeys(range(9, -1, -1)).keys()),
    "other kind": (lambda: RandomSampler(10, seed=1), lambda: [*range(10)]),
}


@some_ways
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_with_another_order_is_refused(name: str, way: dict[str, Any]) -> None:
    same, other = SAMPLERS[name]
    dataset = {key: i for i, key in enumerate("abcdefghij")} if name == "names" else range(10)
    state = read_twice(dataset, batch_size=2, sampler=same())
    with Loader(dataset, 2, sampler=same(), **way) as loader:
        loader.load_state_dict(state)
        assert len(list(loader)) == 3
    with Loader(dataset, 2, sampler=other(), **way) as loader:
        before = loader.state_dict()
        expected = pytest.raises(ValueError, match=r"other (order|indices|keys)|another order")
        if name == "set":  # whose keys are known when they are drawn
            loader.load_state_dict(state)
            with expected:
                next(iter(loader))
        else:
            with expected:
                loader.load_state_dict(state)
            assert loader.state_dict() == before
        loader.set_epoch(1)
        assert len(list(loader)) == 5


def test_a_sampler_of_another_name_is_no_other_order() -> None:
    class MySampler(RandomSampler): ...

    class Balanced(RandomSampler): ...

    loader, other = (
        Loader(range(10), 2, sampler=kind(10, seed=1), collate_fn=list) for kind in (MySampler, Balanced)
    )
    batches = iter(loader)
    next(batches)
    other.load_state_dict(loader.state_dict())
    assert list(other) == list(batches)


def test_the_batch_size_may_change_in_the_middle_of_an_epoch() -> None:
    loader, other, third = (Loader(range(N), size, shuffle=True, seed=1) for size in (4, 8, 3))
    read = plain(list(islice(loader, 2)))
    other.load_state_dict(through_json(loader.state_dict()))
    rest = plain(list(other))
    assert list(map(len, rest)) == [8, 6]
    assert list(chain(*read, *rest)) == list(sk.shuffle(range(N), seed=1))
    with pytest.raises(ValueError, match="is behind 8 samples, where no batch of 3 ends"):
        third.load_state_dict(loader.state_dict())


def test_every_process_goes_on_from_the_state_of_one() -> None:
    def loader(rank: int) -> Any:
        return Loader(range(20), 2, sampler=DistributedSampler(20, 2, rank, seed=0))

    one = loader(0)
    next(iter(one))
    other = loader(1)
    other.load_state_dict(one.state_dict())  # without a warning, although its keys are others
    assert epochs(other, 1)[0] == epochs(loader(1), 1)[0][1:]


@pytest.mark.parametrize("state", [None, 5, {}, {"epoch": 0}, [1, 2]], ids=repr)
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(TypeError, match="a state is a dict with version, epoch, delivered"):
        Loader(range(3)).load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "the state is of version 2, known is 1"),
        ({"unit": "batches"}, "the state counts batches, but this loader counts samples"),
        ({"seed": 8}, "the state is of seed=8, but this loader has another seed"),
    ],
    ids=str,
)
def test_a_state_of_another_loader_is_refused_and_changes_nothing(
    change: dict[str, Any], message: str
) -> None:
    loader = made("shuffled")
    state = loader.state_dict()
    with pytest.raises(ValueError, match=message):
        loader.load_state_dict({**state, "epoch": 1, "delivered": 8, **change})
    assert loader.state_dict() == state
    assert epochs(loader, 1) == epochs(made("shuffled"), 1)


@pytest.mark.parametrize(
    "change",
    [{"delivered": -1}, {"epoch": -1}, {"delivered": 1.5}, {"epoch": "0"}, {"delivered": None}],
    ids=str,
)
def test_a_state_with_impossible_numbers_is_refused(change: dict[str, Any]) -> None:
    loader = made("shuffled")
    with pytest.raises((TypeError, ValueError)):
        loader.load_state_dict({**loader.state_dict(), **change})


def test_out_of_order_there_is_no_place_to_speak_of() -> None:
    with made("shuffled", num_workers=1, in_order=False) as loader:
        with pytest.raises(RuntimeError, match="with in_order=False no position says"):
            loader.state_dict()
        assert sorted(i for numbers, _ in epochs(loader, 1)[0] for i in numbers) == list(range(N))


class EveryNth:
    """Gives a process every nth batch, as the sampler of accelerate does."""

    def __init__(self, num_processes: int, process_index: int) -> None:
        self.num_processes = num_processes
        self.process_index = process_index

    def __len__(self) -> int:
        return len(range(self.process_index, 200, self.num_processes))

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.process_index, 200, self.num_processes))


SHARES: dict[str, Callable[[int, int], Any]] = {
    "processes": EveryNth,
    "slice": lambda count, rank: sk.shard(sk.shuffle(range(200), seed=1), rank, count),
    "parts": lambda count, rank: SplitSampler(200, count, rank, seed=1),
    "torch": lambda count, rank: pytest.importorskip("torch.utils.data").DistributedSampler(
        range(200), count, rank
    ),
    "indices": lambda count, rank: [*range(rank, 200, count)],
}


@pytest.mark.parametrize("kind", SHARES)
def test_a_state_of_a_share_is_refused_by_another_number_of_processes(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group: Any = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "torch.distributed", group)

    def made(count: int, rank: int) -> Any:
        group.get_world_size = lambda: count
        return sk.DataLoader(range(200), 2, sampler=SHARES[kind](count, rank), seed=0)

    loader = made(4, 0)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [batch.tolist() for batch in batches]
    other = made(3, 0)
    with pytest.raises(ValueError, match=r"4 processes, .*3|another order"):
        other.load_state_dict(state)
    assert len(list(other)) == 34
    same = made(4, 0)
    same.load_state_dict(state)
    assert [batch.tolist() for batch in same] == rest
    other.load_state_dict(loader.state_dict())  # at the end of an epoch any number may go on
    assert len(list(other)) == 34


def test_shares_may_differ_by_one_index() -> None:
    loaders = [sk.DataLoader(range(10), 1, sampler=sk.shard(range(10), rank, 3)) for rank in range(3)]
    next(iter(loaders[0]))
    state = loaders[0].state_dict()
    for loader in loaders:  # frameworks load the state of rank 0 in all processes
        loader.load_state_dict(state)
        assert len(list(loader)) == len(loader) - 1


class OwnIterator:
    """A data set that begins anew at `iter`, whatever state it has loaded."""

    def __iter__(self) -> Iterator[int]:
        self.at = 0
        return self

    def __next__(self) -> int:
        if self.at == 20:
            raise StopIteration
        self.at += 1
        return self.at

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


def test_a_data_set_that_begins_anew_at_iter_is_resumed_where_it_was() -> None:
    loader = sk.DataLoader(OwnIterator(), 2, collate_fn=list)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    state = loader.state_dict()
    other = sk.DataLoader(OwnIterator(), 2, collate_fn=list)
    other.load_state_dict(state)
    assert list(other) == list(batches) == [[i, i + 1] for i in range(9, 20, 2)]


class Foreign:
    """A sampler or data set whose methods and attributes have the names of a protocol, but other meanings."""

    weights = (1.0, 2.0)

    def __iter__(self) -> Iterator[int]:
        return iter(range(10))

    def __len__(self) -> int:
        return 10

    def __getitem__(self, i: int) -> int:
        return i

    def epoch(self) -> None: ...

    def set_epoch(self, epoch: int, seed: int) -> NoReturn:
        raise AssertionError

    def state_dict(self, prefix: str) -> NoReturn:
        raise AssertionError

    def load_state_dict(self, state: Any, strict: bool) -> NoReturn:
        raise AssertionError

    @property
    def sampler(self) -> Any:
        return self


@pytest.mark.parametrize(
    "made",
    [
        lambda: sk.DataLoader(range(10), 5, sampler=Foreign(), collate_fn=list),
        lambda: sk.DataLoader(range(10), batch_sampler=BatchSampler(Foreign(), 5), collate_fn=list),
        lambda: sk.DataLoader(Foreign(), 5, collate_fn=list),
    ],
    ids=["sampler", "batches", "data set"],
)
def test_methods_with_other_parameters_are_not_called(made: Callable[[], Any]) -> None:
    loader = made()
    batches = iter(loader)
    assert next(batches) == [0, 1, 2, 3, 4]
    other = made()
    other.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert [*other, *other] == [[5, 6, 7, 8, 9], [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


# -------------------------------------------------------------------- the order of the data set

ORDERED: dict[str, Any] = {
    "shuffle": lambda seed: sk.shuffle(range(40), seed),
    "map of a shuffle": lambda seed: sk.smap(abs, sk.shuffle(range(40), seed)),
    "part of a split of a view": lambda seed: sk.random_split(sk.arange(80), [0.5, 0.5], seed)[1],
    "part of a split": lambda seed: sk.random_split(range(80), [0.5, 0.5], seed)[0],
    "groups": lambda seed: sk.shuffle_groups(range(40), [4] * 10, seed),
    "mix": lambda seed: sk.mix([range(20), range(20, 40)], seed=seed),
    "collate": lambda seed: sk.collate([range(40), sk.shuffle(range(40), seed)]),
    "stream": lambda seed: sk.uniter(range(40)).smap(abs).shuffle_buffer(20, seed).batch(1),
    "filter": lambda seed: sk.filter(lambda x: x < 40, sk.shuffle(range(50), seed)),
    "filter of a filter": lambda seed: sk.smap(abs, sk.filter(bool, ORDERED["filter"](seed))),
}


@for_each("read", [0, 3])
@for_each("seeds", [(None, None), (1, 2), (1, 1)])
@for_each("kind", ORDERED)
def test_a_data_set_in_another_order_than_before_is_refused(kind: str, seeds: Any, read: int) -> None:
    first, second = (sk.DataLoader(ORDERED[kind](seed), 4) for seed in seeds)
    list(islice(first, read))
    is_refused = read > 0 and seeds != (1, 1)
    expected = pytest.raises(ValueError, match="has another order than when the state was saved")
    with expected if is_refused else nullcontext():
        second.load_state_dict(first.state_dict())
    assert position_of(second.state_dict()) == (0, 0 if is_refused else read)


def test_the_state_of_one_rank_suits_the_others() -> None:
    def loader(rank: int, seed: int) -> Any:
        return sk.DataLoader(sk.smap(abs, sk.shard(sk.shuffle(range(80), seed), rank, 2)), 4)

    first = loader(0, seed=1)
    list(islice(first, 3))
    state = first.state_dict()
    loader(1, seed=1).load_state_dict(state)
    with pytest.raises(ValueError, match="another order"):
        loader(1, seed=2).load_state_dict(state)


def test_the_order_below_a_deep_chain_is_known() -> None:
    def loader(seed: int) -> Any:
        view = sk.shuffle(range(40), seed)
        for _ in range(2000):
            view = sk.smap(abs, view)
        return sk.DataLoader(view, 4)

    first = loader(1)
    next(iter(first))
    loader(1).load_state_dict(first.state_dict())
    with pytest.raises(ValueError, match="another order"):
        loader(2).load_state_dict(first.state_dict())


class Longer(sk.View[Any]):
    """A view of the user that has more items than its source, and does not say what they are made of."""

    def _length(self) -> int:
        return 2 * len(self._sources[0])

    def _get(self, i: int) -> Any:
        return self._sources[0][i // 2]

    def _rebuild(self, sources: Any) -> Any:
        return Longer(sources)


def test_a_data_set_whose_order_cannot_be_found_has_a_state() -> None:
    loader = sk.DataLoader(Longer((sk.shuffle(range(20), seed=1),)), 4)  # type: ignore[arg-type]
    list(islice(loader, 2))
    loader.load_state_dict(loader.state_dict())
