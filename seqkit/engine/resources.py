"""CPUs that this process may use, by affinity and control groups."""

from __future__ import annotations

import math
import os
from contextlib import suppress

from ..core.control_groups import control_groups, text_of


def usable_cpus() -> int:
    """Return how many CPUs this process may keep busy (1 or more)."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, int(min(cpus, _quota())))


def _quota() -> float:
    """Return how much CPU time the control groups allow, in CPUs."""
    quotas = [math.inf]
    for group in control_groups():
        with suppress(ValueError):  # "max", or not both numbers
            quota, period = map(int, text_of(group / "cpu.max").split())
            quotas.append(quota / period)
    return min(quotas)


def native_threads() -> int:
    """Return how many threads BLAS and OpenMP may have in a worker; 0 sets no limit."""
    value = os.environ.get("SEQKIT_NATIVE_THREADS", "").strip() or "1"
    if not value.isdecimal():
        raise ValueError(
            f"prefetch: SEQKIT_NATIVE_THREADS must be a number of threads, 0 for no limit, got {value!r}"
        )
    return int(value)
