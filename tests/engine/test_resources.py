"""What a process may use, by affinity and control groups."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from seqkit.engine import resources

# Mounts of control groups: name of the folder, root in the file system, and whether of version 2.
V2 = (("unified", "/", True),)
V1 = (("cpu,cpuacct", "/", False), ("memory", "/", False))  # is not read


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that fakes mounts, this process's own groups and files of a machine of 16 CPUs."""

    def fake(mounts: Iterable[tuple[str, str, bool]], own: str, files: dict[str, str]) -> None:
        lines = ["22 27 0:21 / /proc rw,relatime - proc proc rw"]
        for name, root, is_v2 in mounts:
            point = str(tmp_path / name).replace(" ", r"\040")
            kind = "cgroup2 cgroup2 rw,nsdelegate" if is_v2 else f"cgroup cgroup rw,{name}"
            lines.append(f"35 24 0:30 {root} {point} ro,nosuid,relatime shared:9 master:1 - {kind}")
        for name, text in {**files, "cgroup": own, "mountinfo": "\n".join(lines) + "\n"}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    monkeypatch.setattr(resources, "PROC", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    return fake


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 16),
        ({"cpu.max": "max 100000"}, 16),
        ({"cpu.max": "300000 100000"}, 3),
        ({"cpu.max": "150000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "9900000 100000"}, 16),
        ({"cpu.max": "300000 0"}, 16),
        ({"cpu.max": "300000"}, 16),
        ({"cpu.max": "300000 100000 7"}, 16),
        ({"cpu.max": "nonsense"}, 16),
        ({"cpu.max": ""}, 16),
    ],
)
def test_the_number_of_cpus_respects_control_groups(
    files: dict[str, str], cpus: int, groups: Callable[..., None]
) -> None:
    groups(V2, "0::/\n", {f"unified/{name}": text for name, text in files.items()})
    assert resources.usable_cpus() == cpus


@pytest.mark.parametrize(
    ("mounts", "own", "files", "cpus"),
    [
        pytest.param(V2, "0::/a/b\n", {"unified/a/b/cpu.max": "200000 100000"}, 2, id="version 2"),
        pytest.param(
            V1 + V2,
            "2:cpu,cpuacct:/a\n0::/b\n",
            {
                "cpu,cpuacct/a/cpu.cfs_quota_us": "500000",
                "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
                "unified/a/cpu.max": "100000 100000",
                "unified/b/cpu.max": "300000 100000",
            },
            3,
            id="both versions",
        ),
        pytest.param(
            V2,
            "0::/a/b/c\n",
            {
                "unified/a/cpu.max": "300000 100000",
                "unified/a/b/cpu.max": "max 100000",
                "unified/a/b/c/cpu.max": "800000 100000",
                "unified/other/cpu.max": "100000 100000",
            },
            3,
            id="the group above is tighter",
        ),
        pytest.param(
            (("unified", "/docker/12", True),),
            "0::/docker/12/a\n",
            {"unified/a/cpu.max": "200000 100000", "unified/docker/12/a/cpu.max": "100000 100000"},
            2,
            id="the mount begins at the container",
        ),
        pytest.param(
            (("unified", "/docker/12", True),),
            "0::/docker/123\n",
            {"unified/cpu.max": "200000 100000"},
            2,
            id="a group that is not below the root of its mount",
        ),
        pytest.param(
            (("unified", "/../..", True),),
            "0::/\n",
            {"unified/cpu.max": "200000 100000"},
            2,
            id="a mount from outside the namespace",
        ),
        pytest.param(
            V2,
            "0::/../other\n",
            {"unified/cpu.max": "200000 100000", "other/cpu.max": "100000 100000"},
            2,
            id="a group outside the namespace",
        ),
        pytest.param(
            V2, "0::/a/b (deleted)\n", {"unified/a/cpu.max": "200000 100000"}, 2, id="a group that is gone"
        ),
        pytest.param(
            (("uni fied", "/", True),), "0::/a\n", {"uni fied/a/cpu.max": "200000 100000"}, 2, id="a space"
        ),
        pytest.param(V2, "nonsense\n", {"unified/cpu.max": "200000 100000"}, 2, id="no path is known"),
        pytest.param((), "0::/\n", {"unified/cpu.max": "200000 100000"}, 16, id="no mount"),
    ],
)
def test_the_number_of_cpus_respects_the_limit_of_the_own_control_group(
    mounts: Iterable[tuple[str, str, bool]],
    own: str,
    files: dict[str, str],
    cpus: int,
    groups: Callable[..., None],
) -> None:
    groups(mounts, own, files)
    assert resources.usable_cpus() == cpus


@pytest.mark.parametrize(
    ("mounts", "own", "files", "limit"),
    [
        (V2, "0::/\n", {"unified/memory.max": "1000000\n"}, 1_000_000),
        (V2, "0::/a\n", {"unified/memory.max": "1000000", "unified/a/memory.max": "2000000"}, 1_000_000),
        (V2, "0::/a\n", {"unified/memory.max": "max", "unified/a/memory.max": "2000000"}, 2_000_000),
        (V2, "0::/\n", {"unified/memory.max": "max"}, None),
        (V2, "0::/\n", {"unified/memory.max": "nonsense"}, None),
        ((), "", {}, None),
    ],
)
def test_the_memory_limit_respects_control_groups(
    mounts: Iterable[tuple[str, str, bool]],
    own: str,
    files: dict[str, str],
    limit: int | None,
    groups: Callable[..., None],
) -> None:
    groups(mounts, own, files)
    found = resources.memory_limit_bytes()
    if limit is None:
        assert found == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:
        assert found == limit


def test_without_control_groups_there_are_no_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "PROC", tmp_path / "missing")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    assert resources.usable_cpus() == 16
    assert 1 << 20 < resources.memory_limit_bytes() <= math.inf


@pytest.mark.parametrize(("value", "threads"), [(None, 1), ("", 1), (" ", 1), ("0", 0), ("1", 1), (" 8 ", 8)])
def test_the_number_of_native_threads_comes_from_the_environment(
    value: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SEQKIT_NATIVE_THREADS", raising=False)
    if value is not None:
        monkeypatch.setenv("SEQKIT_NATIVE_THREADS", value)
    assert resources.native_threads() == threads


@pytest.mark.parametrize("value", ["abc", "-1", "1.5"])
def test_native_threads_that_are_no_number_are_refused_by_name(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQKIT_NATIVE_THREADS", value)
    expected = f"prefetch: SEQKIT_NATIVE_THREADS must be a number of threads, 0 for no limit, got {value!r}"
    with pytest.raises(ValueError, match=f"^{expected}$"):
        resources.native_threads()


def test_address_space_counts_mapped_memory_used_or_not() -> None:
    before = resources.mapped_bytes()
    held = mmap.mmap(-1, 1 << 26)
    assert resources.mapped_bytes() >= before + (1 << 26)
    held.close()
