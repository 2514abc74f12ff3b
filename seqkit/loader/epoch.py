"""One epoch of a loader: the position of its consumer, and its iterator."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NoReturn

from ..core.errors import EvaluationError, seterr
from ..core.set_epoch import has_method
from ..core.tracebacks import hide_frames, warn
from ..core.view import View
from ..samplers.base import Sampler
from .keyed import by_number
from .on_error import Recovered
from .state import key_digest

__all__ = ["Epoch", "Keys", "Position", "Start", "begun", "load_sampler_state"]


@dataclass(frozen=True)
class Start:
    """Where the next epoch begins.

    Attributes
    ----------
    epoch, batch : int
        The number of the epoch, and of its first batch.
    key : str or None
        Digest of the key before that batch.
    samples : int or None
        Samples of the data set when the epoch began.
    goes_on : bool
        Whether the data set itself goes on there, because it has loaded a state.
    """

    epoch: int = 0
    batch: int = 0
    key: str | None = None
    samples: int | None = None
    goes_on: bool = False


class Keys:
    """The keys of an epoch. Workers draw them from the sampler ahead of the consumer.

    Parameters
    ----------
    drawn : iterator
    remembers : bool
        Whether `last` is needed.
    """

    def __init__(self, drawn: Iterator[Any], remembers: bool) -> None:
        self._drawn = drawn
        # The key of the last batch that was read, and those of batches that were not read yet.
        self._waiting: deque[Any] | None = deque([None]) if remembers else None
        self._error: Exception | None = None  # of the sampler
        self._has_more = True

    def pass_over(self) -> Any:
        """Draw the key of a batch that was read before, and return it. There may be none."""
        for key in islice(self._draw(), 1):
            self.count(1)
            return key
        return None

    def count(self, batches: int) -> None:
        """Notice that batches were read."""
        if self._waiting is not None:
            for _ in range(min(batches, len(self._waiting) - 1)):
                self._waiting.popleft()

    def last(self) -> Any:
        """Return the key of the last batch that was read."""
        return None if self._waiting is None else self._waiting[0]

    def exhaust(self) -> None:
        """Let the sampler notice the end of its epoch."""
        deque(self._drawn, maxlen=0)

    def items(self, read: Callable[[Iterator[Any]], Iterator[Any]]) -> Iterator[Any]:
        """Iterate ``read(keys)``, the items at the keys.

        An error of the sampler ends the iteration. It is raised after the items before it.
        """

        def next_run() -> Iterator[Any] | None:
            error, self._error = self._error, None
            if error is not None:
                return map(_raise, [error])
            if not self._has_more:
                return None
            self._has_more = False
            return read(self._draw())

        first = next_run() or ()  # begins now, not at the first item
        return chain.from_iterable(chain([first], iter(next_run, None)))

    def _draw(self) -> Iterator[Any]:
        """Draw keys up to the end or an error."""
        try:
            for key in self._drawn:
                if self._waiting is not None:
                    self._waiting.append(key)
                yield key
        except Exception as error:
            self._error = error
        except KeyboardInterrupt:
            self._error = RuntimeError(
                "DataLoader: the sampler was interrupted, so this epoch cannot go on. Begin another one."
            )
            raise


@dataclass(eq=False)
class Position:
    """How far the consumer of an epoch is. It outlives the iterator.

    Attributes
    ----------
    start : Start
        Where it began.
    samples : int or None
        Samples of the data set, if that is known.
    length : int or None
        Batches of the epoch, if that is known.
    is_exact : bool
        Whether the epoch has this length for certain. The `__len__` of an iterable data set may be wrong.
    before : object
        The state of the sampler before the epoch.
    order : View or None
        The keys of all batches, if the sampler has a known order.
    keys : Keys or None
        The keys that are drawn as they are needed, otherwise or for persistent workers.
    has_digest : bool
        Whether the state contains a digest of the last key.
    batch : int
        Batches that were read, failed ones included.
    ended : bool
        Whether the iterator was exhausted.
    """

    start: Start
    samples: int | None
    length: int | None
    is_exact: bool
    before: Any
    order: View[Any] | None
    keys: Keys | None
    has_digest: bool
    batch: int = 0
    ended: bool = False

    def __post_init__(self) -> None:
        self.batch = self.start.batch

    @property
    def epoch(self) -> int:
        """Its number."""
        return self.start.epoch

    def is_over(self) -> bool:
        """Return whether everything was read."""
        return self.ended or (self.is_exact and self.batch == self.length)

    def advance(self, count: int) -> None:
        """Count batches as read."""
        self.batch += count
        if self.keys is not None:
            self.keys.count(count)

    def digest(self) -> str | None:
        """Return the digest of the last key that was read, if there is one."""
        if self.batch == self.start.batch or not self.has_digest:
            return self.start.key
        if self.order is not None:
            return key_digest(self.order[self.batch - 1])
        return None if self.keys is None else key_digest(self.keys.last())


def load_sampler_state(sampler: Any, state: Any, read: int = 0) -> int:
    """Load a state of a sampler. Return how many of the `read` keys of its epoch are left to skip."""
    if isinstance(sampler, Sampler) and state is not None:
        return sampler.resume_after(state, read)
    if state is not None and has_method(sampler, "load_state_dict", state):
        sampler.load_state_dict(state)
    return read


class Epoch(Iterator[Any]):
    """The batches of one epoch, from a position on.

    Parameters
    ----------
    items : iterator
        It survives errors.
    position : Position
        It is kept up to date.
    source : str
        The type of the data set.
    failed : list
        Receives the failures of `Recovered` batches.
    finish : callable
        Called once, at the end.
    """

    def __init__(
        self,
        items: Iterator[Any],
        position: Position,
        source: str,
        failed: list[tuple[Any, str]],
        finish: Callable[[], None],
    ) -> None:
        self._items = items
        self._position = position
        self._source = source
        self._failed = failed
        self._finish: Callable[[], None] | None = finish
        self.is_unread = True
        self._was_cut_short = False  # whether the last error ended the iteration

    def follow(self, other: Epoch) -> None:
        """Read the epoch of another iterator. Neither of them was read before."""
        finish = self._finish
        self._items, self._position, self._finish = other._items, other._position, other._finish
        if finish is not None:
            finish()

    def __next__(self) -> Any:
        self.is_unread = False
        while True:
            try:
                item = next(self._items)
            except StopIteration:
                self._end()
                raise
            except BaseException as error:
                if isinstance(error, Exception):
                    self._was_cut_short = not _costs_a_batch(error)
                    self._count(not self._was_cut_short)
                if isinstance(error, EvaluationError):
                    error.index = by_number(error.index)
                hide_frames(error)
                raise
            self._was_cut_short = False
            self._count(1)
            if type(item) is not Recovered:
                return item
            self._failed.extend(item.failed)
            if item.values:
                return item.values[0]

    def _count(self, batches: int) -> None:
        position = self._position
        position.advance(batches)
        if not position.is_exact and position.length is not None and position.batch == position.length + 1:
            warn(
                f"Length of IterableDataset {self._source} was reported to be {position.length} (when"
                f" accessing len(dataloader)), but {position.batch} batches have been fetched. Correct its"
                " __len__",
                UserWarning,
            )

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        if self._position.length is None:
            raise TypeError("DataLoader: no length, for its data set or sampler has none")
        return self._position.length

    def _end(self) -> None:
        self._count(0)
        self._position.ended = not self._was_cut_short
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()


def _costs_a_batch(error: Exception) -> bool:
    """Return whether an error uses up a batch. Other errors concern the iteration."""
    return isinstance(error, EvaluationError | RecursionError) or seterr() == "passthrough"


def begun(items: Iterator[Any]) -> Iterator[Any]:
    """Draw the first item now, and return the iteration that begins with it.

    Before it, a data set that can only be iterated passes over the samples that were read before. What
    happens then is no matter of a batch.
    """
    try:
        first = next(items)
    except StopIteration:
        return items
    except EvaluationError as error:
        return chain(map(_raise, [error]), items)
    return chain([first], items)


def _raise(error: Exception) -> NoReturn:
    raise error
