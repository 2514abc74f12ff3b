"""Batches by a budget of tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from ..checks import as_flag, positive_int
from ..view import View, view
from ..views.batch import batch
from ..views.gather import gather
from ..views.shuffle import shuffle
from ..views.smap import smap
from ..views.split import split
from .grouped import GroupedBatches, LastGroup
from .lengths import as_lengths
from .order import in_blocks

__all__ = ["TokenBudgetBatchSampler"]


class TokenBudgetBatchSampler(GroupedBatches):
    """Batches of as many samples as fit into a budget of tokens, padding included.

    A batch costs its number of samples times its greatest length.

    Parameters
    ----------
    lengths : sequence or array of int
        Length of every sample in tokens, at least 1; of a tuple of lengths the greatest counts.
    max_tokens : int, optional
        What a batch may cost, at least 1.
    max_samples : int, optional
        How many samples a batch may have, at least 1. At least one of the two must be given.
    multiple : int
        At least 1; a batch has a multiple of so many samples, or fewer than that.
    sort : bool
        Batch samples of similar length (the default). False: neighbours.
    shuffle : bool
        Batches in random order, and, if sorted, samples of one length in random order.
    oversize : "error" or "alone"
        What to do with a sample longer than `max_tokens`: refuse it now (the default), or give it a batch of
        its own, which exceeds the budget.
    num_shards : int
        Give lists of so many batches, one for each device. 0 (the default): single batches.
    last_group : "overlap", "discard" or "fewer"
        What becomes of batches that do not fill the last list of `num_shards`: the batches before complete it
        (the default), it is left out, or it is shorter.
    seed : int, optional
        At least 0. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If lengths or a number are no ints.
    ValueError
        If a number is out of range, a flag no bool, there is no limit, or a sample exceeds the budget.

    Notes
    -----
    Where batches are cut is decided once, in a pass over the lengths, so that `len` is the same in every
    epoch; 16 bytes per sample. After the batching by tokens of fairseq and ``BoundedBudgetSampler`` of
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
        if max_tokens is None and max_samples is None:
            raise ValueError("TokenBudgetBatchSampler: max_tokens or max_samples must be given")
        self.max_tokens = _as_limit(max_tokens, "TokenBudgetBatchSampler: max_tokens")
        self.max_samples = _as_limit(max_samples, "TokenBudgetBatchSampler: max_samples")
        self.multiple = positive_int(multiple, "TokenBudgetBatchSampler: multiple")
        self.sort = as_flag(sort, "TokenBudgetBatchSampler: sort")
        self.shuffle = as_flag(shuffle, "TokenBudgetBatchSampler: shuffle")
        if oversize not in ("error", "alone"):
            raise ValueError(
                f"TokenBudgetBatchSampler: oversize must be 'error' or 'alone', got {oversize!r}"
            )
        self._lengths = as_lengths(lengths, "TokenBudgetBatchSampler: lengths").max(axis=1)
        if oversize == "error":
            self._check_sizes()
        in_order = np.sort(self._lengths) if self.sort else self._lengths
        self._edges = np.fromiter(self._cuts(in_order.tolist()), np.int64)

    def _check_sizes(self) -> None:
        too_long = self._lengths > self.max_tokens
        if too_long.any():
            sample = int(too_long.argmax())
            raise ValueError(
                f"TokenBudgetBatchSampler: lengths must be at most max_tokens={self.max_tokens}, got"
                f" {self._lengths[sample]} for sample {sample}; oversize='alone' gives such samples batches"
                " of their own"
            )

    def _cuts(self, lengths: list[int]) -> Iterator[int]:
        """Yield where the batches begin, and at last where they end."""
        start = longest = 0
        for i, length in enumerate(lengths):
            longest = max(longest, length)
            while start < i and not self._fits(i + 1 - start, longest):
                yield start
                start += self._whole(i - start)
                longest = max(lengths[start : i + 1])
        while start < len(lengths):
            yield start
            start += self._whole(len(lengths) - start)
        yield len(lengths)

    def _fits(self, count: int, longest: int) -> bool:
        return count <= self.max_samples and count * longest <= self.max_tokens

    def _whole(self, count: int) -> int:
        """Return how many of so many samples make a batch."""
        return count // self.multiple * self.multiple or count

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

    def _sorted(self, rng: np.random.Generator, count: int) -> list[int]:
        """Return all samples in ascending length, those of one length in random order."""
        drawn = rng.permutation(count)
        order: list[int] = drawn[np.argsort(self._lengths[drawn], kind="stable")].tolist()
        return order


def _as_limit(value: Any, who: str) -> float:
    return math.inf if value is None else positive_int(value, who)
