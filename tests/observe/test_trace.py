"""`trace`: what made an item."""

import json
from fractions import Fraction

import numpy as np
import pytest

import seqkit as sk
from seqkit import EvaluationError
from seqkit.observe import trace
from seqkit.testing import CountingSource

from ..helpers import says
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
            self.now += Fraction(seconds)
            return x

        return working


def steps(found):
    """Return the lines of a trace without their times."""
    return [line.split("]   ")[0].rstrip("]") + "]" * ("[" in line) for line in str(found).splitlines()]


def test_the_samples_of_a_batch_and_their_sources_are_told():
    train = sk.batch(sk.smap(abs, sk.shuffle(range(100), seed=0)), 2)
    found = train.trace(3)
    first, second = (int(i) for i in sk.shuffle(range(100), seed=0)[6:8])
    assert found.sources == (("<range of 100>", first), ("<range of 100>", second))
    assert steps(found) == [
        "batch(2)[3]",
        "├─ smap(abs)[6]",
        "│  └─ shuffle(seed=0)[6]",
        f"│     └─ <range of 100>[{first}]",
        "└─ smap(abs)[7]",
        "   └─ shuffle(seed=0)[7]",
        f"      └─ <range of 100>[{second}]",
    ]
    assert found.item == train[3]


def test_each_stage_has_its_own_time():
    clock = Clock()
    view = sk.smap(clock.work(2), sk.smap(clock.work(3), "abc"))
    found = trace(sk.batch(view, 3), 0, clock=clock)
    assert found.seconds == 0
    assert [inner.seconds for inner in found.inputs] == [2, 2, 2]
    assert [inner.inputs[0].seconds for inner in found.inputs] == [3, 3, 3]


def test_the_random_key_of_an_item_is_told_in_each_epoch():
    noisy = sk.random_map(lambda x, rng: x + rng.random(), range(9), seed=7)
    for epoch in (0, 3):
        found = noisy.at_epoch(epoch).trace(-1)
        assert found.random == {"seed": 7, "epoch": epoch, "index": 8}
        assert found.item == noisy.at_epoch(epoch)[8]
    assert found.inputs[0].random is None


def test_the_failing_stage_is_marked_and_nothing_is_raised():
    inverse = sk.smap(lambda x: 1 / x, [4, 2, 0, 1])
    found = trace(sk.collate(x=inverse, y=range(4)).batch(4), 0)
    assert found.item is None
    assert found.value == found.error == ""
    assert found.failed.index == 2
    assert found.failed.error == "ZeroDivisionError: division by zero"
    assert found.failed.inputs[0].item == 0
    assert [line for line in str(found).splitlines() if "✗" in line] == [
        "   └─ smap(<lambda>)[2]   ✗ ZeroDivisionError: division by zero"
    ]
    assert page(found._repr_html_()).text.count("✗") == 1


def test_a_trace_without_failures_has_no_failed_stage():
    assert trace(sk.smap(abs, [1]), 0).failed is None


def test_an_error_gives_the_trace_of_the_item_that_was_requested():
    batches = sk.batch(sk.smap(lambda x: 1 / x, sk.shuffle([0, 1, 2], seed=0)), 3)
    with pytest.raises(EvaluationError) as caught:
        batches[0]
    assert caught.value.trace().failed.error == "ZeroDivisionError: division by zero"
    assert caught.value.trace().view == "batch(3)"


def test_the_display_of_an_error_draws_its_path_and_computes_nothing():
    source = CountingSource([0, 1])
    with pytest.raises(EvaluationError) as caught:
        list(sk.batch(sk.smap(lambda x: 1 / x, source), 2))
    reads = dict(source.reads)
    text = page(caught.value._repr_html_()).text
    assert "└─ smap(<lambda>)[0]   ✗ ZeroDivisionError: division by zero" in text
    assert source.reads == reads


def test_the_trace_of_a_pickled_error_is_refused():
    error = EvaluationError("smap[3] failed")
    assert "smap[3] failed" in page(error._repr_html_()).text
    with says(
        RuntimeError, "EvaluationError.trace: the view that failed is not known. Call seqkit.trace(view, i)."
    ):
        error.trace()


def test_no_worker_is_started_and_each_item_is_read_once():
    source = CountingSource(range(8))
    with sk.prefetch(sk.smap(abs, source), 2) as ahead:
        found = trace(sk.batch(ahead, 4), 1)
        assert ahead.statistics().items == 0
    assert found.item == [4, 5, 6, 7]
    assert source.reads == dict.fromkeys(range(4, 8), 1)


def test_a_filter_names_the_item_that_it_found_without_its_scan():
    odd = sk.filter(lambda x: x % 2, sk.smap(abs, range(10)))
    assert steps(trace(odd, 3)) == ["filter(<lambda>)[3]", "└─ smap(abs)[7]", "   └─ <range of 10>[7]"]


def test_caches_start_empty_and_stay_as_they_are():
    source = CountingSource(range(4))
    cached = sk.add_cache(source, 4)
    list(cached)
    assert trace(cached, 2).sources == (("<CountingSource of 4>", 2),)
    list(cached)
    assert source.reads == {0: 1, 1: 1, 2: 2, 3: 1}


def test_a_long_batch_is_drawn_in_part_and_kept_whole():
    found = trace(sk.batch(sk.smap(lambda x: 1 / (x - 40), range(64)), 64), 0)
    assert len(found.inputs) == 41
    assert steps(found)[-3:] == ["├─ … 35 more", "└─ smap(<lambda>)[40]", "   └─ <range of 64>[40]"]


def test_a_trace_is_a_dict_for_json():
    found = trace(sk.smap(np.sqrt, np.arange(4.0)), 2).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["inputs"][0]["value"] == "2.0"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_item_of_a_trace_is_the_item_of_the_view(case):
    source = case.items([3, 10, 4, 1, 5][: min(case.sizes, key=lambda n: abs(n - 5))])
    view, expected = case.build(source), case.model(source)
    for i in {0, len(expected) - 1} if expected else ():
        found = trace(view, i)
        assert found.failed is None, found
        np.testing.assert_equal(found.item, expected[i])
        page(found._repr_html_())


def test_the_stage_that_made_a_nan_has_the_alarm():
    logs = sk.smap(lambda x: np.log(x, where=x > 0, out=np.full(3, np.nan)), np.array([[1.0, 0.0, 2.0]]))
    found = trace(sk.batch(logs, 1), 0)
    assert "1 NaN" in found.value
    assert "1 NaN" in found.inputs[0].value
    assert "NaN" not in found.inputs[0].inputs[0].value


def test_trace_refuses_bad_arguments():
    with says(IndexError, "smap: index 3 out of range for length 3"):
        sk.smap(abs, range(3)).trace(3)
    with says(TypeError, "source: indices must be ints, got str"):
        trace("abc", "a")
    with says(TypeError, "trace: clock must be callable, got 5"):
        trace("abc", 0, clock=5)
