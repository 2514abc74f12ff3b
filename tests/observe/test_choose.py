"""`method="auto"`: what is chosen from figures, and how the figures are measured."""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk
from seqkit.observe import choose
from seqkit.observe.choose import (
    Choice,
    Cost,
    CostAndThreads,
    Measured,
    Speed,
    decided,
    in_child,
)
from seqkit.observe.measure import MOST_WORKERS, cost_of, lock_share_of, next_start, use_of

HERE = os.getpid()
NUMBERS = list(range(200))


def cost(wall_s: float, asleep_s: float = 0.0, nbytes: int = 8, failed: int = 0) -> Cost:
    return Cost(100, failed, wall_s - asleep_s, asleep_s, nbytes, "ValueError: bad" * bool(failed))


def chosen(of: Cost, *speeds: tuple[str, int, float], cpus: int = 2, **given: Any) -> Choice:
    more = {name: given.pop(name) for name in ("lock_share",) if name in given}
    return decided(Measured(of, tuple(Speed(*speed) for speed in speeds), **more), cpus, **given)


# -------------------------------------------------------------------- deciding


def test_python_that_computes_gets_processes() -> None:
    choice = chosen(cost(0.02), ("thread", 2, 51), ("process", 2, 97))
    assert choice.settings == {"nworkers": 2, "method": "process"}
    assert "20 ms" in choice.why
    assert "97" not in choice.why  # the figures of a trial are no promise


def test_code_that_releases_the_lock_gets_threads() -> None:
    assert chosen(cost(0.02), ("thread", 2, 98)).settings == {"nworkers": 2, "method": "thread"}
    # Also if processes are a little faster.
    assert chosen(cost(0.02), ("thread", 2, 80), ("process", 2, 86)).method == "thread"


def test_sleeping_items_get_more_workers_than_there_are_cpus() -> None:
    assert cost(0.02, 0.0199).useful_workers(2) == MOST_WORKERS
    assert cost(0.02, 0.015).useful_workers(2) == 10
    assert cost(0.02, 0.001).useful_workers(2) == 2
    choice = chosen(cost(0.02, 0.0199), ("thread", 32, 1500))
    assert choice.workers == 32
    assert "because items sleep" in choice.why
    # Also if another program slowed down the trial.
    assert chosen(cost(0.02, 0.019), ("thread", 32, 30), ("process", 32, 20)).method == "thread"


def test_sleeping_items_get_threads_unless_processes_are_clearly_faster() -> None:
    asleep = cost(0.02, 0.018)
    assert chosen(asleep, ("thread", 18, 600), ("process", 18, 740)).method == "thread"  # this may be noise
    assert chosen(asleep, ("thread", 18, 500), ("process", 18, 900)).method == "process"
    # These threads keep one CPU busy, so they wait for the lock, and processes are faster in longer runs.
    assert chosen(asleep, ("thread", 18, 450), ("process", 18, 460)).method == "process"
    assert chosen(asleep, ("thread", 18, 200), ("process", 18, 230)).method == "thread"


def test_tiny_items_get_no_workers() -> None:
    choice = chosen(cost(1e-7), ("thread", 2, 1e6), ("process", 2, 2e6))
    assert choice.settings == {"nworkers": 0}
    # A single thread on one CPU is kept: it works while the consumer does something else.
    assert chosen(cost(0.02), ("thread", 1, 49), ("process", 1, 45), cpus=1).method == "thread"


def test_items_that_are_too_slow_to_try_are_judged_by_their_sleep() -> None:
    assert chosen(cost(3.0, 2.9)).method == "thread"
    assert chosen(cost(3.0)).settings == {"nworkers": 2, "method": "process"}
    assert "too long to try workers. Processes suit items that compute." in chosen(cost(3.0)).why


def test_memory_limits_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(choose, "control_groups", lambda: [tmp_path / "missing", tmp_path / "own", tmp_path])
    for limits, expected in (
        (("max", ""), machine),
        (("nonsense", "2000000\n"), 2_000_000),
        (("9000", "max"), 9000),
    ):
        for folder, text in zip((tmp_path, tmp_path / "own"), limits, strict=True):
            folder.mkdir(exist_ok=True)
            (folder / "memory.max").write_text(text)
        assert choose.memory_limit_bytes() == expected
    monkeypatch.setattr(choose, "memory_limit_bytes", lambda: 4 << 30)
    assert chosen(cost(0.2, 0.19, nbytes=100 << 20), ("thread", 32, 100)).workers == 5
    assert chosen(cost(0.2, nbytes=4 << 30), ("thread", 2, 10)).workers == 1


