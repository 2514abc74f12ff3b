"""`DataLoader`: epochs of the pipeline that its arguments stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, Self
from weakref import WeakSet

from ..collation.default import default_collate, default_convert
from ..core.arguments import int_at_least
from ..core.chaining import Displayed
from ..core.expression import walk
from ..core.iteration import restarting
from ..core.lengths import Unsized
from ..core.once import Deferred
from ..core.source import as_view
from ..core.tracebacks import hiding_frames, warn
from ..core.view import View
from ..core.worker import Opened
from ..engine.engine import Engine
from ..engine.prefetch import Prefetch
from ..samplers.base import whole_order
from .advice import (
    warn_of_exhausted,
    warn_of_no_batch,
    warn_of_one_reader,
    warn_of_ranks,
    warn_of_too_many_workers,
)
from .epoch import Epoch
from .epoch_counter import EpochCounter
from .iterable import iterable_split
from .keys import numbered
from .options import Options
from .parts import InTurn
from .pipeline import Pipeline, Workers, WorkerStart
from .position import Position
from .resumable import Resumable
from .signature import takes

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Batch = TypeVar("Batch", default=Any)
else:
    from typing import TypeVar

    Batch = TypeVar("Batch")

__all__ = ["DataLoader"]


class DataLoader(Resumable, Displayed, Generic[Batch]):
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
    ``sampler``                                 ``batch(gather(…, sampler), k, …)``
    ``batch_sampler``                           ``gather`` of batches at lists of keys
    a sampler without a known order, rollover   the keys are drawn as they are read
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
        For `seqkit.torch.DataLoader`. Here there is a warning.
    drop_last : bool
        Leave out a last batch that is short.
    timeout : float
        Seconds a batch may take (0 or more). After that it fails with `ItemTimeout`. 0 (the default) is no
        limit. Needs workers.
    worker_init_fn : callable, optional
        Called in every worker before its first sample, with the worker's number. The next batch overwrites
        what it seeds.
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
        process reads samples, and the workers, which do not get the data set, transform and collate them.
        "workers": every worker iterates the data set, which chooses its part by `get_worker_info`. The order
        then depends on the number of workers, and there is no `state_dict`. None (the default) is "reader" if
        the data set is an iterator and workers are processes, otherwise "none", with a warning if there are
        several workers.

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
    that can only be iterated is believed. Modelled on ``torch.utils.data.DataLoader``, with its arguments in
    their order. It collates to numpy arrays, and tuples to tuples. A data set with `set_epoch` is told each
    epoch, in workers too. Samplers of other libraries are told by `set_epoch` of the loader.

    There is a warning if there are more workers than CPUs; if an epoch has samples, but no batches; and if
    ``torch.distributed`` has several processes, and each of them shuffles and reads all samples.

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
    _default_collate_fn: Callable[[Any], Any] = staticmethod(default_collate)
    _default_convert_fn: Callable[[Any], Any] = staticmethod(default_convert)
    _worker_start: type[WorkerStart] = WorkerStart
    _no_pinning = "arrays are never pinned (tensors of seqkit.torch.DataLoader are)"

    @takes(Options)
    def __init__(self, options: Options) -> None:
        options.check()
        self._take_over(options)
        self._nodes: WeakSet[Prefetch[Any] | InTurn] = WeakSet()
        # Of views that may be gone: an error that is kept refers to another view of the same workers.
        self._engines: WeakSet[Engine] = WeakSet()
        self._is_closed = self._had_batches = False
        self._said: set[str] = set()  # the warnings that are given once
        self.failed: list[tuple[Any, str]] = []
        pipeline = self._first_pipeline()
        self._epochs = EpochCounter(pipeline)
        self._build(pipeline)
        if options.pin_memory and not self._can_pin():
            warn(
                f"'pin_memory' argument is set as true but {self._no_pinning}, then device pinned memory"
                " won't be used.",
                UserWarning,
            )
        warn_of_too_many_workers(pipeline.workers if options.method == "process" else 0)
        if pipeline.workers < options.num_workers and options.iterable_split is None:
            warn_of_one_reader(options)

    def _first_pipeline(self) -> Pipeline:
        options = self._options
        collate_fn = options.batchify_fn if options.collate_fn is None else options.collate_fn
        if collate_fn is None:
            collate_fn = self._default_collate_fn if options.is_batched else self._default_convert_fn
        split = iterable_split(options) if options.is_iterable else None
        # Workers that only transform samples do not get the data set, which may be an open stream.
        dataset = None if split == "reader" else options.dataset
        start = self._worker_start(options.worker_init_fn, dataset)
        return Pipeline(options, self._first_seed(), collate_fn, split, start)

    def _first_seed(self) -> int:
        """Return the seed that was given, or draw one."""
        return self._options.drawn_seed()

    def _build(self, pipeline: Pipeline) -> None:
        """Build the view of the items. The view to show is made when it is asked for."""
        self._pipeline = pipeline
        self._items = pipeline.items(self._epochs.sampler is not None)
        self._samples_built_for = pipeline.samples()
        self._persistent = Deferred[View[Any]]()  # the items, computed by workers that outlive an epoch
        self._view: View[Any] | None = None

    # ---------------------------------------------------------------- begin an epoch

    @hiding_frames()
    def __iter__(self) -> Iterator[Batch]:
        return self._begun_iterator()

    def _begun_iterator(self) -> Epoch:
        options, epochs = self._options, self._epochs
        self._refuse_replaced()
        if self._is_closed and options.num_workers:
            raise RuntimeError("DataLoader: the loader is closed; make a new one")
        with epochs.lock:
            before = epochs.latest, epochs.next
            epochs.refuse_second_pass()
            self._draw_seed()
            position = epochs.begin()
            items = self._items_of(position)
        self._warn_once("ranks", warn_of_ranks)
        if position.length == 0:
            self._warn_once("batches", warn_of_no_batch)
        node = None
        try:
            if options.persistent_workers:
                node = self._persistent_node()
            else:
                node = self._with_workers(items, position.epoch)
            batches = self._read(node, position)
        except BaseException:
            self._finished(node)
            epochs.take_back(before, position)
            raise
        finish = partial(self._ended, node, position)
        return Epoch(batches, position, self.failed, self._begin_again, finish)

    def _draw_seed(self) -> None:
        """Called before each epoch. The subclass for PyTorch may change the seed."""

    def _items_of(self, position: Position) -> View[Any]:
        """Return the view of the items of an epoch. It is made again only where it may have changed."""
        pipeline = self._pipeline
        has_changed = pipeline.samples() != self._samples_built_for
        if self._options.persistent_workers:
            if has_changed:
                self._renew(pipeline)  # the workers have copies of the data set as it was
            return self._items
        if position.in_view is not None or self._options.is_iterable or has_changed:
            return pipeline.items(self._epochs.sampler is not None, position.in_view)
        return self._items

    # ---------------------------------------------------------------- read it

    def _persistent_node(self) -> View[Any]:
        return self._persistent.get(lambda: self._with_workers(self._items))  # one for all threads

    def _with_workers(self, items: View[Any], epoch: int | None = None) -> View[Any]:
        """Return the view of items that workers compute. `epoch` is the only one that will be read."""
        node = self._pipeline.ahead(items, epoch)
        if isinstance(node, Workers):
            self._nodes.add(node)
        return node

    def _can_pin(self) -> bool:
        """Return whether a device can copy from page-locked memory."""
        return False

    def _read(self, node: View[Any], position: Position) -> Iterator[Any]:
        """Begin to read an epoch from a position on."""
        pipeline, start = node.at_epoch(position.epoch), position.start
        if isinstance(pipeline, Prefetch):
            self._engines.add(pipeline.engine)
        if position.keys is not None:
            keys: Iterator[Any] = position.keys
            if isinstance(node, Workers):
                keys = map(numbered, keys, count(start.batch))
            return self._iterated(pipeline, keys)
        if not isinstance(pipeline._n, Unsized):
            return self._iterated(pipeline, range(start.batch, pipeline._n))
        if start.batch == 0:
            return self._iterated(pipeline, pipeline._plan())
        return self._iterated(pipeline, range(start.batch, _WITHOUT_END))

    def _iterated(self, pipeline: View[Any], plan: Any) -> Iterator[Any]:
        if isinstance(pipeline, Prefetch):
            return restarting(pipeline.reading(plan, self._options.in_order))
        # Keys can be drawn once only. The base class reads each of them, in any view.
        read = View._iter if isinstance(plan, Iterator) else type(pipeline)._iter
        return read(pipeline, plan)

    def _ended(self, node: View[Any] | None, position: Position) -> None:
        self._finished(node)
        self._had_batches = self._had_batches or position.batch > 0
        if self._had_batches and position.ended and not position.batch and position.length != 0:
            self._warn_once("exhausted", warn_of_exhausted)

    def _finished(self, node: View[Any] | None) -> None:
        if not self._options.persistent_workers and isinstance(node, Workers):
            node.close()

    # ---------------------------------------------------------------- the number of the next epoch

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads.

        It is also set by `set_epoch` of a sampler of seqkit.
        """
        return self._epochs.number

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next `iter` reads (0 or more), also of sampler and data set.

        If that is the epoch of a state just loaded, it continues at the position of the state.
        """
        self._epochs.set(int_at_least(epoch, "DataLoader: epoch", 0))

    def _begin_again(self, iterator: Epoch, position: Position) -> None:
        """Let an iterator, before its first batch, follow an epoch that was set on the sampler since.

        The samplers of PyTorch draw an order when they are read. Lightning sets the epoch after `iter`. A
        sampler without a known order counts when it is read.
        """
        epochs = self._epochs
        epoch = epochs.set_on_sampler()
        has_order = position.order is not None or epochs.sampler is None
        if epoch is None or not has_order or epochs.latest is not position:
            return
        if epoch == position.epoch:
            epochs.count(epoch + 1)
        else:
            iterator.follow(self._begun_iterator())

    def _set_seed(self, seed: int) -> None:
        """Change the seed."""
        if seed != self.seed:
            pipeline = replace(self._pipeline, seed=seed)
            self._epochs.use(pipeline)
            self._renew(pipeline)

    def _renew(self, pipeline: Pipeline) -> None:
        """Build the view of the items again, and end the persistent workers, which have the old one."""
        if self._persistent.known and isinstance(node := self._persistent_node(), Workers):
            node.close()
        self._build(pipeline)

    # ---------------------------------------------------------------- the object

    @property
    def view(self) -> View[Any]:
        """The view that the arguments stand for. Each epoch of the loader has workers of its own.

        With a sampler whose order is not known in advance, the indices of the view are the sampler's keys.
        """
        if self._view is None:
            sampler = self._epochs.sampler
            if sampler is None or whole_order(sampler) is None:
                self._view = self._persistent_node()
            else:
                order = whole_order(sampler.sampler if self._options.makes_batches else sampler)
                self._view = self._with_workers(self._pipeline.items(True, order))
        return self._view

    def __bool__(self) -> bool:
        return True  # also without a length

    def __len__(self) -> int:
        n = self._epochs.length()
        if n is None:
            given = self._options.given_sampler
            what, source = ("data set", self.dataset) if given is None else ("sampler", given)
            raise TypeError(f"DataLoader: no length, for its {what} ({type(source).__name__}) has none")
        return n

    def __repr__(self) -> str:
        name = f"<{type(self.dataset).__name__}>"
        data = name if self._options.is_iterable else repr(as_view(self.dataset, "DataLoader"))
        return f"{type(self).__name__}({', '.join([data, *self._options.shown()])})"

    def _explained(self) -> tuple[str, list[str], View[Any]]:
        """Return what `explain` shows: this loader, its length and state, and the view that it reads."""
        n = self._pipeline.length(self._epochs.sampler)
        # Each epoch has a node of its own. One that runs shows the state of the loader.
        running = (node for node in self.nodes() if isinstance(node, Prefetch) and node.engine.is_running())
        size = f"length {n:,}" if n is not None else "no length"
        shown = ", ".join(text for text in self._options.shown() if "=" in text)
        state = ["closed"] * self._is_closed
        return f"{type(self).__name__}({shown})", [size, *state], next(running, None) or self.view

    def knows_its_order(self) -> bool:
        """Are the indices of `view` numbers of items? Otherwise they are the keys that a sampler gives."""
        return self._epochs.sampler is None or whole_order(self._epochs.sampler) is not None

    def with_workers(
        self,
        num_workers: int,
        method: str = "process",
        timeout: float = 0,
        context: str | None = None,
        dataset: Any = None,
    ) -> Self:
        """Return a loader of the same batches, not begun, that other workers compute (for `verify`).

        `dataset` has the same items. None (the default) is that of this loader.
        """
        own = {option.name: getattr(self._options, option.name) for option in fields(self._options)}
        own |= {"num_workers": num_workers, "method": method, "timeout": timeout if num_workers else 0}
        own |= {"seed": self.seed, "generator": None, "pin_memory": False}
        own |= {"persistent_workers": False, "prefetch_factor": None, "multiprocessing_context": context}
        own |= {"shm_size": own["shm_size"] if method == "process" and num_workers else None}
        given = own.pop("dataset")
        return type(self)(given if dataset is None else dataset, **own)

    def close(self) -> None:
        """End the workers, and close files that views of `sources` opened in this process.

        If there are workers, refuse further epochs. Idempotent.
        """
        self._is_closed = True
        self._close_nodes()
        for view in walk(self.dataset) if isinstance(self.dataset, View) else ():
            if isinstance(view, Opened):
                view.close()

    def nodes(self) -> list[Prefetch[Any] | InTurn]:
        """Return the views of the epochs that have workers, or had them (for `watch`)."""
        persistent = [self._persistent_node()] if self._persistent.known else []
        views = [*self._nodes, *persistent, self._view]
        return [*{id(view): view for view in views if isinstance(view, Workers)}.values()]

    def _close_nodes(self) -> None:
        for node in (*self.nodes(), *self._engines):
            node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


# Above the number of batches of any epoch. A range ends where the data set does.
_WITHOUT_END = 1 << 62
