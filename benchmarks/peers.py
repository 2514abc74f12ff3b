"""The libraries that are compared with seqkit: how each is asked for the same work with two workers.

Each function takes a `Work` and returns an iterable of its results, in order, as the documentation of the
library advises. It raises `Unsuited` for work that the library is not made for. Processes end with the one
that asked: `measure.apart` gives every run a process of its own.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import seqkit as sk

from .work import AHEAD, WORKERS, Unsuited, Work, stack


def hush() -> None:
    """Drop what this process and those it starts write to standard error; errors take another way.

    Python's resource tracker complains of segments that Grain and SPDL unlink late or twice, and Grain's
    workers of a profiler that they do not find; SeqTools says when its slots run short.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def seqkit(work: Work) -> Iterable[Any]:
    if work.size is None:
        options: Any = {"context": work.context, "chunk_size": work.chunk}
        return sk.prefetch(sk.view(work.dataset), WORKERS, "process", **options)
    # A context that is not named is chosen by seqkit: fork, unless the process has other threads.
    context = None if work.context == "fork" else work.context
    return sk.DataLoader(
        work.dataset, work.size, num_workers=WORKERS, drop_last=True, multiprocessing_context=context
    )


def loop(work: Work) -> Iterable[Any]:
    return map(work.result, range(len(work)))


kept: Work


def keep(work: Work) -> None:
    """Keep the work in a process of a pool, so that tasks are numbers."""
    global kept
    kept = work


def of_kept(k: int) -> Any:
    return kept.result(k)


def pool(work: Work) -> Iterable[Any]:
    processes = multiprocessing.get_context(work.context).Pool(WORKERS, keep, (work,))
    yield from processes.imap(of_kept, range(len(work)))


