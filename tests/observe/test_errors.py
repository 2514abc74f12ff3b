"""Errors show the stages from the item that was requested to the one that failed."""

import pytest

import seqkit as sk
from seqkit import EvaluationError
from seqkit.testing import CountingSource

from .pages import page


def failing_batch(source):
    batches = sk.batch(sk.smap(lambda x: 1 / x, source), 2)
    with pytest.raises(EvaluationError) as caught:
        batches[0]
    return caught.value


def test_an_error_gives_the_trace_of_the_item_that_was_requested():
    error = failing_batch([4, 0])
    failed = error.trace().failed
    assert [(step.name, step.index) for step in failed] == [("batch", 0), ("smap", 1)]
    assert failed[-1].error == "ZeroDivisionError: division by zero"


def test_an_error_at_a_key_that_is_no_index_can_be_traced():
    loader = sk.DataLoader({"a": 0, "b": 1}, sampler=["b", "a"], transform=lambda x: 1 / x)
    with pytest.raises(EvaluationError) as caught:
        list(loader)
    assert caught.value.trace().failed[-1].index == "a"


def test_the_display_of_an_error_draws_its_path_and_computes_nothing():
    source = CountingSource([4, 0])
    error = failing_batch(source)
    reads = dict(source.reads)
    text = page(error._repr_html_()).text
    assert "smap[1] failed: ZeroDivisionError: division by zero" in text
    assert "batch(2)[0]" in text
    assert "└─ smap(<lambda>)[1]" in text
    assert text.count("✗ ZeroDivisionError: division by zero") == 1
    assert source.reads == reads


def test_an_error_without_its_view_shows_its_text_and_refuses_a_trace():
    error = EvaluationError("smap[3] failed")
    assert page(error._repr_html_()).text == "smap[3] failed"
    with pytest.raises(RuntimeError, match=r"^EvaluationError\.trace: the"):
        error.trace()
