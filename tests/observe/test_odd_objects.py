"""Displays of functions, data sets and values whose attributes and methods fail or lie."""

import functools
from unittest.mock import MagicMock, Mock

import pytest

import seqkit as sk
from seqkit.core.view import name_of

from .pages import page


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


class FailingData(Data, Failing):
    """A data set of which each unknown attribute fails."""


class FailingProperties(Data):
    @property
    def shape(self):
        raise ValueError("not open")

    dtype = columns = path = filename = base = file = nbytes = column_names = shape


class WrongProperties(Data):
    columns = 7
    path = [object()]
    nbytes = "many"
    shape = (object(), None)
    dtype = filename = 3


@pytest.mark.parametrize("data", [FailingData(), FailingProperties(), WrongProperties()], ids=repr)
def test_any_data_set_is_drawn(data):
    view = sk.batch(data, 2)
    assert f"<{type(data).__name__} of 3>" in sk.explain(view)
    assert page(sk.explain(view)._repr_html_())
