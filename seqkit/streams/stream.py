"""`Stream`: lazy transforms of iterables, begun anew by every `iter`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Generic

import numpy as np

from ..core.arguments import as_bool, check_callable, int_at_least, positive_int, refuse_async, refuse_set
from ..core.errors import EndOfSequence, EvaluationError
from ..core.expression import name_of, walk
from ..core.indices import Endless, Plan, each
from ..core.iteration import Progress, is_one_shot, restarting
from ..core.lengths import UNKNOWN, is_measured
from ..core.randomness import as_seed, digest, node_key
from ..core.set_epoch import listeners
from ..core.view import T, U, View, in_order
from ..views.bases.order_digest import order_digest
from ..views.smap import Smap

__all__ = ["Stream", "shuffle_buffer"]


class Stream(Generic[T]):
    """A lazy sequence without an index or a length. Every `iter` is a new pass.

    Parameters
    ----------
    source : iterable or callable
        An iterable that gives its items anew each time, or a function that returns one, such as a generator
        function. An iterator can be passed too, but only for one pass: the second one raises RuntimeError.

    Raises
    ------
    TypeError
        If `source` is neither.

    Notes
    -----
    `iter` begins the pass of the source at once, so that a source which reads ahead can begin. An error of a
    function costs one item, and the next call of `next` goes on after it. An error of the source ends the
    pass, unless its iterator goes on by itself, as those of views do. `batch` and `shuffle_buffer` hold
    several items. So a source that fills one array again for each item must yield copies. For an index, use
    `uniter`. For a worker that reads ahead, use ``prefetch(uniter(stream), 1)``. Modelled on Gluon's
    ``DataStream``.

    Examples
    --------
    >>> numbers = Stream(range(10)).filter(lambda x: x % 2).smap(lambda x: x * x)
    >>> list(numbers), list(numbers.batch(2))
    ([1, 9, 25, 49, 81], [[1, 9], [25, 49], [81]])
    """

    _step = ""  # what this stream does with the items of its source, for `repr`

    def __init__(self, source: Iterable[T] | Callable[[], Iterable[T]]) -> None:
        if isinstance(source, type) or not (isinstance(source, Iterable) or callable(source)):
            raise TypeError(
                f"Stream: source must be an iterable, or a function that returns one, got {source!r}"
            )
        refuse_async(source, "Stream: source")
        refuse_set(source, "Stream: source")
        self._source = source
        self._is_spent = False
        self._epoch: int | None = None

    def __iter__(self) -> Iterator[T]:
        return self._begin()

    def _begin(self) -> Iterator[Any]:
        """Begin a pass over the items of the source."""
        source = self._source
        if isinstance(source, View) and self._epoch is not None:
            source = source.at_epoch(self._epoch)
        if not isinstance(source, Iterable):
            return in_order(source())
        if is_one_shot(source):
            if self._is_spent:
                raise RuntimeError(
                    "Stream: the source is an iterator, which an earlier pass has read. Pass a list, or a"
                    " function that returns a new iterator"
                )
            self._is_spent = True
        return in_order(source)

    def smap(self, f: Callable[[T], U]) -> Stream[U]:
        """Return a stream of ``f(item)`` for each item.

        Raises
        ------
        TypeError
            If `f` is not callable.

        Examples
        --------
        >>> list(Stream("ab").smap(str.upper))
        ['A', 'B']
        """
        check_callable(f, "smap: f")
        return Stream(Smap(f, _ByNumber(self)))

    def filter(self, predicate: Callable[[T], Any]) -> Stream[T]:
        """Return a stream of the items that satisfy a predicate.

        Raises
        ------
        TypeError
            If `predicate` is not callable.

        Examples
        --------
        >>> list(Stream(range(5)).filter(lambda x: x > 2))
        [3, 4]
        """
        check_callable(predicate, "filter: predicate")
        return _Filtered(predicate, self)

    def batch(
        self, k: int, drop_last: bool = False, *, collate_fn: Callable[[list[T]], Any] | None = None
    ) -> Stream[Any]:
        """Return a stream of batches of `k` successive items.

        Parameters
        ----------
        k : int
            Items per batch (1 or more).
        drop_last : bool
            Leave out a last batch of fewer items.
        collate_fn : callable, optional
            Makes the batch from the list of items, which is the default.

        Raises
        ------
        TypeError, ValueError
            If an argument has the wrong type, or `k` is below 1.

        Examples
        --------
        >>> list(Stream(range(5)).batch(2, drop_last=True, collate_fn=sum))
        [1, 5]
        """
        k = positive_int(k, "batch: k")
        check_callable(collate_fn, "batch: collate_fn", optional=True)
        batches = _Batched(k, as_bool(drop_last, "batch: drop_last"), self)
        return batches if collate_fn is None else batches.smap(collate_fn)

    def shuffle_buffer(self, size: int, seed: int | None = None, epoch: int = 0) -> Stream[T]:
        """Return a stream of the items in a random order; see `shuffle_buffer`."""
        return shuffle_buffer(self, size, seed, epoch)

    def split(self, rank: int, world_size: int) -> Stream[T]:
        """Return every `world_size`-th item, from item number `rank` on. Each part reads the whole source.

        Functions of `smap` are called, and items of views are read, for the items of the part only.

        Raises
        ------
        TypeError, ValueError
            If `rank` or `world_size` is not an int, or out of range.

        Examples
        --------
        >>> [list(Stream("abcde").split(rank, 2)) for rank in range(2)]
        [['a', 'c', 'e'], ['b', 'd']]
        """
        world_size = positive_int(world_size, "split: world_size")
        rank = int_at_least(rank, "split: rank", 0)
        if rank >= world_size:
            raise ValueError(f"split: rank must be below world_size {world_size}, got {rank}")
        return Stream(self._view()._cut(slice(rank, None, world_size)))

    def skip(self, n: int) -> Stream[T]:
        """Return a stream without the first `n` items.

        Functions of `smap` are not called for them, and views are not read. An item that would fail counts,
        too.

        Raises
        ------
        TypeError, ValueError
            If `n` is not an int of at least 0.

        Examples
        --------
        >>> list(Stream("abcde").smap(str.upper).batch(2).skip(1))
        [['C', 'D'], ['E']]
        """
        n = int_at_least(n, "skip: n", 0)
        return Stream(self._view().skip(n))

    def _view(self) -> View[Any]:
        """Return the items as a view. Reading from a later item on leaves out work where that is possible."""
        source = self._source
        if type(self) is Stream and isinstance(source, View) and is_measured(source):
            return source if self._epoch is None else source.at_epoch(self._epoch)
        return _ByNumber(self)

    def set_epoch(self, epoch: int) -> None:
        """Let the following passes be those of epoch number `epoch` (0 or more).

        It reaches shuffle buffers, views that draw random numbers, and sources with a method `set_epoch`. The
        loaders call it before each epoch.

        Raises
        ------
        TypeError, ValueError
            If `epoch` is not an int of at least 0.

        Examples
        --------
        >>> stream = Stream(range(9)).shuffle_buffer(9, seed=0)
        >>> first = list(stream)
        >>> stream.set_epoch(1)
        >>> list(stream) == first
        False
        """
        self._epoch = int_at_least(epoch, "set_epoch: epoch", 0)
        source: Any = self._source
        views = walk(source) if isinstance(source, View) else ()
        for below in [view.stream for view in views if isinstance(view, _ByNumber)] or [source]:
            for one in listeners(below):
                one.set_epoch(self._epoch)

    def _order_digest(self) -> str:
        """Return a digest of what the order depends on, for states."""
        source: Any = self._source
        views = walk(source) if isinstance(source, View) else ()
        below = [view.stream for view in views if isinstance(view, _ByNumber)] or [source]
        return digest(repr(([order_digest(one) for one in below], self._seed_of_order()))).hex()

    def _seed_of_order(self) -> int | None:
        return None

    def __repr__(self) -> str:
        source: Any = self._source
        if isinstance(source, View | Stream):
            return f"Stream({self._step}{source!r})"
        return f"Stream({type(source).__name__ if isinstance(source, Iterable) else name_of(source)})"


def shuffle_buffer(
    iterable: Iterable[T] | Callable[[], Iterable[T]], size: int, seed: int | None = None, epoch: int = 0
) -> Stream[T]:
    """Return a stream of the items of an iterable in a random order, within a buffer.

    The buffer is filled first. Then each new item takes the place of a random one, which comes out. An item
    comes at most `size` - 1 places early, and may come any number of places late. Memory holds `size` items.

    Parameters
    ----------
    iterable : iterable or callable
        See `Stream`.
    size : int
        Items in the buffer (1 or more).
    seed : int, optional
        Chooses the order (0 or more). None (the default) draws one from the system, once.
    epoch : int
        Number of the pass (0 or more). Another epoch is another order.

    Returns
    -------
    Stream
        All its passes have the same order, until its `set_epoch` is called. The loaders do that.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, or is out of range.

    Notes
    -----
    For an order without a limit, use `shuffle`, which needs an index. Modelled on the shuffle of ``tf.data``.

    Examples
    --------
    >>> order = list(shuffle_buffer(range(100), 10, seed=0))
    >>> sorted(order) == list(range(100)), max(item - place for place, item in enumerate(order)) <= 9
    (True, True)
    """
    size = positive_int(size, "shuffle_buffer: size")
    number = as_seed(seed, "shuffle_buffer: seed")
    epoch = int_at_least(epoch, "shuffle_buffer: epoch", 0)
    source = iterable if isinstance(iterable, Stream) else Stream(iterable)
    return _Shuffled(size, number, epoch, source)


# The steps that are no views. Each pass begins that of its source at once, and survives errors.


class _Filtered(Stream[T]):
    """The stream that `Stream.filter` returns."""

    _step = "filter of "

    def __init__(self, predicate: Callable[[T], Any], source: Stream[T]) -> None:
        super().__init__(source)
        self._predicate = predicate

    def __iter__(self) -> Iterator[T]:
        predicate, source = self._predicate, _ByNumber(self._source)
        pairs = Smap(lambda item: (bool(predicate(item)), item), source, "filter")
        return map(itemgetter(1), filter(itemgetter(0), in_order(pairs)))


class _Batched(Stream[Any]):
    """The stream that `Stream.batch` returns."""

    _step = "batch of "

    def __init__(self, k: int, drop_last: bool, source: Stream[Any]) -> None:
        super().__init__(source)
        self._k = k
        self._drop_last = drop_last

    def __iter__(self) -> Iterator[Any]:
        source, k = self._begin(), self._k
        held: list[Any] = []  # kept after an error, for the next batch

        def run(progress: Progress) -> Iterator[Any]:
            nonlocal held
            while True:
                held.extend(islice(source, k - len(held)))
                batch, held = held, []
                if len(batch) == k or (batch and not self._drop_last):
                    yield batch
                if len(batch) < k:
                    break
            progress.done = True

        return restarting(run)

    def skip(self, n: int) -> Stream[Any]:
        source: Any = self._source
        return _Batched(self._k, self._drop_last, source.skip(int_at_least(n, "skip: n", 0) * self._k))


class _Shuffled(Stream[T]):
    """The stream that `shuffle_buffer` returns."""

    _step = "shuffle_buffer of "

    def __init__(self, size: int, seed: int, epoch: int, source: Stream[T]) -> None:
        super().__init__(source)
        self._size = size
        self._seed = seed
        self._epoch: int = epoch

    def _seed_of_order(self) -> int:
        return self._seed

    def __iter__(self) -> Iterator[T]:
        source, size = self._begin(), self._size
        key = node_key("shuffle_buffer", self._seed, self._epoch, 0)
        rng = np.random.Generator(np.random.Philox(key=key))
        held: list[Any] = []

        def run(progress: Progress) -> Iterator[T]:
            held.extend(islice(source, size - len(held)))
            while len(held) == size:
                for place in rng.integers(size, size=256).tolist():
                    try:
                        item = next(source)
                    except StopIteration:
                        break
                    held[place], item = item, held[place]
                    yield item
                else:
                    continue
                break
            rng.shuffle(held)
            while held:
                yield held.pop()
            progress.done = True

        return restarting(run)


class _ByNumber(View[Any]):
    """The items of a stream by number. Each iteration is a new pass, and so is each read of an item."""

    def __init__(self, stream: Any) -> None:
        super().__init__((), UNKNOWN)
        self.stream = stream

    def _get(self, i: int) -> Any:
        for item in self._iter(range(i, i + 1)):
            return item
        raise EndOfSequence(f"this pass of the stream has no item {i}")

    def _iter(self, plan: Plan) -> Iterator[Any]:
        items: Iterator[Any] = iter(self.stream)
        if isinstance(plan, Endless):
            return items
        wanted, drawn = each(plan), 0
        i = next(wanted, None)

        def run(progress: Progress) -> Iterator[Any]:
            nonlocal items, drawn, i
            while i is not None:
                if i < drawn:
                    items, drawn = iter(self.stream), 0
                number = drawn
                try:
                    item = next(items)
                except StopIteration:
                    break
                except Exception as error:
                    drawn += 1
                    if number == i:
                        i = next(wanted, None)
                    elif isinstance(error, EvaluationError):
                        continue  # the error of an item that is not wanted
                    raise
                drawn += 1
                if number == i:
                    i = next(wanted, None)
                    yield item
            progress.done = True

        return restarting(run)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self

    def _arguments(self, sources: list[str]) -> str:
        return repr(self.stream)
