"""Samplers: sources of indices, each `iter` one epoch.

They stand on their own and know nothing of loaders. An epoch's order is a pure function of
(seed, epoch), and the epoch advances with every `iter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from ..indices import positive_int
from ..randomness import as_seed, item_generator, node_key
from ..views.shuffle import shuffle
from .arguments import as_batch_size, as_flag, check_iterable

__all__ = ["BatchSampler", "RandomSampler", "SequentialSampler", "SubsetRandomSampler", "pass_epoch"]


class SequentialSampler:
    """The indices 0, 1, 2, … in order.

    Parameters
    ----------
    data_source : int or sized
        How many, or what to take the length of, anew in every epoch.

    Raises
    ------
    TypeError, ValueError
        If `data_source` is neither, or negative.

    Notes
    -----
    No memory. After ``torch.utils.data.SequentialSampler``.

    Examples
    --------
    >>> list(SequentialSampler("abc")), list(SequentialSampler(2))
    ([0, 1, 2], [0, 1])
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source
        _length(data_source, "SequentialSampler")

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return _length(self.data_source, "SequentialSampler")


class _EpochSampler:
    """A sampler with a seed, whose epoch advances with every `iter`."""

    def __init__(self, seed: int | None) -> None:
        self.seed = as_seed(seed, f"{type(self).__name__}: seed")
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next `iter` reads."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter` read epoch number `epoch`, at least 0."""
        self._epoch = positive_int(epoch, f"{type(self).__name__}: epoch", least=0)

    def __iter__(self) -> Iterator[Any]:
        epoch = self._epoch
        self._epoch += 1
        return self._draw(epoch)

    def _draw(self, epoch: int) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define _draw(epoch)")


class RandomSampler(_EpochSampler):
    """Indices in random order, or drawn with replacement.

    Parameters
    ----------
    data_source : int or sized
        How many indices to draw from, or what to take the length of, anew in every epoch.
    replacement : bool
        Draw every index from all of them. By default each occurs once, in random order.
    num_samples : int, optional
        Indices per epoch, at least 1. None (the default): as many as there are. More than that without
        replacement gives several whole permutations and a part of one.
    seed : int, optional
        At least 0. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If `data_source` has no length, `replacement` is no bool, or a number no int.
    ValueError
        If a number is out of range, or samples are wanted and there is nothing to draw from.

    Notes
    -----
    No memory at 65,536 indices and above (see `shuffle`); the order for a seed is that of
    ``shuffle(range(n), seed)``, not that of PyTorch. After ``torch.utils.data.RandomSampler``.

    Examples
    --------
    >>> sampler = RandomSampler(5, seed=0)
    >>> first, second = list(sampler), list(sampler)
    >>> sorted(first), first == second, sampler.epoch
    ([0, 1, 2, 3, 4], False, 2)
    >>> sampler.set_epoch(0)
    >>> list(sampler) == first
    True
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        seed: int | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(
                f"RandomSampler: replacement should be a boolean value, but got replacement={replacement!r}"
            )
        if num_samples is not None:
            num_samples = positive_int(num_samples, "RandomSampler: num_samples")
        super().__init__(seed)
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self._size()

    def _size(self) -> int:
        n = _length(self.data_source, "RandomSampler")
        if n == 0 and self._num_samples is not None:
            raise ValueError(
                f"RandomSampler: num_samples={self._num_samples} samples wanted, but data_source is empty"
            )
        return n

    def __len__(self) -> int:
        return self._size() if self._num_samples is None else self._num_samples

    def _draw(self, epoch: int) -> Iterator[int]:
        rounds = self._blocks(epoch) if self.replacement else self._permutations(epoch)
        return islice((i for indices in rounds for i in indices), len(self))

    def _permutations(self, epoch: int) -> Iterator[Iterable[int]]:
        n = self._size()
        for first in range(0, len(self), n or 1):
            yield shuffle(range(n), self.seed, epoch, name=f"round {first // n}" if first else None)

    def _blocks(self, epoch: int) -> Iterator[Iterable[int]]:
        n, key = self._size(), node_key("RandomSampler", self.seed, epoch, "replacement")
        for block in range(-(-len(self) // _BLOCK)):
            yield item_generator(key, block).integers(n, size=_BLOCK).tolist()


_BLOCK = 1024


class SubsetRandomSampler(_EpochSampler):
    """Given indices in random order.

    Parameters
    ----------
    indices : sequence
        Indices, or keys of any kind; arrays are kept as they are and give plain ints.
    seed : int, optional
        At least 0. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError, ValueError
        If `indices` cannot be indexed or has no length, or `seed` is no int or negative.

    Notes
    -----
    One lookup per index. After ``torch.utils.data.SubsetRandomSampler``.

    Examples
    --------
    >>> sorted(SubsetRandomSampler([7, 1, 4], seed=0))
    [1, 4, 7]
    """

    def __init__(self, indices: Any, seed: int | None = None) -> None:
        super().__init__(seed)
        self.indices = indices
        len(self._order(0))

    def __len__(self) -> int:
        return len(self.indices)

    def _order(self, epoch: int) -> Any:
        return shuffle(self.indices, self.seed, epoch)

    def _draw(self, epoch: int) -> Iterator[Any]:
        order = iter(self._order(epoch))
        return map(int, order) if isinstance(self.indices, np.ndarray) else order


class BatchSampler:
    """Lists of k successive indices of another sampler.

    Parameters
    ----------
    sampler : iterable
        Of indices or keys; may be endless, is read as batches are drawn, and anew in every epoch.
    batch_size : int
        Indices per batch, at least 1.
    drop_last : bool
        Leave out a last batch of fewer.

    Raises
    ------
    TypeError
        If `sampler` is not iterable.
    ValueError
        If `batch_size` is no positive int or `drop_last` no bool.

    Notes
    -----
    `len` needs that of `sampler`. After ``torch.utils.data.BatchSampler``.

    Examples
    --------
    >>> list(BatchSampler(range(5), 2)), len(BatchSampler(range(5), 2, drop_last=True))
    ([[0, 1], [2, 3], [4]], 2)
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool = False) -> None:
        check_iterable(sampler, "BatchSampler: sampler")
        self.sampler = sampler
        self.batch_size = as_batch_size(batch_size, "BatchSampler")
        self.drop_last = as_flag(drop_last, "BatchSampler: drop_last")

    def set_epoch(self, epoch: int) -> None:
        """Hand `epoch` to the sampler, if it has a ``set_epoch``."""
        pass_epoch(self.sampler, epoch)

    def __iter__(self) -> Iterator[list[Any]]:
        return self._batches(iter(self.sampler))

    def _batches(self, indices: Iterator[Any]) -> Iterator[list[Any]]:
        while batch := list(islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                break
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def pass_epoch(sampler: Any, epoch: int) -> None:
    """Tell a sampler which epoch comes next, if it wants to know."""
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)


def _length(data_source: Any, who: str) -> int:
    if hasattr(data_source, "__len__"):
        return len(data_source)
    return positive_int(data_source, f"{who}: data_source (an int, or anything with len)", least=0)
