"""What code that runs for an item may ask of its surroundings.

Outside a prefetch worker everything here is a harmless default: `empty` is `numpy.empty` and
`get_worker_info` is None. The engine installs the real thing for the thread that evaluates.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt

__all__ = [
    "MAIN",
    "ORIGIN",
    "WorkerInfo",
    "close_with_worker",
    "current_directory",
    "empty",
    "evaluating",
    "flush_streams",
    "get_worker_info",
    "in_process_worker",
    "in_rows",
    "is_placing",
    "leave_process",
    "private_memory",
    "set_worker_info",
]

# What the main module is called; the second is its name in a child of `multiprocessing`.
MAIN = ("__main__", "__mp_main__")


def current_directory() -> str | None:
    """Return the working directory; None where it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None


# Where this process was when seqkit was imported, and modules by then were found from.
ORIGIN = current_directory()

Allocator = Callable[[tuple[int, ...], "np.dtype[Any]"], "npt.NDArray[Any] | None"]


@dataclass(frozen=True)
class WorkerInfo:
    """Who evaluates the current item.

    Attributes
    ----------
    id : int
        Number of the worker, in ``[0, num_workers)``.
    num_workers : int
        How many workers the prefetch node has.
    seed : int
        Seed of this worker, in ``[0, 2**64)``: distinct for every worker of every node.
    method : str
        ``"thread"`` or ``"process"``.
    dataset : object
        The data set of a `DataLoader` as this worker has it; None in other nodes.
    """

    id: int
    num_workers: int
    seed: int
    method: str
    dataset: Any = None

    @property
    def rng(self) -> np.random.Generator:
        """A new generator, seeded with `seed`: the same one at every call."""
        return np.random.default_rng(self.seed)


class _Local(threading.local):
    info: WorkerInfo | None = None
    allocate: Allocator | None = None


_local = _Local()


def get_worker_info() -> WorkerInfo | None:
    """Return who evaluates the current item, or None outside a prefetch worker.

    Known to PyTorch users as ``torch.utils.data.get_worker_info``.

    Examples
    --------
    >>> get_worker_info() is None
    True
    """
    return _local.info


def set_worker_info(info: WorkerInfo | None) -> None:
    """Say who evaluates in the current thread from now on (the engine calls this)."""
    global _in_process_worker
    _in_process_worker = _in_process_worker or (info is not None and info.method == "process")
    _local.info = info


_in_process_worker = False


def in_process_worker() -> bool:
    """Is this process a worker, in whatever thread of it? (the engine asks)"""
    return _in_process_worker


class Closable(Protocol):
    def close(self) -> None: ...


_left_open: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_with_worker(opened: Closable) -> None:
    """Have what a view opened for itself closed at the end of a process worker, which runs no finalisers."""
    if _in_process_worker:
        _left_open.add(opened)


def leave_process() -> None:
    """Close what is still open, at the end of a process worker (the engine calls this)."""
    for opened in list(_left_open):
        opened.close()


def flush_streams() -> None:
    """Write what is buffered, before a fork or the end of a worker (the engine calls this)."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # there may be none, or a closed one, or one of the user's
            pass


def empty(shape: SupportsIndex | Sequence[SupportsIndex], dtype: npt.DTypeLike = float) -> npt.NDArray[Any]:
    """Return an uninitialised array, placed where the result will be handed over if possible.

    In a process worker of `prefetch` the memory lies inside the shared-memory slot of the current item:
    an array filled there reaches the reader without any copy. Everywhere else, and where the slot is
    full, this is `numpy.empty`. Fill it and return it; do not keep it for the next item.

    Parameters
    ----------
    shape : int or sequence of int
        Shape in items.
    dtype : dtype-like
        Any dtype; those holding Python objects always get ordinary memory.

    Returns
    -------
    numpy.ndarray
        C-contiguous, its first byte on a multiple of 64 when it lies in a slot.

    Examples
    --------
    >>> empty((2, 3), "float32").shape
    (2, 3)
    """
    allocate = _local.allocate
    if allocate is not None:
        try:
            dims = _dims(shape)
        except TypeError:
            return np.empty(shape, dtype)  # which says what is wrong
        array = allocate(*_expanded(dims, np.dtype(dtype)))
        if array is not None:
            return array
    return np.empty(shape, dtype)


def _dims(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, int):
        return (shape,)
    try:
        return tuple(map(index, shape))
    except TypeError:  # no sequence: a number then, which an array of no dimensions is, too
        return (index(shape),)


def _expanded(dims: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and dtype of an array whose items numpy takes apart, when they are arrays themselves."""
    while dtype.subdtype is not None:
        dtype, more = dtype.subdtype
        dims += more
    return dims, dtype


class evaluating:  # noqa: N801 - a context like `contextlib.suppress`
    """Let `empty` take its memory from `allocate` in this thread inside a block (the engine's)."""

    # Not a generator: this is entered for every job.
    __slots__ = ("_allocate", "_before")

    def __init__(self, allocate: Allocator | None) -> None:
        self._allocate = allocate

    def __enter__(self) -> None:
        self._before = _local.allocate
        _local.allocate = self._allocate

    def __exit__(self, *_: object) -> None:
        _local.allocate = self._before


def is_placing() -> bool:
    """May `empty` give something else than `numpy.empty`, here and now?"""
    return _local.allocate is not None


def in_rows(first: int, count: int, total: int) -> Any:
    """Return a context in which `empty` gives rows `first` to `first + count` of arrays of `total` rows.

    For views that compute a part of a batch: where several workers share a slot, the parts of an array so
    come to lie one behind the other. Elsewhere it changes nothing.
    """
    allocate = _local.allocate
    placed: Allocator | None = getattr(allocate, "in_rows", lambda *_: allocate)(first, count, total)
    return evaluating(placed)


def private_memory() -> Any:
    """Return a context in which `empty` is `numpy.empty`: for views that keep what they compute."""
    return evaluating(None)


def _after_fork_in_child() -> None:
    _local.allocate = None  # the slot is the parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
