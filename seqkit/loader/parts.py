"""Data sets that split themselves: all workers read parts, as the streams of a `StreamLoader`.

Each part is a lane. Parts take turns. At each turn a part gives a block of successive samples, as many as a
batch has, and its worker makes a batch of them. The last block of a part may be short. The consumer joins the
samples of short blocks to batches as soon as there are enough. So the batches follow from the data set alone,
and not from the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any
from weakref import WeakSet

from ..core.epoch import DRAWS, EpochPair
from ..core.errors import EndOfSequence
from ..core.indices import Endless, Plan
from ..core.iteration import restarting
from ..core.lengths import UNKNOWN
from ..core.randomness import node_key
from ..core.set_epoch import listeners, tell
from ..core.view import View, in_order
from ..core.worker import get_worker_info, in_process_worker
from ..engine.errors import record
from .joined_parts import JoinedParts
from .keys import Sample

__all__ = ["Blocks", "InTurn"]


@dataclass(frozen=True)
class Blocks:
    """Opens a part of a data set as the stream of its blocks.

    A block is the number of its samples, a value, and an error with its worker or None. The value of a full
    block is a batch, and that of a short block a list of transformed samples. An error of a sample costs its
    block. An error of the part itself ends the part. Unless `on_error` is "raise", the others go on at once.

    Parameters
    ----------
    dataset : iterable
        It splits itself.
    parts : int
    size : int or None
        Samples per block. None gives single samples.
    samples, batches : View
        The samples at keys, and the batches at lists of keys.
    epoch : int
        The data set is told this number if it has `set_epoch`.
    read_before : int
        Number of batches that were read before. Their blocks are not made, and their value is None.
    """

    dataset: Any
    parts: int
    size: int | None
    samples: View[Any]
    batches: View[Any]
    epoch: int = 0
    read_before: int = 0

    def __call__(self, part: int, start: int = 0) -> Iterator[Any]:
        tell(listeners(self.dataset), self.epoch)
        first = start * (self.size or 1)
        items = islice(in_order(self.dataset.split(part, self.parts)), first, None)
        block: Any = []
        try:
            for number, item in enumerate(items, first):
                block.append(Sample((part, number), item))
                if len(block) == (self.size or 1):
                    # As long as no part has ended, this is the number of its batch. Later it is too high.
                    batch = number // len(block) * self.parts + part
                    yield (len(block), None, None) if batch < self.read_before else self._made(block)
                    block = []
        except Exception:
            if block:
                yield self._made(block)
            raise
        if block:
            yield self._made(block)

    def _made(self, block: Any) -> tuple[int, Any, Any]:
        try:
            if len(block) == (self.size or 1):
                return len(block), self.batches._get(block if self.size else block[0]), None
            values = self.samples._getmany(block)
            made = [Sample(key.number, value) for key, value in zip(block, values, strict=True)]
            return len(block), made, None
        except Exception as error:
            info = get_worker_info()
            problem = record(error, self.batches) if in_process_worker() else error
            return len(block), None, (problem, info and info.id)


class InTurn(View[Any]):
    """The view of the batches of all parts. Reading item i iterates up to it.

    Parameters
    ----------
    pipeline : Pipeline
        Its options and seed, and what each worker calls before its first sample.
    blocks : Blocks
    joined : View
        The batches at lists of transformed samples.
    """

    _varies = DRAWS  # the data set is told the epoch

    def __init__(self, pipeline: Any, blocks: Blocks, joined: View[Any]) -> None:
        super().__init__((), UNKNOWN)
        self.options, self.blocks, self.joined = pipeline.options, blocks, joined
        self._pipeline = pipeline
        self._epoch = 0
        self.begun: WeakSet[Any] = WeakSet()  # rounds, until they are closed

    def _rounds(self, read_before: int) -> Iterator[Any]:
        """Begin to read a block of each part at a time."""
        from ..streams import StreamLoader

        options, parts = self.options, self.blocks.parts
        loader = StreamLoader(
            range(parts),
            replace(self.blocks, epoch=self._epoch, read_before=read_before),
            parts,
            min(options.num_workers, parts),
            list,
            padding="drop_rows",
            resume="start",
            seed=node_key("parts", self._pipeline.seed, self._epoch, 0),
            timeout=options.timeout,
            worker_init_fn=self._pipeline.start,
            method=options.method,
            multiprocessing_context=options.start_method,
            shm_size=options.shm_size,
            max_buffered=1 + options.batches_ahead * options.num_workers // parts,
        )
        rounds = iter(loader)
        self.begun.add(rounds)
        return rounds

    def close(self) -> None:
        """End the workers, if there are any."""
        while self.begun and self.options.num_workers:
            self.begun.pop().close()

    def _iter(self, plan: Plan) -> Iterator[Any]:
        is_rest = isinstance(plan, range) and plan.step == 1 and plan.start > 0
        if not is_rest and not isinstance(plan, Endless):
            return super()._iter(plan)
        start = plan.start if isinstance(plan, range) else 0
        items = restarting(JoinedParts(self, self._rounds(start), start))
        return islice(items, len(plan)) if isinstance(plan, range) else items

    def _get(self, i: int) -> Any:
        for item in islice(self._iter(self._plan()), i, None):
            return item
        raise EndOfSequence(f"the sequence ends before batch {i}")

    def _keyed(self, sources: tuple[View[Any], ...], epoch: EpochPair) -> View[Any]:
        keyed = InTurn(self._pipeline, self.blocks, self.joined)
        # The epoch seeds the global generators of workers.
        keyed._epoch, keyed.begun = epoch.draws or 0, self.begun
        return keyed

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return InTurn, (self._pipeline, self.blocks, self.joined)

    def _arguments(self, sources: list[str]) -> list[str]:
        return [f"{self.blocks.parts} parts of <{type(self.blocks.dataset).__name__}>"]
