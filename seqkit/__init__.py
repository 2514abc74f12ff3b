"""seqkit: lazy, indexable sequence combinators, and a prefetch engine that copies no arrays.

Anything with ``len`` and ``[i]`` is a source. Functions lay lazy views over it; every view is again a
sequence. Nothing is computed until an item is asked for.

>>> import seqkit as sk
>>> squares = sk.smap(lambda x: x * x, range(1000))
>>> pairs = sk.batch(sk.shuffle(squares, seed=0), 2)
>>> len(pairs), pairs[7] == list(pairs)[7]
(500, True)
"""

from collections.abc import Callable as _Callable
from typing import Any as _Any

from .chaining import attach as _attach
from .context import WorkerInfo, empty, get_worker_info
from .errors import EvaluationError, ItemTimeout, WorkerDied, errstate, seterr
from .loader import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    default_collate,
    default_convert,
)
from .observe import explain
from .observe import notebook as _notebook
from .prefetch import Prefetch, prefetch
from .view import View, view
from .views.arange import arange
from .views.batch import batch, unbatch
from .views.collate import collate
from .views.concatenate import concatenate
from .views.cycle import cycle
from .views.gather import gather, take
from .views.interleave import interleave
from .views.random_map import random_map
from .views.repeat import repeat
from .views.shuffle import shuffle
from .views.smap import smap, starmap
from .views.switch import case, switch
from .views.uniter import uniter

__version__ = "0.1.0"

__all__ = [
    "BatchSampler",
    "DataLoader",
    "EvaluationError",
    "ItemTimeout",
    "Prefetch",
    "RandomSampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "View",
    "WorkerDied",
    "WorkerInfo",
    "arange",
    "batch",
    "case",
    "collate",
    "concatenate",
    "cycle",
    "default_collate",
    "default_convert",
    "empty",
    "errstate",
    "explain",
    "gather",
    "get_worker_info",
    "interleave",
    "prefetch",
    "random_map",
    "repeat",
    "seterr",
    "shuffle",
    "smap",
    "starmap",
    "switch",
    "take",
    "unbatch",
    "uniter",
    "view",
]

_function: _Callable[..., _Any]
for _function in (batch, cycle, explain, gather, interleave, prefetch, shuffle, unbatch):
    _attach(_function)
for _function in (random_map, smap, starmap):
    _attach(_function, position=1)
View._repr_html_ = _notebook  # type: ignore[attr-defined]
