"""Batches of samples of similar length, so that little is lost to padding."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ..core.arguments import as_batch_size, as_flag, as_last, check_callable, number_at_least, positive_int
from ..core.indices import IndexArray, Indices, as_array, as_slice
from ..core.once import cached
from ..core.plain import plain
from ..core.source import view
from ..core.tracebacks import warn
from ..core.view import View
from ..stores.add_cache.add_cache import add_cache
from ..views.batch import batch
from ..views.concatenate import concatenate
from ..views.gather.gather import gather
from ..views.random_map import random_map
from ..views.shuffle import shuffle
from ..views.smap.smap import smap
from ..views.unbatch import unbatch
from .base import Order
from .batches import Last
from .grouped import GroupedBatches, LastGroup
from .lengths import Key, LengthArray, as_key, as_lengths
from .order import as_sort_keys, sort_order
from .schemes import ConstWidthBucket

__all__ = ["FixedBucketSampler", "SortedBucketSampler"]


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
        `batch_size` samples. `ratio` then has no effect.
    bucket_scheme : callable, optional
        Called with the greatest length, the least length, and `num_buckets`. Returns keys.
        `ConstWidthBucket` by default; there are also `LinearWidthBucket` and `ExpWidthBucket`.
    batch_sizes : mapping, optional
        Samples per batch for some keys, in place of the rules above.
    last : "keep", "discard" or "rollover"
        What to do with samples that do not fill the last batch of their bucket. "rollover" puts them at the
        beginning of the bucket in the next epoch.
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
            warn(
                f"FixedBucketSampler: ratio={ratio} has no effect, because use_average_length=True"
                " determines the batch sizes",
                UserWarning,
            )
        self.last: Last = as_last(last, "FixedBucketSampler: last", allowed=("keep", "discard", "rollover"))
        table = as_lengths(lengths, "FixedBucketSampler: lengths")
        if bucket_keys is None:
            scheme = ConstWidthBucket() if bucket_scheme is None else bucket_scheme
            bucket_keys = _scheme_keys(table, scheme, num_buckets)
        if batch_sizes is not None and not isinstance(batch_sizes, Mapping):
            raise TypeError(
                f"FixedBucketSampler: batch_sizes must be a mapping of bucket keys to ints or None, got"
                f" {batch_sizes!r}"
            )
        self._num_samples = self._covered = len(table)
        self._buckets = self._filled(table, _as_keys(bucket_keys, table), batch_sizes or {})
        self._carried: list[list[int]] = [[] for _ in self._buckets]

    def _filled(self, table: LengthArray, keys: LengthArray, sizes: Mapping[Any, int]) -> list[_Bucket]:
        """Return the buckets that are not empty, the greatest key first."""
        names = [as_key(key) for key in keys]
        sizes = {plain(key): size for key, size in sizes.items()}
        if unknown := [key for key in sizes if key not in names]:
            raise ValueError(
                f"FixedBucketSampler: batch_sizes must be for bucket keys, got {unknown[0]!r}; the keys are"
                f" {reprlib.repr(names)}"
            )
        fitting = _smallest_fitting(table, keys)
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
        """The batches of an epoch as a view. With rollover, the samples that were carried over come first."""
        batches: View[list[int]] = concatenate(
            batch(samples, bucket.batch_size, self.last != "keep")
            for bucket, samples in zip(self._buckets, self._samples(), strict=True)
        )
        return shuffle(batches, self.seed, name="batches") if self.shuffle else batches

    def _samples(self) -> list[View[int]]:
        """Return the samples of each bucket in an epoch as a view, carried ones first."""
        samples = []
        for bucket, carried in zip(self._buckets, self._carried, strict=True):
            ids = gather(range(self._num_samples), bucket.ids)
            if self.shuffle:
                ids = Evaluated(shuffle(bucket.ids, self.seed, name=f"bucket {bucket.key}"))
            samples.append(concatenate([carried, ids]) if carried else ids)
        return samples

    def at_epoch(self, epoch: int) -> View[Any] | None:
        """Return the batches of an epoch, or the lists of batches, as a view. None with
        ``last="rollover"``."""
        return None if self.last == "rollover" else super().at_epoch(epoch)

    def _draw(self, epoch: int) -> Iterator[Any]:
        batches = super()._draw(epoch)
        if self.last != "rollover":
            return batches
        left = []
        for bucket, samples in zip(self._buckets, self._samples(), strict=True):
            left.append(samples.at_epoch(epoch)[len(samples) // bucket.batch_size * bucket.batch_size :])
        return chain(batches, self._carry_over(left))

    def _carry_over(self, left: list[View[int]]) -> Iterator[Any]:
        """Keep the samples that filled no batch, once all batches were read."""
        self._carried = [list(samples) for samples in left]
        yield from ()

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the next epoch, the seed, and the samples that were carried over."""
        return {**super().state_dict(), "carried": list(chain.from_iterable(self._carried))}

    def _restore(self, state: Mapping[str, Any]) -> None:
        samples = list(state["carried"])
        carried = [[i for i in samples if i in bucket] for bucket in self._buckets]
        for bucket, own in zip(self._buckets, carried, strict=True):
            if len(own) >= (bucket.batch_size if self.last == "rollover" else 1):
                raise ValueError(
                    f"FixedBucketSampler: the state carries {len(own)} samples of bucket {bucket.key} over,"
                    f" which does not go with last={self.last!r} and a batch size of {bucket.batch_size}"
                )
        if sum(map(len, carried)) != len(samples):
            raise ValueError(
                f"FixedBucketSampler: the state carries samples over that are not among {self._num_samples}"
                f" samples, got {reprlib.repr(samples)}"
            )
        super()._restore(state)
        self._carried = carried


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

    def __contains__(self, sample: object) -> bool:
        return sample in self.ids


