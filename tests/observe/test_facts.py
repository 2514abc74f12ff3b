"""Displays of statistics and loaders, in units that people read."""

import seqkit as sk
from seqkit.engine.statistics import Statistics
from seqkit.streams import StreamLoader

from .pages import page


def shown(found):
    return page(found._repr_html_()).text


def test_statistics_show_the_figures_that_are_not_0():
    some = Statistics(1204, 38, waited_ns=8_870_867, slots=16, chunk=32)
    assert repr(some) == "Statistics(items=1_204, jobs=38, waited_ns=8_870_867, slots=16, chunk=32)"
    with sk.prefetch(range(5), 1) as node:
        list(node)
        assert repr(node.statistics()).startswith("Statistics(items=5, jobs=")


def test_loaders_are_drawn_with_the_views_that_they_read():
    assert "DataLoader" in shown(sk.DataLoader(range(10), 2))
    assert "<range of 10>" in shown(sk.DataLoader(range(10), 2))
    assert "StreamLoader" in shown(StreamLoader(["abc", "d"], list, 2))
