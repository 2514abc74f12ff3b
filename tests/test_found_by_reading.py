"""Faults that a reading of all views found, each with the behaviour that took its place."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk
from seqkit.views.bases.order_digest import order_digest

ORDER = sk.shuffle(range(1001), seed=0)


def three() -> Iterator[int]:
    yield from range(3)


class Calls:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, item: Any, rng: Any = None) -> Any:
        self.count += 1
        return item


def test_a_store_of_one_rank_is_refused_by_another(tmp_path: Path) -> None:
    list(sk.add_cache(sk.shard(range(10), 0, 2), 10, store=tmp_path / "s"))
    with pytest.raises(ValueError, match="has another plan: order"):
        list(sk.add_cache(sk.shard(range(10), 1, 2), 10, store=tmp_path / "s"))


def test_all_shares_have_one_digest_however_the_rest_is_dealt() -> None:
    for even in (None, "pad", "drop"):
        assert len({order_digest(sk.shard(ORDER, rank, 4, even=even)) for rank in range(4)}) == 1


def test_a_diamond_of_40_levels_is_built_and_keyed_at_once() -> None:
    view: sk.View[Any] = sk.random_map(Calls(), range(2), seed=0)
    began = time.process_time()
    for _ in range(40):
        view = sk.collate([view, view])
    assert len(view.at_epoch(1)) == 2
    assert time.process_time() - began < 2  # 2**40 steps would take hours


def test_a_view_and_its_epoch_0_share_a_cache() -> None:
    computed = Calls()
    kept = sk.add_cache(sk.random_map(computed, range(5), seed=0), 100)
    assert list(kept) == list(kept.at_epoch(0)) == [*range(5)]
    assert computed.count == 5


def test_epochs_of_a_share_in_another_epoch_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        passes = sk.epochs(sk.shard(ORDER, 3, 4, even="pad").at_epoch(1), 2)
        assert len(list(passes)) == len(passes)


@pytest.mark.parametrize("place", [0, 1])
def test_a_stream_beside_a_longer_sequence_is_refused_by_name(place: int) -> None:
    sequences: list[Any] = [[1, 2, 3, 4]]
    sequences.insert(place, sk.uniter(three))
    with pytest.raises(ValueError, match=f"collate: .* sequence {place} ends after 3 items"):
        list(sk.collate(sequences))


def test_the_head_of_a_filter_reads_nothing_when_it_is_built_and_no_item_twice() -> None:
    asked = Calls()
    first = sk.filter(asked, range(1, 100_000)).head(2)
    assert asked.count == 0
    assert (next(iter(first)), len(first), list(first)) == (1, 2, [1, 2])
    assert asked.count <= 3
    opened = Calls()
    assert list(sk.flatten(sk.smap(opened, [[1, 2], [3]] * 1000)).head(2)) == [1, 2]
    assert opened.count <= 2


def test_a_data_set_with_batched_reads_is_read_once() -> None:
    class Rows:
        def __init__(self) -> None:
            self.read: list[int] = []

        def __len__(self) -> int:
            return 6

        def __getitem__(self, i: int) -> int:
            self.read.append(i)
            return i

        def __getitems__(self, indices: list[int]) -> list[int]:
            self.read += indices
            return indices

    rows = Rows()
    assert list(sk.batch(sk.view(rows), 3)) == [[0, 1, 2], [3, 4, 5]]
    assert rows.read == [*range(6)]


def test_a_step_back_in_a_stream_copies_no_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = sk.uniter(lambda: iter(range(100)))
    assert stream[5] == 5
    for name in ("random.getstate", "numpy.random.get_state"):
        monkeypatch.setattr(name, lambda *_: pytest.fail("read the state of a global generator"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (stream[3], stream[5]) == (3, 5)


def test_the_error_of_a_leaf_offers_no_inputs() -> None:
    class Broken:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, i: int) -> int:
            raise OSError("unreadable")

    with pytest.raises(sk.EvaluationError) as caught:
        sk.view(Broken())[0]
    assert "inputs" not in str(caught.value)
    assert repr(sk.fallback("skip", [1])) == "fallback('skip', <list of 1>)"


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_generator_in_a_pipeline_for_processes_has_a_remedy(context: Any) -> None:
    stream = sk.uniter(i for i in range(3))
    refused = pytest.raises((TypeError, RuntimeError), match=r"method='thread'")
    with sk.prefetch(sk.smap(abs, stream), 1, "process", context=context) as ahead, refused:
        list(ahead)
    assert list(sk.prefetch(sk.smap(abs, stream), 1, "thread")) == [0, 1, 2]


def test_a_view_of_a_user_that_is_shorter_has_another_order() -> None:
    class Lagged(sk.View[Any]):
        def __init__(self, source: sk.View[Any], lag: int) -> None:
            super().__init__((source,), len(source) - lag)
            self.lag = lag

        def _get(self, i: int) -> Any:
            return self._sources[0]._get(i), self._sources[0]._get(i + self.lag)

        def _rebuild(self, sources: tuple[sk.View[Any], ...]) -> sk.View[Any]:
            return Lagged(sources[0], self.lag)

    first, second = (sk.DataLoader(Lagged(sk.view(range(100)), lag), 4) for lag in (4, 3))
    batches = iter(first)
    next(batches)
    with pytest.raises(ValueError, match="has another order"):
        second.load_state_dict(first.state_dict())
