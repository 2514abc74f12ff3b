"""One epoch of a loader: the position of its consumer, and its iterator."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NoReturn

from ..core.errors import EvaluationError, seterr
from ..core.set_epoch import epoch_of, has_method
from ..core.tracebacks import hide_frames, warn
from ..samplers.base import Sampler, draw, order_of, state_of
from .keyed import by_number
from .on_error import Recovered
from .state import check_key, key_digest

__all__ = ["Epoch", "Position", "Start", "begun", "load_sampler_state"]


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


class Position:
    """How far the consumer of an epoch is, and the keys that a sampler gives in it. It outlives the iterator.

    Attributes
    ----------
    epoch : int
        Its number.
    batch : int
        Batches that were read, failed ones included.
    samples : int or None
        Samples of the data set, if that is known.
    length : int or None
        Batches of the epoch, if that is known.
    is_exact : bool
        Whether the epoch has this length for certain. The `__len__` of an iterable data set may be wrong.
    source : str
        The type of the data set.
    ended : bool
        Whether the iterator was exhausted.
    rival : Position or None
        That of an earlier iterator, which was read after this one had begun.
    sampler : iterable or None
        Its epoch begins now.
    before : object
        The state of the sampler before the epoch.
    moves : bool
        Whether the state of the sampler changes as it is drawn from: if its order is not known.
    """

    def __init__(
        self,
        epoch: int,
        batch: int,
        samples: int | None,
        length: int | None,
        is_exact: bool,
        sampler: Any,
        convert: Callable[[Any], Any],
        check: Callable[[Any], object],
        *,
        source: str,
        key: str | None,
        has_keys: bool,
        goes_on: bool,
    ) -> None:
        self.epoch = epoch
        self.batch = batch
        self.samples = samples
        self.length = length
        self.is_exact = is_exact
        self.source = source
        self.ended = False
        self.rival: Position | None = None
        self.sampler = sampler
        self.before = state_of(sampler)
        own = epoch_of(sampler)
        self.moves = isinstance(sampler, Sampler) and order_of(sampler, epoch if own is None else own) is None
        self._error: Exception | None = None  # of the sampler
        self._digest = key  # of the last key that was read, until another one is read
        # Keys that were drawn: the last one that was read, and those of batches that were not read yet.
        self._drawn: deque[Any] | None = deque() if has_keys and sampler is not None else None
        is_checked = self._drawn is not None and key is not None and batch > 0
        start = 0 if goes_on else batch - is_checked
        self._keys = map(convert, () if sampler is None else draw(sampler, epoch, start))
        self._check = check
        self._has_more = True
        if is_checked:
            for last in islice(self._draw(), 1):
                check_key(last, key)
        elif self._drawn is not None:
            self._drawn.append(_NO_KEY)

    def is_over(self) -> bool:
        """Return whether everything was read."""
        return self.ended or (self.is_exact and self.batch == self.length)

    def advance(self, count: int) -> None:
        """Count batches as read."""
        self.batch += count
        if self._drawn is not None:
            for _ in range(min(count, len(self._drawn) - 1)):
                self._drawn.popleft()
                self._digest = None

    def key(self) -> str | None:
        """Return the digest of the last key that was read, if there is one."""
        if self._digest is None and self._drawn and self._drawn[0] is not _NO_KEY:
            return key_digest(self._drawn[0])
        return self._digest

    def _draw(self) -> Iterator[Any]:
        """Draw keys up to the end or an error."""
        try:
            for key in self._keys:
                if self._drawn is not None:
                    self._drawn.append(key)
                try:
                    self._check(key)
                except EvaluationError as error:
                    self._error, self._has_more = error, True
                    return
                yield key
        except Exception as error:
            self._error = error
        except KeyboardInterrupt:
            self._error = RuntimeError(
                "DataLoader: the sampler was interrupted, so this epoch cannot go on. Begin another one."
            )
            raise

    def items(self, read: Callable[[Iterator[Any]], Iterator[Any]]) -> Iterator[Any]:
        """Iterate ``read(keys)``, the items at the keys from the position on.

        A key that `check` refuses is not read, and costs its item. An error of the sampler ends the
        iteration. Both are raised after the items before them.
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

    def settle_sampler(self) -> None:
        """Put the sampler where it would be if workers had not read ahead of the consumer."""
        keys: Iterator[Any] = self._keys
        if not self.is_over():
            if not self.moves:
                return
            load_sampler_state(self.sampler, self.before)
            keys = islice(draw(self.sampler, self.epoch), self.batch)
        for _ in keys:  # at the end none is left, but the sampler must notice the end of its epoch
            pass


_NO_KEY = object()


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
    failed : list
        Receives the failures of `Recovered` batches.
    note : callable
        Called with the position after each batch.
    finish : callable
        Called once, at the end.
    """

    def __init__(
        self,
        items: Iterator[Any],
        position: Position,
        failed: list[tuple[Any, str]],
        note: Callable[[Position], None],
        finish: Callable[[], None],
    ) -> None:
        self._items = items
        self._position = position
        self._failed = failed
        self._note = note
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
        self._note(position)
        if not position.is_exact and position.length is not None and position.batch == position.length + 1:
            warn(
                f"Length of IterableDataset {position.source} was reported to be {position.length} (when"
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
