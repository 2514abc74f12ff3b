"""seqkit: lazy, indexable sequence combinators, and a prefetch engine that copies no arrays.

Anything with ``len`` and ``[i]`` is a source. Functions lay lazy views over it; every view is again a
sequence. Nothing is computed until an item is asked for.

>>> import seqkit as sk
>>> squares = sk.smap(lambda x: x * x, range(1000))
>>> pairs = sk.batch(sk.shuffle(squares, seed=0), 2)
>>> len(pairs), pairs[7] == list(pairs)[7]
(500, True)
"""

import typing as _typing

from . import loader as _loader
from . import prefetch as _package  # noqa: F401
from . import streams as streams
from .chaining import attach as _attach
from .chaining import attach_lazily as _attach_lazily
from .context import WorkerInfo, empty, get_worker_info
from .errors import EvaluationError, ItemTimeout, SlotsExhausted, WorkerDied, errstate, seterr
from .lazy import lazy_names as _lazy_names
from .loader.collate import default_collate, default_convert
from .transforms import ClipSequence, PadSequence
from .view import View, view
from .views.add_cache import add_cache
from .views.arange import arange
from .views.batch import batch, unbatch
from .views.collate import collate
from .views.concatenate import concatenate
from .views.cycle import cycle
from .views.epochs import epochs
from .views.filter import filter
from .views.flatten import flatten
from .views.gather import gather, take
from .views.interleave import interleave
from .views.materialize import materialize
from .views.mix import mix
from .views.pack import load_packed, pack
from .views.random_map import random_map
from .views.random_split import random_split
from .views.repeat import repeat
from .views.shard import shard
from .views.shuffle import shuffle
from .views.smap import smap, starmap
from .views.split import split
from .views.switch import case, switch
from .views.uniter import uniter
from .views.window import window

if _typing.TYPE_CHECKING:
    from .loader import (
        Append,
        BatchSampler,
        ConstWidthBucket,
        DataLoader,
        Dict,
        DistributedSampler,
        ExpWidthBucket,
        FilterSampler,
        FixedBucketSampler,
        Group,
        InfiniteSampler,
        IntervalSampler,
        LinearWidthBucket,
        List,
        NamedTuple,
        Pad,
        PerShard,
        RandomSampler,
        SequentialSampler,
        ShardedSampler,
        SortedBucketSampler,
        SortedSampler,
        SplitSampler,
        Stack,
        SubsetRandomSampler,
        TokenBudgetBatchSampler,
        Tuple,
        WeightedRandomSampler,
    )
    from .observe import debug, explain, monitor_throughput, profile
    from .prefetch import Prefetch, prefetch
    from .serializable import SerializableFunc

__version__ = "0.1.0"

__all__ = [
    "Append",
    "BatchSampler",
    "ClipSequence",
    "ConstWidthBucket",
    "DataLoader",
    "Dict",
    "DistributedSampler",
    "EvaluationError",
    "ExpWidthBucket",
    "FilterSampler",
    "FixedBucketSampler",
    "Group",
    "InfiniteSampler",
    "IntervalSampler",
    "ItemTimeout",
    "LinearWidthBucket",
    "List",
    "NamedTuple",
    "Pad",
    "PadSequence",
    "PerShard",
    "Prefetch",
    "RandomSampler",
    "SequentialSampler",
    "SerializableFunc",
    "ShardedSampler",
    "SlotsExhausted",
    "SortedBucketSampler",
    "SortedSampler",
    "SplitSampler",
    "Stack",
    "SubsetRandomSampler",
    "TokenBudgetBatchSampler",
    "Tuple",
    "View",
    "WeightedRandomSampler",
    "WorkerDied",
    "WorkerInfo",
    "add_cache",
    "arange",
    "batch",
    "case",
    "collate",
    "concatenate",
    "cycle",
    "debug",
    "default_collate",
    "default_convert",
    "empty",
    "epochs",
    "errstate",
    "explain",
    "filter",
    "flatten",
    "gather",
    "get_worker_info",
    "interleave",
    "load_packed",
    "materialize",
    "mix",
    "monitor_throughput",
    "pack",
    "prefetch",
    "profile",
    "random_map",
    "random_split",
    "repeat",
    "seterr",
    "shard",
    "shuffle",
    "smap",
    "split",
    "starmap",
    "switch",
    "take",
    "unbatch",
    "uniter",
    "view",
    "window",
]

# Rooms that cost more to import than views do are imported when one of their names is first used.
_LAZY = {
    **dict.fromkeys(_loader.__all__, "loader"),
    **dict.fromkeys(("Prefetch", "prefetch"), "prefetch"),
    **dict.fromkeys(("debug", "explain", "monitor_throughput", "profile"), "observe"),
    "SerializableFunc": "serializable",
}
if not _typing.TYPE_CHECKING:  # with a `__getattr__`, type checkers accept any name
    # The import above bound the package to this name. The function replaces it when it is first used, and is
    # never overwritten, because a package is bound only when it is first imported.
    del prefetch
    __getattr__, __dir__ = _lazy_names(__name__, _LAZY)

_function: _typing.Callable[..., _typing.Any]
for _function in (
    add_cache,
    batch,
    cycle,
    epochs,
    flatten,
    gather,
    interleave,
    materialize,
    pack,
    random_split,
    shard,
    shuffle,
    split,
    unbatch,
    window,
):
    _attach(_function)
for _function in (filter, random_map, smap, starmap):
    _attach(_function, position=1)
for _name in ("debug", "explain", "monitor_throughput", "prefetch", "profile"):
    _attach_lazily(_name, __name__)


def _notebook(view: View[_typing.Any]) -> str:
    from .observe import notebook

    return notebook(view)


View._repr_html_ = _notebook  # type: ignore[attr-defined]
