"""The diagnosis of measurements whose bottleneck is known."""

from dataclasses import replace

import pytest

import seqkit as sk
from seqkit.observe.diagnosis import diagnose
from seqkit.observe.measurement import Measurement, NodeFigures, Stage
from seqkit.prefetch.choice import WorkerBudget, decided
from seqkit.prefetch.figures import Cost, Measured, Speed

MIB = 1 << 20


def stage(view="smap(decode)", seconds=1.9, items=100, node=0, cpu=1.0, **more):
    """Return a stage whose items take equally long."""
    each = seconds / items
    times = {"median_s": each, "p95_s": each, "longest_s": each, "timed": items, "indices": items} | more
    return Stage(view, items, seconds, node=node, cpu_s=cpu * seconds, **times)


def node(method="process", workers=2, items=100, worked=1.95, **more):
    return NodeFigures(
        "prefetch", method, workers, items=items, jobs=items, worked_s=worked, waited_s=0.9, **more
    )


def choice_of(speeds, sleeps=0.0, lock_share=None):
    """Return what `choose` makes of speeds, the first of which is that of no workers."""
    each = 1 / speeds[0].items_per_s
    cost = Cost(100, 0, each, (1 - sleeps) * each, sleeps * each, 8)
    return decided(Measured(cost, tuple(speeds[1:]), lock_share), WorkerBudget(8, 1 << 30))


def measured(*stages, nodes=(), step=0.0, elapsed=1.0, speeds=(), sleeps=0.0, lock_share=None, **more):
    """Return the measurement of 100 items. Without stages, the first node has a slow stage."""
    more = {"subject": "prefetch" if nodes else "view"} | more
    choice = choice_of(speeds, sleeps, lock_share) if speeds else None
    waits = [Stage("prefetch", 100, elapsed, node=-1, waits=True)] if nodes else []
    stages = stages or (stage(node=0 if nodes else -1),)
    return Measurement(100, (*waits, *stages), 0, elapsed, 100, step, tuple(nodes), 8, choice, **more)


def speeds(**figures):
    """Return speeds, such as ``process=400`` for 8 processes."""
    numbers = {"inline": 0}
    return [Speed(method, numbers.get(method, 8), rate) for method, rate in figures.items()]


