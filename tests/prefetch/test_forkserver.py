"""A fork server that nodes share: who its workers are, when it ends, what interrupts it."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import select
import signal
import socket
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk
from seqkit.prefetch.processes.template import Server, _Process

from .scripts import finished
from .traces import children, descriptors, is_gone, until


def numbers(count: int = 4) -> Any:
    return sk.prefetch(sk.smap(lambda x: (x, os.getppid()), range(count)), 2, "process", context="forkserver")


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@contextmanager
def a_thread() -> Iterator[None]:
    """Have another thread about, with which nobody forks unasked."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def parents(node: Any) -> set[int]:
    """The processes that forked the workers of a node."""
    return {parent for _, parent in node}


def workers_of(server: Server) -> set[int]:
    with open(f"/proc/{server.pid}/task/{server.pid}/children") as file:
        return set(map(int, file.read().split()))


def test_there_is_no_process_before_the_first_worker(server: Server) -> None:
    before = children()
    node = numbers().served(server)
    assert server.pid == 0
    assert children() == before
    assert parents(node) == {server.pid}
    node.close()


def test_nodes_share_it_and_it_outlives_them(server: Server) -> None:
    first, second = numbers().served(server), numbers().served(server)
    assert parents(first) == parents(second) == {server.pid}
    first.close()
    assert parents(second) == {server.pid}
    second.close()
    assert workers_of(server) == set()
    with numbers().served(server) as third:
        assert parents(third) == {server.pid}


def test_a_node_without_one_has_its_own_which_ends_with_it(server: Server) -> None:
    node = numbers()
    (own,) = parents(node)
    assert own != os.getpid()
    node.close()
    assert is_gone(own)


def test_epochs_and_rebuilt_views_share_it(server: Server) -> None:
    node = numbers().served(server)
    assert parents(node.at_epoch(3)) == {server.pid}
    with node._rebuild(node._sources) as again:
        assert again._engine is not node._engine
        assert parents(again) == {server.pid}
    node.close()


def test_close_ends_it_and_a_later_launch_boots_another(server: Server) -> None:
    open_before = descriptors()
    with numbers().served(server) as node:
        (first,) = parents(node)
    server.close()
    server.close()
    assert is_gone(first)
    assert descriptors() == open_before
    with numbers().served(server) as node:
        (second,) = parents(node)
    assert second not in (first, os.getpid())


def test_it_ends_when_nobody_has_it_any_more() -> None:
    server = Server()
    node = numbers().served(server)
    pid = next(iter(parents(node)))
    del server
    assert parents(node) == {pid}  # the node still has it
    del node
    gc.collect()
    assert until(lambda: is_gone(pid))


def test_a_node_goes_on_when_its_server_is_closed_before_it(server: Server) -> None:
    node = numbers(100).served(server)
    assert [x for x, _ in node] == list(range(100))
    server.close()  # which ends the workers of the node, too
    assert [x for x, _ in node] == list(range(100))
    node.close()


def test_many_threads_start_and_close_nodes_over_one_server(server: Server) -> None:
    wrong: list[Any] = []

    def reads() -> None:
        try:
            for _ in range(3):
                with numbers(20).served(server) as node:
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
    assert workers_of(server) == set()


