"""The control groups of this process (version 2), whose files have the limits of CPUs and memory.

Guarantees
----------
- The limits of a process are those of its own control group and of all groups above it, up to the mounted
  group. The lowest limit counts.
- A file that is missing or has unknown content sets no limit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

__all__ = ["control_groups", "text_of"]

PROC = Path("/proc/self")

# Path of the control group, in /proc/self/cgroup.
_GROUP = re.compile(r"^0::(/.*)$", re.MULTILINE)
# Root within the file system, and mount point, in /proc/self/mountinfo.
_MOUNT = re.compile(r"^\S+ \S+ \S+ (/\S*) (/\S*) .* - cgroup2 ", re.MULTILINE)


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
