"""The first items as cards: what each kind of item shows, failing items, stages, budgets."""

import base64
import collections
import io
import itertools
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import seqkit as sk
from seqkit.observe import preview
from seqkit.observe.picture import picture
from seqkit.streams import StreamLoader
from seqkit.testing import CountingSource, ExplodingSource

from .pages import page

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (28, 28), np.uint8)
HWC = RNG.integers(0, 256, (200, 300, 3), np.uint8)
CHW = RNG.random((3, 32, 48), np.float32)
WITH_NAN = np.where(np.eye(28, dtype=bool), np.nan, 0.5)
WITH_INF = np.array([1.0, np.inf, -np.inf, 2.0, 3.0, 4.0, 5.0, 6.0])
Point = collections.namedtuple("Point", ["x", "label"])


def tensor():
    torch = pytest.importorskip("torch")
    return torch.zeros(3, 32, 32, dtype=torch.bfloat16)


# An array, its structure, the rest of its line, and whether it has an image (img), a curve (svg) or none.
ARRAYS = [
    (GREY, "uint8[28, 28]", " 0 … 255, mean", "img"),
    (HWC, "uint8[200, 300, 3]", " 0 … 255, mean", "img"),
    (CHW, "float32[3, 32, 48]", "", "img"),
    (np.eye(20) > 0, "bool[20, 20]", " 0 … 1, mean 0.05", "img"),
    (np.stack([HWC] * 3), "uint8[3, 200, 300, 3]", "", "img"),
    (np.stack([CHW] * 12), "float32[12, 3, 32, 48]", "", "img"),
    (np.stack([GREY] * 20), "uint8[20, 28, 28]", "", "img"),
    (np.zeros((9, 9, 4), np.uint8), "uint8[9, 9, 4]", " 0 … 0, mean 0", "img"),
    (WITH_NAN, "float64[28, 28]", " 0.5 … 0.5, mean 0.5 (28 NaN)", "img"),
    (np.ma.masked_array([1.0, 2, 4], [0, 1, 0]), "float64[3]", " 1 … 4, mean 2.5 (1 masked)", ""),
    (np.zeros(2, [("a", "i4"), ("b", "f8")]), "record(a, b)[2]", " [(0, 0.0), (0, 0.0)]", ""),
    (np.full(9, np.nan), "float64[9]", " (9 NaN)", ""),
    (WITH_INF, "float64[8]", " 1 … 6, mean 3.5 (2 infinite)", "svg"),
    (np.zeros((8, 200)), "float64[8, 200]", " 0 … 0, mean 0", "svg"),
    (np.arange(9), "int64[9]", " [0, 1, 2, 3, 4, 5, 6, 7, 8]", ""),
    (np.arange(100.0), "float64[100]", " 0 … 99, mean 49.5", "svg"),
    (np.arange(100_000), "int64[100000]", " 0 … 1e+05, mean 5e+04", "svg"),
    (np.zeros((2, 500)), "float64[2, 500]", " 0 … 0, mean 0", "svg"),
    (np.array([3, 1]), "int64[2]", " [3, 1]", ""),
    (np.zeros((3, 4)), "float64[3, 4]", " 0 … 0, mean 0", ""),
    (np.zeros((0, 3)), "float64[0, 3]", "", ""),
    (np.array(3.0), "float64[]", " 3 … 3, mean 3", ""),
    (np.array(["a", "b"]), "<U1[2]", " ['a', 'b']", ""),
    (np.zeros(9, complex), "complex128[9]", "", ""),
    (tensor(), "bfloat16[3, 32, 32]", " 0 … 0, mean 0", "img"),
    (Image.fromarray(HWC), "RGB image[200, 300, 3]", " 0 … 255", "img"),
]
# Another item, its structure, its line, and its picture.
ITEMS = [
    (3, "int", "3", ""),
    (0.5, "float", "0.5", ""),
    (float("nan"), "float", "nan (NaN)", ""),
    (None, "NoneType", "None", ""),
    ("<b>hello</b>", "str", "'<b>hello</b>'", ""),
    ("word " * 1000, "str", f"'{'word ' * 40}'…", ""),
    (b"\x00\x01", "bytes", r"b'\x00\x01'", ""),
    ({"image": GREY, "y": 3}, "image: uint8[28, 28], y: int", "{image: uint8[28, 28] 0 … 255", "img"),
    ((GREY, 3), "(uint8[28, 28], int)", "(uint8[28, 28] 0 … 255", "img"),
    (Point(GREY, 3), "x: uint8[28, 28], label: int", "{x: uint8[28, 28] 0 … 255", "img"),
    ([1, 2, 3], "list of 3 × int", "[1, 2, 3]", ""),
    (list(range(1000)), "list of 1000 × int", "[0, 1, 2", ""),
    ([1, "a"], "[int, str]", "[1, 'a']", ""),
    ({"a": {"b": (1, [2.0])}}, "a: {b: (int, list of 1 × float)}", "{a: {b: (1, [2.0])}}", ""),
    ({}, "dict", "empty", ""),
    (object, "type", "<class 'object'>", ""),
]


