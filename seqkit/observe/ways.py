"""The ways in which `verify` reads a view or a loader, and the digests of the items."""

from __future__ import annotations

import hashlib
import json
import operator
import pickle
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..core.awaiting import is_awaited, unawaited
from ..core.errors import EvaluationError, ItemTimeout, RemoteError, WorkerDied, summary
from ..core.lengths import is_measured
from ..core.view import View
from ..engine.engine import why_not_here
from ..engine.prefetch import Prefetch, prefetch
from ..engine.results import NotSent
from ..stores.add_cache.add_cache import AddCache
from ..views.bases.scanned import Scanned

__all__ = [
    *("PROCESSES", "REFERENCE", "RESUMED", "THREADS", "EpochOf"),
    *("Way", "digest", "digests", "ways", "without_nodes"),
]


_ATOMS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"",
    bool: lambda value: b"1" if value else b"0",
    int: lambda value: b"%x" % value,  # decimal digits are limited
    float: lambda value: struct.pack("<d", value),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bytes: bytes,
    bytearray: bytes,
}


def digest(item: Any) -> bytes:
    """Return the digest of an item: equal for items of equal content, bit for bit, in every process.

    Arrays count with dtype, shape and bytes, whatever their memory order; floats with their bits, so NaN
    equals NaN and 0.0 differs from -0.0; dicts with their order; sets without one. Other objects count as
    what `pickle` would store of them. Objects whose content cannot be told, such as open files and functions,
    count as their class.

    >>> import math
    >>> digest({"x": math.nan}) == digest({"x": math.nan}), digest(1) == digest(1.0)
    (True, False)
    """
    return _Digests().of(item)


class _Digests:
    """The digests of objects, each computed once however often it occurs."""

    def __init__(self) -> None:
        self._open: set[int] = set()  # objects whose content is being read
        self._known: dict[int, tuple[Any, bytes]] = {}  # keeps the objects, so that no identifier comes twice

    def of(self, item: Any) -> bytes:
        kind = type(item)  # not `__class__`: an item may fail for attributes that it lacks
        if kind in _ATOMS:
            return _hash(kind.__name__, [_ATOMS[kind](item)])
        if id(item) in self._open:
            return _hash(f"again {kind.__qualname__}")
        if id(item) not in self._known:
            self._open.add(id(item))
            about, content = _content(item, kind)
            is_whole = isinstance(content, bytes)
            parts = [content] if is_whole else [self.of(part) for part in content]
            parts = sorted(parts) if issubclass(kind, set | frozenset) else parts
            self._known[id(item)] = item, _hash(f"{kind.__module__}.{kind.__qualname__} {about}", parts)
            self._open.discard(id(item))
        return self._known[id(item)][1]


def _hash(kind: str, parts: Iterable[Any] = ()) -> bytes:
    found = hashlib.blake2b(kind.encode(), digest_size=16)
    for part in parts:
        found.update(b" %d " % len(part) + part)
    return found.digest()


def _content(item: Any, kind: type) -> tuple[str, Any]:
    """Return a text about an object, and its bytes or its parts."""
    torch: Any = sys.modules.get("torch")
    if issubclass(kind, np.ma.MaskedArray):
        return "", [item.data, np.ma.getmaskarray(item)]
    if issubclass(kind, np.ndarray | np.generic):
        plain = np.asarray(item)
        if names := plain.dtype.names:  # not the bytes between the fields
            return str(names), [plain[name] for name in names]
        is_whole = not plain.dtype.hasobject
        content = np.ascontiguousarray(plain).tobytes() if is_whole else plain.ravel().tolist()
        return f"{plain.dtype.str} {plain.shape}", content
    is_tensor = torch and issubclass(kind, torch.Tensor) and item.layout == torch.strided
    if is_tensor and not (item.is_nested or item.is_meta):
        bits = item.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
        return f"{item.dtype} {tuple(item.shape)}", bits.numpy().tobytes()
    if issubclass(kind, dict):
        return "", [part for pair in item.items() for part in pair]
    if issubclass(kind, list | tuple | set | frozenset):
        return "", item
    try:  # what `pickle` would store
        reduced = item.__reduce_ex__(4)
    except Exception:  # of files, locks, functions, and the like
        return "", ()
    if isinstance(reduced, str):
        return reduced, ()
    return "", [part if i < 3 else list(part or ()) for i, part in enumerate(reduced[:5])]


REFERENCE, AGAIN, RESUMED = "no workers", "no workers, again", "resumed in the middle"
THREADS = {"2 threads"}
PROCESSES = {"2 processes", "2 spawned processes", "a pickled copy"}
# How long one item may take before it counts as hanging.
LIMIT_S = 30.0
# Of `filter` views and the like, so many items of the source are read at most.
MOST_SCANNED = 1000
# In place of an item that failed, with the class of its error.
FAILED = "an item that failed"

Change = Callable[[View[Any], tuple[View[Any], ...]], View[Any] | None]
# Returns up to so many items of an epoch.
Way = Callable[["EpochOf", int], Iterator[Any]]


