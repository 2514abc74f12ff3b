"""What is special about `uniter`: how passes over an iterable are opened, advanced, lost and closed."""

import copy
import gc
import pickle
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

import numpy as np
import pytest

import seqkit as sk
from seqkit import EvaluationError
from seqkit.testing.failing import Failure, by_iteration
from seqkit.views.uniter import uniter

from ..helpers import past_errors


class Letters:
    """An iterable of the letters of a text that counts what is opened, drawn and closed."""

    def __init__(self, text="abcdefgh"):
        self.text = text
        self.opened = 0
        self.drawn = 0
        self.closed = 0

    def __iter__(self):
        self.opened += 1
        return self._letters()

    def _letters(self):
        try:
            for letter in self.text:
                self.drawn += 1
                yield letter
        finally:
            self.closed += 1

    @property
    def counts(self):
        return self.opened, self.drawn


class Flaky(Letters):
    """Fails once at each of some items, each in a pass of its own, then not any more."""

    def __init__(self, text, *failing, error=ValueError):
        super().__init__(text)
        self.failing = deque(failing)
        self.error = error

    def _letters(self):
        for i, letter in enumerate(super()._letters()):
            if self.failing and self.failing[0] == i:
                self.failing.popleft()
                raise self.error(f"no item {i}")
            yield letter


class Broken(Letters):
    """Fails at item 3, always."""

    def _letters(self):
        yield from self.text[:3]
        raise ValueError("no item 3")


def triples():
    for i in range(6):
        yield i, i, i


def unsized(letters, **options):
    return uniter(lambda: iter(letters), **options)


# -------------------------------------------------------------------- indexing


def test_ascending_indices_are_read_in_one_pass():
    letters = Letters()
    view = uniter(letters, size=8)
    assert letters.counts == (0, 0)
    assert [view[0], view[1], view[5], view[6]] == ["a", "b", "f", "g"]
    assert letters.counts == (1, 7)


def test_an_index_before_the_current_position_starts_a_new_pass():
    letters = Letters()
    view = uniter(letters, size=8)
    assert [view[5], view[5], view[0]] == ["f", "f", "a"]
    assert letters.counts == (3, 6 + 6 + 1)


def test_the_items_drawn_last_are_kept():
    letters = Letters()
    view = uniter(letters, cache_size=3, size=8)
    assert view[5] == "f"
    assert [view[3], view[5], view[4], view[3]] == ["d", "f", "e", "d"]
    assert letters.counts == (1, 6)
    assert view[6] == "g"
    assert view[4] == "e"
    assert letters.counts == (1, 7)
    assert view[3] == "d"
    assert letters.counts == (2, 7 + 4)


def test_two_places_read_in_turn_need_two_passes():
    letters = Letters()
    view = uniter(letters, n_parallel=2, size=8)
    assert view[4] == "e"
    assert letters.opened == 1
    assert [view[i] for i in (0, 5, 1, 6, 2, 7, 3)] == list("afbgchd")
    assert letters.counts == (2, 8 + 4)


def test_the_nearest_pass_behind_an_index_is_advanced():
    letters = Letters()
    view = uniter(letters, n_parallel=3, size=8)
    assert [view[5], view[2], view[0]] == ["f", "c", "a"]
    before = letters.drawn
    assert view[4] == "e"
    assert (letters.opened, letters.drawn - before) == (3, 2)


def test_the_least_recently_used_pass_is_closed():
    letters = Letters()
    view = uniter(letters, n_parallel=2, size=8)
    assert [view[6], view[3], view[7], view[0]] == ["g", "d", "h", "a"]
    assert (letters.opened, letters.closed) == (3, 1)
    before = letters.drawn
    assert view[1] == "b"
    assert letters.drawn - before == 1


def test_a_batch_of_indices_is_read_in_one_pass():
    letters = Letters()
    view = uniter(letters, size=8)
    assert view._getmany([6, 1, 6, 0, 3]) == ["g", "b", "g", "a", "d"]
    assert letters.counts == (1, 7)
    assert sk.batch(sk.shuffle(view, seed=0), 8)[0] == list(sk.shuffle("abcdefgh", seed=0))


