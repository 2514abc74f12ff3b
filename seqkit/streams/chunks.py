"""Read the chunks of open streams: in a worker, or in the consumer's process.

A *pass* is one opened iterator of a stream. The consumer numbers the passes. It asks for the chunks of a pass
in order, by keys ``(pass, chunk, opening)``. Only the first key of a pass has an `Opening`. So a stream is
opened exactly when the consumer says so, and never by a worker that merely takes the place of another one.

Guarantees
----------
- A chunk is the one that a fresh pass over its stream gives at its place.
- A key of a pass that is not open here draws nothing, and its value is None: the consumer opens a new pass.
- Exceptions of the user's code, `StopIteration` included, are errors of the chunk. They never end a
  stream quietly.
- Iterators are closed at their end, after an error, and with their worker.
- The consumer gets copies of chunks. So a stream may fill one buffer again and again.

Relies on
---------
- A stream gives the same chunks each time it is opened.
- One thread uses an `OpenStreams`.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, Literal, NamedTuple, TypeAlias

from ..core.arguments import refuse_table
from ..core.errors import EndOfSequence, EvaluationError, RemoteError, seterr, summary
from ..core.lengths import UNKNOWN
from ..core.set_epoch import listeners
from ..core.view import View, in_order
from ..core.worker import close_with_worker, get_worker_info, in_process_worker
from ..engine.seeding import seed_item

__all__ = ["OPEN", "Chunks", "Key", "OpenStreams", "Opener", "Opening", "Resume", "keys"]

Resume = Literal["start"] | None

OPEN = -1  # in place of a chunk: only open the stream, and return the chunk at which the pass begins


class Opening(NamedTuple):
    """How to open a stream.

    Attributes
    ----------
    stream : Any
        Its place in the list of streams, or the user's object if there is no list.
    number : int
        Its place in the order of the epoch.
    start : int
        The first chunk that the consumer wants.
    epoch : int
        The epoch of views, and of other objects with `set_epoch`.
    seed : int
        Seeds the global generators of worker processes, together with `number` and the chunk. So draws depend
        neither on the worker nor on what it read before.
    replaced : int or None
        An earlier pass over the same stream, to be closed.
    """

    stream: Any
    number: int
    start: int
    epoch: int
    seed: int
    replaced: int | None


Key: TypeAlias = tuple[int, int, Opening | None]


def keys(number: int, chunk: int) -> Iterator[Key]:
    """Return the keys of the chunks of a pass that is open, without end."""
    return ((number, later, None) for later in count(chunk))


class Opener:
    """Opens streams.

    Parameters
    ----------
    open_fn : callable
    resume : "start" or None
        Whether `open_fn` takes the number of the first chunk.
    """

    def __init__(self, open_fn: Callable[..., Iterable[Any]], resume: Resume = None) -> None:
        self.open_fn = open_fn
        self._resume = resume

    def open(self, stream: Any, start: int = 0, epoch: int = 0) -> tuple[Iterator[Any], int]:
        """Return the chunks of a stream from `start` or an earlier one on, and the number of the first."""
        seeks = self._resume == "start"
        opened: Any = self.open_fn(stream, start=start) if seeks else self.open_fn(stream)
        refuse_table(opened, "open_fn must return an iterable of chunks: ")
        if isinstance(opened, View):
            opened = opened.at_epoch(epoch)
            if start and not seeks:
                return in_order(opened.skip(start)), start
        for one in () if isinstance(opened, View) else listeners(opened):
            one.set_epoch(epoch)
        return in_order(opened), start if seeks else 0


class _OpenPass:
    """An opened iterator, and the chunk that it gives next."""

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self.items: Iterator[Any] = iter(())
        self.position = opening.start


class OpenStreams:
    """The streams that one thread has open.

    Parameters
    ----------
    streams : View or None
        The list of streams. None if openings have the streams themselves.
    opener : Opener
    """

    def __init__(self, streams: View[Any] | None, opener: Opener) -> None:
        self._streams = streams
        self._opener = opener
        info = get_worker_info() if in_process_worker() else None
        self._torch_seed = None if info is None else info.seed >> 1
        self._passes: dict[int, _OpenPass] = {}

    def read(self, key: Key) -> tuple[Any, ...] | int | None:
        """Return a chunk in a tuple, or an empty tuple for one before the first wanted chunk.

        The answer to `OPEN` is the number of the first chunk. None: the pass is not open here.

        Raises
        ------
        EndOfSequence
            If the stream ends before the chunk.
        """
        number, chunk, opening = key
        if opening is not None:
            self._open(number, opening)
        one = self._passes.get(number)
        if one is None or chunk not in (OPEN, one.position):
            return None
        if chunk == OPEN:
            return one.position
        try:
            self._seed_globals(one.opening, chunk)
            value = next(one.items)
            one.position += 1
            if chunk < one.opening.start:
                return ()
            return (value if in_process_worker() else copy.deepcopy(value),)
        except StopIteration:
            self._close(number)
        except BaseException as error:
            self._fail(number, error)
        raise EndOfSequence("the stream has ended")

    def _open(self, number: int, opening: Opening) -> None:
        self._close(opening.replaced)
        self._passes[number] = one = _OpenPass(opening)
        close_with_worker(self)
        try:
            self._seed_globals(opening, OPEN)
            stream = opening.stream
            if self._streams is not None:
                stream = self._streams.at_epoch(opening.epoch)._get(stream)
            one.items, one.position = self._opener.open(stream, opening.start, opening.epoch)
            if any(one.items is other.items for other in self._passes.values() if other is not one):
                raise RuntimeError(
                    "open_fn returned the iterator of another stream, which is still open. Return a new"
                    " iterator each time."
                )
        except BaseException as error:
            self._fail(number, error)

    def _seed_globals(self, opening: Opening, chunk: int) -> None:
        if self._torch_seed is not None:
            seed_item(opening.seed, self._torch_seed, 0, (opening.number, chunk))

    def _fail(self, number: int, error: BaseException) -> None:
        """Close a pass. Raise its error as the policy asks for."""
        try:
            self._close(number)
            if not isinstance(error, Exception) or isinstance(error, EvaluationError | RecursionError):
                raise error
            if seterr() == "passthrough" and not isinstance(error, RemoteError):
                raise IndexError(*error.args) if isinstance(error, EndOfSequence) else error
            raise EvaluationError(f"failed: {summary(error)}") from error
        finally:
            del error  # or it and this frame would refer to each other

    def _close(self, number: int | None) -> None:
        one = self._passes.pop(number, None)  # type: ignore[arg-type]
        try:
            getattr(one and one.items, "close", lambda: None)()
        except Exception:
            pass  # the chunks that it gave are good all the same

    def close(self) -> None:
        """Close all streams."""
        while self._passes:
            self._close(next(iter(self._passes)))


class Chunks(View[Any]):
    """The chunks of all streams by their keys: the pipeline of a worker.

    Each thread has open streams of its own. So a thread that was given up, because it is stuck in a stream,
    shares none with the thread in its place.
    """

    def __init__(self, streams: View[Any] | None, opener: Opener) -> None:
        super().__init__((), UNKNOWN)
        self._of_streams = streams, opener
        self._local = threading.local()

    def _get(self, i: Any) -> Any:
        if not hasattr(self._local, "streams"):
            self._local.streams = OpenStreams(*self._of_streams)
        return self._local.streams.read(i)

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Chunks, self._of_streams
