"""What this process may use of the machine: CPUs and memory, by affinity and control groups; and where it is.

Guarantees
----------
- a file that is missing, or says something unheard of, is no limit.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from ..context import ORIGIN, current_directory

__all__ = [
    "ORIGIN",
    "current_directory",
    "mapped_bytes",
    "memory_limit_bytes",
    "native_threads",
    "resident_bytes",
    "usable_cpus",
]

GROUPS = Path("/sys/fs/cgroup")


def usable_cpus() -> int:
    """Return how many CPUs this process may keep busy, at least 1."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, int(min(cpus, _quota())))


def _quota() -> float:
    """Return how many CPUs' time a control group allows, of version 2 or 1."""
    quota, period = [*_words("cpu.max"), "max", "max"][:2]
    if quota == "max":
        quota, period = ([*_words(f"cpu/cpu.cfs_{what}_us"), "-1"][0] for what in ("quota", "period"))
    try:
        allowed = float(quota) / float(period)
    except (ValueError, ZeroDivisionError):
        return math.inf
    return allowed if allowed > 0 and float(quota) > 0 else math.inf


def native_threads() -> int:
    """Return how many threads BLAS and OpenMP may have in a worker; 0 leaves them alone."""
    value = os.environ.get("SEQKIT_NATIVE_THREADS", "").strip() or "1"
    if not value.isdecimal():
        raise ValueError(
            f"prefetch: SEQKIT_NATIVE_THREADS must be a number of threads, 0 for no limit, got {value!r}"
        )
    return int(value)


def memory_limit_bytes() -> float:
    """Return how much memory a control group allows, or the machine has."""
    limits = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        word = [*_words(name), "max"][0]
        if word.isdecimal():
            limits.append(float(word))
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    return min(limits, default=math.inf)


def resident_bytes() -> int:
    """Return how much memory this process has now; 0 where that is not to be found out."""
    return _statm(1)


def mapped_bytes() -> int:
    """Return how much address space this process uses; 0 where that is not to be found out."""
    return _statm(0)


def _statm(word: int) -> int:
    try:
        pages = Path("/proc/self/statm").read_text().split()[word]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _words(name: str) -> list[str]:
    try:
        return (GROUPS / name).read_text().split()
    except OSError:
        return []
