"""CPU seconds of the tests, child processes included: a plugin of pytest, and the last lines of `make test`.

`make test` names a folder in the variable ``TEST_CPU``, where each run of pytest leaves its figures. Then
``python -m tests.cpu`` prints them, beside those of the last commit that recorded some. After a run of
``make test``, ``make record`` writes them into ``tests/cpu_seconds.json``. The figures never make a test
fail.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "TEST_CPU"
RECORD = Path(__file__).with_name("cpu_seconds.json")
MOST_TESTS = 10


def cpu_seconds() -> float:
    """Return the CPU time of this process, and of its child processes that have ended."""
    return sum(os.times()[:4])


# -------------------------------------------------------------------- the plugin

_of_tests: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    begun = cpu_seconds()
    try:
        return (yield)
    finally:
        _of_tests[item.nodeid.partition("[")[0]] += cpu_seconds() - begun


def pytest_unconfigure() -> None:
    if _of_tests and VARIABLE in os.environ:
        _leave({**_of_tests, "start of pytest, collection": cpu_seconds() - _of_tests.total()})


def _leave(figures: dict[str, float]) -> None:
    folder = Path(os.environ[VARIABLE])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{os.getpid()}.json").write_text(json.dumps(figures))


# -------------------------------------------------------------------- the report


def room(test: str) -> str:
    """Return the part of the suite to which a test belongs.

    >>> room("tests/core/test_once.py::test_a"), room("tests/test_verify.py::test_b")
    ('core', 'test_verify')
    """
    file = test.partition("::")[0]
    parts = file.split("/")
    if parts[0] == "seqkit":
        return "doctests"
    return Path(parts[1]).stem if parts[0] == "tests" else file


def report(folder: Path) -> str:
    """Return the CPU seconds of each room, beside the recorded ones, and the dearest tests."""
    tests = _figures(folder)
    rooms, recorded = _by_room(tests), _recorded()
    lines = [f"{'CPU seconds':30}{'now':>7}{'recorded':>10}{_recorded_when()}"]
    for name, seconds in [*rooms.most_common(), ("all", rooms.total())]:
        before = f"{recorded[name]:10.0f}" if name in recorded else ""
        lines.append(f"{name:30}{seconds:7.0f}{before}")
    lines.append("The dearest tests, with all their cases:")
    dearest = [(test, seconds) for test, seconds in tests.most_common() if "::" in test][:MOST_TESTS]
    return "\n".join([*lines, *(f"{seconds:7.1f}  {test}" for test, seconds in dearest)])


def record(folder: Path) -> None:
    """Write down the CPU seconds of each room. A room without tests in this run keeps its figure."""
    rooms = Counter({**_recorded(), **_by_room(_figures(folder))})
    del rooms["all"]
    figures = {name: round(seconds, 1) for name, seconds in [*rooms.most_common(), ("all", rooms.total())]}
    RECORD.write_text(json.dumps(figures, indent=1) + "\n")


def _recorded() -> dict[str, float]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def _figures(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for file in folder.glob("*.json"):
        found.update(json.loads(file.read_text()))
    return found


def _by_room(tests: Counter[str]) -> Counter[str]:
    rooms: Counter[str] = Counter()
    for test, seconds in tests.items():
        rooms[room(test)] += seconds
    return rooms


def _recorded_when() -> str:
    command = ["git", "log", "-1", "--format= at %h, %as", "--", RECORD.name]
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=RECORD.parent).stdout.rstrip()
    except OSError:
        return ""


def timed(name: str, command: list[str]) -> int:
    """Run a command that is no test, and leave its CPU seconds."""
    status = subprocess.run(command).returncode
    if VARIABLE in os.environ:
        _leave({name: cpu_seconds()})
    return status


if __name__ == "__main__":
    if sys.argv[1:2] == ["timed"]:
        sys.exit(timed(sys.argv[2], sys.argv[3:]))
    (record if sys.argv[1:] == ["record"] else lambda folder: print(report(folder)))(
        Path("build", "test-cpu")
    )
