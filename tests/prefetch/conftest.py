"""Whatever a test here does, it leaves nothing behind: no process, thread, descriptor, name or mapping."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from .traces import (
    adopt_orphans,
    children,
    descriptors,
    mapped,
    reap_workers_of_killed_servers,
    threads,
    until,
    visible_names,
)

adopt_orphans()

# A shell that starts a job in the background has it ignore Ctrl-C, and so would everything it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.when == "call":
        item.stash[_passed] = report.passed
    return report


_passed = pytest.StashKey[bool]()


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    # Only what is new counts: pytest, plugins and earlier tests that failed have things of their own.
    before = children(), threads(), descriptors(), mapped()

    def left() -> dict[str, Any]:
        found = {
            "processes": children() - before[0],
            "threads": {thread for thread in threads() - before[1] if thread.is_alive()},
            "descriptors": set(descriptors().items()) - set(before[2].items()),
            "mappings": set(mapped()) - set(before[3]),
            "names": visible_names(),
        }
        return {what: trace for what, trace in found.items() if trace}

    yield
    if not left() or not request.node.stash.get(_passed, False):
        return  # the traceback of a test that failed keeps all its objects alive
    gc.collect()

    def nothing_left() -> bool:
        reap_workers_of_killed_servers(before[0])
        return not left()

    # An abandoned thread ends when its item does, a child when it has been scheduled.
    assert until(nothing_left), left()
