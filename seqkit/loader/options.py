"""The arguments of a `DataLoader`, checked. The error messages use the words of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec

import numpy as np

from ..collation.base import shown
from ..core.arguments import (
    as_batch_size,
    as_flag,
    as_last,
    check_iterable,
    int_at_least,
    optional_int,
    refuse_async,
)
from ..core.errors import EvaluationError
from ..core.iteration import is_one_shot
from ..core.randomness import as_seed
from ..core.source import as_view
from ..core.tracebacks import hiding_frames
from ..prefetch.settings import CONTEXTS
from ..samplers.base import Sampler
from .state import chain_of

__all__ = [
    "OnError",
    "Options",
    "as_iterable_split",
    "as_loader_seed",
    "check",
    "did_you_mean",
    "suggesting_arguments",
]

P = ParamSpec("P")

# "raise", "skip", "replace", or a function that returns a sample for the error.
OnError = str | Callable[[EvaluationError], Any]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of a `DataLoader`, except its data set. `DataLoader` describes them.

    The constructor checks each argument by itself, and `check` checks them together.
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
    iterable_split: str | None = None

    def __post_init__(self) -> None:
        for name in ("drop_last", "pin_memory", "persistent_workers", "in_order"):
            as_flag(getattr(self, name), f"DataLoader: {name}")
        if self.shuffle is not None:
            as_flag(self.shuffle, "DataLoader: shuffle")
        for name in ("collate_fn", "batchify_fn", "worker_init_fn", "transform", "batch_transform"):
            if not callable(value := getattr(self, name)) and value is not None:
                raise TypeError(f"DataLoader: {name} should be callable or None, but got {value!r}")
            refuse_async(value, f"DataLoader: {name}")
        for name, allowed in _WORDS.items():
            _check_word(getattr(self, name), name, allowed)
        refuse_async(self.on_error, "DataLoader: on_error")
        if not callable(self.on_error):
            _check_word(self.on_error, "on_error", ("raise", "skip", "replace"), " or callable")
        optional_int(self.shm_size, "DataLoader: shm_size", least=0)
        if self.sampler is not None:
            check_iterable(self.sampler, "DataLoader: sampler")
        if self.batch_sampler is not None:
            check_iterable(self.batch_sampler, "DataLoader: batch_sampler", "lists of indices")
        numbers = {"num_workers": _as_int(self.num_workers, "num_workers")}
        if self.batch_size is not None:
            numbers["batch_size"] = as_batch_size(self.batch_size, "DataLoader")
        if self.prefetch_factor is not None:
            numbers["prefetch_factor"] = _as_int(self.prefetch_factor, "prefetch_factor")
        for name, number in numbers.items():
            object.__setattr__(self, name, number)  # a plain int in place of one of numpy
        if isinstance(self.timeout, bool) or not isinstance(self.timeout, int | float | np.number):
            raise TypeError(f"DataLoader: timeout option should be a number of seconds, got {self.timeout!r}")
        if not isinstance(self.start_method, str | None):
            raise TypeError(
                "DataLoader: multiprocessing_context option should be a valid context object or a string"
                f" specifying the start method, but got {self.multiprocessing_context!r}"
            )

    def contradictions(self) -> Iterator[str]:
        """Yield a message for each number out of range, and for arguments that exclude each other."""
        has_sampler, has_batches = self.sampler is not None, self.batch_sampler is not None
        workers, factor, context = self.num_workers, self.prefetch_factor, self.multiprocessing_context
        if self.collate_fn is not None and self.batchify_fn is not None:
            yield "batchify_fn is another name for collate_fn; pass only one of them"
        if has_sampler and self.shuffle:
            yield "sampler option is mutually exclusive with shuffle: pass only one"
        # 1 is the default. So an explicit batch_size=1 is accepted, too.
        if has_batches and (self.batch_size != 1 or self.shuffle or has_sampler or self.drop_last):
            yield (
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last,"
                f" but got {', '.join(self.shown())}"
            )
        if self.batch_size is None and self.drop_last:
            yield "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        as_last(self.last_batch, self.drop_last, "DataLoader: last_batch")
        if self.last_batch is not None and not self.makes_batches:
            yield f"last_batch={self.last_batch!r} needs batch_size, and no batch_sampler"
        if workers < 0:
            yield (
                "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing. Got"
                f" {workers}"
            )
        if not self.timeout >= 0:
            yield f"timeout option should be non-negative, but got {self.timeout!r}"
        for name, words in _NEED_WORKERS.items() if not workers else ():
            if (value := getattr(self, name)) != getattr(Options, name):
                yield f"{name} {words}, but got num_workers=0 and {name}={value!r}"
        if factor is not None and factor < 1:
            yield f"prefetch_factor option should be non-negative and not 0, but got {factor}"
        if context is not None and self.method == "thread":
            yield "multiprocessing_context says how processes start; leave it out with method='thread'"
        if context is not None and self.start_method not in CONTEXTS:
            yield (
                "multiprocessing_context option should specify a valid start method in"
                f" {list(CONTEXTS)}, but got {context!r}"
            )

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
        context: Any = self.multiprocessing_context
        method: str | None = context.get_start_method() if hasattr(context, "get_start_method") else context
        return method

    def shown(self) -> list[str]:
        """Return the arguments that are not the defaults, as text.

        >>> Options(batch_size=4, collate_fn=list).shown()
        ['batch_size=4', 'collate_fn=list']
        """
        defaults = {field.name: field.default for field in fields(self)}
        return shown(defaults, {name: getattr(self, name) for name in defaults})


_WORDS = {
    "method": ("process", "thread"),
    "iterable_split": (None, "none", "parts", "reader", "workers"),
}
_NEED_WORKERS = {
    "prefetch_factor": "option could only be specified in multiprocessing",
    "timeout": "option needs num_workers > 0",
    "persistent_workers": "option needs num_workers > 0",
    "multiprocessing_context": "can only be used with multi-process loading (num_workers > 0)",
}


# Names that other libraries have for these arguments.
_OTHER_NAMES = {
    "bs": "batch_size",
    "max_buffered": "prefetch_factor",
    "n_workers": "num_workers",
    "nworkers": "num_workers",
    "start_hook": "worker_init_fn",
    "workers": "num_workers",
}


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a question for a misspelt name, or nothing.

    >>> did_you_mean("bath_size", ["batch_size", "seed"]), did_you_mean("colour", ["batch_size"])
    (". Did you mean 'batch_size'?", '')
    """
    from difflib import get_close_matches  # only for an error

    close = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else get_close_matches(name, list(names), 1, 0.75)
    return f". Did you mean {close[0]!r}?" if close else ""


