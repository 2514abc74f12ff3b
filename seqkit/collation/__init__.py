"""Collate functions: many samples into one batch."""

from ..core.lazy import lazy_names

# Each name is imported when it is first used. Type checkers read `__init__.pyi`.
_NAMES = {
    "composed": "Dict Group NamedTuple PerShard Tuple",
    "default": "default_collate default_convert",
    "pack_sequences": "PackSequences",
    "pad": "Pad",
    "stack": "Append List Stack",
}
_modules = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_modules)
__getattr__, __dir__ = lazy_names(__name__, _modules)
