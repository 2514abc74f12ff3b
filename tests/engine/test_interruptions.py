"""How a node ends: closed, failed, or interrupted in the middle of something. Over the `Fake` backend."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from seqkit.engine.protocol import Failed, Job, PrefetchError
from seqkit.engine.scheduler import CLOSED, ReadsItself, Scheduler

from .fake import Fake, FakeProgress, a_node, in_threads, named, rest, take
from .traces import until

# -------------------------------------------------------------------- the end of a node


def test_closing_is_idempotent_ends_the_backend_and_tells_readers() -> None:
    fake = Fake()
    node = a_node(fake)
    reader = node.open(range(9), -1)
    assert take(reader) == ["<0>"]
    assert not reader.ended()
    node.close()
    node.close()
    assert fake.closed
    assert reader.ended()
    late, submitted = node.open(range(9), -1), fake.submitted[:]
    for told in (reader, reader, late):
        with pytest.raises(RuntimeError, match="prefetch: the node is closed; restart"):
            told.next()
        told.prepare()
    assert fake.submitted == submitted
    assert node.statistics().items == 1


def test_a_forgotten_node_closes_its_backend() -> None:
    fake = Fake()
    node = a_node(fake)
    reader = node.open(range(9), -1)
    reader.prepare()
    del node
    assert not fake.closed  # the reader still needs it
    del reader
    gc.collect()
    assert fake.closed


def test_a_backend_that_cannot_start_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def start() -> NoReturn:
        raise OSError("no more descriptors")

    fake = Fake()
    monkeypatch.setattr(fake, "start", start)
    with pytest.raises(OSError, match="no more descriptors"):
        a_node(fake)
    assert fake.closed


def test_a_permanent_failure_reaches_every_reader_and_the_first_reason_counts() -> None:
    fake = Fake()
    node = a_node(fake)
    readers = [node.open(range(9), -1) for _ in range(3)]
    fake.when_idle = lambda: fake.send(
        Failed(1, ValueError("the hook")), Failed(0, RuntimeError("it exited"))
    )
    for reader in [*readers, node.open(range(1), -1)]:
        reader.prepare()
        with pytest.raises(RuntimeError, match="worker 1 could not start: ValueError: the hook") as info:
            reader.next()
        assert type(info.value.__cause__) is ValueError


def test_reading_after_the_interpreter_closed_the_node_raises_an_error() -> None:
    fake = Fake()
    node = a_node(fake)
    begun, reader = node.open(range(9), -1), node.open(range(9), -1)
    take(begun)
    fake.deliver_all()
    node._life.end()
    assert fake.closed
    reader.prepare()
    with pytest.raises(RuntimeError, match="the node is closed"):
        reader.next()
    del begun
    assert node.statistics().items == 1


def test_the_error_of_a_closed_node_keeps_nothing_alive() -> None:
    class Held:
        pass

    def closed() -> weakref.ref[Held]:
        held, node = Held(), a_node(Fake())
        reader = node.open(range(9), -1)
        node.close()
        try:
            reader.next()
        except RuntimeError:
            return weakref.ref(held)
        raise AssertionError

    gc.disable()
    try:
        assert closed()() is None
    finally:
        gc.enable()


def test_a_reader_from_before_a_fork_refuses_in_the_child() -> None:
    fake = Fake()
    node = a_node(fake)
    reader = node.open(range(9), -1)
    reader.prepare()
    pid = os.fork()
    if pid == 0:
        try:
            reader.next()
        except RuntimeError as error:
            node.close()
            os._exit(0 if "before a fork" in str(error) and reader.ended() and not fake.closed else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert take(reader) == ["<0>"]


# -------------------------------------------------------------------- what strikes in the middle of things


def strike(monkeypatch: pytest.MonkeyPatch, target: Any, where: str, handler: Callable[[], Any]) -> None:
    """Have a signal handler run in the first call of a method, before it does anything."""
    original, has_struck = getattr(target, where), []

    def struck(*arguments: Any) -> Any:
        if not has_struck:
            has_struck.append(True)
            handler()
        return original(*arguments)

    monkeypatch.setattr(target, where, struck)


def raise_ctrl_c() -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize("strikes", [KeyboardInterrupt, TimeoutError, SystemExit])
@pytest.mark.parametrize("where", ["submit", "flush", "receive", "finished", "has_room", "_end_job"])
def test_an_exception_from_outside_closes_the_node(
    strikes: type[BaseException], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake()
    node = a_node(fake, chunk_size=2)
    reader, other = node.open(range(9), -1), node.open(range(9), -1, limit=2)
    other.prepare()

    def raise_it() -> NoReturn:
        raise strikes("as a signal handler does")

    fake.when_idle = fake.deliver_all if where == "_end_job" else lambda: None  # between two events
    target: Any = {"_end_job": node, "finished": FakeProgress}.get(where, fake)
    strike(monkeypatch, target, where, raise_it)
    with pytest.raises(strikes, match="as a signal handler does"):
        reader.next()
    assert node.ended()
    assert fake.closed
    with pytest.raises(RuntimeError, match="the node is closed"):  # rather than waiting for what was lost
        other.next()


def test_an_interruption_before_the_first_change_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    node = a_node(fake)
    reader, other = node.open(range(9), -1, limit=2), node.open(range(9), -1)
    reader.prepare()
    strike(monkeypatch, fake, "cancel", raise_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        reader.close()
    assert not node.ended()
    assert rest(other) == rest(reader) == named(range(9))


def test_ctrl_c_while_a_job_is_sent_tells_other_readers_the_same_as_always(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = Fake(blocks=True)
    node = a_node(fake)
    reader, other = node.open(range(3), -1), node.open(range(3), -1)
    told: list[Any] = []
    beside = threading.Thread(target=lambda: told.extend(in_threads(other.next)))

    def read_beside() -> None:  # the lock is free
        beside.start()
        assert until(lambda: told)

    strike(monkeypatch, node, "close", read_beside)
    strike(monkeypatch, fake, "submit", raise_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        reader.next()
    beside.join()
    assert [str(error) for error in told] == [CLOSED]


def test_a_signal_handler_during_a_state_change_cannot_read_and_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = Fake()
    node = a_node(fake)
    reader, other = node.open(range(3), -1), node.open(range(3), -1)

    def handler() -> None:
        for read in (other.next, other.prepare):
            with pytest.raises(ReadsItself, match="a signal handler reads the node"):
                read()

    strike(monkeypatch, fake, "submit", handler)
    assert rest(reader) == rest(other) == named(range(3))


@pytest.mark.parametrize("where", ["submit", "receive", "finished", "has_room", "is_worker"])
def test_a_signal_handler_may_close_the_node_anywhere(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    node = a_node(fake, chunk_size=2)
    reader = node.open(range(9), -1)
    fake.when_idle = lambda: None
    strike(monkeypatch, FakeProgress if where == "finished" else fake, where, node.close)
    with pytest.raises(RuntimeError, match="the node is closed"):  # and not an early end
        reader.next()
    assert fake.closed
    assert node.ended()


def test_consumers_dropped_during_a_state_change_release_their_results_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = Fake(capacity=9)
    node = a_node(fake, max_buffered=2)
    reader, closed, dropped = (node.open(range(6), -1) for _ in range(3))
    for each in (reader, closed, dropped):
        each.prepare()
    fake.deliver_all()
    assert take(reader) == ["<0>"]
    before, readers = node.statistics(), [dropped]
    del dropped, each

    def handler() -> None:
        closed.close()
        readers.clear()
        assert node.statistics() == before
        assert fake.discarded == []

    strike(monkeypatch, fake, "submit", handler)
    assert rest(reader) == named(range(1, 6))
    assert sorted(fake.discarded) == [[0], [0], [1], [1]]


def test_an_item_that_reads_the_node_waiting_for_it_gets_an_error_and_affects_no_other() -> None:
    fake = Fake()
    node = a_node(fake)

    def evaluate() -> None:
        fake.when_idle = fake.deliver_next
        within = node.open(range(5, 6), -1)
        with pytest.raises(ReadsItself, match=r"an item, .* reads the node that waits for it"):
            within.next()
        fake.deliver(1)

    fake.when_idle = evaluate
    assert rest(node.open(range(3), -1)) == named(range(3))


# -------------------------------------------------------------------- threads that wait


def waiting_readers(node: Scheduler, fake: Fake, then: Callable[[], None]) -> list[Any]:
    """Let three threads wait for a node, one receiving and two behind it; do something; see what they get."""

    def act() -> None:
        assert until(lambda: waits(node, fake, behind=2))
        then()

    plans = (range(1), range(10, 11), range(20, 21))
    *results, _ = in_threads(*[lambda plan=plan: rest(node.open(plan, -1)) for plan in plans], act)
    return results


def waits(node: Scheduler, fake: Fake, behind: int) -> bool:
    """Does one thread receive, and do so many wait behind it?"""
    return fake.receiving.is_set() and len(node._arrived._waiters) == behind  # type: ignore[attr-defined]


def test_closing_wakes_every_thread_that_waits() -> None:
    fake = Fake(blocks=True)
    node = a_node(fake)
    assert [str(error) for error in waiting_readers(node, fake, node.close)] == [CLOSED] * 3
    assert fake.closed


def test_a_failure_wakes_every_thread_that_waits() -> None:
    fake = Fake(blocks=True)
    failed = Failed(2, ValueError("the hook"))
    results = waiting_readers(a_node(fake), fake, lambda: fake.send(failed))
    assert [str(error) for error in results] == [
        "prefetch: worker 2 could not start: ValueError: the hook"
    ] * 3


def test_when_the_receiving_thread_has_its_item_another_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(blocks=True)
    node = a_node(fake)
    tickets: dict[Any, int] = {}  # by thread
    receivers: list[Any] = []
    submit = fake.submit

    def note(job: Job) -> None:
        tickets[threading.get_ident()] = job.ticket
        submit(job)

    def deliver_to_each_receiver() -> None:
        for behind in (2, 1, 0):
            assert until(lambda behind=behind: waits(node, fake, behind) and node._receiver not in receivers)
            receivers.append(node._receiver)
            fake.deliver(tickets[node._receiver])

    monkeypatch.setattr(fake, "submit", note)
    results = waiting_readers(node, fake, deliver_to_each_receiver)
    assert results == [["<0>"], ["<10>"], ["<20>"]]
    assert set(receivers) == set(tickets)


def test_an_interruption_of_the_receiving_thread_tells_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(blocks=True)
    receive = fake.receive

    def interrupted(timeout_s: float | None) -> NoReturn:
        receive(timeout_s)
        raise KeyboardInterrupt

    monkeypatch.setattr(fake, "receive", interrupted)
    results = waiting_readers(a_node(fake), fake, fake.wake)
    assert Counter(map(type, results)) == {KeyboardInterrupt: 1, PrefetchError: 2}
    assert fake.closed
