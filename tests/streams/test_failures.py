"""A failing stream costs that stream and nothing else, wherever it is read, and is named with its chunk."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.streams import StreamLoader
from tests.engine.traces import append, children, drawn, is_gone, until
from tests.helpers import mostly_stress

from .model import KINDS, batches, numbers, rows_of, shown

every_kind = pytest.mark.parametrize(("workers", "method"), KINDS)
with_workers = pytest.mark.parametrize(("workers", "method"), KINDS[1:])
processes = pytest.mark.parametrize(
    ("workers", "method"), [kind for kind in KINDS[1:] if kind[1] == "process"]
)

LENGTHS = [4, 2, 6, 3, 5, 1]


def outcome(found: list[Any]) -> list[Any]:
    """Return the rows of batches, and errors as their type and what they are about."""
    return [
        (type(item).__name__, getattr(item, "index", None)) if isinstance(item, Exception) else rows_of(item)
        for item in found
    ]


class Broken:
    """Numbers, but for stream 2, which breaks at chunk 3."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, length: int) -> Iterator[int]:
        for chunk, number in enumerate(numbers(length)):
            if length == 6 and chunk == 3:
                raise self.error
            yield number


class IndexBroken:
    """The same as an iterator that is no generator, so that its errors arrive as they are."""

    def __init__(self, length: int) -> None:
        self.rest = numbers(length)
        self.drawn = 0
        self.length = length

    def __iter__(self) -> IndexBroken:
        return self

    def __next__(self) -> int:
        self.drawn += 1
        if self.length == 6 and self.drawn == 4:
            raise sk.core.errors.EndOfSequence("not the end of this stream")
        return next(self.rest)


def cut() -> list[list[int]]:
    return [[*numbers(n)][: 3 if n == 6 else None] for n in LENGTHS]


@every_kind
@pytest.mark.parametrize("open_fn", [Broken(OSError("bad disk")), IndexBroken], ids=["generator", "iterator"])
def test_a_broken_stream_raises_once_and_the_others_go_on(workers: int, method: Any, open_fn: Any) -> None:
    loader = StreamLoader(LENGTHS, open_fn, 2, workers, pad_value=-1, method=method)
    found = drawn(iter(loader))
    (error,) = [item for item in found if isinstance(item, Exception)]
    assert isinstance(error, sk.EvaluationError)
    assert error.index == (2, 3)
    assert "chunk 3 of stream 2 (6) failed: " in str(error)
    assert [rows for rows in outcome(found) if isinstance(rows, list)] == batches(cut(), 2, "value", -1)
    assert found.index(error) == 5  # before the batch in which the chunk is missing, in every way to read


@every_kind
def test_a_broken_stream_can_be_skipped(workers: int, method: Any) -> None:
    loader = StreamLoader(
        LENGTHS, Broken(OSError("bad disk")), 2, workers, pad_value=-1, method=method, on_error="skip"
    )
    with pytest.warns(RuntimeWarning, match=r"without the rest of stream 2 \(6\): chunk 3 .* bad disk"):
        assert shown(loader) == batches(cut(), 2, "value", -1)
    ((stream, chunk, text),) = loader.failed
    assert (stream, chunk) == (2, 3)
    assert "bad disk" in text


class Unopened:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, length: int) -> Iterator[int]:
        if length == 6:
            raise self.error
        return numbers(length)


@every_kind
@pytest.mark.parametrize(
    "error", [StopIteration("user code"), SystemExit(3)], ids=["StopIteration", "SystemExit"]
)
def test_a_stream_that_cannot_be_opened_is_an_error(workers: int, method: Any, error: BaseException) -> None:
    iterator = iter(StreamLoader(LENGTHS, Unopened(error), 2, workers, pad_value=-1, method=method))
    if not workers and isinstance(error, SystemExit):  # it may come from a signal handler of the consumer
        with pytest.raises(SystemExit):
            drawn(iterator)
        return
    (failure,) = [item for item in drawn(iterator) if isinstance(item, BaseException)]
    assert isinstance(failure, sk.EvaluationError)
    assert "chunk 0 of stream 2 (6) failed" in str(failure)