class SortedBucketSampler(GroupedBatches):
    """Batches of neighbours in runs of samples that are sorted by length.

    Parameters
    ----------
    sort_keys : sequence or one-dimensional array
        One key per sample, of any type that compares with ``<``, read by position. A view is read when its
        runs are sorted, other keys now.
    batch_size : int
        Samples per batch (1 or more).
    mult : float
        1 or more. A run has ``int(mult * batch_size)`` samples.
    reverse : bool
        True (the default): the greatest key of a run comes first.
    shuffle : bool
        True: runs of samples drawn from all samples, and the batches of each run in random order. False
        (the default): runs of neighbours.
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
        If `sort_keys` is not a sequence, or a number is not a number.
    ValueError
        If a number is out of range, a flag is not a bool, or `last_group` is unknown.

    Notes
    -----
    A run is sorted when its first batch is read. Batches do not cross the ends of runs, so the last batch
    of a run may be short. Modelled on ``SortedBucketSampler`` of GluonNLP.

    Examples
    --------
    >>> list(SortedBucketSampler([3, 9, 2, 8, 4], batch_size=2, mult=2))
    [[1, 3], [0, 2], [4]]
    """

    def __init__(
        self,
        sort_keys: Order,
        batch_size: int,
        mult: float = 100,
        reverse: bool = True,
        shuffle: bool = False,
        num_shards: int = 0,
        *,
        last_group: LastGroup = "overlap",
        seed: int | None = None,
    ) -> None:
        super().__init__(seed, num_shards, last_group)
        # A view may compute its keys, so each run reads its own.
        is_lazy = isinstance(sort_keys, View)
        who = "SortedBucketSampler: sort_keys"
        self._keys = smap(plain, sort_keys) if is_lazy else as_sort_keys(sort_keys, who)
        self._covered = len(sort_keys)
        self.batch_size = as_batch_size(batch_size, "SortedBucketSampler")
        self.mult = number_at_least(mult, "SortedBucketSampler: mult", 1)
        self.reverse = as_flag(reverse, "SortedBucketSampler: reverse")
        self.shuffle = as_flag(shuffle, "SortedBucketSampler: shuffle")
        self._run = int(self.mult * self.batch_size)

    @property
    def batches(self) -> View[list[int]]:
        """The batches of an epoch as a view."""
        samples: View[int] = view(range(len(self._keys)))
        if self.shuffle:
            samples = shuffle(samples, self.seed)
        runs = batch(samples, self._run)
        # The batches of a run are cut, and kept, when the first of them is read.
        cut = (
            random_map(self._shuffled, runs, self.seed, name="runs")
            if self.shuffle
            else smap(self._cut, runs)
        )
        last = -(-(len(samples) % self._run) // self.batch_size)
        return unbatch(add_cache(cut, 1), -(-self._run // self.batch_size), last)

    def _cut(self, samples: list[int]) -> list[list[int]]:
        """Return the batches of one run."""
        keys = self._keys[samples] if isinstance(self._keys, np.ndarray) else [self._keys[i] for i in samples]
        return list(batch(gather(samples, sort_order(keys, self.reverse)), self.batch_size))

    def _shuffled(self, samples: list[int], rng: np.random.Generator) -> list[list[int]]:
        batches = self._cut(samples)
        return [batches[i] for i in rng.permutation(len(batches))]


# -------------------------------------------------------------------- keys of buckets


def _as_keys(bucket_keys: Any, lengths: LengthArray) -> LengthArray:
    """Return the keys of buckets, ascending, each once."""
    keys = as_lengths(bucket_keys, "FixedBucketSampler: bucket_keys")
    if len(lengths) and len(keys) and keys.shape[1] != lengths.shape[1]:
        raise ValueError(
            f"FixedBucketSampler: bucket_keys must have {lengths.shape[1]} number(s) each, as lengths have,"
            f" got {reprlib.repr(bucket_keys)}"
        )
    return np.unique(keys, axis=0)


def _scheme_keys(lengths: LengthArray, scheme: Callable[[Any, Any, int], Any], num_buckets: Any) -> Any:
    num_buckets = positive_int(num_buckets, "FixedBucketSampler: num_buckets")
    check_callable(scheme, "FixedBucketSampler: bucket_scheme")
    if not len(lengths):
        return []
    return scheme(as_key(lengths.max(axis=0)), as_key(lengths.min(axis=0)), num_buckets)


def _smallest_fitting(lengths: LengthArray, keys: LengthArray) -> LengthArray:
    """Return the number of the bucket of each sample: of those that hold it the one that pads it least."""
    different, which = np.unique(lengths, axis=0, return_inverse=True)
    found = np.full(len(different), -1)
    unplaced = np.arange(len(different))
    for number in np.argsort(keys.sum(axis=1), kind="stable"):  # padding grows with the sum of the key
        fits = (different[unplaced] <= keys[number]).all(axis=1)
        found[unplaced[fits]] = number
        unplaced = unplaced[~fits]
    fitting = found[which.reshape(-1)]
    if unplaced.size:
        sample = int((fitting < 0).argmax())
        raise ValueError(
            f"FixedBucketSampler: lengths must fit into a bucket, got {as_key(lengths[sample])} for sample"
            f" {sample}; the keys are {reprlib.repr([as_key(key) for key in keys])}"
        )
    return fitting
