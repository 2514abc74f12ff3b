"""Stages: nodes below a node work ahead in its order.

The consumer of a node whose workers are threads has a `StagePlan`. It translates the consumer's plan down to
the nodes below, through the views between. Each of these nodes computes its part of the plan ahead, as a
`Supply`, and keeps the items until a worker of the node above takes them by position.

Guarantees
----------
- Translating a plan evaluates no item and calls no user function (see `View._needs`).
- A node below works as far ahead as its own workers can use, plus one item of the node above.
- Each position of the plan is computed once. An index that is read in addition is computed at once, so no
  item waits until another one takes something.
- The items that an item of the node above has not taken are dropped when it ends.

Relies on
---------
- The plan gives the same indices each time that it is iterated (`is_repeatable`).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..core.ahead import Ahead
from ..core.errors import EndOfSequence
from ..core.indices import Endless, Expanded, Selected, Translated, each
from ..core.lengths import UNKNOWN, is_measured
from ..core.tracebacks import hiding_frames
from ..core.view import T, View
from .borders import cut_of
from .errors import reraise
from .protocol import LowerPlan
from .reader import Reader, opened
from .results import Outcomes
from .scheduler import Scheduler
from .settings import Settings
from .window import Chunk

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# How many items of the node above are translated beyond the last one begun. It limits the search for the
# next item of a node that is rarely read.
HORIZON = 1024
# From this number on, the supplies of epochs that are over are dropped.
MOST_SUPPLIES = 8

# The positions at which an item of the node above reads a node below, by index.
Claims = dict[Any, dict[int, list[int]]]


def is_node(view: View[Any]) -> TypeIs[Node[Any]]:
    """Is a view a node with workers?"""
    return isinstance(view, Node) and view.has_workers()


def lets_through(view: View[Any]) -> bool:
    """Can a plan be translated by a view? Only if its length is known without reading items."""
    if not view._reads_ahead:
        return False
    if view._known is None and not is_measured(view):
        return False
    return view._n is not UNKNOWN


def nodes_below(view: View[Any]) -> list[Node[Any]]:
    """Return the nodes with workers that a plan of a view can reach."""
    nodes, seen, pending = list[Node[Any]](), set[int](), [view]
    while pending:
        below = pending.pop()
        if id(below) not in seen:
            seen.add(id(below))
            if is_node(below):
                nodes.append(below)
            elif lets_through(below):
                pending.extend(below._sources)
    return nodes


def limit_below(view: View[Any], processes: int, timeout_s: float | None) -> None:
    """Adapt the nodes below a view, in one of so many processes of the node above.

    Each process has its own copy of a node, with its share of the workers. A node without a time limit gets
    the limit of the node above.
    """
    seen, pending = set[int](), [view]
    while pending:
        node = pending.pop()
        if id(node) not in seen and node._reads_ahead:
            seen.add(id(node))
            pending.extend(node._sources)
            if isinstance(node, Node):
                node.engine.limit(processes, timeout_s)


def reads_below(view: View[Any], indices: Iterable[int]) -> Iterator[tuple[Node[Any], Iterable[int]]]:
    """Yield the nodes that items of a view read, with the indices there, in the order of reading."""
    if is_node(view):
        yield view, indices
    elif lets_through(view):
        for i in indices:
            for source, parts in view._needs(i):
                yield from reads_below(source, parts)


def items_per_job(view: View[Any], processes: int) -> int:
    """Return how many items of a view a job needs, so that the nodes below reach their width in a process.

    They work ahead within a job. At its beginning and end they wait: for an eighth of the time.
    """
    read: dict[Node[Any], int] = {}
    if view._reads_ahead and is_measured(view) and view._n:
        with suppress(Exception):  # reading the item raises the error
            for node, indices in reads_below(view, (0,)):
                read[node] = read.get(node, 0) + len(list(indices))
    return max([1, *(-(-8 * node.width(processes) // times) for node, times in read.items())])


class StagePlan:
    """The plan of one consumer of a node, for the nodes below.

    The lock guards the translation of the plan, and the queues of the supplies. Nodes below without a time
    limit get `timeout_s`.
    """

    def __init__(
        self,
        view: View[Any],
        next_index: Callable[[], int | None],
        nodes: list[Node[Any]],
        timeout_s: float | None,
    ) -> None:
        self._view = view
        self.timeout_s = timeout_s
        self._next_index = next_index
        self._supplies: dict[Hashable, Supply] = {}
        for node in nodes:
            self._supply(node)
        self._claims: dict[int, Claims] = {}  # of the positions that are translated and not begun
        self._translated = 0
        self._begun = 0
        self._skipped: set[int] = set()  # positions that will not be begun
        self._is_over = False
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Let the nodes below begin."""
        for supply in list(self._supplies.values()):
            self._refill(supply)
            supply.prepare()

    def close(self) -> None:
        """Ask for nothing more, except for the items that workers have begun.

        The garbage collector may call this method, so it does not lock.
        """
        self._is_over = True

    # ---------------------------------------------------------------- in the workers of the node above

    def items(self, position: int) -> Callable[[Any, Any], None]:
        """Return a function that begins the item at a position. Its next call begins the next item."""
        positions = count(position)

        def begin(epoch: Any, i: Any) -> None:
            leave()
            current_item.set(self._begin(next(positions)))

        return begin

    def _begin(self, position: int) -> Item:
        with self._lock:
            while self._translated <= position and self._translate():
                pass
            self._begun = max(self._begun, position + 1)
            return Item(self, self._claims.pop(position, {}))

    def supply_of(self, node: Node[Any]) -> Supply | None:
        return self._supplies.get(node.identity())

    def take(self, supply: Supply, position: int) -> Parcel:
        """Wait for the chunk that contains a position of a supply."""
        parcel = supply.opened(position)
        if parcel is None:
            if position >= supply.drawn:
                self._refill(supply, position)
            parcel = supply.take(position)
            self._refill(supply)
        return parcel

    def drop(self, claims: Claims) -> None:
        """Drop the items that were not taken."""
        for supply, claimed in claims.items():
            if positions := [position for claim in claimed.values() for position in claim]:
                with self._lock:
                    supply.drop(positions)
                if supply.consumer.stage is not None:
                    supply.consumer.stage.skip(positions)

    def skip(self, positions: list[int]) -> None:
        """Drop the items for positions that may never be begun."""
        with self._lock:
            self._skipped.update(position for position in positions if position >= self._translated)
            claims = [self._claims.pop(position, {}) for position in positions]
        for claimed in claims:
            self.drop(claimed)

    def _extend(self, supply: Supply) -> None:
        """Translate until there is another index for a node below. Called by the stage of that node."""
        with self._lock:
            while not supply.untranslated and self._may_translate() and self._translate():
                pass

    # ---------------------------------------------------------------- under the lock

    def _refill(self, supply: Supply, position: int = -1) -> None:
        """Submit as many jobs as a node below can use, and those up to a position."""
        if not self._lock.acquire(blocking=position >= supply.drawn):
            return  # another thread does it
        try:
            room = 0 if self._is_over else supply.extend(0)
            while room > 0 or position >= supply.drawn:
                items = max(room, position + 1 - supply.drawn)
                while len(supply.queue) < items and self._may_translate() and self._translate():
                    pass
                if not supply.queue:
                    break
                room = supply.extend(items)
            for other in self._supplies.values():
                if not other.drawn and other.queue:
                    other.extend(len(other.queue))  # of the next epoch
        finally:
            self._lock.release()

    def _may_translate(self) -> bool:
        return self._translated < self._begun + HORIZON and not self._is_over

    def _translate(self) -> bool:
        """Translate the next position of the plan. Return whether there is one."""
        i = self._next_index()
        if i is None:
            return False
        position, claims = self._translated, Claims()
        self._translated += 1
        if position in self._skipped:
            self._skipped.discard(position)
            return True
        with suppress(Exception):  # reading the item raises the error
            for node, indices in reads_below(self._view, (i,)):
                supply = self._supply(node)
                claimed = claims.setdefault(supply, {})
                for j in indices:
                    claimed.setdefault(j, []).append(supply.promise(j))
        if claims:
            self._claims[position] = claims
        for supply, claimed in claims.items():
            supply.consumer.most_per_item = max(
                supply.consumer.most_per_item, sum(map(len, claimed.values()))
            )
        return True

    def _supply(self, node: Node[Any]) -> Supply:
        supply = self._supplies.get(node.identity())
        if supply is None:
            for identity, old in list(self._supplies.items()):
                if len(self._supplies) >= MOST_SUPPLIES and old.is_idle():
                    del self._supplies[identity]  # of an epoch that is over
            supply = node.supply(weakref.WeakMethod(self._extend), self.timeout_s)
            self._supplies[node.identity()] = supply
        return supply


