"""The states of the global generators, to tell which of them an item moves."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

__all__ = ["changed_generators", "global_states"]


def global_states() -> dict[str, Any]:
    """Return the states of the global generators of libraries, in a form that can be compared.

    >>> before = global_states()
    >>> _ = np.random.rand()
    >>> [name for name, state in global_states().items() if state != before[name]]
    ['numpy.random']
    """
    kind, words, *rest = np.random.get_state(legacy=True)
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    return {
        "random": random.getstate(),
        "numpy.random": (kind, np.asarray(words).tobytes(), *rest),
        "torch": None if generator is None else bytes(generator.get_state().numpy()),
    }


def changed_generators(before: dict[str, Any]) -> list[str]:
    """Return the names of the global generators that have drawn or were seeded since `global_states`.

    A library that was imported since does not count.
    """
    return sorted(name for name, state in global_states().items() if before[name] not in (None, state))
