"""Where an epoch of a loader begins, how far its consumer is, and the keys that a sampler gives in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..core.set_epoch import has_method
from ..core.view import View
from ..samplers.base import Sampler
from .state_checks import key_digest

__all__ = ["DrawnKeys", "Position", "Start", "load_sampler_state"]


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
    """

    epoch: int = 0
    batch: int = 0
    key: str | None = None
    samples: int | None = None


class DrawnKeys(Iterator[Any]):
    """The keys of an epoch. Workers draw them from the sampler ahead of the consumer.

    Parameters
    ----------
    keys : iterator
    remembers : bool
        Whether `last` is needed.
    """

    def __init__(self, keys: Iterator[Any], remembers: bool) -> None:
        self._keys = keys
        # The key of the last batch that was read, and those of batches that were not read yet.
        self._waiting: deque[Any] | None = deque([None]) if remembers else None
        self._was_interrupted = False

    def __next__(self) -> Any:
        if self._was_interrupted:
            raise RuntimeError(
                "DataLoader: the sampler was interrupted, so this epoch cannot go on. Begin another one."
            )
        try:
            key = next(self._keys)
        except KeyboardInterrupt:
            self._was_interrupted = True
            raise
        if self._waiting is not None:
            self._waiting.append(key)
        return key

    def count(self, batches: int) -> None:
        """Notice that batches were read."""
        if self._waiting is not None:
            for _ in range(min(batches, len(self._waiting) - 1)):
                self._waiting.popleft()

    def last(self) -> Any:
        """Return the key of the last batch that was read."""
        return None if self._waiting is None else self._waiting[0]


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
    in_view : View or None
        The keys that are a part of the view that is read: those of samples, unless the batches are given.
    keys : DrawnKeys or None
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
    in_view: View[Any] | None
    keys: DrawnKeys | None
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
