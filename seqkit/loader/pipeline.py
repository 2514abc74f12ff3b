"""The views that the arguments of a `DataLoader` stand for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count, islice
from typing import Any

from ..collation.default import default_collate, default_convert
from ..core.errors import EndOfSequence, fail
from ..core.expression import walk
from ..core.indices import Plan, batch_count
from ..core.iteration import surviving
from ..core.lengths import UNKNOWN
from ..core.randomness import as_seed, node_key
from ..core.set_epoch import listeners
from ..core.source import Source, as_view
from ..core.view import View, in_order
from ..core.worker import get_worker_info, set_worker_info
from ..engine.hooks import call_hook
from ..engine.prefetch import Prefetch, prefetch
from ..samplers.base import Sampler, chain_of, order_of
from ..samplers.batches import BatchSampler, whole_batches
from ..samplers.random_order import RandomSampler
from ..samplers.sequential import SequentialSampler
from ..views.bases.passes import Passes
from ..views.batch import batch
from ..views.cycle import cycle
from ..views.epochs import epochs
from ..views.interleave import interleave
from ..views.shuffle import shuffle
from ..views.smap import smap
from ..views.uniter import Uniter
from .checks import iterable_split
from .keys import AtKeys, AtLists, AtRows, Batches, Given, Sample, Samples, as_key, as_keys
from .on_error import OnRecovered, Tolerant

__all__ = ["BatchKind", "Composed", "Pipeline", "WorkerStart"]


class WorkerStart:
    """Put the worker's data set into its `WorkerInfo`, and call the user's `worker_init_fn`."""

    def __init__(self, worker_init_fn: Callable[..., Any] | None, dataset: Any) -> None:
        self.worker_init_fn = worker_init_fn
        self.dataset = dataset

    def __call__(self, worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        set_worker_info(replace(info, dataset=self.dataset))
        torch_worker: Any = sys.modules.get("torch.utils.data._utils.worker")
        # Data sets of PyTorch ask PyTorch for the worker, which has one per process.
        if torch_worker is not None and info.method == "process":
            seed = sys.modules["torch"].initial_seed()
            torch_worker._worker_info = torch_worker.WorkerInfo(
                id=info.id, num_workers=info.num_workers, seed=seed, dataset=self.dataset
            )
        call_hook(self.worker_init_fn, worker)


class BatchKind:
    """How a loader makes batches of arrays. `seqkit.torch` has a subclass for tensors."""

    collate: Callable[[Any], Any] = staticmethod(default_collate)
    convert: Callable[[Any], Any] = staticmethod(default_convert)
    start: type[WorkerStart] = WorkerStart
    rows_are_keys = False  # of a batch sampler that is not one of seqkit
    no_pinning = "arrays are never pinned (tensors of seqkit.torch.DataLoader are)"
    pinner: Any = None  # locks the memory of workers for a device
    pin: Callable[[Any], Any]  # copies a batch to locked memory unless it is there

    def adapted(self, collate_fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the collate function that is called in place of the user's."""
        return collate_fn

    def seed(self) -> int:
        """Return the seed of a loader that was given none."""
        return as_seed(None, "DataLoader: seed")

    def draw(self) -> int | None:
        """Draw a number for an epoch. That of the first epoch is the seed, if it is not None."""
        return None


class Composed:
    """`transform`, collation and `batch_transform` in one function, for programs that rebuild a loader."""

    def __init__(self, options: Any, collate_fn: Callable[[Any], Any], is_batched: bool) -> None:
        self.transform, self.batch_transform = options.transform, options.batch_transform
        self.collate_fn = collate_fn
        self.is_batched = is_batched

    def __call__(self, samples: Any) -> Any:
        if self.transform is not None:
            samples = list(map(self.transform, samples)) if self.is_batched else self.transform(samples)
        found = self.collate_fn(samples)
        return found if self.batch_transform is None else self.batch_transform(found)


