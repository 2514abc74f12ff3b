"""What arguments of loaders and samplers may be, and which go together. The words are PyTorch's."""

from __future__ import annotations

import inspect
import operator
import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..indices import positive_int

__all__ = [
    "as_batch_size",
    "as_flag",
    "as_workers",
    "check_clashes",
    "check_iterable",
    "check_kinds",
    "shown",
]


def as_batch_size(value: Any, who: str) -> int:
    """Return a batch size as an int.

    >>> as_batch_size(np.int64(4), "DataLoader")
    4
    >>> as_batch_size(True, "DataLoader")
    Traceback (most recent call last):
    ValueError: DataLoader: batch_size should be a positive integer value, but got batch_size=True
    """
    try:
        return positive_int(value, "batch_size")
    except (TypeError, ValueError):
        raise ValueError(
            f"{who}: batch_size should be a positive integer value, but got batch_size={value!r}"
        ) from None


def as_flag(value: Any, who: str) -> bool:
    """Return a bool as one.

    >>> as_flag("no", "DataLoader: drop_last")
    Traceback (most recent call last):
    ValueError: DataLoader: drop_last should be a boolean value, but got 'no'
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{who} should be a boolean value, but got {value!r}")
    return bool(value)


def as_workers(num_workers: Any, prefetch_factor: Any) -> tuple[int, int | None]:
    """Return the number of workers and of the batches ahead per worker: 2 by default, None without workers.

    >>> as_workers(3, None), as_workers(0, None)
    ((3, 2), (0, None))
    """
    workers = _as_int(num_workers, "num_workers")
    if workers < 0:
        raise ValueError(
            "DataLoader: num_workers option should be non-negative; use num_workers=0 to disable"
            f" multiprocessing. Got {num_workers!r}"
        )
    if prefetch_factor is None:
        return workers, 2 if workers else None
    ahead = _as_int(prefetch_factor, "prefetch_factor")
    if not workers:
        raise ValueError(
            "DataLoader: prefetch_factor option could only be specified in multiprocessing. Let"
            f" num_workers > 0 to enable multiprocessing, otherwise leave prefetch_factor None, not {ahead}"
        )
    if ahead < 1:
        raise ValueError(
            f"DataLoader: prefetch_factor option should be non-negative and not 0, but got {ahead}"
        )
    return workers, ahead


def _as_int(value: Any, name: str) -> int:
    try:
        if not isinstance(value, bool | np.bool_):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"DataLoader: {name} option should be an int, but got {value!r}")


def check_iterable(value: Any, who: str) -> None:
    """Refuse what cannot be iterated; nothing is read."""
    if not hasattr(value, "__iter__") and not hasattr(value, "__getitem__"):
        raise TypeError(f"{who} should be an iterable of indices, but got {value!r}")


def check_kinds(
    dataset: Any,
    sampler: Any,
    batch_sampler: Any,
    collate_fn: Any,
    worker_init_fn: Any,
    method: Any,
    shm_size: Any,
    **others: Any,
) -> None:
    """Refuse arguments of `DataLoader` that are of no use by themselves."""
    if not hasattr(dataset, "__getitem__") or isinstance(dataset, type):
        raise TypeError(
            f"DataLoader: dataset should be indexable by [i], but got {type(dataset).__name__};"
            " turn an iterable into a list first"
        )
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            check_iterable(value, f"DataLoader: {name}")
    for name, value in (("collate_fn", collate_fn), ("worker_init_fn", worker_init_fn)):
        if value is not None and not callable(value):
            raise TypeError(f"DataLoader: {name} should be callable or None, but got {value!r}")
    if method not in ("process", "thread"):
        raise ValueError(f"DataLoader: method should be 'process' or 'thread', but got {method!r}")
    if shm_size is not None:
        positive_int(shm_size, "DataLoader: shm_size", least=0)


def check_clashes(batch_size: Any, shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    """Refuse arguments of `DataLoader` that exclude each other.

    >>> check_clashes(1, True, [2, 0], None, False)
    Traceback (most recent call last):
    ValueError: DataLoader: sampler option is mutually exclusive with shuffle: leave one of them out
    """
    if sampler is not None and shuffle:
        raise ValueError(
            "DataLoader: sampler option is mutually exclusive with shuffle: leave one of them out"
        )
    # 1 is the default, so that it cannot be told from no batch_size at all.
    one = not isinstance(batch_size, bool) and batch_size == 1
    if batch_sampler is not None and not (one and not shuffle and sampler is None and not drop_last):
        raise ValueError(
            "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and"
            f" drop_last, but got batch_size={batch_size!r}, shuffle={shuffle}, sampler={sampler!r},"
            f" drop_last={drop_last}"
        )
    if batch_size is None and drop_last:
        raise ValueError(
            "DataLoader: batch_size=None option disables auto-batching and is mutually exclusive with"
            " drop_last: leave one of them out"
        )


def shown(function: Callable[..., Any], given: dict[str, Any]) -> list[str]:
    """Return those keyword arguments of a call, as text, that are not the defaults.

    >>> shown(sorted, {"key": abs, "reverse": False})
    ['key=abs']
    """
    parameters = inspect.signature(function).parameters
    options = []
    for name, value in given.items():
        default = parameters[name].default
        if default is inspect.Parameter.empty or (type(value) is type(default) and value == default):
            continue
        options.append(f"{name}={_short(value)}")
    return options


def _short(value: Any) -> str:
    if callable(value):
        return getattr(value, "__name__", None) or f"<{type(value).__name__}>"
    text = reprlib.repr(value)
    return f"<{type(value).__name__}>" if text.startswith("<") else text
