"""`DataLoader`: the usual arguments, translated into views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Literal, Self

from ..indices import positive_int
from ..prefetch import Prefetch, prefetch
from ..randomness import as_seed
from ..view import View, as_view
from ..views.batch import batch
from ..views.shuffle import shuffle as shuffled
from ..views.smap import smap
from .arguments import as_batch_size, as_flag, as_workers, check_clashes, check_kinds, shown
from .collate import default_collate, default_convert
from .fetch import Fetch, FetchOne, KeySource, as_key, as_keys
from .samplers import BatchSampler, pass_epoch

__all__ = ["DataLoader"]


class DataLoader:
    """Batches of a data set, in a fresh order every epoch, computed ahead by workers.

    A facade: it lays views over the data set and keeps the result as ``loader.view``. Every `iter` is one
    epoch of that view; workers live from the first epoch to `close`.

    ==========================================  =========================================================
    argument                                    becomes
    ==========================================  =========================================================
    ``dataset``                                 ``view(dataset)``
    ``shuffle=True, seed``                      ``shuffle(…, seed)``
    ``batch_size=k, drop_last, collate_fn``     ``batch(…, k, drop_last, collate_fn=collate_fn)``
    ``batch_size=None, collate_fn``             ``smap(collate_fn, …)``
    ``sampler``, ``batch_sampler``              the plan of a view of ``collate_fn`` of the items at keys
    ``num_workers``, ``method``, ``shm_size``   ``prefetch(…, num_workers, method, shm_size=…, seed=…)``
    ``prefetch_factor``                         ``prefetch(…, max_buffered=prefetch_factor * num_workers)``
    ``worker_init_fn``                          ``prefetch(…, start_hook=worker_init_fn)``
    every `iter`                                ``iter(loader.view.at_epoch(loader.epoch))``
    ==========================================  =========================================================

    Parameters
    ----------
    dataset : View or indexable
        Anything with ``[i]``; with ``len`` unless a sampler says what to read.
    batch_size : int or None
        Samples per batch, at least 1. None: no batches, single samples (or whatever ``dataset[keys]``
        gives for lists of keys of a sampler).
    shuffle : bool, optional
        Read in random order, another one every epoch.
    sampler : iterable, optional
        Of indices or keys of the data set, in place of `shuffle`. Iterated anew every epoch and lazily: it
        may be endless. Workers make it run ahead of the reader.
    batch_sampler : iterable, optional
        Of lists of indices or keys, in place of `batch_size`, `shuffle`, `sampler` and `drop_last`.
    num_workers : int
        At least 0. 0 (the default) computes in the reading thread.
    collate_fn : callable, optional
        Makes the batch of a list of samples; `default_collate` by default. Without batches it is called
        with the single sample, and `default_convert` is the default.
    drop_last : bool
        Leave out a last batch of fewer samples.
    worker_init_fn : callable, optional
        Called with the number of the worker in each one, before its first sample.
    prefetch_factor : int, optional
        Batches ahead per worker, at least 1. None (the default) is 2. Needs workers.
    seed : int, optional
        At least 0, for `shuffle`. None (the default) draws one from the system, once.
    method : "process" or "thread"
        What the workers are.
    shm_size : int, optional
        Shared memory for the results of process workers, in bytes; see `prefetch`.

    Raises
    ------
    TypeError
        If `dataset` cannot be indexed, `shuffle` meets one without length, or an argument is of a wrong
        type.
    ValueError
        If an argument is out of range, or arguments exclude each other.

    Notes
    -----
    Batches are the same bit by bit for any number of workers and either method. Arguments cannot be
    changed later. `len` needs that of the data set or sampler, and is exact. After
    ``torch.utils.data.DataLoader``, whose argument order this is; it collates to numpy arrays, and tuples
    to tuples.

    Examples
    --------
    >>> loader = DataLoader([(x, x % 2) for x in range(5)], batch_size=2)
    >>> for numbers, parities in loader:
    ...     print(numbers, parities)
    [0 1] [0 1]
    [2 3] [0 1]
    [4] [0]
    >>> loader
    DataLoader(<list of 5>, batch_size=2)
    >>> with DataLoader(range(100), 10, shuffle=True, seed=0) as loader:
    ...     first, second = list(loader), list(loader)
    >>> len(loader), (first[0] == second[0]).all()
    (10, np.False_)
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        *,
        drop_last: bool = False,
        worker_init_fn: Callable[..., Any] | None = None,
        prefetch_factor: int | None = None,
        seed: int | None = None,
        method: Literal["process", "thread"] = "process",
        shm_size: int | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        check_kinds(**given)
        self._given = given
        self._epoch = 0
        self.dataset = dataset
        self.shuffle = shuffle is not None and as_flag(shuffle, "DataLoader: shuffle")
        self.drop_last = as_flag(drop_last, "DataLoader: drop_last")
        check_clashes(batch_size, self.shuffle, sampler, batch_sampler, self.drop_last)
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            batch_size = as_batch_size(batch_size, "DataLoader")
            if sampler is not None:
                batch_sampler = BatchSampler(sampler, batch_size, self.drop_last)
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers, self.prefetch_factor = as_workers(num_workers, prefetch_factor)
        if collate_fn is None:
            collate_fn = default_convert if batch_size is None and batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self.worker_init_fn = worker_init_fn
        self.seed = as_seed(seed, "DataLoader: seed")
        self.method = method
        self.shm_size = shm_size
        self._reads = self._key_source()
        self.view = self._ahead(self._items())

    def _key_source(self) -> KeySource | None:
        """Return where the keys come from if a sampler gives them."""
        given = self._given["batch_sampler"] if self.sampler is None else self.sampler
        if self.batch_sampler is not None:
            return KeySource(self.batch_sampler, as_keys, given)
        return None if given is None else KeySource(given, as_key, given)

    def _items(self) -> View[Any]:
        """Return the view of what the loader hands out."""
        source = as_view(self.dataset, "DataLoader")
        if self.batch_sampler is not None:
            return Fetch(source, self.collate_fn)
        if self.sampler is not None:
            return FetchOne(source, self.collate_fn)
        if self.shuffle:
            source = shuffled(source, self.seed)
        if self.batch_size is None:
            return smap(self.collate_fn, source)
        return batch(source, self.batch_size, self.drop_last, collate_fn=self.collate_fn)

    def _ahead(self, items: View[Any]) -> View[Any]:
        """Return the same view, computed ahead by the workers if there are any."""
        if self.prefetch_factor is None:
            return items
        return prefetch(
            items,
            self.num_workers,
            self.method,
            max_buffered=self.prefetch_factor * self.num_workers,
            start_hook=self.worker_init_fn,
            shm_size=self.shm_size,
            seed=self.seed,
        )

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` read epoch number `epoch`, at least 0; samplers with a ``set_epoch`` too."""
        self._epoch = positive_int(epoch, "DataLoader: epoch", least=0)
        pass_epoch(self.sampler if self.sampler is not None else self.batch_sampler, epoch)

    def __iter__(self) -> Iterator[Any]:
        epoch, self._epoch = self._epoch, self._epoch + 1
        pipeline = self.view.at_epoch(epoch)
        if self._reads is None:
            return iter(pipeline)
        keys = self._reads.epoch()
        return chain(pipeline._iter(keys), keys.failure())

    def __len__(self) -> int:
        return len(self.view if self._reads is None else self._reads)

    def __repr__(self) -> str:
        data = repr(as_view(self.dataset, "DataLoader"))
        return f"DataLoader({', '.join([data, *shown(DataLoader, self._given)])})"

    def __setattr__(self, name: str, value: Any) -> None:
        if "view" in self.__dict__ and not name.startswith("_"):
            raise ValueError(
                f"DataLoader: {name} attribute should not be set after DataLoader is initialized"
            )
        super().__setattr__(name, value)

    def close(self) -> None:
        """End the workers; idempotent, and nothing to do without workers."""
        if isinstance(self.view, Prefetch):
            self.view.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
