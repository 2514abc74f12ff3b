"""What is special about `materialize`: everything is computed at once, once."""

import numpy as np
import pytest

import seqkit as sk
from seqkit import EvaluationError
from seqkit.core import worker as context
from seqkit.stores.materialize.materialize import materialize
from seqkit.testing import CountingSource, FailingSource, UnsizedSource

from ..helpers import Naturals


def test_every_item_is_evaluated_once():
    source = CountingSource("abc")
    items = materialize(sk.smap(str.upper, source))
    assert list(items) == list(items[::-1])[::-1] == ["A", "B", "C"]
    assert source.reads == {0: 1, 1: 1, 2: 1}


def test_items_are_those_that_were_computed():
    items = materialize(sk.smap(lambda i: [i], range(3)))
    assert items[1] is items[1]


def test_sequences_of_unknown_length_get_one():
    items = materialize(UnsizedSource("abc"))
    assert len(items) == 3
    assert items[-1] == "c"


def test_what_is_read_ahead_is_read_ahead():
    with sk.prefetch(range(100), 2) as ahead:
        assert list(materialize(ahead)) == list(range(100))


def test_writing_changes_the_items_and_not_the_source():
    source = [1, 2, 3]
    items = materialize(source)
    items[1] = 20
    source[2] = 30
    assert list(items) == [1, 20, 3]
    assert source == [1, 2, 30]


def test_epochs_are_settled():
    items = materialize(sk.shuffle(range(100), seed=0))
    assert list(items.at_epoch(1)) == list(items) == list(sk.shuffle(range(100), seed=0))


def test_what_is_kept_does_not_lie_in_a_slot():
    asked = []

    def allocate(shape, dtype):
        asked.append(shape)

    with context.evaluating(allocate):
        materialize(sk.smap(lambda i: sk.empty(3), range(2)))
    assert asked == []


def test_a_failing_item_is_the_sources_error():
    with pytest.raises(EvaluationError, match=r"source\[1\] failed: ValueError: item 1"):
        materialize(FailingSource("abc", {1}))


def test_what_never_ends_is_refused():
    with pytest.raises(TypeError, match="materialize: the sequence"):
        materialize(Naturals())
    assert list(materialize(Naturals()[:3])) == [0, 1, 2]


def test_batches_of_arrays_are_arrays():
    batches = sk.batch(materialize(np.arange(4)), 2, collate_fn=np.asarray)
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3]]
