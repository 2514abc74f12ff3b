"""Templates: whose pipeline they hold, when they end and what they share."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.processes import template
from seqkit.engine.processes.team import Team

from .kinds import Kind
from .scripts import finished
from .traces import append, children, descriptors, drawn, is_gone, pids_of, state, until

FORKSERVER = Kind("process", "forkserver")


def numbers(count: int = 4, nworkers: int = 2) -> Any:
    return FORKSERVER.ahead(sk.smap(lambda x: (x, os.getppid()), range(count)), nworkers)


@contextmanager
def a_thread() -> Iterator[None]:
    """Have another thread about, beside which nobody forks unasked."""
    end = threading.Event()
    thread = threading.Thread(target=lambda: end.wait())
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def template_of(node: Any) -> int:
    """The process that forked the workers of a node."""
    (found,) = {parent for _, parent in node}
    return int(found)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def team_of(node: Any) -> Any:
    return node.engine._scheduler.backend._team


# -------------------------------------------------------------------- templates


def test_workers_share_what_was_unpickled_once(tmp_path: Path) -> None:
    class Told:
        def __init__(self, log: Path) -> None:
            self.log = log

        def __setstate__(self, state: dict[str, Any]) -> None:
            self.__dict__.update(state)
            append(self.log, f"{os.getpid()} ")

        def __call__(self, x: int) -> tuple[int, int]:
            return x, os.getppid()

    with FORKSERVER.ahead(sk.smap(Told(tmp_path / "log"), range(20)), 3) as node:
        pid = template_of(node)
        assert (tmp_path / "log").read_text().split() == [str(pid)]
        os.kill(pids_of(node)[0], signal.SIGKILL)
        assert until(lambda: len(list(node)) == 20 and node.statistics().restarts == 1)
        assert (tmp_path / "log").read_text().split() == [str(pid)]


def test_starting_does_not_block_and_a_node_may_be_closed_at_once() -> None:
    before, go = children(), os.pipe()
    os.set_inheritable(go[0], True)

    class Waits:
        def __reduce__(self) -> Any:
            return os.read, (go[0], 1)

    node = FORKSERVER.ahead([Waits()], 1).start()
    assert node.statistics().restarts == 0
    node.close()  # in the middle of booting, or of unpickling
    assert children() == before
    for fd in go:
        os.close(fd)


def test_a_template_ends_with_its_node() -> None:
    open_before, before = descriptors(), children()
    node = numbers()
    pid = template_of(node)
    node.close()
    assert is_gone(pid)
    assert (descriptors(), children()) == (open_before, before)


def test_workers_end_with_the_template_whose_socket_is_closed() -> None:
    node = numbers()
    pid = template_of(node)
    workers = pids_of(node)
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    team_of(node)._template._socket.shutdown(socket.SHUT_WR)
    assert until(lambda: all(map(is_gone, [pid, *workers])))
    assert template_of(node) != pid  # new ones, from a new template
    node.close()


def test_nodes_have_templates_of_their_own() -> None:
    first, second = numbers(), numbers()
    assert {parent_of(template_of(first)), parent_of(template_of(second))} == {os.getpid()}
    assert template_of(first) != template_of(second)
    first.close()
    assert template_of(second)
    second.close()


def test_a_template_that_two_threads_close_is_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    node = numbers().start()
    list(node)
    closed = team_of(node)._template
    is_readable = template.linux.is_readable

    def close_meanwhile(fd: int, within_s: float = 0.0) -> bool:
        closed.close()  # at exit, a daemon thread and the main thread close it at once
        return is_readable(fd, within_s)

    monkeypatch.setattr(template.linux, "is_readable", close_meanwhile)
    closed.close()
    monkeypatch.undo()
    assert is_gone(closed._pid)
    node.close()


def test_many_threads_start_and_close_nodes() -> None:
    before = children()
    wrong: list[Any] = []

    def reads() -> None:
        try:
            for _ in range(2):
                with numbers(20) as node:
                    if [x for x, _ in node] != list(range(20)):
                        wrong.append("items")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=reads) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert children() == before


@pytest.mark.parametrize(("context", "more"), [("spawn", 2), ("forkserver", 4)])
def test_a_pickled_pipeline_and_a_template_take_two_descriptors_each(context: str, more: int) -> None:
    counts = []
    for start in ("fork", context):
        with Kind("process", start).ahead(range(4), 2) as node:
            list(node)
            pids_of(node)
            counts.append(len(descriptors()))
    assert counts[1] - counts[0] == more


# -------------------------------------------------------------------- faults


def test_a_worker_that_dies_before_it_starts_affects_no_other_worker(tmp_path: Path) -> None:
    mark = tmp_path / "died"

    def hook(worker: int) -> None:
        if worker == 0 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    with FORKSERVER.ahead(sk.smap(lambda x: (x, os.getppid()), range(8)), 2, start_hook=hook) as node:
        pid = template_of(node)
        assert until(lambda: template_of(node) == pid and node.statistics().restarts == 1)
        assert len(pids_of(node)) == 2


def test_a_fork_that_fails_in_a_template_ends_the_node() -> None:
    def unpickled() -> Any:
        """In the template: let the second fork fail."""
        fork, begun = os.fork, []

        def failing() -> int:
            begun.append(1)
            if len(begun) == 2:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return fork()

        os.fork = failing
        return lambda x: (x, os.getppid())

    class Failing:
        def __reduce__(self) -> Any:
            return unpickled, ()

        def __call__(self, x: int) -> Any: ...

    found: list[Any] = []
    with FORKSERVER.ahead(sk.smap(Failing(), range(4)), 2) as node:
        assert until(lambda: found.extend(drawn(iter(node))) or isinstance(found[-1], BaseException))
    assert "worker 1 could not start: BlockingIOError: [Errno 11]" in str(found[-1])


def test_a_template_that_dies_at_its_start_is_named() -> None:
    class Ends:
        def __reduce__(self) -> Any:
            return os._exit, (3,)

    reason = "the template process ended; see what it wrote to stderr"
    with FORKSERVER.ahead([Ends()]) as node, pytest.raises(RuntimeError, match=reason):
        list(node)


def test_an_unpickling_error_of_any_size_is_reported_also_by_a_template_that_has_ended() -> None:
    class Fails:
        def __reduce__(self) -> Any:
            return eval, ("int('x' * 10**6) or " + " + ".join("1" * 1000),)

    with FORKSERVER.ahead([Fails()]).start() as node:
        pid = team_of(node)._template._pid
        assert until(lambda: state(pid) == "Z")  # and has not read which workers were asked for
        with pytest.raises(RuntimeError, match="worker 0 could not start: ValueError"):
            list(node)


def test_a_child_that_holds_the_socket_of_a_template_does_not_hide_its_death(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: list[int] = []
    pair = socket.socketpair

    def held_by_a_child(*arguments: Any) -> Any:
        ends = pair(*arguments)
        held.append(os.dup(ends[1].fileno()))  # as one has it that is forked in this moment
        return ends

    monkeypatch.setattr(socket, "socketpair", held_by_a_child)
    with numbers() as node:
        pid = template_of(node)
        assert len(pids_of(node)) == 2  # otherwise another template would start the second one
        monkeypatch.undo()
        os.kill(pid, signal.SIGKILL)
        assert until(lambda: list(node) and team_of(node)._template is None)
        for worker in pids_of(node):
            os.kill(worker, signal.SIGKILL)
        assert until(lambda: {parent for _, parent in node}.isdisjoint({pid}))
    for fd in held:
        os.close(fd)


def test_a_worker_without_a_file_descriptor_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    receive, lost = socket.recv_fds, []

    def recv_fds(*arguments: Any) -> Any:
        message, fds, flags, address = receive(*arguments)
        if fds and not lost and message[:1] == bytes([template.TemplateMessage.FORKED]):
            lost.append(1)
            for fd in fds:
                os.close(fd)
            fds = []
        return message, fds, flags, address

    monkeypatch.setattr(socket, "recv_fds", recv_fds)
    with numbers(nworkers=2) as node:
        assert until(lambda: len(list(node)) == 4 and node.statistics().restarts == 1)
    assert lost == [1]


def test_a_worker_that_is_too_slow_before_its_start_is_known_is_killed_when_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = Team._read_template

    def read_late(team: Team, template: Any) -> None:
        if any(handle.stopped for handle in team.handles.values()):
            read(team, template)

    monkeypatch.setattr(Team, "_read_template", read_late)
    slow = sk.smap(lambda _: signal.pause(), range(1))
    with FORKSERVER.ahead(slow, 1, timeout=0.2, retries=0) as node, pytest.raises(sk.ItemTimeout):
        list(node)


def test_workers_start_in_a_parent_that_ignores_sigchld(tmp_path: Path) -> None:
    script = """
        import signal
        import seqkit as sk

        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for context in ("fork", "forkserver"):
            with sk.prefetch(range(6), 2, "process", context=context) as node:
                assert list(node) == list(range(6))
    """
    assert finished(tmp_path, script) == (0, "", "")


@pytest.mark.parametrize("context", ["forkserver", pytest.param("spawn", marks=pytest.mark.start_methods)])
def test_libraries_that_a_pipeline_loads_have_no_more_threads_than_others(
    context: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    script = """
        import sys
        import seqkit as sk

        def threads(_):
            import sklearn.utils._openmp_helpers
            import threadpoolctl

            found = threadpoolctl.threadpool_info()
            return [library["num_threads"] for library in found if library["user_api"] == "openmp"]

        class Loading:
            def __init__(self, function):
                self.function = function

            def __reduce__(self):
                return load, (self.function,)

            def __call__(self, i):
                return self.function(i)

        def load(function):
            import sklearn.utils._openmp_helpers

            return Loading(function)

        with sk.prefetch(sk.smap(Loading(threads), range(2)), 1, "process", context=sys.argv[1]) as node:
            for numbers in node:
                assert numbers and set(numbers) == {1}, numbers
    """
    pytest.importorskip("sklearn")
    assert finished(tmp_path, script, context) == (0, "", "")


# -------------------------------------------------------------------- whose template it is


def test_a_forked_child_starts_its_own_template() -> None:
    node = numbers()
    pid = template_of(node)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with node:
                code = 0 if parent_of(template_of(node)) == os.getpid() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert template_of(node) == pid
    node.close()


def parents(loader: Any) -> list[int]:
    """The processes that forked the workers of an epoch."""
    return [int(pid) for batch in loader for pid in batch]


def test_a_loader_has_one_template_in_each_epoch_where_threads_matter() -> None:
    before = children()
    with a_thread(), sk.DataLoader(Parents(8), 2, num_workers=2) as loader:
        epochs = [set(parents(loader)) for _ in range(2)]
    assert [len(epoch) for epoch in epochs] == [1, 1]
    assert os.getpid() not in epochs[0] | epochs[1]
    assert children() == before


def test_a_loader_without_such_threads_forks_and_has_none() -> None:
    before = children()
    loader = sk.DataLoader(Parents(8), 2, num_workers=2)
    assert set(parents(loader)) == {os.getpid()}
    assert children() == before


def test_the_template_of_a_loader_ends_when_the_loader_is_dropped() -> None:
    with a_thread():
        loader = sk.DataLoader(Parents(8), 2, num_workers=2)
        iterator = iter(loader)
        (pid, _) = map(int, next(iterator))
        del loader
        assert {int(pid) for batch in iterator for pid in batch} == {pid}
        del iterator
        gc.collect()
        assert until(lambda: is_gone(pid))


def test_a_loader_sends_its_data_set_anew_in_every_epoch_unless_workers_persist() -> None:
    for persistent, expected in ((False, [0, 1, 2]), (True, [0, 0, 0])):
        data = np.zeros(4)
        with a_thread(), sk.DataLoader(data, 4, num_workers=1, persistent_workers=persistent) as loader:
            seen = []
            for _ in range(3):
                seen.append(float(next(iter(loader))[0]))
                data += 1
            assert seen == expected


# -------------------------------------------------------------------- where workers find themselves


def surroundings(*names: str) -> tuple[str, list[str | None]]:
    """The directory and the variables of workers."""
    asked = sk.smap(lambda _: (os.getcwd(), [os.environ.get(name) for name in names]), [0])
    with FORKSERVER.ahead(asked, 1) as node:
        (found,) = node
    return found


def test_later_workers_have_the_current_directory_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("NEW_HERE", "LEAVES", "OMP_NUM_THREADS")
    monkeypatch.delenv("NEW_HERE", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("LEAVES", "yes")
    assert surroundings(*names) == (os.getcwd(), [None, "yes", "1"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEW_HERE", "é" * 50_000)  # more than a message may hold
    monkeypatch.delenv("LEAVES")
    assert surroundings(*names) == (str(tmp_path), ["é" * 50_000, None, "1"])
    monkeypatch.undo()
    assert surroundings(*names)[0] == os.getcwd() != str(tmp_path)


def test_later_workers_use_the_current_module_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    surroundings()
    (tmp_path / "written_later.py").write_text("ANSWER = 42\n")
    monkeypatch.syspath_prepend(tmp_path)

    def item(_: int) -> int:
        import written_later  # type: ignore[import-not-found]

        return int(written_later.ANSWER)

    with FORKSERVER.ahead(sk.smap(item, [0]), 1) as node:
        assert list(node) == [42]


class Parents:
    """A data set of the process that forked its reader."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> int:
        return os.getppid()
