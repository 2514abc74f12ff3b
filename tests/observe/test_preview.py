"""The first items as cards: what each kind of item shows, failing items, stages, epochs, budgets."""

import collections
import itertools
import subprocess
import sys
import zlib

import numpy as np
import pytest

import seqkit as sk
from seqkit.observe import preview
from seqkit.observe.picture import picture, png
from seqkit.observe.summary import summarise
from seqkit.streams import StreamLoader
from seqkit.testing import CountingSource, ExplodingSource

from .pages import page

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (28, 28), np.uint8)
HWC = RNG.integers(0, 256, (200, 300, 3), np.uint8)
CHW = RNG.random((3, 32, 48), np.float32)
WITH_NAN = np.where(np.eye(28, dtype=bool), np.nan, 0.5)
WITH_INF = np.array([1.0, np.inf, -np.inf, 2.0, 3.0, 4.0, 5.0, 6.0])
VAST = np.lib.stride_tricks.as_strided(np.ones(1, np.uint8), (1 << 20, 1 << 20), (0, 0))  # 1 TiB, of one byte
Point = collections.namedtuple("Point", ["x", "label"])


def tensor():
    return pytest.importorskip("torch").zeros(3, 32, 32, dtype=pytest.importorskip("torch").bfloat16)


def photo():
    from PIL import Image

    return Image.fromarray(HWC)


# Item, its structure, its text, and whether it has an image (img), a curve (svg) or none.
ITEMS = {
    "grey": (GREY, "uint8[28, 28]", "uint8[28, 28] 0 … 255, mean", "img"),
    "HWC": (HWC, "uint8[200, 300, 3]", "uint8[200, 300, 3] 0 … 255, mean", "img"),
    "CHW": (CHW, "float32[3, 32, 48]", "float32[3, 32, 48]", "img"),
    "mask": (np.eye(20) > 0, "bool[20, 20]", "bool[20, 20] 0 … 1, mean 0.05", "img"),
    "batch": (np.stack([HWC] * 3), "uint8[3, 200, 300, 3]", "uint8[3, 200, 300, 3]", "img"),
    "batch of CHW": (np.stack([CHW] * 12), "float32[12, 3, 32, 48]", "float32[12, 3, 32, 48]", "img"),
    "batch of grey": (np.stack([GREY] * 20), "uint8[20, 28, 28]", "uint8[20, 28, 28]", "img"),
    "four channels": (np.zeros((9, 9, 4), np.uint8), "uint8[9, 9, 4]", "uint8[9, 9, 4] 0 … 0, mean 0", "img"),
    "NaN": (WITH_NAN, "float64[28, 28]", "float64[28, 28] 0.5 … 0.5, mean 0.5 (28 NaN)", "img"),
    "masked": (
        np.ma.masked_array([1.0, 2.0, 4.0], [0, 1, 0]),
        "float64[3]",
        "float64[3] 1 … 4, mean 2.5 (1 masked)",
        "",
    ),
    "records": (
        np.zeros(2, [("a", "i4"), ("b", "f8")]),
        "record(a, b)[2]",
        "record(a, b)[2] [(0, 0.0), (0, 0.0)]",
        "",
    ),
    "all NaN": (np.full(9, np.nan), "float64[9]", "float64[9] (9 NaN)", ""),
    "infinite": (WITH_INF, "float64[8]", "float64[8] 1 … 6, mean 3.5 (2 infinite)", "svg"),
    "curves": (np.zeros((8, 200)), "float64[8, 200]", "float64[8, 200] 0 … 0, mean 0", "svg"),
    "labels": (np.arange(9), "int64[9]", "int64[9] [0, 1, 2, 3, 4, 5, 6, 7, 8]", ""),
    "curve": (np.arange(100.0), "float64[100]", "float64[100] 0 … 99, mean 49.5", "svg"),
    "long curve": (np.arange(100_000), "int64[100000]", "int64[100000] 0 … 1e+05, mean 5e+04", "svg"),
    "two channels": (np.zeros((2, 500)), "float64[2, 500]", "float64[2, 500] 0 … 0, mean 0", "svg"),
    "short": (np.array([3, 1]), "int64[2]", "int64[2] [3, 1]", ""),
    "small table": (np.zeros((3, 4)), "float64[3, 4]", "float64[3, 4] 0 … 0, mean 0", ""),
    "empty array": (np.zeros((0, 3)), "float64[0, 3]", "float64[0, 3]", ""),
    "array without dimensions": (np.array(3.0), "float64[]", "float64[] 3 … 3, mean 3", ""),
    "strings": (np.array(["a", "b"]), "<U1[2]", "<U1[2] ['a', 'b']", ""),
    "complex": (np.zeros(9, complex), "complex128[9]", "complex128[9]", ""),
    "tensor": (tensor(), "bfloat16[3, 32, 32]", "bfloat16[3, 32, 32] 0 … 0, mean 0", "img"),
    "Pillow": (photo(), "RGB image[200, 300, 3]", "RGB image[200, 300, 3] 0 … 255", "img"),
    "int": (3, "int", "3", ""),
    "float": (0.5, "float", "0.5", ""),
    "float NaN": (float("nan"), "float", "nan (NaN)", ""),
    "None": (None, "NoneType", "None", ""),
    "text": ("<b>hello</b>", "str", "'<b>hello</b>'", ""),
    "long text": ("word " * 1000, "str", "'word word", ""),
    "bytes": (b"\x00\x01", "bytes", r"b'\x00\x01'", ""),
    "dict": ({"image": GREY, "y": 3}, "image: uint8[28, 28], y: int", "{image: uint8[28, 28] 0 … 255", "img"),
    "tuple": ((GREY, 3), "(uint8[28, 28], int)", "(uint8[28, 28] 0 … 255", "img"),
    "named tuple": (Point(GREY, 3), "x: uint8[28, 28], label: int", "{x: uint8[28, 28] 0 … 255", "img"),
    "list": ([1, 2, 3], "list of 3 × int", "[1, 2, 3]", ""),
    "long list": (list(range(1000)), "list of 1000 × int", "[0, 1, 2", ""),
    "mixed list": ([1, "a"], "[int, str]", "[1, 'a']", ""),
    "nested": ({"a": {"b": (1, [2.0])}}, "a: {b: (int, list of 1 × float)}", "{a: {b: (1, [2.0])}}", ""),
    "empty": ({}, "dict", "empty", ""),
    "object": (object, "type", "<class 'object'>", ""),
}


