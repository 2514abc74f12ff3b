"""What goes wrong in pytorch-stream-dataloader (3.C) and MegEngine (5.C): one test for each defect.

The numbers are those of the survey of existing systems that seqkit was designed against.
"""

from __future__ import annotations

import gc
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.streams import StreamLoader
from tests.engine.traces import append, drawn, until

from .model import KINDS, batches, numbers, rows_of, shown

every_kind = pytest.mark.parametrize(("workers", "method"), KINDS)


def jittery(length: int) -> Iterator[int]:
    for chunk in numbers(length):
        time.sleep(0.002 * random.random())
        yield chunk


@every_kind
@pytest.mark.parametrize("padding", ["value", "restart", "drop_rows"])
def test_3c1_workers_that_lag_behind_lose_no_chunk_at_the_end(
    workers: int, method: Any, padding: Any
) -> None:
    """3.C.1: workers that are a step behind stop early, and the end of an epoch is lost."""
    lengths = [5, 9, 1, 3, 8, 2, 7, 1, 6, 4]
    loader = StreamLoader(lengths, jittery, 4, workers, padding=padding, pad_value=-1, method=method)
    found = shown(loader)
    assert found == batches([[*numbers(n)] for n in lengths], 4, padding, -1)
    real = [(row[1], row[2]) for batch in found for row in batch if not row[4]]
    assert sorted(real) == sorted((i, chunk) for i, n in enumerate(lengths) for chunk in range(n))


@every_kind
def test_3c2_fewer_streams_than_rows_are_neither_doubled_nor_refused(workers: int, method: Any) -> None:
    """3.C.2: 3 streams in 4 rows come several times and as real; more rows than streams per worker raise."""
    for streams, rows in (([2, 3, 1], 4), ([2], 8)):
        found = shown(StreamLoader(streams, numbers, rows, workers, pad_value=-1, method=method))
        real = [(row[1], row[2]) for batch in found for row in batch if not row[4]]
        assert sorted(real) == [(i, chunk) for i, n in enumerate(streams) for chunk in range(n)]
        assert all(len(batch) == rows for batch in found)


@every_kind
def test_3c3_empty_streams_end_also_when_they_would_be_read_again(workers: int, method: Any) -> None:
    """3.C.3: with 'data' padding and only empty streams the loader never ends."""
    assert list(StreamLoader([0] * 9, numbers, 2, workers, padding="restart", method=method)) == []


@pytest.mark.parametrize("method", ["thread", "process"])
def test_3c4_a_worker_that_starts_late_reads_no_stream_twice(method: Any) -> None:
    """3.C.4: a worker that starts late takes streams after the list has wrapped, and they come twice."""

    def late(worker: int) -> None:
        if worker:
            time.sleep(0.3)

    loader = StreamLoader([1] * 9, numbers, 4, 2, pad_value=-1, method=method, worker_init_fn=late)
    assert shown(loader) == batches([[1000]] * 9, 4, "value", -1)


@every_kind
def test_3c5_streams_that_are_read_again_are_flagged(workers: int, method: Any) -> None:
    """3.C.5: the consumer cannot tell padding from data."""
    *_, last = StreamLoader([1, 4], numbers, 2, workers, padding="restart", method=method)
    assert last.data.tolist() == [4001, 4003]
    assert last.is_padding.tolist() == [True, False]
    assert last.mask.tolist() == [False, True]


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_3c6_lambdas_work_with_every_start_method(context: Any) -> None:
    """3.C.6: a lambda in the loader makes spawn and forkserver unusable."""
    loader = StreamLoader(
        [2, 1], lambda n: range(n), 2, 1, lambda rows: sum(rows), pad_value=0, multiprocessing_context=context
    )
    assert [batch.data for batch in loader] == [0, 1]


@every_kind
def test_3c7_the_list_is_not_changed_and_workers_are_not_capped(workers: int, method: Any) -> None:
    """3.C.7: shuffling changes the list, ranks read the same streams, workers are at most the rows."""
    streams = list(range(6))
    seen = []
    for rank in range(2):
        loader = StreamLoader(
            streams,
            lambda n: [n],
            1,
            workers,
            pad_value=-1,
            method=method,
            shuffle=True,
            seed=0,
            rank=rank,
            world_size=2,
            lengths=[1] * 6,
        )
        seen += [row[1] for batch in shown(loader) for row in batch]
    assert sorted(seen) == streams == list(range(6))


