"""`SplitSampler`: the indices of one of several fixed parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arguments import as_bool, positive_int
from ..core.source import view
from ..core.view import View
from ..views.concatenate import concatenate
from ..views.epochs import epochs
from ..views.random_map import random_map
from ..views.shard import as_rank
from ..views.shuffle import shuffle
from .base import SeededSampler
from .keys import sample_count

__all__ = ["SplitSampler"]


class SplitSampler(SeededSampler):
    """The indices of one of several fixed parts, in random order, once or several times.

    Parameters
    ----------
    length : int or sized
        The number of indices of all parts, or an object with a length. The length is asked for in every
        epoch.
    num_replicas : int
        Number of parts (1 or more).
    rank : int
        Number of this part, in ``[0, num_replicas)``. Parts are runs of indices. The first ``length %
        num_replicas`` parts have one index more.
    even_size : bool
        True: shorter parts get one index of another part, a random one in every pass.
    repeat : int
        Passes over the part per epoch (1 or more), each in its own order.
    shuffle : bool
        True (the default): in random order.
    seed : int, optional
        0 or more. None (the default) draws one from the system, once.

    Raises
    ------
    TypeError
        If `length` is neither an int nor sized, or a number is not an int.
    ValueError
        If a number is out of range, or a flag is not a bool.

    Notes
    -----
    No memory at 65,536 indices and above. Unlike with `DistributedSampler`, an index is in the same part in
    every epoch. Modelled on ``SplitSampler`` of GluonNLP.

    Examples
    --------
    >>> [list(SplitSampler(7, 3, part, shuffle=False)) for part in range(3)]
    [[0, 1, 2], [3, 4], [5, 6]]
    >>> [len(SplitSampler(7, 3, part, even_size=True, repeat=2)) for part in range(3)]
    [6, 6, 6]
    """

    def __init__(
        self,
        length: Any,
        num_replicas: int = 1,
        rank: int = 0,
        even_size: bool = False,
        repeat: int = 1,
        shuffle: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__(seed)
        sample_count(length, "SplitSampler", "length")
        self.length = length
        self.num_replicas = positive_int(num_replicas, "SplitSampler: num_replicas")
        self.rank = as_rank(rank, self.num_replicas, "SplitSampler", "num_replicas")
        self.even_size = as_bool(even_size, "SplitSampler: even_size")
        self.repeat = positive_int(repeat, "SplitSampler: repeat")
        self.shuffle = as_bool(shuffle, "SplitSampler: shuffle")

    def _part(self) -> tuple[range, bool]:
        """Return the indices of the part, and whether it gets one index more."""
        n = sample_count(self.length, "SplitSampler", "length")
        size, longer = divmod(n, self.num_replicas)
        start = self.rank * size + min(self.rank, longer)
        is_short = self.rank >= longer
        return range(start, start + size + (not is_short)), self.even_size and longer > 0 and is_short

    @property
    def order(self) -> View[int]:
        """The indices of an epoch, as a view."""
        part, lacks_one = self._part()
        indices: View[int] = view(part)
        name = f"part {self.rank}"
        if lacks_one:
            indices = concatenate([part, random_map(self._other, [part], self.seed, name=name)])
        if self.shuffle:
            indices = shuffle(indices, self.seed, name=name)
        return epochs(indices, self.repeat)

    def _other(self, part: range, rng: np.random.Generator) -> int:
        """Return a random index of another part."""
        n = sample_count(self.length, "SplitSampler", "length")
        index = int(rng.integers(n - len(part)))
        return index if index < part.start else index + len(part)
