"""Signals to a process group or job are the program's: workers do nothing, and pass on no change of them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk

from .kinds import CONTEXTS, PROCESSES, Kind
from .scripts import finished
from .traces import children, pids_of, reap_orphans, until

every_kind = pytest.mark.parametrize("kind", PROCESSES, ids=str)
from_any_thread = pytest.mark.parametrize("where", ["main thread", "other thread"])

SIGNALS = """
    import os, signal, subprocess, sys, threading
    import seqkit as sk

    OF_GROUPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
    HANDLED = [signal.SIGRTMIN + 1, signal.SIGQUIT, signal.SIGXCPU]
    ran = []
    handles = "handlers" in sys.argv
    if handles:
        for number in [*OF_GROUPS, *HANDLED]:
            signal.signal(number, lambda number, _: ran.append((os.getpid(), number)))
    sent = OF_GROUPS + HANDLED * handles

    def item(i):
        import os, signal

        handler = signal.getsignal(sent[i])
        os.kill(os.getpid(), sent[i])
        return i, list(ran), handler.__module__

    def read():
        with sk.prefetch(sk.smap(item, range(len(sent))), 1, "process", context=sys.argv[1]) as node:
            for i, (found, ran_there, where) in enumerate(node):
                assert (found, ran_there) == (i, []), (sent[i], found, ran_there)
                assert where.startswith("seqkit"), where
            assert node.statistics().restarts == 0

    if "thread" in sys.argv:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    else:
        read()
    if handles:
        for number in sent:
            signal.raise_signal(number)
        assert ran == [(os.getpid(), number) for number in sent]
    print("read")
"""


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("where", ["main", "thread"])
def test_a_signal_of_the_program_costs_no_item_and_runs_no_handler_in_a_worker(
    context: str, where: str, tmp_path: Path
) -> None:
    for handlers in ("none", "handlers"):
        assert finished(tmp_path, SIGNALS, context, handlers, where) == (0, "read\n", "")


@every_kind
@from_any_thread
def test_what_an_item_starts_inherits_the_signals_of_the_program(kind: Kind, where: str) -> None:
    found: list[Any] = []

    def state(_: int = 0) -> list[str]:
        out = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
        return [line for line in out.splitlines() if line.startswith(("SigBlk", "SigIgn"))]

    def read() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        with kind.ahead(sk.smap(state, range(2)), 1) as node:
            found.extend([*node, state()])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under `nohup`
    try:
        if where == "main thread":
            read()
        else:
            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert found[0] == found[1] == found[2]
    blocked, ignored = (int(line.split()[1], 16) for line in found[0])
    assert blocked == 1 << signal.SIGUSR2 - 1
    assert ignored >> signal.SIGHUP - 1 & 1


@every_kind
def test_a_process_that_an_item_forks_can_be_ended(kind: Kind) -> None:
    def ended(number: int) -> int:
        import os
        import signal

        pid = os.fork()
        if pid == 0:
            while True:
                signal.pause()
        os.kill(pid, number)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    numbers = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1]
    with kind.ahead(sk.smap(ended, numbers), 1) as node:
        assert list(node) == [-number for number in numbers]
        assert list(map(ended, numbers)) == list(node)


@every_kind
def test_items_may_use_alarms_and_wait_for_children(kind: Kind) -> None:
    def item(_: int) -> Any:
        import signal
        import subprocess

        signals = signal.SIGALRM, signal.SIGCHLD, signal.SIGPROF
        return [signal.getsignal(number) for number in signals], subprocess.call(["true"])

    before = [(number, signal.signal(number, lambda *_: None)) for number in (signal.SIGALRM, signal.SIGPROF)]
    before.append((signal.SIGCHLD, signal.signal(signal.SIGCHLD, signal.SIG_IGN)))
    try:
        with kind.ahead(sk.smap(item, range(1)), 1) as node:
            assert node[0] == ([signal.SIG_DFL] * 3, 0)
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def test_a_signal_interrupts_no_wait_of_an_item() -> None:
    ready, go = os.pipe(), os.pipe()

    def waits(i: int) -> tuple[int, bytes]:
        found = ctypes.create_string_buffer(1)
        os.write(ready[1], b"!")
        return ctypes.CDLL(None).read(go[0], found, 1), found.raw  # as a library that does not try again

    with Kind("process", "fork").ahead(sk.smap(waits, range(1)), 1) as node:
        iterator = iter(node)
        os.read(ready[0], 1)
        (pid,) = pids_of(node)
        assert until(lambda: "pipe" in Path(f"/proc/{pid}/wchan").read_text())
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            os.kill(pid, number)
            assert until(lambda: "ShdPnd:\t0000000000000000" in Path(f"/proc/{pid}/status").read_text())
        os.write(go[1], b"a")
        assert list(iterator) == [(1, b"a")]
        assert node.statistics().restarts == 0
    for fd in (*ready, *go):
        os.close(fd)


@pytest.mark.parametrize("context", CONTEXTS)
def test_workers_end_with_a_program_that_a_scheduler_ends(context: str, tmp_path: Path) -> None:
    script = """
        import os, signal, sys
        import seqkit as sk

        node = sk.prefetch(sk.smap(lambda _: os.getpid(), range(8)), 2, "process", context=sys.argv[1])
        for pid in {*node, os.getpid()}:
            if pid != os.getpid():
                os.kill(pid, signal.SIGTERM)
        assert len(list(node)) == 8 and node.statistics().restarts == 0
        os.kill(os.getpid(), signal.SIGTERM)
    """
    before = children()
    code, _, err = finished(tmp_path, script, context)
    assert (code, err) == (-signal.SIGTERM, "")
    reap_orphans(before)
