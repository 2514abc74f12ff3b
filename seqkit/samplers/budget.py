"""Batches by a budget of tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from ..core.arguments import as_bool, number_at_least, optional_number, positive_int
from ..core.indices import IndexArray
from ..core.plain import plain
from ..core.source import as_view, view
from ..core.view import View
from ..views.batch import batch
from ..views.gather import gather
from ..views.shuffle import shuffle
from ..views.smap import smap
from ..views.split import split
from .base import NestedSampler
from .distributed import world_of
from .grouped import GroupedBatches, LastGroup
from .keys import as_key, as_lengths
from .random_order import in_blocks

__all__ = ["BudgetBatchSampler", "TokenBudgetBatchSampler"]


class TokenBudgetBatchSampler(GroupedBatches):
    """Batches of as many samples as fit into a budget of tokens, padding included.

    A batch costs its number of samples times its greatest length.

    Parameters
    ----------
    lengths : sequence or array of numbers
        Length of every sample in tokens, or its duration in seconds (0 or more), read by position. The
        greatest counts if it is a tuple of lengths.
    max_tokens : float, optional
        Largest cost of a batch, above 0.
    max_samples : int, optional
        Most samples in a batch (1 or more). At least one of the two limits must be given.
    multiple : int
        The number of samples in a batch is a multiple of this, or less than this (1 or more).
    sort : bool
        True (the default): batches of samples of similar length. False: batches of neighbours.
    shuffle : bool
        True: batches in random order, and with `sort` samples of the same length in random order.
    oversize : "error" or "alone"
        What to do with a sample longer than `max_tokens`: raise ValueError now (the default), or give it a
        batch of its own, which exceeds the budget.
    num_shards : int
        Batches per list, one for each device. 0 (the default): single batches.
    last_group : "overlap", "discard" or "fewer"
        What to do with batches that do not fill the last list of `num_shards`. "overlap" (the default)
        completes the list with earlier batches, "discard" leaves it out, "fewer" makes it shorter.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If lengths are not numbers, or an argument has the wrong type.
    ValueError
        If a number is out of range, a flag is not a bool, there is no limit, or a sample exceeds the budget.

    Notes
    -----
    The batches are determined once, in one pass over the lengths, so `len` is the same in every epoch. 16
    bytes per sample. Modelled on the batching by tokens of fairseq and ``BoundedBudgetSampler`` of
    GluonNLP.

    Examples
    --------
    >>> list(TokenBudgetBatchSampler([3, 9, 2, 8, 4], max_tokens=12))
    [[2, 0, 4], [3], [1]]
    >>> list(TokenBudgetBatchSampler([3, 9, 2, 8, 4], max_tokens=18, sort=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        lengths: Any,
        max_tokens: int | None = None,
        max_samples: int | None = None,
        multiple: int = 1,
        *,
        sort: bool = True,
        shuffle: bool = False,
        oversize: Literal["error", "alone"] = "error",
        num_shards: int = 0,
        last_group: LastGroup = "overlap",
        seed: int | None = None,
    ) -> None:
        super().__init__(seed, num_shards, last_group)
        self._budget = Budget("TokenBudgetBatchSampler", max_tokens, max_samples, oversize, multiple)
        self.max_tokens, self.max_samples, self.multiple = max_tokens, max_samples, multiple
        self.sort = as_bool(sort, "TokenBudgetBatchSampler: sort")
        self.shuffle = as_bool(shuffle, "TokenBudgetBatchSampler: shuffle")
        self._lengths = as_lengths(lengths, "TokenBudgetBatchSampler: lengths").max(axis=1)
        samples = np.argsort(self._lengths, kind="stable") if self.sort else np.arange(len(self._lengths))
        keys = zip(samples.tolist(), self._lengths[samples].tolist(), strict=True)
        self._edges = np.cumsum([0, *map(len, self._budget.groups(keys))])

    @property
    def batches(self) -> View[list[int]]:
        """The batches of an epoch as a view."""
        n = len(self._lengths)
        samples: View[int] = view(range(n))
        if n == 0:
            return batch(samples, 1)
        if self.sort and self.shuffle:
            samples = in_blocks(self._sorted, n, self.seed, "samples", n)
        elif self.sort:
            samples = gather(samples, np.argsort(self._lengths, kind="stable"))
        batches = smap(list, split(samples, np.stack([self._edges[:-1], self._edges[1:]], axis=1)))
        return shuffle(batches, self.seed, name="batches") if self.shuffle else batches

    def _sorted(self, rng: np.random.Generator, count: int) -> IndexArray:
        """Return all samples in ascending length, those of one length in random order."""
        drawn = rng.permutation(count)
        return drawn[np.argsort(self._lengths[drawn], kind="stable")]


class BudgetBatchSampler(NestedSampler):
    """Batches of successive keys of any sampler, as many as fit into a budget of tokens, padding included.

    A batch costs its number of samples times its greatest length.

    Parameters
    ----------
    sampler : iterable
        Indices or keys. It may be endless. It is read lazily, and iterated again for every epoch.
    lengths : sequence, mapping or callable
        ``lengths[key]``, or ``lengths(key)``, is the length of a sample in tokens, or its duration in seconds
        (0 or more). Arrays, tensors and columns of tables are indexed by position.
    max_tokens : float, optional
        Largest cost of a batch, above 0.
    max_samples : int, optional
        Most samples in a batch (1 or more). At least one of the two limits must be given.
    oversize : "error" or "alone"
        What to do with a sample longer than `max_tokens`: raise ValueError when it is drawn (the default),
        or give it a batch of its own, which exceeds the budget.

    Raises
    ------
    TypeError
        If `sampler` is not iterable, `lengths` can neither be indexed nor called, or a limit has the wrong
        type. While it is read, if a length is not a number.
    ValueError
        If a limit is out of range, there is none, `oversize` is unknown, or `sampler` is the share of one of
        several processes. While it is read, if a length is negative or NaN.

    Notes
    -----
    It has no length, because the keys determine where a batch ends. `TokenBudgetBatchSampler` knows all
    lengths in advance, sorts by them, and has a length. To divide batches between processes, wrap it in
    `ShardedSampler`. Modelled on ``BoundedBudgetSampler`` of GluonNLP.

    Examples
    --------
    >>> list(BudgetBatchSampler(range(5), [3, 9, 2, 8, 4], max_tokens=18))
    [[0, 1], [2, 3], [4]]
    >>> list(BudgetBatchSampler(iter(["a", "bb", "cccc"]), len, max_tokens=4))
    [['a', 'bb'], ['cccc']]
    """

    def __init__(
        self,
        sampler: Iterable[Any],
        lengths: Any,
        max_tokens: int | None = None,
        max_samples: int | None = None,
        *,
        oversize: Literal["error", "alone"] = "error",
    ) -> None:
        super().__init__(sampler)
        if world_of(sampler) > 1:
            raise ValueError(
                "BudgetBatchSampler: sampler is the share of one of several processes, which would have"
                " different numbers of batches. Share the batches instead:"
                " ShardedSampler(BudgetBatchSampler(sampler, lengths, …), num_replicas, rank, even='pad')"
            )
        if not callable(lengths):
            is_mapping = isinstance(lengths, Mapping)
            lengths = (lengths if is_mapping else as_view(lengths, "BudgetBatchSampler: lengths")).__getitem__
        self._length_of = lengths
        self.max_tokens, self.max_samples = max_tokens, max_samples
        self._budget = Budget("BudgetBatchSampler", max_tokens, max_samples, oversize)

    def _drawn(self, keys: Iterator[Any]) -> Iterator[list[Any]]:
        return self._budget.groups(self._with_lengths(keys))

    def _with_lengths(self, keys: Iterator[Any]) -> Iterator[tuple[Any, float]]:
        for key in keys:
            key = as_key("BudgetBatchSampler: keys", key)
            yield key, number_at_least(self._length_of(key), "BudgetBatchSampler: lengths", 0)


class Budget:
    """The limits of a batch, and how successive keys are grouped within them."""

    def __init__(
        self, who: str, max_tokens: float | None, max_samples: int | None, oversize: str, multiple: int = 1
    ) -> None:
        if max_tokens is None and max_samples is None:
            raise ValueError(f"{who}: max_tokens or max_samples must be given")
        optional_number(max_tokens, f"{who}: max_tokens", "tokens or seconds")
        if oversize not in ("error", "alone"):
            raise ValueError(f"{who}: oversize must be 'error' or 'alone', got {oversize!r}")
        self.who = who
        self.max_tokens = math.inf if max_tokens is None else plain(max_tokens)
        self.max_samples: float = math.inf
        if max_samples is not None:
            self.max_samples = positive_int(max_samples, f"{who}: max_samples")
        self.oversize = oversize
        self.multiple = positive_int(multiple, f"{who}: multiple")

    def groups(self, keys: Iterable[tuple[Any, float]]) -> Iterator[list[Any]]:
        """Group successive keys, as many as fit. Each key comes with its length.

        Above `multiple` keys, a group has a multiple of them. The rest begins the next group.

        >>> budget = Budget("test", max_tokens=18, max_samples=9, oversize="error")
        >>> list(budget.groups(zip("abcde", [3, 9, 2, 8, 4])))
        [['a', 'b'], ['c', 'd'], ['e']]
        """
        group: list[Any] = []
        lengths: list[float] = []
        longest = 0.0
        for key, length in keys:
            if length > self.max_tokens and self.oversize == "error":
                raise ValueError(
                    f"{self.who}: lengths must be at most max_tokens={self.max_tokens}, got {length} for"
                    f" sample {key!r}. With oversize='alone' such a sample is a batch of its own."
                )
            longest = max(longest, length)
            while group and (len(group) == self.max_samples or (len(group) + 1) * longest > self.max_tokens):
                count = self._whole(group)
                yield group[:count]
                group, lengths = group[count:], lengths[count:]
                longest = max([*lengths, length])
            group.append(key)
            lengths.append(length)
        while group:
            count = self._whole(group)
            yield group[:count]
            group = group[count:]

    def _whole(self, group: list[Any]) -> int:
        """Return how many keys of a group make a batch."""
        return len(group) // self.multiple * self.multiple or len(group)
