"""`Stream`: lazy transforms of iterables, begun anew by every `iter`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Generic

import numpy as np

from ..core.arguments import as_bool, check_callable, int_at_least, positive_int, refuse_async, refuse_set
from ..core.errors import EvaluationError, fail
from ..core.iteration import Progress, is_one_shot, restarting
from ..core.randomness import as_seed, node_key
from ..core.renamed import renamed
from ..core.set_epoch import listeners
from ..core.view import T, U, View, in_order, is_measured, name_of

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
    pass, unless its iterator goes on by itself, as those of views do. For an index, use `uniter`. For a
    worker that reads ahead, use ``prefetch(uniter(stream), 1)``. Modelled on Gluon's ``DataStream``.

    Examples
    --------
    >>> numbers = Stream(range(10)).filter(lambda x: x % 2).smap(lambda x: x * x)
    >>> list(numbers), list(numbers.batch(2))
    ([1, 9, 25, 49, 81], [[1, 9], [25, 49], [81]])
    """

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
        return Stream(partial(_smap, f, 0, self))

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
        return Stream(partial(_filter, predicate, self))

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
        batches = Stream(partial(_batch, k, as_bool(drop_last, "batch: drop_last"), self))
        return batches if collate_fn is None else batches.smap(collate_fn)

    def shuffle_buffer(self, size: int, seed: int | None = None, epoch: int = 0) -> Stream[T]:
        """Return a stream of the items in a random order; see `shuffle_buffer`."""
        return shuffle_buffer(self, size, seed, epoch)

    @renamed(part="rank", parts="world_size")
    def split(self, rank: int, world_size: int) -> Stream[T]:
        """Return every `world_size`-th item, from item number `rank` on. Each part reads the whole source.

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
        return Stream(partial(_split, rank, world_size, self))

    @renamed(count="n")
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
        source, upstream = self._source, self._upstream()
        if isinstance(source, View) and is_measured(source):
            rest = Stream(source[n:])
            rest._epoch = self._epoch
            return rest
        step, arguments = (source.func, source.args[:-1]) if isinstance(source, partial) else (None, ())
        if upstream is not None and step is _smap:
            f, first = arguments
            return Stream(partial(_smap, f, first + n, upstream.skip(n)))
        if upstream is not None and step is _batch:
            return Stream(partial(_batch, *arguments, upstream.skip(arguments[0] * n)))
        if upstream is not None and step is _split:
            return Stream(partial(_split, *arguments, upstream.skip(arguments[1] * n)))
        return Stream(partial(_skip, n, self))

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
        upstream = self._upstream()
        for one in listeners(self._source if upstream is None else upstream):
            one.set_epoch(self._epoch)

    def _upstream(self) -> Stream[Any] | None:
        """Return the stream that this one is a step of, or None."""
        last = self._source.args[-1:] if isinstance(self._source, partial) else ()
        return last[0] if last and isinstance(last[0], Stream) else None

    def __repr__(self) -> str:
        source: Any = self._source
        upstream = self._upstream()
        if upstream is not None:
            return f"Stream({name_of(source).strip('_')} of {upstream!r})"
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


class _Shuffled(Stream[T]):
    """The stream that `shuffle_buffer` returns."""

    def __init__(self, size: int, seed: int, epoch: int, source: Stream[T]) -> None:
        super().__init__(source)
        self._size = size
        self._seed = seed
        self._epoch: int = epoch
        self._buffered = source

    def __iter__(self) -> Iterator[T]:
        return _shuffle_buffer(self._size, self._seed, self._epoch, self._buffered)

    def __repr__(self) -> str:
        return f"Stream(shuffle_buffer of {self._buffered!r})"


# Each of these begins the pass of its source at once, and returns an iterator that survives errors.


class _NewPass:
    """Reads item i of a stream in a new pass, for an error of item i."""

    def __init__(self, items: Iterable[Any], first: int) -> None:
        self._items = items
        self._first = first  # number of the first item

    def _get(self, i: int) -> Any:
        items, left = in_order(self._items), i - self._first
        while True:
            with suppress(EvaluationError):  # an item that fails has no number
                item = next(items, _END)
                if item is _END:
                    raise IndexError(f"this pass of the stream has no item {i}")
                if not left:
                    return item
                left -= 1


class _Step:
    """Stands for a step of a stream in its errors, as a view that computes item i in a new pass."""

    def __init__(self, name: str, f: Callable[[Any], Any], items: Iterable[Any], first: int = 0) -> None:
        self._name = name
        self._f = f
        self._items = _NewPass(items, first)

    def _get(self, i: int) -> Any:
        return self._f(self._items._get(i))

    __getitem__ = _get

    def _parts(self, i: int) -> list[tuple[_NewPass, list[int]]]:
        return [(self._items, [i])]


_END = object()


def _skip(count: int, items: Iterable[Any]) -> Iterator[Any]:
    source = in_order(items)
    left = count

    def run(progress: Progress) -> Iterator[Any]:
        nonlocal left
        while left:
            left -= 1  # also for an item that fails
            try:
                with suppress(EvaluationError):
                    next(source, None)
            except KeyboardInterrupt:
                left += 1
                raise
        yield from source
        progress.done = True

    return restarting(run)


def _smap(f: Callable[[Any], Any], first: int, items: Iterable[Any], name: str = "smap") -> Iterator[Any]:
    source, me = iter(items), _Step(name, f, items, first)

    def run(progress: Progress) -> Iterator[Any]:
        for item in progress.counted(source):
            try:
                value = f(item)
            except Exception as error:
                fail(me, first + progress.position - 1, error)
            except BaseException:
                progress.again(item)
                raise
            yield value
        progress.done = True

    return restarting(run)


def _filter(predicate: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    pairs = _smap(lambda item: (bool(predicate(item)), item), 0, items, "filter")
    return map(itemgetter(1), filter(itemgetter(0), pairs))


def _batch(k: int, drop_last: bool, items: Iterable[Any]) -> Iterator[Any]:
    source = iter(items)
    held: list[Any] = []  # kept after an error, for the next batch

    def run(progress: Progress) -> Iterator[Any]:
        nonlocal held
        while True:
            held.extend(islice(source, k - len(held)))
            batch, held = held, []
            if len(batch) == k or (batch and not drop_last):
                yield batch
            if len(batch) < k:
                break
        progress.done = True

    return restarting(run)


def _shuffle_buffer(size: int, seed: int, epoch: int, items: Iterable[Any]) -> Iterator[Any]:
    source = iter(items)
    rng = np.random.Generator(np.random.Philox(key=node_key("shuffle_buffer", seed, epoch, 0)))
    held: list[Any] = []

    def run(progress: Progress) -> Iterator[Any]:
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


def _split(part: int, parts: int, items: Iterable[Any]) -> Iterator[Any]:
    source = iter(items)
    number = -1

    def run(progress: Progress) -> Iterator[Any]:
        nonlocal number
        while True:
            number += 1  # a failing item has a number too
            try:
                item = next(source)
            except StopIteration:
                break
            except KeyboardInterrupt:
                number -= 1
                raise
            if number % parts == part:
                yield item
        progress.done = True

    return restarting(run)
