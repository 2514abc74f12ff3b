"""The keys of buckets, which are the greatest lengths in them, and schemes that choose the keys."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arguments import number_at_least, positive_int
from .keys import LengthArray, key_of_row

__all__ = ["ConstWidthBucket", "ExpWidthBucket", "LinearWidthBucket", "smallest_fitting"]

Numbers = npt.NDArray[Any]


class BucketScheme:
    """Choose the greatest lengths of buckets, between the least and the greatest length of all samples."""

    def __call__(self, max_lengths: Any, min_lengths: Any, num_buckets: int) -> list[Any]:
        """Return the keys of at most `num_buckets` buckets, ascending. The last key is the greatest length.

        Parameters
        ----------
        max_lengths, min_lengths : number, or tuple of numbers
            The greatest and the least length, of every part if samples have several. Keys are ints if these
            are ints.
        num_buckets : int
            Number of buckets (1 or more).
        """
        count = positive_int(num_buckets, f"{type(self).__name__}: num_buckets")
        most, least = np.atleast_1d(max_lengths, min_lengths)
        dtype = np.result_type(most, least)
        is_whole = dtype.kind in "iu"
        ends = self._exact(most, least, np.arange(1, count + 1)[:, None], count, int(is_whole))
        ends[-1] = most
        ascending = np.maximum.accumulate(np.clip(np.rint(ends) if is_whole else ends, least, most))
        return list(dict.fromkeys(map(key_of_row, ascending.astype(dtype))))

    def _exact(self, most: Numbers, least: Numbers, numbers: Numbers, count: int, unit: int) -> Numbers:
        """Return the ends of the buckets with these numbers, counted from 1.

        `unit` is the distance between two neighbouring lengths: 1 for ints, 0 for floats.
        """
        raise NotImplementedError(f"{type(self).__name__} must define _exact(most, least, numbers, …)")


class ConstWidthBucket(BucketScheme):
    """Buckets of the same width, counted down from the greatest length.

    Notes
    -----
    The width is ``(1 + max - min) // num_buckets``, at least 1, and ``(max - min) / num_buckets`` for floats.
    Modelled on GluonNLP.

    Examples
    --------
    >>> ConstWidthBucket()(100, 1, 4), ConstWidthBucket()((10, 4), (1, 1), 2)
    ([25, 50, 75, 100], [(5, 2), (10, 4)])
    """

    def _exact(self, most: Numbers, least: Numbers, numbers: Numbers, count: int, unit: int) -> Numbers:
        width = np.maximum((1 + most - least) // count, 1) if unit else (most - least) / count
        return np.asarray(most - width * (count - numbers.astype(np.float64)))


class LinearWidthBucket(BucketScheme):
    """Buckets whose width grows by the same amount from each to the next: short ones are narrow.

    Notes
    -----
    Bucket i, counted from 1, has the width ``1 + a * i``, and ``a * i`` for floats. The amount a makes the
    last bucket end at the greatest length. Modelled on GluonNLP.

    Examples
    --------
    >>> LinearWidthBucket()(100, 1, 4)
    [12, 32, 61, 100]
    """

    def _exact(self, most: Numbers, least: Numbers, numbers: Numbers, count: int, unit: int) -> Numbers:
        growth = 2 * (most - least - unit * count) / (count * (count + 1))
        return np.asarray(least + growth * numbers * (numbers + 1) / 2 + unit * numbers)


class ExpWidthBucket(BucketScheme):
    """Buckets whose width grows by the same factor from each to the next: short ones are narrow.

    Parameters
    ----------
    bucket_len_step : float
        The factor (1 or more). With 1 all buckets have the same width.

    Raises
    ------
    TypeError
        If `bucket_len_step` is not a number.
    ValueError
        If it is below 1, or not finite.

    Notes
    -----
    Modelled on GluonNLP.

    Examples
    --------
    >>> ExpWidthBucket(2)(100, 1, 4), ExpWidthBucket(1.0)(100, 1, 4)
    ([8, 21, 47, 100], [26, 50, 75, 100])
    """

    def __init__(self, bucket_len_step: float = 1.1) -> None:
        self.bucket_len_step = number_at_least(bucket_len_step, "ExpWidthBucket: bucket_len_step", 1)

    def _exact(self, most: Numbers, least: Numbers, numbers: Numbers, count: int, unit: int) -> Numbers:
        growth = np.log(self.bucket_len_step)
        if growth == 0:
            return np.asarray(least + (most - least) * numbers / count)
        # (step**i - 1) / (step**count - 1), with powers that cannot overflow.
        shorter = np.expm1(-growth * numbers) / np.expm1(-growth * count)
        return np.asarray(least + (most - least) * np.exp(growth * (numbers - count)) * shorter)


def smallest_fitting(lengths: LengthArray, keys: LengthArray) -> LengthArray:
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
            f"FixedBucketSampler: lengths must fit into a bucket, got {key_of_row(lengths[sample])} for"
            f" sample {sample}; the keys are {reprlib.repr([key_of_row(key) for key in keys])}"
        )
    return fitting
