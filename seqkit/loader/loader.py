"""`DataLoader`: epochs of the pipeline that its arguments stand for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, cast
from weakref import WeakSet, ref

from ..collation.default import default_collate, default_convert
from ..core.arguments import int_at_least
from ..core.display import as_html
from ..core.indices import Unsized
from ..core.iteration import is_one_shot, restarting
from ..core.set_epoch import epoch_by_hand, tell
from ..core.source import as_view
from ..core.tracebacks import hides_frames, warn
from ..core.view import View
from ..prefetch import Prefetch
from ..samplers.base import pass_epoch, state_of, whole_order
from .advice import advise, warn_of_ranks
from .attributes import Attributes
from .bound import Bound
from .epoch import Epoch, Position, Start, begun, load_sampler_state
from .followers import followers, own_epoch
from .iterable import is_iterable_only, refuse_second_epoch
from .keyed import as_key, as_keys, numbered
from .options import (
    OnError,
    Options,
    as_iterable_split,
    as_loader_seed,
    check,
    suggesting_arguments,
)
from .own_samplers import OwnSampler
from .parts import InTurn
from .pipeline import Workers, WorkerStart, key_check, length, pipeline, reads_keys, samplers_of
from .state import (
    check_samples,
    check_share,
    check_state,
    forgets_its_order,
    has_exact_state,
    is_a_share,
    order_name,
    sample_count,
    share_of,
)

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Batch = TypeVar("Batch", default=Any)
else:
    from typing import TypeVar

    Batch = TypeVar("Batch")

__all__ = ["DataLoader"]


class DataLoader(Attributes, Generic[Batch]):
    """Batches of a data set, in a fresh order every epoch, computed ahead by workers.

    The arguments become views over the data set. ``loader.view`` is the result, and every `iter` reads one
    epoch of it.

    ==========================================  =========================================================
    argument                                    becomes
    ==========================================  =========================================================
    ``dataset``                                 ``view(dataset)``
    ``shuffle=True, seed``                      ``shuffle(…, seed)``
    ``transform``                               ``smap(transform, …)``
    ``batch_size=k, drop_last, collate_fn``     ``batch(…, k, drop_last, collate_fn=collate_fn)``
    ``batch_size=None, collate_fn``             ``smap(collate_fn, …)``
    ``last_batch="pad"``                        ``batch(cycle(…)[:whole batches], …)``
    ``batch_transform``                         ``smap(batch_transform, …)``
    ``sampler``, ``batch_sampler``, rollover    the plan of a view of ``collate_fn`` of the samples at keys
    ``num_workers``, ``method``, ``shm_size``   ``prefetch(…, num_workers, method, shm_size=…, seed=…)``
    ``prefetch_factor``                         ``prefetch(…, max_buffered=prefetch_factor * num_workers)``
    ``worker_init_fn``, ``timeout``, …          ``prefetch(…, start_hook=…, timeout=…, context=…)``
    every `iter`                                ``iter(loader.view.at_epoch(loader.epoch))``
    ==========================================  =========================================================

    Parameters
    ----------
    dataset : View, indexable or iterable
        Anything with ``[i]``, and with ``len`` unless a sampler gives the keys. `iterable_split` determines
        how a data set is read that can only be iterated.
    batch_size : int or None
        Samples per batch (1 or more). None: single samples, or what ``dataset[keys]`` returns if a sampler
        gives lists of keys.
    shuffle : bool, optional
        Read in random order, a new one in every epoch.
    sampler : iterable, optional
        Indices or keys of the data set, in place of `shuffle`. Any view of indices is a sampler; random
        views give a new order in every epoch. It is iterated again for every epoch. It may be endless.
        Workers make it run ahead of the consumer.
    batch_sampler : iterable, optional
        Lists of indices or keys, in place of `batch_size`, `shuffle`, `sampler` and `drop_last`. A list of
        lists of indices, or a tuple of tuples, gives a list of batches.
    num_workers : int
        Number of workers (0 or more). 0 (the default) computes in the calling thread.
    collate_fn : callable, optional
        Makes a batch of a list of samples; `default_collate` by default. Without batches it is called with
        the single sample, and `default_convert` is the default. `batchify_fn` is another name for it.
    pin_memory, pin_memory_device : bool, str
        For `seqkit.torch.DataLoader`. Here there is a warning at every `iter`.
    drop_last : bool
        Leave out a last batch that is short.
    timeout : float
        Seconds a batch may take (0 or more). After that it fails with `ItemTimeout`. 0 (the default) is no
        limit. Needs workers.
    worker_init_fn : callable, optional
        Called in every worker before its first sample, with the worker's number. If its code mentions a name
        with "seed", worker w of n computes the batches w, w + n, …, as in PyTorch.
    multiprocessing_context : str or context, optional
        How processes start: "fork", "forkserver", "spawn", or a context of `multiprocessing`. Needs workers
        that are processes.
    generator : int, SeedSequence, Generator of numpy or torch, optional
        The `seed` is drawn from it once, at construction.
    prefetch_factor : int, optional
        Batches that each worker computes ahead (1 or more). None (the default) is 2. Needs workers.
    persistent_workers : bool
        True: one set of workers from the first epoch to `close`. They see the data set as it was when they
        started. False (the default): new workers for every epoch. Needs workers.
    in_order : bool
        False: batches come in the order of completion.
    method : "process" or "thread"
        The kind of workers.
    shm_size : int, optional
        Bytes of shared memory for the results of process workers; see `prefetch`.
    seed : int, optional
        For `shuffle` and the workers (0 or more). None (the default) draws one, once.
    last_batch : "keep", "discard", "rollover" or "pad", optional
        What to do with a last batch that is short. "keep" (the default) yields it. "discard" leaves it out.
        "rollover" puts its samples at the beginning of the next epoch. "pad" completes it with the first
        samples of the epoch. The calling process reads an iterable data set if this is "rollover" or "pad".
    transform : callable, optional
        Applied to every sample, in the workers. `batch_transform` is applied to every batch.
    on_error : "raise", "skip", "replace" or callable
        What to do with a sample that fails. "raise" (the default): its batch fails. "skip" leaves the
        sample out. "replace" takes the next sample that can be read. A function is called with the
        `EvaluationError` and returns a sample. ``loader.failed`` lists what failed. A list of batches gets
        shorter if no sample of a batch is left.
    iterable_split : "none", "parts", "reader" or "workers", optional
        How to read a data set that can only be iterated. "none": one worker does. "parts": each worker reads
        whole parts, the iterables that ``dataset.split(part, dataset.parts)`` returns. "reader": the calling
        process reads samples, and the workers transform and collate them. "workers": every worker iterates
        the data set, which chooses its part by `get_worker_info`. The order then depends on the number of
        workers, and there is no `state_dict`. None (the default) is "parts" if the data set has
        ``split(part, parts)`` and `parts`, "reader" if it is an iterator and workers are processes, otherwise
        "none".

    Attributes
    ----------
    dataset, seed, collate_fn, batch_size, prefetch_factor, sampler, batch_sampler
        As given, or the object that the loader uses instead, or None. The other arguments are attributes,
        too. None of them can be changed. A `sampler` that was not given shows the order of the next epoch.
    failed : list of (key, str)
        The samples that failed, with `on_error`. Of data sets that split themselves also parts that failed.

    Raises
    ------
    TypeError
        If `dataset` can neither be indexed nor iterated, `shuffle` meets one without length, or an argument
        has the wrong type.
    ValueError
        If an argument is out of range, arguments exclude each other, or a weighted sampler has more or
        fewer weights than the data set has samples.

    Notes
    -----
    Batches are the same bit by bit for any number of workers, either method, persistent or not. Only the last
    bits of sums and matrix products may differ between 0 and more process workers, which have one native
    thread each. `len` needs the length of the data set or sampler, and is exact. The `__len__` of a data set
    that can only be iterated is believed. A warning follows if there are more samples. Modelled on
    ``torch.utils.data.DataLoader``, with its arguments in their order. It collates to numpy arrays, and
    tuples to tuples. A data set and a sampler with `set_epoch` are told each epoch, in workers too.

    There is a warning if there are more workers than CPUs, or than memory for them; if `drop_last` leaves no
    batch; and if ``torch.distributed`` has several processes and each of them would read all samples.

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

    dataset: Any
    batch_size: int | None
    collate_fn: Callable[[Any], Any]
    prefetch_factor: int | None
    seed: int

    # The view of keys, and the view of the items at the keys of a sampler, once that was asked for.
    _ordered: tuple[Any, Any] = (None, None)

    # The subclass for PyTorch has others.
    _collate_fn: Callable[[Any], Any] = staticmethod(default_collate)
    _convert_fn: Callable[[Any], Any] = staticmethod(default_convert)
    _worker_start: type[WorkerStart] = WorkerStart
    _iterator: Callable[[], Epoch | None] = staticmethod(lambda: None)  # the latest one, while it lives
    _no_pinning = "arrays are never pinned (tensors of seqkit.torch.DataLoader are)"

    @suggesting_arguments
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[..., Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        method: Literal["process", "thread"] = "process",
        shm_size: int | None = None,
        seed: int | None = None,
        last_batch: Literal["keep", "discard", "rollover", "pad"] | None = None,
        transform: Callable[[Any], Any] | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        batchify_fn: Callable[[Any], Any] | None = None,
        on_error: OnError = "raise",
        iterable_split: Literal["none", "parts", "reader", "workers"] | None = None,
    ) -> None:
        self._given = Options(
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            num_workers=num_workers,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            drop_last=drop_last,
            timeout=timeout,
            worker_init_fn=worker_init_fn,
            multiprocessing_context=multiprocessing_context,
            generator=generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
            method=method,
            shm_size=shm_size,
            seed=seed,
            last_batch=last_batch,
            transform=transform,
            batch_transform=batch_transform,
            batchify_fn=batchify_fn,
            on_error=on_error,
            iterable_split=iterable_split,
        )
        self._dataset = dataset
        self._is_iterable = is_iterable_only(dataset)
        check(dataset, self._given, self._is_iterable)
        self._lock = threading.Lock()
        self._next = Start()
        self._latest: Position | None = None
        self._nodes: WeakSet[Prefetch[Any] | InTurn | Bound] = WeakSet()
        self._is_closed = self._has_begun = False
        self._said: set[str] = set()  # the warnings that are given once
        self._sampler_epoch: int | None = 0  # that of the sampler, unless other code has set it
        self.failed: list[tuple[Any, str]] = []
        self._build(self._first_seed())
        self._drop_early_attributes(self._given)
        self._followers = followers(dataset, self._sampler)
        advise(dataset, self._options, self._sampler, self._length)
        self._warn_once("ranks", partial(warn_of_ranks, dataset, self._options, self._sampler))

    def _first_seed(self) -> int:
        """Return the seed that was given, or draw one."""
        return as_loader_seed(self._given.seed, self._given.generator)

    def _draw_seed(self) -> None:
        """Called before each epoch. The subclass for PyTorch may change the seed."""

    def _build(self, seed: int) -> None:
        """Make the samplers and the view, now that the seed is known."""
        given = self._given
        collate_fn = given.batchify_fn if given.collate_fn is None else given.collate_fn
        if collate_fn is None:
            collate_fn = self._collate_fn if given.is_batched else self._convert_fn
        split = as_iterable_split(self._dataset, given) if self._is_iterable else None
        self._options = replace(
            given,
            seed=seed,
            generator=None,
            collate_fn=collate_fn,
            batchify_fn=None,
            iterable_split=split,
        )
        sampler, batch_sampler = samplers_of(self._dataset, self._options)
        # The sampler that gives the keys to read, or None if the order is part of the view.
        read = sampler if batch_sampler is None else batch_sampler
        self._sampler = read if reads_keys(self._options) else None
        self._attributes: dict[str, Any] = {
            **{field.name: getattr(given, field.name) for field in fields(given)},
            "dataset": self._dataset,
            "seed": seed,
            "collate_fn": collate_fn,
            "batch_size": given.batch_size if given.makes_batches else None,
            "prefetch_factor": given.batches_ahead if given.num_workers else None,
            "sampler": None if self._is_iterable else sampler,
            "batch_sampler": None if self._is_iterable else batch_sampler,
        }
        self._attach_samplers()
        self._view = self._new_view()

    def _attach_samplers(self) -> None:
        """Make the epoch of the samplers that only show the order the epoch of this loader."""
        if self._sampler is None:
            for name in ("sampler", "batch_sampler"):
                if isinstance(self._attributes[name], OwnSampler):
                    self._attributes[name].attach(self)

    def _warn_once(self, name: str, warn: Callable[[], bool]) -> None:
        """Call a function that warns if need be, until it has."""
        if name not in self._said and warn():
            self._said.add(name)

    def _new_view(self, epoch: int | None = None) -> View[Any]:
        """Make the view, or that of one epoch, whose workers have their own seeds."""
        start = self._worker_start(self._options.worker_init_fn, self._dataset)
        return pipeline(self._dataset, self._options, start, epoch=epoch)

    # ---------------------------------------------------------------- arguments

    @property
    def view(self) -> View[Any]:
        """The view that the arguments stand for, made with the loader. Each epoch has workers of its own.

        With a sampler whose order is not known in advance, the indices of the view are the sampler's keys.
        """
        order = None if self._sampler is None else whole_order(self._sampler)
        if order is None:
            return self._view
        if self._ordered[0] is not self._view:
            start = self._worker_start(self._options.worker_init_fn, self._dataset)
            node = pipeline(self._dataset, self._options, start, order)
            if isinstance(node, Workers):
                self._nodes.add(node)
            self._ordered = self._view, node
        return cast(View[Any], self._ordered[1])

    # ---------------------------------------------------------------- reading

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads.

        It is also set by `set_epoch` of the sampler, and of a data set that has an attribute `epoch`.
        """
        own = own_epoch(self._sampler)
        if own is not None and own != self._sampler_epoch:
            return own
        by_hand = map(epoch_by_hand, self._followers)
        return next((epoch for epoch in by_hand if epoch is not None), self._next.epoch)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next `iter` reads (0 or more), also of sampler and data set.

        If that is the epoch of a state just loaded, it continues at the position of the state.
        """
        epoch = int_at_least(epoch, "DataLoader: epoch", 0)
        with self._lock:
            self._settle_sampler()
            self._latest = None
            self._move_to(epoch)

    def set_epoch_as_sampler(self, epoch: int) -> None:
        """Set the epoch as `set_epoch` of a sampler does in PyTorch. Called by `loader.sampler`.

        There it counts also for an iterator that was not read yet. Lightning calls it after `iter`.
        """
        iterator, latest = self._iterator(), self._latest
        if iterator is None or not iterator.is_unread:
            self.set_epoch(epoch)
        elif latest is not None and latest.epoch != epoch:
            self.set_epoch(epoch)
            iterator.follow(self._begun_iterator())

    def _move_to(self, epoch: int) -> None:
        """Begin at an epoch, and tell it to the sampler and the data set."""
        if epoch != self._next.epoch:
            self._next = Start(epoch)
        pass_epoch(self._sampler, epoch)
        tell(self._followers, epoch, again=True)
        self._sampler_epoch = own_epoch(self._sampler)

    @hides_frames
    def __iter__(self) -> Iterator[Batch]:
        iterator = self._begun_iterator()
        self._iterator = ref(iterator)
        return iterator

    def _begun_iterator(self) -> Epoch:
        options = self._options
        if self._is_closed and options.num_workers:
            raise RuntimeError("DataLoader: the loader is closed; make a new one")
        if options.pin_memory and not self._can_pin():
            warn(
                f"'pin_memory' argument is set as true but {self._no_pinning}, then device pinned memory"
                " won't be used.",
                UserWarning,
            )
        self._warn_once("ranks", partial(warn_of_ranks, self._dataset, options, self._sampler))
        with self._lock:
            before = self._latest, self._next
            position, goes_on = self._begin()
        node = self._view
        try:
            # The data set has been told the epoch, which may change its length.
            node = self._view if options.persistent_workers else self._new_view(position.epoch)
            items = self._read(node, position, goes_on)
        except BaseException:  # the epoch has not begun
            self._finished(node)
            with self._lock:
                load_sampler_state(self._sampler, position.before)
                self._sampler_epoch = own_epoch(self._sampler)
                if self._latest is position:
                    self._latest, self._next = before
            raise
        return Epoch(items, position, self.failed, self._note, partial(self._finished, node))

    def _begin(self) -> tuple[Position, bool]:
        """Begin an epoch. Return its position, and whether the data set itself is there already."""
        dataset = self._dataset if self._is_iterable else None
        for what, source in (("data set", dataset), ("sampler", self._given_sampler())):
            if self._has_begun and is_one_shot(source):
                refuse_second_epoch(what, source)
        self._has_begun = True
        self._draw_seed()
        epoch = self.epoch
        self._settle_sampler()
        if epoch != self._next.epoch:
            self._move_to(epoch)
        tell(self._followers, epoch)
        start = self._next
        position = Position(
            start.epoch,
            start.batch,
            start.samples if start.batch else self._samples(),
            self._length(),
            not self._is_iterable or self._options.last == "rollover",
            self._sampler,
            self._convert_key(),
            key_check(self._dataset, self._options),
            source=type(self._dataset).__name__,
            key=start.key,
            has_keys=not self._is_iterable and not is_a_share(self._sampler),
            goes_on=start.goes_on,
        )
        self._latest, self._next = position, Start(position.epoch + 1)
        self._sampler_epoch = own_epoch(self._sampler)
        return position, start.goes_on

    def _samples(self) -> int | None:
        return None if self._is_iterable else sample_count(self._dataset)

    def _note(self, position: Position) -> None:
        """Notice that a batch of an epoch was read."""
        latest = self._latest
        if latest is not position and latest is not None:
            latest.rival = position

    def _given_sampler(self) -> Any:
        return self._given.sampler if self._given.batch_sampler is None else self._given.batch_sampler

    def _settle_sampler(self) -> None:
        """Put the sampler where it would be if workers had not read ahead in the latest epoch."""
        if self._latest is not None:
            self._latest.settle_sampler()

    def _can_pin(self) -> bool:
        """Return whether a device can copy from page-locked memory."""
        return False

    def _finished(self, node: View[Any]) -> None:
        if node is not self._view and isinstance(node, Workers):
            node.close()

    def _read(self, node: View[Any], position: Position, goes_on: bool) -> Iterator[Any]:
        """Begin to read an epoch from a position on."""
        if isinstance(node, Workers):
            self._nodes.add(node)
        pipeline = node.at_epoch(position.epoch)
        if self._sampler is not None:

            def read(keys: Iterator[Any]) -> Iterator[Any]:
                if isinstance(node, Workers):
                    keys = map(numbered, keys, count(position.batch))
                return self._iterated(pipeline, keys)

            return position.items(read)
        if isinstance(pipeline._n, Unsized):
            if position.batch == 0 or goes_on:
                return self._iterated(pipeline, pipeline._plan())
            items = self._iterated(pipeline, range(position.batch, _WITHOUT_END))
            return begun(items) if self._is_iterable else items
        return self._iterated(pipeline, range(position.batch, pipeline._n))

    def _convert_key(self) -> Callable[[Any], Any]:
        if self._is_iterable:
            return list if self._options.is_batched else lambda sample: sample
        return as_keys if self._options.is_batched else as_key

    def _iterated(self, pipeline: View[Any], plan: Any) -> Iterator[Any]:
        if isinstance(pipeline, Prefetch):
            return restarting(pipeline.reading(plan, self._options.in_order))
        if isinstance(pipeline, Bound):
            return pipeline.reading(plan)
        # Keys can be drawn once only. The base class reads each of them, in any view.
        read = View._iter if isinstance(plan, Iterator) else type(pipeline)._iter
        return read(pipeline, plan)

    def __bool__(self) -> bool:
        return True  # also without a length

    def __len__(self) -> int:
        latest = self._latest
        if latest is not None and latest.moves:
            if latest.is_over():
                with self._lock:
                    self._settle_sampler()
            elif latest.length is not None:
                return latest.length  # workers may have drawn the sampler to its end
        n = self._length()
        if n is None:
            given = None if self._is_iterable else self._given_sampler()
            what, source = ("data set", self._dataset) if given is None else ("sampler", given)
            raise TypeError(f"DataLoader: no length, for its {what} ({type(source).__name__}) has none")
        return n

    def _length(self) -> int | None:
        return length(self._dataset, self._options, self._sampler)

    # ---------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the latest iterator's consumer, as a small dict for JSON.

        The position is the batch that comes next: after the last batch, the first of the next epoch. A
        loader of the same data set and arguments continues there, with any number of workers; see
        `load_state_dict`.

        Raises
        ------
        RuntimeError
            If no position is known: with ``in_order=False``, with
            ``iterable_split="workers"``, and with ``last_batch="rollover"`` if the data set can only be
            iterated.
        """
        if not self._options.in_order:
            raise RuntimeError("DataLoader: with in_order=False no position says which batches were read")
        if self._options.iterable_split == "workers":
            raise RuntimeError("DataLoader: with iterable_split='workers' there is no state_dict")
        if self._is_iterable and self._options.last == "rollover":
            raise RuntimeError(
                "DataLoader: with last_batch='rollover' a state of an iterable data set would have to contain"
                " the samples that are carried over"
            )
        position = self._position()
        self._warn_of_doubts(position)
        share = share_of(self._sampler)
        return {
            "version": 1,
            **position,
            "seed": self._options.seed,
            "batch_size": self._attributes["batch_size"],
            "order": self._order(),
            **({} if share is None else {"share": share}),
            **self._dataset_state(),
        }

    def _position(self) -> dict[str, Any]:
        latest, start = self._latest, self._next
        if latest is not None and not latest.is_over():
            return {
                "epoch": latest.epoch,
                "batch": latest.batch,
                "sampler": latest.before,
                "samples": latest.samples,
                "key": latest.key(),
            }
        if latest is not None:
            with self._lock:
                self._settle_sampler()
        if self.epoch != start.epoch:  # set by hand
            start = Start(self.epoch)
        return {
            "epoch": start.epoch,
            "batch": start.batch,
            "sampler": state_of(self._sampler),
            "samples": start.samples if start.batch else self._samples(),
            "key": start.key,
        }

    def _order(self) -> str:
        """Return the kind of the order, which a state belongs to."""
        if self._is_iterable:
            return f"{self._dataset.parts} parts" if self._options.iterable_split == "parts" else "iterated"
        if self._sampler is not None:
            return order_name(self._sampler)
        if not self._options.shuffle:
            return "sequential"
        below = getattr(self._dataset, "_random_count", 0)  # salts the order
        return f"shuffle above {below} random views" if below else "shuffle"

    def _warn_of_doubts(self, position: dict[str, Any]) -> None:
        latest = self._latest
        if latest is not None and latest.rival is not None and not latest.rival.is_over():
            warn(
                "DataLoader: the state is the position of the latest iterator, in epoch"
                f" {latest.epoch}, but an earlier iterator, in epoch {latest.rival.epoch}, was read since."
                " Read one iterator at a time, or make a loader for each",
                UserWarning,
            )
            latest.rival = None
        if position["batch"] and "order" not in self._said and forgets_its_order(self._sampler):
            self._said.add("order")
            warn(
                f"DataLoader: the state cannot hold the order of {order_name(self._sampler)}, which draws it"
                " from a generator in every epoch, so samples may come twice or be missed after a resume. Use"
                " shuffle=True, or a sampler of seqkit.samplers",
                UserWarning,
            )

    def _keeps_dataset_state(self) -> bool:
        """Return whether the data set has a state, and is read in step with the consumer of this process."""
        if not has_exact_state(self._dataset):
            return False
        if not self._options.num_workers and not isinstance(self._view, InTurn):
            return True
        if "dataset" not in self._said:
            self._said.add("dataset")
            warn(
                f"DataLoader: the state leaves out the state_dict of the data set"
                f" ({type(self._dataset).__name__}), because workers read copies of it or read it ahead. Set"
                " num_workers to 0 to keep it",
                UserWarning,
            )
        return False

    def _dataset_state(self) -> dict[str, Any]:
        return {"dataset": self._dataset.state_dict()} if self._keeps_dataset_state() else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next `iter` begin with the batch that came next when `state_dict` was called.

        The cost does not grow with the position, except for samplers without a known order and for data
        sets that can only be iterated: as many keys or samples are drawn as were read. Samples that were
        read before are neither transformed nor collated. A data set with `state_dict` and `load_state_dict`
        goes on by itself, without workers. The number of workers and the method may be others, and the number
        of processes of a `DistributedSampler`, too.

        Parameters
        ----------
        state : dict
            From `state_dict` of a loader of the same data set, batch size, order and sampler.

        Raises
        ------
        TypeError
            If `state` is not such a dict.
        ValueError
            If it is of another seed, batch size, kind of order or, in the middle of an epoch, number of
            samples.

        Warns
        -----
        UserWarning
            If the sampler gives another order than before, and if the state of the data set is left out.
        """
        has_seed = self._given.seed is not None or self._given.generator is not None
        check_state(
            state, self._attributes["batch_size"], self._options.seed if has_seed else None, self._order()
        )
        before = self.epoch
        tell(self._followers, state["epoch"], again=True)  # the number of samples may depend on the epoch
        try:
            check_samples(state, self._samples())
            check_share(state, share_of(self._sampler))
        except ValueError:
            tell(self._followers, before, again=True)
            raise
        if state["seed"] != self._options.seed:
            self._close_nodes()
        self._set_seed(state["seed"])
        self._begin_at(state)

    def _set_seed(self, seed: int) -> None:
        """Change the seed, and end the persistent workers, which have the old one."""
        if seed != self._options.seed:
            if isinstance(self._view, Workers):
                self._view.close()
            self._build(seed)

    def _begin_at(self, position: dict[str, Any]) -> None:
        before = state_of(self._sampler)
        start = load_sampler_state(self._sampler, position["sampler"], position["batch"])
        n = self._length()
        if n is not None and not self._is_iterable and start > n:
            load_sampler_state(self._sampler, before)
            raise ValueError(
                f"DataLoader: the state is behind batch {start}, of which an epoch of this loader has {n}"
            )
        key = position.get("key") if start == position["batch"] else None
        self._latest = None
        tell(self._followers, position["epoch"], again=True)
        self._sampler_epoch = own_epoch(self._sampler)
        goes_on = False
        if position.get("dataset") is not None and self._keeps_dataset_state():
            goes_on = self._is_iterable and position["batch"] > 0
            # A data set that can only be iterated begins whole epochs by itself.
            if goes_on or not self._is_iterable:
                self._dataset.load_state_dict(position["dataset"])
        self._next = Start(position["epoch"], start, key, position.get("samples"), goes_on)

    # ---------------------------------------------------------------- the object

    _repr_html_ = as_html

    def __repr__(self) -> str:
        name = f"<{type(self._dataset).__name__}>"
        data = name if self._is_iterable else repr(as_view(self._dataset, "DataLoader"))
        return f"{type(self).__name__}({', '.join([data, *self._given.shown()])})"

    def _explained(self) -> tuple[str, list[str], View[Any]]:
        """Return what `explain` shows: this loader, its length and state, and the view that it reads."""
        n = self._length()
        # Each epoch has a node of its own. One that runs shows the state of the loader.
        running = (node for node in list(self._nodes) if isinstance(node, Prefetch) and node.is_running())
        size = f"length {n:,}" if n is not None else "no length"
        shown = ", ".join(text for text in self._given.shown() if "=" in text)
        state = ["closed"] * self._is_closed
        return f"{type(self).__name__}({shown})", [size, *state], next(running, None) or self.view

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_nodes": None, "_latest": None, "_lock": None, "_iterator": None}
        return {**self.__dict__, **left_out, "_position": {**self._position(), **self._dataset_state()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        position = state.pop("_position")
        self.__dict__.update(state)
        self.__dict__.pop("_iterator", None)
        self._nodes, self._lock = WeakSet(), threading.Lock()
        self._attach_samplers()
        self._begin_at(position)

    def draws_its_order(self) -> bool:
        """Is the order another one in every run of the program, because no seed was given?"""
        given = self._given
        return bool(given.shuffle) and given.seed is None and given.generator is None

    def with_workers(
        self, num_workers: int, method: str = "process", timeout: float = 0, context: str | None = None
    ) -> Self:
        """Return a loader of the same batches, not begun, that other workers compute (for `verify`)."""
        own = {field.name: getattr(self._given, field.name) for field in fields(self._given)}
        own |= {"num_workers": num_workers, "method": method, "timeout": timeout if num_workers else 0}
        own |= {"seed": self._options.seed, "generator": None, "pin_memory": False}
        own |= {"persistent_workers": False, "prefetch_factor": None, "multiprocessing_context": context}
        own |= {"shm_size": own["shm_size"] if method == "process" and num_workers else None}
        return type(self)(self._dataset, **own)

    def close(self) -> None:
        """End the workers. If there are any, refuse further epochs. Idempotent."""
        self._is_closed = True
        self._close_nodes()

    def nodes(self) -> list[Prefetch[Any] | InTurn | Bound]:
        """Return the views of the epochs that have workers, or had them (for `watch`)."""
        return [
            *{id(node): node for node in (*self._nodes, self._view) if isinstance(node, Workers)}.values()
        ]

    def _close_nodes(self) -> None:
        for node in self.nodes():
            node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


# Above the number of batches of any epoch. A range ends where the data set does.
_WITHOUT_END = 1 << 62
