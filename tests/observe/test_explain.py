"""Drawings of expressions: one line for each view, read from nothing but the expression."""

import pickle
import subprocess
import sys

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
    assert lines(sk.collate([sk.smap(str, source), sk.view(source)[::-1]])) == [
        "collate()                          length 3",
        "├─ smap(str)                       length 3",
        "│  └─ <ExplodingSource of 3> [1]",
        "└─ gather(range(2, -1, -1))        length 3",
        "   └─ <ExplodingSource of 3>       same as [1]",
    ]


def test_a_shared_view_is_drawn_once():
    view = sk.shuffle(range(10), seed=0)
    for _ in range(40):  # 2**40 lines otherwise
        view = sk.collate([view, view])
    drawing = lines(view)
    assert len(drawing) == 82
    assert sum("shuffle" in line for line in drawing) == 2
    assert drawing[-1].endswith("same as [1]")


def test_the_columns_of_collate_have_their_names():
    drawing = lines(sk.collate(image="ab", label=[0, 1]))
    assert drawing[1:] == ["├─ image: <str of 2>", "└─ label: <list of 2>   first: 0"]


def test_lengths_have_separators_and_reasons():
    assert notes(sk.cycle(range(3), 12_345)) == ("length 12,345",)
    assert explain(Naturals()).endswith("no length: it never ends")
    assert notes(sk.filter(bool, ExplodingSource("abc"))) == ("length not known yet",)


def scaled(x):
    return 2 * x


def test_lambdas_have_a_place():
    (note,) = notes(sk.smap(lambda x: x, "a"))[1:]
    assert note.startswith("<lambda> at test_explain.py:")
    assert notes(sk.smap(scaled, range(3))) == ("length 3",)
    assert "<lambda> at" in explain(sk.starmap(lambda x, y: x, [(1, 2)]))
    assert "<lambda> at" in explain(sk.batch("abc", 2, collate_fn=lambda items: items))


def test_many_sources_are_counted():
    drawing = lines(sk.concatenate([[i] for i in range(1000)]))
    assert len(drawing) == 12
    assert drawing[-1] == "└─ … 990 more"
    assert len(lines(sk.concatenate([[i] for i in range(11)]))) == 12


def sources(folder):
    import h5py
    import pandas
    import polars
    import pyarrow

    torch = pytest.importorskip("torch")

    frame = {"id": [1, 2], "name": ["a", "b"]}
    np.save(folder / "a.npy", np.zeros((2, 3), np.float32))
    pandas.DataFrame(frame).to_csv(folder / "a.csv", index=False)
    for name in ("a", "b"):
        polars.DataFrame(frame).write_parquet(folder / f"{name}.parquet")
    with h5py.File(folder / "a.h5", "w") as file:
        file["images"] = np.zeros((2, 3), np.uint8)
    file = h5py.File(folder / "a.h5")
    yield np.zeros((2, 3), np.uint8), ("uint8[2, 3]", "6 bytes")
    yield torch.zeros(2, 3), ("float32[2, 3]", "24 bytes")
    yield pandas.DataFrame(frame), ("columns id, name",)
    yield polars.DataFrame(frame), ("columns id, name",)
    yield pyarrow.table(frame), ("columns id, name",)
    yield pandas.DataFrame({str(i): [0] for i in range(9)}), ("columns 0, 1, 2, 3, 4, 5, …",)
    yield file["images"], ("uint8[2, 3]", "6 bytes")
    yield sk.read(folder / "a.npy"), ("float32[2, 3]", "24 bytes")
    yield sk.read(folder / "a.csv"), ("length not known yet",)
    many = sk.sources.parquet([str(folder / "a.parquet"), str(folder / "b.parquet")])
    yield many, ("length not known yet",)
    yield [np.zeros((4, 4))], ("first: float64[4, 4]",)
    yield ["x/0.png"], ("first: 'x/0.png'",)
    yield ["/data/x/0.png"], ("first: …/0.png",)
    yield [], ()
    yield range(3), ()


def test_a_source_says_what_is_known_without_reading(tmp_path):
    for source, wanted in sources(tmp_path):
        assert notes(source) == wanted, source


