"""`Shares`: the weights of sequences as small ints, in stages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from ...core.arguments import int_at_least
from ...core.lengths import UNBOUNDED, Length
from ...core.plain import plain
from ...core.values import by_position

__all__ = ["Shares", "as_stages", "by_name"]

Names = tuple[str, ...] | None

MOST_SHARES = 1 << 16  # in all, for weights that are met exactly
MOST_ROUNDED = 1 << 14


class Shares(NamedTuple):
    """The number of turns of each sequence in a period, in each stage, and where each stage starts.

    >>> shares = Shares((0, 10), ((9, 1), (1, 1)))
    >>> [*shares.stages()], shares.ideal(1, 12), shares.reach(1, 2)
    ([(0, 10, (9, 1)), (10, inf, (1, 1))], Fraction(2, 1), 12)
    """

    starts: tuple[int, ...]
    shares: tuple[tuple[int, ...], ...]

    def stages(self) -> Iterator[tuple[int, Length, tuple[int, ...]]]:
        """Yield where each stage starts and stops, and its shares."""
        return zip(self.starts, (*self.starts[1:], UNBOUNDED), self.shares, strict=True)

    def ideal(self, which: int, index: int) -> Fraction:
        """Return the share of a sequence in the items before an index."""
        parts = [(min(stop, index) - start, shares) for start, stop, shares in self.stages() if start < index]
        return sum((Fraction(int(n) * shares[which], sum(shares)) for n, shares in parts), Fraction(0))

    def reach(self, which: int, n: int) -> Length:
        """Return the last index before which the share of a sequence is at most n."""
        for start, stop, shares in self.stages():
            if shares[which]:
                index = start + math.floor((n - self.ideal(which, start)) * sum(shares) / shares[which])
                if index < stop:
                    return index
        return UNBOUNDED


def by_name(values: Any, names: Names, what: str) -> Any:
    """Return the values of a mapping in the order of the names of the sequences. Other values stay.

    >>> by_name({"b": 1, "a": 2}, ("a", "b"), "weights"), by_name([3], ("a",), "weights")
    ([2, 1], [3])
    """
    if names is None or not isinstance(values, Mapping):
        return values
    if values.keys() != set(names):
        raise ValueError(f"mix: {what} must name the sequences {list(names)}, got {list(values)}")
    return [values[name] for name in names]


def as_stages(k: int, names: Names, weights: Any) -> Shares:
    """Return weights, or a mapping of the starts of stages to weights, as shares.

    >>> as_stages(2, None, None), as_stages(2, ("a", "b"), {0: {"b": 1, "a": 0}, 9: [1, 3]})
    (Shares(starts=(0,), shares=((1, 1),)), Shares(starts=(0, 9), shares=((0, 1), (1, 3))))
    """
    is_staged = isinstance(weights, Mapping) and not any(isinstance(key, str) for key in weights)
    if not is_staged:
        return Shares((0,), (as_shares(k, by_name(weights, names, "weights")),))
    starts = [int_at_least(start, "mix: a stage of weights", 0) for start in weights]
    if starts[:1] != [0] or starts != sorted(set(starts)):
        raise ValueError(f"mix: stages of weights must be in ascending order, from 0 on, got {starts}")
    return Shares(
        tuple(starts), tuple(as_shares(k, by_name(each, names, "weights"), 0) for each in weights.values())
    )


def as_shares(k: int, weights: Iterable[float] | None, least: int = 1) -> tuple[int, ...]:
    """Return weights as small ints: the number of turns of each sequence in a period.

    A share within a millionth of a simple fraction is that fraction, so 0.1 of 1 is a tenth. If the period is
    too long, shares are rounded. With ``least=0`` a weight may be 0.

    >>> as_shares(3, [0.1, 0.2, 0.7]), as_shares(2, [1 / 3, 2 / 3]), as_shares(3, [1, 2**0.5, 3**0.5])
    ((1, 2, 7), (1, 2), (3952, 5588, 6844))
    """
    if weights is None:
        return (1,) * k
    numbers = by_position(weights, "mix: weights", "a number for each sequence")
    given = [_weight(weight, least) for weight in numbers]
    if len(given) != k:
        raise ValueError(f"mix: weights must be as many as the sequences, {k}, got {len(given)}")
    total = sum(given)
    if not total:
        raise ValueError("mix: a weight of each stage must be above 0, got only zeros")
    exact = [weight / total for weight in given]
    simple = [share.limit_denominator(MOST_SHARES) for share in exact]
    period = math.lcm(*(share.denominator for share in simple))
    is_met = all(abs(s - share) * 10**6 <= share for s, share in zip(simple, exact, strict=True))
    if not is_met or period > MOST_SHARES:
        period, smallest = MOST_ROUNDED, min(filter(None, exact))
        if smallest * period < 1:
            raise ValueError(
                f"mix: a weight must be at least one in {period} of their sum, got one in"
                f" {round(1 / smallest)}"
            )
    return tuple([round(share * period) for share in exact])


def _weight(weight: Any, least: int) -> Fraction:
    wanted = "mix: a weight must be a number above 0" if least else "mix: a weight must be at least 0"
    value = plain(weight)
    try:
        exact = Fraction(value)
    except (ValueError, OverflowError):
        exact = Fraction(-1)  # no number, or infinite
    except TypeError:
        value = None
    if value is None or isinstance(value, str | bool):
        raise TypeError(f"{wanted}, got {weight!r}")
    if exact < 0 or (least and not exact):
        raise ValueError(f"{wanted}, got {weight!r}")
    return exact