@every_kind
def test_exceptions_pass_through_on_request(workers: int, method: Any) -> None:
    with sk.errstate("passthrough"):
        found = drawn(
            iter(StreamLoader(LENGTHS, Broken(KeyError(7)), 2, workers, pad_value=-1, method=method))
        )
    assert [repr(item) for item in found if isinstance(item, Exception)] == ["KeyError(7)"]
    assert len(found) == 1 + len(batches(cut(), 2, "value", -1))


# -------------------------------------------------------------------- lost workers


@processes
def test_only_the_stream_that_was_read_is_blamed_for_a_dead_worker(workers: int, method: Any) -> None:
    def deadly(length: int) -> Iterator[int]:
        for chunk, number in enumerate(numbers(length)):
            if length == 6 and chunk == 3:
                os._exit(3)
            yield number

    found = drawn(iter(StreamLoader(LENGTHS, deadly, 2, workers, pad_value=-1, method=method)))
    (error,) = [item for item in found if isinstance(item, Exception)]
    assert isinstance(error, sk.WorkerDied)
    assert error.index == (2, 3)
    assert str(error).startswith("chunk 3 of stream 2 (6): worker ")
    assert [rows for rows in outcome(found) if isinstance(rows, list)] == batches(cut(), 2, "value", -1)


@processes
def test_a_stream_whose_worker_dies_once_is_read_on(workers: int, method: Any, tmp_path: Path) -> None:
    def fragile(length: int) -> Iterator[int]:
        for chunk, number in enumerate(numbers(length)):
            if chunk == 2:
                flag = tmp_path / str(length)
                if not flag.exists():
                    flag.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
            yield number

    loader = StreamLoader(LENGTHS, fragile, 3, workers, pad_value=-1, method=method)
    assert shown(loader) == batches([[*numbers(n)] for n in LENGTHS], 3, "value", -1)


@with_workers
def test_a_stuck_stream_times_out_and_the_others_lose_nothing(
    workers: int, method: Any, tmp_path: Path
) -> None:
    over = threading.Event()
    wait = signal.pause if method == "process" else over.wait  # an event cannot be pickled for a template

    def stuck(length: int) -> Iterator[int]:
        for chunk, number in enumerate(numbers(length)):
            if length == 6 and chunk == 3:
                wait()
            yield number

    loader = StreamLoader(LENGTHS, stuck, 2, workers, pad_value=-1, method=method, timeout=0.3)
    try:
        found = drawn(iter(loader))
    finally:
        over.set()
    (error,) = [item for item in found if isinstance(item, Exception)]
    assert isinstance(error, sk.ItemTimeout)
    assert error.index == (2, 3)
    assert str(error).startswith("chunk 3 of stream 2 (6) took longer than 0.3 s in worker ")
    assert [rows for rows in outcome(found) if isinstance(rows, list)] == batches(cut(), 2, "value", -1)


@pytest.mark.parametrize("method", ["thread", "process"])
def test_errors_have_the_number_of_the_worker_among_all(method: Any) -> None:
    def stuck(stream: int) -> Iterator[int]:
        yield 0
        if stream == 1:
            time.sleep(1)
        yield 1

    iterator = iter(StreamLoader(range(2), stuck, 2, 2, method=method, timeout=0.3))
    next(iterator)
    with pytest.raises(sk.ItemTimeout, match=r"took longer than 0.3 s in worker 1\b") as caught:
        next(iterator)
    assert caught.value.worker == 1


def test_a_worker_of_streams_that_cannot_start_is_named_by_its_number_among_all() -> None:
    def hook(worker: int) -> None:
        if worker == 1:
            raise OSError("no licence")

    loader = StreamLoader(range(2), lambda _: iter([0, 1]), 2, 2, worker_init_fn=hook)
    with pytest.raises(RuntimeError, match="worker 1 could not start: OSError: no licence"):
        list(loader)


