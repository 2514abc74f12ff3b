"""CPUs that this process may use, by affinity and control groups (version 2).

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
from contextlib import suppress
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


def control_groups() -> Iterator[Path]:
    """Yield the folders of this process's control group and of its parent groups."""
    own = PurePosixPath((_GROUP.findall(text_of(PROC / "cgroup")) or [""])[0])
    for root, point in _MOUNT.findall(text_of(PROC / "mountinfo")):
        # In a container the kernel may report the group's path on the host, which is outside of the mount.
        # The mount itself is then the container's group.
        is_mounted = own.is_relative_to(root) and ".." not in own.parts
        below = own.relative_to(root) if is_mounted else PurePosixPath()
        yield from (Path(point) / group for group in (below, *below.parents))


def text_of(path: Path) -> str:
    """Return the content of a file, or "" if it cannot be read."""
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""
