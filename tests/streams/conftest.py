"""Whatever a test of streams does, it leaves nothing behind: no process, thread, descriptor or mapping."""

from __future__ import annotations

from tests.engine.conftest import _nothing_is_left_behind, pytest_runtest_makereport

__all__ = ["_nothing_is_left_behind", "pytest_runtest_makereport"]