def test_modules_are_loaded_once_for_all_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    who = tmp_path / "who"
    (tmp_path / "loaded_by_server.py").write_text(
        f"import os\nwith open({str(who)!r}, 'a') as file:\n    file.write(f'{{os.getpid()}} ')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def item(x: int) -> int:
        import loaded_by_server  # type: ignore[import-not-found]  # noqa: F401

        return x

    server = Server(preload=("no_such_module", "loaded_by_server"))
    for _ in range(2):
        with sk.prefetch(sk.smap(item, range(8)), 2, "process", context="forkserver").served(server) as node:
            assert list(node) == list(range(8))
    assert who.read_text().split() == [str(server.pid)]
    server.close()


def booted(server: Server) -> Any:
    """Return the running process of a server, which has forked and reaped already."""
    with numbers().served(server) as node:
        assert parents(node) == {server.pid}
    return server._process


def test_an_interrupted_launch_leaves_no_worker_behind(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = booted(server)
    monkeypatch.setattr(process, "receive", interrupt)
    node = numbers().served(server)
    with pytest.raises(KeyboardInterrupt):
        node.start()
    assert until(lambda: len(workers_of(server)) == 1)
    monkeypatch.undo()
    with numbers().served(server) as another:
        assert parents(another) == {server.pid}
    # It waits for nobody: its pipes have ended, or the next launch has killed it.
    assert until(lambda: all(is_gone_or_dead(pid) for pid in workers_of(server)))


def is_gone_or_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@contextmanager
def at_signal(monkeypatch: pytest.MonkeyPatch, server: Server, handler: Any) -> Iterator[None]:
    """Have a handler run in the middle of the next start of a worker."""
    process = booted(server)
    receive = process.receive

    def and_then_a_signal() -> Any:
        monkeypatch.setattr(process, "receive", receive)
        signal.raise_signal(signal.SIGUSR1)
        return receive()

    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        monkeypatch.setattr(process, "receive", and_then_a_signal)
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_closes_a_node_while_another_one_starts(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = numbers().served(server)
    assert parents(first) == {server.pid}

    def handler() -> None:
        first.close()
        with pytest.raises(RuntimeError, match="a signal handler starts workers while workers are started"):
            numbers().served(server).start()

    with at_signal(monkeypatch, server, handler), numbers().served(server) as second:
        assert parents(second) == {server.pid}
    with pytest.raises(RuntimeError, match="closed"):
        list(first)


def test_a_signal_handler_closes_the_server_while_a_node_starts(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_before = descriptors()
    node = numbers().served(server)
    with (
        at_signal(monkeypatch, server, server.close),
        pytest.raises(RuntimeError, match="the fork server was closed while workers were started"),
    ):
        node.start()
    node.close()
    assert server.pid == 0
    gc.collect()
    assert descriptors() == open_before


@pytest.mark.parametrize("struck", ["while it starts", "while it closes"])
def test_ctrl_c_leaves_the_server_to_others(
    server: Server, monkeypatch: pytest.MonkeyPatch, struck: str
) -> None:
    process = booted(server)
    node = numbers().served(server)
    if struck == "while it closes":
        node.start()
    wait = process.wait

    def and_ctrl_c() -> None:
        monkeypatch.setattr(process, "wait", wait)
        signal.raise_signal(signal.SIGINT)
        wait()

    monkeypatch.setattr(process, "wait", and_ctrl_c)
    with pytest.raises(KeyboardInterrupt) as caught:
        node.start() if struck == "while it starts" else node.close()
    thread = threading.Thread(target=lambda: numbers().served(server).start().close())
    thread.start()
    thread.join()  # while the traceback is alive
    with numbers().served(server) as another:
        assert parents(another) == {server.pid}
    del caught


def test_nobody_gets_a_server_that_is_being_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    process = booted(server)
    end = process.end
    launched = []

    def end_slowly() -> None:
        with numbers().served(server) as node:
            launched.extend(parents(node))
        end()

    old = server.pid
    monkeypatch.setattr(process, "end", end_slowly)
    server.close()
    (new,) = set(launched)
    assert is_gone(old)
    assert new == server.pid


def test_closing_waits_for_no_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "never_loaded.py").write_text(
        f"import pathlib, time\npathlib.Path({str(tmp_path / 'begun')!r}).touch()\ntime.sleep(3600)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    server = Server(preload=("never_loaded",))
    monkeypatch.setattr(_Process, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        numbers().served(server).start()
    monkeypatch.undo()
    pid = server.pid
    assert until((tmp_path / "begun").exists)
    server.close()
    assert is_gone(pid)


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


DIES_ONCE = """
    import os, pathlib, signal, socket

    send = socket.send_fds
    mark = pathlib.Path({mark!r})

    def send_fds(*arguments):
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return send(*arguments)

    socket.send_fds = send_fds
"""


def test_a_worker_of_a_server_that_died_before_its_answer_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "died"
    (tmp_path / "dies_once.py").write_text(textwrap.dedent(DIES_ONCE.format(mark=str(mark))))
    monkeypatch.syspath_prepend(tmp_path)
    before = children()
    server = Server(preload=("dies_once",))
    node = sk.prefetch(sk.smap(lambda _: os.getpid(), range(300)), 1, "process", context="forkserver")
    with node.served(server) as ahead:
        assert len(set(ahead)) == 1
    assert mark.exists()
    server.close()
    for orphan in children() - before:
        assert until(lambda pid=orphan: is_gone(pid))


def test_a_child_that_holds_the_servers_socket_does_not_hide_its_death(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    pair = socket.socketpair

    def held_by_a_child(*arguments: Any) -> Any:
        ends = pair(*arguments)
        held.append(os.dup(ends[1].fileno()))  # as one has it that is forked in this moment
        return ends

    monkeypatch.setattr(socket, "socketpair", held_by_a_child)
    booted(server)
    monkeypatch.undo()
    pid = server.pid
    os.kill(pid, signal.SIGKILL)
    with numbers().served(server) as node:
        assert parents(node).isdisjoint({pid, os.getpid()})
    for fd in held:
        os.close(fd)


def test_a_parent_that_ignores_its_children(tmp_path: Path) -> None:
    script = """
        import signal
        import seqkit as sk

        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for context in ("fork", "forkserver"):
            with sk.prefetch(range(6), 2, "process", context=context) as node:
                assert list(node) == list(range(6))
    """
    assert finished(tmp_path, script) == (0, "", "")


def test_libraries_that_a_pipeline_loads_have_no_more_threads_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    for context in ("forkserver", "spawn"):
        assert finished(tmp_path, script, context) == (0, "", "")


def test_a_copy_is_a_server_of_its_own(server: Server) -> None:
    with numbers().served(server) as node:
        (pid,) = parents(node)
    for other in (pickle.loads(pickle.dumps(server)), copy.deepcopy(server)):
        with numbers().served(other) as node:
            assert parents(node).isdisjoint({pid, os.getpid()})
        other.close()


def test_a_forked_child_leaves_it_to_its_parent_and_boots_its_own(server: Server) -> None:
    node = numbers().served(server)
    (pid,) = parents(node)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with numbers().served(server) as own:
                code = 0 if parents(own).isdisjoint({pid, os.getppid()}) else 2
            server.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert parents(node) == {pid}
    node.close()


def test_a_loader_keeps_one_over_its_epochs_where_threads_live() -> None:
    before = children()
    with a_thread(), sk.DataLoader(Parents(8), 2, num_workers=2) as loader:
        epochs = [{int(pid) for batch in loader for pid in batch} for _ in range(3)]
        assert epochs[0] == epochs[1] == epochs[2]
        (pid,) = epochs[0]
        assert pid != os.getpid()
        assert children() - before == {pid}
    assert is_gone(pid)


def test_a_loader_without_other_threads_forks_and_has_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # whatever pytest has loaded
    before = children()
    loader = sk.DataLoader(Parents(8), 2, num_workers=2)
    assert {int(pid) for batch in loader for pid in batch} == {os.getpid()}
    assert children() == before


def test_the_server_of_a_loader_ends_when_the_loader_is_dropped() -> None:
    with a_thread():
        loader = sk.DataLoader(Parents(8), 2, num_workers=2)
        iterator = iter(loader)
        (pid, _) = map(int, next(iterator))
        del loader
        assert {int(pid) for batch in iterator for pid in batch} == {pid}
        del iterator
        gc.collect()
        assert until(lambda: is_gone(pid))


def test_the_server_of_a_torch_loader_has_torch_loaded() -> None:
    pytest.importorskip("torch")
    import seqkit.torch

    with a_thread(), seqkit.torch.DataLoader(Parents(8), 2, num_workers=2) as loader:
        (pid,) = {int(pid) for batch in loader for pid in batch}
        assert "libtorch" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize("how", ["at once", "when it was asked"])
def test_a_server_that_dies_at_its_start_is_named(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "never_ends_well.py").write_text("import os\nos._exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    server = Server(preload=("never_ends_well",))
    if how == "at once":
        monkeypatch.setattr(_Process, "send", after_its_death(_Process.send))
    with pytest.raises(ConnectionError, match="the fork server ended; see what it wrote to stderr"):
        numbers().served(server).start()
    server.close()


def after_its_death(send: Any) -> Any:
    def sent(process: _Process, *arguments: Any) -> None:
        ended = select.poll()
        ended.register(process._pidfd, select.POLLIN)
        ended.poll()
        send(process, *arguments)

    return sent


# -------------------------------------------------------------------- where workers find themselves


def surroundings(server: Server, *names: str) -> tuple[str, list[str | None]]:
    """The directory and the variables of workers."""
    with sk.prefetch(
        sk.smap(lambda _: (os.getcwd(), [os.environ.get(name) for name in names]), [0]),
        1,
        "process",
        context="forkserver",
    ).served(server) as node:
        (found,) = node
    return found


def test_later_workers_have_the_directory_and_the_variables_of_then(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("NEW_HERE", "LEAVES", "OMP_NUM_THREADS")
    monkeypatch.delenv("NEW_HERE", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("LEAVES", "yes")
    assert surroundings(server, *names) == (os.getcwd(), [None, "yes", "1"])
    first = server.pid
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEW_HERE", "é" * 300_000)  # more than a message may hold
    monkeypatch.delenv("LEAVES")
    for _ in range(2):
        assert surroundings(server, *names) == (str(tmp_path), ["é" * 300_000, None, "1"])
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.undo()
    assert surroundings(server, *names)[0] == os.getcwd() != str(tmp_path)
    assert server.pid == first


def test_later_workers_find_modules_where_the_parent_does_then(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted(server)
    (tmp_path / "written_later.py").write_text("ANSWER = 42\n")
    monkeypatch.syspath_prepend(tmp_path)

    def item(_: int) -> int:
        import written_later  # type: ignore[import-not-found]

        return int(written_later.ANSWER)

    with sk.prefetch(sk.smap(item, [0]), 1, "process", context="forkserver").served(server) as node:
        assert list(node) == [42]


def test_workers_stay_where_they_are_when_the_directory_is_gone(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted(server)
    before = os.getcwd()
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    monkeypatch.setenv("NEW_HERE", "yes")
    assert surroundings(server, "NEW_HERE") == (before, ["yes"])


def test_surroundings_that_stay_are_not_sent_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    process = booted(server)
    sent = []
    send = process.send
    monkeypatch.setattr(process, "send", lambda *arguments: (sent.append(arguments), send(*arguments)))
    surroundings(server)
    assert len(sent) == 2  # to start a worker, and to reap it
    monkeypatch.setenv("NEW_HERE", "yes")
    surroundings(server)
    surroundings(server)
    assert len(sent) == 2 + 3 + 2
    open_before = descriptors()
    monkeypatch.setenv("NEW_HERE", "no")
    surroundings(server)
    assert descriptors() == open_before


def test_a_loader_that_keeps_it_works_where_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_thread(), sk.DataLoader(Directories(), None, num_workers=1) as loader:
        assert list(loader) == [os.getcwd()]
        monkeypatch.chdir(tmp_path)
        assert list(loader) == [str(tmp_path)]


class Directories:
    """A data set of the directory of its reader."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, i: int) -> str:
        return os.getcwd()


class Parents:
    """A data set of the process that forked its reader."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> int:
        return os.getppid()
