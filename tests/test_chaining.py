"""Method chaining: the same functions, attached to every view."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import seqkit as sk

METHODS = sorted(
    name for name in sk.__all__ if inspect.isfunction(getattr(sk, name)) and hasattr(sk.View, name)
)


def test_a_pipeline_reads_from_left_to_right() -> None:
    view: Any = sk.view([3, 1, 2])
    chained = view.smap(str).shuffle(seed=0).batch(2)
    assert list(chained) == list(sk.batch(sk.shuffle(sk.smap(str, [3, 1, 2]), seed=0), 2))
    assert repr(chained) == repr(sk.batch(sk.shuffle(sk.smap(str, [3, 1, 2]), seed=0), 2))


def test_further_sequences_follow_the_view() -> None:
    view: Any = sk.view([1, 5])
    assert list(view.smap(max, [4, 4])) == [4, 5]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_which_function_it_is(name: str) -> None:
    method = getattr(sk.View, name)
    assert method.__name__ == name
    assert f"seqkit.{name}" in (method.__doc__ or "")


def test_functions_of_a_sequence_are_methods() -> None:
    assert {"batch", "gather", "prefetch", "random_map", "shuffle", "smap", "starmap", "unbatch"} <= {
        *METHODS
    }


def test_a_view_is_made_at_the_line_of_the_call() -> None:
    view: Any = sk.view([0])
    with pytest.raises(sk.EvaluationError, match=r"smap made at .*test_chaining\.py"):
        view.smap(lambda x: 1 / x)[0]
