"""`Stream`: lazy transforms of iterables, begun anew by every `iter`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Generic

import numpy as np

from ..checks import as_bool, check_callable, int_at_least, positive_int, refuse_async
from ..errors import fail
from ..iteration import Progress, is_one_shot, restarting
from ..randomness import as_seed, node_key
from ..view import T, U, in_order, name_of

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
        self._source = source
        self._is_spent = False

    def __iter__(self) -> Iterator[T]:
        source = self._source
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
        return Stream(partial(_smap, f, self))

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

    def split(self, part: int, parts: int) -> Stream[T]:
        """Return every `parts`-th item, from item number `part` on. Each part reads the whole source.

        Raises
        ------
        TypeError, ValueError
            If `part` or `parts` is not an int, or out of range.

        Examples
        --------
        >>> [list(Stream("abcde").split(part, 2)) for part in range(2)]
        [['a', 'c', 'e'], ['b', 'd']]
        """
        parts = positive_int(parts, "split: parts")
        part = int_at_least(part, "split: part", 0)
        if part >= parts:
            raise ValueError(f"split: part must be below parts {parts}, got {part}")
        return Stream(partial(_split, part, parts, self))

    def __repr__(self) -> str:
        source = self._source
        if isinstance(source, partial):
            return f"Stream({name_of(source.func).strip('_')} of {source.args[-1]!r})"
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
        All its passes have the same order.

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
    return Stream(partial(_shuffle_buffer, size, number, epoch, source))


# Each of these begins the pass of its source at once, and returns an iterator that survives errors.


class _Step:
    """Stands for a step of a stream in error messages."""

    def __init__(self, name: str) -> None:
        self._name = name


def _smap(f: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    source, counted, me = iter(items), Progress(), _Step("smap")
    drawn = counted.counted(source)

    def run(progress: Progress) -> Iterator[Any]:
        for item in drawn:
            try:
                value = f(item)
            except Exception as error:
                fail(me, counted.position - 1, error)
            yield value
        progress.done = True

    return restarting(run)


def _filter(predicate: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    source, counted, me = iter(items), Progress(), _Step("filter")
    drawn = counted.counted(source)

    def run(progress: Progress) -> Iterator[Any]:
        for item in drawn:
            try:
                is_wanted = bool(predicate(item))
            except Exception as error:
                fail(me, counted.position - 1, error)
            if is_wanted:
                yield item
        progress.done = True

    return restarting(run)


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
            if number % parts == part:
                yield item
        progress.done = True

    return restarting(run)