def test_a_file_that_was_read_is_named_with_its_size(tmp_path):
    np.save(tmp_path / "emb.npy", np.zeros((1000, 3), np.float32))
    (tmp_path / "labels.csv").write_text("a,b\n1,2\n3,4\n")
    assert repr(sk.read(tmp_path / "emb.npy")) == "<ndarray of 1000 in emb.npy>"
    assert repr(sk.view(np.load(tmp_path / "emb.npy", "r"))) == "<memmap of 1000 in emb.npy>"
    rows = sk.read(tmp_path / "labels.csv")
    assert repr(rows) == "per_process(labels.csv, 12 bytes)"
    len(rows)
    assert repr(rows) == "per_process(labels.csv, 2 items)"


def test_a_node_tells_its_state():
    with sk.prefetch(range(10), 2, "thread") as node:
        assert notes(node) == ("length 10", "idle")
        node[0]
        assert notes(node) == ("length 10", "2 workers running")
    assert notes(node) == ("length 10", "closed")
    assert notes(sk.prefetch(range(10), 0)) == ("length 10", "no workers")


def test_a_cache_tells_its_hits():
    cache = sk.add_cache(range(10), 3)
    assert notes(cache) == ("length 10", "0 items kept")
    for i in (0, 1, 1, 1):
        cache[i]
    assert notes(cache) == ("length 10", "2 items kept", "2 hits in 4 reads")
    list(cache._getmany([1, 2, 3]))
    assert notes(cache)[2] == "3 hits in 7 reads"


def test_items_in_the_store_of_a_cache_are_hits(tmp_path):
    list(sk.add_cache(range(3), 1, store=tmp_path / "items"))
    again = sk.add_cache(range(3), 1, store=tmp_path / "items")
    assert list(again) == list(again._getmany([0, 1, 2])) == [0, 1, 2]
    assert notes(again)[2] == "6 hits in 6 reads"


def test_a_loader_is_drawn_above_its_view():
    loader = sk.DataLoader(range(10), batch_size=4, num_workers=1, method="thread")
    assert lines(loader) == [
        "DataLoader(batch_size=4, num_workers=1, method='thread')   length 3",
        "└─ prefetch(nworkers=1, method='thread')                   length 3, idle",
        "   └─ batch(4, collate_fn=default_collate)                 length 3",
        "      └─ <range of 10>",
    ]
    iterator = iter(loader)
    next(iterator)
    assert notes(loader, 1) == ("length 3", "1 worker running")
    loader.close()
    assert notes(loader) == ("length 3", "closed")


def test_a_stream_loader_is_drawn_above_its_streams():
    loader = StreamLoader([3, 1, 2], range, 2)
    assert lines(loader) == [
        "StreamLoader(range, 2, num_workers=0)   no length: pass lengths or batches_per_epoch",
        "└─ <list of 3>                          first: 3",
    ]
    iterator = iter(loader)
    assert notes(loader)[1] == "1 epoch running"
    iterator.close()
    assert len(notes(loader)) == 1
    assert len(lines(StreamLoader(iter([3, 1, 2]), range, 2))) == 1


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match=r"explain: a sequence needs \[i\]"):
        explain(5)


def test_an_explanation_prints_pickles_and_displays():
    drawing = explain(sk.smap(lambda x: x, "<&>"))
    assert repr(drawing) == str(drawing) == f"{drawing}"
    again = pickle.loads(pickle.dumps(drawing))
    assert again == drawing
    assert again.lines == drawing.lines
    html = page(drawing._repr_html_())
    assert [line.rstrip() for line in html.text.splitlines()] == str(drawing).splitlines()


def test_html_has_a_monospace_font_of_its_own():
    html = sk.collate({"<b>": "ab", '"q"': [0, 1]})._repr_html_()
    found = page(html)
    assert "<b>: <str of 2>" in found.text
    (style,) = [value for name, value in found.attributes if name == "style" and "monospace" in value]
    assert "white-space:pre" in style


def test_html_of_a_view_is_its_explanation():
    view = sk.batch("abc", 2)
    assert view._repr_html_() == explain(view)._repr_html_()


def test_no_library_is_imported_to_draw():
    code = """if True:
        import sys
        import numpy as np, seqkit as sk
        before = {name.partition(".")[0] for name in sys.modules}
        sk.batch(sk.smap(abs, np.zeros((3, 2))), 2)._repr_html_()
        added = {name.partition(".")[0] for name in sys.modules} - before
        assert not added & {"PIL", "pandas", "torch", "matplotlib", "IPython"}, added
    """
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
