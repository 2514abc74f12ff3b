"""`SerializableFunc`: functions that work where their module is missing, or another."""

import importlib
import inspect
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import pytest

import seqkit as sk
from seqkit.core.serializable import SerializableFunc

ROOT = Path(__file__).resolve().parents[2]

TOOLS = """
import math
import threading
from dataclasses import dataclass
from seqkit.core.serializable import SerializableFunc

FACTOR = 3
LOCK = threading.Lock()

@dataclass
class Point:
    x: int

def helper(x):
    return x * FACTOR

@SerializableFunc
def scaled(x: float) -> int:
    "Scale and cut."
    return math.floor(helper(x))

@SerializableFunc
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)

@SerializableFunc
def is_even(n):
    return n == 0 or is_odd(n - 1)

@SerializableFunc
def is_odd(n):
    return n != 0 and is_even(n - 1)

@SerializableFunc
def point(x):
    return Point(x)

@SerializableFunc
def locked(x):
    with LOCK:
        return x

def scaler(factor):
    return SerializableFunc(lambda x: helper(x) * factor)
"""


@pytest.fixture
def make_module(tmp_path, monkeypatch):
    """Return a function that writes a module into a folder of its own and imports it."""
    names = []

    def make(text, name="seqkit_tools", folder="one"):
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        (path / f"{name}.py").write_text(text)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(path)
            importlib.invalidate_caches()
            sys.modules.pop(name, None)
            names.append(name)
            return importlib.import_module(name)

    yield make
    for name in names:
        sys.modules.pop(name, None)


def elsewhere(*calls, path=""):
    """Return what pickled functions, each with its argument, give in another interpreter."""
    code = "import pickle, sys; print(*(pickle.loads(f)(x) for f, x in pickle.load(sys.stdin.buffer)))"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        input=pickle.dumps(calls),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{path}"},
    )
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout.decode().strip()


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
def test_a_function_works_where_its_module_is_missing(make_module, dumps):
    tools = make_module(TOOLS)
    calls = [(tools.scaled, 1.5), (tools.factorial, 5), (tools.is_even, 7), (tools.point, 3)]
    found = elsewhere(*((dumps(function), argument) for function, argument in calls))
    assert found == "4 120 False Point(x=3)"


def test_a_function_survives_edits_of_its_file(make_module, tmp_path):
    tools = make_module(TOOLS)
    pickled = pickle.dumps(tools.scaled)
    Path(tools.__file__).write_text(TOOLS.replace("FACTOR = 3", "FACTOR = 1000"))
    assert elsewhere((pickled, 2), path=tmp_path / "one") == "6"
    Path(tools.__file__).write_text("raise RuntimeError('half an edit')")
    assert elsewhere((pickled, 2), path=tmp_path / "one") == "6"
    assert elsewhere((pickle.dumps(tools.scaled), 2), path=tmp_path / "one") == "6"


def test_functions_of_modules_with_one_name_stay_apart(make_module):
    one = pickle.dumps(make_module(TOOLS).scaled)
    other = pickle.dumps(make_module(TOOLS.replace("FACTOR = 3", "FACTOR = 5"), folder="other").scaled)
    first, second = pickle.loads(one), pickle.loads(other)
    assert [first(1), second(1), first(1)] == [3, 5, 3]


def test_reading_a_pickle_runs_no_module_and_leaves_none(make_module):
    tools = make_module(TOOLS + "\nprint('running')\n")
    pickled = pickle.dumps(tools.scaled)
    del sys.modules["seqkit_tools"]
    before, paths = set(sys.modules), list(sys.path)
    assert pickle.loads(pickled)(2) == 6
    assert set(sys.modules) == before
    assert sys.path == paths


def test_a_function_that_was_read_can_be_sent_on(make_module):
    tools = make_module(TOOLS)
    pickled = pickle.dumps(tools.factorial)
    del sys.modules["seqkit_tools"]
    again = pickle.dumps(pickle.loads(pickled))
    assert elsewhere((pickle.dumps(pickle.loads(again)), 5)) == "120"