def suggesting_arguments(init: Callable[P, None]) -> Callable[P, None]:
    """Decorate `__init__`: the error of an unknown keyword argument suggests one that exists."""
    names = [*signature(init).parameters][1:]

    @wraps(init)
    def wrapper(*args: P.args, **named: P.kwargs) -> None:
        for name in named:
            if name not in names:
                with hiding_frames():
                    raise TypeError(f"DataLoader: no argument is called {name!r}{did_you_mean(name, names)}")
        init(*args, **named)

    return wrapper


def _check_word(value: Any, name: str, allowed: tuple[str | None, ...], other: str = "") -> None:
    if not isinstance(value, str | None) or value not in allowed:
        words = [repr(word) for word in allowed if word is not None]
        listed = f"{', '.join(words)}{other}" if other else f"{', '.join(words[:-1])} or {words[-1]}"
        raise ValueError(f"DataLoader: {name} should be {listed}, but got {value!r}")


def _as_int(value: Any, name: str) -> int:
    try:
        return int_at_least(value, name, -(1 << 63))
    except TypeError:
        raise TypeError(f"DataLoader: {name} option should be an int, but got {value!r}") from None


def check(dataset: Any, options: Options, is_iterable: bool) -> None:
    """Refuse a data set of a wrong type, and arguments that do not go with it or with each other."""
    if isinstance(dataset, type) or not (hasattr(dataset, "__getitem__") or hasattr(dataset, "__iter__")):
        name = dataset.__name__ if isinstance(dataset, type) else type(dataset).__name__
        raise TypeError(f"DataLoader: dataset should be indexable by [i], or iterable, but got {name}")
    if isinstance(dataset, set | frozenset):
        raise TypeError("DataLoader: a set has no order, got a set. Use sorted(s) or list(s)")
    if isinstance(dataset, Mapping) and options.sampler is None and options.batch_sampler is None:
        as_view(dataset, "DataLoader without sampler")
    if not is_iterable and options.iterable_split not in (None, "none"):
        raise ValueError(
            f"DataLoader: iterable_split={options.iterable_split!r} is for data sets that can only be"
            " iterated"
        )
    for name in ("shuffle", "sampler", "batch_sampler") if is_iterable else ():
        value = getattr(options, name)
        if value is not None and (name != "shuffle" or value):
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got"
                f" {name}={value!r}: a data set that can only be iterated has no indices. Shuffle it with"
                " seqkit.streams.shuffle_buffer(dataset, size, seed)"
            )
    for message in options.contradictions():
        raise ValueError(f"DataLoader: {message}")
    _check_weights(options.sampler if options.batch_sampler is None else options.batch_sampler, dataset)


