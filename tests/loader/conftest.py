"""Whatever a test of loaders does, it leaves no process behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.traces import children, until


@pytest.fixture(autouse=True)
def _no_process_stays() -> Iterator[None]:
    before = children()
    yield
    if children() - before:
        gc.collect()
    until(lambda: not children() - before, 5)
    assert not children() - before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Many tests read iterable data sets with several workers, to compare them with one."""
    ignored = pytest.mark.filterwarnings("ignore:DataLoader. one of the . workers reads:UserWarning")
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(ignored, append=False)
