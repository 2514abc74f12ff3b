"""The names of the package, for type checkers. `seqkit/__init__.py` imports them when they are used."""

from . import collation as collation
from . import observe as observe
from . import samplers as samplers
from . import sources as sources
from . import streams as streams
from . import testing as testing
from . import torch as torch
from .collation import (
    Append as Append,
)
from .collation import (
    Dict as Dict,
)
from .collation import (
    Group as Group,
)
from .collation import (
    List as List,
)
from .collation import (
    NamedTuple as NamedTuple,
)
from .collation import (
    PackSequences as PackSequences,
)
from .collation import (
    Pad as Pad,
)
from .collation import (
    PerShard as PerShard,
)
from .collation import (
    Stack as Stack,
)
from .collation import (
    Tuple as Tuple,
)
from .collation import (
    default_convert as default_convert,
)
from .collation.default import (
    default_collate as default_collate,
)
from .core.errors import (
    EvaluationError as EvaluationError,
)
from .core.errors import (
    ItemTimeout as ItemTimeout,
)
from .core.errors import (
    WorkerDied as WorkerDied,
)
from .core.errors import (
    errstate as errstate,
)
from .core.errors import (
    seterr as seterr,
)
from .core.serializable import (
    SerializableFunc as SerializableFunc,
)
from .core.source import (
    view as view,
)
from .core.view import (
    View as View,
)
from .core.worker import (
    WorkerInfo as WorkerInfo,
)
from .core.worker import (
    empty as empty,
)
from .core.worker import (
    get_worker_info as get_worker_info,
)
from .engine.prefetch import (
    Prefetch as Prefetch,
)
from .engine.prefetch import (
    prefetch as prefetch,
)
from .loader import (
    DataLoader as DataLoader,
)
from .observe import (
    debug as debug,
)
from .observe import (
    explain as explain,
)
from .observe import (
    monitor_throughput as monitor_throughput,
)
from .observe import (
    preview as preview,
)
from .observe import (
    profile as profile,
)
from .observe import (
    show_versions as show_versions,
)
from .observe import (
    trace as trace,
)
from .observe import (
    tune as tune,
)
from .observe import (
    verify as verify,
)
from .observe import (
    watch as watch,
)
from .samplers import (
    BatchSampler as BatchSampler,
)
from .samplers import (
    BudgetBatchSampler as BudgetBatchSampler,
)
from .samplers import (
    ConstWidthBucket as ConstWidthBucket,
)
from .samplers import (
    DistributedSampler as DistributedSampler,
)
from .samplers import (
    ExpWidthBucket as ExpWidthBucket,
)
from .samplers import (
    FilterSampler as FilterSampler,
)
from .samplers import (
    FixedBucketSampler as FixedBucketSampler,
)
from .samplers import (
    InfiniteSampler as InfiniteSampler,
)
from .samplers import (
    IntervalSampler as IntervalSampler,
)
from .samplers import (
    LinearWidthBucket as LinearWidthBucket,
)
from .samplers import (
    NumberedSampler as NumberedSampler,
)
from .samplers import (
    RandomSampler as RandomSampler,
)
from .samplers import (
    SequentialSampler as SequentialSampler,
)
from .samplers import (
    ShardedSampler as ShardedSampler,
)
from .samplers import (
    SortedBucketSampler as SortedBucketSampler,
)
from .samplers import (
    SortedSampler as SortedSampler,
)
from .samplers import (
    SplitSampler as SplitSampler,
)
from .samplers import (
    SubsetRandomSampler as SubsetRandomSampler,
)
from .samplers import (
    TokenBudgetBatchSampler as TokenBudgetBatchSampler,
)
from .samplers import (
    WeightedRandomSampler as WeightedRandomSampler,
)
from .sources import (
    per_process as per_process,
)
from .sources import (
    read as read,
)
from .stores.add_cache.add_cache import (
    add_cache as add_cache,
)
from .stores.materialize.materialize import (
    materialize as materialize,
)
from .stores.pack.pack import (
    load_packed as load_packed,
)
from .stores.pack.pack import (
    pack as pack,
)
from .transforms import (
    ClipSequence as ClipSequence,
)
from .transforms import (
    PadSequence as PadSequence,
)
from .views.arange import (
    arange as arange,
)
from .views.batch import (
    batch as batch,
)
from .views.bins import (
    bins as bins,
)
from .views.collate import (
    collate as collate,
)
from .views.concatenate import (
    concatenate as concatenate,
)
from .views.cycle import (
    cycle as cycle,
)
from .views.epochs import (
    epochs as epochs,
)
from .views.fallback import (
    fallback as fallback,
)
from .views.filter import (
    filter as filter,
)
from .views.flatten import (
    flatten as flatten,
)
from .views.gather import (
    gather as gather,
)
from .views.gather import (
    take as take,
)
from .views.gather_groups import (
    gather_groups as gather_groups,
)
from .views.interleave import (
    interleave as interleave,
)
from .views.kfold import (
    kfold as kfold,
)
from .views.mix.mix import (
    mix as mix,
)
from .views.random_map import (
    random_map as random_map,
)
from .views.random_split import (
    random_split as random_split,
)
from .views.repeat import (
    repeat as repeat,
)
from .views.retry import (
    retry as retry,
)
from .views.shard import (
    shard as shard,
)
from .views.shuffle import (
    shuffle as shuffle,
)
from .views.shuffle_buffer import (
    shuffle_buffer as shuffle_buffer,
)
from .views.shuffle_groups import (
    shuffle_groups as shuffle_groups,
)
from .views.smap import (
    smap as smap,
)
from .views.split import (
    split as split,
)
from .views.starmap import (
    starmap as starmap,
)
from .views.switch import (
    case as case,
)
from .views.switch import (
    switch as switch,
)
from .views.time_split import (
    time_split as time_split,
)
from .views.unbatch import (
    unbatch as unbatch,
)
from .views.uniter import (
    uniter as uniter,
)
from .views.window import (
    window as window,
)

__version__: str

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
    "bins",
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
    "gather_groups",
    "get_worker_info",
    "interleave",
    "kfold",
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
    "retry",
    "seterr",
    "shard",
    "show_versions",
    "shuffle",
    "shuffle_buffer",
    "shuffle_groups",
    "smap",
    "split",
    "starmap",
    "switch",
    "take",
    "time_split",
    "trace",
    "tune",
    "unbatch",
    "uniter",
    "verify",
    "view",
    "watch",
    "window",
]
