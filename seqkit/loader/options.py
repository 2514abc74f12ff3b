"""The arguments of a `DataLoader`, checked. The error messages use the words of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..checks import as_batch_size, as_flag, as_last, check_iterable, int_at_least, optional_int
from ..collation.base import shown
from ..errors import EvaluationError
from ..frames import warn
from ..prefetch.resources import memory_limit_bytes, resident_bytes, usable_cpus
from ..randomness import as_seed

__all__ = [
    "ITERABLE_SPLITS",
    "OnError",
    "Options",
    "as_loader_seed",
    "check_dataset",
    "check_no_indices",
    "warn_of_too_much",
]

# "raise", "skip", "replace", or a function that returns a sample for the error.
OnError = str | Callable[[EvaluationError], Any]
ITERABLE_SPLITS = ("none", "reader", "workers")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of a `DataLoader` besides its data set. The constructor checks them.

    `DataLoader` describes the fields.
    """

    batch_size: int | None = 1
    shuffle: bool | None = None
    sampler: Any = None
    batch_sampler: Any = None
    num_workers: int = 0
    collate_fn: Callable[[Any], Any] | None = None
    pin_memory: bool = False
    drop_last: bool = False
    timeout: float = 0
    worker_init_fn: Callable[..., Any] | None = None
    multiprocessing_context: Any = None
    generator: Any = None
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    pin_memory_device: str = ""
    in_order: bool = True
    method: str = "process"
    shm_size: int | None = None
    seed: int | None = None
    last_batch: str | None = None
    transform: Callable[[Any], Any] | None = None
    batch_transform: Callable[[Any], Any] | None = None
    batchify_fn: Callable[[Any], Any] | None = None
    on_error: OnError = "raise"
    iterable_split: str = "none"

    def __post_init__(self) -> None:
        for name in ("drop_last", "pin_memory", "persistent_workers", "in_order"):
            as_flag(getattr(self, name), f"DataLoader: {name}")
        if self.shuffle is not None:
            as_flag(self.shuffle, "DataLoader: shuffle")
        for name in ("collate_fn", "batchify_fn", "worker_init_fn", "transform", "batch_transform"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(
                    f"DataLoader: {name} should be callable or None, but got {getattr(self, name)!r}"
                )
        if self.collate_fn is not None and self.batchify_fn is not None:
            raise ValueError("DataLoader: batchify_fn is another name for collate_fn; pass only one of them")
        _check_word(self.method, "method", ("process", "thread"))
        _check_word(self.iterable_split, "iterable_split", ITERABLE_SPLITS)
        if not callable(self.on_error):
            _check_word(self.on_error, "on_error", ("raise", "skip", "replace"), " or callable")
        optional_int(self.shm_size, "DataLoader: shm_size", least=0)
        self._check_order()
        self._check_workers()

    def _check_order(self) -> None:
        """Check the order of samples and the batches."""
        if self.sampler is not None:
            check_iterable(self.sampler, "DataLoader: sampler")
        if self.batch_sampler is not None:
            check_iterable(self.batch_sampler, "DataLoader: batch_sampler", "lists of indices")
        if self.sampler is not None and self.shuffle:
            raise ValueError("DataLoader: sampler option is mutually exclusive with shuffle: pass only one")
        others = self.shuffle or self.sampler is not None or self.drop_last
        # 1 is the default. So an explicit batch_size=1 is accepted, too.
        if self.batch_sampler is not None and (others or not self._is_default_batch_size()):
            raise ValueError(
                "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle,"
                " sampler, and"
                f" drop_last, but got batch_size={self.batch_size!r}, shuffle={self.shuffle},"
                f" sampler={self.sampler!r}, drop_last={self.drop_last}"
            )
        if self.batch_size is None and self.drop_last:
            raise ValueError(
                "DataLoader: batch_size=None option disables auto-batching and is mutually exclusive with"
                " drop_last: pass only one of them"
            )
        if self.batch_size is not None:
            self._normalise("batch_size", as_batch_size(self.batch_size, "DataLoader"))
        as_last(self.last_batch, self.drop_last, "DataLoader: last_batch")
        if self.last_batch is not None and not self.makes_batches:
            raise ValueError(
                f"DataLoader: last_batch={self.last_batch!r} needs batch_size, and no batch_sampler"
            )

    def _is_default_batch_size(self) -> bool:
        return not isinstance(self.batch_size, bool) and self.batch_size == 1

    def _check_workers(self) -> None:
        """Check the workers."""
        workers = self._normalise("num_workers", _as_int(self.num_workers, "num_workers"))
        if workers < 0:
            raise ValueError(
                "DataLoader: num_workers option should be non-negative; use num_workers=0 to disable"
                f" multiprocessing. Got {workers}"
            )
        if self.prefetch_factor is not None:
            factor = self._normalise("prefetch_factor", _as_int(self.prefetch_factor, "prefetch_factor"))
            if not workers:
                raise ValueError(
                    "DataLoader: prefetch_factor option could only be specified in multiprocessing. Let"
                    " num_workers > 0 to enable multiprocessing, otherwise leave prefetch_factor None,"
                    f" not {factor}"
                )
            if factor < 1:
                raise ValueError(
                    f"DataLoader: prefetch_factor option should be non-negative and not 0, but got {factor}"
                )
        _check_timeout(self.timeout, workers)
        _check_context(self.multiprocessing_context, workers, self.method)
        if self.persistent_workers and not workers:
            raise ValueError("DataLoader: persistent_workers option needs num_workers > 0")
        if self.persistent_workers and self.iterable_split == "workers":
            raise ValueError(
                "DataLoader: iterable_split='workers' needs new workers in every epoch; leave out"
                " persistent_workers"
            )
        if self.iterable_split == "workers" and self.last_batch in ("pad", "rollover"):
            raise ValueError(
                f"DataLoader: with iterable_split='workers' there is no last_batch={self.last_batch!r},"
                " because each worker makes its own batches; use iterable_split='reader'"
            )

    def _normalise(self, name: str, number: int) -> int:
        object.__setattr__(self, name, number)  # a plain int in place of one of numpy
        return number

    # ---------------------------------------------------------------- derived values

    @property
    def makes_batches(self) -> bool:
        """Whether the loader itself makes batches, of `batch_size` samples."""
        return self.batch_size is not None and self.batch_sampler is None

    @property
    def is_batched(self) -> bool:
        """Whether the loader yields batches rather than single samples."""
        return self.batch_size is not None or self.batch_sampler is not None

    @property
    def last(self) -> Any:
        """The policy for a last batch that is short."""
        return as_last(self.last_batch, self.drop_last, "DataLoader: last_batch")

    @property
    def batches_ahead(self) -> int:
        """Batches that each worker computes ahead."""
        return 2 if self.prefetch_factor is None else self.prefetch_factor

    @property
    def start_method(self) -> str | None:
        """How processes start, or None for the default."""
        method: str | None = _start_method(self.multiprocessing_context)
        return method

    def shown(self) -> list[str]:
        """Return the arguments that are not the defaults, as text.

        >>> Options(batch_size=4, collate_fn=list).shown()
        ['batch_size=4', 'collate_fn=list']
        """
        defaults = {field.name: field.default for field in fields(self)}
        return shown(defaults, {name: getattr(self, name) for name in defaults})


def _check_word(value: Any, name: str, allowed: tuple[str, ...], other: str = "") -> None:
    if not isinstance(value, str) or value not in allowed:
        words = [repr(word) for word in allowed]
        listed = f"{', '.join(words)}{other}" if other else f"{', '.join(words[:-1])} or {words[-1]}"
        raise ValueError(f"DataLoader: {name} should be {listed}, but got {value!r}")


def _as_int(value: Any, name: str) -> int:
    try:
        return int_at_least(value, name, -(1 << 63))
    except TypeError:
        raise TypeError(f"DataLoader: {name} option should be an int, but got {value!r}") from None


def _check_timeout(timeout: Any, workers: int) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float | np.number):
        raise TypeError(f"DataLoader: timeout option should be a number of seconds, but got {timeout!r}")
    if not timeout >= 0:
        raise ValueError(f"DataLoader: timeout option should be non-negative, but got {timeout!r}")
    if timeout and not workers:
        raise ValueError(f"DataLoader: timeout option needs num_workers > 0. Got timeout={timeout!r}")


