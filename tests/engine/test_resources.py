"""What a process may use, by affinity and control groups."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from seqkit.core import control_groups
from seqkit.engine import resources

# Mounts of control groups: name of the folder, root in the file system, and whether of version 2.
V1 = (("cpu,cpuacct", "/", False), ("memory", "/", False))  # is not read


V2 = (("unified", "/", True),)
OF_CONTAINER = (("unified", "/docker/12", True),)
TWO, THREE = "200000 100000", "300000 100000"

# The mounts, the path of the own group, the limits of groups, and the number of CPUs.
MACHINES: list[tuple[Any, str, dict[str, str], int]] = [
    (V2, "0::/\n", {}, 16),
    (V2, "0::/\n", {"": "max 100000"}, 16),
    (V2, "0::/\n", {"": THREE}, 3),
    (V2, "0::/\n", {"": "150000 100000"}, 1),
    (V2, "0::/\n", {"": "50000 100000"}, 1),
    (V2, "0::/\n", {"": "9900000 100000"}, 16),
    (V2, "0::/\n", {"": "300000"}, 16),
    (V2, "0::/\n", {"": "nonsense"}, 16),
    (V2, "0::/\n", {"": ""}, 16),
    (V2, "0::/a/b\n", {"a/b": TWO}, 2),
    (V1 + V2, "2:cpu,cpuacct:/a\n0::/b\n", {"a": "100000 100000", "b": THREE}, 3),
    # A group above is tighter.
    (V2, "0::/a/b/c\n", {"a": THREE, "a/b": "max 100000", "a/b/c": "800000 100000", "other": TWO}, 3),
    (OF_CONTAINER, "0::/docker/12/a\n", {"a": TWO, "docker/12/a": "100000 100000"}, 2),
    # The own group is not below the root of the mount.
    (OF_CONTAINER, "0::/docker/123\n", {"": TWO}, 2),
    ((("unified", "/../..", True),), "0::/\n", {"": TWO}, 2),
    (V2, "0::/../other\n", {"": TWO, "../other": "100000 100000"}, 2),
    (V2, "0::/a/b (deleted)\n", {"a": TWO}, 2),
    (V2, "nonsense\n", {"": TWO}, 2),
    ((), "0::/\n", {"": TWO}, 16),
]


def test_the_number_of_cpus_respects_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(control_groups, "PROC", tmp_path / "missing")
    assert resources.usable_cpus() == 16
    for number, (mounts, own, limits, cpus) in enumerate(MACHINES):
        machine = tmp_path / str(number)
        lines = ["22 27 0:21 / /proc rw,relatime - proc proc rw"]
        for name, root, is_v2 in mounts:
            kind = "cgroup2 cgroup2 rw,nsdelegate" if is_v2 else f"cgroup cgroup rw,{name}"
            lines.append(f"35 24 0:30 {root} {machine / name} ro,relatime shared:9 master:1 - {kind}")
        files = {f"unified/{group}/cpu.max": text for group, text in limits.items()}
        for name, text in {**files, "cgroup": own, "mountinfo": "\n".join(lines) + "\n"}.items():
            path = machine / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.setattr(control_groups, "PROC", machine)
        assert resources.usable_cpus() == cpus, (mounts, own, limits)


def test_the_number_of_native_threads_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEQKIT_NATIVE_THREADS", raising=False)
    assert resources.native_threads() == 1
    for value, threads in {"": 1, " ": 1, "0": 0, "1": 1, " 8 ": 8}.items():
        monkeypatch.setenv("SEQKIT_NATIVE_THREADS", value)
        assert resources.native_threads() == threads
    for value in ("abc", "-1", "1.5"):
        monkeypatch.setenv("SEQKIT_NATIVE_THREADS", value)
        with pytest.raises(ValueError, match=f"SEQKIT_NATIVE_THREADS must be a number .*, got {value!r}$"):
            resources.native_threads()
