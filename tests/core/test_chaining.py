"""Method chaining: the same functions, attached to every view."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import seqkit as sk
from seqkit.core import chaining

METHODS = sorted(
    name
    for name in (*sk.__all__, "filter")
    if inspect.isfunction(getattr(sk, name)) and hasattr(sk.View, name)
)


def test_a_pipeline_reads_from_left_to_right() -> None:
    chained = sk.view([3, 1, 2]).smap(str).shuffle(seed=0).batch(2)
    assert list(chained) == list(sk.batch(sk.shuffle(sk.smap(str, [3, 1, 2]), seed=0), 2))
    assert repr(chained) == repr(sk.batch(sk.shuffle(sk.smap(str, [3, 1, 2]), seed=0), 2))


def test_further_sequences_follow_the_view() -> None:
    assert list(sk.view([1, 5]).smap(max, [4, 4])) == [4, 5]
    assert list(sk.view("ab").concatenate("c")) == ["a", "b", "c"]
    assert list(sk.view("ab").interleave("c")) == ["a", "c", "b"]
    assert list(sk.view("ab").collate("cd")) == [("a", "c"), ("b", "d")]
    assert list(sk.view("ab").mix("c", weights=[2, 1], seed=0)) == list(sk.mix(["ab", "c"], [2, 1], 0))


@pytest.mark.parametrize("name", ["filter", "random_map", "smap", "starmap"])
def test_what_comes_before_the_sequence_comes_by_position(name: str) -> None:
    first = next(iter(inspect.signature(getattr(sk, name)).parameters))
    with pytest.raises(TypeError, match=f"{name}: {first} comes first"):
        getattr(sk.view([1]), name)(**{first: abs})


@pytest.mark.parametrize("name", METHODS)
def test_every_method_names_its_function(name: str) -> None:
    method = getattr(sk.View, name)
    assert method.__name__ == name
    assert f"seqkit.{name}" in (method.__doc__ or "")


def test_help_shows_signature_and_docstring_of_the_function() -> None:
    view = sk.view([1])
    assert str(inspect.signature(view.starmap)).startswith("(f: 'Callable[..., U]', /)")
    assert [*inspect.signature(view.smap).parameters] == ["f", "sequences", "zip"]
    assert [*inspect.signature(view.batch).parameters] == [*inspect.signature(sk.batch).parameters][1:]
    assert inspect.getdoc(sk.smap) in (inspect.getdoc(view.smap) or "")  # type: ignore[operator]
    assert "Parameters" in (view.collate.__doc__ or "")


def test_functions_of_a_sequence_are_methods() -> None:
    assert {"batch", "gather", "prefetch", "random_map", "shuffle", "smap", "starmap", "unbatch"} <= {
        *METHODS
    }


def test_a_view_is_made_at_the_line_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqkit.core.view.is_debugging", True)
    with pytest.raises(sk.EvaluationError, match=r"smap made at .*test_chaining\.py"):
        sk.view([0]).smap(lambda x: 1 / x)[0]


# -------------------------------------------------------------------- what type checkers read

STUB = ast.parse(Path(chaining.__file__).with_suffix(".pyi").read_text())
STUB_CLASSES = [node for node in STUB.body if isinstance(node, ast.ClassDef)]
MEMBERS = [node for kind in STUB_CLASSES for node in kind.body]
ALIASES = {
    ast.unparse(node.targets[0]): ast.unparse(node.value) for node in MEMBERS if isinstance(node, ast.Assign)
}
WRITTEN_OUT = [node for node in STUB_CLASSES[-1].body if isinstance(node, ast.FunctionDef)]
IMPORTED = {
    alias.asname or alias.name: (node.module, alias.name)
    for node in STUB.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}


def test_the_stub_has_the_methods_that_views_have() -> None:
    attached = {name for name in dir(chaining.Chainable()) if not name.startswith("_")}
    assert {*ALIASES, *(node.name for node in WRITTEN_OUT)} == attached == {*METHODS}
    assert {node.name for node in STUB.body if isinstance(node, ast.FunctionDef)} == {*chaining.__all__} - {
        "Chainable",
        "Displayed",
    }


@pytest.mark.parametrize("name", ALIASES)
def test_a_method_of_the_stub_is_the_function_of_that_name(name: str) -> None:
    module, function = IMPORTED[ALIASES[name]]
    assert getattr(importlib.import_module(f"seqkit.{module}"), function) is getattr(sk, name)
    first = next(iter(inspect.signature(getattr(sk, name)).parameters.values()))
    assert first.kind is first.POSITIONAL_OR_KEYWORD


@pytest.mark.parametrize("node", WRITTEN_OUT, ids=lambda node: f"{node.name}-{node.lineno}")
def test_a_method_that_is_written_out_takes_what_follows_the_sequence(node: ast.FunctionDef) -> None:
    signature = inspect.signature(getattr(sk, node.name))
    takes = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    sequence = next(i for i, parameter in enumerate(takes) if parameter.name.startswith("sequence"))
    expected = {parameter.name: parameter.default for parameter in takes[sequence + 1 :]}
    args, empty = node.args, inspect.Parameter.empty
    positional = [*args.posonlyargs, *args.args]
    defaults = [*[None] * (len(positional) - len(args.defaults)), *args.defaults]
    given = [*zip(positional, defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    found = {argument.arg: ast.literal_eval(default) if default else empty for argument, default in given}
    for argument in args.posonlyargs or positional[:1]:  # the view, and what stands before it
        del found[argument.arg]
    assert found.keys() == expected.keys()
    assert all(default in (expected[name], empty) for name, default in found.items())
