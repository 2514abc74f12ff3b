"""CPUs and memory that this process may use, by affinity and control groups; and its working directory.

Guarantees
----------
- the limits of a process are those of its own control group and of all groups above it, up to the one that
  is mounted; the tightest counts;
- a file that is missing or has unknown content is no limit.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

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

PROC = Path("/proc/self")

# Controllers and path of a control group, in /proc/self/cgroup. Version 2 names no controllers.
_GROUP = re.compile(r"^\d+:([^:\n]*):(/.*)$", re.MULTILINE)
# Root within the file system, mount point, version and options of a mount, in /proc/self/mountinfo.
_MOUNT = re.compile(r"^\S+ \S+ \S+ (/\S*) (/\S*) .* - cgroup(2?) \S+ (\S+)$", re.MULTILINE)


def usable_cpus() -> int:
    """Return how many CPUs this process may keep busy, at least 1."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, int(min(cpus, _quota())))


def _quota() -> float:
    """Return how many CPUs' time the control groups allow."""
    quotas = [math.inf]
    for group in _groups("cpu"):
        v1 = _words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us")
        for words in (_words(group / "cpu.max"), v1):
            try:
                quota, period = map(int, words)
            except ValueError:  # "max", or not both numbers
                continue
            if quota > 0 and period > 0:
                quotas.append(quota / period)
    return min(quotas)


def native_threads() -> int:
    """Return how many threads BLAS and OpenMP may have in a worker; 0 leaves them alone."""
    value = os.environ.get("SEQKIT_NATIVE_THREADS", "").strip() or "1"
    if not value.isdecimal():
        raise ValueError(
            f"prefetch: SEQKIT_NATIVE_THREADS must be a number of threads, 0 for no limit, got {value!r}"
        )
    return int(value)


def memory_limit_bytes() -> float:
    """Return how much memory the control groups allow, or the machine has."""
    limits = []
    for group in _groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limits += [float(word) for word in _words(group / name)[:1] if word.isdecimal()]
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


def _groups(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control group and of the groups above it, of versions 1 and 2."""
    paths = {}
    for names, path in _GROUP.findall(_text(PROC / "cgroup")):
        paths.update(dict.fromkeys(names.split(","), path))
    for root, point, version, options in _MOUNT.findall(_text(PROC / "mountinfo")):
        if version or controller in options.split(","):
            own = PurePosixPath(paths.get("" if version else controller, ""))
            top = _unescaped(root)
            # A container may be told the path of its group on the host, where the mount does not begin. The
            # group of the container is then the mount itself.
            is_mounted = own.is_relative_to(top) and ".." not in own.parts
            below = own.relative_to(top) if is_mounted else PurePosixPath()
            yield from (Path(_unescaped(point)) / group for group in (below, *below.parents))


def _unescaped(path: str) -> str:
    """Return a path of mountinfo, in which spaces are octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""
