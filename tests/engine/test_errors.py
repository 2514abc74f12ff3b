"""Errors across a process border: the reader learns which item of which view failed, and why."""

from __future__ import annotations

import pickle
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

import seqkit as sk
from seqkit.core.errors import POLICIES, EndOfSequence, Policy
from seqkit.core.view import View
from seqkit.engine.errors import follow, record, reraise, route
from seqkit.engine.results import Record, RemoteError


class Staying(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("not to be pickled")


def fails_at(bad: int, error: BaseException) -> Any:
    def f(x: int) -> int:
        if x == bad:
            raise error
        return x

    return f


def caught(view: View[Any], i: int) -> BaseException:
    """Read an item as a worker does, and return the error."""
    try:
        next(view._iter([i]))
    except BaseException as error:
        return error
    raise AssertionError("it did not fail")


def across(pipeline: View[Any], i: int, node: View[Any] | None = None, worker: int | None = 1) -> Any:
    """Fail in a worker that holds a copy of the pipeline; return what the reader gets."""
    copy = pickle.loads(pickle.dumps(record(caught(pipeline, i), pipeline)))
    with pytest.raises(BaseException) as info:  # noqa: PT011
        reraise(copy, node or sk.prefetch(pipeline, 1), i, pipeline, worker)
    return info.value


# -------------------------------------------------------------------- routes


def test_every_view_of_an_expression_is_found_again_by_its_route() -> None:
    a, b = sk.smap(abs, [1]), sk.smap(abs, sk.view([2]))
    root = sk.batch(sk.concatenate([a, sk.shuffle(b, seed=0)]), 2)
    pending, found = [root], 0
    while pending:
        view = pending.pop()
        way = route(root, view)
        assert way is not None
        assert follow(root, way) is view
        pending.extend(view._sources)
        found += 1
    assert found == 7


def test_a_view_of_another_expression_has_no_route() -> None:
    assert route(sk.batch([1, 2], 2), sk.view([1, 2])) is None


def test_a_route_is_found_quickly_where_views_are_shared() -> None:
    root = sk.view([0])
    for _ in range(40):
        root = sk.collate([root, root])
    assert route(root, sk.view([1])) is None  # 2**40 ways lead to the bottom
    assert route(root, root._sources[1]._sources[0]) is not None


# -------------------------------------------------------------------- errors of items


def test_an_error_names_message_index_view_path_and_worker_as_in_the_worker() -> None:
    squares = sk.smap(fails_at(7, ValueError("bad")), range(10))
    pipeline = sk.batch(sk.gather(squares, [9, 7, 1]), 2)
    node = sk.prefetch(pipeline, 1)
    error = across(pipeline, 0, node, worker=3)
    local = caught(pipeline, 0)
    assert type(error) is sk.EvaluationError
    assert error.message == local.message == "smap[7] failed: ValueError: bad"  # type: ignore[attr-defined]
    assert error.index == 7
    assert error.view is squares
    assert error.worker == 3
    assert [(view._name, i) for view, i in error.path] == [
        ("prefetch", 0),
        ("batch", 0),
        ("gather", 1),
        ("smap", 7),
    ]
    assert error.path[0][0] is node
    assert "prefetch[0] → batch[0] → gather[1] → smap[7]" in str(error)


def test_the_cause_is_the_users_exception_with_the_traceback_of_the_worker_as_a_note() -> None:
    pipeline = sk.smap(fails_at(1, KeyError("k")), range(3))
    error = across(pipeline, 1)
    assert type(error.__cause__) is KeyError
    assert error.__cause__.args == ("k",)
    (note,) = error.__cause__.__notes__
    assert "in f\n" in note
    assert "raise error" in note


def test_a_cause_that_cannot_be_pickled_arrives_as_text() -> None:
    error = across(sk.smap(fails_at(1, Staying("told")), range(3)), 1)
    assert type(error) is sk.EvaluationError
    assert error.message == "smap[1] failed: Staying: told"
    assert type(error.__cause__) is RemoteError
    assert str(error.__cause__) == "Staying: told"
    assert "in f\n" in error.__cause__.__notes__[0]


def test_sys_exit_in_an_item_is_an_error_of_that_item() -> None:
    policy: Policy
    nested = sk.EvaluationError("prefetch[1] failed: SystemExit: 3")  # as a node below raises it
    nested.__cause__ = SystemExit(3)
    for end, policy in product((SystemExit(3), KeyboardInterrupt("now"), GeneratorExit()), POLICIES):
        with sk.errstate(policy):
            error = across(sk.smap(fails_at(1, end), range(3)), 1)
            assert across(sk.smap(fails_at(1, nested), range(3)), 1).message == nested.message
        assert type(error) is sk.EvaluationError
        assert error.message.startswith(f"prefetch[1] failed: {type(end).__name__}")
        assert type(error.__cause__) is type(end)
        assert (error.index, error.worker, error.view._name) == (1, 1, "prefetch")


def test_an_error_of_the_readers_own_process_is_raised_as_it_is() -> None:
    pipeline = sk.smap(fails_at(1, ValueError("bad")), range(3))
    node = sk.prefetch(pipeline, 1)
    local = caught(pipeline, 1)
    with pytest.raises(sk.EvaluationError) as info:
        reraise(local, node, 1, pipeline, 0)
    assert info.value is local
    assert info.value.worker == 0
    assert [view._name for view, _ in info.value.path] == ["prefetch", "smap"]


def test_a_plain_error_is_reported_against_the_node() -> None:
    node = sk.prefetch(range(3), 1)
    with pytest.raises(IndexError, match=r"^no item 7$"):  # a view rejected the index
        reraise(IndexError("no item 7"), node, 7, node._sources[0], 0)
    with pytest.raises(sk.EvaluationError, match=r"prefetch\[2\] failed: ValueError: x") as info:
        reraise(ValueError("x"), node, 2, node._sources[0], 0)
    assert info.value.view is node
    assert info.value.index == 2


def test_the_worker_of_a_nested_node_is_not_overwritten() -> None:
    node = sk.prefetch(range(3), 1)
    with pytest.raises(sk.EvaluationError) as info:
        reraise(sk.EvaluationError("x", index=2, view=node, worker=5), node, 2, node._sources[0], 0)
    assert info.value.worker == 5


def test_an_evaluation_error_that_user_code_raised_itself_is_placed_at_the_node() -> None:
    error = across(sk.smap(fails_at(1, sk.EvaluationError("mine")), range(3)), 1)
    assert (type(error), error.message, error.index) == (sk.EvaluationError, "mine", 1)
    assert error.view._name == "prefetch"


def test_errors_of_a_node_in_a_worker_keep_their_class() -> None:
    inner = sk.view(range(3))
    for kind in (sk.WorkerDied, sk.ItemTimeout):
        pipeline = sk.smap(fails_at(1, kind("inner[5] was lost", index=5, view=inner, worker=2)), inner)
        error = across(pipeline, 1)
        assert type(error) is kind
        assert (error.message, error.index, error.worker) == ("inner[5] was lost", 5, 2)
        assert error.view is inner
        assert "Where it was raised:" in error.__notes__[0]


def test_the_end_of_another_sequence_is_an_error_of_the_item() -> None:
    error = across(sk.smap(fails_at(1, EndOfSequence("over")), range(3)), 1)
    assert type(error) is sk.EvaluationError
    assert isinstance(error.__cause__, IndexError)


# -------------------------------------------------------------------- the error policy


def test_the_policy_of_the_consumer_decides_whatever_that_of_the_worker_is() -> None:
    lost, late, wrapped = sk.WorkerDied, sk.ItemTimeout, sk.EvaluationError
    errors: list[tuple[Exception, Policy, type[Exception], type[Exception] | None]] = [
        (KeyError("k"), "wrap", wrapped, KeyError),
        (KeyError("k"), "passthrough", KeyError, None),
        (Staying("k"), "wrap", wrapped, RemoteError),  # it cannot be pickled
        (Staying("k"), "passthrough", wrapped, RemoteError),
        (lost("k"), "passthrough", lost, None),
        (late("k"), "passthrough", late, None),
    ]
    of_worker: Policy
    for error, policy, kind, cause in errors:
        for of_worker in ("wrap", "passthrough"):
            pipeline = sk.smap(fails_at(1, error), range(3))
            with sk.errstate(of_worker):
                copy = pickle.loads(pickle.dumps(record(caught(pipeline, 1), pipeline)))
            with sk.errstate(policy), pytest.raises(kind) as info:
                reraise(copy, sk.prefetch(pipeline, 1), 1, pipeline, 0)
            assert (type(info.value), type(info.value.__cause__)) == (kind, cause or type(None))
            origin = info.value if cause is None else info.value.__cause__
            assert "k" in str(origin)
            assert "in f\n" in origin.__notes__[0]  # type: ignore[union-attr]
            if cause is not None:
                assert (info.value.index, info.value.worker) == (1, 0)  # type: ignore[attr-defined]


# -------------------------------------------------------------------- the classes


def test_errors_have_their_class_and_message_and_pickle() -> None:
    for kind, base in (
        (sk.EvaluationError, RuntimeError),
        (sk.WorkerDied, RuntimeError),
        (sk.ItemTimeout, TimeoutError),
    ):
        error = kind("prefetch[3] was lost", index=3, view=sk.view([1]), worker=2)
        assert isinstance(error, base)
        assert isinstance(error, sk.EvaluationError)
        assert str(error).startswith("prefetch[3] was lost")
        assert error.args == ("prefetch[3] was lost",)
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is kind
        assert (copy.index, copy.worker, copy.view) == (3, 2, None)
        # The copy has no view, and the view no item 3.
        assert str(error) == f"{copy}\n  to reproduce: error.reproduce()"


def test_a_timeout_of_an_item_differs_from_other_timeout_errors() -> None:
    error = sk.ItemTimeout("item 3 took longer than 2 s", index=3)
    assert error.errno is None
    assert str(error) == "item 3 took longer than 2 s"
    assert repr(error) == "ItemTimeout('item 3 took longer than 2 s')"


def test_a_record_holds_plain_data_only() -> None:
    pipeline = sk.smap(fails_at(1, ValueError("bad")), sk.view([0, 1]))
    made = record(caught(pipeline, 1), pipeline)
    assert isinstance(made, Record)
    assert made.about == ("smap[1] failed: ValueError: bad", 1, [])
    assert record(ValueError("x"), pipeline).about is None
    numbered = SimpleNamespace(number=[4, (5, "a")])  # as the keys of a batch are
    foreign = sk.EvaluationError("x", index=(1, {"a"}, numbered), view=sk.view([5]))
    assert record(foreign, pipeline).about == ("x", (1, "{'a'}", [4, (5, "a")]), None)