@pytest.mark.parametrize("name", ITEMS)
def test_each_kind_of_item_has_a_structure_a_text_and_a_picture(name):
    item, structure, text, kind = ITEMS[name]
    found = preview([item])
    assert found.structure == structure
    assert found.items[0].value.line().startswith(text)
    assert f"[0]  {text}" in str(found)
    html = page(found._repr_html_())
    assert ("img" in html.tags, "svg" in html.tags) == (kind == "img", kind == "svg")
    assert len(found._repr_html_()) < 300_000


def pixels(data):
    """Return the pixels of a PNG file that is not filtered."""
    width, height, kind = (
        int.from_bytes(data[16:20]),
        int.from_bytes(data[20:24]),
        {0: 1, 2: 3, 6: 4}[data[25]],
    )
    size = int.from_bytes(data[33:37])
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + size]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, kind)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_png_file_holds_the_pixels(channels):
    import io

    from PIL import Image

    image = RNG.integers(0, 256, (5, 7, channels), np.uint8)
    assert np.array_equal(pixels(png(image)), image)
    opened = np.asarray(Image.open(io.BytesIO(png(image))))  # Pillow checks the sums
    assert np.array_equal(opened.reshape(image.shape), image)


def shown(array):
    import base64

    return pixels(base64.b64decode(picture(array).partition("base64,")[2].partition('"')[0]))


def test_floats_are_shares_of_white_and_others_are_spread():
    ramp = np.linspace(0, 1, 64).reshape(8, 8)
    assert shown(ramp / 2).max() == 128
    assert shown(ramp * 255).max() == 255
    assert (shown(ramp * 6 - 3).min(), shown(ramp * 6 - 3).max()) == (0, 255)
    assert shown(np.full((8, 8), 7.0)).shape == (8, 8, 1)