def test_reopening_a_stream_counts_for_no_timeout(tmp_path: Path) -> None:
    def slow(length: int) -> Iterator[int]:
        for chunk, number in enumerate(numbers(length)):
            if length == 3 and chunk == 2 and not (tmp_path / "died").exists():
                (tmp_path / "died").touch()
                os._exit(1)
            time.sleep(0.06)
            yield number

    # After the worker's end, stream 0 is moved on over several chunks, which takes longer than one may.
    loader = StreamLoader([12, 2, 2, 2, 3], slow, 2, 1, pad_value=-1, timeout=0.3)
    assert shown(loader) == batches([[*numbers(n)] for n in [12, 2, 2, 2, 3]], 2, "value", -1)


class Counted:
    """Arrays of stream, chunk and process. A file says when a stream is opened, and one stream gets stuck.

    The cost of chunks changes on the way, and with it which worker has the least work.
    """

    COST_MS = (10, 5, 10, 5, 10), (20, 30, 10, 20, 30)

    def __init__(self, folder: Path, stuck: int) -> None:
        self.opened = folder / "opened"
        self.opened.touch()
        self.stuck = stuck

    def __call__(self, stream: int) -> Iterator[np.ndarray]:
        append(self.opened, f"{stream} ")
        assert self.times()[stream] < 20, "it is opened again and again"
        for chunk in range(40):
            time.sleep(self.COST_MS[chunk >= 15][stream] / 1000)
            if stream == self.stuck and chunk == 24:
                time.sleep(60)
            yield np.array([stream, chunk, os.getpid()])

    def times(self) -> dict[int, int]:
        return Counter(int(stream) for stream in self.opened.read_text().split())


@pytest.mark.parametrize(
    ("rows", "workers", "stuck"),
    mostly_stress((3, 1, 1), (4, 2, -1), (5, 3, 1), (3, 2, -1), (3, 2, 1), here=3),
)
def test_a_stream_is_opened_once_and_once_more_after_each_death_and_interruption(
    rows: int, workers: int, stuck: int, tmp_path: Path
) -> None:
    open_fn, waits = Counted(tmp_path, stuck), [False]

    def interrupt(*_: object) -> None:
        if waits[0]:
            raise KeyboardInterrupt

    # Streams that are opened again after chunk 10 need several times the time limit to get there.
    loader = StreamLoader(range(rows), open_fn, rows, workers, padding="drop_rows", timeout=0.3)
    seen: dict[int, list[int]] = {stream: [] for stream in range(rows)}
    batches, errors, interruptions = iter(loader), [], 0
    killed, interrupted = {10: 0, 30: 2}, {6, 20}  # after a chunk: the worker of a row, and the consumer
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while True:
            try:
                waits[0] = True
                batch = next(batches, None)
            except KeyboardInterrupt:
                interruptions += 1
                continue
            except sk.EvaluationError as error:
                errors.append(error)
                continue
            finally:
                waits[0] = False
            if batch is None:
                break
            for stream, chunk, _ in batch.data.tolist():
                seen[stream].append(chunk)
            if batch.chunk.max() in killed:
                row = min(killed[batch.chunk.max()], len(batch.data) - 1)
                with suppress(ProcessLookupError):  # it may have died after this chunk
                    os.kill(int(batch.data[row, 2]), signal.SIGKILL)
            if batch.chunk.max() in interrupted:
                signal.setitimer(signal.ITIMER_REAL, 0.004)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(errors) == (stuck >= 0), errors
    assert seen == {stream: [*range(24 if stream == stuck else 40)] for stream in range(rows)}
    most = 1 + len(killed) + len(errors) + interruptions
    assert all(1 <= times <= most for times in open_fn.times().values()), (most, open_fn.times())


