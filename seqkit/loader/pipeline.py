"""The views that the arguments of a `DataLoader` stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from ..context import WorkerInfo, get_worker_info, set_worker_info
from ..indices import UNBOUNDED, Length, batch_count
from ..prefetch import prefetch
from ..prefetch.hooks import call_hook
from ..samplers.batches import BatchSampler, whole_batches
from ..samplers.order import RandomSampler, SequentialSampler
from ..source import as_view
from ..view import View
from ..views.batch import batch
from ..views.shuffle import shuffle
from ..views.smap import smap
from .iterable import Parts, Reader, is_iterable_only, samples_of
from .keyed import Batches, Given, Samples
from .on_error import CollateRecovered, OnRecovered, Tolerant
from .options import Options
from .parts import Blocks, InTurn

__all__ = ["WorkerStart", "length", "pipeline", "reads_keys", "samplers_of"]


def pipeline(dataset: Any, options: Options, start_hook: Callable[[int], None] | None = None) -> View[Any]:
    """Return the view of the batches or samples that a loader yields.

    Parameters
    ----------
    dataset : View, indexable or iterable
    options : Options
        With a seed and a collate function.
    start_hook : callable, optional
        Called in every worker before its first sample.
    """
    if options.iterable_split == "parts":
        return _in_turn(dataset, options, start_hook)
    items = _items(dataset, options)
    if not options.num_workers:
        return items
    split = is_iterable_only(dataset) and options.iterable_split == "workers"
    # One worker reads a data set that can only be iterated. Otherwise each worker would read all of it.
    reads_alone = is_iterable_only(dataset) and not reads_keys(dataset, options) and not split
    return prefetch(
        Parts(items) if split else items,
        1 if reads_alone else options.num_workers,
        cast(Any, options.method),
        max_buffered=options.batches_ahead * options.num_workers,
        start_hook=start_hook,
        shm_size=options.shm_size,
        context=cast(Any, options.start_method),
        timeout=float(options.timeout) or None,
        retries=0 if split else 1,
        in_order=bool(options.in_order),
        seed=options.seed,
    )


def _in_turn(dataset: Any, options: Options, start_hook: Callable[[int], None] | None) -> View[Any]:
    """Return the view of the batches of a data set that splits itself."""
    samples = _tolerant(Samples(Given(), options.transform), options, UNBOUNDED)
    blocks = Blocks(dataset, dataset.parts, options.batch_size, samples, _batches(samples, options))
    return InTurn(options, blocks, _batches(Given(), options), start_hook)


def _items(dataset: Any, options: Options) -> View[Any]:
    samples = _samples(dataset, options)
    if reads_keys(dataset, options):
        return _batches(samples, options)
    if options.batch_size is None:
        return _transformed(smap(_collate_fn(options), samples), options)
    if options.last == "pad":
        samples = whole_batches(samples, options.batch_size)
    drop_last = options.last == "discard"
    items = batch(samples, options.batch_size, drop_last, collate_fn=_collate_fn(options))
    return _transformed(items, options)


def _batches(samples: View[Any], options: Options) -> View[Any]:
    """Return the view of the batches at lists of keys."""
    return _transformed(Batches(samples, _collate_fn(options), options.is_batched), options)


def _collate_fn(options: Options) -> Callable[[Any], Any]:
    collate_fn = cast(Callable[[Any], Any], options.collate_fn)
    if options.on_error == "raise":
        return collate_fn
    return CollateRecovered(collate_fn) if options.is_batched else OnRecovered(collate_fn)


def _transformed(items: View[Any], options: Options) -> View[Any]:
    f = options.batch_transform
    if f is None:
        return items
    return smap(f if options.on_error == "raise" else OnRecovered(f), items)


def _tolerant(samples: View[Any], options: Options, population: Length) -> View[Any]:
    return samples if options.on_error == "raise" else Tolerant(samples, options.on_error, population)


def _samples(dataset: Any, options: Options) -> View[Any]:
    """Return the view of the samples, in order or at the keys of a sampler."""
    source = samples_of(dataset) if is_iterable_only(dataset) else as_view(dataset, "DataLoader")
    samples = source
    if reads_keys(dataset, options):
        samples = Samples(Given() if is_iterable_only(dataset) else source, options.transform)
    elif options.transform is not None:
        samples = smap(options.transform, source)
    samples = _tolerant(samples, options, source._n)
    is_shuffled = options.shuffle and not reads_keys(dataset, options)
    return shuffle(samples, options.seed) if is_shuffled else samples


def reads_keys(dataset: Any, options: Options) -> bool:
    """Return whether a sampler gives the keys to read. Otherwise the order is part of the view."""
    if options.sampler is not None or options.batch_sampler is not None or options.last == "rollover":
        return True
    return is_iterable_only(dataset) and (options.iterable_split == "reader" or options.last == "pad")


def samplers_of(dataset: Any, options: Options) -> tuple[Any, Any]:
    """Return the sampler and the batch sampler that a loader reads, given or equivalent to its arguments."""
    if options.batch_sampler is not None:
        return None, options.batch_sampler
    sampler = options.sampler
    if is_iterable_only(dataset):
        sampler = Reader(dataset) if reads_keys(dataset, options) else None
    elif sampler is None and hasattr(dataset, "__len__"):
        shuffled = options.shuffle
        sampler = RandomSampler(dataset, seed=options.seed) if shuffled else SequentialSampler(dataset)
    if sampler is None and options.last == "rollover":
        raise TypeError(
            "DataLoader: last_batch='rollover' needs a data set with a length, but"
            f" {type(dataset).__name__} has none"
        )
    if sampler is None or options.batch_size is None:
        return sampler, None
    return sampler, BatchSampler(sampler, options.batch_size, last=options.last)


def length(dataset: Any, options: Options, sampler: Any) -> int:
    """Return how many items an epoch has, or raise TypeError."""
    counted = dataset if sampler is None else sampler
    try:
        n = len(counted)
    except (TypeError, NotImplementedError) as error:
        given = sampler if options.sampler is None else options.sampler
        what = "data set" if given is None or is_iterable_only(dataset) else "sampler"
        named = dataset if what == "data set" else given
        raise TypeError(f"DataLoader: no length, for its {what} ({type(named).__name__}) has none") from error
    if sampler is not None or options.batch_size is None:
        return n
    return batch_count(n, options.batch_size, options.last)


class WorkerStart:
    """Put the worker's data set into its `WorkerInfo`, and call the user's `worker_init_fn`."""

    def __init__(self, worker_init_fn: Callable[..., Any] | None, dataset: Any) -> None:
        self.worker_init_fn = worker_init_fn
        self.dataset = dataset

    def __call__(self, worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        self.introduce(replace(info, dataset=self.dataset))
        call_hook(self.worker_init_fn, worker)

    def introduce(self, info: WorkerInfo) -> None:
        """Make the information about the worker available to the user's functions."""
        set_worker_info(info)