def test_large_images_become_means_of_squares():
    board = np.kron(np.indices((300, 400)).sum(0) % 2, np.ones((2, 2))).astype(np.uint8) * 200
    small = shown(board)
    assert small.shape == (85, 114, 1) or max(small.shape) <= 96
    assert abs(int(small.mean()) - 100) <= 3


def test_lengths_that_differ_are_a_range():
    images = [np.zeros((256, width, 3), np.uint8) for width in (256, 213, 230)]
    found = preview(sk.collate(image=images, label=np.arange(3)))
    assert found.structure == "image: uint8[256, 213–256, 3], label: int64"
    assert preview([1, "a", [1]]).structure == "int | str | list of 1 × int"
    assert preview([[1], [1, 2, 3]]).structure == "list of 1–3 × int"
    boxes = sk.smap(lambda i: [["cat", 0.9]] * i + [[]], range(9)).preview(3)
    assert boxes.structure == "list of 1–3 × (list | [str, float])"
    assert page(boxes._repr_html_())
    mixed = preview([[1, "a"], [1, "a", None], [2.0]])
    assert mixed.structure == "list of 1–3 × (int | str | NoneType | float)"
    assert preview([{"a": [1, "a"]}, {"a": ["a", 1]}]).structure == "a: [int | str, str | int]"


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
    assert path[-1].error == "ValueError: bad header <x>"
    assert f"[{bad}]  ✗ ValueError: bad header <x>  (batch[{bad}] → smap[{path[-1].index}])" in str(found)
    html = found._repr_html_()
    assert html.count("1px solid #d9534f") == 1
    assert "bad header <x>" in page(html).text


def test_all_items_may_fail():
    found = preview(sk.smap(failing, [2, 2]))
    assert found.structure == ""
    assert page(found._repr_html_())
    assert str(found).count("✗") == 2


def test_stages_show_the_value_after_each_function():
    view = sk.batch(
        sk.random_map(lambda x, rng: x + 0.5, sk.smap(lambda x: x * 10, sk.shuffle([5, 7], seed=0)), seed=1),
        2,
    )
    found = preview(view, stages=True)
    first = sk.shuffle([5, 7], seed=0)[0]
    lines = [line.split() for line in str(found).splitlines()[2:]]
    assert [line[0].partition("(")[0] for line in lines] == ["<list", "smap", "random_map", "batch"]
    assert [line[-1] for line in lines[:3]] == [str(first), str(10 * first), str(10 * first + 0.5)]
    html = page(found._repr_html_())
    assert html.text.count("→") == 3
    assert "flex-wrap:wrap" in found._repr_html_()  # no card lies beside the page


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


def test_lines_of_a_terminal_are_cut_at_its_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    items = sk.smap(lambda i: {f"column {k}": "word " * 9 for k in range(12)}, range(3))
    for found in (preview(items), items.batch(3).trace(0), preview(items, stages=True)):
        assert max(map(len, str(found).splitlines())) == 60


def test_epochs_are_shown_below_each_other():
    view = sk.random_map(lambda x, rng: rng.random(), range(9), seed=0)
    found = preview(view, 3, epochs=(0, 1))
    texts = [[step.value.text for step in steps] for _, steps in found.rows]
    assert texts == [[str(x) for x in view.at_epoch(epoch).head(3)] for epoch in (0, 1)]
    assert "epoch 1" in str(found)
    assert "epoch 1" in page(found._repr_html_()).text


def test_random_values_are_those_of_the_view():
    view = sk.batch(sk.random_map(lambda x, rng: rng.random(), sk.shuffle(range(9), seed=1), seed=0), 3)
    assert [step.value.line() for step in preview(view).items] == [
        "[" + ", ".join(map(str, batch)) + "]" for batch in view
    ]


def test_a_node_starts_no_workers_and_a_cache_keeps_nothing():
    source = CountingSource(range(10))
    with sk.prefetch(sk.add_cache(source, 10), 2, "process") as node:
        preview(node, 2)
        assert sk.explain(node).lines[0].notes[1] == "idle"
    cache = sk.add_cache(source, 10)
    preview(cache, 2)
    assert "0 items kept" in sk.explain(cache)
    list(cache.head(2))
    before = source.reads.total()
    preview(cache, 2)
    assert source.reads.total() == before
    preview(cache, 2, stages=True)
    assert source.reads.total() > before