def as_iterable_split(dataset: Any, options: Options) -> str:
    """Return how to read a data set that can only be iterated, given or by default.

    Refuse arguments that do not go with it.
    """
    # Other processes do not have the iterator.
    is_local = is_one_shot(dataset) and options.num_workers > 0 and options.method == "process"
    default = "reader" if is_local else "parts" if _splits_itself(dataset) else "none"
    split = options.iterable_split or default
    if split == "none" and options.last in ("pad", "rollover"):
        return "reader"  # the last batch needs samples of another batch or epoch
    if split != "reader" and is_local and isinstance(dataset, Generator):
        raise ValueError(
            f"DataLoader: with iterable_split={split!r} workers iterate the data set, but a generator cannot"
            " be sent to a process. Leave iterable_split out, or set it to 'reader'"
        )
    can_split = callable(getattr(dataset, "split", None)) and getattr(dataset, "parts", None) is not None
    if split == "parts" and not can_split:
        raise ValueError(
            "DataLoader: iterable_split='parts' needs a data set with a method split(part, parts) and an"
            f" attribute parts, the number of parts, got {type(dataset).__name__}"
        )
    if split == "parts":
        int_at_least(dataset.parts, "DataLoader: parts of the data set", 1)
    refused = {
        f"last_batch={options.last!r}, because workers make the batches": options.last in ("pad", "rollover"),
        "persistent_workers, because it needs new workers in every epoch": options.persistent_workers,
        "in_order=False, because parts take turns": not options.in_order,
    }
    for argument, is_given in refused.items():
        if is_given and split in ("parts", "workers"):
            raise ValueError(
                f"DataLoader: with iterable_split={split!r} there is no {argument}. Leave it out, or set"
                " iterable_split to 'reader' or 'none'"
            )
    return split


def _splits_itself(dataset: Any) -> bool:
    """Return whether a data set has an attribute `parts` and a method ``split(part, parts)``.

    Methods of this name with other parameters mean something else.
    """
    split = getattr(dataset, "split", None)
    if not callable(split) or not hasattr(getattr(dataset, "parts", None), "__index__"):
        return False
    try:
        return list(signature(split).parameters)[:2] == ["part", "parts"]
    except (TypeError, ValueError):  # a builtin without a signature
        return False


def _check_weights(sampler: Any, dataset: Any) -> None:
    """Refuse a weighted sampler with more or fewer weights than samples. Another sampler may contain it."""
    inner = chain_of(sampler)[-1] if sampler is not None else None
    is_known = isinstance(inner, Sampler) or type(inner).__module__.startswith("torch.")
    weights: Any = getattr(inner, "weights", None) if is_known else None
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
