"""The epochs of a loader: which one is next, where it begins, and which keys its sampler gives."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from itertools import islice
from typing import Any

from ..core.iteration import is_one_shot
from ..core.set_epoch import listeners, tell
from ..core.source import Source
from ..core.view import View
from ..samplers.base import Sampler, chain_of, draw, order_of, pass_epoch, state_of
from ..samplers.batches import BatchSampler, InfiniteSampler
from ..views.uniter import Uniter
from .keys import as_key, as_keys
from .own_samplers import own_samplers
from .pipeline import Pipeline
from .position import DrawnKeys, Position, Start, load_sampler_state
from .state_checks import check_key, is_shared

__all__ = ["EpochCounter"]


class EpochCounter:
    """The number and the position of a loader. Samplers of seqkit, and data sets with `set_epoch`, follow it.

    Parameters
    ----------
    pipeline : Pipeline

    Attributes
    ----------
    sampler : iterable or None
        The one that gives the keys to read. Samplers of seqkit count epochs themselves. Others are told the
        epochs of `set`, and have their own numbers otherwise, as in PyTorch. `load` tells them the number
        that they had been told when the state was made.
    listeners : tuple
        The objects in the data set that have `set_epoch`.
    next : Start
        Where the next epoch begins.
    latest : Position or None
        The position of the latest iterator.
    lock : Lock
        Held while an epoch begins.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.sampler = pipeline.sampler()
        self._own: tuple[Any, Any] = (None, None)  # samplers that only show the order, once asked for
        self.listeners = _listeners(pipeline.options.dataset)
        self.next = Start()
        self.latest: Position | None = None
        self.lock = threading.Lock()
        self._has_begun = False
        self._noted: int | None = 0  # the epoch of the sampler, unless other code has set it since
        self._told: int | None = None  # the epoch that a sampler of another library was told last

    # ---------------------------------------------------------------- the number of the next epoch

    @property
    def number(self) -> int:
        """The number of the next epoch. The user may have set it on a sampler of seqkit."""
        own = self.set_on_sampler()
        return self.next.epoch if own is None else own

    def set_on_sampler(self) -> int | None:
        """Return the epoch of the sampler if other code has set it, otherwise None."""
        own = self._own_epoch()
        return None if own == self._noted else own

    def _own_epoch(self) -> int | None:
        """Return the epoch of a sampler of seqkit. Those without end have a number of their own."""
        sampler = self._counted
        is_endless = any(isinstance(one, InfiniteSampler) for one in chain_of(sampler))
        return sampler.epoch if isinstance(sampler, Sampler) and not is_endless else None

    @property
    def _counted(self) -> Any:
        """The sampler that determines the epoch of the loader."""
        sampler, batch_sampler = self._own
        return next((one for one in (self.sampler, batch_sampler, sampler) if one is not None), None)

    @property
    def _foreign(self) -> Any:
        """The sampler of another library that is read, alone or in one of seqkit. None if there is none."""
        inner = chain_of(self._counted)[-1:]
        return next((one for one in inner if not isinstance(one, Sampler) and listeners(one)), None)

    def set(self, epoch: int) -> None:
        """Begin with this epoch, whatever was read of the latest one."""
        with self.lock:
            self._settle()
            self.latest = None
            self.move_to(epoch)

    def move_to(self, epoch: int) -> None:
        """Begin at an epoch, and pass its number to the sampler and the data set."""
        if epoch != self.next.epoch:
            self.next = Start(epoch)
        self.tell(epoch)
        self.count(epoch)

    def tell(self, epoch: int) -> None:
        """Tell an epoch to the data set."""
        tell(self.listeners, epoch, again=True)

    def count(self, epoch: int) -> None:
        """Set the epoch of the sampler, as the one that the loader reads next."""
        pass_epoch(self._counted, epoch)
        if self._foreign is not None:
            self._told = epoch
        self._note()

    def _note(self) -> None:
        self._noted = self._own_epoch()

    def _show(self, epoch: int) -> None:
        """Set the epoch of samplers that only show the order, and take that of others as it is."""
        if self.sampler is None:
            pass_epoch(self._counted, epoch)
        self._note()

    def shown_samplers(self) -> tuple[Any, Any]:
        """Return the sampler and the batch sampler that are read, or that show the order."""
        options, read = self.pipeline.options, self.sampler
        if options.is_iterable:
            return None, None
        if read is None:
            if self._own[0] is None:
                epoch = self.number
                self._own = own_samplers(options, self.pipeline.seed)
                self.count(epoch)
            return self._own
        if options.makes_batches:
            return read.sampler, read
        return (read, None) if options.batch_sampler is None else (None, read)

    def use(self, pipeline: Pipeline) -> None:
        """Go on with another seed."""
        self.pipeline, self.sampler, self._own = pipeline, pipeline.sampler(), (None, None)

    # ---------------------------------------------------------------- begin an epoch

    def begin(self) -> Position:
        """Begin the next epoch, and return its position."""
        epoch = self.number
        self._settle()
        if epoch != self.next.epoch:
            self.move_to(epoch)
        tell(self.listeners, epoch)
        options, sampler, start = self.pipeline.options, self.sampler, self.next
        order = in_view = order_of(sampler, epoch)
        if order is not None and self.pipeline.sends_keys:
            in_view = None
        elif order is not None and options.makes_batches:
            in_view = order_of(sampler.sampler, epoch)
        has_digest = self._has_digest()
        position = Position(
            start=start,
            samples=start.samples if start.batch else self.pipeline.samples(),
            length=self.pipeline.length(sampler),
            is_exact=not options.is_iterable or options.last == "rollover",
            before=state_of(sampler),
            order=order,
            in_view=in_view,
            keys=None if sampler is None or in_view is not None else self._drawn(start, has_digest),
            has_digest=has_digest,
        )
        if sampler is None or (order is not None and isinstance(sampler, Sampler)):
            pass_epoch(self._counted, epoch + 1)  # as if it had been iterated
        self.latest, self.next = position, Start(epoch + 1)
        self._note()
        return position

    def take_back(self, before: tuple[Position | None, Start], position: Position) -> None:
        """Forget an epoch that could not begin."""
        with self.lock:
            load_sampler_state(self.sampler, position.before)
            if self.latest is position:
                self.latest, self.next = before
            self._show(self.next.epoch)

    def refuse_second_pass(self) -> None:
        """Refuse a second epoch over an iterator."""
        options = self.pipeline.options
        for what, source in (
            ("data set", options.dataset if options.is_iterable else None),
            ("sampler", options.given_sampler),
        ):
            if self._has_begun and is_one_shot(source):
                raise RuntimeError(
                    f"DataLoader: the {what} is an iterator ({type(source).__name__}), which gives one epoch"
                    " only; pass something that can be iterated again"
                )
        self._has_begun = True

    def _drawn(self, start: Start, has_digest: bool) -> DrawnKeys:
        """Begin to draw keys. The key before the first one may be checked."""
        is_checked = has_digest and start.batch > 0 and start.key is not None
        first = start.batch - is_checked
        keys = DrawnKeys(map(self._as_key, draw(self.sampler, start.epoch, first)), has_digest)
        if is_checked:
            for last in islice(keys, 1):
                check_key(last, start.key)
                keys.count(1)
        return keys

    def _as_key(self, key: Any) -> Any:
        options = self.pipeline.options
        if options.is_iterable:
            return list(key) if options.is_batched else key
        return as_keys(key) if options.is_batched else as_key(key)

    # ---------------------------------------------------------------- how far it is

    def _settle(self) -> None:
        """Put the sampler where it would be if workers had not read ahead in the latest epoch."""
        latest = self.latest
        if latest is None or latest.keys is None or latest.order is not None or latest.ended:
            return
        if latest.is_over():
            batches = [one for one in chain_of(self.sampler) if isinstance(one, BatchSampler)]
            if any(one.last == "rollover" for one in batches):
                next(latest.keys, None)  # at its end it keeps the rest for the next epoch
        elif isinstance(self.sampler, Sampler):
            load_sampler_state(self.sampler, latest.before)
            deque(islice(draw(self.sampler, latest.epoch), latest.batch), maxlen=0)

    def length(self) -> int | None:
        """Return the number of batches of the latest epoch, or of the next one if that is over."""
        latest = self.latest
        if latest is not None and self.sampler is not None and latest.order is None:
            if latest.is_over():
                with self.lock:
                    self._settle()
            elif latest.length is not None and isinstance(self.sampler, Sampler):
                return latest.length  # workers may have drawn the sampler to its end
        return self.pipeline.length(self.sampler)

    def position(self) -> dict[str, Any]:
        """Return the position of the latest consumer, or the beginning of the next epoch, for a state."""
        latest = self.latest
        if latest is not None and not latest.is_over():
            start, sampler = replace(latest.start, batch=latest.batch, key=latest.digest()), latest.before
            return self._as_state(start, sampler, latest.samples)
        if latest is not None:
            with self.lock:
                self._settle()
        start = self.next if self.number == self.next.epoch else Start(self.number)
        samples = start.samples if start.batch else self.pipeline.samples()
        return self._as_state(start, state_of(self.sampler), samples)

    def _as_state(self, start: Start, sampler: Any, samples: int | None) -> dict[str, Any]:
        return {
            "epoch": start.epoch,
            "batch": start.batch,
            "sampler": sampler,
            "samples": samples,
            "key": start.key,
            **({} if self._told is None else {"told": self._told}),
        }

    def load(self, position: dict[str, Any]) -> None:
        """Begin at a position, which an object returned from `position`."""
        before, epoch = state_of(self.sampler), position["epoch"]
        start = load_sampler_state(self.sampler, position["sampler"], position["batch"])
        key = position["key"] if start == position["batch"] else None
        try:
            self._check_place(epoch, start, key)
        except ValueError:
            load_sampler_state(self.sampler, before)
            raise
        self.latest, self.next = None, Start(epoch, start, key, position["samples"])
        self.tell(epoch)
        if "told" in position:
            self._told = position["told"]
            pass_epoch(self._foreign, position["told"])
        self._note()

    def _check_place(self, epoch: int, start: int, key: str | None) -> None:
        """Refuse a place that is not in an epoch of this loader, as far as the order is known in advance."""
        n = self.pipeline.length(self.sampler)
        if n is not None and not self.pipeline.options.is_iterable and start > n:
            raise ValueError(
                f"DataLoader: the state is behind batch {start}, of which an epoch of this loader has {n}"
            )
        order = order_of(self.sampler, epoch) if start and key and self._has_digest() else None
        if order is not None:
            check_key(order[start - 1], key)

    def _has_digest(self) -> bool:
        """Return whether a state contains a digest of the last key. The ranks of a job have one state."""
        is_given = self.sampler is not None and not self.pipeline.options.is_iterable
        return is_given and not is_shared(self.sampler)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "latest": None, "lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=threading.Lock())


def _listeners(dataset: Any) -> tuple[Any, ...]:
    """Return the objects of the user with `set_epoch` in a data set."""
    found: list[Any] = []
    pending = [dataset]
    while pending:
        node = pending.pop()
        if isinstance(node, View):
            pending.extend(node._sources)
        if isinstance(node, Source):
            node = node._data
        elif isinstance(node, Uniter):
            node = node._passes.iterable
        if not isinstance(node, View):
            found.extend(listeners(node))
    return tuple({id(one): one for one in found}.values())
