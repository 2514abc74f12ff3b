"""Work that every library does: samples of a data set, single or in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

WORKERS = 2
AHEAD = 8  # large results that a peer may have in its buffers, where it asks
AHEAD_SMALL = 64  # the same for small results


class Unsuited(Exception):
    """The library is not made for this work."""


def stack(samples: list[Any], out: Any = None) -> Any:
    """Stack arrays, or the values of dicts."""
    if isinstance(samples[0], dict):
        return {key: np.array([sample[key] for sample in samples]) for key in samples[0]}
    return np.stack(samples, out=out)


@dataclass(frozen=True)
class Work:
    """Samples, single or in batches."""

    dataset: Any  # has a length and [i]
    size: int | None = None  # samples in a batch; None: single samples
    nbytes: int = 0  # of a result, if it is large
    context: str = "fork"  # how processes start
    chunk: int | Literal["auto"] = "auto"  # items in a message, where seqkit is asked

    def __len__(self) -> int:
        return len(self.dataset) // (self.size or 1)

    def result(self, k: int, out: Any = None) -> Any:
        """Return batch or sample `k`."""
        if self.size is None:
            return self.dataset[k]
        return stack([self.dataset[i] for i in range(k * self.size, (k + 1) * self.size)], out)

    @property
    def ahead(self) -> int:
        return AHEAD if self.nbytes or self.size else AHEAD_SMALL
