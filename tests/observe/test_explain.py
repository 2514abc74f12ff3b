"""Drawings of expressions: one line for each view, read from nothing but the expression."""

import numpy as np
import pytest

import seqkit as sk
from seqkit.observe import explain
from seqkit.streams import StreamLoader
from seqkit.testing import ExplodingSource

from ..helpers import Naturals
from .pages import page


def lines(drawn):
    return explain(drawn).splitlines()


def notes(drawn, number=0):
    return explain(drawn).lines[number].notes


def test_each_view_has_a_line_and_nothing_is_read():
    source = ExplodingSource("abc")
    assert lines(sk.collate(image=sk.smap(str, source), label=sk.view(source)[::-1])) == [
        "collate()                            length 3",
        "├─ image: smap(str)                  length 3",
        "│  └─ <ExplodingSource of 3> [1]",
        "└─ label: gather(range(2, -1, -1))   length 3",
        "   └─ <ExplodingSource of 3>         same as [1]",
    ]


def test_a_shared_view_is_drawn_once():
    view = sk.shuffle(range(10), seed=0)
    for _ in range(40):  # 2**40 lines otherwise
        view = sk.collate([view, view])
    drawing = lines(view)
    assert len(drawing) == 82
    assert sum("shuffle" in line for line in drawing) == 2
    assert drawing[-1].endswith("same as [1]")


def test_many_sources_are_counted():
    drawing = lines(sk.concatenate([[i] for i in range(1000)]))
    assert (len(drawing), drawing[-1]) == (12, "└─ … 990 more")
    assert len(lines(sk.concatenate([[i] for i in range(11)]))) == 12


def scaled(x):
    return 2 * x


def test_a_view_says_what_is_known_without_reading(tmp_path):
    torch = pytest.importorskip("torch")
    np.save(tmp_path / "a.npy", np.zeros((2, 3), np.float32))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    for drawn, wanted in [
        (sk.cycle(range(3), 12_345), ("length 12,345",)),
        (Naturals(), ("no length: it never ends",)),
        (sk.filter(bool, ExplodingSource("abc")), ("length not known yet",)),
        (sk.smap(scaled, range(3)), ("length 3",)),
        (np.zeros((2, 3), np.uint8), ("uint8[2, 3]", "6 bytes")),
        (torch.zeros(2, 3), ("float32[2, 3]", "24 bytes")),
        (sk.read(tmp_path / "a.npy"), ("float32[2, 3]", "24 bytes")),
        (sk.read(tmp_path / "a.csv"), ("length not known yet",)),
        (["x/0.png"], ("first: 'x/0.png'",)),
        ([], ()),
        (range(3), ()),
    ]:
        assert notes(drawn) == wanted
    (note,) = notes(sk.smap(lambda x: x, "a"))[1:]
    assert note.startswith("<lambda> at test_explain.py:")
    assert "<lambda> at" in explain(sk.batch("abc", 2, collate_fn=lambda items: items))


def test_a_file_that_was_read_is_named(tmp_path):
    np.save(tmp_path / "emb.npy", np.zeros((1000, 3), np.float32))
    (tmp_path / "labels.csv").write_text("a,b\n1,2\n3,4\n")
    assert repr(sk.read(tmp_path / "emb.npy")) == "<ndarray of 1000 in emb.npy>"
    assert repr(sk.view(np.load(tmp_path / "emb.npy", "r"))) == "<memmap of 1000>"
    assert repr(sk.read(tmp_path / "labels.csv")).startswith("csv(labels.csv")


def test_a_node_tells_its_state():
    with sk.prefetch(range(10), 2, "thread") as node:
        assert notes(node) == ("length 10", "idle")
        node[0]
        assert notes(node) == ("length 10", "2 workers running")
    assert notes(node) == ("length 10", "closed")
    assert notes(sk.prefetch(range(10), 0)) == ("length 10", "no workers")


def test_a_cache_tells_how_many_items_it_keeps():
    cache = sk.add_cache(range(10), 3)
    assert notes(cache) == ("length 10", "0 items kept")
    for i in (0, 1, 1, 1):
        cache[i]
    assert notes(cache) == ("length 10", "2 items kept")


def test_loaders_are_drawn_above_what_they_read():
    loader = sk.DataLoader(range(10), batch_size=4, num_workers=1, method="thread")
    assert lines(loader) == [
        "DataLoader",
        "└─ prefetch(nworkers=1, method='thread')     length 3, idle",
        "   └─ batch(4, collate_fn=default_collate)   length 3",
        "      └─ <range of 10>",
    ]
    iterator = iter(loader)
    next(iterator)
    assert notes(loader, 1) == ("length 3", "1 worker running")
    loader.close()
    assert lines(StreamLoader([3, 1, 2], range, 2)) == ["StreamLoader(<3 streams>, range, 2, num_workers=0)"]
    with pytest.raises(TypeError, match=r"explain: a sequence needs \[i\]"):
        explain(5)


def test_an_explanation_prints_and_displays():
    view = sk.smap(lambda x: x, sk.collate({"<b>": "<&>", '"q"': [0, 1, 2]}))
    drawing = explain(view)
    assert repr(drawing) == str(drawing) == f"{drawing}"
    assert view._repr_html_() == drawing._repr_html_()
    html = page(drawing._repr_html_())
    assert [line.rstrip() for line in html.text.splitlines()] == str(drawing).splitlines()
    (style,) = [value for name, value in html.attributes if name == "style" and "monospace" in value]
    assert "white-space:pre" in style
