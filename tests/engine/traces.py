"""What processes, threads and memory are there: to find what a test left behind."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import seqkit as sk

__all__ = [
    "adopt_orphans",
    "append",
    "children",
    "descriptors",
    "drawn",
    "is_collected",
    "is_gone",
    "mapped",
    "pids_of",
    "reap_orphans",
    "state",
    "until",
    "until_gone",
    "visible_names",
]

PATIENCE_S = 20.0


def until(condition: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
    """Wait for what other processes or threads do; return the first true value, or the last false one."""
    deadline = time.monotonic() + within_s
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.002)
    return value


def is_collected(ref: weakref.ref[Any]) -> bool:
    gc.collect()
    return ref() is None


def drawn(iterator: Iterator[Any]) -> list[Any]:
    """Draw everything, an error where one is raised.

    What ends the test passes, such as its time limit: an iterator that it interrupted would raise for ever.
    """
    seen: list[Any] = []
    while True:
        try:
            seen.append(next(iterator))
        except StopIteration:
            return seen
        except Exception as error:
            seen.append(error)


def append(path: Path, text: str) -> None:
    """Add to a file in one write, beside other processes that may do the same."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def reap_orphans(before: set[int]) -> None:
    """Wait for the children that we did not have before: they came to us when their parents ended."""
    for pid in children() - before:
        os.waitpid(pid, 0)


def reap_workers_of_killed_servers(before: set[int]) -> None:
    """Wait for dead workers whose template is no more.

    A template that has no CPU to end in time is killed, and then only this process can wait for its workers.
    A fresh template is the first process of a group. A forked one is in our group, but we forked none of its
    workers.
    """
    for pid in children() - before:
        if state(pid) != "Z":
            continue
        group = os.getpgid(pid)
        if state(group) == "gone" or (group == os.getpgrp() and pid not in _forked):
            os.waitpid(pid, 0)


_forked: set[int] = set()


def adopt_orphans() -> None:
    """Become the parent of what our children leave behind, so that it is found among ours."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    fork = os.fork

    def noted() -> int:
        _forked.add(pid := fork())
        return pid

    os.fork = noted


def children() -> set[int]:
    """Return the processes of this one, dead ones included that nobody has waited for."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as file:
                found.update(map(int, file.read().split()))
        except OSError:
            pass  # the thread has ended
    return found


def state(pid: int) -> str:
    """Return the letter that the kernel shows for what a process does."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def is_gone(pid: int) -> bool:
    """Is a process no more? A dead orphan is reaped: it is ours."""
    now = state(pid)
    if now == "Z" and pid in children():
        return os.waitpid(pid, os.WNOHANG)[0] == pid  # its other threads may take longer
    return now in ("gone", "X")


def until_gone(pids: Iterable[int], within_s: float) -> list[int]:
    """Wait for the end of processes; return those that are still there."""
    pids = list(pids)
    until(lambda: all(map(is_gone, pids)), within_s)
    return [pid for pid in pids if not is_gone(pid)]


def descriptors(pid: int | str = "self") -> dict[int, str]:
    """Return the open descriptors of a process, and what they are."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[int(fd)] = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            pass  # the one that listed them
    return found


def mapped(pid: int | str = "self") -> list[str]:
    """Return the mappings of shared memory of the engine's."""
    with open(f"/proc/{pid}/maps") as file:
        return [line for line in file if "memfd:seqkit" in line]


def visible_names() -> list[str]:
    return [name for name in os.listdir("/dev/shm") if "seqkit" in name]


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def known_pids(node: sk.Prefetch) -> list[int]:
    """Return the worker processes that a node has heard of. Another thread may read the node meanwhile."""
    scheduler: Any = node.engine._scheduler
    return [handle.pid for handle in scheduler.backend._team.handles.values() if handle.pid]


def pids_of(node: sk.Prefetch) -> list[int]:
    """Return the worker processes of a node, in the order of their numbers."""
    scheduler: Any = node.engine._scheduler
    team = scheduler.backend._team

    def have_begun() -> bool:
        """Those of a template have, when it has told their pids."""
        if team._template is not None:
            team._read_template(team._template)
        return all(handle.pid for handle in team.handles.values())

    assert until(have_begun)
    return [handle.pid for handle in sorted(team.handles.values(), key=lambda handle: handle.number)]
