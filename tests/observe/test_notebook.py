"""The displays of loaders, samplers, statistics and batches of streams."""

import subprocess
import sys

import numpy as np
import pytest

import seqkit as sk
from seqkit import samplers
from seqkit.observe import notebook
from seqkit.prefetch.statistics import Statistics
from seqkit.streams import StreamLoader
from seqkit.testing import ExplodingSource

from .pages import page


def test_statistics_are_in_readable_units():
    found = Statistics(items=12_345, waited_ns=8_870_867, worked_ns=0, nbytes=1_234_567, slot_bytes=73_728)
    text = "items=12,345, waited=8.9 ms, nbytes=1.2 MiB, slot_bytes=72 KiB, chunk=1"
    assert repr(found) == f"Statistics({text})"
    html = page(found._repr_html_())
    assert "8.9 ms" in html.text
    assert "restarts" not in html.text
    assert repr(Statistics()) == "Statistics(chunk=1)"


def test_statistics_of_a_node_display():
    with sk.prefetch(range(10), 2, "thread") as node:
        list(node)
        assert repr(node.statistics()).startswith("Statistics(items=10, jobs=")


def streams(**options):
    chunks = [[np.full(3, i)] * n for i, n in enumerate((2, 1))]
    return StreamLoader(chunks, iter, 2, **options)


def test_a_batch_of_streams_shows_its_data_and_rows():
    first, second = streams(lengths=[2, 1])
    assert (
        repr(first) == "StreamBatch(data=int64[2, 3] 0 … 1, mean 0.5, stream=[0, 1], chunk=[0, 0],"
        " first=[0, 1], last=[1])"
    )
    assert "padding=[1]" in repr(second)
    html = page(second._repr_html_())
    assert "int64[2, 3]" in html.text
    assert "padding[1]" in html.text
    assert "last" not in repr(next(iter(streams())))


def test_a_batch_of_tensors_shows_the_same():
    import seqkit.torch

    loader = seqkit.torch.StreamLoader([[np.zeros(3)], [np.ones(3)]], iter, 2)
    assert repr(next(iter(loader))) == (
        "StreamBatch(data=float64[2, 3] 0 … 1, mean 0.5, stream=[0, 1], chunk=[0, 0], first=[0, 1])"
    )


def test_a_batch_of_many_rows_shows_the_first_rows():
    loader = StreamLoader([[i] for i in range(100)], iter, 100, collate_fn=list)
    assert "stream=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, …]" in repr(next(iter(loader)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: sk.DataLoader(ExplodingSource("abcd"), batch_size=2, shuffle=True, seed=0, num_workers=2),
        lambda: StreamLoader(ExplodingSource("abcd"), list, 2),
        lambda: samplers.RandomSampler(ExplodingSource("abcd"), seed=0),
        lambda: samplers.BatchSampler(samplers.RandomSampler(range(9), seed=0), 2, False),
        lambda: sk.batch(ExplodingSource("abcd"), 2),
    ],
    ids=["DataLoader", "StreamLoader", "RandomSampler", "BatchSampler", "view"],
)
def test_displays_are_explanations_and_read_nothing(make):
    shown = make()
    html = page(shown._repr_html_())
    assert html.text.split() == str(sk.explain(shown)).split()
    assert shown._repr_html_() == notebook(shown)


def test_a_sampler_is_drawn_above_its_order():
    sampler = samplers.RandomSampler(range(10), seed=0)
    list(sampler)
    assert sk.explain(sampler).splitlines() == [
        "RandomSampler(data_source=<range of 10>, seed=0)   length 10, epoch 1",
        "└─ gather(range(0, 10))                            length 10",
        "   └─ shuffle(seed=0, epoch=1)                     length 10",
        "      └─ <range of 10>",
    ]
    assert sampler.epoch == 1


def test_a_sampler_without_a_length_is_a_line():
    assert sk.explain(samplers.InfiniteSampler(range(3))).endswith("no length, epoch 0")


def test_other_objects_have_no_display():
    with pytest.raises(TypeError, match="explain: a sequence needs"):
        notebook(5)


def test_a_display_is_drawn_by_modules_that_are_imported_then():
    code = """if True:
        import sys, seqkit as sk
        loader = sk.DataLoader(range(4), batch_size=2)
        list(loader)
        assert not [name for name in sys.modules if name.startswith("seqkit.observe")]
        assert "batch(2" in loader._repr_html_()
    """
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
