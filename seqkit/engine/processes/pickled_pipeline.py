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

from ...core import units
from ...core.tracebacks import warn
from ...core.view import View
from ..codec import Form, decode, encode_shared
from ..culprits import pickling_error
from ..pickling import ForWorkers
from ..signals import CtrlCHeld
from .interpreter import Surroundings
from .segment import Segment
from .wire import Spec
from .worker import Descriptors, WorkerSetup

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
    segment : Segment
    nbytes : int
        Size of the pickle and its arrays. Mapped files do not count.
    """

    def __init__(self, spec: Spec, pipeline: View[Any]) -> None:
        self.surroundings = Surroundings.of_this_process()
        try:
            tail, moved, head = encode_shared((spec, pipeline))
        except Exception as error:
            raise pickling_error(pipeline, error, ForWorkers) from error
        self.nbytes = head + len(tail)
        self.place = head, self.nbytes
        with CtrlCHeld():
            self.segment = Segment.create(self.nbytes, "seqkit-pipeline")
        content = self.segment.block(0, self.nbytes).data
        for offset, buffer in [*moved, (head, memoryview(tail))]:
            content[offset : offset + buffer.nbytes] = buffer
        if self.nbytes > WARN_BYTES:
            warn(
                f"prefetch: pickled {units.size(self.nbytes)} for workers that are not forked. To pickle once"
                " and not in every epoch, use DataLoader(persistent_workers=True). To pickle less, use"
                " numpy.memmap or seqkit.load_packed. To pickle nothing, use context='fork' if your threads"
                " allow it.",
                RuntimeWarning,
            )


def open_pipeline(pickled: int, place: tuple[int, int], fds: Descriptors) -> WorkerSetup:
    """Return the spec and the pipeline, with what a worker has inherited."""
    head, end = place
    block = Segment(pickled, end, private=True).block(0, end)
    spec, pipeline = decode(Form.BUFFERS, block[head:].data, block)
    return WorkerSetup(spec, pipeline, Segment(fds.segment, spec.layout.size), fds)