def test_a_stream_whose_worker_dies_twice_in_a_row_has_failed(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    opened.touch()

    def deadly(length: int) -> Iterator[int]:
        append(opened, f"{length} ")
        for chunk, number in enumerate(numbers(length)):
            if length == 6 and chunk in (2, 4):
                attempts = tmp_path / f"attempts {chunk}"
                append(attempts, "x")
                if chunk == 4 or len(attempts.read_text()) == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
            yield number

    found = drawn(iter(StreamLoader([6, 5], deadly, 2, 2, pad_value=-1)))
    (error,) = [item for item in found if isinstance(item, Exception)]
    assert isinstance(error, sk.WorkerDied)
    assert error.index == (0, 4)
    # Once, once more after its death at chunk 2, and once more after that at chunk 4. The other one, once.
    assert Counter(opened.read_text().split()) == {"6": 3, "5": 1}
    expected = batches([[*numbers(6)][:4], [*numbers(5)]], 2, "value", -1)
    assert [rows for rows in outcome(found) if isinstance(rows, list)] == expected


@pytest.mark.filterwarnings("ignore:StreamLoader. went on without:RuntimeWarning")
def test_a_rank_without_a_stream_to_read_again_says_so() -> None:
    def broken(length: int) -> Iterator[int]:
        yield from numbers(length)
        if length:
            raise OSError("bad disk")

    loader = StreamLoader([2, 0, 1], broken, 2, padding="restart", on_error="skip", batches_per_epoch=9)
    *_, last = drawn(iter(loader))
    assert isinstance(last, RuntimeError)
    assert "all streams that have chunks failed (2 of 3)" in str(last)
    assert "Let the other ranks end it too" in str(last)


# -------------------------------------------------------------------- interruptions


@every_kind
def test_nothing_is_lost_by_an_interrupted_next(workers: int, method: Any, tmp_path: Path) -> None:
    def waiting(length: int) -> Iterator[int]:
        for chunk, number in enumerate(numbers(length)):
            if length == 6 and chunk == 2:
                while not (tmp_path / "go").exists():
                    time.sleep(0.005)
            yield number

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        iterator = iter(StreamLoader(LENGTHS, waiting, 3, workers, pad_value=-1, method=method))
        found = [rows_of(next(iterator)), rows_of(next(iterator))]
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
        (tmp_path / "go").touch()
        found += shown(iterator)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert found == batches([[*numbers(n)] for n in LENGTHS], 3, "value", -1)


@processes
def test_a_stream_keeps_its_worker_after_an_interruption(workers: int, method: Any) -> None:
    def open_fn(stream: int) -> Iterator[int]:
        for _ in range(10_000 if stream else 2):
            yield os.getpid()

    # Stream 3 follows stream 0, in a worker that is not the first one.
    iterator = iter(StreamLoader(range(4), open_fn, 3, workers, padding="stop", method=method))
    before = [next(iterator).data.tolist() for _ in range(7)][2:]
    iterator._where.interrupt()
    assert [next(iterator).data.tolist() for _ in range(5)] == before
    iterator.close()


@with_workers
def test_a_failing_start_hook_is_an_error_and_no_end(workers: int, method: Any) -> None:
    def hook(worker: int) -> None:
        raise OSError(f"no licence for worker {worker}")

    loader = StreamLoader(LENGTHS, numbers, 3, workers, pad_value=-1, method=method, worker_init_fn=hook)
    iterator = iter(loader)
    for _ in range(2):  # nothing counts as read, so the error comes again
        with pytest.raises(RuntimeError, match="no licence for worker"):
            next(iterator)
    assert list(iterator) == []  # a third time would not help


# -------------------------------------------------------------------- closing


class Logged:
    """Numbers; a file says when a stream is opened and closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def __call__(self, length: int) -> Iterator[int]:
        append(self.path, f"+{length} ")
        try:
            yield from numbers(length)
        finally:
            append(self.path, f"-{length} ")

    def all_closed(self) -> bool:
        words = self.path.read_text().split()
        return sorted(word[1:] for word in words if word[0] == "+") == sorted(
            word[1:] for word in words if word[0] == "-"
        )


@every_kind
@pytest.mark.parametrize("way", ["dropped", "closed", "with", "stop"])
def test_an_abandoned_epoch_closes_every_open_stream(
    workers: int, method: Any, way: str, tmp_path: Path
) -> None:
    open_fn = Logged(tmp_path / "log")
    padding: Any = "stop" if way == "stop" else "restart"
    loader = StreamLoader([900, 800, 700, 600, 2], open_fn, 3, workers, padding=padding, method=method)
    iterator = iter(loader)
    next(iterator)
    if way == "dropped":
        del iterator
    elif way == "closed":
        iterator.close()
        assert drawn(iterator) == []
    elif way == "with":
        with loader:
            pass
        assert drawn(iterator) == []
    else:
        assert len(drawn(iterator)) == 801  # until the lane of streams 1 and 4 ends, after 802 batches
    assert until(open_fn.all_closed, 5)


@every_kind
def test_a_finished_epoch_closes_every_stream_and_ends_its_workers(
    workers: int, method: Any, tmp_path: Path
) -> None:
    open_fn, before = Logged(tmp_path / "log"), children()
    iterator = iter(StreamLoader(LENGTHS, open_fn, 3, workers, padding="restart", method=method))
    for _ in iterator:
        pass
    assert until(open_fn.all_closed, 5)
    assert until(lambda: children() == before, 5)
    assert drawn(iterator) == []


CONSUMER = """
import os, sys, time
import seqkit as sk
from seqkit.core.worker import get_worker_info

def endless(n):
    while True:
        print(f"{os.getpid()}\\n", end="", flush=True)  # one write: workers share the pipe
        yield n

for batch in sk.streams.StreamLoader([1, 2, 3, 4], endless, 2, 2, pad_value=0):
    pass
"""


def test_no_worker_outlives_a_killed_consumer() -> None:
    consumer = subprocess.Popen([sys.executable, "-c", CONSUMER], stdout=subprocess.PIPE, text=True)
    assert consumer.stdout is not None
    pids: set[int] = set()
    while len(pids) < 2:
        pids.add(int(consumer.stdout.readline()))
    consumer.kill()
    consumer.stdout.close()
    consumer.wait()
    assert until(lambda: all(map(is_gone, pids)), 10)


ENDLESS = """
import sys
import numpy as np
from seqkit.streams import StreamLoader

def endless(n):
    while True:
        yield np.full(50_000, n)

context = sys.argv[1]
print("begun", flush=True)
for batch in StreamLoader([1, 2, 3, 4], endless, 4, 3, padding="restart", multiprocessing_context=context):
    pass
"""


def of_session(leader: int) -> list[int]:
    """Return the living processes of a session."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if os.getsid(pid) == leader and not is_gone(pid):
                found.append(pid)
        except ProcessLookupError:
            pass
    return found


@pytest.mark.stress
@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("seed", range(20))
def test_a_consumer_killed_at_a_random_instant_leaves_nothing(seed: int, context: str) -> None:
    command = [sys.executable, "-c", ENDLESS, context]
    consumer = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    with consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline()
        try:  # from before the first worker starts to the middle of the epoch
            consumer.wait(random.Random(seed).choice([0.02, 0.1, 0.5, 2]) * random.Random(-seed).random())
        except subprocess.TimeoutExpired:
            consumer.kill()
    # The memory has no name. It is gone with the last process. The fixture looks for it, and for names.
    assert until(lambda: not of_session(consumer.pid), 10), of_session(consumer.pid)


@pytest.mark.stress
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(20))
def test_workers_killed_at_random_lose_nothing_silently(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    lengths = [rng.randrange(60) for _ in range(12)]

    def slow(length: int) -> Iterator[int]:
        for number in numbers(length):
            (tmp_path / str(os.getpid())).touch()
            time.sleep(0.002)
            yield number

    over, killed = threading.Event(), []

    def kill() -> None:
        """Kill workers that have read something: a node ends when its workers die before that."""
        while len(killed) < 30 and not over.wait(rng.uniform(0.02, 0.2)):
            living = [pid for pid in map(int, os.listdir(tmp_path)) if not is_gone(pid)]
            if living:
                killed.append(rng.choice(sorted(living)))
                with suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)
                (tmp_path / str(killed[-1])).unlink()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        loader = StreamLoader(lengths, slow, 4, 3, pad_value=-1, multiprocessing_context="forkserver")
        found = drawn(iter(loader))
    finally:
        over.set()
        killer.join()
    errors = [item for item in found if isinstance(item, Exception)]
    rows = [row for item in found if not isinstance(item, Exception) for row in rows_of(item) if not row[4]]
    seen = {(stream, chunk) for _, stream, chunk, _, _ in rows}
    assert len(seen) == len(rows)
    assert killed
    lost = {(stream, chunk) for stream, n in enumerate(lengths) for chunk in range(n)} - seen
    assert {stream for stream, _ in lost} <= {
        error.index[0] for error in errors if isinstance(error, sk.EvaluationError)
    }


