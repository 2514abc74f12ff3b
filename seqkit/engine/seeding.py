"""Seed the global generators of process workers: `random`, `numpy.random` and torch.

Forked workers would otherwise draw the same numbers. The libraries get different seeds, because `random` and
`numpy.random` use the same algorithm. The generators of the calling process are never touched.
"""

from __future__ import annotations

import operator
import random
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.view import View

_SEEDS = struct.Struct("<QQI")


def seed_globals(*entropy: Any, initial: int | None = None, on_devices: bool = True) -> None:
    """Seed the global generators from any values with a `repr`.

    `initial` is what `torch.initial_seed` is to return. Without `on_devices`, only torch's generator for CPUs
    is seeded, which takes some microseconds.
    """
    import hashlib  # `numpy.random` has imported it

    digest = hashlib.blake2b(repr(entropy).encode(errors="surrogatepass"), digest_size=_SEEDS.size).digest()
    python, torch, numpy = _SEEDS.unpack(digest)
    random.seed(python)
    np.random.seed(numpy)
    _seed_torch(torch >> 1, initial, on_devices)


def _seed_torch(seed: int, initial: int | None, on_devices: bool) -> None:
    torch = sys.modules.get("torch")
    generator: Any = getattr(torch, "default_generator", None)
    if torch is None or generator is None:  # not imported, or not yet
        return
    version = getattr(torch, "version", None)
    has_devices = on_devices and any(getattr(version, device, None) for device in ("cuda", "hip", "xpu"))
    # `torch.manual_seed` takes up to milliseconds to look for devices, which a build for CPUs does not have.
    (torch.manual_seed if has_devices else generator.manual_seed)(seed)
    if initial is not None:
        state = generator.get_state()
        state.numpy()[:8].view(np.uint64)[0] = initial  # the first word of the state
        generator.set_state(state)


class Seeding:
    """Seed the global generators of a worker for every epoch.

    No seed is used twice, even if other epochs are read in between, or if a worker dies. Otherwise the
    replacement of a dead worker would give items the same numbers as earlier items.

    Parameters
    ----------
    seed : int
        The seed of the worker.
    count : callable
        Returns how often it was called before, including calls by dead workers with the same number.

    Attributes
    ----------
    initial : int
        What `torch.initial_seed` returns during the life of the worker.
    """

    def __init__(self, seed: int, count: Callable[[], int]) -> None:
        self._seed = seed
        self._count = count
        self.initial = seed >> 1  # below 2**63, as PyTorch's seeds of workers
        self._is_first = not count()  # the first worker with this number
        self._begun: set[int] = set()
        self.begin(-1)

    def begin(self, epoch: int) -> None:
        """Begin an epoch. Epoch -1 is the pipeline as the user passed it."""
        again = 0 if self._is_first and epoch not in self._begun else self._count()
        seed_globals(self._seed, epoch, again, initial=self.initial)
        self._begun.add(epoch)
        self.epoch = epoch


def seed_item(seed: Any, initial: int, epoch: int, index: Any) -> None:
    """Seed the global generators for an item, whose numbers then do not depend on the worker.

    An index that is no int counts by its attribute `number`, or else by its `repr`.
    """
    try:
        number = operator.index(index)
    except TypeError:  # arrays of several numbers have `__index__` too
        number = getattr(index, "number", index)
    seed_globals("item", seed, epoch, number, initial=initial, on_devices=False)


def seed_item_of(seed: Any, initial: int, view: View[Any], epoch: int, index: Any) -> None:
    """Seed the global generators for an item of a view, also by the first sample that it is made of.

    So the processes of a job draw different numbers for different samples, and equal ones for the same.
    """
    number = index if type(index) is int else getattr(index, "number", None)
    seed_item(seed, initial, epoch, (number, first_key(view, index)))


def first_key(view: View[Any], index: Any) -> Any:
    """Return the index of the first sample that an item is made of, in the object of the user that has it.

    It is the index in a view further up if that view does not know which items it reads.

    >>> from seqkit import batch, shard
    >>> first_key(batch(shard("abcdef", 1, 2), 2), 1)
    5
    """
    while view._sources:
        source = view._sources[0]
        try:
            indices = next((found for one, found in view._parts(index) if one is source), ())
            index = next(iter(indices))
        except Exception:  # not known, or the index is not there
            break
        view = source
    return index


# Modules with a global generator, and its functions.
_GENERATORS = (
    ("random", "getstate", "setstate"),
    ("numpy.random", "get_state", "set_state"),
    ("torch", "get_rng_state", "set_rng_state"),
)


@contextmanager
def generators_kept() -> Iterator[None]:
    """Put the global generators of imported modules back afterwards."""
    modules = [(sys.modules[name], get, put) for name, get, put in _GENERATORS if name in sys.modules]
    states = [getattr(module, get)() for module, get, _ in modules]
    try:
        yield
    finally:
        for (module, _, put), state in zip(modules, states, strict=True):
            getattr(module, put)(state)


@contextmanager
def drawing_alike(seed: int, epoch: int) -> Iterator[None]:
    """Let all workers of a node draw the same from the global generators, which are put back afterwards.

    A data set that chooses its samples in ``set_epoch`` so has the same samples in each worker.
    """
    with generators_kept():
        seed_globals("epoch", seed, epoch, on_devices=False)
        yield
