"""Batches of samples of similar length, so that little is lost to padding."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..checks import as_batch_size, as_flag, check_callable, positive_int
from ..indices import IndexArray
from ..view import View
from ..views.batch import batch, unbatch
from ..views.concatenate import concatenate
from ..views.gather import gather
from ..views.shuffle import shuffle
from ..views.smap import smap
from .base import Order, SeededSampler, check_sequence
from .batches import Last
from .order import sort_order

__all__ = [
    "ConstWidthBucket",
    "ExpWidthBucket",
    "FixedBucketSampler",
    "LinearWidthBucket",
    "SortedBucketSampler",
    "TokenBudgetBatchSampler",
]

# A length, or the lengths of the parts of one sample; so also the key of a bucket, its greatest length.
Key = int | tuple[int, ...]
LengthArray = npt.NDArray[np.int64]
LastGroup = Literal["overlap", "discard", "fewer"]


# -------------------------------------------------------------------- schemes


class _BucketScheme:
    """Where buckets end, between the least length and the greatest."""

    def __call__(self, max_lengths: Any, min_lengths: Any, num_buckets: int) -> list[Any]:
        """Return the keys of at most `num_buckets` buckets, ascending; the last is the greatest length.

        Parameters
        ----------
        max_lengths, min_lengths : int, or tuple of int
            The greatest and the least length, of every part if samples have several.
        num_buckets : int
            How many buckets, at least 1.
        """
        num_buckets = positive_int(num_buckets, f"{type(self).__name__}: num_buckets")
        if isinstance(max_lengths, tuple):
            ends = [
                self._ends(most, least, num_buckets)
                for most, least in zip(max_lengths, min_lengths, strict=True)
            ]
            return list(dict.fromkeys(zip(*ends, strict=True)))
        return list(dict.fromkeys(self._ends(max_lengths, min_lengths, num_buckets)))

    def _ends(self, most: int, least: int, count: int) -> list[int]:
        ends = np.rint(self._exact(most, least, np.arange(1, count + 1)))
        ends[-1] = most
        ascending: list[int] = np.maximum.accumulate(np.clip(ends, least, most)).astype(np.int64).tolist()
        return ascending

    def _exact(self, most: int, least: int, numbers: LengthArray) -> npt.NDArray[np.float64]:
        """Return where the buckets that are numbered from 1 end."""
        raise NotImplementedError(f"{type(self).__name__} must define _exact(most, least, numbers)")


class ConstWidthBucket(_BucketScheme):
    """Buckets of one width, counted from the greatest length down.

    Notes
    -----
    The width is ``(1 + max - min) // num_buckets``, at least 1. After GluonNLP.

    Examples
    --------
    >>> ConstWidthBucket()(100, 1, 4), ConstWidthBucket()((10, 4), (1, 1), 2)
    ([25, 50, 75, 100], [(5, 2), (10, 4)])
    """

    def _exact(self, most: int, least: int, numbers: LengthArray) -> npt.NDArray[np.float64]:
        width = max((1 + most - least) // len(numbers), 1)
        return most - width * (len(numbers) - numbers).astype(np.float64)


class LinearWidthBucket(_BucketScheme):
    """Buckets whose width grows by the same amount from each to the next: short ones are narrow.

    Notes
    -----
    Bucket i, from 1 on, has the width ``1 + a * i``, where a is such that the last one ends at the greatest
    length. After GluonNLP.

    Examples
    --------
    >>> LinearWidthBucket()(100, 1, 4)
    [12, 32, 61, 100]
    """

    def _exact(self, most: int, least: int, numbers: LengthArray) -> npt.NDArray[np.float64]:
        count = len(numbers)
        growth = 2 * (most - least - count) / (count * (count + 1))
        return least + growth * numbers * (numbers + 1) / 2 + numbers


class ExpWidthBucket(_BucketScheme):
    """Buckets of which each is wider than the last by one factor: short ones are narrow.

    Parameters
    ----------
    bucket_len_step : float
        The factor, at least 1; 1 makes all of one width.

    Raises
    ------
    TypeError
        If `bucket_len_step` is no number.
    ValueError
        If it is below 1, or not finite.

    Notes
    -----
    After GluonNLP.

    Examples
    --------
    >>> ExpWidthBucket(2)(100, 1, 4), ExpWidthBucket(1.0)(100, 1, 4)
    ([8, 21, 47, 100], [26, 50, 75, 100])
    """

    def __init__(self, bucket_len_step: float = 1.1) -> None:
        self.bucket_len_step = _as_number(bucket_len_step, "ExpWidthBucket: bucket_len_step", 1)

    def _exact(self, most: int, least: int, numbers: LengthArray) -> npt.NDArray[np.float64]:
        count = len(numbers)
        growth = np.log(self.bucket_len_step)
        if growth == 0:
            return least + (most - least) * numbers / count
        # (step**i - 1) / (step**count - 1), with powers that cannot overflow.
        shorter = np.expm1(-growth * numbers) / np.expm1(-growth * count)
        return np.asarray(least + (most - least) * np.exp(growth * (numbers - count)) * shorter)


# -------------------------------------------------------------------- samplers


class _ShardedBatches(SeededSampler):
    """Batches whose order is known ahead, one by one or in groups of several, one for each device."""

    def __init__(self, seed: int | None, num_shards: int, last_group: LastGroup) -> None:
        super().__init__(seed)
        who = type(self).__name__
        self.num_shards = positive_int(num_shards, f"{who}: num_shards", least=0)
        if last_group not in ("overlap", "discard", "fewer"):
            raise ValueError(f"{who}: last_group must be 'overlap', 'discard' or 'fewer', got {last_group!r}")
        self.last_group: LastGroup = last_group

    def _batches(self, epoch: int) -> View[list[int]]:
        raise NotImplementedError(f"{type(self).__name__} must define _batches(epoch)")

    def _count(self) -> int:
        """Return how many batches there are."""
        raise NotImplementedError(f"{type(self).__name__} must define _count()")

    def order(self, epoch: int) -> View[Any] | None:
        """Return the batches of an epoch, or the groups of batches, as a view."""
        return self._grouped(self._batches(epoch))

    def _grouped(self, batches: View[list[int]]) -> View[Any]:
        n, count = self.num_shards, len(batches)
        if n == 0:
            return batches
        lacking = -count % n
        if lacking and self.last_group == "overlap":
            # The last group is the n last batches, or if there are fewer, these over and over.
            again = np.arange(count - n, count - n + lacking) % count
            whole = count - count % n
            batches = concatenate([batches[:whole], gather(batches, again), batches[whole:]])
        return batch(batches, n, self.last_group == "discard")

    def __len__(self) -> int:
        if self.num_shards == 0:
            return self._count()
        groups, rest = divmod(self._count(), self.num_shards)
        return groups + (rest > 0 and self.last_group != "discard")


class FixedBucketSampler(_ShardedBatches):
    """Batches of samples out of one bucket each, where a bucket has the samples up to some length.

    Parameters
    ----------
    lengths : sequence or array of int
        Length of every sample, at least 1; or a tuple of so many lengths for each, as an array of two
        dimensions: every part of a sample is padded on its own.
    batch_size : int
        Samples per batch, at least 1; with `use_average_length`, elements per batch.
    num_buckets : int
        How many buckets `bucket_scheme` makes, at least 1. Empty ones are left out.
    bucket_keys : sequence of int or of tuple, optional
        The greatest length in each bucket, instead of a number of them. A sample is in the bucket where it is
        padded least.
    ratio : float
        At least 0. Short buckets have larger batches: of ``ratio * batch_size * longest / key`` samples,
        where key is that of the bucket (its sum, if it is a tuple) and longest the greatest, but never of
        less than `batch_size`.
    shuffle : bool
        Batches in random order, of samples that are shuffled within their bucket. By default the bucket of
        the longest samples comes first.
    use_average_length : bool
        Let a batch have ``batch_size / (mean + deviation)`` samples, at least 1, by the mean and the standard
        deviation of the lengths in its bucket.
    num_shards : int
        Give lists of so many batches, one for each device. 0 (the default): single batches.
    bucket_scheme : callable, optional
        Called with the greatest length, the least one, and `num_buckets`; returns keys. `ConstWidthBucket` by
        default; there are `LinearWidthBucket` and `ExpWidthBucket`.
    batch_sizes : mapping, optional
        Samples per batch for some keys, in place of what the rules above say.
    last : "keep", "discard" or "rollover"
        What becomes of the samples that do not fill the last batch of their bucket. ``"rollover"``: the next
        epoch begins the bucket with them.
    last_group : "overlap", "discard" or "fewer"
        What becomes of batches that do not fill the last list of `num_shards`: the batches before complete it
        (the default), it is left out, or it is shorter.
    seed : int, optional
        At least 0. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If lengths, keys or a number are no ints, `batch_sizes` no mapping, or `bucket_scheme` not callable.
    ValueError
        If one is out of range, a sample fits no bucket, a flag is no bool, or arguments exclude each other.

    Notes
    -----
    8 bytes per sample, twice that while an epoch is read in random order. After ``FixedBucketSampler`` of
    GluonNLP.

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
        self.ratio = _as_number(ratio, "FixedBucketSampler: ratio", 0)
        self.shuffle = as_flag(shuffle, "FixedBucketSampler: shuffle")
        self.use_average_length = as_flag(use_average_length, "FixedBucketSampler: use_average_length")
        if self.use_average_length and ratio:
            raise ValueError(
                "FixedBucketSampler: use_average_length decides how large batches are; leave out"
                f" ratio={ratio}"
            )
        if last not in ("keep", "discard", "rollover"):
            raise ValueError(
                f"FixedBucketSampler: last must be 'keep', 'discard' or 'rollover', got {last!r}"
            )
        self.last: Last = last
        table = _as_lengths(lengths, "FixedBucketSampler: lengths")
        if bucket_keys is None:
            scheme = ConstWidthBucket() if bucket_scheme is None else bucket_scheme
            bucket_keys = _scheme_keys(table, scheme, num_buckets)
        if batch_sizes is not None and not isinstance(batch_sizes, Mapping):
            raise TypeError(
                f"FixedBucketSampler: batch_sizes must be a mapping of bucket keys to ints or None, got"
                f" {batch_sizes!r}"
            )
        self._num_samples = len(table)
        self._buckets = self._filled(table, _as_keys(bucket_keys, table), batch_sizes or {})

    def _filled(self, table: LengthArray, keys: LengthArray, sizes: Mapping[Any, int]) -> list[_Bucket]:
        """Return the buckets that are not empty, the greatest key first."""
        names = [_as_key(key) for key in keys]
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

    def _rule(self, width: int, greatest: int, lengths: LengthArray) -> int:
        """Return how many samples a batch has, by the width and the lengths of its bucket."""
        if self.use_average_length:
            return max(int(self.batch_size / (lengths.mean() + lengths.std())), 1)
        return max(int(greatest / width * self.ratio * self.batch_size), self.batch_size)

    @property
    def bucket_keys(self) -> list[Key]:
        """The keys of the buckets that are not empty, ascending."""
        return [bucket.key for bucket in reversed(self._buckets)]

    @property
    def batch_sizes(self) -> dict[Key, int]:
        """How many samples a full batch of each bucket has."""
        return {bucket.key: bucket.batch_size for bucket in reversed(self._buckets)}

    def stats(self) -> str:
        """Return a text that says how many samples each bucket has, and how many are in a batch of it."""
        lines = [f"FixedBucketSampler: {self._num_samples} samples, {self._count()} batches"]
        for bucket in reversed(self._buckets):
            lines.append(f"key {bucket.key}: {len(bucket.ids)} samples, {bucket.batch_size} per batch")
        return "\n".join(lines)

    def order(self, epoch: int) -> View[Any] | None:
        """Return the batches of an epoch, or the groups of batches, as a view; None with rollover."""
        return None if self.last == "rollover" else super().order(epoch)

    def _samples(self, bucket: _Bucket, epoch: int) -> View[int]:
        """Return the samples that a bucket has in an epoch, those carried over first."""
        members = bucket.ids
        if self.shuffle:
            members = members[_permutation(len(members), self.seed, epoch, f"bucket {bucket.key}")]
        ids = gather(range(self._num_samples), members)
        return concatenate([bucket.carried, ids]) if bucket.carried else ids

    def _batches(self, epoch: int) -> View[list[int]]:
        batches: View[list[int]] = concatenate(
            batch(self._samples(bucket, epoch), bucket.batch_size, self.last != "keep")
            for bucket in self._buckets
        )
        return shuffle(batches, self.seed, epoch, name="batches") if self.shuffle else batches

    def _count(self) -> int:
        return sum(bucket.count(self.last) for bucket in self._buckets)

    def _draw(self, epoch: int) -> Iterator[Any]:
        if self.last != "rollover":
            return super()._draw(epoch)
        left = [bucket.left(self._samples(bucket, epoch)) for bucket in self._buckets]
        return self._rolling(self._grouped(self._batches(epoch)), left)

    def _rolling(self, batches: View[Any], left: list[list[int]]) -> Iterator[Any]:
        yield from batches
        for bucket, samples in zip(self._buckets, left, strict=True):
            bucket.carried = samples

    def state_dict(self) -> dict[str, Any]:
        """Return what the next epoch depends on: its number, and the samples carried over to it by key."""
        carried = {bucket.key: list(bucket.carried) for bucket in self._buckets if bucket.carried}
        return {**super().state_dict(), "carried": carried}

    def _restore(self, state: Mapping[str, Any]) -> None:
        carried = {key: list(samples) for key, samples in state["carried"].items()}
        for key, samples in carried.items():
            size = self.batch_sizes.get(key, 0) if self.last == "rollover" else 0
            if len(samples) >= size:
                raise ValueError(
                    f"FixedBucketSampler: the state carries {len(samples)} samples of bucket {key} over,"
                    f" which does not go with last={self.last!r} and batch sizes {self.batch_sizes}"
                )
        super()._restore(state)
        for bucket in self._buckets:
            bucket.carried = carried.get(bucket.key, [])


