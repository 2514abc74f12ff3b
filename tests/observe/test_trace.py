"""What an item is made of: the steps down to the sources, values, times, the failing stage."""

import sys
from dataclasses import asdict
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

from ..helpers import Clock, Naturals
from ..registry import CASES
from .pages import page


def steps(found):
    return [(step.name, step.index) for step in found.step.walk()]


def test_the_steps_lead_to_the_sources_and_have_the_values_of_their_stages():
    order = sk.shuffle([1, 2, 3, 4], seed=0)
    found = trace(sk.batch(sk.smap(lambda x: x * 10, order), 2), 1)
    assert steps(found) == [
        ("batch", 1),
        *[each for i in (2, 3) for each in (("smap", i), ("shuffle", i), ("source", order[i] - 1))],
    ]
    assert found.sources() == {"<list of 4>": [order[2] - 1, order[3] - 1]}
    values = [step.value.line() for step in found.step.walk()]
    assert values[:3] == [f"[{10 * order[2]}, {10 * order[3]}]", f"{10 * order[2]}", f"{order[2]}"]
    assert asdict(found.step)["parts"][1]["parts"][0]["value"]["text"] == str(order[3])


def test_each_step_has_its_own_time(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(sys.modules["seqkit.observe.steps"], "perf_counter", clock)
    inner = sk.smap(clock.work(5), range(4))
    found = trace(sk.batch(sk.smap(clock.work(2), sk.shuffle(inner, seed=0)), 2), 1)
    assert [step.seconds for step in found.step.walk() if step.name == "smap"] == [2, 5, 2, 5]
    assert found.step.all_seconds() == 14


def test_two_random_views_keep_the_keys_that_follow_from_their_place():
    view = sk.random_map(lambda x, rng: (x, rng.random()), range(3), seed=0)
    view = sk.random_map(lambda x, rng: (*x, rng.random()), view, seed=0)
    assert trace(view, 2).step.value.line() == str(view[2])


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
    failing = sk.batch(sk.smap(str, sk.shuffle(FailingSource(range(9), {4}), seed=0)), 3)
    with pytest.raises(EvaluationError) as caught:
        list(failing)
    path = [(view._name, i) for view, i in caught.value.path]
    assert path == [(step.name, step.index) for step in trace(failing, path[0][1]).failed]


def test_user_functions_are_called_once_and_no_worker_is_started():
    calls = []
    source = CountingSource(range(10))
    node = sk.prefetch(sk.add_cache(sk.smap(lambda x: calls.append(x) or x, source), 10), 2, "process")
    found = trace(sk.batch(node, 2), 1)
    str(found), repr(found), found._repr_html_()
    assert calls == [2, 3]
    assert source.reads == {2: 1, 3: 1}
    assert "idle" in sk.explain(node)
    assert "0 items kept" in sk.explain(node)
    assert [name for name, _ in steps(found)][:4] == ["batch", "prefetch", "add_cache", "smap"]
    list(node._sources[0])
    trace(sk.batch(node, 2), 1)
    assert calls[-2:] == [2, 3]  # caches are not used
    assert len(calls) == 2 + 10 + 2


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


def test_loaders_are_traced_by_their_view():
    loader = sk.DataLoader(np.arange(20), batch_size=4, shuffle=True, seed=0, num_workers=2, method="thread")
    assert trace(loader, 2).sources() == {"<ndarray of 20>": loader.view[2].tolist()}
    loader.close()
    in_order = sk.DataLoader(range(6), batch_size=2, sampler=[5, 4, 3, 2, 1, 0])
    assert in_order.trace(1).sources()["<range of 6>"] == [3, 2]
    with pytest.raises(TypeError, match=r"trace: .* StreamLoader .* reads streams"):
        trace(StreamLoader([3], range, 1), 0)


def test_indices_are_checked():
    assert trace("abc", -1).step.index == 2
    assert trace(Naturals(), 7).step.value.text == "7"
    for error, sequence, i, message in [
        (IndexError, "abc", 3, "index 3 out of range"),
        (TypeError, "abc", "a", "indices must be ints"),
        (TypeError, 5, 0, "trace: a sequence needs"),
    ]:
        with pytest.raises(error, match=message):
            trace(sequence, i)


def test_of_large_batches_the_first_samples_are_shown_and_all_indices_kept():
    found = trace(sk.batch(sk.smap(str, range(1000)), 1000), 0)
    assert len(str(found).splitlines()) == 10
    assert "… 997 more" in str(found)
    assert "… 988 more" in str(found)
    assert found.sources() == {"<range of 1000>": list(range(1000))}
    page(found._repr_html_())
    late = trace(sk.batch(sk.smap(lambda x: 1 / (500 - x), range(1000)), 1000), 0)
    assert "smap(<lambda>)[500]" in str(late)
    assert "✗ ZeroDivisionError" in str(late)
