"""The exception classes, and the policy that decides how a failing item is reported."""

from __future__ import annotations

import contextlib
import copy
import pickle
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest

import seqkit as sk
from seqkit.core.errors import EndOfSequence, fail
from seqkit.testing.failing import by_iteration

from ..helpers import FailsAt, Interrupted, for_each


def failure(view: sk.View[Any], i: int) -> sk.EvaluationError:
    with pytest.raises(sk.EvaluationError) as caught:
        view[i]
    return caught.value


# -------------------------------------------------------------------- EvaluationError


def test_an_error_has_the_item_the_view_and_the_cause() -> None:
    view = sk.smap(FailsAt(4), range(2, 8))
    error = failure(view, 2)
    assert (error.index, error.view, error.path, error.worker) == (2, view, ((view, 2),), None)
    assert repr(error.__cause__) == "ValueError('bad 4')"
    assert isinstance(error, RuntimeError)


def test_the_text_names_the_failure_the_path_and_the_line_of_code(monkeypatch: Any) -> None:
    monkeypatch.setattr("seqkit.core.view.is_debugging", True)
    error = failure(sk.batch(sk.smap(FailsAt(4), range(8)), 3), 1)
    first, path, site, again = str(error).splitlines()
    assert first == "smap[4] failed: ValueError: bad 4"
    assert path == "  path: batch[1] → smap[4]"
    assert site.startswith("  smap made at ")
    assert site.endswith("in test_the_text_names_the_failure_the_path_and_the_line_of_code")
    assert again == "  to reproduce: error.reproduce()   its input: error.inputs()"
    assert error.inputs() == [4]


KEYS: list[list[Any]] = [["a", "b"], [0, 5], [(0, 1), (1, 1)], [-1, -2], [10**60, 1]]


@pytest.mark.parametrize("keys", KEYS, ids=repr)
@pytest.mark.parametrize("fails", ["data set", "transform", "collate_fn", "single"])
def test_the_line_that_repeats_a_failure_works_for_every_key(keys: list[Any], fails: str) -> None:
    def bad(x: Any) -> Any:
        raise ValueError(f"bad {x}")

    data: dict[Any, Any] = {} if fails == "data set" else {key: [key] * 30 for key in keys}
    loader = sk.DataLoader(
        data,
        None if fails == "single" else 2,
        sampler=keys,
        transform=bad if fails in ("transform", "single") else None,
        collate_fn=bad if fails == "collate_fn" else None,
    )
    with pytest.raises(sk.EvaluationError) as caught:
        next(iter(loader))
    assert_repeats(caught.value)


def assert_repeats(error: sk.EvaluationError) -> None:
    again = str(error).splitlines()[-1]
    code = again.removeprefix("  to reproduce: ").split("   ")[0]
    with pytest.raises(sk.EvaluationError) as repeated:
        eval(code, {"error": error})
    assert repeated.value.message == error.message
    assert (repeated.value.index, repeated.value.view) == (error.index, error.view)


def test_the_line_that_repeats_a_failure_works_for_batches_of_keys() -> None:
    keys = iter(range(99, -1, -1))  # an order that is not known in advance: keys are drawn
    loader = sk.DataLoader(range(100), 40, sampler=keys, collate_fn=FailsAt([*range(99, 59, -1)]))
    with pytest.raises(sk.EvaluationError) as caught:
        next(iter(loader))
    assert "to reproduce: error.reproduce()" in str(caught.value)
    assert_repeats(caught.value)
    assert_repeats(failure(sk.smap(FailsAt(3), range(5)), 3))
    assert_repeats(failure(sk.smap(FailsAt(3), range(5)), -2))


def test_a_failure_of_an_unknown_view_cannot_be_repeated() -> None:
    error = pickle.loads(pickle.dumps(failure(sk.smap(FailsAt(3), range(5)), 3)))
    with pytest.raises(RuntimeError, match=r"EvaluationError.reproduce: the view that failed is not known"):
        error.reproduce()