def test_each_kind_of_item_has_a_structure_a_text_and_a_picture():
    for item, structure, text, kind in [(a, s, s + t, k) for a, s, t, k in ARRAYS] + ITEMS:
        found = preview([item])
        assert found.structure == structure
        assert found.items[0].value.line().startswith(text)
        assert f"[0]  {text}"[:110] in str(found)
        html = page(found._repr_html_())
        assert ("img" in html.tags, "svg" in html.tags) == (kind == "img", kind == "svg"), structure
        assert len(found._repr_html_()) < 300_000


def test_lengths_and_kinds_that_differ_are_in_the_structure():
    images = [np.zeros((256, width, 3), np.uint8) for width in (256, 213, 230)]
    for items, structure in [
        (sk.collate(image=images, label=np.arange(3)), "image: uint8[256, 213–256, 3], label: int64"),
        ([1, "a", [1]], "int | str | list of 1 × int"),
        ([[1], [1, 2, 3]], "list of 1–3 × int"),
        ([[["cat", 0.9]] * i + [[]] for i in range(3)], "list of 1–3 × (list | [str, float])"),
        ([[1, "a"], [1, "a", None], [2.0]], "list of 1–3 × (int | str | NoneType | float)"),
        ([{"a": [1, "a"]}, {"a": ["a", 1]}], "a: [int | str, str | int]"),
    ]:
        found = preview(items)
        assert found.structure == structure
        assert page(found._repr_html_())


# -------------------------------------------------------------------- pictures


def shown(array):
    """Return the pixels of the picture of an array. Pillow checks the sums of the file."""
    data = base64.b64decode(picture(array).partition("base64,")[2].partition('"')[0])
    return np.asarray(Image.open(io.BytesIO(data)))


def test_floats_are_shares_of_white_and_others_are_spread():
    ramp = np.linspace(0, 1, 64).reshape(8, 8)
    assert shown(ramp / 2).max() == 128
    assert np.array_equal(shown(HWC[:50, :60]), HWC[:50, :60])
    assert shown(ramp * 255).max() == 255
    assert (shown(ramp * 6 - 3).min(), shown(ramp * 6 - 3).max()) == (0, 255)
    assert shown(np.full((8, 8), 7.0)).shape == (8, 8)


def test_large_images_become_means_of_squares_and_batches_a_grid():
    board = np.kron(np.indices((300, 400)).sum(0) % 2, np.ones((2, 2))).astype(np.uint8) * 200
    small = shown(board)
    assert max(small.shape) <= 96
    assert abs(int(small.mean()) - 100) <= 3
    grid = shown(np.full((12, 10, 20, 3), 7, np.uint8))
    assert grid.shape == (3 * 12 - 2, 3 * 22 - 2, 4)
    assert [tuple(grid[0, x]) for x in (0, 20)] == [(7, 7, 7, 255), (0, 0, 0, 0)]