@pytest.mark.parametrize(
    ("of", "speeds", "lock_share"),
    [
        (cost(0.02), [("thread", 2, 80), ("process", 2, 86)], None),  # processes, but not by enough
        (cost(0.02), [("thread", 2, 50), ("process", 2, 45)], 0.5),  # threads that wait for the lock
        (cost(0.02, 0.018), [("thread", 18, 450), ("process", 18, 400)], None),
        (cost(0.02), [("thread", 2, 45)], None),  # no workers
    ],
)
def test_what_was_slower_is_not_chosen_without_a_reason(of: Any, speeds: Any, lock_share: Any) -> None:
    choice = chosen(of, *speeds, lock_share=lock_share)
    assert choice.measured is not None
    fastest = max(choice.measured.compared, key=lambda speed: speed.items_per_s)
    assert choice.method != fastest.method
    assert len(choice.why.partition(" in one thread")[2].split(". ")) > 1


def test_the_number_of_workers_that_the_user_gave_is_kept() -> None:
    assert chosen(cost(0.02, 0.019), ("thread", 3, 150), workers=3).workers == 3


def test_without_items_to_measure_threads_are_chosen() -> None:
    assert chosen(cost(0.1, failed=100)).why == "Every item failed: ValueError: bad."
    assert chosen(Cost(0, 0, 0.0, 0.0, 0.0, 0)).settings == {"nworkers": 2, "method": "thread"}


# -------------------------------------------------------------------- measuring


def record(place: Any) -> Callable[[int], int]:
    def computed(x: int) -> int:
        with open(place, "a") as file:
            file.write(f"{os.getpid()}\n")
        return x

    return computed


def test_no_item_is_computed_in_this_process(tmp_path: Any) -> None:
    view = sk.smap(record(tmp_path / "pids"), NUMBERS)
    choose.choose(view, sk.prefetch(view)._settings, 0.05)
    pids = set(map(int, (tmp_path / "pids").read_text().split()))
    assert pids
    assert HERE not in pids


def test_failing_items_are_counted() -> None:
    measured = in_child(sk.smap(lambda x: 1 / (x % 2), NUMBERS), Work(), 10)
    assert 0 < measured.cost.failed < measured.cost.items
    assert measured.cost.error.startswith("ZeroDivisionError")
    assert measured.speeds[0].items_per_s > 0


def test_a_lock_that_items_hold_is_told_from_one_that_they_release() -> None:
    def hold(x: int) -> int:
        return sum(k & 3 for k in range(10_000))

    data = bytes(1 << 22)
    held = in_child(sk.smap(hold, range(10**6)), LockShare(), 10)
    free = in_child(sk.smap(lambda x: hashlib.sha256(data).digest(), range(10**6)), LockShare(), 10)
    assert 0 <= free < 0.3 < held <= 0.6  # as `Measured.holds_lock` tells them apart


class LockShare:
    def __call__(self, view: Any) -> float:
        return lock_share_of(view, 0, 0.3)[0]


class Work:
    def __call__(self, view: Any) -> Measured:
        return CostAndThreads(sk.prefetch(view)._settings, 0.4, 2, None)(view)


def test_waiting_for_a_node_below_is_no_cost_of_an_item() -> None:
    turns = threading.Semaphore(0)
    below = sk.prefetch(sk.smap(lambda x: turns.acquire(timeout=10), NUMBERS), 1)
    timer = threading.Timer(0.2, turns.release, (len(NUMBERS),))
    timer.start()
    found, _ = cost_of(sk.smap(bool, below), 0, 0.4)
    below.close()
    timer.join()
    assert found.items > 1
    assert found.asleep_s < 0.1


def test_successive_measurements_read_other_items() -> None:
    seen: list[int] = []
    view = sk.smap(seen.append, NUMBERS)
    _, start = cost_of(view, 0, 0.0)
    assert (seen, start) == ([0], 1)
    (rate, *_), after = use_of(view, sk.prefetch(view)._settings, "thread", 1, start, 0.0)
    assert rate > 0
    assert after >= 3
    assert seen[1] == 1
    assert next_start(view, 0, 150) == 0  # too few are left


