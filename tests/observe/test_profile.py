"""`profile`: the time of each view, in the consumer and in workers."""

import json
import os
import re
import sys
import time
from dataclasses import asdict
from fractions import Fraction
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest

import seqkit as sk
from seqkit.observe import probe, profile
from seqkit.observe.choose import Choice
from seqkit.observe.html import bar
from seqkit.stores.add_cache.add_cache import add_cache
from seqkit.testing import CountingSource

from ..helpers import Clock, Naturals


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(probe, "perf_counter", found)
    return found


def own_times(found):
    return {stage.view: (stage.items, stage.seconds) for stage in found.stages}


def test_each_view_has_its_own_time(clock):
    inner, outer = clock.work(3), clock.work(2)
    inner.__name__, outer.__name__ = "inner", "outer"
    found = profile(sk.batch(sk.smap(outer, sk.smap(inner, range(10))), 4))
    assert found.items == 3
    assert own_times(found) == {
        "batch(4)": (3, 0),
        "smap(outer)": (10, 20),
        "smap(inner)": (10, 30),
        "<range of 10>": (10, 0),
    }
    assert found.costliest.view == "smap(inner)"
    assert found.seconds == 50


def test_no_more_items_are_read_than_wanted():
    source = CountingSource(range(1000))
    found = profile(sk.batch(source, 2), n=3)
    assert found.items == 3
    assert source.reads == dict.fromkeys(range(6), 1)
    assert profile(Naturals(), 5).items == 5
    assert profile([], 5).items == 0


@pytest.mark.parametrize(
    "build",
    [sk.filter, lambda f, data: sk.flatten(sk.smap(lambda x: [x] * f(x), data))],
    ids=["filter", "flatten"],
)
@pytest.mark.parametrize("above", [lambda view: view, lambda view: sk.batch(sk.smap(abs, view), 1)])
@pytest.mark.parametrize("is_scanned", [False, True])
def test_a_view_that_finds_its_length_by_reading_is_read_from_the_start(build, above, is_scanned):
    source = CountingSource(range(1000))
    view = above(build(lambda x: x % 2, source))
    if is_scanned:
        len(view)
    before = source.reads.copy()
    found = profile(view, n=3)
    assert found.items == found.counted == 3
    assert sum(source.reads.values()) - sum(before.values()) == 6


@pytest.mark.parametrize("build", [sk.uniter, lambda items: sk.smap(str, sk.uniter(items, 3))])
def test_one_shot_iterators_are_refused_before_they_are_read(build):
    letters = iter("abc")
    with pytest.raises(ValueError, match=r"^profile: .* cannot be read twice\. Pass an object"):
        profile(build(letters))
    assert next(letters) == "a"


def recursion(x):
    return recursion(x + 1)


@pytest.mark.parametrize("policy", ["wrap", "passthrough"])
@pytest.mark.parametrize("f", [lambda x: 1 / x, recursion])
def test_failing_items_are_counted_under_each_policy(policy, f):
    with sk.errstate(policy):
        found = profile(sk.smap(lambda x: x or f(x), range(3)))
    assert (found.items, found.failed) == (2, 1)


class KeyErrors:
    def __getattr__(self, name):
        raise KeyError(name)


class NoLength(dict):
    def __len__(self):
        raise ValueError("no length")


class NoClass:
    @property
    def __class__(self):
        raise ValueError("no class")


@pytest.mark.parametrize("make", [KeyErrors, NoLength, NoClass, Mock, MagicMock])
def test_items_whose_methods_raise_are_described_by_their_class(make):
    for batch in (1, 2):
        found = profile(sk.batch(sk.smap(lambda x: make(), range(4)), batch, collate_fn=len))
        assert found.stages[1].kind == make.__name__


def test_a_view_that_is_used_twice_is_one_stage(clock):
    work = sk.smap(clock.work(1), [1, 2])
    found = profile(sk.collate([work, work]))
    assert [stage.items for stage in found.stages] == [2, 4, 4]
    assert found.seconds == 4