class EpochOf(NamedTuple):
    """An epoch of a loader or a view, or its items at some indices.

    `dataset` takes the place of the data set of a loader.
    """

    sequence: Any
    number: int
    dataset: View[Any] | None = None
    indices: list[int] | None = None

    def read(self, count: int, *workers: Any) -> Iterator[Any]:
        """Yield up to `count` items, read with so many workers, a method and a start method."""
        return _read(self.copy(*workers), count)

    def copy(self, workers: int = 0, method: Any = "thread", context: Any = None) -> Any:
        """Return a view or a loader of the same items with other workers, which scans its sources anew."""
        is_limited = workers and not (method == "process" and why_not_here())  # the other pool has none
        limit_s = LIMIT_S if is_limited else None
        if isinstance(self.sequence, View):
            view = _rewritten(self.sequence, _scanned_anew)
            view = view if self.indices is None else view[np.array(self.indices, np.int64)]
            return prefetch(view, workers, method, context=context, timeout=limit_s, retries=0)
        given = {} if self.dataset is None else {"dataset": _rewritten(self.dataset, _scanned_anew)}
        copy = self.sequence.with_workers(workers, method, limit_s or 0, context, **given)
        copy.set_epoch(self.number)
        return copy


def ways(is_loader: bool) -> dict[str, Way]:
    """Return the ways to read. Processes come first: they are forked before items run here."""
    found: dict[str, Way] = {
        "2 processes": lambda epoch, n: epoch.read(n, 2, "process"),
        "2 spawned processes": lambda epoch, n: epoch.read(n, 2, "process", "forkserver"),
        "2 threads": lambda epoch, n: epoch.read(n, 2),
        REFERENCE: lambda epoch, n: epoch.read(n),
        AGAIN: lambda epoch, n: epoch.read(n),
        "a pickled copy": _pickled,
    }
    return {**found, RESUMED: _resumed} if is_loader else found


def _read(copy: Any, count: int) -> Iterator[Any]:
    with copy:
        yield from _outcomes(iter(copy), count)


def _pickled(epoch: EpochOf, count: int) -> Iterator[Any]:
    try:
        copy = pickle.loads(pickle.dumps(epoch.copy()))
    except Exception as error:
        raise ValueError(f"it cannot be pickled: {type(error).__name__}") from error
    return _read(copy, count)


def _resumed(epoch: EpochOf, count: int) -> Iterator[Any]:
    """Yield the items from the middle on, of a loader that got the state of another one."""
    with epoch.copy() as first:
        begun = iter(first)
        for _ in _outcomes(begun, count // 2):
            pass
        state = json.loads(json.dumps(first.state_dict()))
    second = epoch.copy(2)
    second.load_state_dict(state)
    yield from _read(second, count - count // 2)


def digests(items: Iterator[Any], until: float = float("inf")) -> list[bytes]:
    """Return the digests of items. End at `until`, in seconds of `perf_counter`."""
    found: list[bytes] = []
    for item in items:
        found.append(digest(item))
        if perf_counter() > until:
            break
    return found


def _outcomes(items: Iterator[Any], count: int) -> Iterator[Any]:
    """Yield up to so many items. An item that fails is the class of its error.

    Raises the errors of items that hang or end their worker, and of those that cannot be sent by a process.
    """
    for _ in range(count):
        try:
            item = next(items)
            if is_awaited(type(item)):
                raise NotSent(str(unawaited(item)))
            yield item
        except StopIteration:
            return
        except (ItemTimeout, WorkerDied):
            raise
        except Exception as error:
            cause = error.__cause__ if isinstance(error, EvaluationError) and error.__cause__ else error
            if isinstance(cause, NotSent):
                raise cause from None
            # Only the text of an error comes from a process, if it cannot be pickled.
            text = str(cause) if isinstance(cause, RemoteError) else summary(cause)
            yield FAILED, text.partition(":")[0].rpartition(".")[2]


# -------------------------------------------------------------------- expressions


def without_nodes(view: View[Any], nodes: bool = False) -> View[Any]:
    """Return an expression whose caches begin empty, and have no stores, and without `prefetch` views.

    `nodes`: keep these.
    """

    def change(view: View[Any], sources: tuple[View[Any], ...]) -> View[Any] | None:
        if isinstance(view, Prefetch) and not nodes:
            return sources[0]
        if not isinstance(view, AddCache):
            return None
        return AddCache(sources[0], replace(view.settings.fresh(""), store=None, key=None))

    return _rewritten(view, change)


def _scanned_anew(view: View[Any], sources: tuple[View[Any], ...]) -> View[Any] | None:
    """Return a `filter` view or the like that scans the first items of its source, or None for others."""
    if not (view._sources and view._length_reads):
        return None
    if is_measured(sources[0]) and isinstance(n := sources[0]._n, int) and n > MOST_SCANNED:
        sources = (sources[0].head(MOST_SCANNED), *sources[1:])
    rebuilt = view._rebuild(sources)
    if isinstance(rebuilt, Scanned):  # it shares the scan of the given view
        rebuilt._forget()
    return rebuilt


def _rewritten(view: View[Any], change: Change, copies: dict[int, View[Any]] | None = None) -> View[Any]:
    """Return an expression in which some views are changed. Those above are rebuilt, the others remain."""
    copies = {} if copies is None else copies
    if id(view) not in copies:
        sources = tuple(_rewritten(source, change, copies) for source in view._sources)
        changed = change(view, sources)
        if changed is None:
            are_same = all(map(operator.is_, sources, view._sources))
            changed = view if are_same else view._rebuild(sources)
        copies[id(view)] = changed
    return copies[id(view)]