@pytest.mark.parametrize("item", [lambda x: os._exit(3), lambda x: threading.Event().wait()])
def test_a_deadly_or_hanging_item_leads_to_the_default(item: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "LEAST_LIMIT_S", 0.2)
    view = sk.smap(item, NUMBERS)
    choice = choose.choose(view, sk.prefetch(view, 3)._settings, 0.01)
    assert choice.settings == {"nworkers": 3, "method": "thread"}
    assert choice.why.startswith("Measuring failed: ")


def test_what_other_processes_must_not_read_is_not_measured() -> None:
    numbers = iter(NUMBERS)
    assert "one-shot iterator" in why(sk.smap(abs, sk.uniter(numbers)))
    assert next(numbers) == 0
    assert "one worker reads a stream" in why(sk.uniter(lambda: iter(NUMBERS)))


def why(view: Any) -> str:
    return choose.choose(view, sk.prefetch(view)._settings, 0.01).why


# -------------------------------------------------------------------- nodes


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "AUTO_S", 0.02)
    monkeypatch.setattr(choose, "AUTO_STAGES_S", 0.02)


def test_an_auto_node_has_the_items_of_its_source() -> None:
    view = sk.random_map(lambda x, rng: x + rng.random(), sk.shuffle(NUMBERS, seed=0), seed=0)
    with sk.prefetch(view, method="auto") as node:
        assert (node.choice, "auto" in repr(node)) == (None, True)
        assert list(node) == list(view)
        assert node[-1] == view[-1]
        assert list(node.at_epoch(1)) == list(view.at_epoch(1))
        choice = node.choice
        assert choice is not None
        assert choice is node.at_epoch(2).choice  # type: ignore[attr-defined]
        assert f"auto: {next(iter(choice.settings))}=" in sk.explain(node)
        copy = pickle.loads(pickle.dumps(sk.prefetch(sk.smap(abs, NUMBERS), method="auto")))
        assert list(copy) == NUMBERS
        copy.close()


@pytest.mark.parametrize("choice", [("thread", 2), ("process", 2), ("inline", 0)])
def test_an_auto_node_uses_what_was_chosen(choice: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def choose_it(source: Any, settings: Any, *rest: Any) -> Choice:
        made.append(source)
        return Choice(*choice, "")

    monkeypatch.setattr(choose, "choose", choose_it)
    where = sk.smap(lambda x: (os.getpid() == HERE, sk.get_worker_info() is not None), NUMBERS)
    with sk.prefetch(where, method="auto") as node:
        assert set(node) == {(choice[0] != "process", choice[0] != "inline")}
        assert node[0] == (choice[0] != "process", choice[0] != "inline")
        assert len(made) == 1
        node.restart()
        assert len(list(node)) == len(NUMBERS)
        assert len(made) == 1


def test_auto_nodes_below_other_nodes_choose_for_themselves() -> None:
    below = sk.prefetch(sk.smap(abs, NUMBERS), method="auto")
    with sk.prefetch(sk.smap(str, below), 2) as above, below:
        assert list(above) == list(map(str, NUMBERS))
        assert below.choice is not None
    with sk.prefetch(sk.smap(str, sk.prefetch(sk.smap(abs, NUMBERS), method="auto")), 2, "process") as above:
        assert list(above) == list(map(str, NUMBERS))
    with sk.prefetch(sk.smap(str, sk.prefetch(sk.smap(abs, NUMBERS), 2)), method="auto") as above:
        assert list(above) == list(map(str, NUMBERS))


def test_a_failing_measurement_is_no_error_of_the_node() -> None:
    with sk.prefetch(sk.smap(lambda x: 1 / x, [0, 0, 0]), method="auto") as node:
        with pytest.raises(sk.EvaluationError, match="ZeroDivisionError"):
            node[1]
        assert node.choice is not None
        assert "Every item failed: ZeroDivisionError" in node.choice.why


def test_a_closed_auto_node_measures_nothing() -> None:
    node = sk.prefetch(NUMBERS, method="auto")
    node.close()
    with pytest.raises(RuntimeError, match="closed"):
        node[0]
    assert node.choice is None


def test_arguments_of_processes_need_processes() -> None:
    with pytest.raises(ValueError, match="prefetch: context is for processes, got method='auto'"):
        sk.prefetch(NUMBERS, method="auto", context="fork")
    assert sk.prefetch(NUMBERS, 0, "auto")[3] == 3
    hooked: list[int] = []
    with sk.prefetch(NUMBERS, 2, "auto", start_hook=lambda number: hooked.append(number)) as node:
        assert list(node) == NUMBERS
