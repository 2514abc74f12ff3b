"""`starmap`."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import seqkit as sk

from ..helpers import FailsAt, agree_after_errors


def test_starmap_unpacks_tuples_lists_and_mappings() -> None:
    assert list(sk.starmap(pow, [(2, 3), [3, 2]])) == [8, 9]
    assert sk.starmap(lambda a, b: a - b, [{"b": 1, "a": 5}])[0] == 4
    assert list(sk.starmap(max, np.array([[1, 5], [7, 2]]))) == [5, 7]


def test_starmap_pickles() -> None:
    view = pickle.loads(pickle.dumps(sk.starmap(pow, [(2, 3)])))
    assert view[0] == 8


def test_an_item_that_cannot_be_unpacked_is_an_error_of_that_item() -> None:
    found = agree_after_errors(sk.starmap(max, [(1, 2), 3, (4, 5)]))
    assert (found[0], found[1].kind, found[2]) == (2, sk.EvaluationError, 5)


def test_views_and_errors_are_named_after_starmap() -> None:
    assert repr(sk.starmap(FailsAt(), [(1,)])) == "starmap(FailsAt, <list of 1>)"
    assert repr(sk.starmap(pow, [(1, 2)])) == "starmap(pow, <list of 1>)"
    view = sk.starmap(pow, [(0, -1)])
    for same in (view, pickle.loads(pickle.dumps(view))):
        with pytest.raises(sk.EvaluationError, match=r"starmap\[0\] failed"):
            same[0]
