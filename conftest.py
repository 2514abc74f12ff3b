"""Leave out doctests whose library is not installed, and make garbage collections in tests short."""

import gc
import importlib.util

# Modules whose examples need a library.
_NEEDS = {
    "torch.py": "torch",
    "sources/arrow.py": "pyarrow",
    "sources/audio.py": "soundfile",
    "sources/csv.py": "pyarrow",
    "sources/hdf5.py": "h5py",
    "sources/huggingface.py": "datasets",
    "sources/images.py": "PIL",
    "sources/parquet.py": "pyarrow",
    "sources/remote.py": "fsspec",
    "sources/zarr.py": "zarr",
}

collect_ignore = [
    f"seqkit/{name}" for name, library in _NEEDS.items() if not importlib.util.find_spec(library)
]


def pytest_collection_finish() -> None:
    """Leave out of garbage collections what is there before the first test: many tests collect garbage."""
    gc.collect()
    gc.freeze()