def test_slices_and_negative_indices_are_those_of_the_items():
    view = uniter(Letters(), cache_size=2, size=8)
    assert view[-1] == "h"
    assert list(view[2:7:2]) == ["c", "e", "g"]
    assert list(view[::-3]) == ["h", "e", "b"]
    assert list(unsized("abcdef")[1:4]) == ["b", "c", "d"]


# -------------------------------------------------------------------- lengths and ends


def test_the_length_is_the_size_given_or_that_of_the_iterable_or_unknown():
    assert len(uniter(range(5))) == 5
    assert len(uniter(range(5), size=3)) == 3
    assert list(uniter(count, size=3)) == [0, 1, 2]
    assert len(uniter({"a": 1, "b": 2})) == 2
    with pytest.raises(
        TypeError, match=r"uniter\(.*\) has no length: its end is only known once it is reached"
    ):
        len(uniter(triples))
    assert len(uniter(range(5), size=0)) == 0
    assert list(uniter(range(5), size=0)) == []


def test_reading_past_the_end_is_an_index_error_every_time():
    view = unsized("abc")
    for _ in range(2):
        for i in (3, 4, 10):
            with pytest.raises(IndexError, match=f"the sequence ends before index {i}"):
                view[i]
        assert [view[2], view[0]] == ["c", "a"]
    with pytest.raises(IndexError, match="uniter: index 3 out of range for length 3"):
        uniter("abc")[3]


def test_the_end_is_found_in_every_form():
    view = unsized("abc")
    assert list(view) == list("abc")
    assert list(sk.smap(str.upper, view)) == list("ABC")
    assert list(sk.batch(view, 2)) == [["a", "b"], ["c"]]
    with sk.prefetch(view, 2, chunk_size=2) as ahead:
        assert list(ahead) == list("abc")


def test_items_missing_from_an_iterable_shorter_than_its_size_are_errors():
    view = uniter(iter(Letters("ab")), size=4)
    view_again = uniter(Letters("ab"), size=4)
    for short in (view, view_again):
        outcomes = by_iteration(iter(short))
        assert outcomes[:2] == ["a", "b"]
        assert [outcome.kind for outcome in outcomes[2:]] == [EvaluationError] * 2
    with pytest.raises(EvaluationError, match="the iterable has ended after 2 items"):
        view_again[3]


# -------------------------------------------------------------------- iteration


def test_iteration_is_one_pass_of_its_own():
    letters = Letters()
    view = uniter(letters, cache_size=2, size=8)
    assert view[3] == "d"
    iterator = iter(view)
    assert list(islice(iterator, 5)) == list("abcde")
    assert view[4] == "e"
    assert list(iterator) == list("fgh")
    assert letters.counts == (2, 8 + 5)
    assert [next(zip(view, view, strict=True)), list(view)] == [("a", "a"), list("abcdefgh")]


def test_no_more_is_drawn_than_the_size_says():
    letters = Letters()
    assert list(uniter(letters, size=3)) == list("abc")
    assert letters.counts == (1, 3)


def test_batches_of_an_iterable_of_unknown_length_are_read_in_few_passes():
    letters = Letters("x" * 100)
    assert len(list(sk.batch(unsized(letters), 10))) == 10
    assert letters.opened <= 3


# -------------------------------------------------------------------- one-shot iterators


def test_a_one_shot_iterator_is_read_forwards():
    view = uniter(iter("abcdefgh"), size=8)
    assert [view[0], view[2], view[3], view[7]] == ["a", "c", "d", "h"]


def test_a_one_shot_iterator_cannot_go_back():
    view = uniter(iter("abcdefgh"))
    assert view[4] == "e"
    with pytest.raises(EvaluationError, match="the iterator has passed item 3 and cannot restart") as caught:
        view[3]
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert view[5] == "f"


