"""Displays of functions, data sets and values whose attributes and methods fail or lie."""

import collections.abc
import functools
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest
from PIL import Image

import seqkit as sk
from seqkit.core.expression import name_of
from seqkit.observe.summary import summarise

from .pages import page

torch = pytest.importorskip("torch")


def failing(self, *rest):
    raise ValueError("not open")


class Failing:
    """A callable of which each unknown attribute fails."""

    def __getattr__(self, name):
        raise KeyError(name)

    def __call__(self, x):
        return x


class NamedThree(Failing):
    __name__ = 3
    __code__ = "no code"


class FailingName(Failing):
    __name__ = property(failing)


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (Mock(return_value=1), "Mock"),
        (MagicMock(return_value=1), "MagicMock"),
        (Failing(), "Failing"),
        (NamedThree(), "3"),
        (FailingName(), "FailingName"),
        (functools.partial(failing), "failing"),
        (functools.partial(Mock(return_value=1)), "Mock"),
    ],
    ids=range(7),
)
def test_any_callable_is_drawn(function, shown):
    assert name_of(function) == shown
    view = sk.smap(function, range(3))
    for found in (sk.explain(view), view.preview(2), view.trace(1)):
        assert f"smap({shown})" in str(found)
        assert f"smap({shown})" in page(found._repr_html_()).text


class Data:
    """A data set."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return i


class FailingProperties(Data):
    shape = dtype = path = filename = base = file = nbytes = property(failing)


class WrongProperties(Data):
    path = (object(),)
    nbytes = "many"
    shape = (object(), None)
    dtype = filename = 3


@pytest.mark.parametrize("data", [FailingProperties(), WrongProperties()], ids=type)
def test_any_data_set_is_drawn(data):
    drawn = sk.explain(sk.batch(data, 2))
    assert f"<{type(data).__name__} of 3>" in drawn
    assert page(drawn._repr_html_())


# -------------------------------------------------------------------- values


class FailingClass:
    __class__ = property(failing)


class FailingText:
    __str__ = __repr__ = failing


class FailingShape:
    dtype, shape, __array__ = "float", property(failing), failing


class Lazy(collections.abc.Mapping):
    """A mapping that reads its parts one by one."""

    def __init__(self, n, bad=None):
        self.n, self.bad, self.reads = n, bad, []

    def __len__(self):
        return self.n

    def __iter__(self):
        return iter(range(self.n))

    def __getitem__(self, key):
        self.reads.append(key)
        return key if key != self.bad else failing(self)


WITHIN_ITSELF = [1]
WITHIN_ITSELF.append(WITHIN_ITSELF)
LARGE = np.full((9, 9), 1.7e308) * np.eye(9) - 1e308


@pytest.mark.filterwarnings("error")
def test_any_value_is_a_card(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.array([{}, None]))
    for value, text in [
        (FailingClass(), "FailingClass"),
        ({FailingText(): 3}, "{<FailingText>: 3}"),
        (FailingText(), "<FailingText>"),
        (FailingShape(), "FailingShape"),
        (Mock(spec=dict), "Mock"),
        (Mock(), "<Mock"),
        (10**5000, "int"),
        (np.eye(9).view(np.matrix), "float64[9, 9] 0 … 1, mean 0.1111"),
        (np.array([[1, 2]]).view(np.matrix), "int64[1, 2] 1 … 2, mean 1.5"),
        (WITHIN_ITSELF, "[1, [1, [1, "),
        (Lazy(3, bad=1), "Lazy"),
        (np.ma.masked_all(9), "float64[9] (9 masked)"),
        (np.array([-1.7e308, 1.7e308] * 9), "float64[18] -1.7e+308 … 1.7e+308"),
        (LARGE, "float64[9, 9] -1e+308 … 7e+307"),
        (np.full(9, np.longdouble("1e4000")), f"{np.dtype(np.longdouble)}[9] inf … inf"),
        (np.load(tmp_path / "a.npz"), "NpzFile"),
    ]:
        for found in (sk.preview([value]), sk.smap(lambda x: x, [value]).trace(0)):
            assert text[:30] in str(found)
            assert page(found._repr_html_())
        assert sk.preview([value]).items[0].value.line().startswith(text)
        if hasattr(value, "close"):
            value.close()


def test_parts_that_are_not_shown_are_not_read():
    lazy = Lazy(1_000)
    assert "… 1,000 parts" in sk.preview([lazy]).items[0].value.line()
    assert lazy.reads == list(range(12))


def nested(levels, n=12):
    return [nested(levels - 1, n) for _ in range(n)] if levels else 1.0


def test_nested_values_and_long_names_have_short_displays():
    long_texts = [["x" * 300] * 12] * 12
    for value in (nested(4), nested(2), nested(60, 1), {"k" * 2_000_000: 1}, {"a": nested(3)}, long_texts):
        found = sk.preview([value])
        assert len(str(found)) < 3_000
        assert len(found._repr_html_()) < 150_000
        assert page(found._repr_html_())


ODD = "a\x1b[2J\u202eb\ud800\nc"


@pytest.mark.parametrize("kind", ["key", "object", "function", "error", "file"])
def test_invisible_characters_are_escaped(kind):
    class Odd(Data):
        path = ODD

        def __repr__(self):
            return ODD

    def f(x):
        if kind == "error":
            raise ValueError(ODD)
        return {"key": {ODD: 1}, "object": Odd()}.get(kind, x)

    f.__name__ = ODD if kind == "function" else "f"
    view = sk.smap(f, Odd() if kind == "file" else [1, 2])
    for found in (view.preview(1), view.trace(0), sk.explain(view)):
        for text in (str(found), found._repr_html_()):
            text.encode()
            assert all(x.isprintable() or x == "\n" for x in text)
            assert kind not in ("key", "function") or r"b\ud800\nc" in text or isinstance(found, str)


# -------------------------------------------------------------------- large arrays


class OnDisk:
    """An array in a file, which counts the elements that are read."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.read = values, values.shape, values.dtype, 0

    def __array__(self, dtype=None, copy=None):
        self.read += self.values.size
        return self.values


