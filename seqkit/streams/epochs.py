"""Which streams a rank reads in an epoch, in which order, and how many batches it makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.arguments import int_at_least, optional_int, positive_int, refuse_set
from ..core.errors import brief
from ..core.lengths import Unsized
from ..core.source import as_view
from ..core.values import values_of
from ..core.view import View
from .lanes import Padding, count_batches
from .order import Drawn, Listed, Order

__all__ = ["StreamEpochs", "check_streams"]


class StreamEpochs:
    """The streams of all epochs, of one rank. The parameters are those of `StreamLoader`.

    Attributes
    ----------
    streams : View or iterable
    n : int or None
        How many streams there are, for all ranks. None if they can only be iterated.
    is_shuffled : bool
    rank, world_size : int
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
        self.streams, self.n = _as_streams(streams)
        self.rank = int_at_least(rank, "StreamLoader: rank", 0)
        self.world_size = positive_int(world_size, "StreamLoader: world_size")
        self._batch_size = batch_size
        self._padding = padding
        self.is_shuffled = shuffle
        self.lengths = None if lengths is None else self._checked_lengths(lengths)
        self._batches = optional_int(batches_per_epoch, "StreamLoader: batches_per_epoch")
        self._check_streams(strict)
        self._check_batches()
        self._check_view()
        if self.world_size > 1:
            self._check_ranks(has_seed)

    # ---------------------------------------------------------------- arguments

    def _checked_lengths(self, lengths: Any) -> list[int]:
        if self.n is None:
            raise TypeError("StreamLoader: lengths needs streams with a length")
        given = values_of(lengths, "StreamLoader: lengths")
        checked = [int_at_least(length, "StreamLoader: lengths: each length", 0) for length in given]
        if len(checked) != self.n:
            raise ValueError(
                f"StreamLoader: lengths has {len(checked)} numbers, but there are {self.n} streams"
            )
        return checked

    def _check_streams(self, strict: bool) -> None:
        if self.n is None:
            if self.is_shuffled:
                raise TypeError(
                    "StreamLoader: shuffle needs streams with a length, and these can only be iterated."
                    " Make a list of them, or see seqkit.streams.shuffle_buffer"
                )
            if strict:
                raise TypeError(
                    "StreamLoader: strict needs streams with a length, and these can only be iterated"
                )
            if self._padding == "restart":
                raise TypeError(
                    "StreamLoader: padding='restart' needs streams with a length, and these can only be"
                    " iterated. Make a list of them"
                )
        elif strict and len(range(self.rank, self.n, self.world_size)) < self._batch_size:
            raise ValueError(
                f"StreamLoader: {self.n} streams cannot fill {self._batch_size} rows of each of"
                f" {self.world_size} ranks. Set a smaller batch_size, or strict=False to pad"
            )

    def _check_batches(self) -> None:
        if self.rank >= self.world_size:
            raise ValueError(
                f"StreamLoader: rank must be below world_size {self.world_size}, got {self.rank}"
            )
        if self._batches is not None and (self.lengths is not None or self._padding in ("drop_rows", "stop")):
            other = f"padding={self._padding!r}" if self.lengths is None else "lengths"
            raise ValueError(f"StreamLoader: batches_per_epoch contradicts {other}. Leave out one of them")

    def _check_view(self) -> None:
        """Refuse lengths if the order of streams depends on the epoch: they would be of other streams."""
        if self.lengths is not None and self._view(1) is not self._view(0):
            raise ValueError(
                "StreamLoader: lengths belong to streams in one order, but these have another order in each"
                " epoch. Pass the streams in their own order, and shuffle=True"
            )

    def _check_ranks(self, has_seed: bool) -> None:
        if self.is_shuffled and not has_seed:
            raise ValueError("StreamLoader: shuffle with several ranks needs a seed, the same in each rank")
        if self.n is None or self.n < self.world_size:
            raise ValueError(
                f"StreamLoader: {self.world_size} ranks need at least as many streams, with a length, got"
                f" {'streams without a length' if self.n is None else self.n}"
            )
        if self._padding == "drop_rows":
            raise ValueError("StreamLoader: padding='drop_rows' cannot give all ranks the same batches")
        if self.lengths is None and self._batches is None:
            raise ValueError(
                "StreamLoader: a rank does not know how long the streams of others are. Pass lengths or"
                " batches_per_epoch, so that all ranks make the same number of batches"
            )

    # ---------------------------------------------------------------- epochs

    def order(self, epoch: int, seed: int, rank: int | None = None) -> Order:
        """Return the streams of an epoch."""
        streams = self._view(epoch)
        if self.n is None:
            return Drawn(streams)
        shuffled_by = seed if self.is_shuffled else None
        return Listed(streams, shuffled_by, epoch, self.rank if rank is None else rank, self.world_size)

    def _view(self, epoch: int) -> Any:
        return self.streams.at_epoch(epoch) if isinstance(self.streams, View) else self.streams

    def batches(self, epoch: int, seed: int) -> int | None:
        """Return how many batches an epoch has, the same on all ranks, or None if it is unknown."""
        if self.lengths is None:
            return self._batches
        orders = [self.order(epoch, seed, rank) for rank in range(self.world_size)]
        counts = [count_batches(self._lengths_in(order), self._batch_size, self._padding) for order in orders]
        return min(counts) if self._padding == "stop" else max(counts)

    def _lengths_in(self, order: Order) -> Iterator[int]:
        assert self.lengths is not None
        return (self.lengths[order.id(number)] for number in range(order.length or 0))


def check_streams(streams: Any, who: str) -> None:
    """Refuse text as a list of streams: each character would be a stream.

    >>> check_streams("log.txt", "StreamLoader")
    Traceback (most recent call last):
    TypeError: StreamLoader: streams must be a sequence or an iterable of streams, got the text 'log.txt'. ...
    """
    if isinstance(streams, str | bytes):
        raise TypeError(
            f"{who}: streams must be a sequence or an iterable of streams, got the text {brief(streams)}."
            " For a single stream pass a list of it."
        )


def _as_streams(streams: Any) -> tuple[Any, int | None]:
    """Return streams as a view, and their number; or as an iterable, and None."""
    check_streams(streams, "StreamLoader")
    if hasattr(streams, "__getitem__") and (hasattr(streams, "__len__") or isinstance(streams, View)):
        view = as_view(streams, "StreamLoader: streams")
        if not isinstance(view._n, Unsized):
            return view, len(view)
    refuse_set(streams, "StreamLoader: streams")
    if not hasattr(streams, "__iter__") or isinstance(streams, type | dict):
        raise TypeError(f"StreamLoader: streams must be a sequence or an iterable, got {streams!r}")
    return streams, None
