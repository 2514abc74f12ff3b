"""The base class and the leaf: what holds for every view, beyond the laws of `seqkit.testing`."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import seqkit as sk
from seqkit.core.error_path import locate
from seqkit.core.source import Source
from seqkit.testing import CountingSource, ExplodingSource, FailingSource, UnsizedSource

from ..helpers import FailsAt, Naturals, agree_after_errors


def plus_one(x: int) -> int:
    return x + 1


# -------------------------------------------------------------------- sources


def test_a_view_of_a_view_is_that_view() -> None:
    squares = sk.smap(abs, [1])
    assert sk.view(squares) is squares


@pytest.mark.parametrize("thing", [3, None, iter([1]), object()])
def test_what_cannot_be_indexed_is_refused(thing: Any) -> None:
    kind = type(thing).__name__
    hint = ". Make a list of it, or pass it to uniter." if hasattr(thing, "__iter__") else ""
    for make, who in ((sk.view, "view"), (lambda x: sk.batch(x, 2), "batch")):
        with pytest.raises(TypeError, match=f"^{who}: a sequence needs .* got {kind}{hint}$"):
            make(thing)


@pytest.mark.parametrize("thing", [np.int64(3), np.float32(1), np.array(3)])
def test_a_number_of_numpy_is_no_empty_sequence(thing: Any) -> None:
    with pytest.raises(TypeError, match="smap: a sequence needs"):
        sk.smap(abs, thing)
    assert list(sk.view(np.str_("ab"))) == ["a", "b"]


def test_a_dict_is_a_sequence_of_its_ints_also_when_iterated() -> None:
    letters = {0: "a", 1: "b", 2: "c"}
    assert list(sk.view(letters)) == ["a", "b", "c"]
    assert list(sk.smap(str.upper, letters)) == ["A", "B", "C"]
    with pytest.raises(TypeError, match="this dict has other keys, such as 'x'"):
        sk.view({"x": 1})


@pytest.mark.parametrize("flag", [True, np.array(True)], ids=repr)
def test_a_bool_is_no_index(flag: Any) -> None:
    rows = sk.view(np.arange(6).reshape(3, 2))
    with pytest.raises(TypeError, match="source: indices"):
        rows[flag]
    with pytest.raises(TypeError, match="indices must be ints"):
        rows[flag] = 9
    with pytest.raises(TypeError, match="indices must be ints"):
        rows.__getitems__([0, flag])
    assert rows[1].tolist() == [2, 3]


def test_an_array_answers_a_batch_with_one_index_operation() -> None:
    class Watched(np.ndarray[Any, Any]):
        asked: ClassVar[list[Any]] = []

        def __getitem__(self, key: Any) -> Any:
            self.asked.append(key)
            return super().__getitem__(key)

    table = np.arange(20).reshape(10, 2).view(Watched)
    batches = sk.batch(sk.shuffle(sk.gather(table, [7, 1, 1, 3]), seed=0), 4, collate_fn=np.stack)
    Watched.asked.clear()
    assert sorted(batches[0][:, 0].tolist()) == [2, 2, 6, 14]
    fancy = [key for key in Watched.asked if isinstance(key, np.ndarray)]
    assert len(fancy) == 1


def test_writing_to_an_array_goes_through() -> None:
    table = np.zeros(5, int)
    sk.shuffle(table, seed=0)[:] = range(5)
    assert sorted(table.tolist()) == [0, 1, 2, 3, 4]


def test_tuples_ranges_and_strings_refuse_assignment_by_name() -> None:
    for data in ((1, 2), range(2), "ab"):
        with pytest.raises(TypeError, match=f"source: {type(data).__name__}"):
            sk.view(data)[0] = 1


# -------------------------------------------------------------------- sources that read many at once


class Bulk:
    """A data set that is quicker at many items, after PyTorch's ``__getitems__``."""

    def __init__(self, n: int, surplus: int = 0) -> None:
        self.n = n
        self.surplus = surplus
        self.asked: list[list[int]] = []

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        return i * 10

    def __getitems__(self, indices: list[int]) -> list[int]:
        self.asked.append(indices)
        return [i * 10 for i in indices] + [0] * self.surplus


