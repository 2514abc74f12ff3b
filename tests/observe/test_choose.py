"""`method="auto"`: what is chosen from figures, and how the figures are measured."""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
from typing import Any

import pytest

import seqkit as sk
from seqkit.observe import choose
from seqkit.observe.choose import Choice, Cost, CostAndThreads, Measured, Speed, decided, in_child
from seqkit.observe.measure import cost_of, lock_share_of, next_start, use_of

HERE = os.getpid()
NUMBERS = list(range(200))


def cost(wall_s: float, asleep_s: float = 0.0, failed: int = 0) -> Cost:
    return Cost(100, failed, wall_s - asleep_s, asleep_s, "ValueError: bad" * bool(failed))


def chosen(of: Cost, *speeds: tuple[str, int, float], lock: float | None = None, **given: Any) -> Choice:
    measured = Measured(of, tuple(Speed(*speed) for speed in speeds), lock)
    return decided(measured, **{"cpus": 2, **given})


# -------------------------------------------------------------------- deciding

ASLEEP = cost(0.02, 0.018)
# The cost of an item, the speeds that were measured, and the choice, on 2 CPUs.
CHOICES: list[tuple[Choice, tuple[str, int]]] = [
    # Items that compute get processes, or threads if these are about as fast.
    (chosen(cost(0.02), ("thread", 2, 51), ("process", 2, 97)), ("process", 2)),
    (chosen(cost(0.02), ("thread", 2, 98)), ("thread", 2)),
    (chosen(cost(0.02), ("thread", 2, 80), ("process", 2, 86)), ("thread", 2)),
    (chosen(cost(0.02), ("thread", 2, 50), ("process", 2, 45), lock=0.5), ("process", 2)),
    # Items that sleep get threads, also if another program slowed down the trial, unless processes are
    # clearly faster. Threads that keep one CPU busy wait for the lock: processes are faster in longer runs.
    (chosen(cost(0.02, 0.0199), ("thread", 32, 1500)), ("thread", 32)),
    (chosen(cost(0.02, 0.019), ("thread", 32, 30), ("process", 32, 20)), ("thread", 32)),
    (chosen(ASLEEP, ("thread", 18, 600), ("process", 18, 740)), ("thread", 18)),
    (chosen(ASLEEP, ("thread", 18, 500), ("process", 18, 900)), ("process", 18)),
    (chosen(ASLEEP, ("thread", 18, 450), ("process", 18, 400)), ("process", 18)),
    (chosen(ASLEEP, ("thread", 18, 200), ("process", 18, 230)), ("thread", 18)),
    # Tiny items get no workers. A single thread on one CPU works while the consumer does something else.
    (chosen(cost(1e-7), ("thread", 2, 1e6), ("process", 2, 2e6)), ("inline", 0)),
    (chosen(cost(1e-7), ("thread", 2, 2e8)), ("inline", 0)),
    (chosen(cost(0.02), ("thread", 1, 45), ("process", 1, 45), cpus=1), ("thread", 1)),
    # Items that are too slow to try are judged by their sleep.
    (chosen(cost(3.0, 2.9)), ("thread", 32)),
    (chosen(cost(3.0)), ("process", 2)),
    # The number that the user gave is kept. Without items, threads are chosen.
    (chosen(cost(0.02, 0.019), ("thread", 3, 150), workers=3), ("thread", 3)),
    (chosen(cost(0.1, failed=100)), ("thread", 2)),
    (chosen(Cost(0, 0, 0.0, 0.0)), ("thread", 2)),
]


def test_the_choice_follows_from_the_figures() -> None:
    for choice, expected in CHOICES:
        assert (choice.method, choice.workers) == expected, choice
        found = choice.measured
        assert found is not None
        fastest = max(found.compared, key=lambda speed: speed.items_per_s)
        if found.speeds and choice.method != fastest.method:  # a slower one has a reason
            assert len(choice.why.partition(" in one thread")[2].split(". ")) > 1
    words = [choice.why for choice, _ in CHOICES]
    assert "20 ms" in words[0]
    assert "97" not in words[0]  # the figures of a trial are no promise
    assert "because items sleep" in words[4]
    assert "too long to try workers. Processes suit items that compute." in words[14]
    assert words[-2:] == ["Every item failed: ValueError: bad.", "There are no items."]
    assert [cost(0.02, asleep).useful_workers(2) for asleep in (0.0199, 0.015, 0.012, 0.001)] == [32, 8, 8, 2]


# -------------------------------------------------------------------- measuring


def choice_for(view: Any, seconds: float = 0.01, workers: int | None = None) -> Choice:
    return choose.choose(view, sk.prefetch(view, workers)._settings, seconds)


