"""What is special about `bins`: the packing of the sequential algorithm, in windows, equal in all epochs."""

import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqkit as sk
from seqkit.views import bins as module
from seqkit.views.bins import bins

from ..registry import best_fit_decreasing

quick = settings(max_examples=150, derandomize=True, deadline=None, database=None)
LONG = ["split", "clip", "drop", "error"]
some_lengths = st.lists(st.integers(1, 30), max_size=40)


def rows(view):
    return [group.tolist() for group in view]


def shapes(view):
    return [[stop - start for _, start, stop in group.tolist()] for group in view]


def lognormal(n, seed=0, mean=1023):
    return np.maximum(np.random.default_rng(seed).lognormal(np.log(mean) - 0.5, 1, n), 1).astype(np.uint32)


# -------------------------------------------------------------------- the packing


@quick
@given(some_lengths, st.integers(1, 30), st.sampled_from(LONG), st.none() | st.integers(1, 4))
def test_the_bins_are_those_of_the_sequential_algorithm(lengths, capacity, long, most):
    capacity = max([capacity, *lengths]) if long == "error" else capacity
    expected = best_fit_decreasing(lengths, capacity, long, most or 1 << 60)
    assert rows(bins(lengths, capacity, long=long, max_items=most)) == expected


@pytest.mark.parametrize("capacity", range(1, 71))
def test_every_capacity_packs_each_document_once_and_no_bin_is_too_full(capacity):
    lengths = np.random.default_rng(capacity).integers(1, 90, 80)
    for long in ("split", "clip", "drop"):
        found = rows(bins(lengths, capacity, long=long))
        assert all(sum(stop - start for _, start, stop in group) <= capacity for group in found)
        pieces = sorted(row for group in found for row in group)
        if long == "split":
            ends = {(document, stop): start for document, start, stop in pieces}
            for document, length in enumerate(lengths.tolist()):
                while length:
                    length = ends.pop((document, length))
            assert not ends
        else:
            kept = [d for d in range(80) if long == "clip" or lengths[d] <= capacity]
            assert pieces == [[d, 0, min(int(lengths[d]), capacity)] for d in kept]
        assert len(found) == len(best_fit_decreasing(lengths.tolist(), capacity, long))


@pytest.mark.parametrize("capacity", [2049, 4096, 8192])
def test_hardly_any_room_is_left_over(capacity):
    lengths = lognormal(40_000)
    view = bins(lengths, capacity, long="split")
    assert lengths.sum() / (len(view) * capacity) >= 0.999


def test_no_token_is_lost_when_documents_are_split():
    lengths = lognormal(800, mean=3000)
    found = np.concatenate(list(bins(lengths, 512, long="split")))
    assert (np.bincount(found[:, 0], found[:, 2] - found[:, 1]) == lengths).all()


def test_a_document_that_fills_a_bin_is_not_long():
    for long in LONG:
        assert rows(bins([4, 4], 4, long=long)) == [[[0, 0, 4]], [[1, 0, 4]]]


def test_a_very_long_document_is_found_at_every_piece():
    view = bins([7, 100_000, 3], 8, long="split")
    assert view[0].tolist() == [[1, 0, 8]]
    assert view[12_499].tolist() == [[1, 99_992, 100_000]]
    assert view[12_500].tolist() == [[0, 0, 7]]
    assert len(view) == 12_502


def test_no_documents_make_no_bins():
    assert rows(bins([], 4, long="split")) == rows(bins([9, 9], 4, long="drop")) == []


# -------------------------------------------------------------------- windows


@pytest.fixture
def small_windows(monkeypatch):
    monkeypatch.setattr(module, "WINDOW", 16)
    monkeypatch.setattr(module, "KEPT", 2)


@quick
@given(lengths=st.lists(st.integers(1, 30), max_size=70), capacity=st.integers(1, 30))
def test_each_window_is_packed_alone(lengths, capacity):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WINDOW", 16)
        patch.setattr(module, "KEPT", 2)
        view = bins(lengths, capacity, long="split")
        expected = []
        for start in range(0, len(lengths), 16):
            part = best_fit_decreasing(lengths[start : start + 16], capacity, "split")
            expected += [[[document + start, *cut] for document, *cut in group] for group in part]
        assert rows(view) == expected
        assert [view[i].tolist() for i in range(len(view))[::-1]] == expected[::-1]


@pytest.mark.usefixtures("small_windows")
def test_few_windows_are_kept_and_none_is_pickled():
    view = bins(range(1, 101), 100, long="error")
    fresh = len(pickle.dumps(view))
    list(view)
    assert [number for number, _ in view._packing.kept] == [5, 6]
    assert len(pickle.dumps(view)) - fresh < 200  # the numbers of bins
    assert rows(pickle.loads(pickle.dumps(view))) == rows(view)


@pytest.mark.usefixtures("small_windows")
def test_a_window_is_packed_once_for_many_threads(monkeypatch):
    packed = []
    pack = module.PackingRule.pack
    monkeypatch.setattr(module.PackingRule, "pack", lambda *args: packed.append(args[1]) or pack(*args))
    view = bins(range(1, 17), 16, long="error")
    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(view.__getitem__, range(len(view))))) == len(view)
    assert packed == [0]


