"""Collate functions: many samples into one batch."""

from typing import TYPE_CHECKING

from ..core.lazy import lazy_names

if TYPE_CHECKING:
    from .composed import Dict, Group, NamedTuple, PerShard, Tuple
    from .default import default_collate, default_convert
    from .pad import Pad
    from .stack import Append, List, Stack

__all__ = [
    "Append",
    "Dict",
    "Group",
    "List",
    "NamedTuple",
    "Pad",
    "PerShard",
    "Stack",
    "Tuple",
    "default_collate",
    "default_convert",
]

# The module that defines each name, for `lazy_names`.
_MODULES = {
    "composed": ("Dict", "Group", "NamedTuple", "PerShard", "Tuple"),
    "default": ("default_collate", "default_convert"),
    "pad": ("Pad",),
    "stack": ("Append", "List", "Stack"),
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__, {name: module for module, names in _MODULES.items() for name in names}
    )