def test_batched_reads_reach_the_source_through_other_views() -> None:
    bulk = Bulk(10)
    batches = sk.batch(sk.smap(plus_one, sk.view(bulk)[::-1]), 4)
    assert batches[1] == [51, 41, 31, 21]
    assert bulk.asked == [[5, 4, 3, 2]]
    assert all(type(i) is int for i in bulk.asked[0])


def test_batched_reads_of_nothing_leave_the_source_alone() -> None:
    bulk = Bulk(10)
    assert sk.view(bulk).__getitems__([]) == []
    assert bulk.asked == []


def test_batched_reads_with_too_many_answers_are_errors() -> None:
    with pytest.raises(sk.EvaluationError, match="__getitems__ returned 3 items for 2") as caught:
        sk.view(Bulk(10, surplus=1)).__getitems__([0, 1])
    assert isinstance(caught.value.__cause__, ValueError)


# -------------------------------------------------------------------- lengths


def test_the_length_of_a_list_that_grows_is_frozen_for_index_and_iteration() -> None:
    items = [1, 2]
    view = sk.view(items)
    items.append(3)
    assert (len(view), list(view), list(sk.smap(plus_one, view)), view[-1]) == (2, [1, 2], [2, 3], 2)
    with pytest.raises(IndexError):
        view[2]


def test_a_list_that_grows_while_it_is_iterated_gives_no_more_items() -> None:
    items = [1, 2, 3]
    seen = []
    for item in sk.view(items):
        items.append(item)
        seen.append(item)
    assert seen == [1, 2, 3]


def test_items_missing_from_a_list_that_shrank_are_errors_for_index_and_iteration() -> None:
    items = [1, 2, 3]
    view = sk.smap(plus_one, items)
    del items[1:]
    found = agree_after_errors(view)
    assert found[0] == 2
    assert [failure.kind for failure in found[1:]] == [sk.EvaluationError] * 2


def test_the_class_of_a_data_set_without_length_is_named() -> None:
    data = sk.view(UnsizedSource("ab"))
    with pytest.raises(TypeError, match=r"<UnsizedSource of \?> has no length"):
        len(data)
    assert repr(data) == "<UnsizedSource of ?>"


def test_a_recursion_error_of_a_function_is_an_error_of_its_item() -> None:
    def endless(x: int) -> int:
        return endless(x) if x == 1 else x

    view = sk.smap(endless, range(3))
    assert list(sk.fallback(lambda error: type(error.__cause__), view)) == [0, RecursionError, 2]
    deep = sk.view(range(3))
    for _ in range(2 * sys.getrecursionlimit()):
        deep = sk.random_map(lambda x, rng: x, deep, seed=0)
    with pytest.raises(RecursionError):
        list(sk.fallback("skip", deep))


def test_a_sequence_of_unknown_length_says_so() -> None:
    view = sk.smap(str, UnsizedSource([1, 2, 3]))
    with pytest.raises(TypeError, match="smap has no length"):
        len(view)
    with pytest.raises(TypeError, match="smap has no length"):
        reversed(view)
    with pytest.raises(IndexError, match="negative index -1 needs a length"):
        view[-1]
    for key in (slice(-1, None), slice(None, None, -1), slice(-2, 2), slice(0, -1)):
        with pytest.raises(IndexError, match=r"need.? a length, and there is none: its end is only known"):
            view[key]


def test_a_sequence_of_unknown_length_ends_where_its_source_does() -> None:
    view = sk.smap(str, UnsizedSource([1, 2, 3]))
    assert list(view) == ["1", "2", "3"]
    assert list(view[1:3]) == ["2", "3"]
    assert list(view[2:0:-1]) == ["3", "2"]
    assert view[2] == "3"
    assert view.index("2") == 1
    assert "4" not in view
    with pytest.raises(IndexError, match="ends before index 3"):
        view[3]


def test_a_slice_behind_an_unknown_end_has_its_length_and_fails_there() -> None:
    part = sk.view(UnsizedSource("abc"))[1:5]
    found = agree_after_errors(part)
    assert (len(part), found[:2]) == (4, ["b", "c"])
    assert [failure.kind for failure in found[2:]] == [IndexError] * 2
    with pytest.raises(
        IndexError, match=r"gather: item 2 is item 3 of its source, and the sequence ends before index 3"
    ):
        part.__getitems__([0, 2])


