"""The diagnosis of measurements whose bottleneck is known."""

from dataclasses import replace

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
    cost = Cost(100, 0, (1 - sleeps) / inline, sleeps / inline)
    speeds = tuple(Speed(method, 8, rate) for method, rate in rates.items())
    return decided(Measured(cost, speeds, lock_share), 8)


def measured(*stages, nodes=(), elapsed=1.0, choice=None, **more):
    """Return the measurement of 100 items. Without stages, the first node has a slow stage."""
    more = {"subject": "prefetch" if nodes else "view"} | more
    waits = [Stage("prefetch", 100, elapsed, node=-1, waits=True)] if nodes else []
    stages = stages or (stage(node=0 if nodes else -1),)
    return Measurement(100, (*waits, *stages), 0, elapsed, 100, nodes=tuple(nodes), choice=choice, **more)


def alone(*choice, **more):
    """Return the measurement of a slow view without workers."""
    return measured(stage(seconds=1, node=-1), choice=choice_of(*choice, **more) if choice else None)


PYTHON = {"lock_share": 0.5, "thread": 90, "process": 700}
THREADS, PROCESSES = ({"nworkers": 8, "method": method} for method in ("thread", "process"))
SLEEPS = choice_of(52, 0.9, thread=410)
TWO_NODES = measured(
    stage("smap(augment)", 0.2),
    Stage("prefetch", 100, 1.7, node=0, waits=True),
    stage("smap(download)", 1.98, node=1),
    nodes=[node("process"), node("thread")],
    choice=choice_of(50, 0.9, thread=400),
)
ABOVE = measured(stage("smap(augment)", 0.9, node=-1), stage(seconds=0.1), nodes=[node()])
SMALL = node(shm_size=MIB, misses=99, slots=4, slot_bytes=65536)
STREAM = {"nodes": [node()], "reads_stream": True}


def of_node(method, workers, *choice, **more):
    """Return the measurement of a node with a slow view, and the workers that `tune` chooses."""
    return measured(nodes=[node(method, workers)], choice=choice_of(*choice, **more))


# Measurements, their cause, and the arguments of the remedy.
CASES = [
    # No workers: items that sleep, that release the lock, that hold it; tiny items.
    (alone(100, 0.9, thread=800), "few workers", THREADS),
    (alone(100, lock_share=0.02, thread=390), "few workers", THREADS),
    (alone(100, **PYTHON), "few workers", PROCESSES),
    (alone(1e7, thread=1e6), "slow stage", {}),
    # Too few workers, threads that wait for the lock, workers for tiny items.
    (of_node("process", 2, 52, **PYTHON), "few workers", PROCESSES),
    (of_node("thread", 2, 52, 0.9, thread=410), "few workers", THREADS),
    (of_node("thread", 2, 104, **PYTHON), "interpreter lock", PROCESSES),
    (of_node("thread", 8, 104, **PYTHON), "interpreter lock", PROCESSES),
    (of_node("process", 2, 1e6, thread=1e5, process=1e4), "tiny items", {"nworkers": 0}),
    (TWO_NODES, "few workers", THREADS),
    # As many workers as are of use, or more, or processes where threads are as fast; others were not tried.
    (of_node("process", 8, 13, **PYTHON), "slow stage", {}),
    (of_node("process", 9, 13, **PYTHON), "slow stage", {}),
    (of_node("process", 8, 13, thread=100, process=98), "slow stage", {}),
    (alone(), "slow stage", {}),
    (replace(alone(), choice=replace(SLEEPS, measured=None)), "slow stage", {}),
    # An iterable.
    (replace(alone(), reads_stream=True), "one worker reads it", {}),
    (measured(**STREAM), "one worker reads it", {}),
    # Slots that are too small, no shared memory as wanted.
    (measured(stage(nbytes=6 * MIB), nodes=[SMALL]), "small slots", {"shm_size": 48 * MIB}),
    (measured(nodes=[node(shm_size=0, misses=99)]), "slow stage", {}),
    # A stage above the node, no items.
    (ABOVE, "stage above the node", {}),
    (replace(measured(stage(failed=100)), items=0, failed=100), "failures", {}),
    (replace(measured(), items=0), "no items", {}),
]


def test_the_bottleneck_is_found():
    for measurement, cause, settings in CASES:
        found = diagnose(measurement)
        assert (found.cause, found.settings) == (cause, settings), found
        assert all(f"{name}=" in found.remedy for name in settings)


def test_the_words_are_those_of_tune():
    assert choice_of(100, **PYTHON).why in str(diagnose(alone(100, **PYTHON)))
    assert "`smap(download)`" in diagnose(TWO_NODES).finding


def test_a_diagnosis_without_other_workers_names_the_function_that_compares_them():
    assert "not tried: `tune` compares them" in diagnose(alone()).remedy
    assert "`smap(augment)`" in diagnose(ABOVE).finding


def test_the_remedy_is_in_the_words_of_a_loader():
    found = diagnose(measured(nodes=[node("thread")], choice=SLEEPS, subject="DataLoader"))
    assert found.settings == {"num_workers": 8, "method": "thread"}
    assert found.remedy == "Pass `num_workers=8, method='thread'` to DataLoader."
    assert sk.DataLoader(range(8), 4, **found.settings).num_workers == 8
