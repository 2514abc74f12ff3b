"""Displays of statistics, samplers, loaders and batches of streams, in units that people read."""

import numpy as np
import pytest

import seqkit as sk
from seqkit import samplers
from seqkit.engine.statistics import Statistics
from seqkit.streams import StreamLoader
from seqkit.testing import ExplodingSource

from .pages import page


def shown(found):
    return page(found._repr_html_()).text


def test_statistics_show_the_figures_that_are_not_0():
    some = Statistics(1204, 38, waited_ns=8_870_867, slots=16, chunk=32)
    assert repr(some) == "Statistics(items=1_204, jobs=38, waited_ns=8_870_867, slots=16, chunk=32)"
    with sk.prefetch(range(5), 1) as node:
        list(node)
        assert repr(node.statistics()).startswith("Statistics(items=5, jobs=")


def test_samplers_show_their_next_indices_and_read_no_item():
    sampler = samplers.RandomSampler(1000, seed=1)
    text = shown(sampler)
    assert ", ".join(str(i) for i in list(sampler)[:8]) in text
    assert "epoch 1 reads" in shown(sampler)
    once = samplers.BatchSampler(iter([3, 1]), 2)
    assert "batch_size" in shown(once)
    assert list(once) == [[3, 1]]
    shown(samplers.SubsetRandomSampler(sk.filter(lambda x: True, ExplodingSource(range(3)))))


@pytest.mark.parametrize("module", ["seqkit", "seqkit.torch"])
def test_batches_of_streams_show_their_form_and_not_their_numbers(module):
    loader = StreamLoader
    if module == "seqkit.torch":
        pytest.importorskip("torch")
        loader = sk.torch.StreamLoader
    batch = next(iter(loader([[1, 2], [3]], lambda steps: [np.full(6, n) for n in steps], 2, pad_value=0)))
    assert repr(batch) == (
        "StreamBatch(data: int64[2, 6], stream: [0, 1], chunk: [0, 0], lengths: [6, 6],"
        " is_first: rows [0, 1])"
    )
    assert "int64[2, 6]" in shown(batch)


def test_loaders_are_drawn_with_the_views_that_they_read():
    assert "DataLoader(batch_size=2)" in shown(sk.DataLoader(range(10), 2))
    assert "<range of 10>" in shown(sk.DataLoader(range(10), 2))
    assert "StreamLoader" in shown(StreamLoader(["abc", "d"], list, 2))