def test_a_wrapped_function_looks_like_itself(make_module):
    tools = make_module(TOOLS)
    for function in (tools.scaled, pickle.loads(pickle.dumps(tools.scaled))):
        assert function.__name__ == "scaled"
        assert function.__doc__ == "Scale and cut."
        assert function.__module__ == "seqkit_tools"
        assert function.__wrapped__(2) == function(2) == function(x=2) == 6
        assert list(inspect.signature(function).parameters) == ["x"]
        assert repr(function).startswith("SerializableFunc(<function scaled at ")


def test_wrapping_twice_is_wrapping_once(make_module):
    tools = make_module(TOOLS)
    twice = SerializableFunc(tools.scaled)
    assert twice.__wrapped__ is tools.scaled.__wrapped__
    assert elsewhere((pickle.dumps(twice), 2)) == "6"


def test_closures_and_lambdas_travel_too(make_module):
    tools = make_module(TOOLS)
    pickled = [pickle.dumps(function) for function in (tools.scaler(10), SerializableFunc(lambda x: x + 1))]
    assert elsewhere((pickled[0], 2), (pickled[1], 2)) == "60 3"


def test_functions_without_a_source_travel_too():
    space = {"__name__": "__main__"}
    exec("def double(x):\n    return offset + 2 * x\noffset = 1", space)
    pickled = [pickle.dumps(SerializableFunc(function)) for function in (space["double"], len)]
    assert elsewhere((pickled[0], 2), (pickled[1], "abc")) == "5 3"


def test_other_decorated_functions_come_along(make_module):
    make_module(TOOLS)
    user = make_module(
        """
import seqkit_tools
from seqkit_tools import scaled
from seqkit.core.serializable import SerializableFunc

@SerializableFunc
def use(x):
    return scaled(x) + 1
""",
        name="seqkit_user",
        folder="user",
    )
    assert elsewhere((pickle.dumps(user.use), 2)) == "7"


def test_a_function_that_cannot_be_pickled_is_refused_with_the_reason(make_module):
    tools = make_module(TOOLS)
    with pytest.raises(
        TypeError, match=r"SerializableFunc: locked cannot be pickled with what it uses: .*lock"
    ):
        pickle.dumps(tools.locked)
    assert elsewhere((pickle.dumps(tools.scaled), 2)) == "6"


def test_only_functions_can_be_wrapped():
    with pytest.raises(TypeError, match="SerializableFunc: func must be callable, got 3"):
        SerializableFunc(3)


def test_modules_are_pickled_by_name_again_afterwards(make_module):
    tools = make_module(TOOLS)
    before = cloudpickle.list_registry_pickle_by_value()
    pickle.dumps(tools.scaled)
    assert cloudpickle.list_registry_pickle_by_value() == before
    cloudpickle.register_pickle_by_value(tools)
    try:
        pickle.dumps(tools.scaled)
        assert "seqkit_tools" in cloudpickle.list_registry_pickle_by_value()
    finally:
        cloudpickle.unregister_pickle_by_value(tools)


def test_threads_pickle_side_by_side(make_module):
    tools = make_module(TOOLS)
    together = threading.Barrier(4)

    def work(number):
        together.wait(30)
        functions = [tools.scaled, tools.factorial, tools.is_even, tools.point]
        return [pickle.loads(pickle.dumps(functions[number])) for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        scaled, factorial, is_even, point = pool.map(work, range(4))
    assert {f(2) for f in scaled} == {6}
    assert {f(4) for f in factorial} == {24}
    assert {f(4) for f in is_even} == {True}
    assert {f(4).x for f in point} == {4}
    assert "seqkit_tools" not in cloudpickle.list_registry_pickle_by_value()


def test_workers_need_no_module(make_module):
    tools = make_module(TOOLS)
    for context in ("fork", "spawn"):
        with sk.prefetch(sk.smap(tools.scaled, range(5)), 2, "process", context=context) as ahead:
            assert list(ahead) == [0, 3, 6, 9, 12]
