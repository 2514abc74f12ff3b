"""The arguments of a `DataLoader`. Each is written once: its name, type, default and check.

The error messages use the words of PyTorch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, Literal, get_type_hints

import numpy as np

from ..collation.base import shown
from ..core.arguments import (
    WAYS_TO_END,
    as_bool,
    as_last,
    check_iterable,
    int_at_least,
    optional_int,
    positive_int,
    refuse_async,
    refuse_set,
)
from ..core.once import cached
from ..core.randomness import as_seed
from ..core.source import as_view
from ..engine.settings import CONTEXTS
from .on_error import OnError

__all__ = ["Options"]

# Returns the value, or raises an error about "DataLoader: name". The default is not checked.
Check = Callable[[Any, str], Any]


def _dataset(value: Any, who: str) -> Any:
    if isinstance(value, type) or not (hasattr(value, "__getitem__") or hasattr(value, "__iter__")):
        got = type(value).__name__
        if isinstance(value, type):
            got = f"the class {value.__name__}. Pass an instance: {value.__name__}(...)"
        elif isinstance(value, PurePath):
            got += ". Read it first: seqkit.read(path)"
        raise TypeError(f"{who} should be indexable by [i], or iterable, but got {got}")
    refuse_set(value, who)
    return value


def _batch_size(value: Any, who: str) -> int | None:
    return None if value is None else positive_int(value, "DataLoader: batch_size")


def _int(value: Any, who: str) -> int:
    try:
        return int_at_least(value, who, -(1 << 63))
    except TypeError:
        raise TypeError(f"{who} option should be an int, but got {value!r}") from None


def _seconds(value: Any, who: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{who} option should be a number of seconds, got {value!r}")
    return value


def _function(value: Any, who: str) -> Any:
    if not callable(value):
        raise TypeError(f"{who} should be callable or None, but got {value!r}")
    refuse_async(value, who)
    return value


def _iterable_of(what: str) -> Check:
    def check(value: Any, who: str) -> Any:
        check_iterable(value, who, what)
        return value

    return check


def _one_of(*words: str, other: str = "") -> Check:
    listed = f"{', '.join(map(repr, words[:-1]))}{',' if other else ' or'} {words[-1]!r}{other}"

    def check(value: Any, who: str) -> Any:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"{who} should be {listed}, but got {value!r}")
        return value

    return check


def _on_error(value: Any, who: str) -> Any:
    refuse_async(value, who)
    return value if callable(value) else _one_of("raise", "skip", "replace", other=" or callable")(value, who)


def _method(value: Any, who: str) -> Any:
    if value == "auto":
        raise ValueError(f"{who} should be 'process' or 'thread', got 'auto'. Call tune to choose")
    return _one_of("process", "thread")(value, who)


def _start_method(value: Any, who: str) -> Any:
    if not isinstance(value, str) and not hasattr(value, "get_start_method"):
        raise TypeError(
            f"{who} option should be a valid context object or a string specifying the start method, but got"
            f" {value!r}"
        )
    return value


_keys = _iterable_of("indices")
_lists_of_keys = _iterable_of("lists of indices")
_size = partial(optional_int, least=0)
_split = _one_of("none", "parts", "reader", "workers")


@dataclass(frozen=True, eq=False)
class Options:
    """The arguments of a `DataLoader`, which describes them: name, type, check and default.

    They stand in the order of PyTorch. `check` is called once, before they are used.
    """

    dataset: Annotated[Any, _dataset]
    batch_size: Annotated[int | None, _batch_size] = 1
    shuffle: Annotated[bool | None, as_bool] = None
    sampler: Annotated[Iterable[Any] | None, _keys] = None
    batch_sampler: Annotated[Iterable[Any] | None, _lists_of_keys] = None
    num_workers: Annotated[int, _int] = 0
    collate_fn: Annotated[Callable[[Any], Any] | None, _function] = None
    pin_memory: Annotated[bool, as_bool] = False
    drop_last: Annotated[bool, as_bool] = False
    timeout: Annotated[float, _seconds] = 0
    worker_init_fn: Annotated[Callable[..., Any] | None, _function] = None
    multiprocessing_context: Annotated[Any, _start_method] = None
    generator: Any = None
    _: KW_ONLY
    prefetch_factor: Annotated[int | None, _int] = None
    persistent_workers: Annotated[bool, as_bool] = False
    pin_memory_device: str = ""
    in_order: Annotated[bool, as_bool] = True
    method: Annotated[Literal["process", "thread"], _method] = "process"
    shm_size: Annotated[int | None, _size] = None
    seed: int | None = None
    last_batch: Literal["keep", "discard", "rollover", "pad"] | None = None
    transform: Annotated[Callable[[Any], Any] | None, _function] = None
    batch_transform: Annotated[Callable[[Any], Any] | None, _function] = None
    batchify_fn: Annotated[Callable[[Any], Any] | None, _function] = None
    on_error: Annotated[OnError, _on_error] = "raise"
    iterable_split: Annotated[Literal["none", "parts", "reader", "workers"] | None, _split] = None

    def check(self) -> None:
        """Refuse values and combinations that are wrong."""
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value is not getattr(Options, name, _REQUIRED):
                object.__setattr__(self, name, check(value, f"DataLoader: {name}"))
        as_last(self.last_batch, "DataLoader: last_batch", drop_last=self.drop_last, allowed=WAYS_TO_END)
        if isinstance(self.dataset, Mapping) and self.sampler is None and self.batch_sampler is None:
            as_view(self.dataset, "DataLoader without sampler")
        if self.is_iterable:
            self._refuse_an_order()
        for message in self._contradictions():
            raise ValueError(f"DataLoader: {message}")

    def _contradictions(self) -> Iterator[str]:
        """Yield a message for each number out of range, and for arguments that exclude each other."""
        if not self.is_iterable and self.iterable_split not in (None, "none"):
            yield f"iterable_split={self.iterable_split!r} is for data sets that can only be iterated"
        if self.seed is not None and self.generator is not None:
            yield "seed and generator exclude each other: pass only one of them"
        if self.collate_fn is not None and self.batchify_fn is not None:
            yield "batchify_fn is another name for collate_fn; pass only one of them"
        has_sampler, has_batches = self.sampler is not None, self.batch_sampler is not None
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
        if self.last_batch is not None and not self.makes_batches:
            yield f"last_batch={self.last_batch!r} needs batch_size, and no batch_sampler"
        yield from self._contradictions_of_workers()

    def _refuse_an_order(self) -> None:
        """Refuse arguments that give indices, which a data set that can only be iterated does not have."""
        for name in ("shuffle", "sampler", "batch_sampler"):
            value = getattr(self, name)
            if value is not None and value is not False:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got"
                    f" {name}={value!r}: a data set that can only be iterated has no indices. Shuffle it with"
                    " seqkit.shuffle_buffer(seqkit.uniter(dataset), size)"
                )

    def _contradictions_of_workers(self) -> Iterator[str]:
        if self.num_workers < 0:
            yield (
                "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing. Got"
                f" {self.num_workers}"
            )
        if not self.timeout >= 0:
            yield f"timeout option should be non-negative, but got {self.timeout!r}"
        for name, words in _NEED_WORKERS.items() if not self.num_workers else ():
            if (value := getattr(self, name)) != getattr(Options, name):
                yield f"{name} {words}, but got num_workers=0 and {name}={value!r}"
        if self.prefetch_factor is not None and self.prefetch_factor < 1:
            yield f"prefetch_factor option should be non-negative and not 0, but got {self.prefetch_factor}"
        if self.multiprocessing_context is not None and self.method == "thread":
            yield "multiprocessing_context says how processes start; leave it out with method='thread'"
        if self.start_method is not None and self.start_method not in CONTEXTS:
            yield (
                "multiprocessing_context option should specify a valid start method in"
                f" {list(CONTEXTS)}, but got {self.multiprocessing_context!r}"
            )

    # ---------------------------------------------------------------- derived values

    def drawn_seed(self) -> int:
        """Return the seed, given or drawn once from the generator or the system."""
        if self.seed is not None:
            return as_seed(self.seed, "DataLoader: seed")
        try:
            return as_seed(self.generator, "DataLoader: generator")
        except TypeError:
            raise TypeError(
                "DataLoader: generator should be an int of at least 0, a SeedSequence, a Generator of numpy"
                f" or torch, or None, but got {self.generator!r}"
            ) from None

    @cached
    def is_iterable(self) -> bool:
        """Whether the data set can only be iterated."""
        # The iterable data sets of PyTorch have a `__getitem__` that raises.
        iterable = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", ())
        return isinstance(self.dataset, iterable) or not hasattr(self.dataset, "__getitem__")

    @property
    def given_sampler(self) -> Any:
        """The `sampler` or `batch_sampler` that was given, or None."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

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
        return self.last_batch or ("discard" if self.drop_last else "keep")

    @property
    def batches_ahead(self) -> int:
        """Batches that each worker computes ahead."""
        return 2 if self.prefetch_factor is None else self.prefetch_factor

    @property
    def start_method(self) -> Any:
        """How processes start, or None for the default."""
        context = self.multiprocessing_context
        return context.get_start_method() if hasattr(context, "get_start_method") else context

    def shown(self) -> list[str]:
        """Return the arguments that are not the defaults, as text.

        >>> Options([1], batch_size=4, collate_fn=list).shown()
        ['batch_size=4', 'collate_fn=list']
        """
        defaults = {option.name: option.default for option in fields(self)[1:]}
        return shown(defaults, {name: getattr(self, name) for name in defaults})


_REQUIRED = object()
_CHECKS: dict[str, Check] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Options, include_extras=True).items()
    if hasattr(hint, "__metadata__")
}
Options.__init__.__qualname__ = "DataLoader.__init__"  # errors about a number of arguments show it

_NEED_WORKERS = {
    "prefetch_factor": "option could only be specified in multiprocessing",
    "timeout": "option needs num_workers > 0",
    "persistent_workers": "option needs num_workers > 0",
    "multiprocessing_context": "can only be used with multi-process loading (num_workers > 0)",
}
