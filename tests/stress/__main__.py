"""Run the concurrency tests again and again, under CPU load and random delays.

    python -m tests.stress --rounds 200 --at-once 4 [-k "not spawn"] [other arguments for pytest]

Every round is a fresh pytest. Meanwhile a process on every CPU does nothing but compute, and the children of
the tests, workers and servers, are stopped at random instants and go on a few milliseconds later: between any
two instructions, so to say. A test that takes two minutes fails with the stacks of all threads; a round that
does not end is killed and counts as failed. What pytest printed of a round with failures is added to
``stress.log``. At the end stands which tests failed how often; the exit status is 1 if any did.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.engine.traces import state

# What the engine promises about threads, processes and their memory.
TESTED = """
backends coroutines races scheduler executors faults interruptions leases memory prefetch
slots stages streams template team threads signals writer
"""
TESTS = [f"tests/engine/test_{name}.py" for name in TESTED.split()]
OPTIONS = [
    "-m",
    "not stress and not frameworks",
    "-q",
    "--no-header",
    "--tb=long",
    "--timeout=120",
    "-p",
    "no:cacheprovider",
]
# Most of these tests stop a worker themselves, and check that it stays so: a delay would let it go on. The
# last ones are about limits, not about time, and begin many interpreters.
LEFT_OUT = " and ".join(
    f"not {name}"
    for name in (
        "SIGSTOP",
        "stopped",
        "stops_its",
        "stops_while",
        "cannot_be_killed",
        "makes_do_with_little",
    )
)

ROUND_S = 3600
PAUSE_S = 0.05  # between two delays, on average: dozens for every second of CPU time that a round gets
DELAY_S = 0.005  # at most


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument(
        "--at-once", type=int, default=2 * (os.cpu_count() or 1), help="rounds beside one another"
    )
    parser.add_argument("-k", default="test", metavar="EXPRESSION", help="which tests, as for pytest")
    known, arguments = parser.parse_known_args()
    arguments = ["-k", f"({known.k}) and {LEFT_OUT}", *(arguments or TESTS)]
    began, failures, seen = time.monotonic(), Counter[str](), 0
    with cpu_load(), ThreadPoolExecutor(known.at_once) as pool:
        rounds = pool.map(one_round, [arguments] * known.rounds)
        for number, (ran, failed) in enumerate(rounds, 1):
            seen += ran
            failures.update(failed)
            print(f"round {number}: {ran} tests, failed: {', '.join(failed) or 'none'}", flush=True)
    hours = (time.monotonic() - began) / 3600
    print(
        f"\n{known.rounds} rounds, {seen} tests in {hours:.1f} h on {os.cpu_count()} CPUs,"
        f" Python {platform.python_version()}, Linux {platform.release()}"
    )
    for name, count in failures.most_common():
        print(f"failed {count} times: {name}")
    return 1 if failures else 0


@contextmanager
def cpu_load() -> Iterator[None]:
    """Keep every CPU busy, with what no test would use."""
    spin = "import os; os.nice(19)\nwhile True: pass"
    spinning = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def one_round(arguments: list[str]) -> tuple[int, list[str]]:
    """Return how many tests ran, and which failed."""
    command = [sys.executable, "-X", "faulthandler", "-m", "pytest", *OPTIONS, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    over = threading.Event()
    delays = threading.Thread(target=delay_descendants, args=(process.pid, over))
    watchdog = threading.Timer(ROUND_S, process.kill)
    delays.start()
    watchdog.start()
    output, _ = process.communicate()
    over.set()
    delays.join()
    watchdog.cancel()
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.M)
    if process.returncode not in (0, 1) or (process.returncode and not failed):
        failed.append(f"the whole round, with exit status {process.returncode}")
    if failed:
        with open("stress.log", "a") as log:
            log.write(output)
    return sum(int(count) for count in re.findall(r"(\d+) (?:passed|failed)", output)), failed


def delay_descendants(root: int, over: threading.Event) -> None:
    """Stop a process below `root` now and then, for a moment."""
    rng = random.Random()
    while not over.wait(rng.expovariate(1 / PAUSE_S)):
        running = [pid for pid in descendants(root) if state(pid) in "RS"]
        if running:
            pid = rng.choice(running)
            try:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(rng.random() * DELAY_S)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass


def descendants(root: int) -> list[int]:
    found, new = [], [root]
    while new:
        try:
            tasks = Path(f"/proc/{new.pop()}/task").iterdir()
            new_ones = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
        except OSError:
            continue
        found += new_ones
        new += new_ones
    return found


if __name__ == "__main__":
    sys.exit(main())