def test_a_curve_shows_the_least_and_the_largest_value_of_each_point():
    values = np.zeros(1000)
    values[500] = 4
    points = [point.split(",") for point in picture(values).split('points="')[1].split('"')[0].split()]
    assert len(points) == 320
    assert sorted({float(y) for _, y in points}) == [2, 34]
    assert [round(float(x)) for x, y in points if float(y) == 2] == [80]


# -------------------------------------------------------------------- failing items and stages


def failing(x):
    if x == 2:
        raise ValueError("bad header <x>")
    return x


def test_a_failing_item_is_a_red_card_and_the_others_show():
    found = preview(sk.batch(sk.smap(failing, sk.shuffle(range(8), seed=0)), 2), 4)
    texts = [step.value is not None for step in found.items]
    assert texts.count(False) == 1
    bad = texts.index(False)
    path = found.items[bad].failed()
    assert [step.name for step in path] == ["batch", "smap"]
    assert f"[{bad}]  ✗ ValueError: bad header <x>  (batch[{bad}] → smap[{path[-1].index}])" in str(found)
    assert found._repr_html_().count("1px solid #d9534f") == 1
    assert "bad header <x>" in page(found._repr_html_()).text
    every = preview(sk.smap(failing, [2, 2]))
    assert (every.structure, str(every).count("✗")) == ("", 2)
    assert page(every._repr_html_())


def test_stages_show_the_value_after_each_function():
    first = sk.shuffle([5, 7], seed=0)[0]
    view = sk.random_map(
        lambda x, rng: x + 0.5, sk.smap(lambda x: x * 10, sk.shuffle([5, 7], seed=0)), seed=1
    )
    found = preview(sk.batch(view, 2), stages=True)
    lines = [line.split() for line in str(found).splitlines()[2:]]
    assert [line[0].partition("(")[0] for line in lines] == ["<list", "smap", "random_map", "batch"]
    assert [line[-1] for line in lines[:3]] == [str(first), str(10 * first), str(10 * first + 0.5)]
    assert page(found._repr_html_()).text.count("→") == 3
    assert "flex-wrap:wrap" in found._repr_html_()  # no card lies beside the page


def test_stages_are_shown_above_a_shuffle_that_finds_the_length():
    good = sk.fallback("skip", sk.smap(lambda x: 1 / x, [2, 0, 4]))
    found = preview(sk.batch(sk.shuffle(good, seed=0), 2), 1, stages=True)
    assert [step.name for step in found.items[0].walk()][:4] == ["batch", "shuffle", "fallback", "smap"]


def test_items_of_a_filter_have_the_time_that_they_took():
    found = preview(sk.filter(bool, range(9)), 2)
    assert all(step.seconds > 0 for step in found.items)


def test_stages_of_a_failing_batch_follow_the_sample_that_fails():
    found = preview(sk.batch(sk.smap(failing, [1, 2, 3]), 3), stages=True)
    source, stage = (line.split(maxsplit=2) for line in str(found).splitlines()[2:])
    assert source == ["<list", "of", "3>[1]    2"]
    assert stage == ["smap(failing)[1]", "✗", "ValueError: bad header <x>  (batch[0] → smap[1])"]
    assert "batch[0] → smap[1]" in page(found._repr_html_()).text


def test_stages_call_each_function_once_and_see_items_before_they_are_changed():
    calls = []

    def change(x):
        calls.append(x[0])
        x[0] += 1
        return x

    found = preview(sk.smap(change, sk.smap(change, np.zeros((1, 2)))), stages=True)
    assert calls == [0, 1]
    assert [step.value.text for step in found.items[0].walk()] == ["[2.0, 0.0]", "[1.0, 0.0]", "[0.0, 0.0]"]
    str(found), found._repr_html_()
    assert calls == [0, 1]


def test_lines_of_a_terminal_are_cut_at_its_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    items = sk.smap(lambda i: {f"column {k}": "word " * 9 for k in range(12)}, range(3))
    for found in (preview(items), items.batch(3).trace(0), preview(items, stages=True)):
        assert max(map(len, str(found).splitlines())) == 60


