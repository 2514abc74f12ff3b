"""Whatever a test of loaders does, it leaves no process behind."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from tests.prefetch.traces import children, state, until


@pytest.fixture(autouse=True)
def _no_process_stays() -> Iterator[None]:
    before = children()
    yield
    if children() - before:
        gc.collect()

    def nothing_left() -> bool:
        # On a busy machine the engine does not wait longer than two seconds for a process that it has killed.
        for pid in children() - before:
            if state(pid) == "Z":
                os.waitpid(pid, os.WNOHANG)
        return not children() - before

    assert until(nothing_left, 5)
