"""What is special about `arange`: it is a range in every respect."""

from itertools import product

import numpy as np
import pytest

from seqkit.testing.reading import some_slices
from seqkit.views.arange import arange

ARGUMENTS = [(n,) for n in range(-2, 5)]
ARGUMENTS += list(product(range(-4, 5, 2), range(-4, 5, 2)))
ARGUMENTS += list(product((-5, 0, 4), (-6, 0, 7), (-7, -3, -1, 1, 2, 13)))


def outcome(read):
    try:
        return read()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_it_has_the_items_and_the_length_of_the_range(arguments):
    numbers = range(*arguments)
    view = arange(*arguments)
    assert len(view) == len(numbers)
    assert list(view) == list(numbers)
    assert list(reversed(view)) == list(reversed(numbers))


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_every_index_gives_what_the_range_gives_or_refuses(arguments):
    numbers = range(*arguments)
    view = arange(*arguments)
    for i in range(-len(numbers) - 3, len(numbers) + 3):
        assert outcome(lambda i=i: view[i]) == outcome(lambda i=i: numbers[i])
    for key in (1.0, "0", None, (0,)):
        assert outcome(lambda key=key: view[key]) is outcome(lambda key=key: numbers[key]) is TypeError


@pytest.mark.parametrize("arguments", [(4,), (0,), (3, -4, -2), (-5, 7, 3)], ids=str)
def test_every_slice_is_the_slice_of_the_range(arguments):
    numbers = range(*arguments)
    view = arange(*arguments)
    for key in some_slices(len(numbers), 10_000):
        part = view[key]
        assert len(part) == len(numbers[key])
        assert list(part) == list(numbers[key])
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        view[::0]


def test_items_are_python_ints_however_they_are_read():
    view = arange(0, 100, 7)
    items = [
        view[3],
        next(iter(view)),
        *view._getmany(np.array([1, 2])),
        *view._getmany(range(3)),
        *view[[5]],
    ]
    assert {type(item) for item in items} == {int}
    assert {type(item) for item in view._iter(np.array([1, 2]))} == {int}


def test_ints_of_any_kind_are_arguments_and_others_are_not():
    assert list(arange(np.int64(2), np.array(5), np.uint8(2))) == [2, 4]
    for arguments in ((1.0,), ("3",), (None,), (0, 2.5), (0, 3, 1.0)):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            arange(*arguments)


def test_a_step_of_zero_is_refused_at_once():
    with pytest.raises(ValueError, match="must not be zero"):
        arange(0, 5, 0)


def test_indices_out_of_range_fail_when_they_are_read():
    picked = arange(5)[[4, 5]]
    assert picked[0] == 4
    with pytest.raises(IndexError, match=r"indexes\[1\] is 5, outside \[-5, 5\)"):
        picked[1]
    beyond = arange(5)._take(range(3, 7))
    assert beyond[1] == 4
    with pytest.raises(IndexError, match="is 5, outside"):
        beyond[2]


def test_it_cannot_be_written_to():
    with pytest.raises(TypeError, match="range does not support assignment"):
        arange(3)[0] = 1
