"""The diagnosis of measurements whose bottleneck is known."""

from dataclasses import replace

import pytest

import seqkit as sk
from seqkit.engine.statistics import Statistics
from seqkit.observe.choose import Cost, Measured, Speed, decided
from seqkit.observe.diagnosis import Measurement, NodeFigures, Stage, diagnose

MIB = 1 << 20


def stage(view="smap(decode)", seconds=1.9, items=100, node=0, **more):
    return Stage(view, items, seconds, node=node, **more)


def node(method="process", workers=2, shm_size=None, **figures):
    return NodeFigures("prefetch", method, workers, shm_size, 0.1, Statistics(100, 100, **figures))


def choice_of(inline, sleeps=0.0, lock_share=None, **rates):
    """Return what `tune` makes of speeds of 8 workers, such as ``process=400``."""
    cost = Cost(100, 0, (1 - sleeps) / inline, sleeps / inline, 8)
    speeds = tuple(Speed(method, 8, rate) for method, rate in rates.items())
    return decided(Measured(cost, speeds, lock_share), 8)


def measured(*stages, nodes=(), elapsed=1.0, choice=None, **more):
    """Return the measurement of 100 items. Without stages, the first node has a slow stage."""
    more = {"subject": "prefetch" if nodes else "view"} | more
    waits = [Stage("prefetch", 100, elapsed, node=-1, waits=True)] if nodes else []
    stages = stages or (stage(node=0 if nodes else -1),)
    return Measurement(100, (*waits, *stages), 0, elapsed, 100, nodes=tuple(nodes), choice=choice, **more)


ALONE = stage(seconds=1, node=-1)
PYTHON = {"lock_share": 0.5, "thread": 90, "process": 700}
# A measurement, its cause, and the arguments of the remedy.
CASES = {
    "no workers, items that sleep": (
        measured(ALONE, choice=choice_of(100, 0.9, thread=800)),
        "few workers",
        {"nworkers": 8, "method": "thread"},
    ),
    "no workers, items that release the lock": (
        measured(ALONE, choice=choice_of(100, lock_share=0.02, thread=390)),
        "few workers",
        {"nworkers": 8, "method": "thread"},
    ),
    "no workers, items that hold the lock": (
        measured(ALONE, choice=choice_of(100, **PYTHON)),
        "few workers",
        {"nworkers": 8, "method": "process"},
    ),
    "no workers, tiny items": (measured(ALONE, choice=choice_of(1e7, thread=1e6)), "slow stage", {}),
    "no workers, and a step": (
        measured(stage(seconds=0.5, node=-1), step_s=0.5, choice=choice_of(200, thread=900)),
        "few workers",
        {"nworkers": 8, "method": "thread"},
    ),
    "too few processes": (
        measured(nodes=[node()], choice=choice_of(52, **PYTHON)),
        "few workers",
        {"nworkers": 8, "method": "process"},
    ),
    "too few threads": (
        measured(nodes=[node("thread")], choice=choice_of(52, 0.9, thread=410)),
        "few workers",
        {"nworkers": 8, "method": "thread"},
    ),
    "threads that wait for the lock": (
        measured(nodes=[node("thread")], choice=choice_of(104, **PYTHON)),
        "interpreter lock",
        {"nworkers": 8, "method": "process"},
    ),
    "as many threads that wait for the lock": (
        measured(nodes=[node("thread", 8)], choice=choice_of(104, **PYTHON)),
        "interpreter lock",
        {"nworkers": 8, "method": "process"},
    ),
    "processes for tiny items": (
        measured(nodes=[node()], choice=choice_of(1e6, thread=1e5, process=1e4)),
        "tiny items",
        {"nworkers": 0},
    ),
    "as many workers as are of use": (
        measured(nodes=[node(workers=8)], choice=choice_of(13, **PYTHON)),
        "slow stage",
        {},
    ),
    "more workers than are of use": (
        measured(nodes=[node(workers=9)], choice=choice_of(13, **PYTHON)),
        "slow stage",
        {},
    ),
    "processes where threads are as fast": (
        measured(nodes=[node(workers=8)], choice=choice_of(13, thread=100, process=98)),
        "slow stage",
        {},
    ),
    "other workers that were not tried": (measured(ALONE), "slow stage", {}),
    "workers that could not be measured": (
        measured(ALONE, choice=replace(choice_of(13, thread=9), measured=None)),
        "slow stage",
        {},
    ),
    "two nodes, the lower one is slow": (
        measured(
            stage("smap(augment)", 0.2),
            Stage("prefetch", 100, 1.7, node=0, waits=True),
            stage("smap(download)", 1.98, node=1),
            nodes=[node("process"), node("thread")],
            choice=choice_of(50, 0.9, thread=400),
        ),
        "few workers",
        {"nworkers": 8, "method": "thread"},
    ),
    "an iterable": (measured(ALONE, reads_stream=True), "one worker reads it", {}),
    "an iterable below a node": (measured(nodes=[node()], reads_stream=True), "one worker reads it", {}),
    "an iterable of a loader": (
        measured(nodes=[node()], reads_stream=True, subject="DataLoader"),
        "one worker reads it",
        {"iterable_split": "workers"},
    ),
    "arrays that are kept": (measured(nodes=[node(copies=80, slots=16, leased=15)]), "kept arrays", {}),
    "slots that are too small": (
        measured(stage(nbytes=6 * MIB), nodes=[node(shm_size=MIB, misses=99, slots=4, slot_bytes=65536)]),
        "small slots",
        {"shm_size": 48 * MIB},
    ),
    "no shared memory, as wanted": (measured(nodes=[node(shm_size=0, misses=99)]), "slow stage", {}),
    "a slow consumer": (measured(nodes=[node()], step_s=0.97), "slow consumer", {}),
    "a slow consumer without workers": (
        measured(stage(seconds=0.02, node=-1), step_s=0.98),
        "slow consumer",
        {},
    ),
    "a slow stage above the node": (
        measured(stage("smap(augment)", 0.9, node=-1), stage(seconds=0.1), nodes=[node()]),
        "stage above the node",
        {},
    ),
    "items that all fail": (replace(measured(stage(failed=100)), items=0, failed=100), "failures", {}),
    "no items": (replace(measured(), items=0), "no items", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_bottleneck_is_found(case):
    measurement, cause, settings = CASES[case]
    found = diagnose(measurement)
    assert (found.cause, found.settings) == (cause, settings)
    assert all(f"{name}=" in found.remedy for name in settings)
    assert "times faster" not in str(found)


def test_the_words_are_those_of_tune():
    choice = choice_of(100, **PYTHON)
    assert choice.why in str(diagnose(measured(ALONE, choice=choice)))


def test_the_costliest_view_of_the_limiting_workers_is_named():
    assert "`smap(download)`" in diagnose(CASES["two nodes, the lower one is slow"][0]).finding
    assert "`smap(augment)`" in diagnose(CASES["a slow stage above the node"][0]).finding


def test_waiting_is_told_only_if_the_consumer_works():
    alone = measured(ALONE)
    assert "waited" not in str(diagnose(alone))
    assert "waited 60 % of the time" in str(diagnose(replace(alone, step_s=0.4)))


def test_the_remedy_is_in_the_words_of_a_loader():
    choice = choice_of(52, 0.9, thread=410)
    found = diagnose(measured(nodes=[node("thread")], choice=choice, subject="DataLoader"))
    assert found.settings == {"num_workers": 8, "method": "thread"}
    assert found.remedy == "Pass `num_workers=8, method='thread'` to DataLoader."
    assert sk.DataLoader(range(8), 4, **found.settings).num_workers == 8
