"""What the arguments of a loader stand for: samplers, and views over its data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..checks import as_batch_size, as_flag
from ..collation.default import default_collate, default_convert
from ..prefetch import prefetch
from ..samplers.batches import BatchSampler, whole_batches
from ..samplers.order import RandomSampler, SequentialSampler
from ..view import View, as_view
from ..views.batch import batch
from ..views.shuffle import shuffle as shuffled
from ..views.smap import smap
from .arguments import (
    as_collate_fn,
    as_context,
    as_last_batch,
    as_loader_seed,
    as_timeout,
    as_workers,
    check_clashes,
    check_kinds,
    check_last_batch,
    check_persistent,
    check_streams,
    warn_of_too_much,
)
from .fetch import Fetch, FetchOne, KeySource, as_key, as_keys
from .start import Start
from .stream import is_stream, stream
from .tolerance import OnError, Passing, Tolerant, TolerantCollate, Transformed

__all__ = ["Pipeline"]


class Pipeline:
    """The arguments of a `DataLoader`, checked, and `view`: the pipeline that they stand for."""

    # What makes batches of samples, and of single items what is handed out.
    _collate_fn: Callable[[Any], Any] = staticmethod(default_collate)
    _convert_fn: Callable[[Any], Any] = staticmethod(default_convert)

    # Why batches that are to be pinned may not be.
    _unpinned = "arrays are never pinned (tensors of seqkit.torch.DataLoader are)"

    # What the views are made from; the other arguments stay as they were given.
    batch_size: int | None
    shuffle: bool
    sampler: Any
    batch_sampler: Any
    num_workers: int
    prefetch_factor: int | None
    collate_fn: Callable[[Any], Any]
    multiprocessing_context: str | None
    persistent_workers: bool
    in_order: bool
    pin_memory: bool
    transform: Callable[[Any], Any] | None
    batch_transform: Callable[[Any], Any] | None
    on_error: OnError
    worker_init_fn: Callable[..., Any] | None
    method: Any
    shm_size: int | None
    seed: int
    dataset: Any

    def __init__(self, given: dict[str, Any]) -> None:
        check_kinds(**given)
        self._given = given
        vars(self).update(given)
        self._is_stream = is_stream(self.dataset)
        self._settle_order()
        self._settle_workers()
        self.pin_memory = as_flag(self.pin_memory, "DataLoader: pin_memory")
        self.collate_fn = as_collate_fn(given["collate_fn"], given["batchify_fn"]) or (
            self._collate_fn if self._is_batched() else self._convert_fn
        )
        self.seed = as_loader_seed(given["seed"], given["generator"])
        self.sampler, self.batch_sampler = self._samplers()
        self._reads = self._key_source()
        self._size = self._data_size()
        self.view = self._ahead(self._items())

    def _settle_order(self) -> None:
        """Check what is read in which batches."""
        given, size = self._given, self._given["batch_size"]
        if self._is_stream:
            check_streams(given["shuffle"], self.sampler, self.batch_sampler)
        self.shuffle = given["shuffle"] is not None and as_flag(given["shuffle"], "DataLoader: shuffle")
        self.drop_last = as_flag(given["drop_last"], "DataLoader: drop_last")
        check_clashes(size, self.shuffle, self.sampler, self.batch_sampler, self.drop_last)
        self._last_batch = as_last_batch(given["last_batch"], self.drop_last)
        check_last_batch(given["last_batch"], size, self.batch_sampler, self._is_stream)
        if self.batch_sampler is not None:
            self.batch_size = None
        elif size is not None:
            self.batch_size = as_batch_size(size, "DataLoader")

    def _settle_workers(self) -> None:
        """Check who computes."""
        given = self._given
        self.num_workers, self.prefetch_factor = as_workers(given["num_workers"], given["prefetch_factor"])
        self._timeout_s = as_timeout(given["timeout"], self.num_workers)
        self.multiprocessing_context = as_context(given["multiprocessing_context"], self.num_workers)
        self.persistent_workers = as_flag(given["persistent_workers"], "DataLoader: persistent_workers")
        check_persistent(self.persistent_workers, self.num_workers)
        self.in_order = as_flag(given["in_order"], "DataLoader: in_order")
        warn_of_too_much(self.num_workers, self.method)

    def _is_batched(self) -> bool:
        return self.batch_size is not None or self.batch_sampler is not None

    def _data_size(self) -> int | None:
        return len(self.dataset) if not self._is_stream and hasattr(self.dataset, "__len__") else None

    def _samplers(self) -> tuple[Any, Any]:
        """Return the samplers that say what the loader reads, whether they were given or not."""
        sampler, batch_sampler = self._given["sampler"], self._given["batch_sampler"]
        if batch_sampler is not None or self._is_stream:
            return sampler, batch_sampler
        if sampler is None:
            if not hasattr(self.dataset, "__len__"):
                return None, None
            sampler = (
                RandomSampler(self.dataset, seed=self.seed)
                if self.shuffle
                else SequentialSampler(self.dataset)
            )
        if self.batch_size is None:
            return sampler, None
        return sampler, BatchSampler(sampler, self.batch_size, last=cast(Any, self._last_batch))

    def _key_source(self) -> KeySource | None:
        """Return where the keys come from if a sampler gives them; None where the order is a view."""
        given = self._given["sampler"] if self._given["sampler"] is not None else self._given["batch_sampler"]
        if given is None and self._last_batch != "rollover":
            return None
        if self.batch_sampler is not None:
            return KeySource(self.batch_sampler, as_keys, given)
        return KeySource(self.sampler, as_key, given)

    def _items(self) -> View[Any]:
        """Return the view of what the loader hands out."""
        tolerant = self.on_error != "raise"
        batched = self._is_batched()
        collate: Callable[[Any], Any] = self.collate_fn
        if self._reads is not None and self.transform is not None:
            collate = Transformed(self.transform, collate, batched)
        if tolerant:
            collate = TolerantCollate(collate) if batched else Passing(collate)
        items = self._fetched(collate) if self._reads is not None else self._read_in_order(collate)
        if self.batch_transform is None:
            return items
        return smap(Passing(self.batch_transform) if tolerant else self.batch_transform, items)

    def _fetched(self, collate: Callable[[Any], Any]) -> View[Any]:
        source = as_view(self.dataset, "DataLoader")
        kind = FetchOne if self.batch_sampler is None else Fetch
        return kind(source, collate, self.on_error)

    def _read_in_order(self, collate: Callable[[Any], Any]) -> View[Any]:
        source = stream(self.dataset) if self._is_stream else as_view(self.dataset, "DataLoader")
        if self.transform is not None:
            source = smap(self.transform, source)
        if self.on_error != "raise":
            source = Tolerant(source, self.on_error)
        if self.shuffle:
            source = shuffled(source, self.seed)
        if self.batch_size is None:
            return smap(collate, source)
        if self._last_batch == "pad":
            source = whole_batches(source, self.batch_size)
        return batch(source, self.batch_size, self._last_batch == "discard", collate_fn=collate)

    def _ahead(self, items: View[Any]) -> View[Any]:
        """Return the same view, computed ahead by the workers if there are any."""
        if self.prefetch_factor is None:
            return items
        return prefetch(
            items,
            1 if self._is_stream else self.num_workers,  # one reads, or items would come twice
            self.method,
            max_buffered=self.prefetch_factor * self.num_workers,
            start_hook=self._start_hook(),
            shm_size=self.shm_size,
            context=cast(Any, self.multiprocessing_context),
            timeout=self._timeout_s,
            in_order=self.in_order,
            seed=self.seed,
        )

    def _start_hook(self) -> Callable[[int], None]:
        return Start(self.worker_init_fn, self.dataset)

    def _given_sampler(self) -> Any:
        """Return what keeps a state of its own, None where the order is a view."""
        return None if self._reads is None else self._reads.sampler
