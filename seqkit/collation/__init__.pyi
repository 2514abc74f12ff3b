"""The names of the package, for type checkers. `__init__.py` imports them when they are used."""

from .composed import Dict, Group, NamedTuple, PerShard, Tuple
from .default import default_collate, default_convert
from .pack_sequences import PackSequences
from .pad import Pad
from .stack import Append, List, Stack

__all__ = [
    "Append",
    "Dict",
    "Group",
    "List",
    "NamedTuple",
    "PackSequences",
    "Pad",
    "PerShard",
    "Stack",
    "Tuple",
    "default_collate",
    "default_convert",
]