def test_a_one_shot_iterator_goes_back_as_far_as_items_are_kept():
    view = uniter(iter("abcdefgh"), cache_size=3)
    assert [view[4], view[2], view[3], view[5]] == ["e", "c", "d", "f"]
    with pytest.raises(EvaluationError, match="cannot restart"):
        view[2]


def test_a_one_shot_iterator_can_be_iterated_once():
    view = uniter(iter("abc"))
    assert list(view) == ["a", "b", "c"]
    with pytest.raises(EvaluationError, match="cannot restart"):
        next(iter(view))
    with pytest.raises(IndexError, match="the sequence ends before index 3"):
        view[3]


def test_a_one_shot_iterator_loses_only_the_item_that_fails():
    failing = iter(sk.smap(lambda x: 6 // x, [3, 0, 2, 1]))
    outcomes = by_iteration(iter(uniter(failing)))
    assert [item for item in outcomes if not isinstance(item, Failure)] == [2, 3, 6]
    assert outcomes[1].cause.startswith("ZeroDivisionError")


def test_an_iterator_of_the_user_is_not_closed():
    mine = iter(Letters())
    view = uniter(mine)
    assert view[1] == "b"
    del view
    gc.collect()
    assert next(mine) == "c"


def test_reading_on_behind_a_slice_goes_on_in_its_pass():
    letters = Letters("abcdefgh")
    view = uniter(letters, size=8)
    assert list(view[:3]) == ["a", "b", "c"]
    assert view[3] == "d"
    assert letters.opened == 1


def test_a_slice_does_not_close_the_pass_of_reads_by_index():
    letters = Letters("abcdefgh")
    view = uniter(letters, size=8)
    assert view[5] == "f"
    assert list(view[:3]) == ["a", "b", "c"]
    assert view[6] == "g"
    assert letters.opened == 2
    assert letters.closed == 1


# -------------------------------------------------------------------- errors


def test_a_failing_item_fails_again():
    for view in (uniter(Broken(), size=8), unsized(Broken())):
        for i, where in [(6, " at item 3"), (3, ""), (3, ""), (3, "")]:
            with pytest.raises(
                EvaluationError, match=rf"uniter\[{i}\] failed{where}: ValueError: no item 3"
            ) as caught:
                view[i]
            assert caught.value.index == i
        assert view[2] == "c"


def test_items_after_a_permanent_failure_are_errors_up_to_the_length():
    view = uniter(Broken(), size=8)
    for i in (3, 6, 7, 6):
        with pytest.raises(EvaluationError, match="no item 3"):
            view[i]


def test_without_a_length_a_permanent_failure_raises_once_and_ends_the_sequence():
    view = unsized(Broken())
    with pytest.raises(EvaluationError, match=r"uniter\[3\] failed"):
        view[3]
    ending = r"the sequence ends before index 4, for item 3 fails: ValueError: no item 3"
    with pytest.raises(IndexError, match=ending) as caught:
        view[4]
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_failure_after_a_successful_read_is_raised_again():
    letters = Flaky("abcdefgh", 2)
    view = unsized(letters)
    with pytest.raises(EvaluationError):
        view[2]
    assert view[5] == "f"
    letters.failing.append(2)
    with pytest.raises(EvaluationError, match=r"uniter\[3\] failed at item 2"):
        view[3]


def test_after_an_error_the_next_read_starts_a_new_pass_at_the_right_index():
    letters = Flaky("abcdefgh", 2, 5, 1)
    view = uniter(letters, size=8)
    for i in (2, 5, 7):
        with pytest.raises(EvaluationError, match="no item"):
            view[i]
    assert [view[2], view[5], view[7]] == ["c", "f", "h"]


def test_an_error_leaves_other_passes_open():
    letters = Flaky("abcdefgh")
    view = uniter(letters, n_parallel=2, size=8)
    assert [view[6], view[0]] == ["g", "a"]
    letters.failing.append(1)
    with pytest.raises(EvaluationError, match="no item 1"):
        view[1]
    assert view[7] == "h"
    assert letters.opened == 2
    assert view[1] == "b"


@pytest.mark.parametrize(
    "make", [lambda text, at: uniter(Flaky(text, at), size=8), lambda text, at: unsized(Flaky(text, at))]
)
@pytest.mark.parametrize("at", [0, 3, 7])
def test_iteration_continues_after_an_item_that_failed_once(make, at):
    outcomes = by_iteration(iter(make("abcdefgh", at)))
    assert [item for item in outcomes if not isinstance(item, Failure)] == [
        *"abcdefgh"[:at],
        *"abcdefgh"[at + 1 :],
    ]
    assert isinstance(outcomes[at], Failure)


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("size", [8, None])
@pytest.mark.parametrize("failing", [(0,), (3,), (7,), (3, 5), (2, 7)], ids=str)
def test_an_error_loses_one_item_an_interrupt_none_and_both_shift_none(failing, size, kind):
    letters = Flaky("abcdefgh", *failing, error=kind)
    found = past_errors(iter(uniter(lambda: iter(letters), size=size)))
    errors = [item for item in found if isinstance(item, BaseException)]
    assert [type(error) for error in errors] == [EvaluationError if kind is ValueError else kind] * len(
        failing
    )
    lost = failing if kind is ValueError else ()
    assert [item for item in found if isinstance(item, str)] == [
        letter for i, letter in enumerate("abcdefgh") if i not in lost
    ]


def test_an_interrupt_while_an_iterator_is_closed_costs_no_item():
    interrupts = [KeyboardInterrupt(), KeyboardInterrupt()]

    def letters():
        try:
            yield from "abc"
        finally:
            if interrupts:
                raise interrupts.pop()

    for size in (3, None):
        found = past_errors(iter(uniter(letters, size=size)))
        assert [item for item in found if isinstance(item, str)] == list("abc")


def test_iteration_over_a_permanently_failing_iterable_gives_errors_up_to_its_length():
    outcomes = by_iteration(iter(uniter(Broken(), size=8)))
    assert outcomes[:3] == list("abc")
    assert [outcome.cause for outcome in outcomes[3:]] == ["ValueError('no item 3')"] * 5


def test_iteration_over_a_permanently_failing_iterable_without_length_ends_after_the_error():
    outcomes = by_iteration(iter(unsized(Broken())))
    assert outcomes[:3] == list("abc")
    assert [outcome.cause for outcome in outcomes[3:]] == ["ValueError('no item 3')"]


@pytest.mark.parametrize("kind", [IndexError, StopIteration, KeyError])
def test_foreign_exceptions_are_errors_and_not_the_end(kind):
    def letters():
        yield "a"
        raise kind("foreign")

    for view in (uniter(letters), uniter(letters, size=2)):
        for read in (lambda view=view: view[1], lambda view=view: list(view)):
            with pytest.raises(EvaluationError):
                read()


def test_the_end_of_another_sequence_is_an_error_too():
    other = unsized("ab")
    view = uniter(lambda: (other[i] for i in range(5)))
    for read in (lambda: view[2], lambda: list(view)):
        with pytest.raises(EvaluationError, match="EndOfSequence: the sequence ends before index 2"):
            read()


def test_an_iterable_that_cannot_be_opened_is_an_error_of_the_item():
    class Closed:
        def __iter__(self):
            raise OSError("no such file")

    view = uniter(Closed(), size=3)
    with pytest.raises(EvaluationError, match=r"uniter\[1\] failed at item 0: OSError: no such file"):
        view[1]
    assert [outcome.cause for outcome in by_iteration(iter(view))] == ["OSError('no such file')"] * 3


def test_an_interrupt_passes_and_leaves_a_consistent_state():
    letters = Letters()
    view = uniter(letters, size=8)
    interrupts = deque([KeyboardInterrupt()])

    class Interrupted(Letters):
        def _letters(self):
            yield from "ab"
            if interrupts:
                raise interrupts.popleft()
            yield from "cd"

    view = uniter(Interrupted(), size=4)
    with pytest.raises(KeyboardInterrupt):
        view[2]
    assert [view[3], view[2]] == ["d", "c"]


# -------------------------------------------------------------------- closing


def test_iterators_are_closed_at_the_end_on_restart_and_with_the_view():
    letters = Letters()
    view = unsized(letters)
    with pytest.raises(IndexError):
        view[8]
    assert (letters.opened, letters.closed) == (1, 1)
    assert [view[3], view[1]] == ["d", "b"]
    assert (letters.opened, letters.closed) == (3, 2)
    del view
    gc.collect()
    assert letters.closed == 3


def test_iterators_that_are_left_or_fail_are_closed():
    letters = Letters()
    view = uniter(letters, size=8)
    iterator = iter(view)
    next(iterator)
    del iterator
    gc.collect()
    assert letters.closed == 1
    flaky = Flaky("abc", 1)
    with pytest.raises(EvaluationError):
        uniter(flaky, size=3)[1]
    assert (flaky.opened, flaky.closed) == (1, 1)


def test_files_that_a_function_opens_are_closed(tmp_path):
    path = tmp_path / "lines"
    path.write_text("one\ntwo\nthree\n")
    opened = []

    def lines():
        opened.append(path.open())
        return opened[-1]

    view = uniter(lines)
    assert [view[2], view[0], list(view)] == ["three\n", "one\n", ["one\n", "two\n", "three\n"]]
    del view
    gc.collect()
    assert [file.closed for file in opened] == [True] * 3


def test_an_error_while_closing_affects_no_item():
    def letters():
        try:
            yield from "abc"
        finally:
            raise OSError("cannot close")

    view = uniter(letters, size=3)
    assert [view[1], view[0], view[2]] == ["b", "a", "c"]


# -------------------------------------------------------------------- copies, threads, processes


def test_views_pickle_with_their_iterable_and_without_its_iterators():
    view = uniter(triples, cache_size=2, n_parallel=2)
    assert view[3] == (3, 3, 3)
    for other in (pickle.loads(pickle.dumps(view)), copy.deepcopy(view), copy.copy(view)):
        assert [other[4], other[0], list(other)[-1]] == [(4, 4, 4), (0, 0, 0), (5, 5, 5)]
        assert repr(other) == repr(view)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(uniter(triples()))


def test_a_copied_one_shot_iterator_keeps_its_position():
    view = uniter(iter([10, 11, 12, 13]))
    assert view[1] == 11
    apart, shared = pickle.loads(pickle.dumps(view)), copy.copy(view)
    assert shared[2] == 12
    assert view[3] == 13
    assert apart[2] == 12
    with pytest.raises(EvaluationError, match="cannot restart"):
        shared[2]


def test_threads_read_right_items_from_shared_passes():
    view = uniter(lambda: iter(range(200)), cache_size=5, n_parallel=2, size=200)

    def read(turn):
        order = [(i * 7 + turn * 31) % 200 for i in range(100)]
        return [view[i] for i in order] == order, list(view) == list(range(200))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(8))) == [(True, True)] * 8


