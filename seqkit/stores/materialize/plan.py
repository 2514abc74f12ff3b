"""The plan of a folder that `materialize` writes. It says which items the parts of the folder hold."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, TypeAlias

from ...sources.parquet import PLAN

__all__ = ["Plan", "agreed", "locked", "refuse_other"]

Plan: TypeAlias = dict[str, Any]

# Seconds. The workers of a program that was killed hold its lock until they end, which they do within 2.
_PATIENCE = 3.0


@contextmanager
def locked(folder: str) -> Iterator[TextIO]:
    """Open the file of the plan in a folder, for this process and its workers only.

    If no plan was written, the folder is removed at the end, unless it holds other files.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, PLAN)
    with open(path, "a+", encoding="utf-8") as file:
        _lock(file, folder)
        try:
            yield file
        finally:
            if not os.fstat(file.fileno()).st_size:
                os.unlink(path)
                with suppress(OSError):
                    os.rmdir(folder)


def _lock(file: TextIO, folder: str) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise RuntimeError(
                    f"materialize: another process is writing to {folder}. Let one process write, or let each"
                    " write a part of its own, such as seqkit.shard(view, rank, world_size)."
                ) from None
            time.sleep(0.05)
        except (ImportError, OSError):  # a system, or a file system, without locks
            return


def agreed(file: TextIO, wanted: Plan, begin: Callable[[], Plan], folder: str) -> Plan:
    """Return the plan in a file, which must be the wanted one. Begin one if the file is empty."""
    file.seek(0)
    if text := file.read():
        found: Plan = json.loads(text)
        refuse_other(found, wanted, folder)
        return found
    made = begin()
    file.write(json.dumps(made))
    file.flush()
    os.fsync(file.fileno())
    return made


def refuse_other(found: Plan, wanted: Plan, folder: str) -> None:
    """Raise ValueError if a plan is not the wanted one. None as ``k`` agrees with any."""
    other = [
        f"{name} is {found[name]!r} there and {wanted[name]!r} here"
        for name in wanted
        if found[name] != wanted[name] and (name, wanted[name]) != ("k", None)
    ]
    if other:
        raise ValueError(
            f"materialize: {folder} has another plan: {', '.join(other)}. Pass the same arguments, write"
            " somewhere else, or delete it."
        )
