"""The pickle of a pipeline, for workers that cannot inherit it.

Guarantees
----------
- A pipeline is pickled once for all workers. The pickle and the arrays are in one segment. Every worker
  maps it copy-on-write: private and writable, but in memory only once.
- Arrays that share memory are stored once, and also share memory in a worker.

Relies on
---------
- Linux: memfd.
"""

from __future__ import annotations

from typing import Any

from ...core.view import View
from ..codec import Form, decode, encode_shared
from ..culprits import pickling_error
from ..pickling import ForWorkers
from ..signals import CtrlCHeld
from .interpreter import Surroundings
from .segment import Segment
from .wire import Spec
from .worker import Descriptors
from .worker_process import WorkerSetup

# A larger pickle gets a warning.
WARN_BYTES = 64 << 20


class PickledPipeline:
    """A spec and a pipeline, pickled into a segment that every worker maps.

    Attributes
    ----------
    surroundings : Surroundings
        Those of this process when it pickled the pipeline.
    place : tuple of int
        The start and the end of the pickle.
    fd : int
        The descriptor of the segment.
    nbytes : int
        Size of the pickle and its arrays. Mapped files do not count.
    """

    def __init__(self, spec: Spec, pipeline: View[Any]) -> None:
        self.surroundings = Surroundings.of_this_process()
        try:
            tail, moved, head = encode_shared((spec, pipeline))
        except Exception as error:
            raise pickling_error(pipeline, error, ForWorkers) from error
        self.place = head, head + len(tail)
        self.nbytes = head + len(tail)
        with CtrlCHeld():
            self._segment = Segment.create(self.nbytes, "seqkit-pipeline")
        content = self._segment.block(0, self.nbytes).data
        for offset, buffer in [*moved, (head, memoryview(tail))]:
            content[offset : offset + buffer.nbytes] = buffer

    @property
    def fd(self) -> int:
        return self._segment.fd

    def close(self) -> None:
        self._segment.close()


def open_pipeline(pickled: int, place: tuple[int, int], fds: Descriptors) -> WorkerSetup:
    """Return the spec and the pipeline, with what a worker has inherited."""
    head, end = place
    block = Segment(pickled, end, private=True).block(0, end)
    spec, pipeline = decode(Form.BUFFERS, block[head:].data, block)
    return WorkerSetup(spec, pipeline, Segment(fds.segment, spec.layout.size), fds)


def size_warning(nbytes: int) -> str | None:
    """Return the warning for a pickle of `nbytes` bytes, or None if it is small.

    >>> size_warning(1 << 20)
    >>> size_warning(100 << 20).partition(".")[0]
    'prefetch: pickled 100 MiB for workers that are not forked'
    """
    if nbytes <= WARN_BYTES:
        return None
    return (
        f"prefetch: pickled {nbytes / 2**20:.0f} MiB for workers that are not forked."
        " To pickle once and not in every epoch, use DataLoader(persistent_workers=True)."
        " To pickle less, use numpy.memmap or seqkit.load_packed."
        " To pickle nothing, use context='fork' if your threads allow it."
    )