def test_an_unbounded_sequence_is_sliced_mapped_and_iterated_without_end() -> None:
    squares = sk.smap(lambda i: i * i, Naturals())
    assert list(squares[3:9:2]) == [9, 25, 49]
    assert list(squares[5:2]) == []
    assert list(squares[7:1:-2]) == [49, 25, 9]
    assert list(islice(squares, 4)) == [0, 1, 4, 9]
    assert squares[10**12] == 10**24
    assert squares.index(49) == 7
    with pytest.raises(TypeError, match="smap has no length"):
        len(squares)
    with pytest.raises(
        IndexError, match="a slice from or to the end needs a length, and there is none: it never ends"
    ):
        squares[-5:]


def test_slices_of_an_unbounded_sequence_stay_one_deep() -> None:
    part = Naturals()[10:100][5:][::-1]
    assert part._sources[0]._sources == ()
    assert part[0] == 99


def test_pickling_keeps_why_there_is_no_length() -> None:
    for view in (Naturals(), sk.view(UnsizedSource("ab"))):
        assert pickle.loads(pickle.dumps(view))._n is view._n
        assert copy.deepcopy(view)._n is view._n


# -------------------------------------------------------------------- items and the memory of their source


def readings(view: Any) -> Iterator[Any]:
    """Yield items that were read in every way."""
    yield view[1]
    yield from view
    yield from view[1:]
    yield from view[::-1]
    yield from view[[2, 0]]
    yield from view.__getitems__([1, 2])
    yield from view._getmany(range(3))
    yield from view.batch(2)[0]
    yield from view.window(2)[0]
    yield from sk.smap(lambda row: row, view)
    yield from sk.collate([view])[0]
    yield from sk.shuffle(view, seed=0)
    yield from sk.unbatch(view.batch(2, collate_fn=np.asarray), 2)
    yield from sk.flatten(view.batch(2, collate_fn=np.asarray), [2, 1])
    yield from sk.flatten(view.batch(2, collate_fn=np.asarray))