class Item:
    """The item of the node above that a worker thread computes."""

    __slots__ = ("_claims", "_stage")

    def __init__(self, stage: StagePlan, claims: Claims) -> None:
        self._stage = stage
        self._claims = claims

    def plans(self, node: Node[Any]) -> bool:
        """Return whether the plan of the node above reaches a node."""
        return self._stage.supply_of(node) is not None

    def claims(self, node: Node[Any]) -> bool:
        """Return whether the plan says that this item reads items of a node."""
        return self._stage.supply_of(node) in self._claims

    def read(self, node: Node[Any], i: int) -> Any:
        supply = self._stage.supply_of(node)
        claim = None if supply is None else self._claims.get(supply, {}).get(i)
        if supply is None or not claim:
            return node.read_now(i, self._stage.timeout_s)
        try:
            parcel = self._stage.take(supply, position := claim.pop(0))
        except RuntimeError:
            if not supply.ended():
                raise
            return node.read_now(i, self._stage.timeout_s)  # the node was closed, and perhaps restarted
        return parcel.item(node, position)

    def end(self) -> None:
        self._stage.drop(self._claims)
        self._claims = {}


# The item that is computed here, if there is a stage. It travels with coroutines, too.
current_item: ContextVar[Item | None] = ContextVar("seqkit.item", default=None)
if hasattr(os, "register_at_fork"):  # a child that an item forks has none of the threads of the stage
    os.register_at_fork(after_in_child=partial(current_item.set, None))


