"""Choose the tests that run, and make garbage collections in tests short."""

import functools
import gc
import importlib.util
import inspect
import os
import re
from collections import defaultdict
from collections.abc import Callable
from zlib import crc32

import pytest

pytest_plugins = ["tests.cpu"]


@pytest.fixture(autouse=True, scope="session")
def _cache_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the indexes of files that tests read out of the cache folder of the user."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


# Modules whose examples need a library.
_NEEDS = {
    "torch.py": "torch",
    "sources/arrow.py": "pyarrow",
    "sources/audio.py": "soundfile",
    "sources/csv.py": "pyarrow",
    "sources/hdf5.py": "h5py",
    "sources/images.py": "PIL",
    "sources/parquet.py": "pyarrow",
    "sources/remote.py": "fsspec",
    "sources/zarr.py": "zarr",
}

collect_ignore = [
    f"seqkit/{name}" for name, library in _NEEDS.items() if not importlib.util.find_spec(library)
]


# Libraries that stay in memory once a test has imported them.
_LARGE = re.compile(r"\b(torch|pandas|pyarrow|polars|datasets|h5py|PIL)\b")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that use large libraries last, and of cases that hardly differ only one."""
    items.sort(key=_uses_a_large_library)
    _mark_cases_with_other_processes(items)


def _uses_a_large_library(item: pytest.Item) -> bool:
    """Return whether a test names a large library, which makes forks of its process three times slower."""
    function = getattr(item, "function", None)
    return bool(_LARGE.search(item.name) or (function and _LARGE.search(_source(function))))


@functools.cache
def _source(function: Callable[..., object]) -> str:
    return inspect.getsource(function)


# The most cases of a test with worker processes under `make test`. The others differ in what is no affair of
# processes.
_MOST_CASES = 3


def _mark_cases_with_other_processes(items: list[pytest.Item]) -> None:
    """Leave most cases of a test that have worker processes to `make stress`.

    One of those that differ only in their processes runs here. The cases take turns, so that all kinds of
    processes occur in the tests of a room.
    """
    tests: dict[str, dict[object, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if kind := _process_parameters(params):
            others = tuple((name, id(value)) for name, value in params.items() if name not in kind)
            tests[item.nodeid.partition("[")[0]][others].append(item)
    for test, cases in tests.items():
        first, step = crc32(test.encode()), -(-len(cases) // _MOST_CASES)
        for turn, alike in enumerate(cases.values(), first):
            for number, item in enumerate(alike):
                if turn % step or number != turn // step % len(alike):
                    item.add_marker(pytest.mark.stress)


def _process_parameters(params: dict[str, object]) -> set[str]:
    """Return the names of the parameters that say how many worker processes there are, and which."""
    way = params.get("way")
    if isinstance(way, dict) and way.get("num_workers") and way.get("method", "process") == "process":
        return {"way"}
    number = "num_workers" if "num_workers" in params else "workers"
    return {number, "method"} if params.get(number) and params.get("method") == "process" else set()


def pytest_collection_finish() -> None:
    """Leave out of garbage collections what is there before the first test: many tests collect garbage."""
    gc.collect()
    gc.freeze()
