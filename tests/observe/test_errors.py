"""The trace of the item that was requested when an error was raised."""

import pytest

import seqkit as sk
from seqkit import EvaluationError


def test_an_error_gives_the_trace_of_the_item_that_was_requested():
    for read, steps in [
        (lambda: sk.batch(sk.smap(lambda x: 1 / x, [4, 0]), 2)[0], [("batch", 0), ("smap", 1)]),
        (lambda: list(sk.DataLoader({"a": 0, "b": 1}, sampler=["b", "a"], transform=lambda x: 1 / x)), "a"),
    ]:
        with pytest.raises(EvaluationError) as caught:
            read()
        failed = caught.value.trace().failed
        assert [(step.name, step.index) for step in failed] == steps or failed[-1].index == steps
        assert failed[-1].error == "ZeroDivisionError: division by zero"
    with pytest.raises(RuntimeError, match=r"^EvaluationError\.trace: the"):
        EvaluationError("smap[3] failed").trace()
