"""The versions, the system and the start of workers, for bug reports."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import metadata

from ..core.lazy import load
from ..engine.engine import start_method, why_not_here
from ..engine.resources import usable_cpus

__all__ = ["show_versions"]

# Packages whose versions change what seqkit does, as their metadata names them.
_PACKAGES = (
    *("numpy", "cloudpickle", "threadpoolctl", "torch", "ray", "distributed", "tqdm", "datasets", "fsspec"),
    *("h5py", "imageio", "pandas", "pillow", "polars", "pyarrow", "soundfile", "zarr"),
)


def show_versions() -> None:
    """Print the versions, the system and the way in which workers start here.

    Paste the output into a bug report.

    Notes
    -----
    Prints at most 25 lines. Versions are read from the metadata of installed packages, and no package is
    imported. No worker is started. The line "workers" says how `prefetch` would start process workers now,
    and names the threads that make forking unsafe. Call the function where the bug shows, because other
    threads may run elsewhere.

    Called ``show_versions`` in pandas and scikit-learn, too.

    Examples
    --------
    >>> import seqkit as sk
    >>> sk.show_versions()
    seqkit         ...
    Python         ...
    system         ...
    CPUs           ...
    start methods  ...
    workers        ...
    """
    for name, value in _rows():
        print(f"{name:<13}  {value}")


def _rows() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each line."""
    from multiprocessing import get_all_start_methods  # imported here because few programs call this function

    yield "seqkit", load("version")
    yield "Python", f"{platform.python_version()}, {platform.python_implementation()}"
    yield "system", f"{platform.platform()}, {platform.machine()}"
    yield "CPUs", f"{usable_cpus()} usable of {os.cpu_count()}"
    yield "start methods", ", ".join(get_all_start_methods())
    yield "workers", _workers()
    settings = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("SEQKIT_")]
    if settings:
        yield "environment", ", ".join(settings)
    for package in _PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            pass


def _workers() -> str:
    """Return how process workers with ``context=None`` would start now, and why."""
    if why := why_not_here():
        return f"from the standard pool: {why}"
    if chosen := start_method(None):
        return f"by {chosen}, which multiprocessing.set_start_method chose"
    from ..engine.processes.forking import obstacles  # works on Linux only

    found = obstacles()
    return f"from a template, because of {', '.join(found)}" if found else "by fork: no other thread matters"