@every_kind
def test_ctrl_c_while_a_batch_is_made_loses_nothing(workers: int, method: Any) -> None:
    made: list[int] = []

    def collate(rows: list[Any]) -> list[Any]:
        made.append(len(rows))
        if len(made) == 3:
            raise KeyboardInterrupt
        return rows

    loader = StreamLoader(LENGTHS, numbers, 3, workers, collate, padding="drop_rows", method=method)
    plain = StreamLoader(LENGTHS, numbers, 3, 0, padding="drop_rows", collate_fn=list)
    iterator = iter(loader)
    found = [next(iterator), next(iterator)]
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    found += iterator
    assert [batch.data for batch in found] == [batch.data for batch in plain]


@pytest.mark.parametrize("padding", ["value", "restart", "drop_rows"])
@pytest.mark.parametrize("at", range(0, sum(LENGTHS), 3))
def test_ctrl_c_in_a_stream_loses_nothing_and_a_state_resumes_at_its_batch(padding: Any, at: int) -> None:
    reads = iter(range(1000))

    def interrupted(length: int) -> Iterator[int]:
        for number in numbers(length):
            if next(reads) == at:
                raise KeyboardInterrupt
            yield number

    options: Any = {"padding": padding, "pad_value": -1 if padding == "value" else None}
    expected = shown(StreamLoader(LENGTHS, numbers, 3, **options))
    loader = StreamLoader(LENGTHS, interrupted, 3, **options)
    iterator, found = iter(loader), list[Any]()
    with pytest.raises(KeyboardInterrupt):
        found.extend(map(rows_of, iterator))
    other = StreamLoader(LENGTHS, numbers, 3, **options)
    other.load_state_dict(loader.state_dict())
    assert found + shown(other) == expected
    assert found + shown(iterator) == expected


