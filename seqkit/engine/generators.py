"""Random generators that functions of a pipeline hold, and of which each process worker has a copy.

A copy draws the same numbers in every worker, and in every epoch for which workers start again. A worker
reports a generator whose state equals the parent's after the start hook, and which the first job moved.
"""

from __future__ import annotations

import hashlib
import pickle
import random
import sys
from typing import Any

import numpy as np

from .culprits import ways

_KINDS = random.Random, np.random.Generator, np.random.RandomState


def generators(view: Any) -> dict[tuple[str, bytes], Any]:
    """Return the generators that functions and data sets of a view hold, by the way to them and their state.

    >>> import seqkit as sk
    >>> rng = np.random.default_rng(0)
    >>> [way for way, _ in generators(sk.smap(lambda x: x + rng.random(), [1, 2]))]
    ['smap → `<lambda>` → global `rng` (numpy.random.Generator), ...:1']
    """
    found = {id(held): (way, held) for way, held in ways(view, _is_generator)}
    return {(way, state(held)): held for way, held in found.values()}


def state(generator: Any) -> bytes:
    """Return a digest of the state of a generator."""
    if isinstance(generator, random.Random):
        value: Any = random.Random.getstate(generator)
    elif isinstance(generator, np.random.Generator):
        value = generator.bit_generator.state
    elif isinstance(generator, np.random.RandomState):
        value = generator.get_state(legacy=False)
    else:
        value = generator.get_state().numpy()
    return hashlib.blake2b(pickle.dumps(value), digest_size=16).digest()


def _is_generator(value: Any) -> bool:
    of_torch = getattr(sys.modules.get("torch"), "Generator", ())
    if isinstance(value, of_torch):
        return bool(value.device.type == "cpu")  # the state of another one cannot be read in a forked process
    return isinstance(value, _KINDS)
