"""Streams, which can only be iterated: read ahead as the view that `uniter` makes of them."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk

from .kinds import KINDS, PROCESSES, Kind
from .traces import append, drawn, until

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_kind_of_process = pytest.mark.parametrize("kind", PROCESSES, ids=str)


class Logged:
    """Numbers to iterate over; a file says when a pass begins, and what is drawn."""

    def __init__(self, path: Path, numbers: range) -> None:
        self.path = path
        self.numbers = numbers
        path.touch()

    def __iter__(self) -> Iterator[int]:
        append(self.path, "begin ")
        try:
            for x in self.numbers:
                append(self.path, f"{x} ")
                yield x
        finally:
            append(self.path, "end ")

    @property
    def log(self) -> list[str]:
        return self.path.read_text().split()


@every_kind
def test_one_reader_draws_every_item_once_and_a_new_pass_begins_anew(kind: Kind, tmp_path: Path) -> None:
    for chunk_size in ("auto", 3):
        stream = Logged(tmp_path / str(chunk_size), range(50))
        with kind.ahead(sk.uniter(stream), 1, chunk_size=chunk_size) as ahead:
            iterator = iter(ahead)
            assert until(lambda: "0" in stream.log)  # noqa: B023 - before the first item is asked for
            assert list(iterator) == list(range(50))
            assert list(iterator) == []
            assert stream.log == ["begin", *map(str, range(50)), "end"]
            assert list(ahead) == list(range(50))
            with pytest.raises(IndexError, match="ends before index 50"):
                ahead[50]


def slow(x: int) -> int:
    """Return the item, after longer than a job may take."""
    over = time.monotonic() + 0.006
    while x % 40 == 39 and time.monotonic() < over:
        pass
    return x


def large(x: int) -> Any:
    """Return a number, or an array of which few fit a slot."""
    return x if x < 300 else np.full(2000 + 5 * x, x)


@every_kind
@pytest.mark.parametrize("turned", [slow, large])
def test_items_that_turn_slow_or_large_are_drawn_once(
    kind: Kind, turned: Callable[[int], Any], tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def items() -> Iterator[Any]:
        append(log, "begin ")
        yield from map(turned, range(600))

    options: Any = {} if kind.method == "thread" else {"shm_size": 1 << 20}
    with kind.ahead(sk.uniter(items), 1, **options) as ahead:
        assert [int(np.max(item)) for item in ahead] == list(range(600))
    assert log.read_text().split() == ["begin"]


def test_a_worker_that_gives_back_items_while_others_are_sent_draws_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seqkit.engine.processes.transport import Processes

    look: Any = Processes.order

    def slowly(backend: Processes) -> Any:
        order = look.fget(backend)
        time.sleep(0.001)  # the worker may raise it meanwhile
        return order

    monkeypatch.setattr(Processes, "order", property(slowly))
    stream = Logged(tmp_path / "log", range(600))
    with KINDS[1].ahead(sk.smap(large, sk.uniter(stream)), 1, shm_size=1 << 20) as ahead:
        assert [int(np.max(item)) for item in ahead] == list(range(600))
    assert stream.log == ["begin", *map(str, range(600)), "end"]


def test_a_job_does_not_overtake_the_urgent_one_that_was_sent_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only worker looks for urgent jobs, the parent sends one and others, the worker goes on to these."""
    from seqkit.engine.processes.worker import Worker

    serve, read = Worker.serve, os.read

    def slowly(worker: Worker) -> None:
        def late(fd: int, size: int) -> bytes:
            try:
                return read(fd, size)
            except BlockingIOError:
                if fd == worker.fds.urgent:
                    select.select([worker.fds.jobs], [], [], 0.1)
                raise

        os.read = late
        serve(worker)

    monkeypatch.setattr(Worker, "serve", slowly)
    stream = Logged(tmp_path / "log", range(600))
    with KINDS[1].ahead(sk.smap(large, sk.uniter(stream)), 1, shm_size=1 << 20) as ahead:
        assert [int(np.max(item)) for item in ahead] == list(range(600))
    assert stream.log == ["begin", *map(str, range(600)), "end"]


@every_kind_of_process
def test_after_a_death_the_only_worker_goes_on_in_plan_order(kind: Kind, tmp_path: Path) -> None:
    for chunk_size in ("auto", 2):
        log, killed = tmp_path / f"log {chunk_size}", tmp_path / f"killed {chunk_size}"

        def item(i: int, log: Path = log, killed: Path = killed) -> int:
            append(log, f"{i} ")
            if i == 3 and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return i

        with kind.ahead(sk.smap(item, range(40)), 1, chunk_size=chunk_size) as ahead:
            assert list(ahead) == list(range(40))
        assert list(map(int, log.read_text().split())) == [*range(4), *range(3, 40)]


@every_kind_of_process
def test_a_stream_is_opened_once_more_after_a_death(kind: Kind, tmp_path: Path) -> None:
    log, killed = tmp_path / "log", tmp_path / "killed"

    def items() -> Iterator[int]:
        append(log, "begin ")
        for i in range(60):
            if i == 5 and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield i

    with kind.ahead(sk.uniter(items), 1, chunk_size=2) as ahead:
        assert list(ahead) == list(range(60))
    assert log.read_text().split() == ["begin", "begin"]