# -------------------------------------------------------------------- without the rest of a stream

skipped = pytest.mark.filterwarnings("ignore:StreamLoader. went on without:RuntimeWarning")


class BrokenAt:
    """Numbers, but each stream of a dict breaks at a chunk."""

    def __init__(self, places: dict[int, int]) -> None:
        self.places = places
        self.opened: list[int] = []

    def __call__(self, length: int) -> Iterator[int]:
        self.opened.append(length)
        for chunk, number in enumerate(numbers(length)):
            if self.places.get(length) == chunk:
                raise OSError("bad disk")
            yield number

    def left(self, lengths: list[int]) -> list[list[int]]:
        return [[*numbers(n)][: self.places.get(n)] for n in lengths]


@every_kind
@skipped
@pytest.mark.parametrize("padding", ["value", "drop_rows", "stop"])
@pytest.mark.parametrize("places", [{5: 1}, {2: 0}, {5: 0, 2: 0}, {5: 2, 3: 1}], ids=str)
def test_lengths_of_streams_that_fail_are_no_error(
    workers: int, method: Any, padding: Any, places: dict[int, int]
) -> None:
    lengths, open_fn = [5, 2, 3], BrokenAt(places)
    loader = StreamLoader(
        lengths,
        open_fn,
        2,
        workers,
        padding=padding,
        pad_value=-1,
        lengths=lengths,
        on_error="skip",
        method=method,
    )
    found = shown(loader)
    expected = batches(open_fn.left(lengths), 2, padding, -1)
    assert found[: len(expected)] == expected
    if padding == "value":
        assert len(found) == len(loader)  # as many as on other ranks
        assert all(row[4] for batch in found[len(expected) :] for row in batch)
    else:
        assert len(found) == len(expected)


