"""The views that the arguments of a `DataLoader` stand for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from ..core.indices import batch_count
from ..core.randomness import node_key
from ..core.source import as_view
from ..core.view import View
from ..core.worker import WorkerInfo, get_worker_info, set_worker_info
from ..engine.hooks import call_hook
from ..engine.prefetch import Prefetch, prefetch
from ..samplers.batches import BatchSampler, whole_batches
from ..samplers.random_order import RandomSampler
from ..samplers.sequential import SequentialSampler
from ..views.batch import batch
from ..views.shuffle import shuffle
from ..views.smap import smap
from .at_keys import AtKeys, AtLists, Batches, Given, Samples
from .iterable import IterableReader, WorkerParts, samples_of
from .on_error import OnRecovered, Tolerant
from .options import Options
from .own_samplers import counting
from .parts import Blocks, InTurn
from .state_checks import sample_count

__all__ = ["Pipeline", "WorkerStart", "Workers"]

# The views that have workers.
Workers = (Prefetch, InTurn)


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
        """Make the information about the worker available to the user's functions.

        Data sets of PyTorch ask PyTorch for it, which has it once per process.
        """
        set_worker_info(info)
        worker: Any = sys.modules.get("torch.utils.data._utils.worker")
        if worker is not None and info.method == "process":
            seed = sys.modules["torch"].initial_seed()
            worker._worker_info = worker.WorkerInfo(
                id=info.id, num_workers=info.num_workers, seed=seed, dataset=info.dataset
            )


@dataclass(frozen=True, eq=False)
class Pipeline:
    """From a data set to the batches of a loader: `items`, read ahead of the consumer by workers.

    Parameters
    ----------
    options : Options
    seed : int
        Given, or drawn once.
    collate_fn : callable
        Makes a batch of a list of samples or, without batches, an item of a sample.
    split : str or None
        How to read a data set that can only be iterated.
    start : WorkerStart
        Called in every worker before its first sample.
    """

    options: Options
    seed: int
    collate_fn: Callable[[Any], Any]
    split: str | None
    start: WorkerStart

    # ---------------------------------------------------------------- the order

    def sampler(self) -> Any:
        """Return the sampler that gives the keys to read. None: the order is part of the view."""
        options, dataset = self.options, self.options.dataset
        sampler = counting(options.given_sampler)
        if self.split == "reader":
            sampler = IterableReader(dataset)
        elif sampler is None and options.last == "rollover" and self.split is None:
            if not hasattr(dataset, "__len__"):
                raise TypeError(
                    "DataLoader: last_batch='rollover' needs a data set with a length, but"
                    f" {type(dataset).__name__} has none"
                )
            sampler = (
                RandomSampler(dataset, seed=self.seed) if options.shuffle else SequentialSampler(dataset)
            )
        if sampler is None or not options.makes_batches:
            return sampler
        return BatchSampler(sampler, cast(int, options.batch_size), last=options.last)

    def length(self, sampler: Any) -> int | None:
        """Return how many items an epoch has, or None if that is not known."""
        options = self.options
        try:
            n = len(options.dataset if sampler is None else sampler)
        except (TypeError, NotImplementedError):
            return None
        if sampler is not None or options.batch_size is None:
            return n
        return batch_count(n, options.batch_size, options.last)

    def samples(self) -> int | None:
        """Return how many samples the data set has, or None if that is not known."""
        return None if self.options.is_iterable else sample_count(self.options.dataset)

    @property
    def sends_keys(self) -> bool:
        """Whether workers get keys although the order of the sampler is known.

        Other code may change the sampler while workers outlive an epoch. The key of a single sample seeds
        the global generators.
        """
        options = self.options
        return options.persistent_workers or (options.num_workers > 0 and not options.is_batched)

    # ---------------------------------------------------------------- samples, batches

    def items(self, by_keys: bool = False, order: View[Any] | None = None) -> View[Any]:
        """Return the view of the batches or samples that the loader yields, without workers.

        Parameters
        ----------
        by_keys : bool
            Whether a sampler gives the keys of the data set to read.
        order : View, optional
            The keys of `sampler`, or the lists of keys of `batch_sampler`. None (the default): the indices of
            the view are the keys, or lists of keys.
        """
        if self.split in ("parts", "workers"):
            return self._of_parts()
        if self.split == "reader":
            return self._batches(self._prepared(Given()))
        if self.split == "none":
            return self._in_order(self._prepared(samples_of(self.options.dataset)))
        samples = as_view(self.options.dataset, "DataLoader")
        if not by_keys:
            samples = self._prepared(samples)
            return self._in_order(shuffle(samples, self.seed) if self.options.shuffle else samples)
        samples = self._prepared(Samples(samples))
        if order is None:
            return self._batches(samples)
        if self.options.batch_sampler is not None:
            return AtLists(self._batches(samples), order)
        return self._in_order(AtKeys(samples, order))

    def _prepared(self, samples: View[Any]) -> View[Any]:
        """Return the view of the transformed samples. With `on_error`, failing ones are `Recovered`."""
        options = self.options
        if options.transform is not None:
            samples = smap(options.transform, samples)
        return samples if options.on_error == "raise" else Tolerant(options.on_error, samples)

    def _in_order(self, samples: View[Any]) -> View[Any]:
        """Return the view of the batches of successive samples, or of single ones."""
        options = self.options
        collate_fn = self._on_the_rest(self.collate_fn, options.is_batched)
        if options.batch_size is None:
            return self._finished(smap(collate_fn, samples))
        if options.last == "pad":
            samples = whole_batches(samples, options.batch_size)
        drop_last = options.last == "discard"
        return self._finished(batch(samples, options.batch_size, drop_last, collate_fn=collate_fn))

    def _batches(self, samples: View[Any]) -> View[Any]:
        """Return the view of the batches at lists of keys, or of the samples at keys."""
        is_batched = self.options.is_batched
        collate_fn = self._on_the_rest(self.collate_fn, is_batched)
        return self._finished(Batches(samples, collate_fn, is_batched))

    def _finished(self, items: View[Any]) -> View[Any]:
        f = self.options.batch_transform
        return items if f is None else smap(self._on_the_rest(f), items)

    def _on_the_rest(self, f: Callable[[Any], Any], collates: bool = False) -> Callable[[Any], Any]:
        """Return a function that passes over samples that failed."""
        return f if self.options.on_error == "raise" else OnRecovered(f, collates)

    def _of_parts(self) -> View[Any]:
        options, dataset = self.options, self.options.dataset
        if self.split == "workers":
            dataset = WorkerParts(dataset, max(options.num_workers, 1), self.start.introduce)
        samples = self._prepared(Given())
        blocks = Blocks(dataset, dataset.parts, options.batch_size, samples, self._batches(samples))
        return InTurn(self, blocks, self._batches(Given()))

    # ---------------------------------------------------------------- workers

    @property
    def workers(self) -> int:
        """The number of workers. Several would each read a whole data set that can only be iterated."""
        return min(1, self.options.num_workers) if self.split == "none" else self.options.num_workers

    def ahead(self, items: View[Any], epoch: int | None = None) -> View[Any]:
        """Return the view of items that workers compute ahead of the consumer.

        `epoch` is the only epoch that will be read, to give its workers seeds of their own.
        """
        options = self.options
        if not options.num_workers or isinstance(items, InTurn):
            return items
        node = prefetch(
            items,
            self.workers,
            options.method,
            options.batches_ahead * options.num_workers,
            self.start,
            options.shm_size,
            context=cast(Any, options.start_method),
            timeout=float(options.timeout) or None,
            in_order=options.in_order,
            seed=node_key("workers", self.seed, -1 if epoch is None else epoch, "all"),
        )
        return node.changed(item_seed=self.seed)
