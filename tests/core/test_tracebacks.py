"""What users see of an error: their own lines, the path to the item, what to do, on one screen."""

from __future__ import annotations

import json
import linecache
import pickle
import subprocess
import sys
import traceback
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.core.errors import summary
from seqkit.core.tracebacks import warn
from seqkit.engine.frames import place, with_sources
from seqkit.engine.pickling import dumps_by_value
from seqkit.engine.results import Record
from seqkit.testing.subject import close
from tests.helpers import for_each

from .. import registry
from ..registry import CASES, Case

HERE = __file__


def decode(i: int) -> int:
    if i == 97:
        raise ValueError("bad header")
    return i


def ragged(batch: list[Any]) -> Any:
    return sk.default_collate(batch)


def shown(read: Any) -> list[str]:
    """Return the lines that Python prints for the error of a call, without addresses and line numbers."""
    try:
        read()
    except Exception as error:
        return "".join(traceback.format_exception(error)).splitlines()
    raise AssertionError("no error")


def files(error: BaseException | None) -> list[str]:
    """Return the files of the frames of an exception and its causes."""
    found: list[str] = []
    while error is not None:
        found += [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        error = error.__cause__ or error.__context__
    return found


METHODS = ["inline", "thread", "process"]


@pytest.mark.parametrize("method", METHODS)
def test_a_failing_decode_shows_the_lines_of_the_user(method: Any) -> None:
    view = sk.batch(sk.shuffle(sk.smap(decode, range(100)), seed=0), 8)
    with sk.prefetch(view, 1, method) as ahead:
        lines = shown(lambda: list(ahead))
    text = "\n".join(lines)
    assert "seqkit/" not in text.replace(HERE, "").replace("seqkit/errors", "")
    assert 'raise ValueError("bad header")' in text
    assert "list(ahead)" in text
    assert len(lines) <= 24
    tail = [line for line in lines if line.startswith(("seqkit.core.errors", "  path", "  smap", "  to"))]
    assert tail[0] == "seqkit.core.errors.EvaluationError: smap[97] failed: ValueError: bad header"
    assert tail[1].endswith("→ smap[97]")
    assert tail[2] == "  to reproduce: error.reproduce()   its input: error.inputs()"


@pytest.mark.parametrize("size", [4, 2000])
def test_a_ragged_batch_fits_a_screen_whatever_its_size(size: int) -> None:
    data = [np.zeros(3 + (i == 2)) for i in range(size)]
    lines = shown(lambda: list(sk.DataLoader(data, batch_size=size, num_workers=1)))
    assert len(lines) <= 16
    assert max(map(len, lines)) < 400
    assert any("batch[2] has shape (4,), batch[0] has (3,)" in line for line in lines)
    assert not any("/seqkit/loader" in line for line in lines)


def test_a_pipeline_that_cannot_be_pickled_shows_the_line_that_reads_it() -> None:
    import threading

    lock = threading.Lock()
    view = sk.smap(lambda i: lock and i, range(10))
    lines = shown(lambda: list(sk.prefetch(view, 1, "process", context="spawn")))
    assert "prefetch: the pipeline cannot be pickled for workers: smap → " in lines[-1]
    assert not any("/seqkit/engine" in line for line in lines)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_closed_node_and_a_failing_hook_show_the_line_that_reads(in_order: bool) -> None:
    ahead = sk.prefetch(sk.view([1]), 1, in_order=in_order)
    ahead.close()

    def fails(number: int) -> None:
        raise OSError("no licence")

    hooked = sk.prefetch(sk.view([1]), 1, start_hook=fails, in_order=in_order)
    for read in (lambda: list(ahead), lambda: ahead[0], ahead.start, lambda: list(hooked), lambda: hooked[0]):
        with pytest.raises(RuntimeError) as caught:
            read()
        assert set(files(caught.value)) == {HERE}


@for_each("case", CASES)
def test_no_combinator_shows_frames_of_its_own(case: Case) -> None:
    def bad(x: Any) -> Any:
        raise ValueError("bad")

    errors: list[BaseException] = []
    try:
        view = case.build(sk.smap(bad, range(8)))
        reads = [lambda: view[0], lambda: next(iter(view)), lambda: view.__getitems__([0])]
        for read in reads:
            try:
                read()
            except sk.EvaluationError as error:
                errors.append(error)
        close(view)
    except Exception:  # it reads when it is built, or its items are not read from the source
        pass
    for found in errors:
        assert set(files(found)) <= {HERE, registry.__file__}


def test_wrong_indices_and_names_show_the_line_of_the_user_only() -> None:
    points = sk.collate(x=[1, 2], y=[3, 4])
    wrong: Any = sk.batch(range(10), 4)
    for read in (
        lambda: wrong[7],
        lambda: wrong["a"],
        lambda: wrong[:2.5],
        lambda: sk.gather(wrong, [0, 9])[1],
        lambda: points.select("z"),
        lambda: sk.read("missing.csv"),
    ):
        with pytest.raises((IndexError, TypeError, ValueError, FileNotFoundError)) as caught:
            read()
        assert set(files(caught.value)) == {HERE}


def test_the_switch_shows_all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQKIT_FULL_TRACEBACKS", "1")
    view, ours = sk.smap(decode, range(100)), sk.views.smap.__file__
    assert any(ours in line for line in shown(lambda: view[97]))
    monkeypatch.setenv("SEQKIT_FULL_TRACEBACKS", "0")
    assert not any(ours in line for line in shown(lambda: view[97]))


def test_an_executor_of_the_user_keeps_its_frames() -> None:
    def decode_many(i: int) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(decode, 97).result()

    lines = shown(lambda: sk.smap(decode_many, range(3))[1])
    assert any("concurrent/futures" in line for line in lines)
    assert any("in decode_many" in line for line in lines)
    assert any(line.endswith("in decode") for line in lines)


def test_code_that_travels_by_value_keeps_the_name_of_its_file() -> None:
    def outer() -> Any:
        return lambda: 0

    restored = pickle.loads(dumps_by_value(outer))
    assert restored.__code__.co_filename == restored().__code__.co_filename == HERE


def test_the_original_exception_has_only_frames_of_the_user() -> None:
    with sk.errstate("passthrough"), pytest.raises(ValueError, match="bad header") as caught:
        sk.batch(sk.smap(decode, range(100)), 100)[0]
    assert set(files(caught.value)) == {HERE}


# -------------------------------------------------------------------- the text


def test_no_text_is_longer_than_a_screen() -> None:
    def fails(x: Any) -> Any:
        raise ValueError("\n".join(["x" * 500] * 500))

    view: sk.View[Any] = sk.smap(fails, range(3))
    for _ in range(60):
        view = sk.batch(view, 1)
    with pytest.raises(sk.EvaluationError) as caught:
        view[0]
    lines = str(caught.value).splitlines()
    assert len(lines) <= 24
    assert sum(map(len, lines)) <= 24 * 100
    assert "→ … →" in str(caught.value)
    assert summary(ValueError("a" * 9000)) == "ValueError: " + "a" * 800 + " …"


def test_the_inputs_of_a_batch_are_its_samples() -> None:
    view = sk.batch([np.zeros(3), np.zeros(4)], 2, collate_fn=ragged)
    with pytest.raises(sk.EvaluationError) as caught:
        view[0]
    assert [item.shape for item in caught.value.inputs()] == [(3,), (4,)]


def test_inputs_are_refused_where_the_view_is_not_known() -> None:
    with pytest.raises(sk.EvaluationError) as caught:
        sk.smap(decode, range(100))[97]
    for error in (pickle.loads(pickle.dumps(caught.value)), sk.WorkerDied("x", view=sk.view([1]), index=0)):
        with pytest.raises(RuntimeError, match=r"EvaluationError\.inputs: the view that failed is not known"):
            error.inputs()


# -------------------------------------------------------------------- cells and warnings


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of a cell, as a notebook names it, of a shell that is running."""
    name, source = "/tmp/ipykernel_7/1234.py", ["def f(x):\n", "    return 1 / x\n"]
    compiler = types.SimpleNamespace(format_code_name=lambda n: ("Cell", "In[3]") if n == name else None)
    shell = types.SimpleNamespace(compile=compiler)
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)  # type: ignore[arg-type]
    monkeypatch.setitem(linecache.cache, name, (len(source), None, source, name))
    return name


def test_a_cell_is_named_as_ipython_names_it(cell: str) -> None:
    assert place(cell, 4) == "Cell In[3], line 4"
    assert place("train.py", 4) == "train.py:4"


def test_the_traceback_of_a_worker_names_the_cell_and_has_its_source_lines(cell: str) -> None:
    without = f'Traceback:\n  File "{cell}", line 2, in f\nZeroDivisionError: no'
    expected = "Traceback:\n  Cell In[3], line 2, in f\n    return 1 / x\nZeroDivisionError: no"
    assert with_sources(without) == expected
    names: dict[str, Any] = {}
    exec(compile("def f(x):\n    return 1 / x\n", cell, "exec"), names)
    try:
        names["f"](0)
    except ZeroDivisionError as error:
        (note,) = Record.of(error).rebuild().__notes__
    assert "\n  Cell In[3], line 2, in f\n    return 1 / x\n" in note


DEFINE = """
import seqkit as sk
def decode(i):
    if i == 7:
        raise ValueError("bad header")
    return i
"""
READ = """
view = sk.batch(sk.smap(decode, range(20)), 4)
list(sk.prefetch(view, 1, {method!r}, context={context!r}))
"""
WAYS = [("process", "fork"), ("process", "spawn"), ("process", "forkserver"), ("thread", None)]


def test_errors_in_a_real_notebook_name_cells_and_show_their_lines() -> None:
    pytest.importorskip("ipykernel")
    pytest.importorskip("jupyter_client")
    cells = [DEFINE, *(READ.format(method=method, context=context) for method, context in WAYS)]
    command, root = [sys.executable, "-m", "tests.kernel", *cells], Path(__file__).parents[2]
    run = subprocess.run(command, capture_output=True, text=True, timeout=55, cwd=root)
    assert run.returncode == 0, run.stderr
    _, *tracebacks = json.loads(run.stdout)
    for text in tracebacks:
        assert "Cell In[1], line 4" in text, text
        assert 'raise ValueError("bad header")' in text
        assert "EvaluationError: smap[7] failed: ValueError: bad header" in text
        assert "/seqkit/" not in text
        assert len(text.splitlines()) <= 40


def test_a_warning_points_at_the_line_of_the_user() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn("careful", RuntimeWarning)
    assert (caught[0].filename, str(caught[0].message)) == (HERE, "careful")


def test_results_that_do_not_fit_name_the_number_to_set_and_the_line_that_reads() -> None:
    view = sk.smap(lambda i: np.zeros(1 << 20), range(4))
    text = r"Set at least shm_size=(\d+) << 20 \(\1 MiB\)"
    ahead = sk.prefetch(view, 1, "process", shm_size=1 << 20)
    with ahead, pytest.warns(RuntimeWarning, match=text) as caught:
        list(ahead)
    assert [warning.filename for warning in caught] == [HERE]


# -------------------------------------------------------------------- missing names


def test_a_name_like_no_other_gets_no_hint() -> None:
    for name in ("frobnicate", "_smap"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'$"):
            getattr(sk, name)


def test_views_have_no_getattr_because_it_slows_down_every_attribute() -> None:
    assert not any("__getattr__" in vars(kind) for kind in sk.smap(len, ["a"]).__class__.__mro__)


def test_other_attributes_are_missing_as_usual() -> None:
    view = sk.view([1])
    assert not hasattr(view, "shape")
    assert not hasattr(view, "__array_interface__")
    with pytest.raises(AttributeError, match="object has no attribute '_private'"):
        view._private


def test_an_attribute_error_of_a_length_is_not_hidden() -> None:
    class Strange(sk.View[int]):
        def _length(self) -> int:
            raise AttributeError("mine")

        def _get(self, i: int) -> int:
            return i

    with pytest.raises(AttributeError, match="mine"):
        len(Strange(()))