ARRAYS: dict[str, Callable[[], Any]] = {
    "rows": lambda: np.zeros((3, 2)),
    "images": lambda: np.zeros((3, 2, 2), "uint8"),
    "columns first": lambda: np.zeros((3, 2), order="F"),
    "every second": lambda: np.zeros((6, 2))[::2],
    "masked": lambda: np.ma.zeros((3, 2)),
    "objects": lambda: np.zeros((3, 2), object),
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
def test_changing_an_item_in_place_does_not_change_the_array(make: Any) -> None:
    data = make()
    for row in readings(sk.view(data)):
        row += 1
    assert not data.any()


def test_changing_an_item_in_place_does_not_change_a_file(tmp_path: Path) -> None:
    data = np.memmap(tmp_path / "rows", "f4", "w+", shape=(3, 2))
    for row in readings(sk.view(data)):
        row += 1
        assert type(row) is np.ndarray
    assert not data.any()


def test_changing_a_record_in_place_does_not_change_the_array() -> None:
    data = np.zeros(3, [("x", "i4"), ("y", "f8")])
    for record in (sk.view(data)[1], *sk.view(data), *sk.view(data).batch(2)[0]):
        record["x"] = 1
    assert not data["x"].any()


def test_changing_a_tensor_in_place_does_not_change_its_source() -> None:
    torch = pytest.importorskip("torch")
    for data in (torch.zeros(3, 2), torch.zeros(3)):
        for row in (sk.view(data)[1], *sk.view(data), *sk.view(data)[1:], *sk.view(data).batch(2)[0]):
            row += 1
        assert not data.any()
        with torch.inference_mode():
            data = torch.zeros(3)
            sk.view(data)[1].add_(1)
            assert not data.any()


def test_rows_of_a_read_only_array_are_read_only_and_not_copied() -> None:
    data = np.zeros((3, 2))
    data.flags.writeable = False
    for row in (sk.view(data)[1], *sk.view(data), *sk.view(data).batch(2)[0]):
        assert np.shares_memory(row, data)
        with pytest.raises(ValueError, match="read-only"):
            row += 1


@pytest.mark.parametrize(
    "collate_fn", [np.asarray, np.stack, sk.default_collate, sk.Stack(), sk.Pad()], ids=str
)
def test_batches_of_an_array_are_copies(collate_fn: Any) -> None:
    data = np.zeros((5, 2))
    for view in (sk.view(data), sk.view(data)[1:], sk.view(data)[::2], sk.view(data)[[0, 1]]):
        for batch in view.batch(2, collate_fn=collate_fn):
            array = batch[0] if isinstance(batch, tuple) else batch
            assert not np.shares_memory(array, data)
            array += 1
    for batch in sk.DataLoader(data, 2):
        batch += 1
    assert not data.any()


# -------------------------------------------------------------------- arrays of a view


def test_numpy_makes_an_array_of_a_view() -> None:
    squares = sk.smap(lambda x: x * x, range(4))
    assert np.asarray(squares).tolist() == [0, 1, 4, 9]
    assert np.asarray(squares, "float32").dtype == np.float32
    assert np.array(sk.view([])).shape == (0,)


def test_an_array_of_a_view_is_a_copy_of_its_source() -> None:
    data = np.arange(4)
    np.asarray(sk.view(data))[0] = 9
    assert data[0] == 0
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # earlier versions do not pass `copy` on
        with pytest.raises(ValueError, match="always a copy"):
            np.array(sk.view(data), copy=False)


# -------------------------------------------------------------------- repr


def test_repr_shows_the_expression() -> None:
    view = sk.batch(sk.shuffle(sk.smap(plus_one, sk.view([1, 2, 3])[1:]), seed=4), 2)
    assert repr(view) == "batch(shuffle(smap(plus_one, gather(<list of 3>, range(1, 3))), seed=4), 2)"
    assert repr(sk.view(UnsizedSource("ab"))) == "<UnsizedSource of ?>"


def test_repr_of_wide_and_deep_expressions_is_bounded() -> None:
    wide = sk.collate([range(3)] * 1000)
    assert len(repr(wide)) < 200
    deep = sk.view([1])
    for _ in range(12):
        deep = sk.collate([deep] * 4)
    assert len(repr(deep)) < 1000
    long = sk.gather(range(10**6), np.arange(10**6))
    assert repr(long) == "gather(<range of 1000000>, <1000000 indices>)"


# -------------------------------------------------------------------- epochs


def test_an_expression_without_chance_is_its_own_in_every_epoch() -> None:
    view = sk.batch(sk.smap(plus_one, [1, 2]), 2)
    assert view.at_epoch(3) is view


def test_an_epoch_reaches_every_random_node_and_reads_nothing() -> None:
    source = ExplodingSource(range(100))
    view = sk.batch(sk.smap(plus_one, sk.shuffle(source, seed=0)), 10)
    again = view.at_epoch(2)
    assert "epoch=2" in repr(again)
    assert again._site == view._site


def test_the_parts_of_an_expression_that_are_not_random_are_shared_by_all_epochs() -> None:
    base = sk.smap(plus_one, range(10))
    assert sk.shuffle(base, seed=0).at_epoch(1)._sources == (base,)


# -------------------------------------------------------------------- depth


def one_more(view: sk.View[Any]) -> sk.View[Any]:
    return sk.smap(plus_one, view)


def chain(depth: int) -> sk.View[Any]:
    view = sk.shuffle(range(3), seed=0)
    for _ in range(depth):
        view = one_more(view)
    return view


def test_a_chain_of_500_maps_is_read_shown_pickled_and_copied() -> None:
    view, order = chain(500), sk.shuffle(range(3), seed=0)
    items, others = ([i + 500 for i in order.at_epoch(epoch)] for epoch in (0, 2))
    for same in (view, pickle.loads(pickle.dumps(view)), copy.deepcopy(view)):
        assert (same[1], list(same), list(same[::-1])) == (items[1], items, items[::-1])
        assert list(same.batch(2)) == [items[:2], items[2:]]
    assert list(view.at_epoch(2)) == others
    assert len(repr(view)) < 1000
    assert sk.explain(view).count("shuffle") == 1


def test_a_chain_of_2000_maps_is_read_too() -> None:
    view = chain(2000)
    assert sorted(view) == sorted(view[:]) == sorted([view[0], view[1], view[-1]]) == [2000, 2001, 2002]


def test_the_length_of_a_chain_of_500_maps_is_found_when_it_is_needed() -> None:
    view = sk.filter(bool, range(4))
    for _ in range(500):
        view = one_more(view)
    assert (len(view), list(view)) == (3, [501, 502, 503])


def test_the_layer_that_fails_is_named_in_a_deep_chain(monkeypatch: Any) -> None:
    monkeypatch.setattr("seqkit.core.view.is_debugging", True)
    layers = [chain(250)]
    layers.append(sk.smap(FailsAt(251), layers[0]))
    view = layers[-1]
    for _ in range(249):
        view = sk.smap(plus_one, view)
    with pytest.raises(sk.EvaluationError) as caught:
        pickle.loads(pickle.dumps(view))[1]
    assert caught.value.view._site == layers[1]._site
    with pytest.raises(sk.EvaluationError) as caught:
        view[1]
    assert caught.value.view is layers[1]
    assert len(caught.value.path) == 250


def many_calls_deep(x: int, calls: int = 20) -> int:
    return many_calls_deep(x, calls - 1) if calls else x


@pytest.mark.parametrize("f", [plus_one, many_calls_deep])
def test_expressions_too_deep_to_read_raise_a_plain_recursion_error(f: Any) -> None:
    raised: set[type] = set()
    for start in (sk.smap(f, [0]), sk.concatenate([sk.smap(f, [0])])):
        view = start
        for _ in range(520):
            view = sk.concatenate([view[:]])
            try:
                view[0]
            except Exception as error:
                raised.add(type(error))
    assert raised == {RecursionError}


# -------------------------------------------------------------------- errors


def test_an_error_has_the_path_to_the_item_that_failed() -> None:
    numbers = sk.smap(FailsAt(7), range(10))
    batches = sk.batch(sk.shuffle(numbers, seed=0), 3)
    with pytest.raises(sk.EvaluationError) as caught:
        list(batches)
    error = caught.value
    place = list(sk.shuffle(range(10), seed=0)).index(7)
    assert [(view._name, i) for view, i in error.path] == [
        ("batch", place // 3),
        ("shuffle", place),
        ("smap", 7),
    ]
    assert (error.view, error.index) == (numbers, 7)
    assert f"path: batch[{place // 3}] → shuffle[{place}] → smap[7]" in str(error)


def test_the_path_to_an_item_skips_items_out_of_range() -> None:
    numbers = sk.smap(FailsAt(1), range(3))
    picked = sk.gather(numbers, [1, 99])
    with pytest.raises(sk.EvaluationError) as caught:
        sk.batch(picked, 2)[0]
    assert [(view._name, i) for view, i in caught.value.path] == [("batch", 0), ("gather", 0), ("smap", 1)]


def test_an_error_says_where_its_view_was_made_if_that_is_asked_for(monkeypatch: Any) -> None:
    with pytest.raises(sk.EvaluationError) as caught:
        sk.smap(FailsAt(1), range(3))[1]
    assert "made at" not in str(caught.value)
    monkeypatch.setattr("seqkit.core.view.is_debugging", True)
    numbers = sk.smap(FailsAt(1), range(3))
    with pytest.raises(sk.EvaluationError, match=r"smap made at .*test_view\.py:\d+ in test_an_error_says"):
        numbers[1]


def test_an_error_does_not_spend_the_items_read_beside_it() -> None:
    source = CountingSource(range(4))
    view = sk.smap(FailsAt(1, 2), source)
    agree_after_errors(view)
    assert set(source.reads.values()) == {3}


def test_a_view_that_defines_too_little_says_what_is_missing() -> None:
    class Empty(sk.View[Any]):
        pass

    view = Empty((), 1)
    with pytest.raises(NotImplementedError, match="Empty must define _get"):
        view[0]
    with pytest.raises(NotImplementedError, match="Empty must define _rebuild"):
        view._rebuild(())


def test_sources_of_a_view_must_be_views() -> None:
    class Reversed(sk.View[Any]):
        def __init__(self, source: Any) -> None:
            super().__init__((source,), len(source))

    with pytest.raises(TypeError, match="reversed: sources"):
        Reversed([1, 2])


def test_views_are_sequences() -> None:
    from collections.abc import Sequence

    assert isinstance(sk.view([1]), Sequence)
    assert isinstance(sk.view([1]), Source)


# -------------------------------------------------------------------- writing


def test_nothing_is_written_where_a_part_of_the_item_cannot_be() -> None:
    items = [1, 2]
    pairs = sk.collate([items, (3, 4)])
    with pytest.raises(TypeError, match="does not support assignment"):
        pairs[0] = (8, 9)
    with pytest.raises(TypeError, match="does not support assignment"):
        sk.concatenate([items, (3, 4)])[0:3] = [8, 8, 8]
    assert items == [1, 2]


def test_fancy_assignment_is_refused() -> None:
    view = sk.view([1, 2, 3])
    for key in ([0, 1], np.array([True, False, True]), (0, 1)):
        with pytest.raises(TypeError, match=r"^source: items are assigned by an int or a slice, got"):
            view[key] = [7, 8]
    view[[0, 2]][:] = [7, 8]
    assert list(view) == [7, 2, 8]


@pytest.mark.parametrize(
    "key", [{1}, frozenset([0]), {1: 0}, bytearray(b"01"), b"01", "01", (0, 1), 1.0], ids=repr
)
def test_sets_mappings_and_text_are_no_index_lists(key: Any) -> None:
    kind = type(key).__name__
    text = f"smap: indices must be ints, slices, index arrays or boolean masks, got {kind}"
    with pytest.raises(TypeError, match=f"^{text}($|. For a column use )"):
        sk.smap(abs, [1, 2])[key]


# -------------------------------------------------------------------- order


class AsTheyCome(sk.View[Any]):
    """Gives its items in another order where it is iterated itself, as a node may that works ahead."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__((), len(items))
        self._items = items

    def _get(self, i: int) -> Any:
        return self._items[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items[::-1])

    def _rebuild(self, sources: tuple[sk.View[Any], ...]) -> sk.View[Any]:
        return self


NUMBERS = [5, 1, 4, 2, 3, 0]

ORDERED: dict[str, tuple[list[Any], Callable[[Any], Any]]] = {
    "filter": (NUMBERS, lambda source: list(sk.filter(lambda x: x > 2, source))),
    "indices": (NUMBERS, lambda source: sk.filter(lambda x: x > 2, source).indices.tolist()),
    "materialize": (NUMBERS, lambda source: list(sk.materialize(source))),
    "pack": (NUMBERS, lambda source: list(sk.pack(source))),
    "pack of several kinds": ([*NUMBERS, "a", None], lambda source: list(sk.pack(source))),
    "flatten": ([[x] * x for x in NUMBERS], lambda source: list(sk.flatten(source))),
    "lengths": (NUMBERS, lambda source: list(sk.flatten([[x] * x for x in NUMBERS], source))),
    "uniter": (NUMBERS, lambda source: list(sk.uniter(source))),
    "split": ([0, 2, 3, 7], lambda source: [list(part) for part in sk.split(range(9), source)]),
    "random_split": (NUMBERS, lambda source: [*map(len, sk.random_split(range(15), source, seed=0))]),
    "mix": (NUMBERS[:5], lambda source: list(sk.mix([range(9)] * 5, source, seed=0))),
    "gather": (NUMBERS, lambda source: list(sk.gather("abcdef", source))),
    "array": (NUMBERS, lambda source: np.asarray(source).tolist()),
    "index": (NUMBERS, lambda source: source.index(5)),
}


ordered = pytest.mark.parametrize(("items", "read"), ORDERED.values(), ids=ORDERED)


@ordered
def test_views_over_out_of_order_nodes_read_in_index_order(items: list[Any], read: Any) -> None:
    assert read(AsTheyCome(items)) == read(items)


@ordered
def test_an_out_of_order_node_is_read_in_index_order_by_other_views(items: list[Any], read: Any) -> None:
    fourth = threading.Event()

    def slow(i: int) -> Any:
        if i == 0:
            assert fourth.wait(30)
        elif i == 3:
            fourth.set()
        return items[i]

    reading = sk.smap(slow, range(len(items)))
    with sk.prefetch(reading, 2, "thread", chunk_size=1, in_order=False) as node:
        assert read(node) == read(items)


def test_a_diamond_is_keyed_for_an_epoch_once_per_view() -> None:
    made: list[int] = []

    class Counting(sk.View[Any]):
        def __init__(self, source: sk.View[Any]) -> None:
            super().__init__((source, source))
            made.append(1)

        def _get(self, i: int) -> Any:
            return self._sources[0]._get(i)

        def _rebuild(self, sources: tuple[sk.View[Any], ...]) -> sk.View[Any]:
            return Counting(sources[0])

    view: sk.View[Any] = sk.shuffle(range(5), seed=0)
    for _ in range(40):  # one path more than 2**40 through all of them
        view = Counting(view)
    made.clear()
    assert list(view.at_epoch(3)) == list(sk.shuffle(range(5), 0, 3))
    assert len(made) == 40


def test_the_path_to_an_item_is_searched_once_per_view_of_a_diamond() -> None:
    view: Any = sk.view([1])
    for _ in range(40):
        view = sk.collate([view, view])
    error = sk.EvaluationError("elsewhere", view=sk.view([2]), index=0)
    locate(error, view, 0)
    assert error.path == ((view, 0), (error.view, 0))


def test_an_array_without_dimensions_is_an_index_to_write_at() -> None:
    items = [1, 2, 3]
    view = sk.view(items)
    view[np.array(0)] = "a"
    view[np.int64(-1)] = "c"
    assert items == ["a", 2, "c"]


def test_nothing_built_over_a_filter_scans_it() -> None:
    def filtered() -> sk.View[Any]:
        return sk.filter(lambda x: x, ExplodingSource(range(4)))

    s = filtered()
    built: list[Any] = [
        sk.smap(str, s),
        sk.smap(max, s, s),
        sk.smap(max, s, [1], zip="shortest"),
        sk.batch(s, 2),
        sk.unbatch(s, 2),
        sk.window(s, 2),
        sk.gather(s, [1, 0]),
        sk.collate([s, s]),
        sk.concatenate([s, s]),
        sk.interleave(s, s),
        sk.mix([s, s], seed=0),
        sk.mix([sk.epochs(s), sk.epochs(s)], seed=0),
        sk.cycle(s),
        sk.cycle(s, 3),
        sk.epochs(sk.shuffle(s, 0), 2),
        sk.shuffle(s, seed=0),
        sk.random_map(lambda x, rng: x, s, seed=0),
        sk.split(s, 1),
        sk.switch(s, s, s),
        sk.case(s, s, s),
        sk.flatten(s),
        sk.flatten(["ab"], s),
        sk.filter(bool, s),
        sk.add_cache(s),
        sk.debug(s, print),
        sk.monitor_throughput(s),
        sk.prefetch(s, 2, "thread"),
    ]
    for view in built:
        assert "length not known yet" in sk.explain(view)
        repr(view), view.at_epoch(1)


def test_a_wrong_length_is_refused_when_it_is_known() -> None:
    odd = sk.filter(lambda x: x % 2, range(5))
    view = sk.collate([odd, [1, 2, 3]])
    with pytest.raises(ValueError, match="collate: the sequences must have one length"):
        view[0]
    with pytest.raises(ValueError, match="split: edges"):
        len(sk.split(odd, 2))


def test_an_open_slice_of_a_sequence_without_length_begins_later() -> None:
    endless = Naturals()[5:]
    assert (endless[0], list(islice(endless, 3)), list(endless[2:4])) == (5, [5, 6, 7], [7, 8])
    assert list(islice(Naturals()[2:][1:], 3)) == [3, 4, 5]
    with pytest.raises(IndexError, match="a slice from or to the end needs a length"):
        Naturals()[2::3]
    unsized = sk.view(UnsizedSource("abcde"))
    assert list(unsized[2:]) == ["c", "d", "e"]
    assert unsized[2:][1] == "d"
    assert list(sk.batch(unsized[1:], 3)) == [["b", "c", "d"], ["e"]]
    with pytest.raises(IndexError, match="ends before index 5"):
        unsized[2:][3]
    numbers = [1, 2, 3]
    sk.cycle(numbers)[4:][0] = "x"
    assert numbers == [1, "x", 3]


def test_head_and_skip_cut_a_sequence_of_any_length() -> None:
    for source in (sk.view("abc"), sk.view(UnsizedSource("abc"))):
        assert list(source.head(2)) == ["a", "b"]
        assert list(source.head(9)) == ["a", "b", "c"]
        assert list(source.skip(1)) == ["b", "c"]
        assert list(source.skip(9)) == []
    assert list(Naturals().skip(10**12).head(2)) == [10**12, 10**12 + 1]
    for method in (Naturals().head, Naturals().skip):
        with pytest.raises(ValueError, match=": n must be an int of at least 0, got -1"):
            method(-1)


def test_views_are_joined_by_methods() -> None:
    view = sk.view("ab")
    assert list(view.concatenate([1])) == ["a", "b", 1]
    assert list(view.collate([1, 2])) == [("a", 1), ("b", 2)]
    assert list(view.take([1, 0])) == ["b", "a"]


def test_a_partial_is_shown_by_the_name_of_its_function() -> None:
    assert repr(sk.smap(partial(pow, 2), [1])) == "smap(pow, <list of 1>)"
    assert repr(sk.smap(partial(partial(int, base=2)), ["1"])) == "smap(int, <list of 1>)"


# -------------------------------------------------------------------- truth, and the object below


def refuse(item: Any) -> Any:
    raise AssertionError("no item is needed")


@pytest.mark.parametrize(
    ("view", "truth"),
    [
        (sk.view([]), False),
        (sk.view([0]), True),
        (sk.batch([], 2), False),
        (sk.smap(refuse, range(3)), True),
        (sk.smap(refuse, range(0)), False),
        (sk.cycle("ab"), True),
        (sk.uniter(lambda: iter(())), True),
        (sk.view(UnsizedSource([1])), True),
        (sk.filter(refuse, range(3)), True),
        (sk.batch(sk.filter(refuse, range(3)), 2), True),
        (sk.flatten(sk.smap(refuse, range(3))), True),
    ],
)
def test_the_truth_of_a_view_reads_nothing(view: sk.View[Any], truth: bool) -> None:
    assert bool(view) is truth


def test_a_filter_that_was_scanned_knows_whether_it_is_empty() -> None:
    view = sk.filter(lambda x: x > 5, range(3))
    assert view
    assert len(view) == 0
    assert not view


class Labelled(list[int]):
    classes = ("a", "b")


def test_errors_of_a_source_have_no_inputs() -> None:
    for view, has_input in (
        (sk.view(FailingSource(range(3), {1})), False),
        (sk.smap(FailsAt(1), range(3)), True),
    ):
        with pytest.raises(sk.EvaluationError) as caught:
            view[1]
        assert ("error.inputs()" in str(caught.value)) is has_input


SEARCHES: dict[str, Callable[[sk.View[Any]], Any]] = {
    "shard": lambda view: sk.shard(view, 0, 2),
    "epochs": lambda view: sk.epochs(view, 2),
    "random_split": lambda view: sk.random_split(view, [1, 1], seed=0),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_view_that_is_read_twice_at_each_level_is_searched_once(name: str) -> None:
    view: Any = sk.view("ab") if name == "random_split" else sk.shuffle("ab", seed=0)
    for _ in range(100):  # 2**100 ways lead to the source
        view = sk.collate([view, view])
    assert SEARCHES[name](view) is not None


def test_a_slice_needs_several_values() -> None:
    items = [1, 2, 3]
    with pytest.raises(TypeError, match=r"^source: a slice of 2 items needs as many values, got 5$"):
        sk.view(items)[:2] = 5
    assert items == [1, 2, 3]


# -------------------------------------------------------------------- deep and wide expressions


def deep_maps(view: Any, layers: int = 500) -> Any:
    for _ in range(layers):
        view = sk.smap(abs, view)
    return view


@pytest.mark.parametrize(
    "above",
    [
        lambda view: sk.add_cache(view, 9),
        lambda view: sk.filter(lambda x: True, view)[:2],
        lambda view: sk.filter(lambda x: True, view).head(2),
        lambda view: sk.epochs(view, 2),
        lambda view: sk.uniter(view, size=9),
    ],
)
@pytest.mark.parametrize("below", [lambda: range(9), lambda: sk.random_map(lambda x, rng: x, range(9), 0)])
def test_500_maps_can_be_keyed_for_an_epoch(above: Any, below: Any) -> None:
    view = above(deep_maps(below()))
    assert list(view.at_epoch(1))[:2] == list(view)[:2] == [0, 1]


@pytest.mark.parametrize("below", [lambda: range(3), lambda: sk.shuffle(range(3), 0)])
def test_a_source_that_is_read_at_each_of_22_levels_twice_is_visited_once(below: Any) -> None:
    view: Any = below()
    calls = 0

    def profile(frame: Any, event: str, arg: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(profile)
    try:
        for _ in range(22):
            view = sk.collate([view, view])
        kept = sk.add_cache(view, 1)
        kept.at_epoch(1)
        len(sk.filter(bool, kept[:0]).at_epoch(1))
    finally:
        sys.setprofile(None)
    assert calls < 30_000
