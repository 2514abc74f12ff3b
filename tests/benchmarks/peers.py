"""The peers of the transport benchmark: how each is asked for stacked batches, and for single items.

Each function returns an iterable of results, in order. What it starts ends with the process that asked:
`measure.apart` gives every run one of its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

WORKERS = 2
AHEAD = 8  # results that a peer may have in its buffers, where it asks
AHEAD_SMALL = 64  # the same for ints
BATCH = 32
SHAPE = (3, 224, 224)
NBYTES = BATCH * 3 * 224 * 224 * 4


class Images:
    """A data set without work of its own: 64 resident images, over and over."""

    def __init__(self, batches: int, images: list[Any] | None = None) -> None:
        rng = np.random.default_rng(0)
        self.batches = batches
        self.images = images or [rng.random(SHAPE, np.float32) for _ in range(64)]

    def __len__(self) -> int:
        return BATCH * self.batches

    def __getitem__(self, i: int) -> Any:
        return self.images[i % 64]

    def stacked(self, k: int, out: Any = None) -> Any:
        """Return batch `k`."""
        return np.stack([self[i] for i in range(k * BATCH, (k + 1) * BATCH)], out=out)


class Items:
    """A data set of what `make` returns, for the peers that want an object with a length."""

    def __init__(self, make: Callable[[int], Any], count: int) -> None:
        self.make, self.count = make, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Any:
        return self.make(i)


def hush() -> None:
    """Drop what this process and those it starts write to standard error; errors take another way.

    Python's resource tracker complains of segments that Grain and SPDL unlink late or twice, and Grain's
    workers of a profiler that they do not find; SeqTools says when its slots run short.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def seqtools_prefetch(view: Any, nbytes: int) -> Iterable[Any]:
    import seqtools

    hush()
    if not nbytes:
        return seqtools.prefetch(view, WORKERS, "process", max_buffered=AHEAD_SMALL)
    slots = AHEAD * (nbytes + 2**20)
    return seqtools.prefetch(view, WORKERS, "process", max_buffered=AHEAD, shm_size=slots)


def seqtools_batches(images: Images) -> Iterable[Any]:
    import seqtools

    items = seqtools.smap(images.__getitem__, range(len(images)))
    return seqtools_prefetch(seqtools.batch(items, BATCH, collate_fn=np.stack), NBYTES)


def seqtools_items(make: Callable[[int], Any], count: int, nbytes: int) -> Iterable[Any]:
    import seqtools

    return seqtools_prefetch(seqtools.smap(make, range(count)), nbytes)


def torch_batches(images: Images) -> Iterable[Any]:
    from torch.utils.data import DataLoader

    return DataLoader(images, BATCH, num_workers=WORKERS)  # type: ignore[arg-type]


def torch_items(make: Callable[[int], Any], count: int, nbytes: int) -> Iterable[Any]:
    from torch.utils.data import DataLoader

    ahead = (AHEAD if nbytes else AHEAD_SMALL) // WORKERS
    items: Any = Items(make, count)
    return DataLoader(items, batch_size=None, num_workers=WORKERS, prefetch_factor=ahead)


def grain_prefetch(dataset: Any, ahead: int) -> Iterable[Any]:
    """No reading threads, as Grain advises for resident data; by default they keep 500 batches ahead."""
    import grain

    hush()
    items = dataset.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    return items.mp_prefetch(grain.MultiprocessingOptions(WORKERS, ahead // WORKERS))


def grain_batches(images: Images) -> Iterable[Any]:
    import grain

    return grain_prefetch(grain.MapDataset.source(images).batch(BATCH), AHEAD)


def grain_items(make: Callable[[int], Any], count: int, nbytes: int) -> Iterable[Any]:
    import grain

    return grain_prefetch(grain.MapDataset.source(Items(make, count)), AHEAD if nbytes else AHEAD_SMALL)


def spdl_items(make: Callable[[int], Any], count: int, nbytes: int, processes: int = 1) -> Iterator[Any]:
    """Large results go through a segment pool. Such a pool has one process that writes; two take turns."""
    from spdl.pipeline import SharedMemorySegmentPool, iterate_in_subprocess

    hush()

    def source(first: int) -> Iterable[Any]:
        return iterate_in_subprocess(
            lambda: map(make, range(first, count, processes)),
            buffer_size=3 if nbytes else AHEAD_SMALL,
            mp_context="fork",
            arena=SharedMemorySegmentPool(nbytes + 4096, AHEAD) if nbytes else None,
        )

    sources = [source(first) for first in range(processes)]

    def results() -> Iterator[Any]:
        iterators = [iter(each) for each in sources]
        for i in range(count):
            yield next(iterators[i % processes])

    return results()


def spdl_batches(images: Images, processes: int = 1) -> Iterator[Any]:
    return spdl_items(images.stacked, images.batches, NBYTES, processes)


class Peer(NamedTuple):
    module: str
    batches: Callable[[Images], Iterable[Any]]
    items: Callable[[Callable[[int], Any], int, int], Iterable[Any]]  # make, count, bytes of a large result


PEERS = {
    "SeqTools": Peer("seqtools", seqtools_batches, seqtools_items),
    "torch DataLoader": Peer("torch", torch_batches, torch_items),
    "Grain": Peer("grain", grain_batches, grain_items),
    "SPDL, its 1 process": Peer("spdl.pipeline", spdl_batches, spdl_items),
    "SPDL, 2 processes": Peer(
        "spdl.pipeline", partial(spdl_batches, processes=2), partial(spdl_items, processes=2)
    ),
}


def installed() -> dict[str, Peer]:
    """Import the peers, so that no run has to, and say which are left out."""
    missing = set()
    logging.disable(logging.WARNING)
    for module in dict.fromkeys(peer.module for peer in PEERS.values()):
        try:
            import_module(module)
        except ImportError as error:
            missing.add(module)
            print(f"left out: {module.partition('.')[0]} ({error})")
    logging.disable(logging.NOTSET)
    return {name: peer for name, peer in PEERS.items() if peer.module not in missing}
