"""Data sets that split themselves: every worker reads some of their parts.

Parts take turns, in rounds. At each turn a part gives a block of successive samples, as many as a batch has.
The last block of a part may be short. One more turn reports the end of the part. Whole blocks are batches.
The samples of short blocks make batches together, as soon as there are enough of them. So the batches follow
from the data set alone, and not from the number of workers.

A *lane* is the parts that one worker reads, in the order of their turns. A worker is a prefetch node of one
worker, so that each lane has a window of its own.

Guarantees
----------
- Every sample is in one batch. An error loses at most the samples of the block that it occurs in.
- Each part that has not ended has one item per round in its lane, also if the item is an error.

Relies on
---------
- ``split(part, parts)`` gives the same samples each time in one epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ..checks import positive_int
from ..errors import EndOfSequence, EvaluationError, seterr, summary
from ..indices import UNKNOWN, Endless, Plan
from ..iteration import restarting
from ..prefetch import Prefetch
from ..view import View, in_order
from .epoch import Rest
from .iterable import Reader, is_iterable_only
from .keyed import Sample

if TYPE_CHECKING:  # the import works only on Linux
    from ..prefetch.processes.slots import Pinner

__all__ = ["Blocks", "InTurn", "Lane", "TurnReader", "Turns", "count_parts", "splits_itself"]


def splits_itself(dataset: Any) -> bool:
    """Return whether a data set can only be iterated, and has a method `split` and a number of `parts`."""
    can_split = callable(getattr(dataset, "split", None)) and getattr(dataset, "parts", None) is not None
    return can_split and is_iterable_only(dataset)


def count_parts(dataset: Any) -> int:
    """Return the number of parts of a data set that splits itself."""
    return positive_int(dataset.parts, "DataLoader: parts of the data set")


class Block(NamedTuple):
    """A turn of a part: samples, an error of its iterator, or without either the end of the part."""

    part: int
    samples: list[Sample]
    error: Exception | None = None


class Lane:
    """The blocks of some parts of a data set, in turn.

    Parameters
    ----------
    dataset : iterable
        It splits itself.
    numbers : sequence of int
        The parts.
    size : int
        Samples per block.
    """

    def __init__(self, dataset: Any, numbers: Sequence[int], size: int) -> None:
        self.dataset = dataset
        self.numbers = numbers
        self.size = size

    def __iter__(self) -> Iterator[Block]:
        parts = deque(map(self._blocks, self.numbers))
        try:
            while parts:
                block = next(parts[0], None)
                if block is None:
                    parts.popleft()
                else:
                    parts.rotate(-1)
                    yield block
        finally:
            for part in parts:
                part.close()

    def _blocks(self, part: int) -> Any:
        """Yield the blocks of one part. After an error it has no further samples."""
        items: Iterator[Any] = iter(())
        samples: list[Sample] = []
        failure = None
        try:
            items = in_order(self.dataset.split(part, count_parts(self.dataset)))
            for number, item in enumerate(items):
                samples.append(Sample((part, number), item))
                if len(samples) == self.size:
                    yield Block(part, samples)
                    samples = []
        except Exception as error:
            failure = error
        finally:
            _close(items)
        if samples:
            yield Block(part, samples)
        if failure is not None:
            yield Block(part, [], failure)
        yield Block(part, [])


def _close(items: Iterator[Any]) -> None:
    try:
        getattr(items, "close", lambda: None)()
    except Exception:
        pass  # the samples that it gave are good


def _raise(view: View[Any] | None, part: int, error: Exception) -> NoReturn:
    """Raise the error of the iterator of a part as the error policy demands."""
    try:
        if seterr() == "passthrough" and not isinstance(error, EvaluationError):
            raise IndexError(*error.args) if isinstance(error, EndOfSequence) else error
        message = f"DataLoader: part {part} of the data set failed: {summary(error)}"
        raise EvaluationError(message, index=part, view=view) from error
    finally:
        del error  # or it and this frame would refer to each other


class Blocks(View[Any]):
    """The blocks of a lane as a worker makes them: part, number of samples, and the batch.

    A short block has a list of samples in place of the batch. They are transformed, but not collated.

    Parameters
    ----------
    blocks : View of Block
    samples, batches : View
        The samples at keys, and the batches at lists of keys.
    size : int or None
        Samples per batch. None gives single samples.
    """

    def __init__(self, blocks: View[Any], samples: View[Any], batches: View[Any], size: int | None) -> None:
        super().__init__((blocks, samples, batches), UNKNOWN)
        self._size = size

    def _get(self, i: int) -> tuple[int, int, Any]:
        blocks, samples, batches = self._sources
        part, keys, error = blocks._get(i)
        if error is not None:
            _raise(self, part, error)
        if self._size is None and keys:
            return part, 1, batches._get(keys[0])
        if len(keys) == self._size:
            return part, len(keys), batches._get(keys)
        values = samples._getmany(keys)
        return part, len(keys), [Sample(key.number, value) for key, value in zip(keys, values, strict=True)]

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ()  # they are keys, which are not known before item i is read

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        blocks, samples, batches = sources
        return Blocks(blocks, samples, batches, self._size)


class InTurn(View[Any]):
    """The view of the batches of all parts. Reading item i iterates up to it.

    Parameters
    ----------
    lanes : sequence of View
        `Blocks`, or `Prefetch` nodes of one worker each. Part number p is in lane p modulo their number.
    batches : View
        The batches at lists of transformed samples, for those of short blocks.
    parts : int
    size : int
        Samples per batch.
    keeps_last : bool
        Whether to yield a last batch that is short.
    """

    _reads_ahead = True

    def __init__(
        self, lanes: Sequence[View[Any]], batches: View[Any], parts: int, size: int, keeps_last: bool
    ) -> None:
        super().__init__((*lanes, batches), UNKNOWN)
        self._arguments_of_turns = parts, size, keeps_last

    @property
    def nodes(self) -> list[Prefetch[Any]]:
        """The workers."""
        return [lane for lane in self._sources[:-1] if isinstance(lane, Prefetch)]

    def reading(self) -> Turns:
        """Begin to read the batches, in all workers."""
        *lanes, batches = self._sources
        parts, size, keeps_last = self._arguments_of_turns
        return Turns([_begun(lane) for lane in lanes], parts, size, batches._get, keeps_last)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        return self.reading() if isinstance(plan, Endless) else super()._iter(plan)

    def _get(self, i: int) -> Any:
        turns = self.reading()
        try:
            return next(Rest(turns, i, lambda: turns.is_at_item()))
        except StopIteration:
            raise EndOfSequence(f"the sequence ends before batch {i}") from None

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ()  # see `Blocks`

    def pinned(self, pinner: Pinner) -> InTurn:
        """Return the same view with page-locked slots (for `seqkit.torch`)."""
        return InTurn(
            [node.pinned(pinner) for node in self.nodes] or self._sources[:-1],
            self._sources[-1],
            *self._arguments_of_turns,
        )

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return InTurn(sources[:-1], sources[-1], *self._arguments_of_turns)


_Lane = tuple[Iterator[Any], Callable[[], bool]]  # and whether its last error was about an item


def _begun(lane: View[Any]) -> _Lane:
    if isinstance(lane, Prefetch):
        reading = lane.reading(lane._plan())
        return restarting(reading), reading.is_at_item
    return lane._iter(lane._plan()), _always


def _always() -> bool:
    return True


def _never() -> bool:
    return False


class Turns(Iterator[Any]):
    """The batches of all parts, in the order of their turns. After an error it continues.

    Parameters
    ----------
    lanes : list
        Iterators that survive errors. Items are part, number of samples, and the batch or the samples.
    parts, size, keeps_last
        See `InTurn`.
    finish : callable
        Makes a batch of the samples of short blocks.
    """

    def __init__(
        self, lanes: list[_Lane], parts: int, size: int, finish: Callable[[Any], Any], keeps_last: bool
    ) -> None:
        self._lanes = lanes
        self._parts = deque(range(parts))
        self._size = size
        self._finish = finish
        self._keeps_last = keeps_last
        self._samples: list[Sample] = []  # of short blocks
        self._early: dict[int, Any] = {}  # by lane: an item of a part whose turn comes later
        self._failed: set[int] = set()  # the parts whose latest turn was an error
        self.is_at_item: Callable[[], bool] = _always  # whether the last error was about a batch

    def __next__(self) -> Any:
        while self._parts and len(self._samples) < self._size:
            count, value = self._take_turn()
            if count == self._size:
                return value
            self._samples.extend(value)
        batch, self._samples = self._samples[: self._size], self._samples[self._size :]
        if not batch or (len(batch) < self._size and not self._keeps_last):
            raise StopIteration
        self.is_at_item = _always
        return self._finish(batch)

    def _take_turn(self) -> tuple[int, Any]:
        """Return the next block, or an empty one if a part has ended."""
        part = self._parts[0]
        try:
            item = self._draw(part)
        except BaseException:
            if self.is_at_item():
                self._failed.add(part)
                self._parts.rotate(-1)
            else:
                self._failed.discard(part)
            raise
        if item is None:
            return 0, ()
        self._failed.discard(part)
        _, count, value = item
        if count:
            self._parts.rotate(-1)
        else:
            self._parts.popleft()
        return count, value

    def _draw(self, part: int) -> Any:
        """Return the next item of a part, or None if the end of the part was lost in an error."""
        lane = part % len(self._lanes)
        items, self.is_at_item = self._lanes[lane]
        item = self._early.pop(lane, None) or next(items, None)
        if item is not None and item[0] == part:
            return item
        if part in self._failed:
            if item is not None:
                self._early[lane] = item
            self._parts.popleft()
            return None
        self._parts.clear()
        self._samples.clear()
        if item is not None:
            self.is_at_item = _never
            raise RuntimeError(
                f"DataLoader: part {part} lost its place when an exception came between two batches. Read the"
                " epoch again"
            )
        return None  # an error has ended the lane


class TurnReader(Reader):
    """The samples of a data set that splits itself, in the order of its batches, for the calling process."""

    def __init__(self, dataset: Any, size: int) -> None:
        super().__init__(dataset)
        self._size = size

    def __iter__(self) -> Iterator[Sample]:
        parts = count_parts(self.dataset)
        blocks = _or_raise(Lane(self.dataset, range(parts), self._size))
        return chain.from_iterable(Turns([(blocks, _always)], parts, self._size, list, keeps_last=True))


def _or_raise(blocks: Iterable[Block]) -> Iterator[tuple[int, int, list[Sample]]]:
    for part, samples, error in blocks:
        if error is not None:
            _raise(None, part, error)
        yield part, len(samples), samples