def test_a_forked_process_opens_passes_of_its_own(monkeypatch):
    letters = Letters()
    view = uniter(letters, size=8)
    assert view[3] == "d"
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert view[4] == "e"
    assert letters.counts == (2, 4 + 5)
    assert letters.closed == 0


def test_a_forked_process_does_not_read_a_one_shot_iterator_of_its_parent(monkeypatch):
    view = uniter(iter("abc"), size=3)
    assert view[0] == "a"
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(EvaluationError, match="the iterator belongs to the process"):
        view[1]
    monkeypatch.undo()


@pytest.mark.parametrize("method", ["thread", "process"])
def test_thread_and_process_workers_read_it(method):
    with sk.prefetch(uniter(triples, size=6), 2, method) as ahead:
        assert list(ahead) == list(triples())


# -------------------------------------------------------------------- arguments


def test_its_repr_reads_nothing():
    letters = Letters()
    assert repr(uniter(letters, 2, 3)) == "uniter(<Letters>, cache_size=2, n_parallel=3)"
    assert repr(uniter(triples)) == "uniter(triples)"
    assert letters.counts == (0, 0)


def test_it_cannot_be_written_to():
    with pytest.raises(TypeError, match="uniter does not support assignment"):
        uniter([1, 2])[0] = 1