def test_the_innermost_view_that_failed_is_named_however_deep() -> None:
    inner = sk.smap(FailsAt(4), range(8))
    outer = sk.smap(len, sk.batch(sk.collate([sk.shuffle(sk.concatenate([inner, "ab"]), seed=0)]), 2))
    place = list(sk.shuffle(range(10), seed=0)).index(4)
    error = failure(outer, place // 2)
    assert error.view is inner
    assert [view._name for view, _ in error.path] == [
        "smap",
        "batch",
        "collate",
        "shuffle",
        "concatenate",
        "smap",
    ]


def test_an_item_used_twice_is_found_by_the_shortest_way_in_order() -> None:
    inner = sk.smap(FailsAt(0), range(3))
    error = failure(sk.batch(sk.gather(inner, [1, 0, 0]), 3), 0)
    assert [i for _, i in error.path] == [0, 1, 0]


def test_a_map_of_a_long_chain_is_named_where_it_was_made(monkeypatch: Any) -> None:
    monkeypatch.setattr("seqkit.core.view.is_debugging", True)

    def make() -> sk.View[int]:
        return sk.smap(FailsAt(1), range(3))

    assert "in make" in str(failure(sk.smap(abs, make()), 1))


def test_an_error_in_the_sources_own_code_names_the_source() -> None:
    error = failure(sk.smap(abs, {0: -1, 5: 1}), 1)
    assert str(error).startswith("source[1] failed: KeyError: 1")


@pytest.mark.parametrize("args", [(), ("two", "words"), (ValueError("bad"),), (5,)], ids=str)
def test_user_code_may_raise_the_error_with_any_arguments(args: tuple[Any, ...]) -> None:
    raised = sk.EvaluationError(*args)

    def fails(x: int) -> None:
        raise raised

    error = failure(sk.smap(fails, range(3)), 1)
    assert error is raised
    assert error.args == args
    assert str(error) == error.message == str(Exception(*args))


def test_an_exception_without_text_is_named_by_its_class() -> None:
    error = failure(sk.smap(FailsAt(1, error=lambda _: KeyError()), range(3)), 1)
    assert error.message == "smap[1] failed: KeyError"


def test_an_exception_whose_text_fails_is_reported() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    error = failure(sk.smap(FailsAt(1, error=Mute), range(3)), 1)
    assert error.message == "smap[1] failed: Mute: <its text cannot be shown>"


@pytest.mark.parametrize("kind", [sk.EvaluationError, sk.WorkerDied, sk.ItemTimeout])
def test_errors_pickle_and_copy_without_their_views(kind: type[sk.EvaluationError]) -> None:
    error = kind("smap[3] failed", index=3, view=sk.view([1]), worker=2)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert (type(other), other.index, other.worker) == (kind, 3, 2)
        assert str(other) == "\n".join(str(error).splitlines()[:-1])
        assert other.view is None


def test_a_timeout_is_a_timeout_error_with_its_own_text() -> None:
    error = sk.ItemTimeout("prefetch[3] took longer than 1 s", index=3)
    assert isinstance(error, TimeoutError)
    assert isinstance(error, sk.EvaluationError)
    assert (str(error), error.index) == ("prefetch[3] took longer than 1 s", 3)


def test_an_error_raised_twice_has_the_same_text() -> None:
    view = sk.batch(sk.smap(FailsAt(1), range(4)), 2)
    assert str(failure(view, 0)) == str(failure(view, 0))


# -------------------------------------------------------------------- the policy


def test_the_setting_is_returned_and_checked() -> None:
    assert sk.seterr() == "wrap"
    with pytest.raises(ValueError, match="seterr: evaluation"):
        sk.seterr("ignore")  # type: ignore[arg-type]
    assert sk.seterr() == "wrap"


def test_seterr_holds_until_it_is_set_again() -> None:
    def run() -> list[str]:
        return [sk.seterr("passthrough"), sk.seterr(), sk.seterr(None), sk.seterr("wrap")]

    assert copy_context().run(run) == ["passthrough"] * 3 + ["wrap"]


def test_errstate_ends_with_its_block_also_by_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), sk.errstate("passthrough"):
        sk.smap(lambda x: 1 / x, [0])[0]
    assert sk.seterr() == "wrap"
    with sk.errstate("passthrough"):
        with sk.errstate("wrap"):
            failure(sk.smap(FailsAt(0), [0]), 0)
        assert sk.seterr() == "passthrough"
    with pytest.raises(ValueError, match="errstate: evaluation must be"), sk.errstate("ignore"):  # type: ignore[arg-type]
        pass