def leave() -> None:
    """End the item that is computed here."""
    item = current_item.get()
    if item is not None:
        current_item.set(None)
        item.end()


class Parcel:
    """A chunk that was handed out, for the threads that take its items."""

    __slots__ = ("_chunk", "_lock", "_outcomes")

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._outcomes: Outcomes | None = None
        self._lock = threading.Lock()

    def item(self, node: Node[Any], position: int) -> Any:
        with self._lock:
            if self._outcomes is None:
                self._outcomes = opened(self._chunk)
        return node.hand_over(self._chunk, self._outcomes, position - self._chunk.position)


class Supply(Reader):
    """Reads a node below as one consumer, which gets its plan piece by piece, and hands out by position.

    `promise`, `extend` and `drop` are called under the lock of the stage.
    """

    def __init__(
        self, scheduler: Scheduler, epoch: Any, stage: LowerPlan | None, timeout_s: float | None
    ) -> None:
        super().__init__(scheduler, (), epoch, stage=stage, timeout_s=timeout_s)
        self.queue: deque[int] = deque()  # indices that are promised, and not drawn
        self.drawn = 0  # the position of the first of them
        self.untranslated: deque[int] = deque()  # indices that its own stage has not translated
        self._unwanted: set[int] = set()
        self._parcels: dict[int, Parcel] = {}  # items of chunks that were handed out, by position

    def promise(self, i: int) -> int:
        """Append an index to the plan. Return its position."""
        self.queue.append(i)
        if self.consumer.stage is not None:
            self.untranslated.append(i)
        return self.drawn + len(self.queue) - 1

    def is_idle(self) -> bool:
        return not (self.queue or self._parcels or self.pending())

    def prepare(self) -> None:
        if self.consumer.stage is not None:
            self.consumer.stage.prepare()

    def extend(self, items: int) -> int:
        """Draw items, and submit them. Return how many more to draw."""
        return self._scheduler.send(self.consumer, self._cut(items)) * self._scheduler.chunking.size

    def _cut(self, items: int) -> list[Chunk]:
        """Draw items, in chunks."""
        size, drawn, queue = self._scheduler.chunking.size, list[Chunk](), self.queue
        for _ in range(min(items, len(queue))):
            i, position = queue.popleft(), self.drawn
            self.drawn += 1
            if position in self._unwanted:
                self._unwanted.discard(position)
            elif drawn and len(drawn[-1]) < size and drawn[-1].position + len(drawn[-1]) == position:
                drawn[-1].indices.append(i)
            else:
                drawn.append(Chunk([i], position))
        return self._asked(drawn)

    # ---------------------------------------------------------------- taking and dropping

    def opened(self, position: int) -> Parcel | None:
        """Return the chunk of a position if it was handed out before."""
        return self._parcels.pop(position, None)

    def take(self, position: int) -> Parcel:
        """Wait for the chunk of a position. Several threads may call this at once."""
        return self._scheduler.awaited(self.consumer, self._take, position)

    def _take(self, position: int) -> Parcel | None:
        """Hand out the chunk of a position, or return None if it has no result yet. Runs in a step."""
        if (parcel := self._parcels.pop(position, None)) is not None:
            return parcel
        chunk = self._scheduler.handed_out(self.consumer, position)
        if chunk is None:
            return None
        parcel = Parcel(chunk)
        others = range(chunk.position, chunk.position + len(chunk))
        self._parcels.update((each, parcel) for each in others if each not in self._unwanted)
        return self._parcels.pop(position)

    def drop(self, positions: list[int]) -> None:
        """Drop items that nothing will take."""
        if not self.ended():
            left = [position for position in positions if self._parcels.pop(position, None) is None]
            self._scheduler.discard(self.consumer, left, self._unwanted)