def torch_loader(work: Work, module: str = "torch.utils.data", name: str = "DataLoader") -> Iterable[Any]:
    kind = getattr(import_module(module), name)
    options = {} if work.size else {"prefetch_factor": work.ahead // WORKERS}
    return kind(  # type: ignore[no-any-return]
        work.dataset,
        batch_size=work.size,
        num_workers=WORKERS,
        drop_last=work.size is not None,
        multiprocessing_context=work.context,
        **options,
    )


class MapAndCollate:
    """The function of the page "Migrating from torch.utils.data" of torchdata."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def __call__(self, indices: Any) -> Any:
        from torch.utils.data import default_collate, default_convert

        if self.work.size is None:
            return default_convert(self.work.dataset[indices])
        return default_collate([self.work.dataset[i] for i in indices])


def nodes(work: Work) -> Iterable[Any]:
    from torch.utils.data import SequentialSampler
    from torchdata import nodes as tn

    node: Any = tn.SamplerWrapper(SequentialSampler(work.dataset))
    if work.size is not None:
        node = tn.Batcher(node, work.size)
    node = tn.ParallelMapper(
        node, MapAndCollate(work), WORKERS, method="process", multiprocessing_context=work.context
    )
    return tn.Loader(tn.Prefetcher(node, prefetch_factor=2 * WORKERS))  # type: ignore[no-any-return]


def grain(work: Work) -> Iterable[Any]:
    """Without reading threads, which keep 500 batches ahead. Processes are always new interpreters."""
    import grain

    hush()
    dataset = grain.MapDataset.source(work.dataset)
    if work.size is not None:
        dataset = dataset.batch(work.size, drop_remainder=True)
    items = dataset.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    return items.mp_prefetch(grain.MultiprocessingOptions(WORKERS, work.ahead // WORKERS))  # type: ignore[no-any-return]


def seqtools(work: Work) -> Iterable[Any]:
    import seqtools as st

    hush()
    multiprocessing.set_start_method(work.context, force=True)  # it has no argument for this
    view = st.smap(work.dataset.__getitem__, range(len(work) * (work.size or 1)))
    if work.size is not None:
        view = st.batch(view, work.size, drop_last=True, collate_fn=stack)
    if not work.nbytes:
        return st.prefetch(view, WORKERS, "process", max_buffered=work.ahead)  # type: ignore[no-any-return]
    slots = AHEAD * (work.nbytes + 2**20)
    return st.prefetch(view, WORKERS, "process", max_buffered=AHEAD, shm_size=slots)  # type: ignore[no-any-return]


def arena(work: Work) -> Any:
    from spdl.pipeline import SharedMemorySegmentPool

    return SharedMemorySegmentPool(work.nbytes + 4096, AHEAD) if work.nbytes else None


def spdl_threads(work: Work) -> Iterable[Any]:
    """Threads in one process, which SPDL advises for functions that release the interpreter lock."""
    from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess

    hush()
    builder: Any = PipelineBuilder().add_source(range(len(work)))
    builder = builder.pipe(work.result, concurrency=WORKERS, output_order="input").add_sink(3)
    return run_pipeline_in_subprocess(
        builder.get_config(), num_threads=WORKERS, mp_context=work.context, buffer_size=3, arena=arena(work)
    )


def spdl_processes(work: Work) -> Iterator[Any]:
    """Large results go through a segment pool. A pool has one process that writes, so two take turns."""
    from spdl.pipeline import iterate_in_subprocess

    hush()
    options: Any = {"buffer_size": 3 if work.nbytes else work.ahead, "mp_context": work.context}
    sources = [
        iterate_in_subprocess(partial(every, work, first), arena=arena(work), **options)
        for first in range(WORKERS)
    ]
    iterators = [iter(source) for source in sources]
    for k in range(len(work)):
        yield next(iterators[k % WORKERS])


def every(work: Work, first: int) -> Iterable[Any]:
    return map(work.result, range(first, len(work), WORKERS))


def joblib(work: Work) -> Iterable[Any]:
    """Processes are always new interpreters."""
    import joblib as jl

    run = jl.delayed(Work.result)
    return jl.Parallel(WORKERS, return_as="generator")(run(work, k) for k in range(len(work)))  # type: ignore[no-any-return]


def mpire(work: Work) -> Iterable[Any]:
    from mpire import WorkerPool

    chunk = {"chunk_size": 1} if work.nbytes or work.size else {}
    with WorkerPool(WORKERS, shared_objects=work, start_method=work.context) as workers:
        yield from workers.imap(Work.result, range(len(work)), iterable_len=len(work), **chunk)


def huggingface(work: Work) -> Iterable[Any]:
    """A data set of Arrow rows. Its class says how it is read."""
    if not hasattr(work.dataset, "huggingface"):
        raise Unsuited
    return work.dataset.huggingface(work)  # type: ignore[no-any-return]


STATEFUL = {"module": "torchdata.stateful_dataloader", "name": "StatefulDataLoader"}
PEERS: dict[str, tuple[str, Callable[[Work], Iterable[Any]]]] = {
    "SeqTools": ("seqtools", seqtools),
    "torch DataLoader": ("torch", torch_loader),
    "StatefulDataLoader": ("torchdata.stateful_dataloader", partial(torch_loader, **STATEFUL)),
    "torchdata.nodes": ("torchdata.nodes", nodes),
    "Grain": ("grain", grain),
    "SPDL, 2 threads in a process": ("spdl.pipeline", spdl_threads),
    "SPDL, 2 processes": ("spdl.pipeline", spdl_processes),
    "joblib": ("joblib", joblib),
    "mpire": ("mpire", mpire),
    "Hugging Face datasets": ("datasets", huggingface),
    "multiprocessing.Pool": ("multiprocessing", pool),
}


def installed() -> dict[str, Callable[[Work], Iterable[Any]]]:
    """Import seqkit and the peers, so that no run has to, and say which are left out."""
    missing = set()
    with sk.DataLoader(range(1), num_workers=1, multiprocessing_context="fork") as loader:
        list(loader)  # imports seqkit's modules
    logging.disable(logging.WARNING)
    for module, _ in PEERS.values():
        try:
            import_module(module)
        except ImportError as error:
            missing.add(module)
            print(f"left out: {module} ({error})")
    logging.disable(logging.NOTSET)
    return {name: peer for name, (module, peer) in PEERS.items() if module not in missing}
