"""Functions for code that runs inside a worker: `empty` and `get_worker_info`.

Outside a prefetch worker, `empty` is `numpy.empty` and `get_worker_info` returns None. The engine sets them
up for each thread that evaluates items.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt

from .once import cached

__all__ = [
    "ORIGIN",
    "Closable",
    "WorkerInfo",
    "close_with_worker",
    "current_directory",
    "empty",
    "evaluating",
    "get_worker_info",
    "in_process_worker",
    "is_placing",
    "leave_worker",
    "private_memory",
    "set_worker_info",
]


def current_directory() -> str | None:
    """Return the working directory, or None if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None


# The working directory when seqkit was imported. Relative module paths refer to it.
ORIGIN = current_directory()

Allocator = Callable[[tuple[int, ...], "np.dtype[Any]"], "npt.NDArray[Any] | None"]


@dataclass(frozen=True)
class WorkerInfo:
    """The worker that evaluates the current item.

    Attributes
    ----------
    id : int
        Number of the worker, in ``[0, num_workers)``.
    num_workers : int
        Number of workers of the prefetch view.
    seed : int
        Seed of this worker, in ``[0, 2**64)``. Each worker of each prefetch view has another one.
    method : str
        ``"thread"`` or ``"process"``.
    dataset : object
        The data set of a `DataLoader` in this worker. None in other prefetch views.
    """

    id: int
    num_workers: int
    seed: int
    method: str
    dataset: Any = None

    @cached
    def rng(self) -> np.random.Generator:
        """The random generator of this worker, seeded with `seed`. Its state continues from item to item."""
        return np.random.default_rng(self.seed)


class Closable(Protocol):
    def close(self) -> None: ...


class _ThreadState(threading.local):
    info: WorkerInfo | None = None
    allocate: Allocator | None = None
    left_open: weakref.WeakSet[Closable] | None = None  # of a worker thread


_local = _ThreadState()


def get_worker_info() -> WorkerInfo | None:
    """Return the worker that evaluates the current item, or None outside a prefetch worker.

    Known to PyTorch users as ``torch.utils.data.get_worker_info``.

    Examples
    --------
    >>> import seqkit as sk
    >>> def describe(i):
    ...     worker = get_worker_info()
    ...     return f"item {i} by worker {worker.id} of {worker.num_workers}"
    >>> with sk.prefetch(sk.smap(describe, range(2)), 1) as ahead:
    ...     list(ahead), get_worker_info()
    (['item 0 by worker 0 of 1', 'item 1 by worker 0 of 1'], None)
    """
    return _local.info


def set_worker_info(info: WorkerInfo | None) -> None:
    """Set the worker of the current thread. Called by the engine."""
    global _in_process_worker
    _in_process_worker = _in_process_worker or (info is not None and info.method == "process")
    _local.info = info


_in_process_worker = False


def in_process_worker() -> bool:
    """Is this process a worker? Called by the engine."""
    return _in_process_worker


class Opened:
    """The base of views that open files or connections in this process. Closing a loader closes them."""

    def close(self) -> None:
        """Close the files or connections of this process. The next read opens them again."""
        raise NotImplementedError


_left_open: weakref.WeakSet[Closable] = weakref.WeakSet()  # in a process worker


def close_with_worker(opened: Closable) -> None:
    """Close an object when the worker that opened it ends."""
    if _in_process_worker:
        _left_open.add(opened)
    elif _local.info is not None:
        _local.left_open = _local.left_open or weakref.WeakSet()
        _local.left_open.add(opened)


def leave_worker() -> None:
    """Close all objects that are still open when a worker ends. Called by the engine."""
    for opened in list(_left_open if _in_process_worker else _local.left_open or ()):
        opened.close()


def empty(shape: SupportsIndex | Sequence[SupportsIndex], dtype: npt.DTypeLike = float) -> npt.NDArray[Any]:
    """Return an uninitialised array, in shared memory if possible.

    In a process worker of `prefetch` the array is allocated in the shared-memory slot of the current item, so
    it reaches the consumer without a copy. Elsewhere, and if the slot is full, this is `numpy.empty`. Fill
    the array and return it. Do not keep it for the next item.

    Parameters
    ----------
    shape : int or sequence of int
        Shape in items.
    dtype : dtype-like
        Any dtype. Arrays of Python objects always get ordinary memory.

    Returns
    -------
    numpy.ndarray
        C-contiguous. In a slot, its address is a multiple of 64.

    Examples
    --------
    >>> import seqkit as sk
    >>> def brighten(image):
    ...     brighter = empty(image.shape, "float32")
    ...     return np.multiply(image, 1.5, out=brighter)
    >>> images = sk.smap(brighten, np.arange(12).reshape(3, 2, 2))
    >>> with sk.prefetch(images, 2, "process") as ahead:  # no copy between worker and consumer
    ...     ahead[1]
    array([[ 6. ,  7.5],
           [ 9. , 10.5]], dtype=float32)
    """
    allocate = _local.allocate
    wanted = np.dtype(dtype)
    if allocate is not None and wanted.subdtype is None:  # a dtype with a shape would extend the shape
        with suppress(TypeError):  # numpy raises its own error below
            array = allocate(_dims(shape), wanted)
            if array is not None:
                return array
    return np.empty(shape, dtype)


def _dims(shape: Any) -> tuple[int, ...]:
    try:
        return (index(shape),)
    except TypeError:
        return tuple(map(index, shape))


class evaluating:  # noqa: N801 - a context like `contextlib.suppress`
    """A context in which `empty` gets its memory from `allocate`, in this thread. Used by the engine."""

    # A class is faster than a generator, and every job enters this context.
    __slots__ = ("_allocate", "_before")

    def __init__(self, allocate: Allocator | None) -> None:
        self._allocate = allocate

    def __enter__(self) -> None:
        self._before = _local.allocate
        _local.allocate = self._allocate

    def __exit__(self, *_: object) -> None:
        _local.allocate = self._before


def is_placing() -> bool:
    """May `empty` return shared memory in this thread now?"""
    return _local.allocate is not None


def private_memory() -> Any:
    """Return a context in which `empty` is `numpy.empty`, for views that keep their items."""
    return evaluating(None)


def _after_fork_in_child() -> None:
    _local.allocate = None  # the slot belongs to the parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
