"""`FixedBucketSampler`: batches of samples of similar length, from buckets."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ..core.arguments import (
    as_bool,
    as_last,
    check_callable,
    number_at_least,
    positive_int,
)
from ..core.indices import IndexArray
from ..core.plain import plain
from ..core.view import View
from ..views.batch import batch
from ..views.concatenate import concatenate
from ..views.gather import gather
from ..views.shuffle import shuffle
from .bucket_keys import ConstWidthBucket, smallest_fitting
from .grouped import GroupedBatches, LastGroup
from .keys import Key, LengthArray, as_lengths, key_of_row
from .random_order import in_blocks

__all__ = ["FixedBucketSampler"]

Last = Literal["keep", "discard"]
Scheme = Callable[[Any, Any, int], list[Any]]


class FixedBucketSampler(GroupedBatches):
    """Batches of samples of similar length: each batch is from one bucket, which holds the samples up to
    some length.

    Parameters
    ----------
    lengths : sequence or array of numbers
        Length of every sample, such as tokens or seconds (0 or more), read by position. If samples have
        several parts that are padded separately: tuples of lengths, or an array of two dimensions.
    batch_size : int
        Samples per batch (1 or more); with `use_average_length`, elements per batch.
    num_buckets : int
        Number of buckets that `bucket_scheme` makes (1 or more). Empty buckets are left out.
    bucket_keys : sequence of numbers or of tuples, optional
        The greatest length in each bucket, in place of `num_buckets`. A sample is in the bucket where it is
        padded least.
    ratio : float
        0 or more. Short buckets have larger batches: of ``ratio * batch_size * longest / key`` samples, but
        at least `batch_size`. `key` is the key of the bucket, or its sum if it is a tuple. `longest` is the
        greatest key. A bucket with key 0 has batches of `batch_size` samples.
    shuffle : bool
        True: batches in random order, of samples that are shuffled within their bucket. False (the
        default): the bucket of the longest samples comes first.
    use_average_length : bool
        Make batches of ``batch_size / (mean + deviation)`` samples, at least 1. They are the mean and the
        standard deviation of the lengths in the bucket. A bucket of samples of length 0 has batches of
        `batch_size` samples. It excludes `ratio`.
    bucket_scheme : callable, optional
        Called with the greatest length, the least length, and `num_buckets`. Returns keys.
        `ConstWidthBucket` by default; there are also `LinearWidthBucket` and `ExpWidthBucket`.
    batch_sizes : mapping, optional
        Samples per batch for some keys, in place of the rules above.
    last : "keep" or "discard"
        What to do with samples that do not fill the last batch of their bucket.
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
        If lengths or keys are not numbers, or an argument has the wrong type.
    ValueError
        If a number is out of range, a sample fits no bucket, a flag is not a bool, or `ratio` enlarges no
        batch.

    Notes
    -----
    8 bytes per sample, and with ``shuffle=True`` a list of the samples of each bucket that is being read.
    Modelled on ``FixedBucketSampler`` of GluonNLP.

    Examples
    --------
    >>> sampler = FixedBucketSampler([3, 9, 2, 8, 4], batch_size=2, num_buckets=2)
    >>> sampler.bucket_keys, list(sampler)
    ([5, 9], [[1, 3], [0, 2], [4]])
    >>> print(sampler.stats())
    FixedBucketSampler: 5 samples, 3 batches
    key 5: 3 samples, 2 per batch
    key 9: 2 samples, 2 per batch
    """

    def __init__(
        self,
        lengths: Any,
        batch_size: int,
        num_buckets: int = 10,
        bucket_keys: Any = None,
        ratio: float = 0,
        shuffle: bool = False,
        use_average_length: bool = False,
        num_shards: int = 0,
        bucket_scheme: Scheme | None = None,
        *,
        batch_sizes: Mapping[Any, int] | None = None,
        last: Last = "keep",
        last_group: LastGroup = "overlap",
        seed: int | None = None,
    ) -> None:
        super().__init__(seed, num_shards, last_group)
        self.batch_size = positive_int(batch_size, "FixedBucketSampler: batch_size")
        self.ratio = number_at_least(ratio, "FixedBucketSampler: ratio", 0)
        self.shuffle = as_bool(shuffle, "FixedBucketSampler: shuffle")
        self.use_average_length = as_bool(use_average_length, "FixedBucketSampler: use_average_length")
        self.last: Last = as_last(last, "FixedBucketSampler: last", allowed=("keep", "discard"))
        table = as_lengths(lengths, "FixedBucketSampler: lengths")
        if bucket_keys is None:
            num_buckets = positive_int(num_buckets, "FixedBucketSampler: num_buckets")
            scheme = ConstWidthBucket() if bucket_scheme is None else bucket_scheme
            check_callable(scheme, "FixedBucketSampler: bucket_scheme")
            bucket_keys = []
            if len(table):
                most, least = key_of_row(table.max(axis=0)), key_of_row(table.min(axis=0))
                bucket_keys = scheme(most, least, num_buckets)
        keys = as_lengths(bucket_keys, "FixedBucketSampler: bucket_keys")
        if len(table) and len(keys) and keys.shape[1] != table.shape[1]:
            raise ValueError(
                f"FixedBucketSampler: bucket_keys must have {table.shape[1]} number(s) each, as lengths have,"
                f" got {reprlib.repr(bucket_keys)}"
            )
        self._num_samples = len(table)
        self._buckets = self._filled(table, np.unique(keys, axis=0), dict(batch_sizes or {}))
        is_used = len(self._buckets) < 2 or {*self.batch_sizes.values()} != {self.batch_size}
        if self.ratio and (self.use_average_length or not is_used):
            raise ValueError(
                f"FixedBucketSampler: ratio={ratio} has no effect on the batch sizes {self.batch_sizes}. Pass"
                " a greater ratio without use_average_length, or leave it out."
            )

    def _filled(self, table: LengthArray, keys: LengthArray, sizes: dict[Any, int]) -> list[_Bucket]:
        """Return the buckets that are not empty, the greatest key first."""
        names = [key_of_row(key) for key in keys]
        sizes = {plain(key): size for key, size in sizes.items()}
        if unknown := [key for key in sizes if key not in names]:
            raise ValueError(
                f"FixedBucketSampler: batch_sizes must be for bucket keys, got {unknown[0]!r}; the keys are"
                f" {reprlib.repr(names)}"
            )
        fitting = smallest_fitting(table, keys)
        greatest = keys[fitting].sum(axis=1).max(initial=0)
        by_bucket = np.argsort(fitting, kind="stable")
        filled, starts = np.unique(fitting[by_bucket], return_index=True)
        buckets = []
        for number, ids in zip(filled.tolist(), np.split(by_bucket, starts)[1:], strict=True):
            size = sizes.get(names[number])
            if size is None:
                size = self._rule(keys[number].sum(), greatest, table[ids])
            size = positive_int(size, "FixedBucketSampler: batch_sizes")
            buckets.append(_Bucket(names[number], ids, size))
        return buckets[::-1]

    def _rule(self, width: float, greatest: float, lengths: LengthArray) -> int:
        """Return the number of samples per batch, from the width and the lengths of the bucket."""
        if not width or not lengths.any():
            return self.batch_size
        if self.use_average_length:
            return max(int(self.batch_size / (lengths.mean() + lengths.std())), 1)
        return max(int(greatest / width * self.ratio * self.batch_size), self.batch_size)

    @property
    def bucket_keys(self) -> list[Key]:
        """The keys of the buckets that are not empty, ascending."""
        return [bucket.key for bucket in reversed(self._buckets)]

    @property
    def batch_sizes(self) -> dict[Key, int]:
        """Samples in a full batch of each bucket."""
        return {bucket.key: bucket.batch_size for bucket in reversed(self._buckets)}

    def stats(self) -> str:
        """Return a text with the number of samples in each bucket and in a batch of it."""
        lines = [f"FixedBucketSampler: {self._num_samples} samples, {len(self.batches)} batches"]
        for bucket in reversed(self._buckets):
            lines.append(f"key {bucket.key}: {len(bucket.ids)} samples, {bucket.batch_size} per batch")
        return "\n".join(lines)

    @property
    def batches(self) -> View[list[int]]:
        """The batches of an epoch as a view."""
        batches: View[list[int]] = concatenate(
            batch(self._samples(bucket), bucket.batch_size, self.last == "discard")
            for bucket in self._buckets
        )
        return shuffle(batches, self.seed, name="batches") if self.shuffle else batches

    def _samples(self, bucket: _Bucket) -> View[int]:
        """Return the samples of a bucket in an epoch as a view."""
        if self.shuffle:
            n = len(bucket.ids)
            return in_blocks(partial(_shuffled, bucket.ids), n, self.seed, f"bucket {bucket.key}", n)
        return gather(range(self._num_samples), bucket.ids)


def _shuffled(ids: IndexArray, rng: np.random.Generator, count: int) -> IndexArray:
    return rng.permutation(ids)


@dataclass(frozen=True)
class _Bucket:
    """The samples up to one length."""

    key: Key
    ids: IndexArray
    batch_size: int
