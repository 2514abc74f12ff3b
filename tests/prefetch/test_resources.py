"""What a process may use, by affinity and control groups of either version."""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path

import pytest

from seqkit.prefetch import resources


def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(resources, "GROUPS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 16),
        ({"cpu.max": "max 100000"}, 16),
        ({"cpu.max": "300000 100000"}, 3),
        ({"cpu.max": "150000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "9900000 100000"}, 16),
        ({"cpu.max": "nonsense"}, 16),
        ({"cpu.max": ""}, 16),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 16),
        ({"cpu/cpu.cfs_quota_us": "400000"}, 16),
    ],
)
def test_cpus(files: dict[str, str], cpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups(tmp_path, monkeypatch, **files)
    assert resources.usable_cpus() == cpus


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"memory.max": "1000000"}, 1_000_000),
        ({"memory/memory.limit_in_bytes": "2000000"}, 2_000_000),
        ({"memory.max": "max"}, None),
        ({}, None),
    ],
)
def test_memory(
    files: dict[str, str], limit: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(resources, "GROUPS", tmp_path)
    found = resources.memory_limit_bytes()
    assert found == limit if limit else 1 << 20 < found <= math.inf


@pytest.mark.parametrize(("value", "threads"), [(None, 1), ("", 1), (" ", 1), ("0", 0), ("1", 1), (" 8 ", 8)])
def test_native_threads(value: str | None, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_resident_memory_grows_with_what_is_held() -> None:
    before = resources.resident_bytes()
    held = bytearray(os.urandom(1) * (64 << 20))
    assert resources.resident_bytes() >= before + (32 << 20)
    del held


def test_address_space_is_what_is_mapped_used_or_not() -> None:
    before = resources.mapped_bytes()
    held = mmap.mmap(-1, 1 << 26)
    assert resources.mapped_bytes() >= before + (1 << 26)
    held.close()
