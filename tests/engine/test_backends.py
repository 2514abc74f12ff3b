"""One suite for every way to compute ahead: the same items, errors and promises."""

from __future__ import annotations

import enum
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import seqkit as sk
from seqkit.core.errors import EndOfSequence
from seqkit.engine.chunking import SMALL_AHEAD_BYTES

from .kinds import KINDS, PROCESSES, Kind
from .scripts import finished
from .traces import append, drawn, until
from .values import same

# Functions are defined inside the tests: they then travel by value, and no worker imports this module.

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_kind_of_process = pytest.mark.parametrize("kind", PROCESSES, ids=str)


# -------------------------------------------------------------------- items


@every_kind
def test_items_are_those_of_the_source_however_they_are_read(kind: Kind) -> None:
    squares = sk.smap(lambda x: x * x, range(60))
    expected = list(squares)
    with kind.ahead(squares) as ahead:
        assert list(ahead) == expected
        assert [ahead[i] for i in range(-60, 60)] == expected + expected
        assert list(reversed(ahead)) == expected[::-1]
        assert list(ahead[50:3:-7]) == expected[50:3:-7]
        assert list(ahead[[5, 5, -1]]) == [25, 25, 59 * 59]
        assert ahead.__getitems__([3, -2]) == [9, 58 * 58]
        assert ahead._getmany(np.array([7, 1])) == [49, 1]
        assert len(ahead) == 60
        assert 49 in ahead
        with pytest.raises(IndexError, match="index 60 out of range for length 60"):
            ahead[60]


@every_kind
def test_chunks_of_any_size_give_the_same_items(kind: Kind) -> None:
    for chunk_size in (1, 7, "auto"):
        with kind.ahead(sk.smap(lambda x: -x, range(1000)), chunk_size=chunk_size) as ahead:
            assert list(ahead) == [-x for x in range(1000)]
            seen = ahead.statistics()
        assert seen.items == 1000
        assert seen.jobs == 1000 if chunk_size == 1 else seen.jobs < 1000


@every_kind
def test_values_of_every_sort_come_back_as_they_are(kind: Kind) -> None:
    big = np.arange(6000, dtype=np.float32).reshape(60, 100)
    sealed = np.arange(2000)
    sealed.flags.writeable = False
    values = [None, 1, "text", b"b" * 9000, (1, [2, {"k": {3}}]), big, big.T, sealed, {"a": big, "n": 3}, ...]
    with kind.ahead(sk.smap(lambda x: x, values)) as ahead:
        result = list(ahead)
    assert result[:5] == values[:5]
    assert result[9] is ...
    for got, want in [(result[5], big), (result[6], big.T), (result[7], sealed), (result[8]["a"], big)]:
        assert got.dtype == want.dtype
        assert (got == want).all()
        assert got.flags.writeable == want.flags.writeable
    assert result[8]["n"] == 3


@every_kind
def test_values_of_unknown_size_come_back(kind: Kind) -> None:
    class Shy:
        @property
        def nbytes(self) -> int:
            raise SystemExit

    def make(i: int) -> Any:
        value: list[Any] = [i]
        if i == 1:
            value += [value] * 9  # of endless depth
        if i == 2:
            value.append(Shy())
        for _ in range(200 * (i == 3)):
            value = [value] * 8
        return value

    with kind.ahead(sk.smap(make, range(5))) as ahead:
        assert [len(value) for value in ahead] == [1, 10, 2, 8, 1]


@every_kind
def test_an_empty_source_has_no_items(kind: Kind) -> None:
    with kind.ahead([]) as ahead:
        assert list(ahead) == []
        assert len(ahead) == 0
        assert list(ahead[::-1]) == []
        with pytest.raises(IndexError):
            ahead[0]


@every_kind
def test_a_source_of_unknown_length_ends_where_it_ends(kind: Kind) -> None:
    class Lines:
        def __getitem__(self, i: int) -> int:
            if i >= 10:
                raise IndexError(i)
            return i * 10

    with kind.ahead(sk.view(Lines()), chunk_size=3) as ahead:
        assert list(ahead) == list(range(0, 100, 10))
        assert list(sk.batch(ahead, 4)) == [[0, 10, 20, 30], [40, 50, 60, 70], [80, 90]]
        assert ahead[9] == 90
        with pytest.raises(EndOfSequence):
            ahead[10]
        with pytest.raises(IndexError):
            ahead[99]
        assert ahead[3] == 30
        with pytest.raises(TypeError, match="prefetch has no length"):
            len(ahead)


