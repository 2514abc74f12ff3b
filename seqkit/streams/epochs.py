"""How many streams and batches the epochs of a rank have, and the arguments that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.arguments import int_at_least, optional_int, positive_int
from ..core.values import values_of
from ..core.view import View
from .lanes import Padding, count_batches
from .order import Drawn, Listed, as_streams

__all__ = ["StreamEpochs"]


class StreamEpochs:
    """The streams of all epochs, of one rank. The parameters are those of `StreamLoader`.

    Attributes
    ----------
    streams : View or iterable
    n : int or None
        How many streams there are, for all ranks. None if they can only be iterated.
    lengths : list of int or None
        How many chunks each stream has, if that is known.
    """

    def __init__(
        self,
        streams: Any,
        *,
        batch_size: int,
        padding: Padding,
        shuffle: bool,
        has_seed: bool,
        strict: bool,
        rank: Any,
        world_size: Any,
        lengths: Any,
        batches_per_epoch: Any,
    ) -> None:
        self.streams, self.n = as_streams(streams, "StreamLoader")
        self.rank = int_at_least(rank, "StreamLoader: rank", 0)
        self.world_size = positive_int(world_size, "StreamLoader: world_size")
        self._batch_size = batch_size
        self._padding = padding
        self.is_shuffled = shuffle
        self.lengths = None if lengths is None else values_of(lengths, "StreamLoader: lengths")
        self._batches = optional_int(batches_per_epoch, "StreamLoader: batches_per_epoch")
        for refusal in self._refusals(strict, has_seed):
            raise refusal

    def _refusals(self, strict: bool, has_seed: bool) -> Iterator[Exception]:
        """Return an error for each contradiction of arguments."""
        n, ranks = self.n, self.world_size
        if n is None:
            needs_length = {
                "shuffle": self.is_shuffled,
                "strict": strict,
                "lengths": self.lengths is not None,
                "padding='restart'": self._padding == "restart",
                f"world_size={ranks}": ranks > 1,
            }
            for name, is_given in needs_length.items():
                if is_given:
                    yield TypeError(
                        f"StreamLoader: {name} needs streams with a length, and these can only be iterated."
                        " Make a list of them, or see seqkit.shuffle_buffer"
                    )
        if self.rank >= ranks:
            yield ValueError(f"StreamLoader: rank must be below world_size {ranks}, got {self.rank}")
        if n is not None and strict and len(range(self.rank, n, ranks)) < self._batch_size:
            yield ValueError(
                f"StreamLoader: {n} streams cannot fill {self._batch_size} rows of each of {ranks} ranks. Set"
                " a smaller batch_size, or strict=False to pad"
            )
        if self.lengths is not None:
            for length in self.lengths:
                int_at_least(length, "StreamLoader: lengths: each length", 0)
            if len(self.lengths) != n:
                yield ValueError(
                    f"StreamLoader: lengths has {len(self.lengths)} numbers, but there are {n} streams"
                )
            if self._view(1) is not self._view(0):
                yield ValueError(
                    "StreamLoader: lengths belong to streams in one order, but these have another order in"
                    " each epoch. Pass the streams in their own order, and shuffle=True"
                )
        if self._batches is not None and (self.lengths is not None or self._padding in ("drop_rows", "stop")):
            other = f"padding={self._padding!r}" if self.lengths is None else "lengths"
            yield ValueError(f"StreamLoader: batches_per_epoch contradicts {other}. Leave out one of them")
        if ranks == 1:
            return
        if self.is_shuffled and not has_seed:
            yield ValueError("StreamLoader: shuffle with several ranks needs a seed, the same in each rank")
        if n is not None and n < ranks:
            yield ValueError(f"StreamLoader: {ranks} ranks need at least as many streams, got {n}")
        if self._padding == "drop_rows":
            yield ValueError("StreamLoader: padding='drop_rows' cannot give all ranks the same batches")
        if self.lengths is None and self._batches is None:
            yield ValueError(
                "StreamLoader: a rank does not know how long the streams of others are. Pass lengths or"
                " batches_per_epoch, so that all ranks make the same number of batches"
            )

    def order(self, epoch: int, seed: int, rank: int | None = None) -> Listed:
        """Return the streams of an epoch."""
        if self.n is None:
            return Drawn(self._view(epoch))
        shuffled_by = seed if self.is_shuffled else None
        return Listed(self.n, shuffled_by, epoch, self.rank if rank is None else rank, self.world_size)

    def _view(self, epoch: int) -> Any:
        return self.streams.at_epoch(epoch) if isinstance(self.streams, View) else self.streams

    def batches(self, epoch: int, seed: int) -> int | None:
        """Return how many batches an epoch has, the same on all ranks, or None if it is unknown."""
        lengths = self.lengths
        if lengths is None:
            return self._batches
        counts = [
            count_batches(
                (lengths[order.id(number)] for number in range(order.length or 0)),
                self._batch_size,
                self._padding,
            )
            for order in (self.order(epoch, seed, rank) for rank in range(self.world_size))
        ]
        return min(counts) if self._padding == "stop" else max(counts)