def _start_method(context: Any) -> Any:
    return context.get_start_method() if hasattr(context, "get_start_method") else context


def _check_context(context: Any, workers: int, method: str) -> None:
    if context is None:
        return
    if not workers:
        raise ValueError(
            "DataLoader: multiprocessing_context can only be used with multi-process loading (num_workers >"
            " 0), but got num_workers=0"
        )
    if method == "thread":
        raise ValueError(
            "DataLoader: multiprocessing_context says how processes start; leave it out with method='thread'"
        )
    start_method = _start_method(context)
    if not isinstance(start_method, str):
        raise TypeError(
            "DataLoader: multiprocessing_context option should be a valid context object or a string"
            f" specifying the start method, but got {context!r}"
        )
    from ..prefetch.settings import CONTEXTS

    if start_method not in CONTEXTS:
        raise ValueError(
            "DataLoader: multiprocessing_context option should specify a valid start method in"
            f" {list(CONTEXTS)}, but got {context!r}"
        )


def check_dataset(dataset: Any, options: Options, is_iterable: bool) -> None:
    """Refuse a data set of a wrong type, and arguments that do not go with it."""
    if isinstance(dataset, type) or not (hasattr(dataset, "__getitem__") or hasattr(dataset, "__iter__")):
        name = dataset.__name__ if isinstance(dataset, type) else type(dataset).__name__
        raise TypeError(f"DataLoader: dataset should be indexable by [i], or iterable, but got {name}")
    if not is_iterable and options.iterable_split != "none":
        raise ValueError(
            f"DataLoader: iterable_split={options.iterable_split!r} is for data sets that can only be"
            " iterated"
        )
    _check_weights(options.sampler if options.batch_sampler is None else options.batch_sampler, dataset)


