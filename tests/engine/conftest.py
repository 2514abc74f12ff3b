"""Whatever a test here does, it leaves nothing behind: no process, thread, descriptor, name or mapping."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from .kinds import CONTEXTS
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
# Others are ignored by what starts programs that outlive a terminal.
for _number in (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
    signal.signal(_number, signal.SIG_DFL)


HERE = Path(__file__).parent
SLOW_STARTS = ("forkserver", "spawn")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run a test with one of the two slow start methods: half of the tests with either.

    Of the tests that run with fork too, three of four run with fork alone. In the others only the first case
    has the slow start method, because the cases differ in parameters that have nothing to do with the
    start. `make stress` runs all.
    """
    items = [item for item in items if HERE in item.path.parents]  # tests of other folders may run with them
    forked = {function_of(item) for item in items if start_method(item) == "fork"}
    begun: set[str] = set()
    for item in items:
        start, test = start_method(item), function_of(item)
        if start not in SLOW_STARTS:
            continue
        turn = crc32(item.name.partition("[")[0].encode())
        is_left_out = test in forked and (turn % 8 > 1 or test in begun)
        if start != SLOW_STARTS[turn % 2] or is_left_out:
            item.add_marker(pytest.mark.start_methods)
        else:
            begun.add(test)


def function_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def start_method(item: pytest.Item) -> str | None:
    """Return the start method among the parameters of a test."""
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec else ()
    starts = [value if isinstance(value, str) else getattr(value, "context", None) for value in values]
    return next((start for start in starts if start in CONTEXTS), None)


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
