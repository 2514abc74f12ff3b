"""Outcomes and the record of an error: whatever is raised arrives, at least as text."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqkit as sk
from seqkit.prefetch.results import Outcomes, Record, RemoteError, RemoteTraceback, collect


class TwoArguments(Exception):
    """Pickles, but cannot be built again from its text alone."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NotText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class Unreducible(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("no pickle")


class Impostor(Exception):
    """Pickles as something else."""

    def __reduce__(self) -> Any:
        return ValueError, ("not me",)


class Explosive(Exception):
    """Pickles, and explodes when it is built."""

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    raise RuntimeError("boom")


class Rich(Exception):
    def __init__(self, text: str, detail: Any = None) -> None:
        super().__init__(text)
        self.detail = detail


def a_local_class() -> BaseException:
    class Local(ValueError):
        pass

    return Local("local")


HARD: dict[str, Callable[[], BaseException]] = {
    "two arguments": lambda: TwoArguments(4, "teapot"),
    "no pickle": lambda: Unreducible("x"),
    "an impostor": lambda: Impostor("x"),
    "explodes when built": lambda: Explosive("x"),
    "an argument that does not pickle": lambda: ValueError(lambda: 0),
    "an attribute that does not pickle": lambda: Rich("x", detail=lambda: 0),
}

EASY: dict[str, Callable[[], BaseException]] = {
    "plain": lambda: ValueError("bad header"),
    "a local class": a_local_class,
    "no arguments": lambda: KeyError(),
    "several arguments": lambda: OSError(2, "no such file", "x.png"),
    "an attribute": lambda: Rich("x", detail={"offset": 3}),
    "exit": lambda: SystemExit(3),
    "interrupt": lambda: KeyboardInterrupt(),
    "unicode": lambda: UnicodeDecodeError("utf8", b"\xff", 0, 1, "no"),
    "group": lambda: ExceptionGroup("both", [ValueError("a"), KeyError("b")]),
    "no text": lambda: Silent("x"),
    "text that is none": lambda: NotText("x"),
    "stop": lambda: StopIteration(5),
}


def raised(make: Callable[[], BaseException]) -> BaseException:
    """Return an exception with a traceback that names this function."""
    try:
        raise make()
    except BaseException as error:
        return error


def sent(record: Record) -> Record:
    result = pickle.loads(pickle.dumps(record))
    assert result == record
    assert isinstance(result, Record)
    return result


@pytest.mark.parametrize("kind", sorted(HARD))
def test_an_exception_that_cannot_travel_arrives_as_text(kind: str) -> None:
    error = raised(HARD[kind])
    record = sent(Record.of(error))
    assert record.pickled is None
    rebuilt = record.rebuild()
    assert type(rebuilt) is RemoteError
    assert type(error).__name__ in str(rebuilt)
    assert type(rebuilt.__cause__) is RemoteTraceback
    assert "in raised" in str(rebuilt.__cause__)


@pytest.mark.parametrize("kind", sorted(EASY))
def test_an_exception_that_travels_arrives_as_it_was(kind: str) -> None:
    error = raised(EASY[kind])
    rebuilt = sent(Record.of(error)).rebuild()
    assert type(rebuilt) is type(error)
    assert repr(rebuilt.args) == repr(error.args)
    assert getattr(rebuilt, "detail", None) == getattr(error, "detail", None)
    assert type(rebuilt.__cause__) is RemoteTraceback
    assert "in raised" in str(rebuilt.__cause__)


