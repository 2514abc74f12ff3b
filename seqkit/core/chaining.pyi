"""The methods of every view, for type checkers; `seqkit` attaches the same ones when it is imported.

A function whose first parameter is the sequence is used as a method unchanged. The other methods are written
out without the sequence. The parameters before the sequence are then positional only.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np

from ..engine.prefetch import prefetch as _prefetch
from ..observe.explain import explain as _explain
from ..observe.preview import preview as _preview
from ..observe.profile import profile as _profile
from ..observe.taps import debug as _debug
from ..observe.taps import monitor_throughput as _monitor_throughput
from ..observe.trace import trace as _trace
from ..observe.tune import tune as _tune
from ..observe.verify import verify as _verify
from ..observe.watch import watch as _watch
from ..stores.add_cache.add_cache import add_cache as _add_cache
from ..stores.materialize.materialize import materialize as _materialize
from ..stores.pack.pack import pack as _pack
from ..views.bases.side_by_side import Zip
from ..views.batch import batch as _batch
from ..views.cycle import cycle as _cycle
from ..views.epochs import epochs as _epochs
from ..views.filter import Filter
from ..views.flatten import flatten as _flatten
from ..views.gather import gather as _gather
from ..views.gather_groups import gather_groups as _gather_groups
from ..views.kfold import kfold as _kfold
from ..views.mix.mix import Stop
from ..views.random_split import random_split as _random_split
from ..views.retry import retry as _retry
from ..views.shard import shard as _shard
from ..views.shuffle import shuffle as _shuffle
from ..views.shuffle_buffer import shuffle_buffer as _shuffle_buffer
from ..views.shuffle_groups import shuffle_groups as _shuffle_groups
from ..views.split import split as _split
from ..views.time_split import time_split as _time_split
from ..views.unbatch import unbatch as _unbatch
from ..views.window import window as _window
from .errors import EvaluationError
from .view import Indexable, U, V, View

__all__ = ["Chainable", "Displayed", "attach"]

T_co = TypeVar("T_co", covariant=True)

class Displayed:
    explain = _explain
    preview = _preview
    trace = _trace
    watch = _watch
    def _repr_html_(self) -> str: ...

class Chainable(Displayed, Generic[T_co]):
    add_cache = _add_cache
    batch = _batch
    cycle = _cycle
    debug = _debug
    epochs = _epochs
    flatten = _flatten
    gather = _gather
    gather_groups = _gather_groups
    kfold = _kfold
    materialize = _materialize
    monitor_throughput = _monitor_throughput
    pack = _pack
    prefetch = _prefetch
    profile = _profile
    random_split = _random_split
    retry = _retry
    shard = _shard
    shuffle = _shuffle
    shuffle_buffer = _shuffle_buffer
    shuffle_groups = _shuffle_groups
    split = _split
    tune = _tune
    time_split = _time_split
    unbatch = _unbatch
    verify = _verify
    window = _window

    take = _gather

    @overload
    def collate(self) -> View[tuple[T_co]]: ...
    @overload
    def collate(self, second: Indexable[U], /) -> View[tuple[T_co, U]]: ...
    @overload
    def collate(self, second: Indexable[U], third: Indexable[V], /) -> View[tuple[T_co, U, V]]: ...
    @overload
    def collate(self, *others: Indexable[Any]) -> View[tuple[Any, ...]]: ...
    def concatenate(self, *others: Indexable[U]) -> View[T_co | U]: ...
    def fallback(
        self, f: Callable[[EvaluationError], U] | Literal["replace", "skip"], /
    ) -> View[T_co | U]: ...
    def filter(self, predicate: Callable[[T_co], Any], /) -> Filter[T_co]: ...
    def interleave(self, *sequences: Indexable[U]) -> View[T_co | U]: ...
    def mix(
        self,
        *others: Indexable[U],
        weights: Iterable[float] | Mapping[int, Iterable[float]] | None = None,
        seed: int | None = None,
        sizes: Iterable[Indexable[int]] | None = None,
        stop: Stop = "first",
        name: str | None = None,
    ) -> View[T_co | U]: ...
    def random_map(
        self,
        f: Callable[[T_co, np.random.Generator], U],
        /,
        seed: int | None = None,
        *,
        name: str | None = None,
    ) -> View[U]: ...
    @overload
    def smap(self, f: Callable[[T_co], U], /, *, zip: Zip = "strict") -> View[U]: ...
    @overload
    def smap(
        self, f: Callable[..., U], second: Indexable[Any], /, *more: Indexable[Any], zip: Zip = "strict"
    ) -> View[U]: ...
    def starmap(self: Chainable[Iterable[Any]], f: Callable[..., U], /) -> View[U]: ...

def attach(owner: type, name: str, position: int | None = 0) -> None: ...