def test_an_array_that_is_larger_than_memory_is_not_read():
    array = OnDisk(np.lib.stride_tricks.as_strided(np.ones(1), (1 << 13, 1 << 14), (0, 0)))
    summary = summarise(array)
    assert (summary.line(), summary.nbytes) == ("float64[8192, 16384]", 1 << 30)
    assert (array.read, summary.picture) == (0, "")


@pytest.mark.parametrize("shape", [(32, 3, 224, 224), (100, 224, 224), (3, 1200, 1200)])
def test_large_batches_of_images_have_a_picture(shape):
    assert "img" in summarise(OnDisk(np.zeros(shape, np.uint8))).picture
    assert "img" in summarise(torch.zeros(shape, dtype=torch.bfloat16)).picture


def test_images_of_pillow_are_measured_as_they_are():
    eye, wide = np.eye(9).astype(np.uint8) * 255, np.eye(9) * 5000
    for image, text in [
        (Image.fromarray(wide.astype(np.uint16)), "I;16 image[9, 9] 0 … 5000, mean 555.6"),
        (Image.fromarray(wide.astype(np.int32)), "I image[9, 9] 0 … 5000, mean 555.6"),
        (Image.fromarray(wide.astype(np.float32)), "F image[9, 9] 0 … 5000, mean 555.6"),
        (Image.fromarray(eye).convert("1"), "1 image[9, 9] 0 … 1, mean 0.1111"),
        (Image.fromarray(eye), "L image[9, 9] 0 … 255, mean"),
        (Image.fromarray(eye).convert("P"), "P image[9, 9] 0 … "),
        (Image.fromarray(eye).convert("CMYK"), "CMYK image[9, 9, 4] 0 … 255"),
    ]:
        assert summarise(image).line().startswith(text)
        assert "img" in summarise(image).picture
    assert summarise(Image.fromarray(np.full((9, 9), np.nan, np.float32))).alarm == "81 NaN"
