"""One epoch of a loader: the keys it reads, its iterator, and the position of the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..checks import int_at_least
from ..frames import hide_frames, warn
from ..samplers.base import Sampler, draw, order_of
from .on_error import NOTHING, Recovered

__all__ = ["Epoch", "Keys", "Position", "Rest", "check_state", "load_sampler_state", "sampler_state"]


@dataclass(slots=True)
class Position:
    """The position of the consumer of an epoch.

    Attributes
    ----------
    epoch : int
        Its number.
    batch : int
        Batches that were read, failed ones included.
    length : int or None
        Batches of the epoch, if that is known.
    is_exact : bool
        Whether the epoch has this length for certain. The `__len__` of an iterable data set may be wrong.
    ended : bool
        Whether the iterator was exhausted.
    """

    epoch: int
    batch: int
    length: int | None
    is_exact: bool = True
    ended: bool = False

    def is_over(self) -> bool:
        """Return whether everything was read."""
        return self.ended or (self.is_exact and self.batch == self.length)


class Keys:
    """The keys that a sampler gives in one epoch: a plan that is drawn once, while it is read.

    An error of the sampler ends the plan. `failure` raises the error after the last item.

    Parameters
    ----------
    sampler : iterable
        Its next epoch begins now.
    position : Position
        Of the consumer. If workers read ahead, the sampler is further.
    convert : callable
        Applied to every key.
    """

    def __init__(self, sampler: Any, position: Position, convert: Callable[[Any], Any]) -> None:
        self._sampler = sampler
        self._position = position
        self._error: Exception | None = None
        self.has_failed = False  # whether the error was raised
        start, number = position.batch, getattr(sampler, "epoch", position.epoch)
        # Whether the state of the sampler changes as it is drawn from: if its order is not known.
        self.changes = isinstance(sampler, Sampler) and order_of(sampler, number) is None
        keys = draw(sampler, number, 0 if self.changes else start)
        # The states after so many keys, from the position of the consumer on.
        self._states = deque([sampler_state(sampler)] if self.changes else [])
        self._oldest = 0
        self._keys = self._draw(keys, start if self.changes else 0, convert)

    def __iter__(self) -> Iterator[Any]:
        return self._keys

    def _draw(self, keys: Iterator[Any], skip: int, convert: Callable[[Any], Any]) -> Iterator[Any]:
        try:
            for number, key in enumerate(keys):
                if self.changes:
                    self._record()
                if number >= skip:
                    yield convert(key)
        except Exception as error:
            self._error = error

    def _record(self) -> None:
        self._states.append(sampler_state(self._sampler))
        while self._oldest < self._position.batch and len(self._states) > 1:
            self._states.popleft()
            self._oldest += 1

    def failure(self) -> Iterator[Any]:
        """Raise the error of the sampler, if there was one."""
        if self._error is not None:
            self.has_failed = True
            raise self._error
        yield from ()

    def settle_sampler(self) -> None:
        """Put the sampler where it would be without workers that read ahead of the consumer."""
        if self._position.is_over():
            for _ in self._keys:  # none is left, but the sampler must notice the end of its epoch
                pass
        elif self.changes:
            read = min(max(self._position.batch - self._oldest, 0), len(self._states) - 1)
            load_sampler_state(self._sampler, self._states[read])


def sampler_state(sampler: Any) -> Any:
    """Return the state of a sampler that has one, otherwise None."""
    return sampler.state_dict() if hasattr(sampler, "state_dict") else None


def load_sampler_state(sampler: Any, state: Any, read: int = 0) -> int:
    """Load a state of a sampler. Return how many of the `read` keys of its epoch are left to skip."""
    if isinstance(sampler, Sampler) and state is not None:
        return sampler.resume_after(state, read)
    if state is not None and hasattr(sampler, "load_state_dict"):
        sampler.load_state_dict(state)
    return read


class Epoch(Iterator[Any]):
    """The batches of one epoch, from a position on.

    Parameters
    ----------
    items : iterator
        It survives errors.
    position : Position
        Of the first of `items`. It is kept up to date.
    failed : list
        Receives the failures of `Recovered` batches.
    finish : callable
        Called once, at the end.
    is_at_item : callable
        Returns whether the last error was about an item, which is then used up.
    """

    def __init__(
        self,
        items: Iterator[Any],
        position: Position,
        failed: list[tuple[Any, str]],
        finish: Callable[[], None],
        is_at_item: Callable[[], bool],
    ) -> None:
        self._items = items
        self._position = position
        self._failed = failed
        self._finish: Callable[[], None] | None = finish
        self._is_at_item = is_at_item
        self._was_cut_short = False  # whether the last error ended the iteration
        # Batches that were taken from `items` but not counted. After Ctrl-C in a batch, a state resumes at
        # that batch, and this iterator continues after it.
        self._uncounted = 0

    def __next__(self) -> Any:
        while True:
            try:
                item = next(self._items)
            except StopIteration:
                self._end()
                raise
            except BaseException as error:
                self._was_cut_short = not self._is_at_item()
                self._uncounted += not self._was_cut_short
                if isinstance(error, Exception):
                    self._count()
                hide_frames(error)
                raise
            self._was_cut_short = False
            self._uncounted += 1
            self._count()
            if type(item) is not Recovered:
                return item
            self._failed.extend(item.failed)
            if item.value is not NOTHING:
                return item.value

    def _count(self) -> None:
        position = self._position
        position.batch += self._uncounted
        self._uncounted = 0
        if not position.is_exact and position.length is not None and position.batch == position.length + 1:
            warn(
                f"DataLoader: by the __len__ of the data set there are {position.length} batches, but it"
                " yields more; correct its __len__",
                UserWarning,
            )

    def __len__(self) -> int:
        if self._position.length is None:
            raise TypeError("DataLoader: no length, for its data set or sampler has none")
        return self._position.length

    def _end(self) -> None:
        self._count()
        self._position.ended = not self._was_cut_short
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()


class Rest(Iterator[Any]):
    """What is left of an iteration whose first `count` items were read before. It draws and drops these
    items.

    For sequences without a length. Errors of dropped items are dropped, too, unless one of them is the end.
    """

    def __init__(self, items: Iterator[Any], count: int, is_at_item: Callable[[], bool]) -> None:
        self._items = items
        self._left = count
        self._is_at_dropped = is_at_item
        self._is_there = False
        self._last_error: Exception | None = None
        self._is_over = False

    def is_at_item(self) -> bool:
        """Return whether the last error was about an item of the rest."""
        return self._is_there and (self._is_over or self._is_at_dropped())

    def __next__(self) -> Any:
        while self._left:
            self._left -= 1
            self._drop()
        self._is_there = True
        error, self._last_error = self._last_error, None
        try:
            return next(self._items)
        except StopIteration:
            if error is None:
                raise
        self._is_over = True
        raise error

    def _drop(self) -> None:
        try:
            next(self._items)
            self._last_error = None
        except StopIteration:
            self._left = 0
        except Exception as error:
            if not self._is_at_dropped():
                raise
            self._last_error = error


FIELDS = ("version", "epoch", "batch", "seed", "batch_size", "sampler")


def check_state(state: Any, batch_size: int | None, seed: int | None) -> None:
    """Refuse a value that is not a state of a loader with this batch size and seed, if it was given one."""
    if not isinstance(state, Mapping) or any(name not in state for name in FIELDS):
        raise TypeError(f"DataLoader: a state is a dict with {', '.join(FIELDS)}, but got {state!r}")
    if state["version"] != 1:
        raise ValueError(f"DataLoader: the state is of version {state['version']!r}, known is 1")
    for name in ("epoch", "batch", "seed"):
        int_at_least(state[name], f"DataLoader: {name} of a state", 0)
    if state["batch_size"] != batch_size:
        raise ValueError(
            f"DataLoader: the state counts batches of {state['batch_size']}, this loader makes batches of"
            f" {batch_size}"
        )
    if seed is not None and state["seed"] != seed:
        raise ValueError(
            f"DataLoader: the state is of seed={state['seed']}, but this loader has another seed. Leave"
            " out seed"
            " and generator to take the seed of the state"
        )
