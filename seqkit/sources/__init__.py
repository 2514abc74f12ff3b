"""Files, tables and handles as views: one module for each kind, imported when it is first used.

Each function returns a lazy view that can be pickled and read by workers of any start method. `read` chooses
the function by the suffix of a path. `per_process` is for everything else that has to be opened.
"""

import sys as _sys
import types as _types

from ..core.lazy import lazy_names as _lazy_names

__all__ = [
    "arrow",
    "audio",
    "csv",
    "files",
    "hdf5",
    "images",
    "jsonl",
    "lines",
    "npy",
    "npz",
    "parquet",
    "per_process",
    "read",
    "read_audio",
    "read_image",
    "remote",
    "sqlite",
    "tar_members",
    "webdataset",
    "zarr",
    "zip_members",
]

_MODULES = {
    **{name: name for name in __all__},
    "jsonl": "lines",
    "npz": "npy",
    "read_audio": "audio",
    "read_image": "images",
    "tar_members": "archives",
    "zip_members": "archives",
}


class _Package(_types.ModuleType):
    """Keeps the names of functions from being bound to the modules of the same names, which Python does."""

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(value, _types.ModuleType):
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package

__getattr__, __dir__ = _lazy_names(__name__, _MODULES)  # type checkers read `__init__.pyi`
