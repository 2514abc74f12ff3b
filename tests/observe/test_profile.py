"""`profile`: the time of each view, in the consumer and in workers."""

import json
import os
import sys
import time
from dataclasses import asdict
from fractions import Fraction

import numpy as np
import pytest

import seqkit as sk
from seqkit.observe import probe, profile
from seqkit.observe.choose import Choice
from seqkit.streams import StreamLoader
from seqkit.testing import CountingSource

from ..helpers import Clock, Naturals
from .pages import page


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(probe, "perf_counter", found)
    return found


def own_times(found):
    return {stage.view: (stage.items, stage.seconds) for stage in found.stages}


def spin(i):
    return sum(range(50_000)) * 0 + i


def test_each_view_has_its_own_time(clock):
    inner, outer = clock.work(3), clock.work(2)
    inner.__name__, outer.__name__ = "inner", "outer"
    found = profile(sk.batch(sk.smap(outer, sk.smap(inner, range(10))), 4))
    assert own_times(found) == {
        "batch(4)": (3, 0),
        "smap(outer)": (10, 20),
        "smap(inner)": (10, 30),
        "<range of 10>": (10, 0),
    }
    assert (found.items, found.costliest.view, found.seconds) == (3, "smap(inner)", 50)
    work = sk.smap(clock.work(1), [1, 2])
    shared = profile(sk.collate([work, work]))
    assert [stage.items for stage in shared.stages] == [2, 4, 4]
    assert shared.seconds == 4
    noisy = sk.random_map(lambda x, rng: clock.work(1)(x), range(4), seed=0)
    epochs = profile(sk.epochs(noisy, 3))
    assert [stage.items for stage in epochs.stages] == [12, 12, 12]
    assert [stage.seconds for stage in epochs.stages] == [0, 12, 0]


def test_no_more_items_are_read_than_wanted():
    source = CountingSource(range(1000))
    assert profile(sk.batch(source, 2), n=3).items == 3
    assert source.reads == dict.fromkeys(range(6), 1)
    assert [profile(items, 5).items for items in (Naturals(), [])] == [5, 0]
    batches = profile(sk.unbatch(sk.batch(np.arange(10), 4), 4), n=1)
    assert own_times(batches)["batch(4)"][0] == 1  # reads for a length are not counted


@pytest.mark.parametrize(
    "build", [sk.filter, lambda f, data: sk.flatten(sk.smap(lambda x: [x] * f(x), data))]
)
@pytest.mark.parametrize("above", [lambda view: view, lambda view: sk.batch(sk.smap(abs, view), 1)])
@pytest.mark.parametrize("is_scanned", [False, True])
def test_a_view_that_finds_its_length_by_reading_is_read_from_the_start(build, above, is_scanned):
    source = CountingSource(range(1000))
    view = above(build(lambda x: x % 2, source))
    if is_scanned:
        len(view)
    before = source.reads.total()
    found = profile(view, n=3)
    assert found.items == found.counted == 3
    assert source.reads.total() - before == 6


def recursion(x):
    return recursion(x + 1)


@pytest.mark.parametrize("policy", ["wrap", "passthrough"])
@pytest.mark.parametrize("f", [lambda x: 1 / x, recursion])
def test_failing_items_are_counted_under_each_policy(policy, f):
    with sk.errstate(policy):
        found = profile(sk.batch(sk.smap(lambda x: x or f(x), [1, 2, 0, 4, 5, 6]), 2))
    assert (found.items, found.failed) == (2, 1)
    assert [stage.failed for stage in found.stages] == [0, 1, 0]


# -------------------------------------------------------------------- workers


@pytest.mark.parametrize("method", ["thread", "process"])
def test_stages_are_timed_inside_workers(method):
    found = profile(sk.prefetch(sk.batch(sk.smap(spin, range(200)), 10), 2, method), n=20, try_workers=False)
    node, batched, spun, leaf = found.stages
    assert (node.waits, node.node, node.items) == (True, -1, 20)
    assert [(stage.node, stage.items) for stage in (batched, spun, leaf)] == [(0, 20), (0, 200), (0, 200)]
    assert found.costliest is spun
    assert 0 < spun.median_s <= spun.p95_s
    assert 0 < spun.nbytes < batched.nbytes
    assert found.nodes[0].workers == 2


@pytest.mark.parametrize("method", ["thread", "process"])
def test_stages_below_each_node_are_timed(method):
    low = sk.prefetch(sk.smap(spin, range(60)), 2, method)
    found = profile(sk.prefetch(sk.smap(str, low), 1, method), n=60, try_workers=False)
    assert [stage.node for stage in found.stages] == [-1, 0, 0, 1, 1] or method == "process"
    assert [stage.waits for stage in found.stages] == [True, False, True, False, False]
    assert {stage.items for stage in found.stages} == {60}
    assert [node.workers for node in found.nodes] == [1, 2]


class Lines:
    def __iter__(self):
        return iter(range(400))


