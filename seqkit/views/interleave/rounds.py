"""`Rounds`: the index arithmetic of `interleave`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice, pairwise

from ...core.indices import Length, Unsized

__all__ = ["Rounds"]


class Rounds:
    """Several sequences in turn: in round r, each sequence of more than r items has a turn.

    A *stretch* is a run of rounds in which the same sequences take part. `_firsts` holds the first round of
    each stretch, and `_starts` the index of its first item, followed by the length of all.

    Parameters
    ----------
    lengths : sequence of Length
    most : Length
        Most rounds.

    Examples
    --------
    >>> rounds = Rounds([1, 3], 3)
    >>> [rounds.place(i) for i in range(4)]
    [(0, 0), (1, 0), (1, 1), (1, 2)]
    """

    def __init__(self, lengths: Sequence[Length], most: Length) -> None:
        self._lengths = lengths
        self._longer = _Longer(lengths)
        ends = sorted({0, *(min(n, most) for n in lengths)})
        self._firsts = [int(end) for end in ends[:-1]]
        self._starts: list[Length] = [0]
        for first, end in pairwise(ends):
            size = self._longer.count(int(first)) * (end - first)
            self._starts.append(end if isinstance(end, Unsized) else int(self._starts[-1] + size))
        self.length = self._starts[-1]

    def _stretch(self, i: int) -> tuple[int, int]:
        """Return the number of the stretch of item `i`, and how many of its items come before."""
        stretch = bisect_right(self._starts, i) - 1
        return stretch, i - int(self._starts[stretch])

    def place(self, i: int) -> tuple[int, int]:
        """Return the sequence whose turn item `i` is, and the round."""
        stretch, offset = self._stretch(i)
        done = self._firsts[stretch]
        rounds, turn = divmod(offset, self._longer.count(done))
        return self._longer.nth(turn, done), done + rounds

    def turns(self, start: int, stop: Length) -> Iterator[int]:
        """Yield the sequence whose turn it is, for each item from `start` to `stop`."""
        while start < stop:
            stretch, offset = self._stretch(start)
            members = [which for which, n in enumerate(self._lengths) if n > self._firsts[stretch]]
            end = min(stop, self._starts[stretch + 1])
            first = offset % len(members)
            last = None if isinstance(end, Unsized) else first + end - start
            yield from islice(cycle(members), first, last)
            start = int(end)

    def before(self, i: int) -> list[int]:
        """Return how many items of each sequence come before item `i`."""
        which, j = self.place(i - 1) if i else (-1, 0)
        return [int(min(n, j + (number <= which))) for number, n in enumerate(self._lengths)]


class _Longer:
    """Counts and finds the sequences longer than n, among any number of them.

    `_rows` are the rows of a tree, the root first. A node holds the lengths of some neighbours, sorted, and
    its two children those of either half.
    """

    def __init__(self, lengths: Sequence[Length]) -> None:
        row = [[n] for n in lengths] or [[]]
        self._rows = [row]
        while len(row) > 1:
            row = [sorted(chain(*row[i : i + 2])) for i in range(0, len(row), 2)]
            self._rows.insert(0, row)

    def count(self, n: int) -> int:
        """Return how many sequences are longer than `n`."""
        return _above(n, self._rows[0][0])

    def nth(self, turn: int, n: int) -> int:
        """Return which sequence has turn number `turn` among those longer than `n`."""
        node = 0
        for row in self._rows[1:]:
            node *= 2
            left = _above(n, row[node])
            if turn >= left:
                turn -= left
                node += 1
        return node


def _above(n: int, lengths: list[Length]) -> int:
    return len(lengths) - bisect_right(lengths, n)