def test_the_setting_belongs_to_the_thread() -> None:
    found: list[str] = []
    with sk.errstate("passthrough"):
        thread = threading.Thread(target=lambda: found.append(sk.seterr()))
        thread.start()
        thread.join()
    assert found == ["wrap"]


def test_the_policy_is_that_of_the_read_not_of_the_construction() -> None:
    with sk.errstate("passthrough"):
        view = sk.smap(FailsAt(1), range(3))
        iterator = iter(view)
    next(iterator)
    with pytest.raises(sk.EvaluationError):
        next(iterator)


def test_original_exceptions_do_not_end_an_iteration() -> None:
    with sk.errstate("passthrough"):
        for error in (IndexError, StopIteration, KeyError):
            for view in (
                sk.smap(FailsAt(1, error=error), range(3)),
                sk.collate([sk.smap(FailsAt(1, error=error), range(3))]),
            ):
                assert len(by_iteration(iter(view))) == 3


def test_the_end_of_another_sequence_is_an_error_of_this_one() -> None:
    view = sk.view([1])
    with pytest.raises(sk.EvaluationError, match="EndOfSequence: there"):
        fail(view, 0, EndOfSequence("there"))
    with sk.errstate("passthrough"), pytest.raises(IndexError) as caught:
        fail(view, 0, EndOfSequence("there"))
    assert type(caught.value) is IndexError


# -------------------------------------------------------------------- what is no Exception

OVER: dict[str, Callable[[sk.View[Any]], sk.View[Any]]] = {
    "smap": lambda source: sk.smap(FailsAt(5), source),
    "smaps": lambda source: sk.smap(str, sk.smap(FailsAt(5), sk.smap(abs, source))),
    "smap of two": lambda source: sk.smap(FailsAt(5), source, source),
    "starmap": lambda source: sk.starmap(FailsAt(5), sk.smap(lambda x: (x,), source)),
    "random_map": lambda source: sk.random_map(FailsAt(5), source, seed=0),
    "debug": lambda source: sk.smap(FailsAt(5), sk.debug(source, lambda i, x: None)),
    "monitor_throughput": lambda source: sk.smap(FailsAt(5), sk.monitor_throughput(source)),
    "collate": lambda source: sk.collate([sk.smap(FailsAt(5), source), source, source]),
    "concatenate": lambda source: sk.smap(FailsAt(5), sk.concatenate([range(20, 23), source])),
    "interleave": lambda source: sk.smap(FailsAt(5), sk.interleave(source, range(20, 32))),
    "shuffle": lambda source: sk.smap(FailsAt(5), sk.shuffle(source, seed=0)),
    "switch": lambda source: sk.switch(sk.smap(lambda x: x % 2, source), source, range(20, 32)),
    "window": lambda source: sk.window(sk.smap(FailsAt(8), source), 3),
    "batch": lambda source: sk.batch(sk.smap(FailsAt(8), source), 3),
    "unbatch": lambda source: sk.smap(FailsAt(5), sk.unbatch(sk.smap(lambda x: [x, x], source), 2, 0)),
    "add_cache": lambda source: sk.add_cache(sk.smap(FailsAt(5), source)),
}


def told(outcome: Any) -> Any:
    """Return an item as it is, and of an error what it says, without the way to it."""
    if isinstance(outcome, sk.EvaluationError):
        return type(outcome), outcome.message, outcome.index
    return type(outcome) if isinstance(outcome, BaseException) else outcome


def outcome(view: sk.View[Any], i: int) -> Any:
    try:
        return view[i]
    except BaseException as error:
        return error


def past_item_errors(items: Any) -> None:
    while True:
        with contextlib.suppress(sk.EvaluationError):
            next(items)


@for_each("kind", [SystemExit, KeyboardInterrupt])
@for_each("reads_ahead", [False, True])
@for_each("lay", OVER.values())
def test_an_interrupted_iterator_is_over_and_says_so(
    lay: Any, reads_ahead: bool, kind: type[BaseException]
) -> None:
    source = sk.smap(FailsAt(6, error=kind), range(12))
    view = lay(Interrupted(source, -1) if reads_ahead else source)
    items = iter(view)
    with pytest.raises(kind):
        past_item_errors(items)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Begin a new one"):
            next(items)
    assert view._get(0) is not None