@every_kind
def test_an_unbounded_source_can_be_read_to_any_index(kind: Kind) -> None:
    from seqkit.core.lengths import UNBOUNDED
    from seqkit.core.view import View

    class Naturals(View[int]):
        def __init__(self) -> None:
            super().__init__((), UNBOUNDED)

        def _get(self, i: int) -> int:
            return i

    with kind.ahead(Naturals()) as ahead:
        iterator = iter(ahead)
        assert [next(iterator) for _ in range(100)] == list(range(100))
        assert ahead[10**12] == 10**12
        assert ahead[2**70] == 2**70
        assert list(ahead[5:50:9]) == list(range(5, 50, 9))


@every_kind
def test_a_plan_may_contain_keys_of_any_kind(kind: Kind) -> None:
    table = {"a": 1, ("b", 2): 2, 3: 3, 0: "never"}
    keys: list[Any] = ["a", ("b", 2), 3, "a"]
    with kind.ahead(table) as ahead:
        assert list(ahead._iter(iter(keys))) == [1, 2, 3, 1]
        assert list(ahead._iter(np.array([3, 3], np.uint8))) == [3, 3]
        failed = drawn(ahead._iter(["a", "missing", 3]))
        assert failed[::2] == [1, 3]
        assert type(failed[1].__cause__) is KeyError


@every_kind
def test_any_number_of_kept_results_stays_valid_after_closing(kind: Kind) -> None:
    def make(i: int) -> np.ndarray[Any, Any]:
        array = sk.empty((40, 40), np.int64)
        array[:] = i
        return array

    with kind.ahead(sk.smap(make, range(1000)), max_buffered=4) as ahead:
        results = list(ahead)
        assert all((array == i).all() for i, array in enumerate(results))
        seen = ahead.statistics()
    assert all((array == i).all() for i, array in enumerate(results))
    for array in results:
        array += 1  # they belong to the reader
    assert all((array == i + 1).all() for i, array in enumerate(results))
    assert (seen.copies > 900) == (kind.method == "process")


@every_kind
def test_delivered_items_never_change_while_others_are_read(kind: Kind) -> None:
    def make(i: int) -> np.ndarray[Any, Any]:
        array = sk.empty(3000, np.int64)
        array[:] = i
        return array

    with kind.ahead(sk.smap(make, range(300)), max_buffered=6) as ahead:
        held: list[tuple[int, Any]] = []
        for i, array in enumerate(ahead):
            held.append((i, array[i % 7 :]))
            del held[: -(i % 9)]
            assert all((part == which).all() for which, part in held)


