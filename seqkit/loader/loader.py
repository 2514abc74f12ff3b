"""`DataLoader`: epochs of the pipeline that its arguments stand for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial, wraps
from itertools import chain, islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self
from weakref import WeakSet

from ..collation.base import shown
from ..core.ahead import advised
from ..core.arguments import int_at_least
from ..core.chaining import Displayed
from ..core.errors import brief
from ..core.expression import walk
from ..core.iteration import is_one_shot, restarting
from ..core.lengths import Unsized
from ..core.randomness import as_seed
from ..core.set_epoch import tell
from ..core.source import as_view
from ..core.tracebacks import hiding_frames, warn
from ..core.view import View
from ..core.worker import Opened
from ..engine.prefetch import Prefetch
from ..samplers.base import Sampler, begin_epoch, chain_of, pass_epoch, restore, state_of
from ..samplers.batches import InfiniteSampler
from ..samplers.distributed import ShardedSampler
from .advice import warn_of_no_batch, warn_of_one_reader, warn_of_ranks, warn_of_workers
from .checks import check
from .epoch import Epoch, Position, drawn
from .pipeline import BatchKind, Composed, Pipeline
from .state import Units, batch_of, check_state, keeps_dataset_state, state_at

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Batch = TypeVar("Batch", default=Any)
else:
    from typing import TypeVar

    Batch = TypeVar("Batch")

__all__ = ["DataLoader"]

# PyTorch refuses to set these, too.
_FROZEN = ("dataset", "batch_size", "sampler", "batch_sampler", "drop_last", "persistent_workers")
# The samplers of a loader are made of these.
_OF_THE_ORDER = ("shuffle", "last_batch", "seed", "generator")
# Above the number of batches of any epoch. A range ends where the data set does.
_WITHOUT_END = 1 << 62


@dataclass(eq=False, repr=False)
class DataLoader(Displayed, Generic[Batch]):
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
        lists of indices gives a list of batches.
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
        "rollover" puts its samples at the beginning of the next epoch, for data sets with indices. "pad"
        completes it with the first samples of the epoch. The calling process then reads an iterable data set.
    transform : callable, optional
        Applied to every sample, in the workers. `batch_transform` is applied to every batch.
    on_error : "raise", "skip", "replace" or callable
        What to do with a sample that fails. "raise" (the default): its batch fails. "skip" leaves the
        sample out. "replace" takes the next sample that can be read. A function is called with the
        `EvaluationError` and returns a sample. ``loader.failed`` lists what failed. A list of batches gets
        shorter if no sample of a batch is left.
    iterable_split : "none", "reader" or "workers", optional
        How to read a data set that can only be iterated. "none": one worker does. "reader": the calling
        process reads samples, and the workers, which do not get the data set, transform and collate them.
        "workers": every worker iterates the data set, which chooses its part by `get_worker_info`. The order
        then depends on the number of workers, and there is no `state_dict`. None (the default) is "reader" if
        the data set is an iterator and workers are processes, otherwise "none", with a warning if there are
        several workers.

    Attributes
    ----------
    dataset, seed, collate_fn, batch_size, prefetch_factor, sampler, batch_sampler
        As given, or the object that the loader uses instead, or None. `collate_fn` includes `transform` and
        `batch_transform`. The other arguments are attributes, too. Those that PyTorch does not freeze can be
        set, and count from the next epoch that starts workers.
    failed : list of (key, str)
        The samples that failed, with `on_error`.

    Raises
    ------
    TypeError
        If `dataset` can neither be indexed nor iterated, `shuffle` meets one without length, or an argument
        has the wrong type.
    ValueError
        If an argument is out of range, or arguments exclude each other.

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
    batch_size: int | None = 1
    shuffle: bool | None = None
    sampler: Any = None
    batch_sampler: Any = None
    num_workers: int = 0
    collate_fn: Callable[[Any], Any] | None = None
    pin_memory: bool = False
    drop_last: bool = False
    timeout: float = 0
    worker_init_fn: Callable[..., Any] | None = None
    multiprocessing_context: Any = None
    generator: Any = None
    _: KW_ONLY
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    pin_memory_device: str = ""
    in_order: bool = True
    method: Literal["process", "thread"] = "process"
    shm_size: int | None = None
    seed: int | None = None
    last_batch: Literal["keep", "discard", "rollover", "pad"] | None = None
    transform: Callable[[Any], Any] | None = None
    batch_transform: Callable[[Any], Any] | None = None
    batchify_fn: Callable[[Any], Any] | None = None
    on_error: str | Callable[[Any], Any] = "raise"
    iterable_split: Literal["none", "reader", "workers"] | None = None

    _kind = BatchKind()  # the subclass for PyTorch has another one

    # ---------------------------------------------------------------- arguments

    def __set_up(self) -> None:
        self.failed: list[tuple[Any, str]] = []
        self.__counter = Sampler()  # has the number of the next epoch
        # Where a state goes on: an epoch, a batch, and a checksum of the keys before it.
        self.__start: tuple[int, int, int | None] = 0, 0, None
        self.__pipeline: Pipeline
        self.__foreign_epoch: int | None = None  # that a sampler of another library was told last
        self.__is_closed = self.__is_seeded = False
        self.__warned: set[str] = set()
        self.__forget_workers()
        self.__use({field.name: getattr(self, field.name) for field in fields(self)})
        if self.pin_memory and self._kind.pinner is None:
            warn(
                f"'pin_memory' argument is set as true but {self._kind.no_pinning}, then device pinned memory"
                " won't be used.",
                UserWarning,
            )
        workers = self.__pipeline.workers
        warn_of_workers(workers if self.method == "process" else 0)
        if workers < self.num_workers and self.iterable_split is None:
            warn_of_one_reader(self.dataset, self.num_workers)

    def __forget_workers(self) -> None:
        """Begin without workers."""
        self.__lock = threading.RLock()
        self.__nodes: WeakSet[Prefetch[Any]] = WeakSet()
        self.__persistent: View[Any] | None = None  # the items, computed by workers that outlive an epoch
        self.__shown: tuple[int, View[Any]] | None = None  # the epoch and the view that were shown last
        self.__latest: Position | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        pipeline = vars(self).get("_DataLoader__pipeline")
        if pipeline is None or name not in vars(pipeline.options):
            super().__setattr__(name, value)
            return
        with hiding_frames():
            if name in _FROZEN:
                raise ValueError(
                    f"{type(self).__name__}: {name} attribute should not be set after DataLoader is"
                    " initialized"
                )
            if name != "collate_fn":
                self.__use({**vars(pipeline.options), name: value}, is_same=name not in _OF_THE_ORDER)
            elif value is not self.collate_fn:
                value = value.collate_fn if isinstance(value, Composed) else value
                self.__use({**vars(pipeline.options), name: value, "batchify_fn": None}, is_same=True)

    def __use(self, given: dict[str, Any], is_same: bool = False) -> None:
        """Use these arguments from the next epoch that starts workers on."""
        defaults = {field.name: field.default for field in fields(self)[1:]}
        options: Any = SimpleNamespace(**check(given, defaults))
        epoch = self.__counter.epoch
        if is_same:
            before = self.__pipeline
            pipeline = Pipeline(options, self._kind, before.seed, (before.sampler, before.batch_sampler))
        else:
            given = options.generator if options.seed is None else options.seed
            seed = self._kind.seed() if given is None else as_seed(given, "DataLoader: seed")
            pipeline = Pipeline(options, self._kind, seed)
        outer = pipeline.sampler if pipeline.batch_sampler is None else pipeline.batch_sampler
        samplers = [one for one in chain_of(outer) if isinstance(one, Sampler)]
        self.__is_endless = any(isinstance(one, InfiniteSampler) for one in samplers)
        if samplers and not self.__is_endless:
            self.__counter = outer if samplers[-1] is chain_of(outer)[-1] else samplers[-1]
            if "_DataLoader__pipeline" in vars(self):
                self.__count(epoch)
        self.__pipeline, self.__shown = pipeline, None
        vars(self).update(
            vars(options),
            batch_size=pipeline.size,
            sampler=pipeline.sampler,
            batch_sampler=pipeline.batch_sampler,
            collate_fn=pipeline.composed(),
            prefetch_factor=pipeline.ahead_per_worker if options.num_workers else None,
            seed=pipeline.seed,
        )

    # ---------------------------------------------------------------- the number of the epoch

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next iterator reads. A sampler of seqkit has the same number."""
        return self.__counter.epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next iterator reads (0 or more), also of sampler and data set.

        If that is the epoch of a state just loaded, it continues at the position of the state.
        """
        epoch = int_at_least(epoch, "DataLoader: epoch", 0)
        with self.__lock:
            self.__latest = None
            self.__go_to(epoch, epoch)

    def __go_to(self, epoch: int, foreign_epoch: int | None, sampler: Any = None) -> None:
        """Set the number of the epoch, also of the data set, and put the sampler to a state.

        `foreign_epoch` is the number for samplers of other libraries. None leaves theirs as it is.
        """
        if foreign_epoch is not None and self.__pipeline.has_sampler:
            pass_epoch(self.__pipeline.keys, foreign_epoch)
        self.__foreign_epoch = foreign_epoch
        restore(self.__pipeline.given_sampler, sampler)
        self.__count(epoch)
        tell(self.__pipeline.listeners(), epoch, again=True)

    def __count(self, epoch: int) -> None:
        """Set the number of the epoch, also of samplers of seqkit."""
        inner = getattr(self.__counter, "sampler", self.__counter)
        # Samplers of other libraries keep the number that the caller, or a state, has set.
        if isinstance(inner, Sampler):
            self.__counter.set_epoch(epoch)
        else:
            Sampler.set_epoch(self.__counter, epoch)

    def __upcoming(self) -> Position:
        """Return the position at which the next iterator begins."""
        pipeline, epoch = self.__pipeline, self.__counter.epoch
        tell(pipeline.listeners(), epoch)  # the length of a data set may depend on the epoch
        batch = self.__start[1] if self.__start[0] == epoch else 0
        length = None if pipeline.split else pipeline.length(epoch)
        return Position(epoch, Units(pipeline).base(), batch, length, state_of(pipeline.given_sampler))

    def __current(self) -> Position:
        """Return the position of the latest iterator, or of the next one if that is at its end."""
        latest = self.__latest
        return self.__upcoming() if latest is None or latest.is_over() else latest

    # ---------------------------------------------------------------- an epoch

    def __iter__(self) -> Iterator[Batch]:
        return Epoch(self.__begin, self.__upcoming, self.failed)

    def __begin(self) -> tuple[Iterator[Any], Position, Callable[[], None]]:
        with self.__lock:
            self.__check_can_begin()
            self.__rewind_endless()
            self.__draw_seed()
            pipeline, position, node = self.__pipeline, self.__upcoming(), None
            options = pipeline.options
            if pipeline.split and options.method == "thread" and isinstance(options.dataset, Iterator):
                self.__close_nodes()  # threads of an earlier epoch would take items of this one
            try:
                keys = self.__keys(position)
                node = self.__node(position.epoch, keys is not None)
                batches = self.__read(node, position, keys)
            except BaseException:
                self.__finished(node)
                self.__count(position.epoch)
                raise
            if self.__counter.epoch == position.epoch:  # nobody has iterated the sampler
                self.__count(position.epoch + 1)
            self.__latest, self.__start = position, (0, 0, None)
        if self.shuffle and "ranks" not in self.__warned and warn_of_ranks(self.dataset):
            self.__warned.add("ranks")
        return batches, position, partial(self.__ended, node, pipeline, position)

    def __check_can_begin(self) -> None:
        """Refuse an epoch of a closed loader, and a second one over an iterator."""
        pipeline = self.__pipeline
        if self.__is_closed and self.num_workers:
            raise RuntimeError("DataLoader: the loader is closed; make a new one")
        source = self.dataset if pipeline.split else pipeline.innermost
        if self.__latest is not None and is_one_shot(source):
            raise RuntimeError(
                f"DataLoader: the {'data set' if pipeline.split else 'sampler'} is an iterator"
                f" ({type(source).__name__}), which gives one epoch only; pass something that can be iterated"
                " again"
            )

    def __rewind_endless(self) -> None:
        """Put a sampler without end where it would be if workers had not read ahead."""
        pipeline, latest = self.__pipeline, self.__latest
        if self.__is_endless and latest is not None:
            restore(pipeline.given_sampler, latest.sampler)
            deque(islice(begin_epoch(pipeline.keys, latest.epoch), latest.batch), maxlen=0)

    def __draw_seed(self) -> None:
        """Draw a number as PyTorch does, if it shuffles or a sampler of another library does."""
        pipeline = self.__pipeline
        options = pipeline.options
        if options.seed is options.generator is None and (options.shuffle or pipeline.is_foreign):
            number = self._kind.draw()
            if number is not None and not self.__is_seeded:
                self.__reseed(number)

    def __reseed(self, seed: int) -> None:
        self.__is_seeded = True
        if seed != self.seed:
            self.__close_nodes()
            vars(self)["seed"] = self.__pipeline.seed = seed
            if self.shuffle:
                self.sampler.seed = seed

    def __keys(self, position: Position) -> Iterator[Any] | None:
        """Begin to draw the keys of an epoch. Returns None if the view of the items has them."""
        pipeline, order = self.__pipeline, self.__pipeline.order(position.epoch)
        if pipeline.keys is None or pipeline.last == "rollover":
            return None
        if order is not None:
            # Workers that outlive an epoch do not see a sampler change. A single sample is seeded by its key.
            sends_keys = self.persistent_workers or (pipeline.workers and not pipeline.is_batched)
            rest = map(pipeline.as_key, iter(order[position.batch :]))
            return drawn(rest, position.batch, deque()) if sends_keys else None
        crcs = position.crcs = deque([0] * Units(pipeline).is_checked)
        keys = drawn(map(pipeline.as_key, begin_epoch(pipeline.keys, position.epoch)), 0, crcs)
        for _ in islice(keys, position.batch):
            position.skip()
        saved = self.__start[2] if position.batch else None
        if crcs and saved not in (None, crcs[0]):
            raise ValueError(
                "DataLoader: the sampler gives other indices than it gave before the state was saved, so"
                " samples would come twice or be missed. Use a sampler whose order follows from seed and"
                " epoch, such as those of seqkit.samplers, or call set_epoch to begin an epoch"
            )
        first: Iterator[Any]
        try:
            first = iter(list(islice(keys, 1)))  # a sampler may count the epoch at its first key
        except Exception as error:
            first = map(_raise, [error])
        return chain(first, keys)

    def __node(self, epoch: int, by_keys: bool) -> View[Any]:
        """Return the view of the items, computed ahead by workers."""
        if not self.persistent_workers:
            return self.__kept(self.__pipeline.ahead(self.__pipeline.items(epoch, by_keys), epoch))
        if self.__persistent is None:
            self.__persistent = self.__kept(self.__pipeline.ahead(self.__pipeline.items(epoch, by_keys)))
        return self.__persistent

    def __kept(self, view: View[Any]) -> View[Any]:
        """Return a view after noting its workers, to end them."""
        self.__nodes.update(self.__pipeline.nodes(view))
        return view

    def __read(self, node: View[Any], position: Position, keys: Iterator[Any] | None) -> Iterator[Any]:
        """Begin to read an epoch from a position on."""
        pipeline = self.__pipeline
        plan: Any = keys
        if pipeline.last == "rollover":
            view, plan = node, pipeline.batches(position.epoch)[position.batch :]
        else:
            view = self.__kept(node.at_epoch(position.epoch))
            if keys is None and isinstance(view._n, Unsized):
                plan = range(position.batch, _WITHOUT_END) if position.batch else view._plan()
            elif keys is None:
                plan = range(position.batch, int(view._n))
        if isinstance(view, Prefetch):
            batches = restarting(view.reading(plan, self.in_order))
        else:
            # Keys can be drawn once only. The base class reads each of them, in any view.
            batches = advised(view, plan) if keys is None else View._iter(view, plan)
        is_pinned = self.pin_memory and self._kind.pinner is not None
        return map(self._kind.pin, batches) if is_pinned else batches

    def __ended(self, node: View[Any], pipeline: Pipeline, position: Position) -> None:
        self.__finished(node)
        if position.batch:
            self.__warned.add("batches")
        elif pipeline.last != "rollover" and "none" not in self.__warned:
            size = getattr(pipeline.batch_sampler, "batch_size", None)
            if warn_of_no_batch(pipeline.innermost, size, "batches" in self.__warned):
                self.__warned.add("none")

    def __finished(self, node: View[Any] | None) -> None:
        if node is not None and not self.persistent_workers:
            for one in self.__pipeline.nodes(node):
                one.close()

    # ---------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """Return how much of an epoch the latest iterator has delivered, as a small dict for JSON.

        After the last batch it is the beginning of the next epoch. A loader of the same data set and
        arguments continues there, with any number of workers; see `load_state_dict`.

        Raises
        ------
        RuntimeError
            If no position is known: with ``in_order=False``, and with ``iterable_split="workers"``.
        """
        if not self.in_order:
            raise RuntimeError("DataLoader: with in_order=False no position says which batches were read")
        if self.__pipeline.split == "workers":
            raise RuntimeError(
                "DataLoader: with iterable_split='workers' there is no state_dict, because no position says"
                " what each worker read. Use 'reader' or 'none'"
            )
        position = self.__current()
        if position is not self.__latest and position.batch and self.__start[2] is not None:
            position.crcs.append(self.__start[2])
        return state_at(self.__pipeline, position, self.__foreign_epoch)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iterator begin with the batch that came next when `state_dict` was called.

        The cost does not grow with the position, except for samplers without a known order and for data
        sets that can only be iterated: as many keys or samples are drawn as were read. Samples that were
        read before are neither transformed nor collated. Without workers, an indexable data set with
        `state_dict` and `load_state_dict` gets its state back. The number of workers and the method may be
        others, and the number of processes of a `DistributedSampler`, too.

        Parameters
        ----------
        state : dict
            From `state_dict` of a loader of the same data set, order and sampler.

        Raises
        ------
        TypeError
            If `state` is not such a dict.
        ValueError
            If it is of another seed. In the middle of an epoch also if it is of another order of data set or
            sampler, as far as the order is known in advance, or of another batch size. Other samplers are
            checked when the next iterator begins.
        """
        with self.__lock:
            check_state(state, self.__pipeline)
            pipeline, seed = self.__pipeline, self.__pipeline.seed
            before = self.epoch, self.__foreign_epoch, state_of(pipeline.given_sampler)
            try:
                self.__reseed(state.get("seed", seed))
                self.__go_to(state["epoch"], state.get("sampler_epoch"), state.get("sampler"))
                batch = self.__batch_of(state) if state["delivered"] else 0
            except ValueError:
                self.__reseed(seed)
                self.__go_to(*before)
                raise
            self.__latest, self.__start = None, (state["epoch"], batch, state.get("keys"))
            if "dataset" in state and keeps_dataset_state(self.__pipeline.options):
                self.dataset.load_state_dict(state["dataset"])

    def __batch_of(self, state: dict[str, Any]) -> int:
        """Return the batch that comes next in the middle of an epoch."""
        return batch_of(state, self.__pipeline, self.__upcoming().length)

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in vars(self).keys() - _OF_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__forget_workers()

    # ---------------------------------------------------------------- the object

    @property
    def view(self) -> View[Any]:
        """The view that the next iterator reads, with workers of its own.

        With a sampler whose order is not known in advance, the indices of the view are the sampler's keys.
        """
        pipeline, epoch = self.__pipeline, self.epoch
        if self.__shown is None or self.__shown[0] != epoch:
            if pipeline.last == "rollover":
                view = pipeline.ahead(pipeline.items(epoch)._take(pipeline.batches(epoch)))
            elif pipeline.keys is None:
                view = self.__node(epoch, False).at_epoch(epoch)
            else:
                view = pipeline.ahead(pipeline.items(epoch)).at_epoch(epoch)
            self.__shown = epoch, self.__kept(view)
        return self.__shown[1]

    def __bool__(self) -> bool:
        return True  # also without a length

    def __len__(self) -> int:
        latest, pipeline = self.__latest, self.__pipeline
        n = (
            pipeline.length(self.epoch)
            if latest is None or latest.is_over() or pipeline.split
            else latest.length
        )
        if n is None:
            what = "sampler" if pipeline.has_sampler else "data set"
            source = pipeline.keys if pipeline.has_sampler else self.dataset
            raise TypeError(f"DataLoader: no length, for its {what} ({type(source).__name__}) has none")
        return n

    def __repr__(self) -> str:
        data = f"<{type(self.dataset).__name__}>"
        data = data if self.__pipeline.split else repr(as_view(self.dataset, "DataLoader"))
        base = Units(self.__pipeline).base()
        rest = f", dealt anew after {base} of the epoch" * (base > 0)
        defaults = {field.name: field.default for field in fields(self)[1:]}
        given = shown(defaults, {name: getattr(self.__pipeline.options, name) for name in defaults})
        return f"{type(self).__name__}({', '.join([data, *given])}){rest}"

    def knows_its_order(self) -> bool:
        """Are the indices of `view` numbers of items? Otherwise they are the keys that a sampler gives."""
        return self.__pipeline.keys is None or self.__pipeline.order(self.epoch) is not None

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
        own = vars(self.__pipeline.options) | {"num_workers": num_workers, "method": method}
        own |= {"timeout": timeout if num_workers else 0, "multiprocessing_context": context}
        own |= {"shm_size": own["shm_size"] if method == "process" and num_workers else None}
        own |= {"seed": self.seed, "generator": None, "prefetch_factor": None}
        own |= {"pin_memory": False, "persistent_workers": False}
        return type(self)(**own | ({} if dataset is None else {"dataset": dataset}))

    def of_process(self, rank: int, world: int) -> Self:
        """Return the loader of another process, of so many, in this epoch, without workers (for `trace`)."""
        copy = self.with_workers(0)
        own = vars(copy.__pipeline.options)
        name = "sampler" if own["batch_sampler"] is None else "batch_sampler"
        if not isinstance(share := own[name], ShardedSampler):
            raise ValueError(
                "trace: world needs a loader over a DistributedSampler or a ShardedSampler, got"
                f" {name}={brief(share)}"
            )
        own[name] = share.of_process(rank, world)
        if name == "sampler" and own["batch_size"] is not None:
            own["batch_size"] = own["batch_size"] * share.num_replicas // world
        found = type(self)(**own)
        found.set_epoch(self.epoch)
        return found

    def nodes(self) -> list[Prefetch[Any]]:
        """Return the views of the epochs that have workers, or had them (for `watch`)."""
        return [*{id(node.engine): node for node in self.__nodes}.values()]  # epochs may share workers

    def close(self) -> None:
        """End the workers, and close the files that the data set opened in this process. Idempotent.

        If there are workers, refuse further epochs.
        """
        self.__is_closed = True
        self.__close_nodes()
        for view in walk(self.dataset) if isinstance(self.dataset, View) else ():
            if isinstance(view, Opened):
                view.close()

    def __close_nodes(self) -> None:
        self.__persistent = self.__shown = None
        for node in self.nodes():
            node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _raise(error: Exception) -> NoReturn:
    raise error


def _constructor(generated: Any) -> Any:
    """Return the constructor of a dataclass, followed by the rest of the construction.

    It is no `__post_init__`, because errors and warnings would point at generated code.
    """

    @hiding_frames()
    @wraps(generated)
    def construct(self: Any, *arguments: Any, **options: Any) -> None:
        generated(self, *arguments, **options)
        self._DataLoader__set_up()

    return construct


DataLoader.__init__ = _constructor(DataLoader.__init__)  # type: ignore[method-assign]

_OF_PROCESS = {f"_DataLoader__{name}" for name in ("lock", "nodes", "persistent", "shown", "latest")}