def test_shares_and_percentiles_are_those_of_the_clock(clock):
    work, rest = clock.work(Fraction(3, 2000)), clock.work(Fraction(1, 2000))
    work.__name__, rest.__name__ = "work", "rest"
    lines = str(profile(sk.smap(rest, sk.gather(sk.smap(work, "ab"), [1, 0, 1])))).splitlines()
    assert lines[1].split()[:9] == ["smap(rest)", "██▌", "25", "%", "3", "500", "µs", "500", "µs"]
    assert lines[3].split()[:9] == ["└─", "smap(work)", "███████▌", "75", "%", "3", "1.5", "ms", "1.5"]


def spin(i):
    return sum(range(50_000)) * 0 + i


@pytest.mark.parametrize("method", ["thread", "process"])
def test_stages_are_timed_inside_workers(method):
    view = sk.batch(sk.smap(spin, range(200)), 10)
    found = profile(sk.prefetch(view, 2, method), n=20, try_workers=False)
    node, batched, spun, leaf = found.stages
    assert (node.waits, node.node, node.items) == (True, -1, 20)
    assert [(stage.node, stage.items) for stage in (batched, spun, leaf)] == [(0, 20), (0, 200), (0, 200)]
    assert found.costliest is spun
    assert spun.kind == "int"
    assert 0 < spun.median_s <= spun.p95_s
    assert found.nodes[0].workers == 2
    workers = {thread.worker for thread, _ in found.threads}
    assert -1 in workers
    assert workers <= {-1, 0, 1}


def test_stages_below_each_node_are_timed():
    low = sk.prefetch(sk.smap(spin, range(60)), 2, "thread")
    found = profile(sk.prefetch(sk.smap(str, low), 1, "thread"), n=60, try_workers=False)
    assert [stage.node for stage in found.stages] == [-1, 0, 0, 1, 1]
    assert [stage.waits for stage in found.stages] == [True, False, True, False, False]
    assert {stage.items for stage in found.stages} == {60}
    assert [node.workers for node in found.nodes] == [1, 2]


def test_stages_are_timed_in_threads_of_process_workers():
    low = sk.prefetch(sk.smap(spin, range(40)), 2, "process")
    found = profile(sk.prefetch(sk.smap(str, low), 1, "process"), n=40, try_workers=False)
    assert {stage.items for stage in found.stages} == {40}


class Lines:
    def __iter__(self):
        return iter(range(400))


@pytest.mark.parametrize(
    ("build", "remedy"),
    [
        (lambda: sk.uniter(Lines()), "split(part, parts)"),
        (lambda: sk.prefetch(sk.smap(spin, sk.uniter(Lines())), 2), "split(part, parts)"),
        (lambda: sk.DataLoader(Lines(), 4), "iterable_split='workers'"),
        (lambda: sk.DataLoader(Lines(), 4, num_workers=1), "iterable_split='workers'"),
    ],
)
def test_an_iterable_is_read_by_one_worker(build, remedy):
    found = profile(build(), n=100)
    assert found.diagnosis.cause == "one worker reads it"
    assert remedy in found.diagnosis.remedy
    assert found.choice is None  # other workers are not tried


def test_the_workers_of_a_lower_node_are_those_of_tune(monkeypatch):
    asked = []
    module = sys.modules["seqkit.observe.profile"]
    monkeypatch.setattr(module, "choose", lambda view, *_: asked.append(view) or Choice("thread", 16, "why"))
    low = sk.prefetch(sk.smap(waits, range(40)), 2)
    found = profile(sk.prefetch(sk.smap(str, low), 2), n=40)
    assert [repr(view) for view in asked] == ["smap(waits, <range of 40>)"]
    assert found.choice.workers == 16


def waits(x):
    time.sleep(0.02)
    return x


def test_the_pipeline_of_a_loader_is_profiled():
    loader = sk.DataLoader(sk.smap(spin, range(64)), batch_size=8, num_workers=2)
    found = profile(loader, n=8, try_workers=False)
    assert found.items == 8
    assert next(stage for stage in found.stages if stage.view == "smap(spin)").items == 64
    assert len(list(loader)) == 8


def test_the_consumers_own_time_is_separate():
    found = profile(sk.smap(str, range(50)), n=50, step=spin_long, try_workers=False)
    assert found.step_s > 0
    assert found.step_s + found.waited_s <= found.elapsed_s
    assert found.counted == 50


def spin_long(item):
    return sum(range(20_000))


def test_quick_items_are_timed_in_a_sample_and_their_number_is_estimated():
    found = profile(sk.smap(abs, range(100_000)), n=100_000, try_workers=False)
    stage = found.stages[0]
    assert stage.timed < 50_000
    assert 80_000 < stage.items < 120_000