CASES = {
    "no workers, sleeping stage": (
        measured(stage(seconds=1, node=-1, cpu=0.01), speeds=speeds(inline=100, thread=800), sleeps=0.9),
        ("few workers", 800),
        "waited 100 % of the time. `smap(decode)` takes 100 % of it and mostly sleeps: 8 threads would be"
        " about 8.0 times faster (800 items/s). Write `sk.prefetch(view, nworkers=8, method='thread')`.",
    ),
    "no workers, stage that releases the lock": (
        measured(stage(seconds=1, node=-1), speeds=speeds(inline=100, thread=390), lock_share=0.02),
        ("few workers", 390),
        "releases the interpreter lock: 8 threads would be about 3.9 times faster",
    ),
    "no workers, stage that holds the lock": (
        measured(
            stage(seconds=1, node=-1), speeds=speeds(inline=100, thread=90, process=700), lock_share=0.5
        ),
        ("few workers", 700),
        "holds the interpreter lock: 8 processes would be about 7.0 times faster",
    ),
    "no workers, and a step that is soon the slower side": (
        measured(stage(seconds=0.5, node=-1), step=0.5, speeds=speeds(inline=200, thread=900)),
        ("few workers", 200),
        "waited 50 % of the time",
    ),
    "too few processes": (
        measured(nodes=[node()], speeds=speeds(inline=52, thread=50, process=400), lock_share=0.5),
        ("few workers", 400),
        "takes 100 % of worker time and holds the interpreter lock: 8 processes",
    ),
    "too few threads that sleep": (
        measured(stage(cpu=0.02), nodes=[node("thread")], speeds=speeds(inline=52, thread=410)),
        ("few workers", 410),
        "8 threads would be about 4.1 times faster (410 items/s). Pass `nworkers=8, method='thread'` to"
        " `prefetch`.",
    ),
    "threads that wait for the lock": (
        measured(
            stage(cpu=0.5),
            nodes=[node("thread")],
            speeds=speeds(inline=104, thread=98, process=790),
            lock_share=0.5,
        ),
        ("interpreter lock", 790),
        "`smap(decode)` holds the interpreter lock: 2 threads compute 1.0 items at a time. 8 processes would",
    ),
    "two stages, the lower one sleeps": (
        measured(
            stage("smap(augment)", 0.2),
            Stage("prefetch", 100, 1.7, node=0, waits=True),
            stage("smap(download)", 1.98, node=1, cpu=0.01),
            nodes=[node("process"), node("thread", worked=1.98)],
        ),
        ("few workers", 1000),  # as fast as the upper node can be
        "`smap(download)` takes 100 % of worker time: 32 threads would be about 10 times faster",
    ),
    "two stages, the upper one computes": (
        measured(
            stage("smap(augment)", 1.9),
            Stage("prefetch", 100, 0.05, node=0, waits=True),
            stage("smap(download)", 0.4, node=1, cpu=0.01),
            nodes=[node("process"), node("thread", worked=0.4)],
        ),
        ("few workers", 400),
        "`smap(augment)` takes 100 % of worker time: 8 processes would be about 4.0 times faster",
    ),
    "tiny items": (
        measured(stage(seconds=0.02), nodes=[node(worked=0.1)], speeds=speeds(inline=5000, process=120)),
        ("tiny items", 5000),
        "takes 200 µs to compute and 9.8 ms more to hand over. Larger batches help, and no workers would",
    ),
    "tiny items and a step": (
        measured(
            stage(seconds=0.02), nodes=[node(worked=0.1)], step=0.48, speeds=speeds(inline=5000, process=120)
        ),
        ("tiny items", 200),
        "about 2.0 times faster (200 items/s)",
    ),
    "chunks of one tiny item": (
        measured(
            stage(seconds=0.001),
            nodes=[node(worked=0.1, chunk_size=1)],
            speeds=speeds(inline=100_000, process=120),
        ),
        ("small chunks", 100_000),
        "`chunk_size=1` is too small: 'auto' helps, and no workers would be about",
    ),
    "chunks that are too large": (
        measured(nodes=[node(worked=1.0, chunk_size=50, chunk=50)]),
        ("large chunks", 200),
        "A chunk of 50 items takes 500 ms, and workers were busy for 50 % of the time. Smaller chunks",
    ),
    "a straggler": (
        measured(stage(median_s=0.01, longest_s=0.8), nodes=[node(worked=1.0)]),
        ("straggler", 200),
        "One item of `smap(decode)` took 800 ms, the median 10 ms.",
    ),
    "a file that is loaded again and again": (
        measured(stage("smap(load)", indices=5), nodes=[node()]),
        ("loaded again", 2000),
        "computed each of its items 20.0 times. Read its items in groups with `shuffle_groups`, or cache",
    ),
    "a file that is loaded again, without workers": (
        measured(stage("smap(load)", seconds=1, node=-1, indices=10)),
        ("loaded again", 1000),
        "about 10 times faster",
    ),
    "a cache above a shuffle": (
        measured(nodes=[node()], caches=("add_cache(100)",)),
        ("cache above shuffle", None),
        "`add_cache(100)` is above a view whose items differ in each epoch",
    ),
    "arrays that are kept": (
        measured(nodes=[node(copies=80, slots=16, leased=15)]),
        ("kept arrays", None),
        "80 of 100 results were copied out of shared memory, because arrays that you keep hold 15 of 16",
    ),
    "slots that are too small": (
        measured(stage(nbytes=6 * MIB), nodes=[node(misses=99, slots=4, slot_bytes=65536, shm_size=MIB)]),
        ("small slots", None),
        "99 of 100 results did not fit a slot of 64 KiB and were sent through a pipe. The"
        " workers need at least 48 MiB of shared memory. Pass `shm_size=48 << 20` to `prefetch`.",
    ),
    "a slow consumer": (
        measured(nodes=[node()], step=0.97),
        ("slow consumer", 100 / 0.97),
        "own work takes 97 % of the time. Faster loading would gain at most 3 %.",
    ),
    "a slow consumer without workers": (
        measured(stage(seconds=0.02, node=-1), step=0.98),
        ("slow consumer", 100 / 0.98),
        "98 %",
    ),
    "a data set that is copied at the start": (
        measured(nodes=[node(pickled=900 * MIB, start_s=4.0)]),
        ("copied at start", 100),
        "900.0 MiB of the pipeline were copied to the workers at their start, and the first items took 4 s.",
    ),
    "a slow stage above the node": (
        measured(stage("smap(augment)", 0.9, node=-1), stage(seconds=0.1), nodes=[node(worked=0.1)]),
        ("stage above the node", 200),
        "`smap(augment)` stands above `prefetch`, so the consumer computes it, for 90 % of the time.",
    ),
    "as many workers as are of use": (
        measured(nodes=[node(workers=8, worked=7.8)], speeds=speeds(inline=13, thread=14, process=102)),
        ("slow stage", None),
        "No other workers would be faster.",
    ),
    "too little to try other workers": (
        measured(stage(seconds=0.04, node=-1), elapsed=0.04),
        ("slow stage", None),
        "Other workers were not tried: all that was read took 40 ms. Make this stage faster",
    ),
    "other workers that were not tried": (
        measured(stage(seconds=0.9, node=-1)),
        ("slow stage", None),
        "Other workers were not tried. Make this stage faster",
    ),
    "items that all fail": (
        replace(measured(stage(failed=100)), items=0, failed=100),
        ("failures", None),
        "All 100 items failed, in `smap(decode)`.",
    ),
    "no items": (replace(measured(), items=0), ("no items", None), "There are no items."),
}


@pytest.mark.parametrize("case", CASES)
def test_the_bottleneck_is_found(case):
    measurement, expected, words = CASES[case]
    found = diagnose(measurement)
    assert (found.cause, found.rate and pytest.approx(found.rate)) == expected
    assert words in str(found)


def test_the_remedy_is_in_the_words_of_a_loader():
    waits = stage(cpu=0.02), speeds(inline=52, thread=410)
    found = diagnose(measured(waits[0], nodes=[node("thread")], speeds=waits[1], subject="DataLoader"))
    assert found.remedy.endswith("Pass `num_workers=8, method='thread'` to DataLoader.")
    assert found.settings == {"num_workers": 8, "method": "thread"}
    assert sk.DataLoader(range(8), 4, **found.settings).num_workers == 8


def test_the_remedy_of_small_slots_is_an_argument_of_loaders_too():
    misses = node(misses=99, slots=4, slot_bytes=65536, shm_size=MIB)
    found = diagnose(measured(stage(nbytes=6 * MIB), nodes=[misses], subject="DataLoader"))
    assert found.settings == {"shm_size": 48 * MIB}
    assert "Pass `shm_size=48 << 20` to DataLoader." in found.remedy


def test_there_are_at_least_20_bottlenecks():
    assert len(CASES) > 20
