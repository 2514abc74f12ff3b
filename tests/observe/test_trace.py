"""What an item is made of: the steps down to the sources, values, times, random keys, the failing stage."""

import sys
from dataclasses import asdict
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

import seqkit as sk
from seqkit import EvaluationError
from seqkit.observe import trace
from seqkit.observe.summary import summarise
from seqkit.streams import StreamLoader
from seqkit.testing import CountingSource, FailingSource
from seqkit.testing.subject import close

from ..helpers import Naturals
from ..registry import CASES
from .pages import page


class Clock:
    """Stands still until a function works."""

    def __init__(self):
        self.now = Fraction(0)

    def __call__(self):
        return self.now

    def work(self, seconds):
        def working(x):
            self.now += seconds
            return x

        return working


def steps(found):
    return [(step.name, step.index) for step in found.step.walk()]


def test_the_steps_lead_to_the_sources():
    order = sk.shuffle(range(10), seed=0)
    found = trace(sk.batch(sk.smap(str, order), 2), 3)
    assert steps(found) == [
        ("batch", 3),
        *[each for i in (6, 7) for each in (("smap", i), ("shuffle", i), ("source", order[i]))],
    ]
    assert found.sources() == {"<range of 10>": [order[6], order[7]]}


def test_each_step_has_the_value_of_its_stage():
    found = trace(sk.batch(sk.smap(lambda x: x * 10, [1, 2, 3]), 2), 0)
    assert [step.value.line() for step in found.step.walk()] == ["[10, 20]", "10", "1", "20", "2"]
    assert asdict(found.step)["parts"][1]["parts"][0]["value"]["text"] == "2"


def test_each_step_has_its_own_time(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(sys.modules["seqkit.observe.steps"], "perf_counter", clock)
    inner = sk.smap(clock.work(5), range(4))
    found = trace(sk.batch(sk.smap(clock.work(2), sk.shuffle(inner, seed=0)), 2), 1)
    assert [step.seconds for step in found.step.walk() if step.name == "smap"] == [2, 5, 2, 5]
    assert sum(step.seconds for step in found.step.walk() if step.name != "smap") == 0
    assert found.seconds == 14


def test_two_random_views_keep_the_keys_that_follow_from_their_place():
    view = sk.random_map(lambda x, rng: (x, rng.random()), range(3), seed=0)
    view = sk.random_map(lambda x, rng: (*x, rng.random()), view, seed=0)
    shown = trace(view, 2).step.value.line()
    assert shown == "(" + ", ".join(map(str, view[2])) + ")"


def test_a_failing_stage_is_marked_and_nothing_is_raised():
    view = sk.batch(sk.smap(lambda x: 1 / x, sk.gather([4, 0, 2], [2, 1, 0])), 3)
    found = trace(view, 0)
    assert [step.name for step in found.failed] == ["batch", "smap"]
    assert found.failed[-1].error == "ZeroDivisionError: division by zero"
    text = str(found)
    assert text.startswith("batch(3)[0] failed: batch[0] → smap[1]")
    assert text.count("✗") == 1
    assert "not computed" in text.splitlines()[1]
    assert "<list of 3>[1]" in text  # the input of the function that failed
    html = found._repr_html_()
    assert "color:#d9534f" in html
    assert "ZeroDivisionError" in page(html).text


def test_the_path_is_that_of_the_error():
    view = sk.batch(sk.smap(str, sk.shuffle(FailingSource(range(9), {4}), seed=0)), 3)
    with pytest.raises(EvaluationError) as caught:
        list(view)
    index = caught.value.path[0][1]
    assert [(v._name, i) for v, i in caught.value.path] == [
        (step.name, step.index) for step in trace(view, index).failed
    ]


def test_user_functions_are_called_once_and_no_worker_is_started():
    calls = []
    source = CountingSource(range(10))
    node = sk.prefetch(sk.add_cache(sk.smap(lambda x: calls.append(x) or x, source), 10), 2, "process")
    found = trace(sk.batch(node, 2), 1)
    assert calls == [2, 3]
    assert source.reads == {2: 1, 3: 1}
    assert "idle" in sk.explain(node)
    assert "0 items kept" in sk.explain(node)
    assert [name for name, _ in steps(found)][:4] == ["batch", "prefetch", "add_cache", "smap"]


def test_items_are_those_that_the_function_gets():
    def change(x):
        x += 1
        return x

    found = trace(sk.smap(change, sk.smap(change, np.zeros((1, 2)))), 0)
    assert [step.value.text for step in found.step.walk()] == ["[2.0, 2.0]", "[1.0, 1.0]", "[0.0, 0.0]"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_value_is_that_of_the_view(case):
    view = case.build(case.items([i * 3 + 10 for i in range(max(case.sizes))]))
    try:
        for i, item in enumerate(islice(view, 3)):
            found = trace(view, i)
            if case.combinator == "fallback":  # tells of the item that failed below
                continue
            assert not found.failed
            assert found.step.value == summarise(item)
            page(found._repr_html_())
    finally:
        close(view)


def test_the_loader_s_view_is_traced():
    loader = sk.DataLoader(np.arange(20), batch_size=4, shuffle=True, seed=0, num_workers=2, method="thread")
    found = trace(loader, 2)
    assert found.sources() == {"<ndarray of 20>": loader.view[2].tolist()}
    loader.close()
    with pytest.raises(TypeError, match=r"trace: .* StreamLoader .* reads streams"):
        trace(StreamLoader([3], range, 1), 0)


def test_a_sampler_s_keys_are_part_of_the_tree():
    loader = sk.DataLoader(range(6), batch_size=2, sampler=[5, 4, 3, 2, 1, 0])
    assert trace(loader, 1).sources()["<range of 6>"] == [3, 2]


def test_indices_are_checked():
    assert trace("abc", -1).step.index == 2
    with pytest.raises(IndexError, match="index 3 out of range"):
        trace("abc", 3)
    with pytest.raises(TypeError, match="indices must be ints"):
        trace("abc", "a")
    with pytest.raises(TypeError, match="trace: a sequence needs"):
        trace(5, 0)
    assert trace(Naturals(), 7).step.value.text == "7"


def test_of_large_batches_the_first_samples_are_shown_and_all_indices_kept():
    found = trace(sk.batch(sk.smap(str, range(1000)), 1000), 0)
    assert len(str(found).splitlines()) == 10
    assert "… 997 more" in str(found)
    assert found.sources() == {"<range of 1000>": list(range(1000))}
    assert "… 988 more" in str(found)
    page(found._repr_html_())


def test_a_failing_sample_far_back_is_shown():
    found = trace(sk.batch(sk.smap(lambda x: 1 / (500 - x), range(1000)), 1000), 0)
    assert "smap(<lambda>)[500]" in str(found)
    assert "✗ ZeroDivisionError" in str(found)


def test_displaying_computes_nothing():
    calls = []
    found = sk.smap(lambda x: calls.append(x), range(5)).trace(1)
    for _ in range(3):
        str(found), repr(found), found._repr_html_(), found.sources()
    assert calls == [1]