@every_kind
def test_after_a_timeout_the_only_worker_goes_on_in_plan_order(kind: Kind, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def item(i: int) -> int:
        append(log, f"{i} ")
        if i == 3:
            time.sleep(2)
        return i

    with kind.ahead(sk.smap(item, range(12)), 1, chunk_size=4, timeout=0.5) as ahead:
        found = drawn(iter(ahead))
    assert [None if isinstance(i, sk.ItemTimeout) else i for i in found] == [0, 1, 2, None, *range(4, 12)]
    assert list(map(int, log.read_text().split())) == list(range(12))


def test_a_one_shot_iterator_whose_items_turn_slow_is_read_to_its_end() -> None:
    with ThreadPoolExecutor(1) as pool:
        for method in ("thread", pool):
            once = map(slow, range(600))
            with sk.prefetch(sk.uniter(lambda: once), 1, method) as ahead:  # type: ignore[arg-type] # noqa: B023
                assert list(ahead) == list(range(600))
    with sk.prefetch(sk.uniter(x * x for x in range(20)), 1) as squares:
        assert list(squares) == [x * x for x in range(20)]


@every_kind
def test_several_readers_have_a_part_each(kind: Kind, tmp_path: Path) -> None:
    parts = [Logged(tmp_path / str(k), range(k, 30, 3)) for k in range(3)]
    readers = [kind.ahead(sk.uniter(part, size=10), 1) for part in parts]
    try:
        assert list(sk.interleave(*readers)) == list(range(30))
        seen = [part.log[1:11] for part in parts]
        assert seen == [list(map(str, range(k, 30, 3))) for k in range(3)]
    finally:
        for reader in readers:
            reader.close()


@every_kind
def test_many_workers_of_one_stream_agree_on_its_items(kind: Kind, tmp_path: Path) -> None:
    with kind.ahead(sk.uniter(Logged(tmp_path / "log", range(200)), n_parallel=2), 2) as ahead:
        assert list(ahead) == list(range(200))


@every_kind
def test_a_stream_that_fails_delivers_the_items_before(kind: Kind) -> None:
    def breaking() -> Iterator[int]:
        yield from range(7)
        raise OSError("the line is dead")

    with kind.ahead(sk.uniter(breaking), 1) as ahead:
        *items, error = drawn(iter(ahead))
        assert items == list(range(7))
        assert isinstance(error, sk.EvaluationError)
        assert error.index == 7
        assert "the line is dead" in str(error)


@every_kind
def test_a_stream_that_nobody_reads_any_more_is_closed(kind: Kind, tmp_path: Path) -> None:
    stream = Logged(tmp_path / "log", range(1000))
    ahead = kind.ahead(sk.uniter(stream), 1, max_buffered=1)
    iterator = iter(ahead)
    assert next(iterator) == 0
    assert "end" not in stream.log
    del ahead, iterator
    assert until(lambda: stream.log[-1] == "end")


def test_items_that_kill_their_workers_do_not_end_other_streams() -> None:
    def deadly(i: int) -> int:
        if 2 <= i < 12:
            os._exit(3)
        return i

    for numbers in (range(20), sk.cycle(range(20))):
        with KINDS[1].ahead(sk.smap(deadly, numbers), 1, retries=0, max_buffered=1) as ahead:
            found, iterator = [], iter(ahead)
            while len(found) < 20:
                found += past_error(iterator)
        assert [i for i, item in enumerate(found) if isinstance(item, sk.WorkerDied)] == list(range(2, 12))
        assert found[:2] + found[12:] == [0, 1, *range(12, 20)]


class Unsized:
    """Sixty numbers, some of which are errors of an inner node, and no length."""

    def __getitem__(self, i: int) -> int:
        if i >= 60:
            raise IndexError
        if i % 4 == 0:
            raise sk.ItemTimeout("of an inner node")
        return i


@every_kind
def test_errors_of_other_nodes_end_no_worker(kind: Kind) -> None:
    with kind.ahead(sk.view(Unsized()), chunk_size=4) as ahead:
        found = drawn(iter(ahead))
        assert [i if isinstance(i, int) else None for i in found] == [i if i % 4 else None for i in range(60)]


def past_error(iterator: Iterator[int]) -> list[Any]:
    try:
        return [next(iterator)]
    except sk.EvaluationError as error:
        return [error]


@every_kind
def test_streams_opened_by_a_dropped_epoch_are_closed_with_the_node(kind: Kind, tmp_path: Path) -> None:
    closed = tmp_path / "closed"

    def numbers() -> Iterator[int]:
        try:
            yield from range(10**6)
        finally:
            closed.touch()

    source = sk.uniter(numbers)  # which outlives the node
    with kind.ahead(source, 1, max_buffered=4) as node:
        items = iter(node)
        assert next(items) == 0
        del items
        assert not closed.exists()
    assert until(closed.exists)
    assert source[3] == 3