@pytest.mark.parametrize(
    ("build", "remedy"),
    [
        (lambda: sk.uniter(Lines()), "interleave"),
        (lambda: sk.prefetch(sk.smap(spin, sk.uniter(Lines())), 2), "interleave"),
        (lambda: sk.DataLoader(Lines(), 4), "iterable_split='workers'"),
        (lambda: sk.DataLoader(Lines(), 4, num_workers=1), "iterable_split='workers'"),
    ],
)
def test_an_iterable_is_read_by_one_worker(build, remedy):
    found = profile(build(), n=100)
    assert found.diagnosis.cause == "one worker reads it"
    assert remedy in found.diagnosis.remedy
    assert found.choice is None  # other workers are not tried


def waits(x):
    time.sleep(0.02)
    return x


def test_the_workers_of_a_lower_node_are_those_of_tune(monkeypatch):
    asked = []
    module = sys.modules["seqkit.observe.profile"]
    monkeypatch.setattr(module, "choose", lambda view, *_: asked.append(view) or Choice("thread", 16, "why"))
    low = sk.prefetch(sk.smap(waits, range(40)), 2)
    found = profile(sk.prefetch(sk.smap(str, low), 2), n=40)
    assert [repr(view) for view in asked] == ["smap(waits, <range of 40>)"]
    assert found.choice.workers == 16
    profile(sk.prefetch([], 2))
    assert len(asked) == 1  # something else limits the rate


def test_loaders_and_nodes_are_left_alone():
    loader = sk.DataLoader(sk.smap(spin, range(64)), batch_size=8, num_workers=2)
    found = profile(loader, n=8, try_workers=False)
    assert found.items == 8
    assert own_times(found)["smap(spin)"][0] == 64
    assert len(list(loader)) == 8
    with sk.prefetch(range(100), 1) as node:
        items = iter(node)
        assert next(items) == 0
        assert profile(node, 4, try_workers=False).items == 4
        assert node.engine.is_running()
        assert list(items) == list(range(1, 100))


def test_a_profile_leaves_nothing_behind():
    assert profile(sk.smap(str, range(50)), n=50, try_workers=False).counted == 50
    assert not probe._recorders


def test_quick_items_are_timed_in_a_sample_and_their_number_is_estimated(monkeypatch):
    made = []
    event = probe.Event
    monkeypatch.setattr(probe, "Event", lambda *figures: made.append(figures) or event(*figures))
    found = profile(sk.smap(abs, range(100_000)), n=100_000, try_workers=False)
    assert len(made) < 50_000
    assert 80_000 < found.stages[0].items < 120_000


def test_profiled_random_views_draw_the_same_numbers():
    drawn = []
    shuffled = sk.shuffle(range(9), seed=0)
    noise = sk.random_map(lambda x, rng: drawn.append(int(rng.integers(1000))), shuffled, seed=1)
    for epoch in (noise, noise.at_epoch(2), sk.prefetch(noise, 1).at_epoch(2)):
        profile(sk.smap(str, epoch), n=9, try_workers=False)
        expected = drawn.copy()
        drawn.clear()
        list(epoch)
        assert drawn == expected
        drawn.clear()


def test_caches_start_empty_and_stay_as_they_are():
    source = CountingSource(range(4))
    cached = sk.add_cache(source, 4)
    list(cached)
    profile(cached, n=4)
    profile(cached, n=4)
    assert set(source.reads.values()) == {3}


def test_a_killed_worker_is_a_failed_item():
    def kills(i):
        if i == 3:
            time.sleep(0.3)  # until the first item has been read, from which on restarts are counted
            os.kill(os.getpid(), 9)
        return i

    node = sk.prefetch(sk.smap(kills, range(6)), 1, "process", retries=0)
    found = profile(node, n=6, try_workers=False)
    assert (found.items, found.failed, found.nodes[0].figures.restarts) == (5, 1, 1)


# -------------------------------------------------------------------- display and refusals


def test_the_table_has_shares_and_percentiles_and_ends_with_the_diagnosis(clock, monkeypatch):
    work, rest = clock.work(Fraction(3, 2000)), clock.work(Fraction(1, 2000))
    work.__name__, rest.__name__ = "work", "<rest>" * 20
    found = profile(sk.smap(rest, sk.gather(sk.smap(work, "ab"), [1, 0, 1])))
    monkeypatch.setenv("COLUMNS", "80")
    head, first, _, third, *_ = lines = str(found).splitlines()
    assert head.split() == ["stage", "share", "items", "median", "p95", "first", "size"]
    assert {len(line) for line in lines[:5]} == {80}
    assert first.startswith("smap(<rest><rest>")
    assert first.split()[-11:-2] == ["25", "%", "3", "500", "µs", "500", "µs", "500", "µs"]
    assert third.split()[:9] == ["└─", "smap(work)", "75", "%", "3", "1.5", "ms", "1.5", "ms"]
    assert lines[-1] == str(found.diagnosis)
    assert repr(found) == str(found)
    assert str(found) in page(found._repr_html_()).text
    assert json.loads(json.dumps(asdict(profile(sk.batch(range(10), 5)))))["items"] == 2


def test_what_cannot_be_profiled_is_refused_before_it_is_read():
    for build in (sk.uniter, lambda items: sk.smap(str, sk.uniter(items, 3))):
        letters = iter("abc")
        with pytest.raises(ValueError, match=r"^profile: .* cannot be read twice\. Pass an object"):
            profile(build(letters))
        assert next(letters) == "a"
    with pytest.raises(TypeError, match=r"profile: .*StreamLoader .*watch\b"):
        profile(StreamLoader([3], range, 1))
