"""Whatever a test of loaders does, it leaves no process behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.prefetch.traces import children, until


@pytest.fixture(autouse=True)
def _no_process_stays() -> Iterator[None]:
    before = children()
    yield
    if children() - before:
        gc.collect()
    until(lambda: not children() - before, 5)
    assert not children() - before
