"""Data sets that can only be iterated, and the processes that read them.

With ``iterable_split="none"`` one worker iterates the data set. With ``"reader"`` the calling process does,
and workers transform and collate. With ``"parts"`` the data set splits itself; see `parts`. With
``"workers"`` each worker iterates the data set, which chooses its part by `get_worker_info`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from ..core.arguments import int_at_least
from ..core.iteration import is_one_shot
from ..core.lengths import UNKNOWN
from ..core.view import View, in_order
from ..core.worker import WorkerInfo, get_worker_info
from ..views.bases.passes import Passes
from ..views.uniter import Uniter
from .keys import Sample

if TYPE_CHECKING:
    from .options import Options

__all__ = [
    "IterableReader",
    "WorkerParts",
    "iterable_split",
    "samples_of",
]


def iterable_split(options: Options) -> str:
    """Return how to read a data set that can only be iterated, given or by default.

    Refuse arguments that do not go with it.
    """
    dataset = options.dataset
    # Other processes do not have the iterator.
    is_local = is_one_shot(dataset) and options.num_workers > 0 and options.method == "process"
    split = options.iterable_split or ("reader" if is_local else "none")
    if split == "none" and options.last in ("pad", "rollover"):
        return "reader"  # the last batch needs samples of another batch or epoch
    if split != "reader" and is_local and isinstance(dataset, Generator):
        raise ValueError(
            f"DataLoader: with iterable_split={split!r} workers iterate the data set, but a generator cannot"
            " be sent to a process. Leave iterable_split out, or set it to 'reader'"
        )
    if split == "parts":
        _check_parts(dataset)
    refused = {
        f"last_batch={options.last!r}, because workers make the batches": options.last in ("pad", "rollover"),
        "persistent_workers, because it needs new workers in every epoch": options.persistent_workers,
        "in_order=False, because parts take turns": not options.in_order,
    }
    for argument, is_given in refused.items():
        if is_given and split in ("parts", "workers"):
            raise ValueError(
                f"DataLoader: with iterable_split={split!r} there is no {argument}. Leave it out, or set"
                " iterable_split to 'reader' or 'none'"
            )
    return split


def _check_parts(dataset: Any) -> None:
    if not callable(getattr(dataset, "split", None)) or getattr(dataset, "parts", None) is None:
        raise ValueError(
            "DataLoader: iterable_split='parts' needs a data set with a method split(part, parts) and an"
            f" attribute parts, the number of parts, got {type(dataset).__name__}"
        )
    int_at_least(dataset.parts, "DataLoader: parts of the data set", 1)


# -------------------------------------------------------------------- samples


def samples_of(dataset: Any) -> View[Any]:
    """Return the view of the samples of a data set in its order. Its `__len__` is ignored."""
    return Uniter(Passes(dataset, cache_size=0, n_parallel=1), UNKNOWN)


class IterableReader:
    """The samples of a data set as keys of themselves: a sampler that the calling process reads.

    >>> [(sample.number, sample.value) for sample in IterableReader("ab")]
    [(0, 'a'), (1, 'b')]
    """

    def __init__(self, dataset: Any) -> None:
        self._samples = dataset

    def __iter__(self) -> Iterator[Sample]:
        return map(Sample, count(), in_order(self._samples))

    def __len__(self) -> int:
        return len(self._samples)


@dataclass(frozen=True)
class WorkerParts:
    """A data set that chooses its part by `get_worker_info`, as one that splits itself.

    Parameters
    ----------
    dataset : iterable
    parts : int
        Number of workers.
    introduce : callable
        Called with the `WorkerInfo` that is valid while a part is read.
    """

    dataset: Any
    parts: int
    introduce: Callable[[WorkerInfo], None]

    def split(self, part: int, parts: int) -> Iterator[Any]:
        """Return an iterator over the part of worker number `part`."""
        info = get_worker_info()
        if info is not None:
            self.introduce(replace(info, id=part, num_workers=parts))
        return iter(self.dataset)