def test_profiled_random_views_draw_the_same_numbers():
    drawn = []
    noise = sk.random_map(
        lambda x, rng: drawn.append(int(rng.integers(1000))), sk.shuffle(range(9), seed=0), seed=1
    )
    profile(sk.smap(str, noise), n=9, try_workers=False)
    expected = drawn.copy()
    drawn.clear()
    list(noise)
    assert drawn == expected


def test_caches_start_empty_and_stay_as_they_are():
    source = CountingSource(range(4))
    cached = add_cache(source, 4)
    list(cached)
    profile(cached, n=4)
    profile(cached, n=4)
    assert set(source.reads.values()) == {3}


def test_reads_for_a_length_are_not_counted():
    batches = sk.batch(np.arange(10), 4)
    found = profile(sk.unbatch(batches, 4), n=1)
    assert own_times(found)["batch(4)"][0] == 1


def test_failures_are_counted_for_the_stage_that_raised():
    inverse = sk.smap(lambda x: 1 / x, [1, 2, 0, 4, 5, 6])
    found = profile(sk.batch(inverse, 2))
    assert (found.items, found.failed) == (2, 1)
    assert [stage.failed for stage in found.stages] == [0, 1, 0]


def test_a_killed_worker_is_a_failed_item():
    def kills(i):
        if i == 3:
            time.sleep(0.3)  # until the first item has been read, from which on restarts are counted
            os.kill(os.getpid(), 9)
        return i

    mapped = sk.smap(kills, range(6))
    found = profile(sk.prefetch(mapped, 1, "process", retries=0), n=6, try_workers=False)
    assert (found.items, found.failed, found.nodes[0].figures.restarts) == (5, 1, 1)


def test_the_figures_of_a_profile_are_plain_data():
    found = profile(sk.batch(range(10), 5))
    assert json.loads(json.dumps(asdict(found)))["items"] == 2


def test_an_error_of_the_step_is_raised_and_leaves_nothing_behind():
    with pytest.raises(ZeroDivisionError):
        profile(sk.arange(3), step=lambda i: 1 / i)
    assert not probe._recorders


def test_the_views_of_all_epochs_are_one_stage_of_a_profile(monkeypatch):
    monkeypatch.setattr(probe, "perf_counter", iter(range(10_000)).__next__)
    noisy = sk.random_map(lambda x, rng: x, range(4), seed=0)
    found = sk.profile(sk.epochs(noisy, 3))
    passes, mapped, leaf = found.stages
    assert [stage.items for stage in found.stages] == [12, 12, 12]
    assert mapped.view.startswith("random_map")
    assert mapped.seconds > 0
    assert leaf.seconds > 0
    assert found.seconds == passes.seconds + mapped.seconds + leaf.seconds


# -------------------------------------------------------------------- display


@pytest.fixture(scope="module")
def found():
    return profile(sk.prefetch(sk.smap(spin, range(40)), 2), n=40, try_workers=False)


def test_the_table_has_bars_and_ends_with_the_diagnosis(found):
    lines = str(found).splitlines()
    assert lines[0].split() == ["stage", "share", "items", "median", "p95", "first", "size", "type"]
    assert lines[1].startswith("prefetch(nworkers=2, method='thread')  ")
    assert re.match(r"└─ smap\(spin\) +█{9,10}.* 40 ", lines[2])
    assert lines[-1] == str(found.diagnosis)
    assert repr(found) == str(found)


def test_notebooks_show_escaped_names_and_bars(found):
    html = profile(sk.smap(lambda i: i, range(3)))._repr_html_()
    assert "smap(&lt;lambda&gt;)" in html
    assert all(bar(share) in found._repr_html_() for _, share, _ in found._rows())
    assert "`" in str(found.diagnosis)
    assert "`" not in found._repr_html_()


def test_a_trace_has_a_row_for_each_worker(found, tmp_path):
    found.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert len(rows) == len(found.threads)
    assert rows[0] == "consumer"
    bars = [event for event in events if event["ph"] == "X"]
    assert {event["name"] for event in bars} == {stage.view for stage in found.stages}
    for event in bars:
        assert event["ts"] >= 0
        assert event["dur"] >= event["args"]["own_us"] > 0
