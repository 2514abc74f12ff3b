"""Imports on first use: names, methods, and functions of higher rooms that lower rooms call.

`TABLE` says where each thing is. `seqkit/__init__.py` fills it, and is the only place that names modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from .tracebacks import hiding_frames

__all__ = ["TABLE", "lazy_names", "load", "need", "public_names"]

# Module and name, as ``"seqkit.views.batch:batch"``. A key is a public name, a purpose in words, or the
# package and the class of an object that needs a reader.
TABLE: dict[Any, str] = {}


def load(key: Any) -> Any:
    """Return the object that the table has for a key. Import its module if necessary.

    >>> load("batch").__module__
    'seqkit.views.batch'
    """
    module, _, name = TABLE[key].partition(":")
    return getattr(import_module(module), name)


def need(module: str, who: str, package: str = "") -> None:
    """Raise ImportError if a library is not installed, before a view of its files is built.

    >>> need("no_such_library", "hdf5", "no-such-library")
    Traceback (most recent call last):
    ImportError: hdf5 needs a library that is not installed: pip install no-such-library
    """
    from importlib.util import find_spec  # not when seqkit is imported: it takes 1 ms

    if sys.modules.get(module) is None and find_spec(module) is None:
        raise ImportError(
            f"{who} needs a library that is not installed: pip install {package or module}", name=module
        )


def lazy_names(
    package: str, modules: Mapping[str, str], packages: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package that imports names when they are first used.

    Parameters
    ----------
    package : str
        The ``__name__`` of the package.
    modules : mapping of str to str
        The module that defines each name, relative to the package.
    packages : iterable of str
        Modules of the package that are names themselves.

    Examples
    --------
    >>> import seqkit as sk
    >>> "DataLoader" in dir(sk), sk.DataLoader.__module__
    (True, 'seqkit.loader.loader')
    """
    namespace = vars(sys.modules[package])

    @hiding_frames()
    def __getattr__(name: str) -> Any:  # noqa: N807
        if name in packages:
            try:
                return import_module(f"{package}.{name}")
            except ImportError as error:  # a library is missing. `hasattr` and `dir` expect AttributeError
                raise AttributeError(f"module {package!r} has no attribute {name!r}: {error}") from error
        if name not in modules:
            module = sys.modules[package]  # Python suggests a similar name of `dir(module)`
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module)
        found = namespace[name] = getattr(import_module(f"{package}.{modules[name]}"), name)
        return found

    return __getattr__, public_names(package)


def public_names(package: str, others: Iterable[str] = ()) -> Callable[[], list[str]]:
    """Return the `__dir__` of a package. It shows the names of `__all__` and `others`, and no internals.

    >>> import seqkit as sk
    >>> dir(sk.streams) == sorted(sk.streams.__all__), "os" in dir(sk)
    (True, False)
    """
    namespace = vars(sys.modules[package])

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*namespace["__all__"], *others})

    return __dir__