class Stubborn(Exception):
    """Takes no attribute, and so no cause."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError(f"{name} cannot be set")


def test_an_exception_that_takes_no_cause_arrives_as_text() -> None:
    rebuilt = sent(Record.of(Stubborn("x"))).rebuild()
    assert type(rebuilt) is RemoteError
    assert str(rebuilt) == "Stubborn: x"


def test_notes_travel_with_an_exception() -> None:
    error = raised(lambda: ValueError("bad"))
    error.add_note("in file x")
    rebuilt = Record.of(error).rebuild()
    assert rebuilt.__notes__ == ["in file x"]
    assert "in file x" in str(rebuilt.__cause__)


def test_the_traceback_shows_what_led_to_an_exception() -> None:
    def chained() -> BaseException:
        try:
            raise KeyError("the first")
        except KeyError as first:
            error = ValueError("the second")
            error.__cause__ = first
            return error

    trace = str(Record.of(raised(chained)).rebuild().__cause__)
    assert trace.index("the first") < trace.index("the second")
    assert "direct cause" in trace


def test_an_exception_that_cannot_be_rebuilt_in_this_process_arrives_as_text() -> None:
    record = Record("KeyError: 'x'", "the trace", pickle.dumps(KeyError("x"))[:-3] + b"???")
    rebuilt = record.rebuild()
    assert type(rebuilt) is RemoteError
    assert str(rebuilt) == "KeyError: 'x'"
    assert "the trace" in str(rebuilt.__cause__)


def test_a_remote_traceback_is_quoted_and_pickles() -> None:
    trace = RemoteTraceback("line 1\nline 2\n")
    assert str(trace) == '\n"""\nline 1\nline 2\n"""'
    assert str(pickle.loads(pickle.dumps(trace))) == str(trace)


def test_what_the_sender_adds_travels_along() -> None:
    assert sent(Record.of(ValueError("x"), about=("message", 3, [0, 1]))).about == ("message", 3, [0, 1])


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (Silent(), "Silent: <its text cannot be shown>"),
        (NotText(), "NotText: <its text cannot be shown>"),
        (KeyError("k"), "KeyError: 'k'"),
    ],
)
def test_a_summary_is_type_and_text(error: BaseException, text: str) -> None:
    assert Record.of(error).summary == text


# -------------------------------------------------------------------- collecting


class Items:
    """An iterator that goes on behind an error, like every view's."""

    def __init__(self, *items: Any) -> None:
        self.items = list(items)
        self.drawn = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.drawn == len(self.items):
            raise StopIteration
        item = self.items[self.drawn]
        self.drawn += 1
        if isinstance(item, BaseException):
            raise item
        return item


BAD, WORSE = ValueError("bad"), SystemExit(1)


@pytest.mark.parametrize(
    ("items", "values", "failures"),
    [
        ([], [], {}),
        ([1, 2, 3], [1, 2, 3], {}),
        ([BAD], [None], {0: BAD}),
        ([1, BAD, 3], [1, None, 3], {1: BAD}),
        ([BAD, WORSE, 3, BAD], [None, None, 3, None], {0: BAD, 1: WORSE, 3: BAD}),
        ([1, 2, BAD], [1, 2, None], {2: BAD}),
    ],
)
def test_a_failing_item_costs_that_item_only(
    items: list[Any], values: list[Any], failures: dict[int, Any]
) -> None:
    assert collect(Items(*items), len(items)) == Outcomes(values, failures)


@given(st.lists(st.integers(0, 9) | st.just(BAD) | st.just(WORSE), max_size=20), st.integers(0, 25))
def test_as_many_items_are_drawn_as_were_asked_for(items: list[Any], count: int) -> None:
    source = Items(*items)
    outcomes = collect(source, count)
    drawn = items[:count]
    assert source.drawn == len(drawn)
    assert len(outcomes.values) == len(drawn)
    assert outcomes.values == [None if isinstance(i, BaseException) else i for i in drawn]
    assert outcomes.failures == {at: i for at, i in enumerate(drawn) if isinstance(i, BaseException)}


def test_a_sequence_that_ends_early_has_fewer_values() -> None:
    assert collect(Items(1, BAD), 5) == Outcomes([1, None], {1: BAD})


def test_an_iterator_that_fails_for_ever_is_not_asked_for_ever() -> None:
    class Broken:
        def __iter__(self) -> Iterator[Any]:
            return self

        def __next__(self) -> Any:
            raise BAD

    assert collect(Broken(), 3) == Outcomes([None] * 3, dict.fromkeys(range(3), BAD))


def test_only_errors_of_the_given_class_are_outcomes() -> None:
    source = Items(1, BAD, WORSE, 4)
    with pytest.raises(SystemExit):
        collect(source, 4, Exception)
    assert source.drawn == 3


def test_a_view_goes_on_behind_its_errors() -> None:
    outcomes = collect(sk.smap(lambda x: 1 // x, [1, 0, 0, 1])._iter(range(4)), 4)
    assert outcomes.values == [1, None, None, 1]
    assert [type(error.__cause__) for error in outcomes.failures.values()] == [ZeroDivisionError] * 2
