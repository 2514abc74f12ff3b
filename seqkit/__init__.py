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

from . import collation as _collation
from . import samplers as _samplers
from .core import worker as _worker  # noqa: F401 - remembers the working directory
from .core.chaining import Chainable as _Chainable
from .core.chaining import attach as _attach
from .core.lazy import TABLE as _TABLE
from .core.lazy import lazy_names as _lazy_names
from .core.lazy import load as _load
from .core.lazy import public_names as _public_names
from .core.source import view as view
from .core.view import View as View
from .engine import observers as _observers
from .views import gather as _gather  # noqa: F401 - slices of views

__version__ = "0.1.0"

# This is the only place that names modules by strings. Each name is imported when it is first used. Type
# checkers read `__init__.pyi`.
_NAMES = {
    "core.errors": "EvaluationError ItemTimeout WorkerDied errstate seterr",
    "core.serializable": "SerializableFunc",
    "core.source": "view",
    "core.view": "View",
    "core.worker": "WorkerInfo empty get_worker_info",
    "engine.prefetch": "Prefetch prefetch",
    "loader": "DataLoader",
    "observe": "debug explain monitor_throughput preview profile show_versions trace tune verify watch",
    "sources": "per_process read",
    "stores.add_cache.add_cache": "add_cache",
    "stores.materialize.materialize": "materialize",
    "stores.pack.pack": "load_packed pack",
    "transforms": "ClipSequence PadSequence",
    "collation": "default_collate",
    "views.arange": "arange",
    "views.batch": "batch",
    "views.bins": "bins",
    "views.collate": "collate",
    "views.concatenate": "concatenate",
    "views.cycle": "cycle",
    "views.epochs": "epochs",
    "views.fallback": "fallback",
    "views.flatten": "flatten",
    "views.gather": "gather take",
    "views.gather_groups": "gather_groups",
    "views.interleave": "interleave",
    "views.kfold": "kfold",
    "views.mix.mix": "mix",
    "views.random_map": "random_map",
    "views.random_split": "random_split",
    "views.repeat": "repeat",
    "views.retry": "retry",
    "views.shard": "shard",
    "views.shuffle": "shuffle",
    "views.shuffle_buffer": "shuffle_buffer",
    "views.shuffle_groups": "shuffle_groups",
    "views.smap": "smap",
    "views.split": "split",
    "views.starmap": "starmap",
    "views.switch": "case switch",
    "views.time_split": "time_split",
    "views.unbatch": "unbatch",
    "views.uniter": "uniter",
    "views.window": "window",
}
_ROOMS = ("collation", "observe", "samplers", "sources", "streams", "testing", "torch")
# Objects that need a reader: their package, their class, and a function or view that reads them by position.
_READERS = {
    ("pandas", "DataFrame"): "pandas:PandasRows",
    ("pandas", "Series"): "pandas:PandasColumn",
    ("pandas", "Index"): "pandas:PandasColumn",
    ("polars", "DataFrame"): "polars:PolarsRows",
    ("polars", "Series"): "polars:column",
    ("pyarrow", "Table"): "arrow:ArrowRows",
    ("pyarrow", "RecordBatch"): "arrow:ArrowRows",
    ("pyarrow", "ChunkedArray"): "arrow:column",
    ("pyarrow", "Array"): "arrow:column",
    ("datasets", "Dataset"): "huggingface:HuggingFaceRows",
    ("datasets", "Column"): "huggingface:HuggingFaceColumn",
    ("h5py", "Dataset"): "hdf5:Hdf5Rows",
    ("zarr", "Array"): "zarr:ZarrRows",
}
# Functions of higher rooms that lower rooms call.
_PURPOSES = {
    "trace of an error": "observe.trace:of_error",
    "view of a table": "sources.columns:TableView",
    "settings of a node": "observe.choose:settle",
    "reports": "observe.every:install",
}

_modules = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_modules)
# Left out of `__all__`: `filter` shadows the builtin, and samplers and collate functions have packages.
_modules["filter"] = "views.filter"
_modules.update(dict.fromkeys(_samplers.__all__, "samplers") | dict.fromkeys(_collation.__all__, "collation"))
_TABLE.update({name: f"{__name__}.{module}:{name}" for name, module in _modules.items()})
_TABLE.update({kind: f"{__name__}.sources.{reader}" for kind, reader in _READERS.items()})
_TABLE.update({purpose: f"{__name__}.{where}" for purpose, where in _PURPOSES.items()})
_TABLE["version"] = f"{__name__}:__version__"

# The functions of a sequence are methods of views. The number is the place of the sequence among the
# arguments, and None means the first of a list.
_METHODS: dict[int | None, str] = {
    0: (
        "add_cache batch cycle debug epochs flatten gather gather_groups interleave kfold materialize"
        " monitor_throughput pack prefetch profile random_split retry shard shuffle shuffle_buffer"
        " shuffle_groups split take time_split tune unbatch verify window"
    ),
    1: "fallback filter random_map smap starmap",
    None: "collate concatenate mix",
}
for _position, _functions in _METHODS.items():
    for _function in _functions.split():
        _attach(_Chainable, _function, _position)

__getattr__ = _lazy_names(__name__, _modules, _ROOMS)[0]
__dir__ = _public_names(__name__, (*_modules, *_ROOMS, "__version__"))

_observers.prepare = lambda engine: engine.settings.method == "auto" and _load("settings of a node")(engine)
if _every := _os.environ.get("SEQKIT_PROFILE_EVERY"):
    _load("reports")(_every)