# -------------------------------------------------------------------- what is read


def test_random_values_are_those_of_the_view():
    view = sk.batch(sk.random_map(lambda x, rng: rng.random(), sk.shuffle(range(9), seed=1), seed=0), 3)
    for epoch in (view, view.at_epoch(1)):
        assert [step.value.line() for step in preview(epoch).items] == [str(batch) for batch in epoch]


def test_a_node_starts_no_workers_and_a_cache_keeps_nothing():
    source = CountingSource(range(10))
    with sk.prefetch(sk.add_cache(source, 10), 2, "process") as node:
        preview(node, 2)
        assert sk.explain(node).lines[0].notes[1] == "idle"
    cache = sk.add_cache(source, 10)
    preview(cache, 2)
    assert "0 items kept" in sk.explain(cache)


def test_the_budget_of_time_ends_the_preview(monkeypatch):
    clock = itertools.count().__next__  # a second passes at each look at the clock
    monkeypatch.setattr(sys.modules["seqkit.observe.preview"], "perf_counter", clock)
    found = preview(range(100), 50, max_seconds=10)
    assert (len(found.items), found.is_cut) == (10, True)
    assert "The budget is used up" in str(found)
    assert len(preview(range(100), 50, max_seconds=0.5).items) == 1
    assert not preview(range(100), 10, max_seconds=10).is_cut
    assert not preview(range(100), 50, max_seconds=None).is_cut


def test_a_preview_may_be_shorter_than_asked():
    assert [len(preview(items).items) for items in ([1, 2], [], sk.cycle("ab"))] == [2, 0, 5]
    assert str(preview([])).startswith("<list of 0>: 0 items")
    source = CountingSource(range(1_000))
    found = preview(sk.filter(lambda x: x % 2, source), 3)
    assert [step.value.text for step in found.items] == ["1", "3", "5"]
    assert source.reads.total() < 20


def test_a_loader_is_shown_by_its_view():
    loader = sk.DataLoader(np.arange(20), batch_size=4, shuffle=True, seed=0, num_workers=1)
    found = loader.preview(2)
    assert found.structure == "int64[4]"
    assert [step.value.text for step in found.items] == [str(batch.tolist()) for batch in loader.view[:2]]
    assert loader.epoch == 0
    loader.close()
    plain = sk.DataLoader(range(6), batch_size=2, sampler=[5, 4, 3, 2, 1, 0])
    assert preview(plain, 1).items[0].value.text == "[5, 4]"
    assert plain.explain() == sk.explain(plain)
    statuses = []
    assert len(list(plain.watch(statuses.append))) == statuses[-1].done == 3


def test_streams_are_refused_and_not_used_up():
    with pytest.raises(TypeError, match=r"preview: .* StreamLoader .* streams.* which displays itself"):
        StreamLoader([3, 5], range, 2).preview(2)
    streams = iter([3])
    with pytest.raises(ValueError, match=r"preview: .* is an iterator that cannot begin again"):
        StreamLoader(streams, range, 1).preview()
    assert next(streams) == 3


def test_wrong_arguments_are_refused_before_anything_is_read():
    for error, arguments in [
        (ValueError, {"n": 0}),
        (TypeError, {"n": "a"}),
        (TypeError, {"stages": 3}),
        (TypeError, {"max_seconds": "a"}),
    ]:
        with pytest.raises(error, match="preview: "):
            preview(ExplodingSource("abc"), **arguments)


def test_no_library_is_imported_for_displays():
    code = """if True:
        import sys
        import numpy as np, seqkit as sk
        before = {name.partition(".")[0] for name in sys.modules}
        view = sk.view(np.zeros((3, 20, 20), np.uint8))
        view.preview()._repr_html_(), view._repr_html_()
        added = {name.partition(".")[0] for name in sys.modules} - before
        assert not added & {"PIL", "pandas", "torch", "matplotlib", "IPython"}, added
    """
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
