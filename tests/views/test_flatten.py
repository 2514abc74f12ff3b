"""What is special about `flatten`: offsets of any lengths, known or found out by one scan."""

import copy
import os
import pickle
import threading
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

import numpy as np
import pytest

import seqkit as sk
from seqkit.testing import CountingSource, ExplodingSource, FailingSource
from seqkit.testing.failing import Failure, by_index, by_iteration
from seqkit.testing.sources import UnsizedSource
from seqkit.views.flatten import flatten

from ..helpers import (
    FailsAt,
    Naturals,
    agree_after_errors,
    mostly_stress,
    past_errors,
)

NESTED = [["a", "b"], [], ("c",), "de", [], np.array(["f"]), sk.view("gh")[::-1], []]
FLAT = list("abcdefhg")


def test_the_items_of_every_kind_of_sequence_follow_each_other():
    view = flatten(NESTED)
    assert len(view) == 8
    assert list(view) == [view[i] for i in range(8)] == FLAT
    assert list(view[5:1:-1]) == FLAT[5:1:-1]
    assert list(view._getmany([7, 0, 0, 3])) == ["g", "a", "a", "d"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("make", [flatten, lambda s: flatten(s, [3, 3]), lambda s: sk.unbatch(s, 3)])
def test_tables_and_columns_in_a_sequence_are_read_by_position(library, make):
    frame = pytest.importorskip(library).DataFrame({"x": [7, 8, 9]})
    if library == "pandas":
        frame.index = [2, 1, 0]
    for inner, items in ((frame, [{"x": 7}, {"x": 8}, {"x": 9}]), (frame["x"], [7, 8, 9])):
        for read in (
            list,
            lambda view: [view[i] for i in range(6)],
            lambda view: view.__getitems__(range(6)),
        ):
            assert read(make([inner, inner])) == items * 2


@pytest.mark.parametrize("nested", [[], [[]], [[], [], []]])
def test_nothing_and_empty_sequences_make_an_empty_view(nested):
    assert list(flatten(nested)) == []
    assert len(flatten(nested, [0] * len(nested))) == 0


def test_batches_and_windows_are_undone():
    for n in range(8):
        assert list(flatten(sk.batch(range(n), 3))) == list(range(n))
    assert list(flatten(flatten([[[1], [2, 3]], [], [[4]]]))) == [1, 2, 3, 4]


@pytest.mark.parametrize("lengths", [[2, 0, 1, 2, 0, 1, 2, 0], np.array([2, 0, 1, 2, 0, 1, 2, 0], np.uint8)])
def test_known_lengths_save_the_scan(lengths):
    source = CountingSource(NESTED)
    view = flatten(source, lengths)
    assert len(view) == 8
    assert not source.reads
    assert view[2] == "c"
    assert source.reads == {2: 1}
    assert list(flatten(NESTED, iter(lengths))) == FLAT


def test_the_scan_waits_until_it_is_needed_and_is_done_once():
    source = CountingSource(NESTED)
    view = flatten(source)
    outer = flatten(sk.view(view), [1] * 8)
    assert not source.reads
    assert "length not known yet" in sk.explain(view)
    assert len(view) == 8
    assert source.reads == Counter(range(8))
    assert len(view) == len(outer) == 8
    assert source.reads == Counter(range(8))
    assert len(pickle.loads(pickle.dumps(view))._found.get(None).ends) == 8


def test_in_order_every_sequence_is_read_once_and_empty_ones_never():
    source = CountingSource(NESTED)
    view = flatten(source, [2, 0, 1, 2, 0, 1, 2, 0])
    for read in (list, lambda v: list(reversed(v)), lambda v: list(v[1:]), lambda v: sk.batch(v, 100)[0]):
        source.reads.clear()
        read(view)
        assert source.reads == Counter([0, 2, 3, 5, 6])
    source.reads.clear()
    assert list(view[3:6]) == ["d", "e", "f"]
    assert source.reads == Counter([3, 5])


def test_a_shuffle_above_reads_what_it_must():
    source = CountingSource(NESTED)
    view = sk.shuffle(flatten(source, [2, 0, 1, 2, 0, 1, 2, 0]), seed=0)
    assert sorted(view) == sorted(FLAT)
    assert sum(source.reads.values()) <= 8


@pytest.mark.parametrize("lengths", [[2, 2], [3, 1], [1, 2]])
def test_a_sequence_of_another_length_fails_for_its_items(lengths):
    view = flatten([[1, 2], [3]], lengths)
    bad = [which for which, size in enumerate([2, 1]) if lengths[which] != size]
    found = by_index(view)
    assert len(found) == sum(lengths)
    assert by_iteration(iter(view)) == found
    for i, item in enumerate(found):
        which = 0 if i < lengths[0] else 1
        assert isinstance(item, Failure) == (which in bad)
    with pytest.raises(
        sk.EvaluationError, match=f"ValueError: flatten: sequence {bad[0]} has .* items, expected"
    ):
        list(view)


@pytest.mark.parametrize("failing", [{0}, {1}, {2, 3}, {0, 1, 2, 3, 4}], ids=str)
def test_a_sequence_that_fails_fails_its_own_items_only(failing):
    rows = [[1, 2, 3], [], [4], [5, 6], [7]]
    view = flatten(FailingSource(rows, failing), [3, 0, 1, 2, 1])
    found = agree_after_errors(view)
    expected = [None if which in failing else item for which, row in enumerate(rows) for item in row]
    assert [None if isinstance(item, Failure) else item for item in found] == expected


def test_a_failing_item_fails_alone():
    inner = sk.smap(FailsAt(2), [1, 2, 3])
    view = flatten([inner, [4]])
    assert [isinstance(item, Failure) for item in agree_after_errors(view)] == [False, True, False, False]
    with pytest.raises(sk.EvaluationError, match=r"smap\[1\] failed: ValueError: bad 2"):
        view[1]


@pytest.mark.parametrize("bad", [5, iter([1]), None])
def test_what_has_no_length_fails_the_scan_with_its_index(bad):
    view = flatten([[1], bad])
    with pytest.raises(
        sk.EvaluationError, match=r"flatten\[1\] failed measuring item 1 of the sequence: TypeError"
    ):
        len(view)


def test_a_sequence_without_length_is_iterated_and_has_none():
    view = flatten(UnsizedSource([[1, 2], [], [3]]))
    assert list(view) == [view[i] for i in range(3)] == [1, 2, 3]
    with pytest.raises(TypeError, match="flatten has no length"):
        len(view)
    for source in (UnsizedSource([[1, 2], [], [3]]), sk.cycle([[1, 2]])):
        with pytest.raises(TypeError, match="flatten: the sequence needs a length"):
            flatten(source, [2, 0])


def test_lengths_that_are_a_view_follow_a_shuffle_from_epoch_to_epoch():
    files, sizes = ["a", "bc", "def", ""], [1, 2, 3, 0]
    source = CountingSource(files)
    view = flatten(sk.shuffle(source, seed=0), sk.shuffle(sizes, seed=0))
    for epoch in range(4):
        keyed = view.at_epoch(epoch)
        assert len(keyed) == 6
        assert not source.reads
        assert "".join(keyed) == "".join(sk.shuffle(files, seed=0, epoch=epoch))
        source.reads.clear()
    assert repr(view) == "flatten(shuffle(<CountingSource of 4>, seed=0), shuffle(<list of 4>, seed=0))"


def test_lengths_that_are_a_view_are_read_when_they_are_needed():
    view = flatten(["ab"], sk.view(ExplodingSource([2])))
    with pytest.raises(sk.EvaluationError, match="item 0 was read"):
        len(view)
    for bad, kind in ((-1, ValueError), ("2", TypeError)):
        with pytest.raises(sk.EvaluationError, match=r"flatten: lengths\[0\] must be") as caught:
            len(flatten(["ab"], sk.view([bad])))
        assert type(caught.value.__cause__) is kind


@pytest.mark.parametrize("method", ["inline", "thread"])
def test_a_prefetch_below_receives_the_plan(method):
    source = CountingSource([[x] * (x % 3) for x in range(20)])
    expected = [x for x in range(20) for _ in range(x % 3)]
    with sk.prefetch(source, 2, method) as ahead:
        view = flatten(ahead, [x % 3 for x in range(20)])
        for plan in (range(len(expected)), range(3, 9), range(18, -1, -2), [3, 3, 4, 0], np.array([1, 0])):
            source.reads.clear()
            assert list(view._iter(plan)) == [expected[i] for i in plan]
            assert not any(source.reads[x] for x in range(0, 20, 3))


# -------------------------------------------------------------------- iterating while measuring


def twice(i):
    return [i, i]


@pytest.mark.parametrize("make", [lambda: sk.uniter(count), Naturals, lambda: sk.cycle(range(9))])
def test_an_endless_sequence_streams_and_is_read_on_demand(make):
    view = flatten(sk.smap(twice, make()))
    assert list(islice(view, 5)) == [0, 0, 1, 1, 2]
    assert list(islice(sk.batch(view, 3), 2)) == [[0, 0, 1], [1, 2, 2]]
    assert [view[5], view[4], view[7]] == [2, 2, 3]
    assert list(view[2:8:3]) == [1, 2]
    assert list(view.head(3)) == [0, 0, 1]


@pytest.mark.parametrize(
    "read", [list, lambda v: [*v], lambda v: [x for x in v if x], lambda v: list(sk.smap(str, v))]
)
def test_every_sequence_is_read_once(read):
    source = CountingSource(NESTED)
    view = flatten(source)
    assert read(view) == FLAT
    assert source.reads == Counter(range(8))
    assert len(view) == 8
    assert source.reads == Counter(range(8))


def test_a_loop_reads_only_as_far_as_it_goes():
    source = CountingSource(["ab", "cd", "ef"])
    items = iter(flatten(source))
    assert [next(items), next(items), next(items)] == ["a", "b", "c"]
    assert source.reads == {0: 1, 1: 1}


def test_a_loop_continues_behind_what_fails():
    view = flatten(FailingSource(["ab", "cd", "ef"], {1}))
    found = past_errors(iter(view))
    assert [x if isinstance(x, str) else type(x) for x in found] == ["a", "b", sk.EvaluationError, "e", "f"]
    with pytest.raises(sk.EvaluationError):
        len(view)
    inner = flatten([sk.smap(FailsAt(2), [1, 2, 3]), [4]])
    assert [x if isinstance(x, int) else type(x) for x in past_errors(iter(inner))] == [
        1,
        sk.EvaluationError,
        3,
        4,
    ]
    assert inner._found.known  # the lengths are right


# -------------------------------------------------------------------- each sequence is loaded once per reader

FILES, ITEMS = 6, 40


class Files:
    """Sequences in files. Each load is written to a log, with its process and thread."""

    def __init__(self, log):
        self.log = log

    def __len__(self):
        return FILES

    def __getitem__(self, which):
        with open(self.log, "a") as log:
            log.write(f"{os.getpid()} {threading.get_ident()} {which}\n")
        return [which * ITEMS + i for i in range(ITEMS)]


def loads(log):
    """Return how often each worker has loaded each file."""
    found = Counter(log.read_text().splitlines())
    log.unlink()
    return found


ORDERS = {
    "groups of flatten": lambda files: sk.shuffle_groups(flatten(files, [ITEMS] * FILES), ITEMS, seed=0),
    "backwards": lambda files: flatten(files, [ITEMS] * FILES)[::-1],
    "flatten": lambda files: flatten(files, [ITEMS] * FILES),
    "unbatch": lambda files: sk.unbatch(files, ITEMS, 0),
    "flatten of a map": lambda files: flatten(sk.smap(list, files), [ITEMS] * FILES),
    "groups of unbatch": lambda files: sk.shuffle_groups(sk.unbatch(files, ITEMS, 0), ITEMS, seed=0),
    "a map of flatten": lambda files: sk.smap(abs, flatten(files, [ITEMS] * FILES)),
}
WORKERS = [(0, "thread"), (1, "thread"), (2, "thread"), (1, "process"), (2, "process")]


@pytest.mark.parametrize(("workers", "method"), WORKERS)
@pytest.mark.parametrize("name", mostly_stress(*ORDERS, here=2))
@pytest.mark.parametrize("size", [pytest.param(4, marks=pytest.mark.stress), 7])
def test_a_loader_loads_each_file_once_per_worker(workers, method, name, size, tmp_path):
    log = tmp_path / "loads"
    loader = sk.DataLoader(
        ORDERS[name](Files(log)), size, num_workers=workers, method=method, batch_transform=list
    )
    for _ in range(2):
        assert sorted(int(x) for batch in loader for x in batch) == list(range(FILES * ITEMS))
        found = loads(log)
        assert max(found.values()) == 1
        assert sum(found.values()) <= max(workers, 1) * FILES


@pytest.mark.parametrize("method", ["thread", "process"])
def test_jobs_of_single_items_load_each_file_once_per_worker(method, tmp_path):
    log = tmp_path / "loads"
    for make in (ORDERS["flatten"], ORDERS["unbatch"]):
        with sk.prefetch(make(Files(log)), 2, method, chunk_size=7) as ahead:
            assert list(ahead) == list(range(FILES * ITEMS))
        assert max(loads(log).values()) == 1


def test_items_read_by_index_in_order_load_each_file_once(tmp_path):
    log = tmp_path / "loads"
    view = ORDERS["flatten"](Files(log))
    assert [view[i] for i in range(FILES * ITEMS)] == list(range(FILES * ITEMS))
    assert sum(loads(log).values()) == FILES


class Loaded(list):
    """A list that can be watched."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def test_one_sequence_is_kept():
    alive = weakref.WeakSet()

    def load(i):
        found = Loaded([i] * 3)
        alive.add(found)
        return found

    view = flatten(sk.smap(load, range(4)), [3] * 4)
    assert (view[0], len(alive)) == (0, 1)
    assert (view[4], len(alive)) == (1, 1)
    assert ([view[3], view[5]], len(alive)) == ([1, 1], 1)
    assert (view.__getitems__([0, 4, 7]), len(alive)) == ([0, 1, 2], 1)
    for other in (pickle.loads(pickle.dumps(flatten(CountingSource("ab"), [1, 1]))), copy.deepcopy(view)):
        assert other._kept.find(2) is None
    del view
    assert len(alive) == 0


def test_threads_keep_their_own_sequences():
    source = CountingSource([[0] * 50, [1] * 50])
    view, together = flatten(source, [50, 50]), threading.Barrier(2)

    def read(which):
        found = []
        for i in range(50):
            together.wait(20)
            found.append(view[which * 50 + i])
        return found

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(read, range(2))) == [[0] * 50, [1] * 50]
    assert source.reads == {0: 1, 1: 1}


def test_a_forked_process_loads_its_own():
    loaded = []

    def load(i):
        loaded.append(os.getpid())
        return [i, loaded[-1]]

    view = flatten(sk.smap(load, range(2)), [2, 2])
    assert view[0] == 0
    with sk.prefetch(view, 1, "process", context="fork") as ahead:
        assert ahead[1] != os.getpid()


def test_lists_in_memory_are_not_kept():
    rows = [[1, 2], [3, 4]]
    view = flatten(rows, [2, 2])
    assert view[0] == 1
    rows[0] = [5, 6]
    assert view[1] == 6


@pytest.mark.parametrize(
    "load", [np.ones, lambda shape: list(np.ones(shape)), lambda shape: sk.view(np.ones(shape))]
)
def test_changing_an_item_in_place_changes_no_later_read(load):
    for view in (flatten(sk.smap(load, [(3, 2)]), [3]), sk.unbatch(sk.smap(load, [(3, 2)]), 3, 0)):
        for items in (view, view.__getitems__([0, 1]), sk.batch(view, 2)[0], [view[0], view[0]]):
            for item in items:
                item += 1
                assert item.tolist() == [2, 2]