class Pipeline:
    """From the arguments of a loader to the view of its batches, read ahead of the consumer by workers.

    Parameters
    ----------
    options : namespace
        The arguments, checked.
    kind : BatchKind
    seed : int
        Given, or drawn once.
    samplers : tuple, optional
        The sampler and the batch sampler of a loader whose order stays the same.

    Attributes
    ----------
    sampler, batch_sampler : iterable or None
        Those that the loader shows.
    keys : iterable or None
        The one that gives the keys to read. None: the order is part of the view.
    innermost : iterable
        The sampler at the end of the chain if one was given, otherwise the data set.
    is_foreign : bool
        Whether that is a sampler of another library.
    """

    def __init__(self, options: Any, kind: BatchKind, seed: int, samplers: Any = None) -> None:
        self.options, self.kind, self.seed = options, kind, seed
        size, is_given = options.batch_size, options.batch_sampler is not None
        self.given_sampler = options.batch_sampler if is_given else options.sampler
        self.has_sampler = is_given or options.sampler is not None
        self.is_batched = is_given or size is not None
        self.size = None if is_given else size
        last: Any = "discard" if options.drop_last else "keep"
        self.last = options.last_batch or last
        self.split = iterable_split(options)
        self.workers = min(1, options.num_workers) if self.split == "none" else options.num_workers
        self.ahead_per_worker = options.prefetch_factor or 2
        self.collate_fn = options.batchify_fn if options.collate_fn is None else options.collate_fn
        if self.collate_fn is None:
            self.collate_fn = kind.collate if self.is_batched else kind.convert
        self.collate_fn = kind.adapted(self.collate_fn)
        self.sampler, self.batch_sampler = samplers or (self._sampler(), options.batch_sampler)
        if samplers is None and self.size is not None and self.sampler is not None:
            self.batch_sampler = BatchSampler(self.sampler, self.size, last=self.last)
        outer = self.sampler if self.batch_sampler is None else self.batch_sampler
        self.keys = outer if self.has_sampler else None
        if self.split == "reader":
            reader = SampleReader(options.dataset)
            self.keys = reader if size is None else BatchSampler(reader, size, last=self.last)
        self.innermost = chain_of(self.keys)[-1] if self.has_sampler else options.dataset
        self.is_foreign = self.has_sampler and not isinstance(self.innermost, Sampler | View)
        self.fingerprints: dict[tuple[int, int], str] = {}  # of the order, by seed and epoch; see `state`
        self.rows_are_keys = kind.rows_are_keys and not isinstance(self.batch_sampler, Sampler)

    def composed(self) -> Callable[[Any], Any]:
        """Return the function that makes a batch of samples of the data set."""
        options = self.options
        if options.transform is options.batch_transform is None:
            return self.collate_fn  # type: ignore[no-any-return]
        return Composed(options, self.collate_fn, self.is_batched)

    def _sampler(self) -> Any:
        """Return the sampler: as given, or one of the order that the view has."""
        options = self.options
        if options.shuffle:
            return ShuffleSampler(options.dataset, seed=self.seed)
        if self.split or self.has_sampler or not hasattr(options.dataset, "__len__"):
            return options.sampler
        sampler = SequentialSampler(0)
        sampler.data_source = options.dataset  # its length is not asked for before it is needed
        return sampler

    def listeners(self) -> Iterator[Any]:
        """Yield the objects of the user with `set_epoch` in the data set."""
        dataset = self.options.dataset
        for node in walk(dataset) if isinstance(dataset, View) else ():
            if isinstance(node, Source | Uniter):
                yield from listeners(node._data if isinstance(node, Source) else node._passes.iterable)
        if not isinstance(dataset, View):
            yield from listeners(dataset)

    # ---------------------------------------------------------------- one epoch

    def order(self, epoch: int) -> View[Any] | None:
        """Return the keys of all batches of an epoch, or None if there are none or they must be drawn."""
        return None if self.keys is None or self.split else order_of(self.keys, epoch)

    def length(self, epoch: int) -> int | None:
        """Return the number of batches of an epoch, or None if it is not known."""
        try:
            if self.last == "rollover":
                return len(self.batches(epoch))
            if not self.split:
                return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
            n = len(self.options.dataset)
            return n if self.size is None else batch_count(n, self.size, self.last)
        except (TypeError, NotImplementedError):
            return None

    def batches(self, epoch: int) -> range:
        """Return the numbers of the batches of an epoch, if short ones are completed by the next epoch."""
        assert self.size is not None
        n = len(self.sampler)
        return range(epoch * n // self.size, (epoch + 1) * n // self.size)

    def as_key(self, key: Any) -> Any:
        """Return the key of an item, or the keys of a batch, as they are sent to workers."""
        if self.split:
            return list(key) if self.is_batched else key
        return as_keys(key, self.rows_are_keys) if self.is_batched else as_key(key)

    def items(self, epoch: int, by_keys: bool = False) -> View[Any]:
        """Return the view of the batches of an epoch, or of the single samples, without workers.

        With `by_keys` its indices are the keys that the sampler gives, although they may be known.
        """
        dataset = self.options.dataset
        if self.split == "reader":
            return self._at_keys(self._transformed(Given()))
        if self.split is not None:
            stream = Uniter(Passes(dataset, cache_size=0, n_parallel=1), UNKNOWN)
            return self._in_order(self._transformed(stream))
        samples = as_view(dataset, "DataLoader")
        if self.keys is None:
            samples = self._transformed(samples)
            return self._in_order(shuffle(samples, self.seed) if self.options.shuffle else samples)
        samples = self._transformed(Samples(samples))
        order: Any = None if by_keys else self.order(epoch)
        if order is None and self.last != "rollover":
            return self._at_keys(samples)
        if self.options.batch_sampler is None:
            order = order_of(self.sampler, epoch)
            return self._in_order(AtKeys(samples, order))
        return (AtRows if self.rows_are_keys else AtLists)(self._at_keys(samples), order)

    def _transformed(self, samples: View[Any]) -> View[Any]:
        """Return the view of the transformed samples. With `on_error`, failing ones are `Recovered`."""
        options = self.options
        samples = samples if options.transform is None else smap(options.transform, samples)
        return samples if options.on_error == "raise" else Tolerant(options.on_error, samples)

    def _in_order(self, samples: View[Any]) -> View[Any]:
        """Return the view of the batches of successive samples, or of single ones."""
        size = self.size
        if size is None:
            return self._batch_transformed(smap(self._collated(), samples))
        if self.split == "workers" and self.workers:
            return batch(samples, size, collate_fn=partial(_whole, size, self._finish))
        if self.last == "pad":
            samples = whole_batches(samples, size)
        if self.last == "rollover" and len(samples):
            samples = epochs(samples) if samples._varies else cycle(samples)
        return self._batch_transformed(
            batch(samples, size, self.last == "discard", collate_fn=self._collated())
        )

    def _at_keys(self, samples: View[Any]) -> View[Any]:
        """Return the view of the batches at lists of keys, or of the samples at keys."""
        return self._batch_transformed(Batches(samples, self._collated(), self.is_batched))

    def _batch_transformed(self, items: View[Any]) -> View[Any]:
        f = self.options.batch_transform
        return items if f is None else smap(self._on_recovered(f), items)

    def _finish(self, samples: list[Any]) -> Any:
        """Return the batch of transformed samples."""
        found, f = self._collated()(samples), self.options.batch_transform
        return found if f is None else self._on_recovered(f)(found)

    def _collated(self) -> Callable[[Any], Any]:
        return self._on_recovered(self.collate_fn, self.is_batched)

    def _on_recovered(self, f: Callable[[Any], Any], collates: bool = False) -> Callable[[Any], Any]:
        """Return a function that passes over samples that failed."""
        return f if self.options.on_error == "raise" else OnRecovered(f, collates)

    # ---------------------------------------------------------------- workers

    def ahead(self, items: View[Any], epoch: int = -1) -> View[Any]:
        """Return the view of items that workers compute ahead of the consumer.

        `epoch` is the only epoch that will be read, to give its workers seeds of their own.
        """
        if not self.workers:
            return items
        if self.split != "workers":
            return self._node(items, self.workers, epoch)
        # Each worker iterates the data set, so it has views of its own, also if workers are threads.
        nodes = [self._node(self.items(0), 1, epoch, number, self.workers) for number in range(self.workers)]
        return WithLeftovers(interleave(nodes), self._finish, self.size, self.last)

    def _node(
        self, items: View[Any], workers: int, epoch: int, first: int = 0, together: int = 0
    ) -> View[Any]:
        options, size = self.options, self.options.shm_size
        # Workers that only transform samples do not get the data set, which may be an open stream.
        dataset = None if self.split == "reader" else options.dataset
        context = options.multiprocessing_context
        return prefetch(
            items,
            workers,
            options.method,
            self.ahead_per_worker * workers,
            self.kind.start(options.worker_init_fn, dataset),
            size and size // (together or 1),
            context=context.get_start_method() if hasattr(context, "get_start_method") else context,
            timeout=float(options.timeout) or None,
            in_order=options.in_order,
            seed=node_key("workers", self.seed, epoch, "all"),
        ).changed(
            first=first,
            together=together,
            item_seed=node_key("item", self.seed, 0, first) if first else self.seed,
            pinner=self.kind.pinner if options.pin_memory else None,
        )

    def nodes(self, view: View[Any]) -> list[Prefetch[Any]]:
        """Return the nodes of workers that a view from `ahead` has."""
        views = view._sources[0]._sources if isinstance(view, WithLeftovers) else (view,)
        return [one for one in views if isinstance(one, Prefetch)] if self.workers else []


class ShuffleSampler(RandomSampler):
    """The order of `shuffle`, which depends on the number of orders below it."""

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        indices: View[int] = as_view(range(len(self)), "DataLoader")
        indices._order_count = getattr(self.data_source, "_order_count", 0)
        return shuffle(indices, self.seed)


class SampleReader:
    """The samples of a data set as keys of themselves: a sampler that the calling process reads."""

    def __init__(self, dataset: Any) -> None:
        self._samples = dataset

    def __iter__(self) -> Iterator[Sample]:
        return map(Sample, count(), in_order(self._samples))


class Leftover(list[Any]):
    """The last samples of a worker, which do not fill a batch."""


def _whole(size: int, finish: Callable[[list[Any]], Any], samples: list[Any]) -> Any:
    return finish(samples) if len(samples) == size else Leftover(samples)


class WithLeftovers(View[Any]):
    """The batches of all workers in turn, and those of the samples that are left at their ends."""

    def __init__(self, turns: View[Any], finish: Callable[[list[Any]], Any], size: Any, last: str) -> None:
        super().__init__((turns,), UNKNOWN)
        self._finish, self._size, self._last = finish, size or 1, last

    def _iter(self, plan: Plan) -> Iterator[Any]:
        items, rest = self._sources[0]._iter(self._sources[0]._plan()), Leftover()

        def read(i: int) -> Any:
            for item in items if len(rest) < self._size else ():
                if type(item) is not Leftover:
                    return item
                rest.extend(item)
                if len(rest) >= self._size:
                    break
            if not rest or (len(rest) < self._size and self._last == "discard"):
                raise EndOfSequence(f"the sequence ends before batch {i}")
            samples, rest[: self._size] = rest[: self._size], []
            try:
                return self._finish(samples)
            except Exception as error:
                fail(self, i, error, "in collate_fn")

        return surviving(self, plan, read)

    def _get(self, i: int) -> Any:
        for item in islice(self._iter(self._plan()), i, None):
            return item
        raise EndOfSequence(f"the sequence ends before batch {i}")

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return WithLeftovers(sources[0], self._finish, self._size, self._last)
