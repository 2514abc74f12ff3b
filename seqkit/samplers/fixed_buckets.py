"""`FixedBucketSampler`: batches of samples of similar length, from buckets."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..core.arguments import as_batch_size, as_flag, as_last, number_at_least
from ..core.indices import IndexArray, Indices, as_array, as_slice
from ..core.once import cached
from ..core.plain import plain
from ..core.view import View
from ..views.batch import batch
from ..views.concatenate import concatenate
from ..views.gather import gather
from ..views.shuffle import shuffle
from .bucket_keys import ConstWidthBucket, as_bucket_keys, keys_of_scheme, smallest_fitting
from .grouped import GroupedBatches, LastGroup
from .lengths import Key, LengthArray, as_lengths, key_of_row

__all__ = ["FixedBucketSampler"]

Last = Literal["keep", "discard"]


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
        If lengths or keys are not numbers, an argument has the wrong type, `batch_sizes` is not a mapping, or
        `bucket_scheme` is not callable.
    ValueError
        If a number is out of range, a sample fits no bucket, or a flag is not a bool.

    Notes
    -----
    8 bytes per sample, and as much again while an epoch is read with ``shuffle=True``. Modelled on
    ``FixedBucketSampler`` of GluonNLP.

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
        bucket_scheme: Callable[[Any, Any, int], Any] | None = None,
        *,
        batch_sizes: Mapping[Any, int] | None = None,
        last: Last = "keep",
        last_group: LastGroup = "overlap",
        seed: int | None = None,
    ) -> None:
        super().__init__(seed, num_shards, last_group)
        self.batch_size = as_batch_size(batch_size, "FixedBucketSampler")
        self.ratio = number_at_least(ratio, "FixedBucketSampler: ratio", 0)
        self.shuffle = as_flag(shuffle, "FixedBucketSampler: shuffle")
        self.use_average_length = as_flag(use_average_length, "FixedBucketSampler: use_average_length")
        if self.use_average_length and ratio:
            raise ValueError(
                "FixedBucketSampler: use_average_length=True determines the batch sizes, but got"
                f" ratio={ratio}. Pass only one of them."
            )
        self.last: Last = as_last(last, "FixedBucketSampler: last", allowed=("keep", "discard"))
        table = as_lengths(lengths, "FixedBucketSampler: lengths")
        if bucket_keys is None:
            scheme = ConstWidthBucket() if bucket_scheme is None else bucket_scheme
            bucket_keys = keys_of_scheme(table, scheme, num_buckets)
        if batch_sizes is not None and not isinstance(batch_sizes, Mapping):
            raise TypeError(
                f"FixedBucketSampler: batch_sizes must be a mapping of bucket keys to ints or None, got"
                f" {batch_sizes!r}"
            )
        self._num_samples = self._covered = len(table)
        self._buckets = self._filled(table, as_bucket_keys(bucket_keys, table), batch_sizes or {})

    def _filled(self, table: LengthArray, keys: LengthArray, sizes: Mapping[Any, int]) -> list[_Bucket]:
        """Return the buckets that are not empty, the greatest key first."""
        names = [key_of_row(key) for key in keys]
        sizes = {plain(key): size for key, size in sizes.items()}
        if unknown := [key for key in sizes if key not in names]:
            raise ValueError(
                f"FixedBucketSampler: batch_sizes must be for bucket keys, got {unknown[0]!r}; the keys are"
                f" {reprlib.repr(names)}"
            )
        fitting = smallest_fitting(table, keys)
        by_bucket = np.argsort(fitting, kind="stable")
        filled, starts = np.unique(fitting[by_bucket], return_index=True)
        greatest = keys[filled].sum(axis=1).max(initial=0)
        buckets = []
        for number, ids in zip(filled.tolist(), np.split(by_bucket, starts)[1:], strict=True):
            key = names[number]
            size = sizes.get(key)
            if size is None:
                size = self._rule(keys[number].sum(), greatest, table[ids])
            buckets.append(_Bucket(key, ids, as_batch_size(size, "FixedBucketSampler: batch_sizes")))
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
            return Evaluated(shuffle(bucket.ids, self.seed, name=f"bucket {bucket.key}"))
        return gather(range(self._num_samples), bucket.ids)


class Evaluated(View[int]):
    """The view of the ints of a shuffled array, which is evaluated whole at the first read, and kept.

    A long permutation is evaluated in blocks, and only the last block is kept. Batches in random order would
    evaluate a block each.
    """

    def __init__(self, source: View[int]) -> None:
        super().__init__((source,))

    @cached
    def _values(self) -> IndexArray:
        return np.asarray(self._sources[0]._getmany(range(len(self))))

    def _get(self, i: int) -> int:
        return int(self._values[i])

    def _getmany(self, indices: Indices) -> Sequence[int]:
        where = as_slice(indices) if isinstance(indices, range) else as_array(indices)
        return self._values[where].tolist()  # type: ignore[no-any-return]

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[int]:
        return Evaluated(sources[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return Evaluated, self._sources  # without the values


@dataclass(frozen=True)
class _Bucket:
    """The samples up to one length."""

    key: Key
    ids: IndexArray
    batch_size: int
