"""What arguments may be, and who refuses the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqkit.checks import (
    as_bool,
    check_callable,
    check_sequences,
    int_at_least,
    optional_int,
    optional_number,
    positive_int,
)

from .views.helpers import says


@pytest.mark.parametrize("value", [3, np.int16(3), np.array(3)])
def test_any_kind_of_int_is_accepted(value: Any) -> None:
    assert type(positive_int(value, "batch: k")) is int


@pytest.mark.parametrize("value", [True, np.True_, 1.0, "1", None, [1]])
def test_other_types_than_ints_are_refused(value: Any) -> None:
    with says(TypeError, f"batch: k must be a positive int, got {value!r}"):
        positive_int(value, "batch: k")


def test_ints_too_small_are_refused() -> None:
    with says(ValueError, "cycle: limit must be an int of at least 0, got -1"):
        int_at_least(-1, "cycle: limit", 0)


def test_none_and_other_values_can_be_allowed() -> None:
    assert optional_int(None, "cycle: limit") is None
    with says(ValueError, "cycle: limit must be a positive int or None, got 0"):
        optional_int(0, "cycle: limit")
    with says(TypeError, "prefetch: chunk_size must be a positive int or 'auto', got 'all'"):
        positive_int("all", "prefetch: chunk_size", other=" or 'auto'")


@pytest.mark.parametrize("value", [2, 0.5, np.float32(0.5), np.int8(2)])
def test_any_kind_of_number_above_0_is_accepted(value: Any) -> None:
    number = optional_number(value, "debug: max_rate", "calls per second")
    assert type(number) is float
    assert number == value


@pytest.mark.parametrize(
    ("value", "kind"),
    [(0, ValueError), (-1.5, ValueError), (float("nan"), ValueError), (True, TypeError), ("2", TypeError)],
)
def test_other_numbers_are_refused(value: Any, kind: type[Exception]) -> None:
    with says(kind, f"debug: max_rate must be a number of calls above 0 or None, got {value!r}"):
        optional_number(value, "debug: max_rate", "calls")


def test_bools_of_numpy_are_bools() -> None:
    assert as_bool(np.True_, "shard: contiguous") is True


@pytest.mark.parametrize("value", [0, 1, None, "no", [True], np.array([True])])
def test_values_that_count_as_true_or_false_are_no_bools(value: Any) -> None:
    with says(TypeError, f"shard: contiguous must be a bool, got {value!r}"):
        as_bool(value, "shard: contiguous")


def test_classes_and_objects_that_can_be_called_are_callable() -> None:
    check_callable(int, "smap: f")
    check_callable(np.random.default_rng(0).normal, "smap: f")


def test_a_callable_may_be_left_out_where_it_is_optional() -> None:
    check_callable(None, "batch: collate_fn", optional=True)
    with says(TypeError, "smap: f must be callable, got None"):
        check_callable(None, "smap: f")
    with says(TypeError, "batch: collate_fn must be callable or None, got 3"):
        check_callable(3, "batch: collate_fn", optional=True)


@pytest.mark.parametrize("value", [5, None, {"x": "ab"}])
def test_sequences_must_be_an_iterable_and_not_a_mapping(value: Any) -> None:
    check_sequences(iter(["ab"]), "mix: sequences")
    with says(TypeError, f"mix: sequences must be an iterable of sequences, got {value!r}"):
        check_sequences(value, "mix: sequences")