@pytest.mark.usefixtures("small_windows")
def test_shuffle_groups_shuffles_the_windows_and_the_bins_in_each():
    view = bins([3] * 100, 7, long="error")
    order = sk.shuffle_groups(view, seed=0)
    windows = [group[0, 0] // 16 for group in order]
    assert sum(a != b for a, b in pairwise(windows)) == 6
    assert sorted(rows(order)) == sorted(rows(view))
    assert rows(order.at_epoch(1)) != rows(order)


def test_the_index_takes_at_most_seven_bytes_a_document():
    for mean, capacity in ((1023, 4096), (1023, 513), (300, 301), (9, 4096)):
        view = bins(lognormal(60_000, mean=mean), capacity, long="split")
        view[0]
        (window,) = (kept.get(None) for kept in view._packing.kept.values())
        sums = sum(each.values.nbytes + each._sampled.nbytes for each in (window.full, window.pieces))
        assert window.documents.nbytes + sums <= 7 * 60_000


# -------------------------------------------------------------------- epochs


def test_the_seed_exchanges_documents_of_one_length_only():
    lengths = np.random.default_rng(0).integers(1, 12, 200)
    still, view = bins(lengths, 20, long="split"), bins(lengths, 20, long="split", seed=1)
    epochs = [view.at_epoch(e) for e in range(4)]
    assert len({str(rows(epoch)) for epoch in [still, *epochs]}) == 5
    for epoch in epochs:
        assert shapes(epoch) == shapes(still)
        assert len(epoch) == len(still)
        assert Counter(np.concatenate(list(epoch))[:, 0].tolist()) == Counter(
            np.concatenate(list(still))[:, 0].tolist()
        )
    assert rows(bins(lengths, 20, long="split", seed=2)) != rows(view)
    assert rows(still.at_epoch(3)) == rows(still)


def test_the_histograms_are_packed_once_for_all_epochs(monkeypatch):
    packed = []
    best_fit = module.best_fit
    monkeypatch.setattr(module, "best_fit", lambda *args: packed.append(1) or best_fit(*args))
    view = bins([3, 1, 2], 4, long="error", seed=0)
    assert [len(view.at_epoch(e)) for e in range(3)] == [2, 2, 2]
    assert packed == [1]


def test_the_bins_of_a_seed_never_change_between_versions():
    view = bins([2, 3, 2, 3, 2, 1, 1, 9], 5, long="split", seed=7)
    assert rows(view.at_epoch(2)) == BINS


BINS = [
    [[7, 0, 5]],
    [[7, 5, 9], [6, 0, 1]],
    [[3, 0, 3], [4, 0, 2]],
    [[1, 0, 3], [0, 0, 2]],
    [[2, 0, 2], [5, 0, 1]],
]


def test_the_fingerprint_depends_on_all_that_decides_the_bins():
    def digest(lengths=(3, 1, 2), capacity=4, **options):
        return sk.views.bases.order_digest.order_digest(
            bins(lengths, capacity, **{"long": "split", **options})
        )

    changes = [{"lengths": (3, 2, 1)}, {"capacity": 5}, {"long": "clip"}, {"max_items": 2}, {"seed": 0}]
    assert len({digest(), *(digest(**change) for change in changes)}) == 6
    assert digest() == digest(lengths=np.array([3, 1, 2], np.uint8))


# -------------------------------------------------------------------- arguments


def test_lengths_are_read_by_position_from_all_kinds_of_sequences():
    pandas = pytest.importorskip("pandas")
    for lengths in (
        [3, 5, 2],
        np.array([3, 5, 2], np.uint8),
        iter([3, 5, 2]),
        sk.smap(len, ["abc", "abcde", "ab"]),
        pandas.Series([3, 5, 2], index=[2, 1, 0]),
    ):
        assert rows(bins(lengths, 5, long="error")) == [[[1, 0, 5]], [[0, 0, 3], [2, 0, 2]]]


def test_an_array_of_lengths_is_not_copied():
    lengths = np.arange(1, 9)
    assert bins(lengths, 9, long="error")._packing.lengths is lengths


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([3, 0, 2], ValueError, "bins: lengths must be at least 1, got 0 at position 1"),
        (np.array([3, -1]), ValueError, "bins: lengths must be at least 1, got -1 at position 1"),
        ([3, 1.5], TypeError, "bins: lengths must be ints, one for each document, got float64"),
        ([True, False], TypeError, "bins: lengths must be ints"),
        ([[1, 2], [3, 4]], TypeError, "bins: lengths must be"),
        (["3"], TypeError, "bins: lengths must be ints"),
        (5, TypeError, "bins: lengths must be ints"),
        ([3, 9], ValueError, "bins: lengths must be at most capacity=4, got 9 at position 1. Pass long="),
    ],
)
def test_lengths_that_do_not_fit_are_refused(lengths, error, message):
    with pytest.raises(error, match=message):
        bins(lengths, 4, long="error")


def test_what_happens_to_long_documents_must_be_said():
    with pytest.raises(TypeError, match="long"):
        bins([1], 4)


def test_repr_shows_the_arguments():
    view = bins([1, 2], 4, long="clip", max_items=3, seed=5)
    assert repr(view) == "bins(<ndarray of 2>, 4, long='clip', max_items=3, seed=5)"
    assert repr(bins([1, 2], 4, long="drop")) == "bins(<ndarray of 2>, 4, long='drop')"
