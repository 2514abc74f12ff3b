"""What pytest leaves out where something is not installed."""

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