class Node(View[T]):
    """A view whose items workers compute."""

    engine: Any  # the `Engine`, which the views of all epochs share
    _settings: Settings
    _epoch: Any  # of submitted jobs

    def has_workers(self) -> bool:
        """Return whether workers compute the items."""
        return bool(self.engine.has_workers())

    def width(self, processes: int) -> int:
        """Return how many workers the node has in each of so many processes."""
        return max(1, self._settings.workers // processes)

    @hiding_frames()
    def start(self) -> Self:
        """Start the workers now rather than at the first read. Return the view.

        Raises
        ------
        RuntimeError
            If the node is closed.
        TypeError
            If the pipeline cannot be sent to the workers.
        """
        if not self.engine.reads_here():
            if self.engine.has_threads():
                for node in nodes_below(self._sources[0]):
                    node.start()
            self.engine.running()
        return self

    def identity(self) -> Hashable:
        """Return a value that is equal for all views of the same node in the same epoch."""
        return id(self.engine), self._epoch

    def open(
        self,
        plan: Iterable[Any],
        limit: int | None = None,
        in_order: bool = True,
        timeout_s: float | None = None,
    ) -> Reader:
        """Return a reader of a plan (for the engine). `timeout_s` is the limit of a node above."""
        stage = None
        if limit is None and is_repeatable(plan):
            indices = each(plan)
            # Before this node's threads, because others may fork.
            stage = self._stage(lambda: next(indices, None), timeout_s)
        cut = cut_of(self._sources[0])
        running = self.engine.running()
        reader = Reader(running, plan, self._epoch, limit, in_order, stage, cut, timeout_s)
        if limit is None:
            reader.ahead = self._ahead_of(plan if is_repeatable(plan) else None)
        return reader

    def _ahead_of(self, plan: Any) -> Ahead | None:
        source = self._sources[0]
        # Workers of an executor may be on other machines.
        is_here = self.engine.settings.executor is None
        return Ahead(source, plan) if source._advises and is_here else None

    def _stage(self, next_index: Callable[[], int | None], timeout_s: float | None) -> StagePlan | None:
        """Return the stage that lets the nodes below work ahead in the order of a plan, if there are any."""
        source = self._sources[0]
        if not (source._reads_ahead and self.engine.has_threads()):
            return None
        nodes = nodes_below(source)
        limit_s = self.engine.settings.timeout_s or timeout_s
        try:
            return StagePlan(source, next_index, nodes, limit_s) if nodes else None
        except Exception:  # a node below is closed or cannot start: reading its items raises the error
            return None

    def supply(
        self, extend: Callable[[], Callable[[Supply], None] | None], timeout_s: float | None
    ) -> Supply:
        """Return a reader that gets its plan piece by piece. `extend` is a weak reference to the function
        that extends the plan, and `timeout_s` the time limit of the node above."""
        supplies: list[weakref.ref[Supply]] = []

        def next_index() -> int | None:
            supply, grow = supplies[0](), extend()
            if supply is None:
                return None
            if not supply.untranslated and grow is not None:
                grow(supply)
            return supply.untranslated.popleft() if supply.untranslated else None

        stage = self._stage(next_index, timeout_s)
        supply = Supply(self.engine.running(), self._epoch, stage, timeout_s)
        supply.ahead = self._ahead_of(None)
        supplies.append(weakref.ref(supply))
        return supply

    def read_now(self, i: int, timeout_s: float | None) -> Any:
        """Return an item that is not planned, without reading ahead."""
        chunks = self.open([i], 1, timeout_s=timeout_s).next()
        if not chunks:
            raise EndOfSequence(f"the sequence ends before index {i}")
        return self.hand_over(chunks[0], opened(chunks[0]), 0)

    def hand_over(self, chunk: Chunk, outcomes: Outcomes, position: int) -> Any:
        """Return an item of a chunk and drop the reference to it, or raise its error (for the engine)."""
        if position in outcomes.failures:
            # Keep the error in no local name: its traceback refers to this frame and the consumer's
            # objects.
            reraise(
                outcomes.failures.pop(position), self, chunk.index(position), self._sources[0], chunk.worker
            )
        item, outcomes.values[position] = outcomes.values[position], None
        return item


def is_repeatable(plan: Any) -> bool:
    """Is a plan known to give the same indices each time that it is iterated, without calling user code?

    >>> is_repeatable(Translated(range(3), list)), is_repeatable(iter(range(3)))
    (True, False)
    """
    while isinstance(plan, Translated | Expanded | Selected):
        plan = plan.plan
    return isinstance(plan, range | list | np.ndarray | Endless)