def test_3c8_the_arguments_are_those_of_the_readme() -> None:
    """3.C.8: the example of the README and the released interface differ."""
    files, batch_size, num_workers = ["ab", "c"], 2, 2  # its words and order, as far as they go
    loader = StreamLoader(files, iter, batch_size, num_workers, "".join, padding="drop_rows")
    assert [batch.data for batch in loader] == ["ac", "b"]


@every_kind
@pytest.mark.parametrize("failing", [False, True])
def test_3c9_iterators_are_closed_when_the_loader_is_abandoned(
    workers: int, method: Any, failing: bool, tmp_path: Path
) -> None:
    """3.C.9: iterators stay open when the loader is abandoned."""
    log = tmp_path / "log"
    log.touch()

    def logged(n: int) -> Iterator[int]:
        append(log, "+")
        try:
            while True:
                yield n
        finally:
            append(log, "-")

    def epoch() -> None:
        for batch in StreamLoader(range(5), logged, 3, workers, pad_value=-1, method=method):
            if batch.chunk[0] == 3:
                if failing:
                    raise ZeroDivisionError
                break

    if failing:
        with pytest.raises(ZeroDivisionError):
            epoch()
    else:
        epoch()
    text = until(lambda: (now := log.read_text()).count("+") == now.count("-") and now, 5)
    assert text, log.read_text()


# -------------------------------------------------------------------- MegEngine


@every_kind
def test_5c1_streams_end_errors_arrive_and_falsy_chunks_count(workers: int, method: Any) -> None:
    """5.C.1: the end, errors and Ctrl-C are swallowed by a bare except; falsy samples are left out."""

    def falsy(n: int) -> Iterator[Any]:
        yield from [0, None, [], "", False]
        if n:
            raise ValueError("bad")

    found = drawn(iter(StreamLoader([0, 1], falsy, 1, workers, list, padding="drop_rows", method=method)))
    assert [item.data for item in found[:5]] == [[0], [None], [[]], [""], [False]]
    assert len(found) == 11
    assert isinstance(found[-1], sk.EvaluationError)


def test_5c1_ctrl_c_arrives() -> None:
    """5.C.1: the same of Ctrl-C, which a stream raises here as the interpreter would."""

    def interrupted(n: int) -> Iterator[int]:
        yield n
        signal.raise_signal(signal.SIGINT)
        yield n

    iterator = iter(StreamLoader([5], interrupted, 1, pad_value=0))
    next(iterator)
    with pytest.raises(KeyboardInterrupt):
        next(iterator)


@every_kind
def test_5c1_arrays_have_no_truth_value_here(workers: int, method: Any) -> None:
    """5.C.1: arrays of several elements raise that their truth value is ambiguous."""
    loader = StreamLoader([3], lambda n: [np.zeros(n), np.ones(n)], 1, workers, pad_value=0, method=method)
    assert [batch.data.tolist() for batch in loader] == [[[0, 0, 0]], [[1, 1, 1]]]


@pytest.mark.parametrize("method", ["thread", "process"])
def test_5c2_a_timeout_interrupts_nothing_later(method: Any) -> None:
    """5.C.2: the timer may fire late, and interrupts the user's code."""
    over = threading.Event()
    wait = signal.pause if method == "process" else over.wait  # an event cannot be pickled for a template

    def slow_at(n: int) -> Iterator[int]:
        yield n
        if n == 1:
            wait()
        yield n

    try:
        loader = StreamLoader([1, 2], slow_at, 2, 2, pad_value=0, method=method, timeout=0.2)
        found = []
        for item in drawn(iter(loader)):
            found.append(item)
            time.sleep(0.3)  # longer than the limit, which counts only for chunks that somebody waits for
        assert [type(item) for item in found].count(sk.ItemTimeout) == 1
        assert len(found) == 3
    finally:
        over.set()


@every_kind
def test_5c3_a_last_batch_that_is_not_full_comes_too(workers: int, method: Any) -> None:
    """5.C.3: the incomplete last batch is lost, and streams are read in the parent."""
    threads: list[int] = []
    loader = StreamLoader([1] * 5, lambda n: [n], 2, workers, padding="drop_rows", method=method)
    assert [len(batch.data) for batch in loader] == [2, 2, 1]
    if method == "thread":
        loader = StreamLoader(
            [1],
            lambda n: [threads.append(threading.get_ident())],
            1,
            workers,
            list,
            padding="drop_rows",
            method="thread",
        )
        list(loader)
        assert (threads == [threading.get_ident()]) == (workers == 0)


