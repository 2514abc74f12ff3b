"""Displays of functions, data sets and values whose attributes and methods fail or lie."""

import collections.abc
import functools
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest
from PIL import Image

import seqkit as sk
from seqkit.core.view import name_of
from seqkit.observe.summary import summarise

from .pages import page

torch = pytest.importorskip("torch")


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
    @property
    def __name__(self):
        raise ValueError("no name")


def a_function(x):
    return x


FUNCTIONS = {
    "Mock": (Mock(return_value=1), "Mock"),
    "MagicMock": (MagicMock(return_value=1), "MagicMock"),
    "failing attributes": (Failing(), "Failing"),
    "a number as a name": (NamedThree(), "NamedThree"),
    "a failing name": (FailingName(), "FailingName"),
    "partial": (functools.partial(a_function), "a_function"),
    "partial of a Mock": (functools.partial(Mock(return_value=1)), "Mock"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_callable_is_drawn(name):
    function, shown = FUNCTIONS[name]
    assert name_of(function) == shown
    view = sk.smap(function, range(3))
    assert repr(view).startswith(f"smap({shown}")
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
    @property
    def shape(self):
        raise ValueError("not open")

    dtype = columns = path = filename = base = file = nbytes = column_names = shape


class WrongProperties(Data):
    columns = 7
    path = (object(),)
    nbytes = "many"
    shape = (object(), None)
    dtype = filename = 3


@pytest.mark.parametrize("data", [FailingProperties(), WrongProperties()], ids=type)
def test_any_data_set_is_drawn(data):
    view = sk.batch(data, 2)
    assert f"<{type(data).__name__} of 3>" in sk.explain(view)
    assert page(sk.explain(view)._repr_html_())


# -------------------------------------------------------------------- values


class FailingClass:
    @property
    def __class__(self):
        raise ValueError("no class")


class FailingText:
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


class FailingShape:
    dtype = "float"

    def __array__(self):
        raise ValueError("closed")

    @property
    def shape(self):
        raise ValueError("closed")


class Lazy(collections.abc.Mapping):
    """A mapping that reads its parts one by one."""

    def __init__(self, n):
        self.n, self.reads = n, []

    def __len__(self):
        return self.n

    def __iter__(self):
        return iter(range(self.n))

    def __getitem__(self, key):
        self.reads.append(key)
        if key == 1:
            raise ValueError("an object array")
        return key


def within_itself():
    found = [1]
    found.append(found)
    return found


VALUES = {
    "raises __class__": (FailingClass(), "FailingClass"),
    "raises __str__": ({FailingText(): 3}, "{<FailingText>: 3}"),
    "raises __repr__": (FailingText(), "<FailingText instance"),
    "raises shape": (FailingShape(), "<"),
    "Mock of a dict": (Mock(spec=dict), "Mock"),
    "Mock": (Mock(), "<Mock"),
    "many digits": (10**5000, "int"),
    "matrix": (np.eye(9).view(np.matrix), "float64[9, 9] 0 … 1, mean 0.1111"),
    "matrix of integers": (np.array([[1, 2]]).view(np.matrix), "int64[1, 2] 1 … 2, mean 1.5"),
    "within itself": (within_itself(), "[1, [1, [1, "),
    "lazy": (Lazy(3), "{0: 0, 1: ValueError('an object array') (cannot be read), 2: 2}"),
    "fully masked": (np.ma.masked_all(9), "float64[9] (9 masked)"),
    "large floats": (np.array([-1.7e308, 1.7e308] * 9), "float64[18] -1.7e+308 … 1.7e+308"),
    "large image": (np.full((9, 9), 1.7e308) * np.eye(9) - 1e308, "float64[9, 9] -1e+308 … 7e+307"),
    "long floats": (np.full(9, np.longdouble("1e4000")), f"{np.dtype(np.longdouble)}[9] inf … inf"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", VALUES)
def test_any_value_is_a_card(name):
    value, text = VALUES[name]
    for found in (sk.preview([value]), sk.smap(lambda x: x, [value]).trace(0)):
        assert text in str(found)
        assert page(found._repr_html_())
    assert sk.preview([value]).items[0].value.line().startswith(text)


def test_a_file_of_arrays_with_objects_is_a_card(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.array([{}, None]))
    with np.load(tmp_path / "a.npz") as file:
        text = sk.preview([file]).items[0].value.line()
    assert text.startswith("{x: int64[3] [0, 1, 2], y: ValueError(")


def test_parts_that_are_not_shown_are_not_read():
    lazy = Lazy(1_000)
    assert "… 1,000 parts" in sk.preview([lazy]).items[0].value.line()
    assert lazy.reads == list(range(12))


def nested(levels, n=12):
    return [nested(levels - 1, n) for _ in range(n)] if levels else 1.0


@pytest.mark.parametrize(
    "value",
    [nested(4), nested(2), nested(60, 1), {"k" * 2_000_000: 1}, {"a": nested(3)}, [["x" * 300] * 12] * 12],
    ids=range(6),
)
def test_nested_values_and_long_names_have_short_displays(value):
    found = sk.preview([value])
    assert len(str(found)) < 3_000
    assert len(found._repr_html_()) < 150_000
    assert page(found._repr_html_())


ODD = "a\x1b[2J\u202eb\ud800\nc"


@pytest.mark.parametrize("kind", ["key", "object", "function", "error", "file"])
def test_invisible_characters_are_escaped(kind):
    class Odd:
        def __repr__(self):
            return ODD

    def f(x):
        if kind == "error":
            raise ValueError(ODD)
        return {"key": {ODD: 1}, "object": Odd()}.get(kind, x)

    f.__name__ = ODD if kind == "function" else "f"
    source = [1, 2]
    if kind == "file":
        source = Data()
        source.path = ODD
    view = sk.smap(f, source)
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

    @property
    def ndim(self):
        return self.values.ndim

    size = property(lambda self: self.values.size)

    def __array__(self, dtype=None, copy=None):
        self.read += self.values.size
        return self.values

    def __getitem__(self, key):
        found = self.values[key]
        self.read += found.size
        return found


@pytest.mark.parametrize("shape", [(1 << 25,), (1 << 12, 1 << 13), (2, 1 << 24), (1 << 10, 1, 1 << 15)])
def test_of_an_array_on_disk_a_part_is_read(shape):
    array = OnDisk(np.lib.stride_tricks.as_strided(np.ones(1), shape, (0,) * len(shape)))
    summary = summarise(array)
    assert summary.line().endswith(" 1 … 1, mean 1, of its begin")
    assert summary.nbytes == 1 << 28
    assert 1 << 20 < array.read <= 1 << 22
    assert ("svg" in summary.picture) == (len(shape) == 1)


@pytest.mark.parametrize("shape", [(32, 3, 224, 224), (100, 224, 224), (3, 1200, 1200)])
def test_large_batches_of_images_have_a_picture(shape):
    array = OnDisk(np.zeros(shape, np.uint8))
    assert ("img" in summarise(array).picture) == (shape[0] > 3)
    assert array.read <= 1 << 23
    assert ("img" in summarise(torch.zeros(shape, dtype=torch.bfloat16)).picture) == (shape[0] > 3)


MODES = {
    "I;16": ("I;16 image[9, 9] 0 … 5000, mean 555.6", "img"),
    "I": ("I image[9, 9] 0 … 5000, mean 555.6", "img"),
    "F": ("F image[9, 9] 0 … 5000, mean 555.6", "img"),
    "1": ("1 image[9, 9] 0 … 1, mean 0.1111", "img"),
    "L": ("L image[9, 9] 0 … 255, mean", "img"),
    "P": ("P image[9, 9] 0 … ", "img"),
    "CMYK": ("CMYK image[9, 9, 4] 0 … 255", "img"),
}


@pytest.mark.parametrize("mode", MODES)
def test_images_of_pillow_are_measured_as_they_are(mode):
    text, kind = MODES[mode]
    values = np.eye(9) * 5000
    if mode == "I;16":
        image = Image.fromarray(values.astype(np.uint16))
    elif mode in ("I", "F"):
        image = Image.fromarray(values.astype(np.int32 if mode == "I" else np.float32))
    else:
        image = Image.fromarray(np.eye(9).astype(np.uint8) * 255).convert(mode)
    summary = summarise(image)
    assert summary.line().startswith(text)
    assert kind in summary.picture


def test_nan_in_an_image_of_pillow_is_an_alarm():
    assert summarise(Image.fromarray(np.full((9, 9), np.nan, np.float32))).alarm == "81 NaN"