@every_kind
def test_a_stream_that_fails_after_its_last_chunk_is_named(workers: int, method: Any) -> None:
    def open_fn(length: int) -> Iterator[int]:
        yield from numbers(length)
        if length == 3:
            raise OSError("no trailer")

    loader = StreamLoader([3, 1], open_fn, 1, workers, lengths=[3, 1], method=method)
    with pytest.raises(sk.EvaluationError, match=r"chunk 3 of stream 0 \(3\) failed: OSError: no trailer"):
        list(loader)
    loader = StreamLoader([1, 3], open_fn, 1, workers, lengths=[1, 3], on_error="skip", method=method)
    with pytest.warns(RuntimeWarning, match="without the rest of stream 1"):
        assert shown(loader) == batches([[*numbers(1)], [*numbers(3)]], 1, "value")
    assert [failure[:2] for failure in loader.failed] == [(1, 3)]


@skipped
def test_lengths_of_streams_that_fail_are_no_error_in_any_order() -> None:
    rng = random.Random(0)
    for _ in range(300):
        lengths = rng.sample(range(1, 40), rng.randint(1, 9))
        open_fn = BrokenAt({n: rng.randrange(n) for n in lengths if rng.random() < 0.4})
        padding: Any = rng.choice(["value", "drop_rows", "stop", "restart"])
        loader = StreamLoader(
            lengths,
            open_fn,
            rng.randint(1, 4),
            padding=padding,
            pad_value=-1,
            lengths=lengths,
            on_error="skip",
        )
        with suppress(RuntimeError):  # no stream without an error is left to read again
            found = shown(loader)
            most = sum(map(len, open_fn.left(lengths)))
            assert len([row for batch in found for row in batch if not row[4]]) <= most


@every_kind
@skipped
def test_failed_streams_are_not_read_again_to_fill_rows(workers: int, method: Any) -> None:
    lengths, open_fn = [3, 2, 12], BrokenAt({2: 1})
    loader = StreamLoader(lengths, open_fn, 2, workers, padding="restart", on_error="skip", method=method)
    found = shown(loader)
    assert len(loader.failed) == 1
    assert {row[1] for batch in found for row in batch if row[4]} == {0, 2}
    if not workers:
        assert open_fn.opened.count(2) == 1
    again = StreamLoader(lengths, open_fn, 2, workers, padding="restart", on_error="skip", method=method)
    for _ in islice(again, 5):
        pass
    other = StreamLoader(lengths, open_fn, 2, padding="restart", on_error="skip")
    other.load_state_dict(json.loads(json.dumps(again.state_dict())))
    assert other.failed == again.failed
    assert shown(other) == found[5:]
    assert len(other.failed) == 1


@skipped
def test_a_stream_that_failed_is_tried_again_in_the_next_epoch() -> None:
    loader = StreamLoader([3, 2], BrokenAt({2: 1}), 2, padding="restart", on_error="skip")
    assert shown(loader) == shown(loader)
    assert [failure[:2] for failure in loader.failed] == [(1, 1), (1, 1)]


def test_a_timed_out_stream_is_not_opened_again() -> None:
    over, opened = threading.Event(), []

    def stuck(length: int) -> Iterator[int]:
        opened.append(length)
        for chunk, number in enumerate(numbers(length)):
            if length == 6 and chunk == 3:
                over.wait()
            yield number

    loader = StreamLoader(LENGTHS, stuck, 2, 1, pad_value=-1, method="thread", timeout=0.2)
    try:
        found = drawn(iter(loader))
    finally:
        over.set()
    assert [type(item).__name__ for item in found if isinstance(item, Exception)] == ["ItemTimeout"]
    assert sorted(opened) == sorted(LENGTHS)


# -------------------------------------------------------------------- chunks in the same memory