def test_a_table_is_no_iterable_of_rows():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="uniter: iterating a DataFrame gives its columns"):
        uniter(pandas.DataFrame({"x": [1, 2]}))


# -------------------------------------------------------------------- workers above a stream


class Drawn:
    """An iterable that counts its passes and the items that are drawn from them."""

    def __init__(self, n=200):
        self.n = n
        self.passes = self.items = 0

    def __len__(self):
        return self.n

    def __iter__(self):
        self.passes += 1
        for i in range(self.n):
            self.items += 1
            yield i


ABOVE = {
    "nothing": lambda view: view,
    "map": lambda view: sk.smap(abs, view),
    "maps side by side": lambda view: sk.smap(max, view, range(200)),
    "batches": lambda view: sk.unbatch(sk.batch(view, 5), 5, 0),
    "slice": lambda view: view[:],
    "filter": lambda view: sk.filter(lambda x: True, view),
    "cache": lambda view: sk.add_cache(view, 300),
    "collate": lambda view: sk.smap(max, sk.collate([range(200), sk.smap(abs, view)])),
}


@pytest.mark.parametrize("workers", [1, 2, 5, None])
@pytest.mark.parametrize("above", ABOVE)
def test_a_stream_is_read_once_and_in_order_whatever_the_number_of_threads(above, workers):
    source = Drawn()
    with sk.prefetch(ABOVE[above](uniter(source)), workers, "thread", chunk_size=5) as node:
        assert list(node) == list(range(200))
    passes = 2 if above == "filter" else 1  # a filter of a sized sequence is scanned first
    assert (source.passes <= passes, source.items <= 200 * passes) == (True, True)


