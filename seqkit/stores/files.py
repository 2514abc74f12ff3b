"""Files that are written whole, and what they must agree on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, BinaryIO

__all__ = ["refuse_other", "replace_file"]


def replace_file(path: str, write: Callable[[BinaryIO], object], durable: bool = True) -> None:
    """Write a file atomically: readers find the whole new file, or the old one.

    With `durable`, it is there after a power failure too. Waiting for the disk takes milliseconds.
    """
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    try:
        with open(draft, "xb") as file:
            write(file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, path)
        if durable:
            _sync_folder(folder)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def _sync_folder(folder: str) -> None:
    """Let the disk have the names of the files in a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def refuse_other(found: dict[str, Any], wanted: dict[str, Any], who: str) -> None:
    """Raise ValueError, naming each field that differs, if a folder has another plan."""
    other = [
        f"{name} is {found.get(name)!r} there and {value!r} here"
        for name, value in wanted.items()
        if found.get(name) != value
    ]
    if other:
        raise ValueError(
            f"{who} has another plan: {', '.join(other)}. Pass the same arguments and seeds, use another"
            " path, or delete it."
        )