def refilled(make: Any, change: Any) -> Any:
    """Return an `open_fn` that yields one object again and again, changed in between."""

    def open_fn(stream: int) -> Iterator[Any]:
        buffer = make()
        for chunk in range(6):
            change(buffer, chunk)
            yield buffer

    return open_fn


def set_all(buffer: Any, chunk: int) -> None:
    buffer[:] = [chunk] * len(buffer)


def part(stream: int) -> Iterator[Any]:
    table = np.zeros((2, 3), int)
    for chunk in range(6):
        table[:] = chunk
        yield table[1]


def two(stream: int) -> Iterator[Any]:
    buffers = np.zeros(2, int), np.zeros(2, int)
    for chunk in range(6):
        buffers[chunk % 2][:] = chunk
        yield buffers[chunk % 2]


SHARED = np.zeros(2, int)


def shared_by_streams(stream: int) -> Iterator[Any]:
    for chunk in range(6):
        SHARED[:] = 10 * stream + chunk
        yield SHARED


def from_torch(stream: int) -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    buffer = torch.zeros(2)
    for chunk in range(6):
        buffer.fill_(chunk)
        yield buffer


REFILLED: dict[str, Any] = {
    "array": refilled(lambda: np.zeros(2, int), set_all),
    "part of an array": part,
    "two arrays": two,
    "list": refilled(lambda: [0, 0], set_all),
    "list of text": refilled(lambda: ["", ""], lambda buffer, chunk: set_all(buffer, str(chunk))),
    "bytearray": refilled(lambda: bytearray(2), set_all),
    "dict": refilled(dict, lambda buffer, chunk: buffer.update(x=chunk)),
    "array in a dict": refilled(
        lambda: {"x": np.zeros(2)}, lambda buffer, chunk: set_all(buffer["x"], chunk)
    ),
    "array in a tuple": refilled(lambda: (np.zeros(2), 1), lambda buffer, chunk: set_all(buffer[0], chunk)),
    "array behind text in a list": refilled(
        lambda: ["", np.zeros(2)], lambda buffer, chunk: set_all(buffer[1], chunk)
    ),
    "record": refilled(
        lambda: np.zeros(1, [("x", int)]).view(np.recarray)[0],
        lambda buffer, chunk: buffer.__setitem__("x", chunk),
    ),
    "lists in a list": refilled(lambda: [[0]], lambda buffer, chunk: set_all(buffer[0], chunk)),
    "tensor": from_torch,
}


@pytest.mark.parametrize(("workers", "method"), KINDS[:5:2])
@pytest.mark.parametrize("name", REFILLED)
def test_a_stream_may_refill_its_buffer(name: str, workers: int, method: Any) -> None:
    loader = StreamLoader([0, 1], REFILLED[name], 2, workers, str, padding="stop", method=method)
    texts = [batch.data for batch in loader]
    alone = [[repr(batch.data[0]) for batch in StreamLoader([k], REFILLED[name], 1, 0, list)] for k in (0, 1)]
    assert texts == [f"[{first}, {second}]" for first, second in zip(*alone, strict=True)]
    assert len(set(texts)) == 6


@pytest.mark.parametrize(("workers", "method"), [KINDS[0], KINDS[1], KINDS[4]])
def test_streams_may_share_a_buffer(workers: int, method: Any) -> None:
    loader = StreamLoader([0, 1], shared_by_streams, 2, workers, padding="stop", method=method)
    assert [batch.data.tolist() for batch in loader] == [[[n, n], [10 + n, 10 + n]] for n in range(6)]


@pytest.mark.parametrize(("workers", "method"), KINDS[:5])
def test_chunks_that_the_consumer_keeps_are_not_overwritten(workers: int, method: Any) -> None:
    open_fn = REFILLED["array in a dict"]
    kept = list(StreamLoader([0, 1], open_fn, 2, workers, list, padding="stop", method=method))
    assert [batch.data[1]["x"].tolist() for batch in kept] == [[chunk] * 2 for chunk in range(6)]