def check_no_indices(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """Refuse arguments that need indices, for a data set that can only be iterated."""
    start = "DataLoader with IterableDataset: expected unspecified"
    if shuffle:
        raise ValueError(
            f"{start} shuffle option, but got shuffle={shuffle!r}: a data set that can only be iterated"
            " has no indices. Shuffle it with seqkit.streams.shuffle_buffer(dataset, size, seed)"
        )
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(
                f"{start} {name} option, but got {name}={value!r}: a data set that can only be iterated"
                " has no indices"
            )


def _check_weights(sampler: Any, dataset: Any) -> None:
    """Refuse a weighted sampler, also inside another sampler, whose weights are not those of the data set."""
    while hasattr(sampler, "sampler"):
        sampler = sampler.sampler
    weights: Any = getattr(sampler, "weights", None)
    if not hasattr(weights, "__len__") or not hasattr(dataset, "__len__"):
        return
    if len(weights) != len(dataset):
        raise ValueError(
            f"DataLoader: the sampler needs one weight per sample, but has {len(weights)} weights for"
            f" {len(dataset)} samples"
        )


def as_loader_seed(seed: Any, generator: Any) -> int:
    """Return the seed of a loader, given or drawn once from a generator or the system."""
    if seed is not None and generator is not None:
        raise ValueError("DataLoader: seed and generator exclude each other: pass only one of them")
    if seed is not None:
        return as_seed(seed, "DataLoader: seed")
    try:
        return as_seed(generator, "DataLoader: generator")
    except TypeError:
        raise TypeError(
            "DataLoader: generator should be an int of at least 0, a SeedSequence, a Generator of numpy or"
            f" torch, or None, but got {generator!r}"
        ) from None


def warn_of_too_much(options: Options) -> None:
    """Warn if there are more workers than CPUs, or more than fit into memory."""
    workers = options.num_workers
    cpus = usable_cpus() if workers else 0
    if workers > cpus:
        warn(
            f"DataLoader: This DataLoader will create {workers} workers in total. This process may use {cpus}"
            " CPUs: more workers pay only if they mostly wait",
            UserWarning,
        )
    if not workers or options.method != "process":
        return
    needed, limit = workers * resident_bytes(), memory_limit_bytes()
    if needed > limit:
        warn(
            f"DataLoader: {workers} workers that grow as large as this process need {needed >> 20} MiB, but"
            f" only {int(limit) >> 20} MiB are available",
            UserWarning,
        )