def test_no_item_is_computed_in_this_process(tmp_path: Any) -> None:
    def record(x: int) -> None:
        with open(tmp_path / "pids", "a") as file:
            file.write(f"{os.getpid()}\n")

    choice_for(sk.smap(record, NUMBERS), 0.05)
    pids = set(map(int, (tmp_path / "pids").read_text().split()))
    assert pids
    assert HERE not in pids


class Work:
    def __call__(self, view: Any) -> Measured:
        return CostAndThreads(sk.prefetch(view)._settings, 0.4, 2, None)(view)


def test_failing_items_are_counted() -> None:
    measured = in_child(sk.smap(lambda x: 1 / (x % 2), NUMBERS), Work(), 10)
    assert 0 < measured.cost.failed < measured.cost.items
    assert measured.cost.error.startswith("ZeroDivisionError")
    assert measured.speeds[0].items_per_s > 0


class LockShare:
    def __call__(self, view: Any) -> float:
        return lock_share_of(view, 0, 0.3)[0]


def test_a_lock_that_items_hold_is_told_from_one_that_they_release() -> None:
    def hold(x: int) -> int:
        return sum(k & 3 for k in range(10_000))

    data = bytes(1 << 22)
    held = in_child(sk.smap(hold, range(10**6)), LockShare(), 10)
    free = in_child(sk.smap(lambda x: hashlib.sha256(data).digest(), range(10**6)), LockShare(), 10)
    assert 0 <= free < 0.3 < held <= 0.6  # as `Measured.holds_lock` tells them apart


def test_waiting_for_a_node_below_is_no_cost_of_an_item() -> None:
    turns = threading.Semaphore(1)  # the second item waits
    below = sk.prefetch(sk.smap(lambda x: turns.acquire(timeout=10), range(3)), 1)
    timer = threading.Timer(0.3, turns.release, (2,))
    timer.start()
    found, _ = cost_of(sk.smap(bool, below), 0, 5)
    below.close()
    timer.join()
    assert found.items == 3
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
    choice = choice_for(sk.smap(item, NUMBERS), workers=3)
    assert choice.settings == {"nworkers": 3, "method": "thread"}
    assert choice.why.startswith("Measuring failed: ")


def test_what_other_processes_must_not_read_is_not_measured() -> None:
    numbers = iter(NUMBERS)
    assert "one-shot iterator" in choice_for(sk.smap(abs, sk.uniter(numbers))).why
    assert next(numbers) == 0
    assert "one worker reads a stream" in choice_for(sk.uniter(lambda: iter(NUMBERS))).why


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

    def choose_it(*given: Any) -> Choice:
        made.append(given)
        return Choice(*choice, "")

    monkeypatch.setattr(choose, "choose", choose_it)
    where = sk.smap(lambda x: (os.getpid() == HERE, sk.get_worker_info() is not None), NUMBERS)
    with sk.prefetch(where, method="auto") as node:
        assert {*node, node[0]} == {(choice[0] != "process", choice[0] != "inline")}
        node.restart()
        assert len(list(node)) == len(NUMBERS)
        assert len(made) == 1


def test_auto_nodes_below_and_above_other_nodes_choose_for_themselves() -> None:
    for lower, upper in [("auto", "thread"), ("auto", "process"), ("thread", "auto")]:
        below = sk.prefetch(sk.smap(abs, NUMBERS), method=lower)  # type: ignore[arg-type]
        with sk.prefetch(sk.smap(str, below), method=upper) as above, below:  # type: ignore[arg-type]
            assert list(above) == list(map(str, NUMBERS))
            assert (below.choice is None) == (lower == "thread")


def test_a_failing_measurement_is_no_error_of_the_node() -> None:
    with sk.prefetch(sk.smap(lambda x: 1 / x, [0, 0, 0]), method="auto") as node:
        with pytest.raises(sk.EvaluationError, match="ZeroDivisionError"):
            node[1]
        assert node.choice is not None
        assert "Every item failed: ZeroDivisionError" in node.choice.why
    closed = sk.prefetch(NUMBERS, method="auto")
    closed.close()
    with pytest.raises(RuntimeError, match="closed"):
        closed[0]
    assert closed.choice is None


def test_arguments_of_processes_need_processes() -> None:
    with pytest.raises(ValueError, match="prefetch: context is for processes, got method='auto'"):
        sk.prefetch(NUMBERS, method="auto", context="fork")
    assert sk.prefetch(NUMBERS, 0, "auto")[3] == 3
    with sk.prefetch(NUMBERS, 2, "auto", start_hook=lambda number: None) as node:
        assert list(node) == NUMBERS