@every_kind
def test_no_more_is_computed_ahead_than_may_be_buffered(kind: Kind, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def note(i: int) -> int:
        append(log, "x")
        return i

    with kind.ahead(sk.smap(note, range(100)), max_buffered=5) as ahead:
        iterator = iter(ahead)
        for read in range(1, 20):
            next(iterator)
            assert log.stat().st_size <= read + 5
        before = ahead.statistics().jobs
        assert before <= 19 + 5


@every_kind
def test_a_chunk_has_as_many_items_as_were_asked_for(kind: Kind) -> None:
    for size in (10, 100_000, 1_000_000):
        with kind.ahead(sk.smap(lambda i: np.full(size, i, np.uint8), range(64)), chunk_size=16) as ahead:  # noqa: B023
            assert [item[-1] for item in ahead] == list(range(64))
            assert ahead.statistics().jobs in (3, 4)  # the last one may have delivered and not ended


@every_kind
def test_items_of_a_long_job_arrive_while_it_runs(kind: Kind) -> None:
    def item(i: int) -> Any:
        time.sleep(0.01)
        return [i, float(i), str(i), np.full(50_000, i), (np.full(9, i), "x")][i % 5]

    with kind.ahead(sk.smap(item, range(40)), nworkers=1, chunk_size=40) as ahead:
        found = list(ahead)
    assert same(found, [item(i) for i in range(40)])


# -------------------------------------------------------------------- errors


@every_kind
@pytest.mark.parametrize("chunk_size", [1, 4])
def test_a_failing_item_affects_no_other_item_and_its_error_names_view_index_and_worker(
    kind: Kind, chunk_size: int
) -> None:
    def fussy(x: int) -> int:
        if x % 5 in (2, 3):
            raise ValueError(f"not {x}")
        return x

    source = sk.smap(fussy, range(20))
    with kind.ahead(source, chunk_size=chunk_size) as ahead:
        seen = drawn(iter(ahead))
        assert [x for x in seen if isinstance(x, int)] == [x for x in range(20) if x % 5 not in (2, 3)]
        for x in range(20):
            if x % 5 in (2, 3):
                error = seen[x]
                assert type(error) is sk.EvaluationError
                assert error.message == f"smap[{x}] failed: ValueError: not {x}"
                assert (error.index, error.view) == (x, source)
                assert [(view._name, i) for view, i in error.path] == [("prefetch", x), ("smap", x)]
                assert str(error.__cause__) == f"not {x}"
                assert error.worker in (0, 1)
        with pytest.raises(sk.EvaluationError, match=r"smap\[7\]"):
            ahead[7]
        assert ahead[9] == 9


@every_kind
def test_no_exception_of_an_item_ends_the_iteration(kind: Kind) -> None:
    mine = {2: StopIteration, 3: IndexError, 5: GeneratorExit, 7: MemoryError}

    def f(x: int) -> int:
        if x in mine:
            raise mine[x]("mine")
        return x

    with kind.ahead(sk.smap(f, range(9))) as ahead:
        seen = drawn(iter(ahead))
        assert [x for x in seen if isinstance(x, int)] == [0, 1, 4, 6, 8]
        for x, error in mine.items():
            assert (type(seen[x]), type(seen[x].__cause__)) == (sk.EvaluationError, error)
    with sk.errstate("passthrough"), kind.ahead(sk.smap(f, range(4))) as ahead:
        with pytest.raises(StopIteration, match="mine"):
            ahead[2]
        assert [type(x) for x in drawn(iter(ahead))] == [int, int, RuntimeError, IndexError]


@every_kind
def test_a_view_whose_iteration_ends_too_early_or_fails_loses_no_item_silently(kind: Kind) -> None:
    from seqkit.core.view import View

    class Short(View[int]):
        def __init__(self) -> None:
            super().__init__((), 9)

        def _get(self, i: int) -> int:
            return i

        def _iter(self, plan: Any) -> Any:
            if len(self) == 9 and min(plan) == 6:
                raise OSError("no disk")
            return iter([i for i in plan if i < 4])

    with kind.ahead(Short(), chunk_size=3) as ahead:
        seen = drawn(iter(ahead))
    assert seen[:4] == [0, 1, 2, 3]
    assert all("its iteration ended" in str(error) for error in seen[4:6])
    assert [str(error.__cause__) for error in seen[6:]] == ["no disk"] * 3


@every_kind
def test_an_exception_that_cannot_be_pickled_arrives_as_text(kind: Kind) -> None:
    def f(x: int) -> int:
        class Local(Exception):
            def __init__(self, a: int, b: int) -> None:
                super().__init__(f"{a} and {b}")

        raise Local(x, lambda: 0)  # type: ignore[arg-type]

    with kind.ahead(sk.smap(f, range(3))) as ahead:
        for i, error in enumerate(drawn(iter(ahead))):
            assert type(error) is sk.EvaluationError
            assert f"smap[{i}] failed: Local: {i} and <function" in str(error)


@every_kind_of_process
def test_a_value_that_cannot_be_pickled_fails_alone_with_the_reason(kind: Kind) -> None:
    def f(x: int) -> Any:
        return threading.Lock() if x == 5 else x

    with kind.ahead(sk.smap(f, range(8)), chunk_size=4) as ahead:
        seen = drawn(iter(ahead))
    assert [x for x in seen if isinstance(x, int)] == [0, 1, 2, 3, 4, 6, 7]
    assert "prefetch[5] failed" in str(seen[5])
    assert "the item, a lock, cannot be sent to the consumer's process" in str(seen[5])


@every_kind
def test_the_error_policy_holds_in_workers(kind: Kind) -> None:
    def fussy(x: int) -> int:
        raise KeyError(x)

    with sk.errstate("passthrough"), kind.ahead(sk.smap(fussy, range(3))) as ahead:
        assert [error.args for error in drawn(iter(ahead))] == [(0,), (1,), (2,)]
        with pytest.raises(KeyError):
            ahead[1]


@pytest.mark.parametrize("kind", [k for k in PROCESSES if k.context != "fork"], ids=str)
def test_a_pipeline_that_cannot_be_pickled_is_refused_with_advice(kind: Kind) -> None:
    lock = threading.Lock()
    ahead = kind.ahead(sk.smap(lambda x: (lock, x), range(3)))
    for _ in range(2):
        with pytest.raises(TypeError, match=r"cannot be pickled .* closure `lock` .*method='thread'"):
            list(ahead)
    ahead.close()


# -------------------------------------------------------------------- workers


@every_kind
def test_the_random_generator_of_a_worker_continues_from_item_to_item(kind: Kind) -> None:
    def draw(_: int) -> int:
        info = sk.get_worker_info()
        assert info is not None
        return int(info.rng.integers(1 << 62))

    with kind.ahead(sk.smap(draw, range(20)), 2, seed=1) as ahead:
        assert len({*ahead}) == 20


@every_kind
def test_code_learns_which_worker_it_runs_in(kind: Kind) -> None:
    def who(_: int) -> Any:
        return sk.get_worker_info(), os.getpid()

    with kind.ahead(sk.smap(who, range(40)), 3, chunk_size=1) as ahead:
        seen = list(ahead)
    infos = {info for info, _ in seen}
    pids = {pid for _, pid in seen}
    assert sk.get_worker_info() is None
    assert {info.id for info in infos} <= {0, 1, 2}
    assert {(info.num_workers, info.method) for info in infos} == {(3, kind.method)}
    assert len({info.seed for info in infos}) == len(infos)
    assert (os.getpid() in pids) == (kind.method != "process")


@every_kind
def test_a_start_hook_runs_once_in_every_worker_before_its_first_item(kind: Kind, tmp_path: Path) -> None:
    def hook(worker: int) -> None:
        append(tmp_path / str(worker), "x")

    def look(_: int) -> str:
        info = sk.get_worker_info()
        assert info is not None
        return (tmp_path / str(info.id)).read_text()

    with kind.ahead(sk.smap(look, range(30)), start_hook=hook, chunk_size=1) as ahead:
        assert set(ahead) == {"x"}
    called = tmp_path / "called"
    with kind.ahead(sk.smap(lambda _: called.exists(), range(9)), start_hook=lambda: called.touch()) as ahead:
        assert set(ahead) == {True}
    with sk.prefetch(range(3), 0, start_hook=lambda: pytest.fail("there is no worker")) as inline:
        assert list(inline) == [0, 1, 2]


@every_kind
def test_a_failing_start_hook_is_reported_once_to_every_consumer_and_can_be_repaired(
    kind: Kind, tmp_path: Path
) -> None:
    def hook(worker: int) -> None:
        if not (tmp_path / "mended").exists():
            raise ValueError(f"no licence for {worker}")

    with kind.ahead(range(5), start_hook=hook) as ahead:
        iterator = iter(ahead)
        with pytest.raises(RuntimeError, match=r"worker \d could not start: ValueError: no licence") as info:
            next(iterator)
        assert type(info.value.__cause__) is ValueError
        assert list(iterator) == []
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no licence"):
                list(ahead)
            with pytest.raises(RuntimeError, match="no licence"):
                ahead[3]
        (tmp_path / "mended").touch()
        ahead.restart()
        assert list(ahead) == list(range(5))


def test_a_forked_worker_imports_nothing() -> None:
    # Whatever it imported, another thread might have been importing at the fork: a lock held for ever.
    script = """
import sys, seqkit as sk
with sk.prefetch(sk.smap(lambda _: set(sys.modules), range(1)), 1, "process", context="fork") as ahead:
    (modules,) = ahead
print(sorted(modules - set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("[]\n", "")


@every_kind
def test_an_epoch_draws_new_numbers_in_the_same_workers(kind: Kind) -> None:
    def noisy(x: int, rng: np.random.Generator) -> Any:
        return x, int(rng.integers(10**9)), os.getpid(), threading.get_ident()

    source = sk.random_map(noisy, sk.shuffle(range(30), seed=1), seed=2)
    with kind.ahead(source) as ahead:
        passes = [list(ahead), *(list(ahead.at_epoch(epoch)) for epoch in (0, 1, 2, 1)), list(ahead)]
        draws = [[(x, number) for x, number, *_ in items] for items in passes]
        assert draws[0] == draws[1] == draws[5]
        assert draws[2] == draws[4]
        assert draws[2] not in (draws[0], draws[3])
        assert draws[2] == [item[:2] for item in source.at_epoch(1)]
        assert ahead.at_epoch(2)[7][:2] == draws[3][7]
        workers = {worker for items in passes for *_, pid, ident in items for worker in [(pid, ident)]}
        assert len(workers) <= 2
        assert ahead.statistics().items == 6 * 30 + 1
        assert ahead.statistics() == ahead.at_epoch(4).statistics()  # type: ignore[attr-defined]


@every_kind
def test_closing_any_epoch_closes_all(kind: Kind) -> None:
    ahead = kind.ahead(sk.shuffle(range(9), seed=0))
    other = ahead.at_epoch(3)
    assert sorted(other) == list(range(9))
    other.close()  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="closed"):
        list(ahead)


# -------------------------------------------------------------------- memory of processes


@every_kind_of_process
def test_memory_from_empty_reaches_the_reader_without_a_copy(kind: Kind) -> None:
    def make(i: int) -> np.ndarray[Any, Any]:
        array = sk.empty((100, 100), np.float32)
        array[:] = i
        return array

    with kind.ahead(sk.smap(make, range(20)), max_buffered=4) as ahead:
        for i, array in enumerate(ahead):
            assert (array == i).all()
            assert array.flags.writeable
            assert array.__array_interface__["data"][0] % 64 == 0
            if i == 10:
                kept = array
                assert ahead.statistics().leased >= 1
        del array
        seen = ahead.statistics()
        assert (seen.leased, seen.copies, seen.misses, seen.retired) == (1, 0, 0, 0)
        del kept
        assert ahead.statistics().leased == 0


@every_kind_of_process
def test_stacked_batches_lie_in_shared_memory(kind: Kind) -> None:
    batches = sk.batch(np.arange(60_000.0).reshape(600, 100), 50, collate_fn=np.stack)
    with kind.ahead(batches, max_buffered=3) as ahead:
        seen = 0
        for got, want in zip(ahead, batches, strict=True):
            assert (got == want).all()
            seen += 1
        statistics = ahead.statistics()
    assert seen == 12
    assert (statistics.copies, statistics.misses) == (0, 0)
    assert statistics.nbytes >= 60_000 * 8


@every_kind_of_process
@pytest.mark.filterwarnings("ignore:prefetch. an item of:RuntimeWarning")
def test_items_that_do_not_fit_a_slot_are_sent_another_way(kind: Kind) -> None:
    def make(i: int) -> np.ndarray[Any, Any]:
        array = sk.empty(10_000 * (i % 3), np.int64)
        array[:] = i
        return array

    for shm_size in (0, 40 * 4096):
        with kind.ahead(sk.smap(make, range(30)), shm_size=shm_size, chunk_size=1) as ahead:
            for i, array in enumerate(ahead):
                assert array.shape == (10_000 * (i % 3),)
                assert (array == i).all()
            seen = ahead.statistics()
        assert seen.slots > 0
        assert seen.slots * seen.slot_bytes <= max(shm_size, 22 * 4096)
        assert seen.misses == (20 if shm_size else 0)


@every_kind
@pytest.mark.parametrize("chunk_size", [1, 3])
def test_local_classes_arrive_as_the_unchanged_classes_of_the_consumer(kind: Kind, chunk_size: int) -> None:
    class Local:
        mode = "as it was"

        class Nested(enum.Enum):
            RED = 1

    class Refused(ValueError):
        pass

    def item(i: int) -> Any:
        if i == 2:
            raise Refused(i)
        return Local(), Local.Nested.RED

    nested = Local.Nested
    with kind.ahead(sk.smap(item, range(9)), chunk_size=chunk_size) as ahead:
        assert type(ahead[0][0]) is Local
        Local.mode = "of the reader"
        for i in (1, *range(3, 9)):
            local, red = ahead[i]
            assert type(local) is Local
            assert red is nested.RED
        with pytest.raises(sk.EvaluationError, match="Refused: 2") as raised:
            ahead[2]
        assert type(raised.value.__cause__) is Refused
    assert (Local.mode, Local.Nested) == ("of the reader", nested)


@every_kind_of_process
def test_local_classes_of_every_usual_kind_arrive_as_those_of_the_consumer(kind: Kind) -> None:
    @dataclass
    class Data:
        x: int

    @dataclass(frozen=True, slots=True)
    class Slotted:
        x: int

    class Derived(Data):
        def twice(self) -> int:
            return 2 * self.x

    class Typed(NamedTuple):
        x: int

    class Plain:
        __slots__ = ("x",)

        def __init__(self, x: int) -> None:
            self.x = x

    kinds = [Data, Slotted, Derived, Typed, namedtuple("Row", "x"), Plain]
    with kind.ahead(sk.smap(lambda i: [kind(i) for kind in kinds], range(3))) as ahead:  # type: ignore[call-arg]
        for i, found in enumerate(ahead):
            assert [type(one) for one in found] == kinds
            assert [one.x for one in found] == [i] * 6
            assert found[2].twice() == 2 * i


@every_kind_of_process
def test_an_error_read_after_closing_has_the_class_of_the_consumer(kind: Kind, tmp_path: Path) -> None:
    class Local(Exception):
        pass

    def item(i: int) -> int:
        if i == 1:
            raise Local
        if i == 3:
            (tmp_path / "done").touch()
        return i

    with kind.ahead(sk.smap(item, range(4)), chunk_size=4) as ahead:
        items = iter(ahead)
        assert until((tmp_path / "done").exists)  # so that all four come at once
        assert next(items) == 0
    with pytest.raises(sk.EvaluationError) as raised:
        next(items)
    assert type(raised.value.__cause__) is Local


@every_kind
def test_classes_made_by_an_item_arrive_as_they_are(kind: Kind) -> None:
    def item(i: int) -> Any:
        return namedtuple("Row", [f"of_{i}"])(i)  # type: ignore[misc]

    with kind.ahead(sk.smap(item, range(20)), max_buffered=2) as ahead:
        ahead.start()
        mine = [item(i) for i in range(20, 40)]
        found = list(ahead)
    assert [made._fields for made in found + mine] == [(f"of_{i}",) for i in range(40)]
    assert len({type(made) for made in found + mine}) == 40


def test_definitions_of_an_unguarded_main_script_come_back_as_its_own_also_when_made_again(
    tmp_path: Path,
) -> None:
    script = '''
        import sys
        from dataclasses import dataclass
        import seqkit as sk

        print("main runs")

        @dataclass
        class Sample:
            value: int
            def double(self):
                return Sample(helper(self.value))

        class Odd(ValueError):
            pass

        def helper(x):
            return 2 * x

        def make(x):
            if x == 3:
                raise Odd(x)
            return Sample(x).double()

        for method, context in [("thread", None)] + [("process", c) for c in sys.argv[1:]]:
            with sk.prefetch(sk.smap(make, range(6)), 2, method, context=context) as ahead:
                assert list(ahead._iter([0, 1, 2, 4, 5])) == [Sample(x) for x in (0, 2, 4, 8, 10)]
                try:
                    ahead[3]
                except sk.EvaluationError as error:
                    assert "Odd: 3" in str(error), error
                    print(context or method, type(error.__cause__).__name__)

        CELL = """
        class Sample:
            def __init__(self, x):
                self.x = x

        with sk.prefetch(sk.smap(Sample, range(3)), 1, "process", context=context) as ahead:
            assert [type(one) is Sample and one.x for one in ahead] == [0, 1, 2]
        """
        for context in sys.argv[1:]:
            exec(CELL)
            exec(CELL)
    '''
    contexts = [str(kind.context) for kind in PROCESSES]
    code, out, err = finished(tmp_path, script, *contexts)
    assert (code, err) == (0, "")
    assert out.split("\n") == ["main runs", *[f"{kind} Odd" for kind in KINDS], ""]  # workers do not run it


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_global_generators_repeat_with_the_seed_and_change_with_the_epoch(kind: Kind) -> None:
    def draw(_: int, rng: np.random.Generator) -> tuple[float, float]:
        return random.random(), float(np.random.rand())

    def draws(seed: int | None, *epochs: int) -> list[list[tuple[float, float]]]:
        # Of a job that ends early the rest may come after the next job.
        source = sk.random_map(draw, range(6), seed=0)
        with kind.ahead(source, nworkers=1, chunk_size=1, seed=seed) as node:
            return [list(node.at_epoch(epoch)) for epoch in epochs]

    first, second, later = draws(3, 1, 2, 1)
    assert draws(3, 1, 2, 1) == [first, second, later]
    assert draws(3, 2) == [second]
    assert len({*first, *second, *later}) == 18
    assert draws(4, 1) != [first]
    assert draws(None, 1) != draws(None, 1)


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_consumers_of_several_epochs_at_once_get_no_random_number_twice(kind: Kind) -> None:
    def draw(_: int) -> tuple[float, float]:
        return random.random(), float(np.random.rand())

    with kind.ahead(sk.smap(draw, range(40)), chunk_size=1, max_buffered=2, seed=1) as node:
        seen = [(*pair, node[7]) for pair in zip(node.at_epoch(1), node.at_epoch(2), strict=True)]
    assert len({python for items in seen for python, _ in items}) == 120
    assert len({numpy for items in seen for _, numpy in items}) == 120


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_the_replacement_of_a_dead_worker_draws_other_random_numbers(kind: Kind) -> None:
    def draw(i: int) -> tuple[float, float]:
        if i % 10 == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return random.random(), float(np.random.rand())

    with kind.ahead(sk.smap(draw, range(30)), nworkers=1, chunk_size=1, retries=0, seed=1) as node:
        seen = [item for item in drawn(iter(node.at_epoch(1))) if isinstance(item, tuple)]
    assert len({python for python, _ in seen}) == len({numpy for _, numpy in seen}) == 27


# -------------------------------------------------------------------- many jobs at once


def test_no_worker_sleeps_while_jobs_that_were_sent_together_wait() -> None:
    pipes = [os.pipe(), os.pipe()]

    def in_pairs(i: int) -> int:
        """From item 300 on, end only once the neighbour has begun."""
        if i >= 300:
            os.write(pipes[i % 2][1], b"x")
            other = pipes[1 - i % 2][0]
            assert select.select([other], [], [], 20)[0]
            os.read(other, 1)
        return i

    with PROCESSES[0].ahead(sk.smap(in_pairs, range(600)), chunk_size=1) as node:
        assert list(node) == list(range(600))
    for ends in pipes:
        os.close(ends[0])
        os.close(ends[1])


@pytest.mark.parametrize(("nbytes", "most"), [(SMALL_AHEAD_BYTES // 8, 8), (SMALL_AHEAD_BYTES // 100, 64)])
def test_threads_compute_no_more_bytes_ahead_than_processes(nbytes: int, most: int) -> None:
    begun: list[int] = []

    def make(i: int) -> Any:
        begun.append(i)
        return {"x": np.empty(nbytes, np.uint8)}

    with Kind("thread").ahead(sk.smap(make, range(300))) as node:
        for read, _ in enumerate(node):
            # One that the reader has, and one that has been handed out while others were asked for.
            assert max(begun) <= read + most + 1
        until(lambda: len(begun) == 300)


@every_kind
def test_one_worker_computes_items_in_order_where_they_become_large(kind: Kind, tmp_path: Path) -> None:
    log, sizes = tmp_path / "log", [1] * 300 + [200_000] * 60

    def item(i: int) -> Any:
        append(log, f"{i} ")
        return np.zeros(sizes[i], np.uint8)

    with kind.ahead(sk.smap(item, range(360)), 1) as node:
        assert [len(array) for array in node] == sizes
    assert [*map(int, log.read_text().split())] == [*range(360)]  # the rest of a job before the next one