@pytest.mark.parametrize("method", ["thread", "process"])
@pytest.mark.parametrize(
    ("view", "workers"),
    [
        (lambda: uniter(Drawn()), 1),
        (lambda: sk.smap(abs, uniter(Drawn(), n_parallel=3)), 3),
        (lambda: sk.interleave(uniter(Drawn(), n_parallel=3), uniter(Drawn(), n_parallel=2)), 2),
        (lambda: sk.prefetch(uniter(Drawn()), 1), 4),
        (lambda: sk.smap(abs, sk.prefetch(sk.prefetch(uniter(Drawn()), 4), 4)), 4),
        (lambda: sk.smap(abs, range(200)), 4),
    ],
)
def test_a_node_has_as_many_workers_as_can_read_a_stream(view, workers, method):
    node = sk.prefetch(view(), 4, method)
    assert node._settings.workers == workers
    assert f"nworkers={workers}," in repr(node)
    assert node.at_epoch(1)._settings.workers == workers


def test_a_file_is_written_from_one_pass_by_default(tmp_path):
    passes = tmp_path / "passes"

    def lines():
        with open(passes, "a") as file:
            file.write("one\n")
        for i in range(50):
            yield np.float32(i)

    stored = sk.materialize(uniter(lines, size=50), tmp_path / "x.npy")
    assert list(stored) == list(range(50))
    assert len(passes.read_text().splitlines()) <= 2  # the first item tells the type


class Returning:
    """An iterator written in Python. Its `__iter__` may begin again."""

    def __init__(self, begins_again):
        self.begins_again = begins_again
        self.position = 0

    def __iter__(self):
        if self.begins_again:
            self.position = 0
        return self

    def __next__(self):
        if self.position == 5:
            raise StopIteration
        self.position += 1
        return self.position - 1


def test_an_iterator_that_returns_itself_is_read_again_if_it_begins_again():
    view = uniter(Returning(True))
    assert [list(view), list(view), view[3], view[1], view[4]] == [[*range(5)], [*range(5)], 3, 1, 4]
    once = uniter(Returning(False))
    assert list(once) == [0, 1, 2, 3, 4]
    for read in (lambda: list(once), lambda: once[2]):
        with pytest.raises((EvaluationError, IndexError), match="the iterator does not begin again"):
            read()
