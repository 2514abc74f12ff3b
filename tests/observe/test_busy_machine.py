"""A diagnosis on a machine whose CPUs other programs use too."""

from dataclasses import replace

import pytest

from seqkit.observe.diagnosis import diagnose
from seqkit.observe.measurement import Measurement, NodeFigures, Stage
from seqkit.prefetch.figures import Speed

from .test_diagnosis import choice_of

PYTHON = Stage(
    "smap(decode)", 100, 2.0, node=0, cpu_s=0.5, median_s=0.01, longest_s=0.4, timed=100, indices=100
)
WAITS = Stage("prefetch", 100, 1.0, node=-1, waits=True)
# Two processes that had a CPU for a quarter of the time.
BUSY = NodeFigures(
    "prefetch", "process", 2, items=100, jobs=100, worked_s=2.0, cpu_s=0.5, queued_s=1.5, waited_s=1.0
)
READ = Measurement(100, (WAITS, PYTHON), elapsed_s=1.0, counted=100, nodes=(BUSY,), cpus=2)


def tried(inline, *speeds):
    """Return what `choose` makes of speeds, and of the speed without workers."""
    return choice_of([Speed("inline", 0, inline), *speeds])


def test_idle_speeds_are_compared_on_the_busy_machine():
    found = diagnose(replace(READ, choice=tried(100, Speed("process", 2, 400.0), Speed("thread", 2, 200.0))))
    assert found.cause == "slow stage"


def test_predicted_rates_are_those_of_the_busy_machine():
    found = diagnose(replace(READ, choice=tried(200, Speed("thread", 4, 200.0), Speed("process", 4, 800.0))))
    assert (found.cause, found.rate) == ("few workers", pytest.approx(200))


def test_speeds_of_items_that_sleep_are_those_of_the_busy_machine_already():
    choice = choice_of([Speed("inline", 0, 50.0), Speed("thread", 32, 300.0)], sleeps=0.9)
    queued = replace(READ, choice=choice, nodes=(replace(BUSY, method="thread", cpu_s=0.1, queued_s=1.9),))
    assert diagnose(queued).rate == pytest.approx(300)


def test_waiting_for_a_cpu_is_no_sleep():
    lower = Stage("prefetch", 100, 0.01, node=0, waits=True)
    download = Stage("smap(download)", 100, 0.1, node=1, cpu_s=0.0)
    nested = replace(
        READ,
        stages=(WAITS, PYTHON, lower, download),
        nodes=(replace(BUSY, workers=1), replace(BUSY, worked_s=0.1)),
    )
    found = diagnose(nested)
    assert (found.cause, found.settings["nworkers"]) == ("few workers", 2)


def test_an_item_that_waited_for_a_cpu_is_no_straggler():
    rarely_busy = replace(BUSY, worked_s=1.0)
    assert diagnose(replace(READ, nodes=(rarely_busy,))).cause == "slow stage"
    assert diagnose(replace(READ, nodes=(replace(rarely_busy, queued_s=0.0),))).cause == "straggler"


def test_the_consumer_without_workers_waits_for_a_cpu_too():
    alone = Measurement(100, (replace(PYTHON, node=-1),), elapsed_s=1.0, counted=100, cpus=2, queued_s=0.75)
    threads, processes = Speed("thread", 2, 390.0), Speed("process", 2, 800.0)
    assert diagnose(replace(alone, choice=tried(400, threads))).cause == "slow stage"
    assert diagnose(replace(alone, choice=tried(400, threads, processes))).rate == pytest.approx(200)


def test_items_read_ahead_do_not_count_for_the_node_moved_up():
    above = Stage("smap(augment)", 100, 0.9, node=-1, cpu_s=0.0)
    ahead = Stage("smap(decode)", 10_000, 100.0, node=0, cpu_s=0.0)  # 100 of them were consumed
    node = replace(BUSY, worked_s=1.0, queued_s=0.0, workers=8)
    found = diagnose(replace(READ, stages=(above, WAITS, ahead), nodes=(node,)))
    assert (found.cause, found.rate) == ("stage above the node", pytest.approx(100 * 8 / 1.9))
