"""seqkit: lazy, indexable sequence combinators, and a prefetch engine that copies no arrays.

Anything with ``len`` and ``[i]`` is a source. Functions wrap it in lazy views, and every view is a sequence
again. Nothing is computed until an item is requested.

>>> import seqkit as sk
>>> squares = sk.smap(lambda x: x * x, range(1000))
>>> pairs = sk.batch(sk.shuffle(squares, seed=0), 2)
>>> len(pairs), pairs[7] == list(pairs)[7]
(500, True)
"""

import os as _os
import typing as _typing
from importlib import import_module as _import_module

from . import collation as _collation
from . import samplers as _samplers
from . import streams as streams
from .collation.default import default_collate
from .core.chaining import attach as _attach
from .core.chaining import attach_joining as _attach_joining
from .core.chaining import attach_lazily as _attach_lazily
from .core.display import as_html as _as_html
from .core.errors import EvaluationError, ItemTimeout, WorkerDied, errstate, seterr
from .core.lazy_imports import lazy_names as _lazy_names
from .core.lazy_imports import public_names as _public_names
from .core.source import view
from .core.view import View
from .core.worker import WorkerInfo, empty, get_worker_info
from .engine import observers as _observers
from .stores.add_cache.add_cache import add_cache
from .stores.materialize.materialize import materialize
from .stores.pack.pack import load_packed, pack
from .transforms import ClipSequence, PadSequence
from .views.arange import arange
from .views.batch import batch
from .views.collate import collate
from .views.concatenate import concatenate
from .views.cycle import cycle
from .views.epochs import epochs
from .views.fallback import fallback
from .views.filter import filter as filter
from .views.flatten import flatten
from .views.gather.gather import gather, take
from .views.interleave.interleave import interleave
from .views.mix.mix import mix
from .views.random_map import random_map
from .views.random_split import random_split
from .views.repeat import repeat
from .views.shard import shard
from .views.shuffle import shuffle
from .views.shuffle_groups import shuffle_groups
from .views.smap.smap import smap
from .views.split import split
from .views.starmap import starmap
from .views.switch import case, switch
from .views.unbatch import unbatch
from .views.uniter import uniter
from .views.window import window

if _typing.TYPE_CHECKING:
    from . import observe as observe
    from . import sources as sources
    from . import testing as testing
    from . import torch as torch
    from .collation import Append as Append
    from .collation import Dict as Dict
    from .collation import Group as Group
    from .collation import List as List
    from .collation import NamedTuple as NamedTuple
    from .collation import Pad as Pad
    from .collation import PerShard as PerShard
    from .collation import Stack as Stack
    from .collation import Tuple as Tuple
    from .collation import default_convert as default_convert
    from .core.serializable import SerializableFunc
    from .engine.prefetch import Prefetch, prefetch
    from .loader import DataLoader
    from .observe import debug, explain, monitor_throughput, preview, profile, trace, tune, verify, watch
    from .samplers import BatchSampler as BatchSampler
    from .samplers import ConstWidthBucket as ConstWidthBucket
    from .samplers import DistributedSampler as DistributedSampler
    from .samplers import ExpWidthBucket as ExpWidthBucket
    from .samplers import FilterSampler as FilterSampler
    from .samplers import FixedBucketSampler as FixedBucketSampler
    from .samplers import InfiniteSampler as InfiniteSampler
    from .samplers import IntervalSampler as IntervalSampler
    from .samplers import LinearWidthBucket as LinearWidthBucket
    from .samplers import RandomSampler as RandomSampler
    from .samplers import SequentialSampler as SequentialSampler
    from .samplers import ShardedSampler as ShardedSampler
    from .samplers import SortedBucketSampler as SortedBucketSampler
    from .samplers import SortedSampler as SortedSampler
    from .samplers import SplitSampler as SplitSampler
    from .samplers import SubsetRandomSampler as SubsetRandomSampler
    from .samplers import TokenBudgetBatchSampler as TokenBudgetBatchSampler
    from .samplers import WeightedRandomSampler as WeightedRandomSampler
    from .sources import per_process, read

__version__ = "0.1.0"

# Names that other libraries have for functions.
# `filter` is left out, because it would shadow the builtin. Samplers and collate functions are left out,
# because `seqkit.samplers` and `seqkit.collation` are their places. All can be imported from here, too.
__all__ = [
    "ClipSequence",
    "DataLoader",
    "EvaluationError",
    "ItemTimeout",
    "PadSequence",
    "Prefetch",
    "SerializableFunc",
    "View",
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
    "empty",
    "epochs",
    "errstate",
    "explain",
    "fallback",
    "flatten",
    "gather",
    "get_worker_info",
    "interleave",
    "load_packed",
    "materialize",
    "mix",
    "monitor_throughput",
    "pack",
    "per_process",
    "prefetch",
    "preview",
    "profile",
    "random_map",
    "random_split",
    "read",
    "repeat",
    "seterr",
    "shard",
    "shuffle",
    "shuffle_groups",
    "smap",
    "split",
    "starmap",
    "switch",
    "take",
    "trace",
    "tune",
    "unbatch",
    "uniter",
    "verify",
    "view",
    "watch",
    "window",
]

# Rooms that cost more to import than views do are imported when one of their names is first used.
_LAZY = {
    **dict.fromkeys(_collation.__all__, "collation"),
    **dict.fromkeys(_samplers.__all__, "samplers"),
    "DataLoader": "loader",
    **dict.fromkeys(("Prefetch", "prefetch"), "engine.prefetch"),
    **dict.fromkeys(
        (
            "debug",
            "explain",
            "monitor_throughput",
            "preview",
            "profile",
            "trace",
            "tune",
            "verify",
            "watch",
        ),
        "observe",
    ),
    "SerializableFunc": "core.serializable",
    **dict.fromkeys(("per_process", "read"), "sources"),
}
if not _typing.TYPE_CHECKING:  # with a `__getattr__`, type checkers accept any name
    _ROOMS = ("observe", "sources", "testing", "torch")
    __getattr__ = _lazy_names(__name__, _LAZY, _ROOMS)[0]
    __dir__ = _public_names(
        __name__, (*_LAZY, *_ROOMS, "__version__", "collation", "filter", "samplers", "streams")
    )

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
    shuffle_groups,
    split,
    unbatch,
    window,
):
    _attach(_function)
_attach(gather, name="take")
for _function in (fallback, filter, random_map, smap, starmap):
    _attach(_function, position=1)
for _function in (collate, concatenate, mix):
    _attach_joining(_function)
for _name in (
    "debug",
    "explain",
    "monitor_throughput",
    "prefetch",
    "preview",
    "profile",
    "trace",
    "tune",
    "verify",
    "watch",
):
    _attach_lazily(_name, __name__)


View._repr_html_ = _as_html  # type: ignore[attr-defined]

_observers.prepare = lambda engine: (
    engine.settings.method == "auto" and _import_module(".observe.choose", __name__).settle(engine)
)
if _every := _os.environ.get("SEQKIT_PROFILE_EVERY"):
    _import_module(".observe.every", __name__).install(_every)