def test_displaying_computes_nothing():
    calls = []
    found = preview(sk.smap(lambda x: calls.append(x), range(5)))
    assert len(calls) == 5
    for _ in range(3):
        str(found), repr(found), found._repr_html_()
    assert len(calls) == 5


def test_the_budget_of_time_ends_the_preview(monkeypatch):
    clock = itertools.count().__next__  # a second passes at each look at the clock
    monkeypatch.setattr(sys.modules["seqkit.observe.preview"], "perf_counter", clock)
    found = preview(range(100), 50, max_seconds=10)
    assert 1 <= len(found.items) <= 10
    assert found.is_cut
    assert "The budget is used up" in str(found)
    assert len(preview(range(100), 50, max_seconds=0.5).items) == 1
    assert not preview(range(100), 50, max_seconds=None).is_cut


def test_a_preview_may_be_shorter_than_asked():
    assert len(preview([1, 2], 5).items) == 2
    assert not preview([1, 2], 5).is_cut
    assert str(preview([])).startswith("<list of 0>: 0 items")
    assert len(preview(sk.cycle("ab"), 3).items) == 3


def test_a_view_of_unknown_length_is_read_from_the_start():
    source = CountingSource(range(1_000))
    found = preview(sk.filter(lambda x: x % 2, source), 3)
    assert [step.value.text for step in found.items] == ["1", "3", "5"]
    assert source.reads.total() < 20


def test_a_loader_is_previewed_by_its_view():
    loader = sk.DataLoader(np.arange(20), batch_size=4, shuffle=True, seed=0, num_workers=1)
    found = preview(loader, 2)
    assert found.structure == "int64[4]"
    assert [step.value.text for step in found.items] == [
        str(list(b)) for b in map(np.ndarray.tolist, loader.view[:2])
    ]
    assert loader.epoch == 0
    loader.close()
    in_order = sk.DataLoader(range(6), batch_size=2, sampler=[5, 4, 3, 2, 1, 0])
    assert preview(in_order, 1).items[0].value.text == "[5, 4]"


def test_a_stream_loader_is_refused_with_another_way():
    with pytest.raises(TypeError, match=r"preview: .* StreamLoader .* streams.* which displays itself"):
        StreamLoader([3, 5], range, 2).preview(2)


def test_streams_that_cannot_begin_again_are_not_used_up():
    streams = iter([3])
    with pytest.raises(ValueError, match=r"preview: .* is an iterator that cannot begin again"):
        StreamLoader(streams, range, 1).preview()
    assert next(streams) == 3


def test_loaders_have_the_methods_of_views():
    loader = sk.DataLoader(np.arange(6), batch_size=2)
    assert loader.preview(2).structure == "int64[2]"
    assert loader.trace(1).sources() == {"<ndarray of 6>": [2, 3]}
    assert loader.explain() == sk.explain(loader)
    shown = []
    assert len(list(loader.watch(shown.append))) == 3
    assert shown[-1].done == 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"n": 0}, ValueError),
        ({"n": "a"}, TypeError),
        ({"stages": 3}, TypeError),
        ({"epochs": [-1]}, ValueError),
        ({"max_seconds": "a"}, TypeError),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_read(arguments, error):
    with pytest.raises(error, match="preview: "):
        preview(ExplodingSource("abc"), **arguments)


def test_preview_is_a_method_and_data():
    found = sk.smap(str, range(3)).preview(2)
    assert found.structure == "str"
    assert [item.value.text for item in found.items] == ["'0'", "'1'"]


def test_no_library_is_imported_for_pictures():
    code = """if True:
        import sys
        import numpy as np, seqkit as sk
        sk.view(np.zeros((3, 20, 20), np.uint8)).preview()._repr_html_()
        assert not {"PIL", "pandas", "torch", "matplotlib", "IPython"} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_part_of_a_vast_array_is_looked_at():
    summary = summarise(VAST)
    assert summary.line() == "uint8[1048576, 1048576] 1 … 1, mean 1, of its begin"