@every_kind
def test_5c4_reading_ahead_keeps_the_last_batch_and_strings(workers: int, method: Any) -> None:
    """5.C.4: preload drops the last batch of a stream, recurses on strings, and makes lists of tuples."""
    loader = StreamLoader([2, 1], lambda n: [("name", n)] * n, 2, workers, padding="drop_rows", method=method)
    found = [batch.data for batch in loader]
    assert [(type(data), data[0], data[1].tolist()) for data in found] == [
        (tuple, ["name", "name"], [2, 1]),
        (tuple, ["name"], [2]),
    ]


@every_kind
@pytest.mark.parametrize("chunk", [0, 7, b"\x80\x05", None, StopIteration, ("a", None)], ids=repr)
def test_5c5_no_chunk_is_taken_for_a_signal(workers: int, method: Any, chunk: Any) -> None:
    """5.C.5: an int stands for the end of a worker, bytes for an exception."""
    loader = StreamLoader([3, 2], lambda n: [chunk] * n, 2, workers, list, padding="drop_rows", method=method)
    assert [batch.data for batch in loader] == [[chunk] * 2, [chunk] * 2, [chunk]]


@every_kind
def test_5c7_the_cause_of_an_error_is_told(workers: int, method: Any) -> None:
    """5.C.7: an exception in the loader becomes "cannot unpack NoneType"."""

    def broken(n: int) -> Iterator[int]:
        yield from {}["no such key"]

    (error,) = drawn(iter(StreamLoader([1], broken, 1, workers, pad_value=0, method=method)))
    assert isinstance(error.__cause__, KeyError)
    assert "no such key" in str(error)


@pytest.mark.parametrize("method", ["thread", "process"])
def test_5c9_a_loader_works_in_any_thread_and_leaves_signal_handlers_alone(method: Any) -> None:
    """5.C.9: not usable outside the main thread; installs a handler of SIGCHLD for ever."""
    before, found = signal.getsignal(signal.SIGCHLD), []
    reader = threading.Thread(
        target=lambda: found.extend(shown(StreamLoader([2, 1], numbers, 2, 2, pad_value=-1, method=method)))
    )
    reader.start()
    reader.join()
    assert found == batches([[2000, 2001], [1000]], 2, "value", -1)
    assert signal.getsignal(signal.SIGCHLD) is before


def test_5c14_a_loader_without_a_length_says_so_and_makes_a_list() -> None:
    """5.C.14: `list(dataset)` fails, because `len` raises an AssertionError."""
    loader = StreamLoader([2], numbers, 1, pad_value=0)
    with pytest.raises(TypeError, match="no length"):
        len(loader)
    assert len(list(loader)) == 2


@pytest.mark.parametrize("method", ["thread", "process"])
def test_5c15_workers_have_a_hook_and_information(method: Any) -> None:
    """5.C.15: no worker_init_fn; worker information for streams only."""
    loader = StreamLoader(
        [1],
        lambda n: [sk.get_worker_info().id],
        1,
        1,
        pad_value=0,
        method=method,
        worker_init_fn=lambda: None,  # type: ignore[union-attr]
    )
    assert [batch.data.tolist() for batch in loader] == [[0]]


def test_5c17_a_loader_that_could_not_be_made_is_collected_quietly(recwarn: pytest.WarningsRecorder) -> None:
    """5.C.17: `__del__` raises if the constructor failed."""
    with pytest.raises(ValueError, match="must be one of"):
        StreamLoader([1], numbers, 1, padding="zeros")  # type: ignore[arg-type]
    gc.collect()
    assert not recwarn.list


@every_kind
def test_rows_are_those_of_one_run_to_the_next(workers: int, method: Any) -> None:
    """Issue 1 and 3.B: nothing can be reproduced, because workers race for streams."""
    loader = StreamLoader(
        [3, 1, 4, 1, 5], jittery, 2, workers, pad_value=-1, shuffle=True, seed=8, method=method
    )
    first = [rows_of(batch) for batch in loader]
    loader.set_epoch(0)
    assert [rows_of(batch) for batch in loader] == first
