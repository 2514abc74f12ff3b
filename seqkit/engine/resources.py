"""CPUs and memory that this process may use, by affinity and control groups (version 2).

Guarantees
----------
- The limits of a process are those of its own control group and of all groups above it, up to the mounted
  group. The lowest limit counts.
- A file that is missing or has unknown content sets no limit.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

PROC = Path("/proc/self")

# Path of the control group, in /proc/self/cgroup.
_GROUP = re.compile(r"^0::(/.*)$", re.MULTILINE)
# Root within the file system, and mount point, in /proc/self/mountinfo.
_MOUNT = re.compile(r"^\S+ \S+ \S+ (/\S*) (/\S*) .* - cgroup2 ", re.MULTILINE)


def usable_cpus() -> int:
    """Return how many CPUs this process may keep busy (1 or more)."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, int(min(cpus, _quota())))


def _quota() -> float:
    """Return how much CPU time the control groups allow, in CPUs."""
    quotas = [math.inf]
    for group in _groups():
        try:
            quota, period = map(int, _words(group / "cpu.max"))
        except ValueError:  # "max", or not both numbers
            continue
        if quota > 0 and period > 0:
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


def memory_limit_bytes() -> float:
    """Return the memory limit of the control groups, or the memory of the machine if that is less."""
    limits = []
    for group in _groups():
        limits += [float(word) for word in _words(group / "memory.max")[:1] if word.isdecimal()]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    return min(limits, default=math.inf)


def mapped_bytes() -> int:
    """Return the size of this process's address space, or 0 if it is unknown."""
    return _statm(0)


def _statm(word: int) -> int:
    try:
        pages = Path("/proc/self/statm").read_text().split()[word]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _groups() -> Iterator[Path]:
    """Yield the folders of this process's control group and of its parent groups."""
    own = PurePosixPath((_GROUP.findall(_text(PROC / "cgroup")) or [""])[0])
    for root, point in _MOUNT.findall(_text(PROC / "mountinfo")):
        top = _unescaped(root)
        # In a container the kernel may report the group's path on the host, which is outside of the mount.
        # The mount itself is then the container's group.
        is_mounted = own.is_relative_to(top) and ".." not in own.parts
        below = own.relative_to(top) if is_mounted else PurePosixPath()
        yield from (Path(_unescaped(point)) / group for group in (below, *below.parents))


def _unescaped(path: str) -> str:
    """Return a path of mountinfo with its octal escapes decoded."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""
