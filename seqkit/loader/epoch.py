"""One epoch of a loader: the position of its consumer, and its iterator."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from ..checks import int_at_least
from ..errors import EvaluationError, seterr
from ..frames import hide_frames, warn
from ..iteration import Progress, restarting
from ..samplers.base import Sampler, draw, order_of
from .keyed import by_number
from .on_error import Recovered

__all__ = ["Epoch", "Position", "check_state", "load_sampler_state", "rest", "sampler_state"]


class Position:
    """How far the consumer of an epoch is, and the keys that a sampler gives in it. It outlives the iterator.

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
    sampler : iterable or None
        Its epoch begins now.
    before : object
        The state of the sampler before the epoch.
    moves : bool
        Whether the state of the sampler changes as it is drawn from: if its order is not known.
    keys : iterator
        The keys of the sampler from the position on, converted. An error of the sampler ends them, and
        `failure` raises the error after the last item.
    """

    def __init__(
        self,
        epoch: int,
        batch: int,
        length: int | None,
        is_exact: bool,
        sampler: Any,
        convert: Callable[[Any], Any],
    ) -> None:
        self.epoch = epoch
        self.batch = batch
        self.length = length
        self.is_exact = is_exact
        self.ended = False
        self.sampler = sampler
        self.before = sampler_state(sampler)
        own = getattr(sampler, "epoch", epoch)
        self.moves = isinstance(sampler, Sampler) and order_of(sampler, own) is None
        self.keys = self._draw(map(convert, () if sampler is None else draw(sampler, epoch, batch)))
        self._error: Exception | None = None  # of the sampler

    def is_over(self) -> bool:
        """Return whether everything was read."""
        return self.ended or (self.is_exact and self.batch == self.length)

    def _draw(self, keys: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from keys
        except Exception as error:
            self._error = error

    def failure(self) -> Iterator[Any]:
        """Raise the error of the sampler, if there was one."""
        if self._error is not None:
            raise self._error
        yield from ()

    def settle_sampler(self) -> None:
        """Put the sampler where it would be if workers had not read ahead of the consumer."""
        keys = self.keys
        if not self.is_over():
            if not self.moves:
                return
            load_sampler_state(self.sampler, self.before)
            keys = islice(draw(self.sampler, self.epoch), self.batch)
        for _ in keys:  # at the end none is left, but the sampler must notice the end of its epoch
            pass


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
        It is kept up to date.
    reads_here : bool
        Whether batches are computed in `next`. Then Ctrl-C in it uses up a batch.
    failed : list
        Receives the failures of `Recovered` batches.
    finish : callable
        Called once, at the end.
    """

    def __init__(
        self,
        items: Iterator[Any],
        position: Position,
        reads_here: bool,
        failed: list[tuple[Any, str]],
        finish: Callable[[], None],
    ) -> None:
        self._items = items
        self._position = position
        self._reads_here = reads_here
        self._failed = failed
        self._finish: Callable[[], None] | None = finish
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
                self._was_cut_short = not self._costs_a_batch(error)
                self._uncounted += not self._was_cut_short
                if isinstance(error, Exception):
                    self._count()
                if isinstance(error, EvaluationError):
                    error.index = by_number(error.index)
                hide_frames(error)
                raise
            self._was_cut_short = False
            self._uncounted += 1
            self._count()
            if type(item) is not Recovered:
                return item
            self._failed.extend(item.failed)
            if item.values:
                return item.values[0]

    def _costs_a_batch(self, error: BaseException) -> bool:
        """Return whether an exception is about a batch, which is then used up, not about the iteration."""
        if not isinstance(error, Exception):
            return self._reads_here
        return isinstance(error, EvaluationError | RecursionError) or seterr() == "passthrough"

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


def rest(items: Iterator[Any], count: int) -> Iterator[Any]:
    """Draw and drop `count` items that were read before, and return the iteration behind them.

    Errors of these items are dropped, unless nothing follows the last one.
    """
    last_error = deque[Exception](maxlen=1)
    for _ in range(count):
        try:
            for _ in islice(items, 1):
                last_error.clear()
        except EvaluationError as error:
            last_error.append(error)

    def run(progress: Progress) -> Iterator[Any]:
        for item in items:
            last_error.clear()
            yield item
        progress.done = True
        if last_error:
            raise last_error.pop()

    return restarting(run) if last_error else items


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
            " out seed and generator to take the seed of the state"
        )
