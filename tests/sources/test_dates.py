"""Dates, times and durations of every library of tables: the same values as the library's own, or refused.

A value is refused only if the objects that the library makes of it would lose nanoseconds.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

import seqkit as sk

pa = pytest.importorskip("pyarrow")

SECOND = 1_700_000_000_123_456  # in microseconds
NOON = 43_200_000_001
# Type of Arrow, and a value in its unit.
COLUMNS: dict[str, tuple[Any, int]] = {
    "days": (pa.date32(), 19_000),
    "dates": (pa.timestamp("us"), SECOND),
    "dates in seconds": (pa.timestamp("s"), SECOND // 1_000_000),
    "dates in nanoseconds": (pa.timestamp("ns"), SECOND * 1000),
    "dates with nanoseconds": (pa.timestamp("ns"), SECOND * 1000 + 1),
    "dates of a zone": (pa.timestamp("us", "Europe/Oslo"), SECOND),
    "dates of a zone in nanoseconds": (pa.timestamp("ns", "Europe/Oslo"), SECOND * 1000),
    "dates of a zone with nanoseconds": (pa.timestamp("ns", "Europe/Oslo"), SECOND * 1000 + 1),
    "times": (pa.time64("us"), NOON),
    "times in nanoseconds": (pa.time64("ns"), NOON * 1000),
    "times with nanoseconds": (pa.time64("ns"), NOON * 1000 + 1),
    "durations": (pa.duration("us"), NOON),
    "durations in nanoseconds": (pa.duration("ns"), NOON * 1000),
    "durations with nanoseconds": (pa.duration("ns"), NOON * 1000 + 1),
}


def column_of(name: str) -> Any:
    kind, value = COLUMNS[name]
    return pa.array([value, value], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)


def arrow(table: Any) -> Any:
    return table


def pandas(table: Any) -> Any:
    return table.to_pandas()


def pandas_arrow(table: Any) -> Any:
    return table.to_pandas(types_mapper=importlib.import_module("pandas").ArrowDtype)


def polars(table: Any) -> Any:
    return importlib.import_module("polars").from_arrow(table)


def huggingface(table: Any) -> Any:
    return importlib.import_module("datasets").Dataset(table)


def of_its_own(make: Any, made: Any) -> Any:
    """Return the first date as the library returns it."""
    return made["t"][0].as_py() if make is arrow else made["t"][0]


LIBRARIES = {arrow: "pyarrow", pandas: "pandas", pandas_arrow: "pandas", polars: "polars"}
LIBRARIES[huggingface] = "datasets"
READS: dict[str, Callable[[Any], list[Any]]] = {
    "view": lambda table: [*map(sk.view(table).__getitem__, range(2))],
    "batch": lambda table: list(sk.batch(table, 2)[0]),
    "loader": lambda table: next(iter(sk.DataLoader(table, 2, num_workers=0, collate_fn=list))),
    "materialize": lambda table: list(sk.materialize(table)),
    "column": lambda table: [{"t": value, "x": 1} for value in sk.view(table["t"])],
    "batch of a column": lambda table: [{"t": value, "x": 1} for value in sk.batch(table["t"], 2)[0]],
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("make", LIBRARIES, ids=lambda make: make.__name__)
def test_dates_are_the_values_of_the_library(make: Any, name: str) -> None:
    pytest.importorskip(LIBRARIES[make])
    is_time_with_ns = name == "times with nanoseconds"
    if make is pandas and is_time_with_ns:
        return  # pandas refuses it
    made = make(pa.table({"t": column_of(name), "x": [1, 1]}))
    loses = is_time_with_ns and make in (arrow, polars)
    loses = loses or (make is polars and name.endswith("with nanoseconds"))
    expected = None if loses else of_its_own(make, made)
    for read in READS:
        if loses:
            with pytest.raises(sk.EvaluationError, match=r"\bt\b|lose data"):
                READS[read](made)
            continue
        for row in READS[read](made):
            assert row == {"t": expected, "x": 1}, read
            assert type(row["t"]) is type(expected), read
            assert getattr(row["t"], "nanosecond", 0) == getattr(expected, "nanosecond", 0), read


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Oslo"])
def test_dates_of_pandas_in_every_unit(unit: Any, zone: str | None) -> None:
    pd = pytest.importorskip("pandas")
    dates = pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02"]).as_unit(unit), name="t").dt.tz_localize(
        zone
    )
    rows = sk.smap(lambda row: row["t"], dates.to_frame())
    for found in (list(rows), list(sk.view(dates)), [*sk.batch(dates, 2)[0]]):
        assert [(time, time.unit) for time in found] == [(time, unit) for time in dates]