@dataclass
class _Bucket:
    """The samples up to one length, and those of them that await the next epoch."""

    key: Key
    ids: IndexArray
    batch_size: int
    carried: list[int] = field(default_factory=list)

    def count(self, last: Last) -> int:
        """Return how many batches there are in an epoch."""
        n = len(self.carried) + len(self.ids)
        return -(-n // self.batch_size) if last == "keep" else n // self.batch_size

    def left(self, samples: View[int]) -> list[int]:
        """Return the samples that fill no batch."""
        return list(samples[len(samples) // self.batch_size * self.batch_size :])


class SortedBucketSampler(_ShardedBatches):
    """Batches cut from runs of samples that are sorted by length.

    Parameters
    ----------
    sort_keys : sequence or one-dimensional array
        Of anything that compares with ``<``, one key per sample.
    batch_size : int
        Samples per batch, at least 1.
    mult : float
        At least 1; a run has ``int(mult * batch_size)`` samples.
    reverse : bool
        The greatest key of a run first (the default).
    shuffle : bool
        Runs of samples drawn from all, and the batches of each run in random order. By default runs are of
        neighbours.
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
        If `sort_keys` is no sequence, or a number none.
    ValueError
        If a number is out of range, a flag no bool, or `last_group` unknown.

    Notes
    -----
    One run is sorted at a time, when a batch of it is drawn; batches do not reach across runs, so that the
    last one of a run may be short. After ``SortedBucketSampler`` of GluonNLP.

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
        check_sequence(sort_keys, "SortedBucketSampler: sort_keys")
        self._keys = sort_keys
        self.batch_size = as_batch_size(batch_size, "SortedBucketSampler")
        self.mult = _as_number(mult, "SortedBucketSampler: mult", 1)
        self.reverse = as_flag(reverse, "SortedBucketSampler: reverse")
        self.shuffle = as_flag(shuffle, "SortedBucketSampler: shuffle")
        self._run = int(self.mult * self.batch_size)
        self._batches_per_run = -(-self._run // self.batch_size)

    def _count(self) -> int:
        runs, rest = divmod(len(self._keys), self._run)
        return runs * self._batches_per_run + -(-rest // self.batch_size)

    def _batches(self, epoch: int) -> View[list[int]]:
        samples: Order = range(len(self._keys))
        if self.shuffle:
            samples = shuffle(samples, self.seed, epoch)
        runs = batch(samples, self._run)
        cut = smap(partial(self._cut, epoch), range(len(runs)), runs)
        return unbatch(cut, self._batches_per_run, self._count() % self._batches_per_run)

    def _cut(self, epoch: int, number: int, samples: list[int]) -> list[list[int]]:
        """Return the batches of one run."""
        keys = self._keys[samples] if isinstance(self._keys, np.ndarray) else [self._keys[i] for i in samples]
        order = sort_order(keys, self.reverse)
        batches = batch(gather(samples, order), self.batch_size)
        return list(shuffle(batches, self.seed, epoch, name=f"run {number}") if self.shuffle else batches)


class TokenBudgetBatchSampler(_ShardedBatches):
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
        self._lengths = _as_lengths(lengths, "TokenBudgetBatchSampler: lengths").max(axis=1)
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

    def _count(self) -> int:
        return len(self._edges) - 1

    def _samples(self, epoch: int) -> LengthArray:
        """Return the samples in the order in which they are cut into batches."""
        n = len(self._lengths)
        if not self.sort:
            return np.arange(n)
        if not self.shuffle:
            return np.argsort(self._lengths, kind="stable")
        drawn = _permutation(n, self.seed, epoch, "samples")
        return drawn[np.argsort(self._lengths[drawn], kind="stable")]

    def _batches(self, epoch: int) -> View[list[int]]:
        members = partial(_slice, self._samples(epoch))
        batches = smap(members, self._edges[:-1], self._edges[1:])
        return shuffle(batches, self.seed, epoch, name="batches") if self.shuffle else batches


def _permutation(n: int, seed: int, epoch: int, name: str) -> LengthArray:
    """Return a random order as an array: batches read it here and there, and a view is best in sequence."""
    return np.fromiter(shuffle(range(n), seed, epoch, name=name), np.int64, n)


def _slice(samples: LengthArray, start: int, stop: int) -> list[int]:
    members: list[int] = samples[start:stop].tolist()
    return members


# -------------------------------------------------------------------- arguments and lengths


def _as_limit(value: Any, who: str) -> float:
    return math.inf if value is None else positive_int(value, who)


def _as_number(value: Any, who: str, least: float) -> float:
    """Return a real number of at least `least`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{who} must be a number of at least {least}, got {value!r}")
    number = float(value)
    if not least <= number < math.inf:
        raise ValueError(f"{who} must be a number of at least {least}, got {value!r}")
    return number


def _as_lengths(lengths: Any, who: str) -> LengthArray:
    """Return lengths as a table: a row per sample, a column per part of it."""
    try:
        table = np.asarray(lengths)
    except ValueError:  # tuples of different size
        table = np.array(None)
    if table.size == 0 and table.ndim:
        return np.empty((0, 1), np.int64)
    if table.ndim not in (1, 2) or table.dtype.kind not in "iu":
        raise TypeError(f"{who} must be ints, or tuples of so many ints for all, got {reprlib.repr(lengths)}")
    table = table.reshape(len(table), -1).astype(np.int64)
    if (short := (table < 1).any(axis=1)).any():
        position = int(short.argmax())
        raise ValueError(f"{who} must be at least 1, got {_as_key(table[position])} at position {position}")
    return table


def _as_key(row: LengthArray) -> Key:
    return int(row[0]) if len(row) == 1 else tuple(row.tolist())


def _as_keys(bucket_keys: Any, lengths: LengthArray) -> LengthArray:
    """Return the keys of buckets, ascending, each once."""
    keys = _as_lengths(bucket_keys, "FixedBucketSampler: bucket_keys")
    if len(lengths) and len(keys) and keys.shape[1] != lengths.shape[1]:
        raise ValueError(
            f"FixedBucketSampler: bucket_keys must have {lengths.shape[1]} int(s) each, as lengths have, got"
            f" {reprlib.repr(bucket_keys)}"
        )
    return np.unique(keys, axis=0)


def _scheme_keys(lengths: LengthArray, scheme: Callable[[Any, Any, int], Any], num_buckets: Any) -> Any:
    num_buckets = positive_int(num_buckets, "FixedBucketSampler: num_buckets")
    check_callable(scheme, "FixedBucketSampler: bucket_scheme")
    if not len(lengths):
        return []
    return scheme(_as_key(lengths.max(axis=0)), _as_key(lengths.min(axis=0)), num_buckets)


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
            f"FixedBucketSampler: lengths must fit into a bucket, got {_as_key(lengths[sample])} for sample"
            f" {sample}; the keys are {reprlib.repr([_as_key(key) for key in keys])}"
        )
    return fitting
