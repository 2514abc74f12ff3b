"""The weights of `mix` as small ints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.plain import plain
from ...core.values import by_position

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["as_shares"]

MOST_SHARES = 1 << 16  # in all, for weights that are met exactly
MOST_ROUNDED = 1 << 14


def as_shares(k: int, weights: Iterable[float] | None) -> tuple[int, ...]:
    """Return weights as small ints: the number of turns of each sequence in a period."""
    if weights is None:
        return (1,) * k
    whole: list[Any] = list(by_position(weights, "mix: weights", "a number for each sequence"))
    if not {int}.issuperset(map(type, whole)) or min(whole, default=1) <= 0:
        exact = [_weight(weight) for weight in whole]
        factor = math.lcm(*(weight.denominator for weight in exact))
        whole = [int(weight * factor) for weight in exact]
    if len(whole) != k:
        raise ValueError(f"mix: weights must be as many as the sequences, {k}, got {len(whole)}")
    divisor = math.gcd(*whole)
    shares = tuple([number // divisor for number in whole])
    return shares if sum(shares) <= MOST_SHARES else _rounded(shares)


def _weight(weight: Any) -> Fraction:
    from fractions import Fraction  # not when seqkit is imported: it loads `decimal`

    value = plain(weight)
    try:
        # By its decimal notation: the float 0.1 means a tenth, not the nearest binary fraction.
        exact = Fraction(_notation(weight))
    except ValueError:
        kind = ValueError if isinstance(value, float) else TypeError
        raise kind(f"mix: a weight must be a number above 0, got {weight!r}") from None
    if isinstance(value, str | bool) or exact <= 0:
        kind = TypeError if isinstance(value, str | bool) else ValueError
        raise kind(f"mix: a weight must be a number above 0, got {weight!r}")
    return exact


def _notation(weight: Any) -> str:
    """Return the decimal notation of a number, the shortest one for its precision."""
    value = plain(weight)
    if isinstance(value, float) and not isinstance(weight, float | np.generic) and np.float32(value) == value:
        return str(np.float32(value))  # of a tensor of 32 bits
    return str(weight if isinstance(weight, np.generic) else value)


def _rounded(exact: Sequence[int]) -> tuple[int, ...]:
    """Return the small ints whose ratios are nearest to the ratios of the weights."""
    total, smallest = sum(exact), min(exact)
    if smallest * MOST_ROUNDED < total:
        raise ValueError(
            f"mix: a weight must be at least one in {MOST_ROUNDED} of their sum,"
            f" got one in {total // smallest}"
        )
    wanted = np.array([float(weight / total) for weight in exact])
    best, least = wanted, math.inf
    for start in range(1, MOST_ROUNDED + 1, 1024):
        periods = np.arange(start, start + 1024)
        shares = np.rint(np.multiply.outer(periods, wanted))
        errors = np.abs(shares / shares.sum(axis=1, keepdims=True).clip(1) / wanted - 1).max(axis=1)
        errors[(shares < 1).any(axis=1)] = math.inf
        nearest = int(errors.argmin())
        if errors[nearest] < least:
            best, least = shares[nearest], float(errors[nearest])
    return tuple(int(share) for share in best)
