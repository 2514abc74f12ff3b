"""`DataLoader`: epochs of the pipeline that its arguments stand for."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from types import GenericAlias
from typing import Any, Literal, Self, cast
from weakref import WeakSet

from ..checks import positive_int
from ..frames import hides_frames
from ..indices import Unsized
from ..iteration import restarting
from ..prefetch import Prefetch
from ..source import as_view
from ..view import View
from .arguments import shown
from .epoch import Epoch, Position
from .fetch import refuse_second_epoch
from .pipeline import Pipeline
from .samplers import pass_epoch
from .state import check_state, load_sampler_state, sampler_state
from .stream import stream, stream_length
from .tolerance import OnError

__all__ = ["DataLoader"]


class DataLoader(Pipeline):
    """Batches of a data set, in a fresh order every epoch, computed ahead by workers.

    A facade: it lays views over the data set and keeps the result as ``loader.view``. Every `iter` is one
    epoch of that view.

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
    ``sampler``, ``batch_sampler``, rollover    the plan of a view of ``collate_fn`` of the items at keys
    ``num_workers``, ``method``, ``shm_size``   ``prefetch(…, num_workers, method, shm_size=…, seed=…)``
    ``prefetch_factor``                         ``prefetch(…, max_buffered=prefetch_factor * num_workers)``
    ``worker_init_fn``, ``timeout``, …          ``prefetch(…, start_hook=…, timeout=…, context=…)``
    every `iter`                                ``iter(loader.view.at_epoch(loader.epoch))``
    ==========================================  =========================================================

    Parameters
    ----------
    dataset : View, indexable or iterable
        Anything with ``[i]``; with ``len`` unless a sampler says what to read. What can only be iterated is
        read by one worker, every item once.
    batch_size : int or None
        Samples per batch, at least 1. None: no batches, single samples (or whatever ``dataset[keys]``
        gives for lists of keys of a sampler).
    shuffle : bool, optional
        Read in random order, another one every epoch.
    sampler : iterable, optional
        Of indices or keys of the data set, in place of `shuffle`. Iterated anew every epoch and lazily: it
        may be endless. Workers make it run ahead of the reader.
    batch_sampler : iterable, optional
        Of lists of indices or keys, in place of `batch_size`, `shuffle`, `sampler` and `drop_last`. A list of
        lists of indices gives a list of batches.
    num_workers : int
        At least 0. 0 (the default) computes in the reading thread.
    collate_fn : callable, optional
        Makes the batch of a list of samples; `default_collate` by default. Without batches it is called
        with the single sample, and `default_convert` is the default. `batchify_fn` is another name for it.
    pin_memory, pin_memory_device : bool, str
        For `seqkit.torch.DataLoader`; here there is a warning at every `iter`.
    drop_last : bool
        Leave out a last batch of fewer samples.
    timeout : float
        Seconds a batch may take, at least 0; then it fails with `ItemTimeout`. 0 (the default) is no limit.
        Needs workers.
    worker_init_fn : callable, optional
        Called with the number of the worker in each one, before its first sample.
    multiprocessing_context : str or context, optional
        How processes start: "fork", "forkserver", "spawn", or a context of `multiprocessing`. Needs workers.
    generator : int, SeedSequence, Generator of numpy or torch, optional
        What to draw `seed` from, once, when the loader is made.
    prefetch_factor : int, optional
        Batches ahead per worker, at least 1. None (the default) is 2. Needs workers.
    persistent_workers : bool
        True: one set of workers from the first epoch to `close`, which see the data set as it was when they
        started. False (the default): new ones every epoch. Needs workers.
    in_order : bool
        False: batches come as they are ready.
    method : "process" or "thread"
        What the workers are.
    shm_size : int, optional
        Shared memory for the results of process workers, in bytes; see `prefetch`.
    seed : int, optional
        At least 0, for `shuffle` and the workers. None (the default) draws one, once.
    last_batch : "keep", "discard", "rollover" or "pad", optional
        What becomes of a last batch of fewer samples: it comes as it is (the default), is left out, begins
        the next epoch, or is completed with samples from the beginning of the epoch.
    transform : callable, optional
        Applied to every sample, `batch_transform` to every batch; both in the workers.
    on_error : "raise", "skip", "replace" or callable
        What becomes of a sample that fails: its batch fails (the default), it is left out, the next sample
        that can be read takes its place, or what the function returns for the `EvaluationError`. What
        failed stands in ``loader.failed``.

    Raises
    ------
    TypeError
        If `dataset` can neither be indexed nor iterated, `shuffle` meets one without length, or an argument
        is of a wrong type.
    ValueError
        If an argument is out of range, or arguments exclude each other.

    Notes
    -----
    Batches are the same bit by bit for any number of workers, either method, persistent or not. Arguments
    cannot be changed later. `len` needs that of the data set or sampler, and is exact. After
    ``torch.utils.data.DataLoader``, whose arguments these are in their order; it collates to numpy arrays,
    and tuples to tuples. More workers than CPUs, or than memory for them, are warned of.

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

    __class_getitem__: Any = classmethod(GenericAlias)  # in annotations: DataLoader[Picture]

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
    ) -> None:
        super().__init__({name: value for name, value in locals().items() if name in _ARGUMENTS})
        self._epoch, self._start = 0, 0
        self._latest: Position | None = None
        self._keys: Iterable[Any] = ()
        self._nodes: WeakSet[Prefetch[Any]] = WeakSet()
        self._closed = self._begun = False
        self.failed: list[tuple[Any, str]] = []

    # ---------------------------------------------------------------- reading

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` read epoch number `epoch`, at least 0; samplers with a ``set_epoch`` too.

        Where that is the epoch of a state just loaded, it goes on at the state's place.
        """
        epoch = positive_int(epoch, "DataLoader: epoch", least=0)
        if epoch != self._epoch:
            self._epoch, self._start = epoch, 0  # else a loaded state's place in it stays
        self._latest = None
        pass_epoch(self.sampler if self.batch_sampler is None else self.batch_sampler, epoch)

    @hides_frames
    def __iter__(self) -> Iterator[Any]:
        if self._closed and self.num_workers:
            raise RuntimeError("DataLoader: the loader is closed; make a new one")
        if self.pin_memory and not self._can_pin():
            warnings.warn(
                f"DataLoader: 'pin_memory' argument is set as true but {self._unpinned}: batches stay"
                " in ordinary memory",
                UserWarning,
                stacklevel=2,
            )
        self._check_streams()
        self._follow()
        number, start = self._epoch, self._start
        self._carry_over_again()
        before = sampler_state(self._given_sampler())
        node = self._node()
        length = self._length()
        try:
            items, is_at_item = self._items_from(node.at_epoch(number), start)
        except BaseException:  # it has not begun
            load_sampler_state(self._given_sampler(), before)
            raise
        self._before = before
        self._epoch, self._start = number + 1, 0
        self._latest = Position(number, start, length)
        return Epoch(items, self._latest, self.failed, partial(self._finished, node), is_at_item)

    def _carry_over_again(self) -> None:
        """Take back what the sampler carried over in an epoch that was abandoned, in which it ran ahead."""
        latest = self._latest
        if self._last_batch == "rollover" and latest is not None and not latest.is_over():
            sampler = self._given_sampler()
            sampler.load_state_dict({**sampler.state_dict(), "carried": self._before["carried"]})

    def _follow(self) -> None:
        """Lay the views anew over a data set that has grown or shrunk, unless workers have it as it was."""
        if not self.persistent_workers and self._data_size() != self._size:
            self._size = self._data_size()
            self.__dict__["view"] = self._ahead(self._items())

    def _check_streams(self) -> None:
        if isinstance(self.dataset, Iterator) and self._is_stream:
            if self._begun:
                refuse_second_epoch("data set", self.dataset)
            self._begun = True

    def _can_pin(self) -> bool:
        """Is there a device that could copy from page-locked memory?"""
        return False

    def _node(self) -> View[Any]:
        """Return the pipeline to read an epoch from: with workers that last, or of its own."""
        if not isinstance(self.view, Prefetch):
            return self._items() if self._is_stream else self.view
        if self.persistent_workers:
            return self.view
        node = cast(Prefetch[Any], self.view._rebuild(self.view._sources))
        self._nodes.add(node)
        return node

    def _finished(self, node: View[Any]) -> None:
        if node is not self.view and isinstance(node, Prefetch):
            node.close()

    def _items_from(self, pipeline: View[Any], start: int) -> tuple[Iterator[Any], Callable[[], bool]]:
        """Return the batches from one on, and what says whether the last error was a batch's own."""
        if self._reads is not None:
            keys = self._keys = self._reads.epoch(start)
            items, is_at_item = self._iterated(pipeline, keys)
            return chain(items, keys.failure()), lambda: is_at_item() and not keys.has_failed
        if isinstance(pipeline._n, Unsized):
            items, is_at_item = self._iterated(pipeline, pipeline._plan())
            rest = _Rest(items, start, is_at_item)
            return rest, rest.is_at_item
        return self._iterated(pipeline, range(start, pipeline._n))

    def _iterated(self, pipeline: View[Any], plan: Any) -> tuple[Iterator[Any], Callable[[], bool]]:
        if isinstance(pipeline, Prefetch):
            reading = pipeline.reading(plan, self.in_order)
            return restarting(reading), reading.is_at_item
        return pipeline._iter(plan), lambda: True

    def __len__(self) -> int:
        latest = self._latest
        if self._last_batch == "rollover" and latest is not None and not latest.is_over():
            return cast(int, latest.length)
        return self._measured()

    def _length(self) -> int | None:
        try:
            return self._measured()
        except TypeError:
            return None

    def _measured(self) -> int:
        self._follow()
        if self._reads is not None:
            return len(self._reads)
        if self._is_stream:
            return stream_length(self.dataset, self.batch_size, self._last_batch)
        return len(self.view)

    # ---------------------------------------------------------------- where the reader is

    def state_dict(self) -> dict[str, Any]:
        """Return where the reader of the latest iterator is, as a small dict for JSON.

        It says which batch comes next: after the last one, the first of the next epoch. A loader of the same
        data set and arguments, with whatever workers, goes on there; see `load_state_dict`.

        Raises
        ------
        RuntimeError
            With ``in_order=False``, where no position says what has been read.
        """
        if not self.in_order:
            raise RuntimeError("DataLoader: with in_order=False no position says which batches were read")
        state: dict[str, Any] = {"version": 1, **self._position(), "seed": self.seed}
        state["batch_size"] = self.batch_size
        return state

    def _position(self) -> dict[str, Any]:
        latest = self._latest
        if latest is None:
            return {
                "epoch": self._epoch,
                "batch": self._start,
                "sampler": sampler_state(self._given_sampler()),
            }
        if latest.is_over():
            for _ in self._keys:  # there are none, but the sampler is to know that its epoch is over
                pass
            return {"epoch": latest.epoch + 1, "batch": 0, "sampler": sampler_state(self._given_sampler())}
        return {"epoch": latest.epoch, "batch": latest.batch, "sampler": self._before}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next `iter` begin with the batch that was next when `state_dict` was called.

        Costs nothing that grows with the position, but for samplers of others, from which as many keys are
        drawn as were read, and data sets that can only be iterated. The number of workers and the method may
        be others.

        Parameters
        ----------
        state : dict
            From `state_dict` of a loader of the same data set, batch size, order and sampler.

        Raises
        ------
        TypeError
            If `state` is no such dict.
        ValueError
            If it speaks for another seed or batch size.
        """
        drawn = self._given["seed"] is None and self._given["generator"] is None
        check_state(state, self.batch_size, None if drawn else self.seed)
        if state["seed"] != self.seed:
            self._close_nodes()
            self.__dict__["seed"] = state["seed"]
            self.__dict__["sampler"], self.__dict__["batch_sampler"] = self._samplers()
            self._reads = self._key_source()
            self.__dict__["view"] = self._ahead(self._items())
        length = self._length()
        if length is not None and self._last_batch != "rollover" and state["batch"] > length:
            raise ValueError(
                f"DataLoader: the state is behind batch {state['batch']}, of which an epoch of this loader"
                f" has {length}"
            )
        self._begin_at(state)

    def _begin_at(self, position: dict[str, Any]) -> None:
        self._epoch, self._start, self._latest = position["epoch"], position["batch"], None
        load_sampler_state(self._given_sampler(), position["sampler"])

    # ---------------------------------------------------------------- the object

    def __repr__(self) -> str:
        data = repr(stream(self.dataset) if self._is_stream else as_view(self.dataset, "DataLoader"))
        return f"{type(self).__name__}({', '.join([data, *shown(DataLoader, self._given)])})"

    def __setattr__(self, name: str, value: Any) -> None:
        if "view" in self.__dict__ and (name in self._given or name == "view"):
            raise ValueError(
                f"DataLoader: {name} attribute should not be set after DataLoader is initialized"
            )
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_nodes": None, "_keys": (), "_latest": None}
        return {**self.__dict__, **left_out, "_position": self._position()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        position = state.pop("_position")
        self.__dict__.update(state)
        self._nodes = WeakSet()
        self._begin_at(position)

    def close(self) -> None:
        """End the workers, and refuse further epochs if there are any; idempotent."""
        self._closed = True
        self._close_nodes()

    def _close_nodes(self) -> None:
        for node in [*self._nodes, self.view]:
            if isinstance(node, Prefetch):
                node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Rest(Iterator[Any]):
    """What is left of an iteration whose first `count` items were read before: they are drawn in vain.

    For where there is no length, nobody knows how to begin behind them. The error of an item there is passed
    over, too; but not if it is the end.
    """

    def __init__(self, items: Iterator[Any], count: int, is_at_item: Callable[[], bool]) -> None:
        self._items = items
        self._left = count
        self._is_at_drawn = is_at_item
        self._is_through = False
        self._failed: Exception | None = None
        self._is_over = False

    def is_at_item(self) -> bool:
        """Is what was raised last about an item of the rest?"""
        return self._is_through and (self._is_over or self._is_at_drawn())

    def __next__(self) -> Any:
        while self._left:
            self._left -= 1
            self._pass_over()
        self._is_through = True
        failed, self._failed = self._failed, None
        try:
            return next(self._items)
        except StopIteration:
            if failed is None:
                raise
        self._is_over = True
        raise failed

    def _pass_over(self) -> None:
        try:
            next(self._items)
            self._failed = None
        except StopIteration:
            self._left = 0
        except Exception as error:
            if not self._is_at_drawn():
                raise
            self._failed = error


_ARGUMENTS = tuple(inspect.signature(DataLoader).parameters)
