"""`DataLoader`: epochs of the pipeline that its arguments stand for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Literal, Self
from weakref import WeakSet

from ..checks import int_at_least
from ..collation.default import default_collate, default_convert
from ..frames import hides_frames, warn
from ..indices import Unsized
from ..iteration import restarting
from ..prefetch import Prefetch
from ..samplers.base import pass_epoch
from ..source import as_view
from ..view import View
from .epoch import Epoch, Position, check_state, load_sampler_state, rest, sampler_state
from .iterable import is_iterable_only, refuse_second_epoch
from .keyed import as_key, as_keys
from .options import (
    OnError,
    Options,
    as_iterable_split,
    as_loader_seed,
    check,
    warn_of_too_much,
)
from .parts import InTurn
from .pipeline import WorkerStart, length, pipeline, reads_keys, samplers_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Batch = TypeVar("Batch", default=Any)
else:
    from typing import TypeVar

    Batch = TypeVar("Batch")

__all__ = ["DataLoader"]


class DataLoader(Generic[Batch]):
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
        Called in every worker before its first sample, with the worker's number.
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
        too. None of them can be changed.
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
    Batches are the same bit by bit for any number of workers, either method, persistent or not. `len` needs
    the length of the data set or sampler, and is exact. The `__len__` of a data set that can only be
    iterated is believed; a warning tells if there are more samples. Modelled on
    ``torch.utils.data.DataLoader``, with its arguments in their order. It collates to numpy arrays, and
    tuples to tuples. There is a warning if there are more workers than CPUs, or than memory for them.

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

    # The subclass for PyTorch has others.
    _collate_fn: Callable[[Any], Any] = staticmethod(default_collate)
    _convert_fn: Callable[[Any], Any] = staticmethod(default_convert)
    _worker_start: type[WorkerStart] = WorkerStart
    _no_pinning = "arrays are never pinned (tensors of seqkit.torch.DataLoader are)"

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
        warn_of_too_much(self._given)
        self._lock = threading.Lock()
        self._epoch, self._start = 0, 0
        self._latest: Position | None = None
        self._nodes: WeakSet[Prefetch[Any] | InTurn] = WeakSet()
        self._is_closed = self._has_begun = False
        self.failed: list[tuple[Any, str]] = []
        self._build(as_loader_seed(seed, generator))

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
        self._attributes = {
            **{field.name: getattr(given, field.name) for field in fields(given)},
            "dataset": self._dataset,
            "seed": seed,
            "collate_fn": collate_fn,
            "batch_size": given.batch_size if given.makes_batches else None,
            "prefetch_factor": given.batches_ahead if given.num_workers else None,
            "sampler": None if self._is_iterable else sampler,
            "batch_sampler": None if self._is_iterable else batch_sampler,
        }
        self._view = self._new_view()

    def _new_view(self) -> View[Any]:
        return pipeline(
            self._dataset, self._options, self._worker_start(self._options.worker_init_fn, self._dataset)
        )

    # ---------------------------------------------------------------- arguments

    @property
    def view(self) -> View[Any]:
        """The view that the arguments stand for, made with the loader. Each epoch has workers of its own."""
        return self._view

    def __getattr__(self, name: str) -> Any:
        if name in _ATTRIBUTES:
            return self._attributes[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _ATTRIBUTES:
            raise ValueError(
                f"DataLoader: {name} attribute should not be set after DataLoader is initialized"
            )
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name in _ATTRIBUTES:
            raise ValueError(f"DataLoader: {name} attribute should not be deleted")
        super().__delattr__(name)

    # ---------------------------------------------------------------- reading

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next `iter` reads (0 or more), also of a sampler.

        If that is the epoch of a state just loaded, it continues at the position of the state.
        """
        epoch = int_at_least(epoch, "DataLoader: epoch", 0)
        with self._lock:
            self._settle_sampler()
            if epoch != self._epoch:
                self._epoch, self._start = epoch, 0
            self._latest = None
            pass_epoch(self._sampler, epoch)

    @hides_frames
    def __iter__(self) -> Iterator[Batch]:
        options = self._options
        if self._is_closed and options.num_workers:
            raise RuntimeError("DataLoader: the loader is closed; make a new one")
        if options.pin_memory and not self._can_pin():
            warn(
                f"DataLoader: 'pin_memory' argument is set as true but {self._no_pinning}: batches stay in"
                " ordinary memory",
                UserWarning,
            )
        node = self._view if options.persistent_workers else self._new_view()
        with self._lock:
            before = self._latest, self._epoch, self._start
            position = self._begin()
        try:
            items = self._read(node, position)
        except BaseException:  # the epoch has not begun
            self._finished(node)
            with self._lock:
                load_sampler_state(self._sampler, position.before)
                if self._latest is position:
                    self._latest, self._epoch, self._start = before
            raise
        reads_here = not options.num_workers and not isinstance(node, InTurn)
        return Epoch(items, position, reads_here, self.failed, partial(self._finished, node))

    def _begin(self) -> Position:
        """Begin an epoch. Return its position."""
        dataset = self._dataset if self._is_iterable else None
        for what, source in (("data set", dataset), ("sampler", self._given_sampler())):
            if self._has_begun and isinstance(source, Iterator):
                refuse_second_epoch(what, source)
        self._has_begun = True
        self._settle_sampler()
        is_exact = not self._is_iterable or self._options.last == "rollover"
        position = Position(
            self._epoch, self._start, self._length(), is_exact, self._sampler, self._convert_key()
        )
        self._latest, self._epoch, self._start = position, position.epoch + 1, 0
        return position

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
        if node is not self._view and isinstance(node, Prefetch | InTurn):
            node.close()

    def _read(self, node: View[Any], position: Position) -> Iterator[Any]:
        """Begin to read an epoch from a position on."""
        if isinstance(node, Prefetch | InTurn):
            self._nodes.add(node)
        pipeline = node.at_epoch(position.epoch)
        if self._sampler is not None:
            return chain(self._iterated(pipeline, position.keys), position.failure())
        if isinstance(pipeline._n, Unsized):
            return rest(self._iterated(pipeline, pipeline._plan()), position.batch)
        return self._iterated(pipeline, range(position.batch, pipeline._n))

    def _convert_key(self) -> Callable[[Any], Any]:
        if self._is_iterable:
            return list if self._options.is_batched else lambda sample: sample
        return as_keys if self._options.is_batched else as_key

    def _iterated(self, pipeline: View[Any], plan: Any) -> Iterator[Any]:
        if isinstance(pipeline, Prefetch):
            return restarting(pipeline.reading(plan, self._options.in_order))
        # Keys can be drawn once only. The base class reads each of them, in any view.
        read = View._iter if isinstance(plan, Iterator) else type(pipeline)._iter
        return read(pipeline, plan)

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
            If no position says what has been read: with ``in_order=False``, with
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
        state: dict[str, Any] = {"version": 1, **self._position(), "seed": self.seed}
        state["batch_size"] = self.batch_size
        return state

    def _position(self) -> dict[str, Any]:
        latest = self._latest
        if latest is None:
            return {"epoch": self._epoch, "batch": self._start, "sampler": sampler_state(self._sampler)}
        if latest.is_over():
            with self._lock:
                self._settle_sampler()
            return {"epoch": latest.epoch + 1, "batch": 0, "sampler": sampler_state(self._sampler)}
        return {"epoch": latest.epoch, "batch": latest.batch, "sampler": latest.before}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next `iter` begin with the batch that came next when `state_dict` was called.

        The cost does not grow with the position, except for samplers without a known order and for data
        sets that can only be iterated: as many keys or samples are drawn as were read. The number of
        workers and the method may be others, and the number of processes of a `DistributedSampler`, too.

        Parameters
        ----------
        state : dict
            From `state_dict` of a loader of the same data set, batch size, order and sampler.

        Raises
        ------
        TypeError
            If `state` is not such a dict.
        ValueError
            If it is of another seed or batch size.
        """
        has_seed = self._given.seed is not None or self._given.generator is not None
        check_state(state, self.batch_size, self.seed if has_seed else None)
        if state["seed"] != self.seed:
            self._close_nodes()
            self._build(state["seed"])
        self._begin_at(state)

    def _begin_at(self, position: dict[str, Any]) -> None:
        before = sampler_state(self._sampler)
        start = load_sampler_state(self._sampler, position["sampler"], position["batch"])
        n = self._length()
        if n is not None and not self._is_iterable and start > n:
            load_sampler_state(self._sampler, before)
            raise ValueError(
                f"DataLoader: the state is behind batch {start}, of which an epoch of this loader has {n}"
            )
        self._epoch, self._start, self._latest = position["epoch"], start, None

    # ---------------------------------------------------------------- the object

    def __repr__(self) -> str:
        name = f"<{type(self._dataset).__name__}>"
        data = name if self._is_iterable else repr(as_view(self._dataset, "DataLoader"))
        return f"{type(self).__name__}({', '.join([data, *self._given.shown()])})"

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_nodes": None, "_latest": None, "_lock": None}
        return {**self.__dict__, **left_out, "_position": self._position()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        position = state.pop("_position")
        for name, value in state.items():
            setattr(self, name, value)
        self._nodes, self._lock = WeakSet(), threading.Lock()
        self._begin_at(position)

    def close(self) -> None:
        """End the workers. If there are any, refuse further epochs. Idempotent."""
        self._is_closed = True
        self._close_nodes()

    def _close_nodes(self) -> None:
        for node in [*self._nodes, self._view]:
            if isinstance(node, Prefetch | InTurn):
                node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_ATTRIBUTES = frozenset(["dataset", "view", *(field.name for field in fields(Options))])
