"""The views that the arguments of a `DataLoader` stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ..core.indices import batch_count
from ..core.randomness import as_seed, node_key
from ..core.source import as_view
from ..core.view import View
from ..core.worker import WorkerInfo, get_worker_info, set_worker_info
from ..prefetch import Prefetch, prefetch
from ..prefetch.hooks import call_hook, introduced
from ..samplers.batches import BatchSampler, whole_batches
from ..samplers.order import RandomSampler, SequentialSampler
from ..views.batch import batch
from ..views.shuffle import shuffle
from ..views.smap.smap import smap
from .bound import Bound, seeds
from .iterable import IterableReader, WorkerParts, sample_again, sample_of_part, samples_of
from .keyed import AtKeys, Batches, Given, Samples
from .on_error import OnRecovered, Tolerant
from .options import Options
from .own_samplers import OwnBatchSampler, OwnRandomSampler, OwnSampler, OwnSequentialSampler
from .parts import Blocks, InTurn

__all__ = ["WorkerStart", "Workers", "key_check", "length", "pipeline", "reads_keys", "samplers_of"]

# The views that have workers.
Workers = (Prefetch, InTurn, Bound)


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


def pipeline(
    dataset: Any,
    options: Options,
    start: WorkerStart,
    order: View[Any] | None = None,
    epoch: int | None = None,
) -> View[Any]:
    """Return the view of the batches or samples that a loader yields.

    Parameters
    ----------
    dataset : View, indexable or iterable
    options : Options
        With a seed, a collate function, and `iterable_split` if the data set can only be iterated.
    start : WorkerStart
        Called in every worker before its first sample.
    order : View, optional
        The keys that a sampler gives in an epoch. None (the default): with a sampler, the indices of the view
        are its keys.
    epoch : int, optional
        The only epoch that will be read, to give its workers seeds of their own.
    """
    split = options.iterable_split
    if split == "workers":
        dataset = WorkerParts(dataset, max(options.num_workers, 1), start.introduce)
    if split in ("parts", "workers"):
        find = partial(sample_of_part, dataset) if split == "parts" else None
        samples = _prepared(Given(find), options)
        blocks = Blocks(dataset, dataset.parts, options.batch_size, samples, _batches(samples, options))
        return InTurn(options, blocks, _batches(Given(), options), start)
    items = _items(dataset, options)
    if order is not None:
        items = AtKeys(items, order, options.is_batched)
    if not options.num_workers:
        return items
    n = 1 if split == "none" else options.num_workers  # several would each read the whole data set
    seed = partial(node_key, "workers", cast(int, options.seed), -1 if epoch is None else epoch)
    is_bound = n > 1 and options.method == "process" and options.in_order and seeds(options.worker_init_fn)
    if not is_bound:
        return _node(items, options, n, options.batches_ahead * options.num_workers, start, seed("all"))
    options = replace(options, shm_size=options.shm_size and options.shm_size // n)
    starts = (introduced(start, worker, n) for worker in range(n))
    ahead = options.batches_ahead
    return Bound(tuple(_node(items, options, 1, ahead, hook, seed(i)) for i, hook in enumerate(starts)))


def _node(
    items: View[Any], options: Options, workers: int, ahead: int, hook: Callable[..., None], seed: int
) -> View[Any]:
    return prefetch(
        items,
        workers,
        cast(Any, options.method),
        max_buffered=ahead,
        start_hook=hook,
        shm_size=options.shm_size,
        context=cast(Any, options.start_method),
        timeout=float(options.timeout) or None,
        in_order=bool(options.in_order),
        seed=seed,
    ).seeding_items(cast(int, options.seed))


def _items(dataset: Any, options: Options) -> View[Any]:
    is_iterable = options.iterable_split is not None
    if reads_keys(options):
        keyed: View[Any] = (
            Given(partial(sample_again, dataset)) if is_iterable else Samples(as_view(dataset, "DataLoader"))
        )
        return _batches(_prepared(keyed, options), options)
    samples = _prepared(samples_of(dataset) if is_iterable else as_view(dataset, "DataLoader"), options)
    if options.shuffle:
        samples = shuffle(samples, options.seed)
    if options.batch_size is None:
        return _finished(smap(_collate_fn(options), samples), options)
    if options.last == "pad":
        samples = whole_batches(samples, options.batch_size)
    drop_last = options.last == "discard"
    items = batch(samples, options.batch_size, drop_last, collate_fn=_collate_fn(options))
    return _finished(items, options)


def _prepared(samples: View[Any], options: Options) -> View[Any]:
    """Return the view of the transformed samples. With `on_error`, failing ones are `Recovered`."""
    if options.transform is not None:
        samples = smap(options.transform, samples)
    return samples if options.on_error == "raise" else Tolerant(samples, options.on_error)


def _batches(samples: View[Any], options: Options) -> View[Any]:
    """Return the view of the batches at lists of keys."""
    return _finished(Batches(samples, _collate_fn(options), options.is_batched), options)


def _collate_fn(options: Options) -> Callable[[Any], Any]:
    collate_fn = cast(Callable[[Any], Any], options.collate_fn)
    return collate_fn if options.on_error == "raise" else OnRecovered(collate_fn, options.is_batched)


def _finished(items: View[Any], options: Options) -> View[Any]:
    f = options.batch_transform
    if f is None:
        return items
    return smap(f if options.on_error == "raise" else OnRecovered(f), items)


def reads_keys(options: Options) -> bool:
    """Return whether a sampler gives the keys to read. Otherwise the order is part of the view."""
    is_given = options.sampler is not None or options.batch_sampler is not None
    return is_given or options.last == "rollover" or options.iterable_split == "reader"


def key_check(dataset: Any, options: Options) -> Callable[[Any], object]:
    """Return a function that raises if one of the indices of a sampler is out of range."""
    if options.iterable_split is not None or options.on_error != "raise":
        return lambda key: None
    return Samples(as_view(dataset, "DataLoader")).check


def samplers_of(dataset: Any, options: Options) -> tuple[Any, Any]:
    """Return the sampler and the batch sampler that a loader reads, given or equivalent to its arguments."""
    if options.batch_sampler is not None:
        return None, _of_another_loader(options.batch_sampler)
    sampler = _of_another_loader(options.sampler)
    if options.iterable_split is not None:
        sampler = IterableReader(dataset) if options.iterable_split == "reader" else None
    elif sampler is None and hasattr(dataset, "__len__"):
        sampler = _sampler_of(dataset, options)
    if sampler is None and options.last == "rollover":
        raise TypeError(
            "DataLoader: last_batch='rollover' needs a data set with a length, but"
            f" {type(dataset).__name__} has none"
        )
    if sampler is None or options.batch_size is None:
        return sampler, None
    kind = BatchSampler if reads_keys(options) else OwnBatchSampler
    return sampler, kind(sampler, options.batch_size, last=options.last)


def _of_another_loader(sampler: Any) -> Any:
    """Return a given sampler, or a copy of one that another loader shows."""
    return sampler.detached() if isinstance(sampler, OwnSampler) else sampler


def _sampler_of(dataset: Any, options: Options) -> Any:
    """Return the sampler of a loader that was given none. With rollover the loader reads it."""
    if reads_keys(options):
        return RandomSampler(dataset, seed=options.seed) if options.shuffle else SequentialSampler(dataset)
    if not options.shuffle:
        return OwnSequentialSampler(dataset)
    return OwnRandomSampler(dataset, as_seed(options.seed, "seed"), getattr(dataset, "_random_count", 0))


def length(dataset: Any, options: Options, sampler: Any) -> int | None:
    """Return how many items an epoch has, or None if that is not known."""
    try:
        n = len(dataset if sampler is None else sampler)
    except (TypeError, NotImplementedError):
        return None
    if sampler is not None or options.batch_size is None:
        return n
    return batch_count(n, options.batch_size, options.last)
