"""The shape of the code base: who imports whom, and that every public name is complete."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import io
import re
import subprocess
import sys
import tokenize
import types
import typing
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk
from seqkit import collation, samplers
from seqkit.core.expression import walk
from seqkit.testing.subject import close

from .registry import CASES

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "seqkit"
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__init__.py"
}

# Which rooms each room may import. A room is a folder of the package, or a module beside the folders.
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "transforms": {"core", "collation"},
    "views": {"core"},
    "collation": {"core"},
    "engine": {"core"},
    "sources": {"core", "views", "engine"},
    "stores": {"core", "views", "engine", "sources"},
    "observe": {"core", "views", "engine", "stores"},
    "samplers": {"core", "views", "stores"},
    "streams": {"core", "views", "engine", "collation"},
    "loader": {"core", "views", "engine", "samplers", "collation", "streams"},
    "torch": {"core", "views", "engine", "collation", "streams", "loader"},
    "testing": {"core", "views"},
}

# The same for the modules of the core, from the ground upwards.
CORE: dict[str, set[str]] = {
    "control_groups": set(),
    "awaiting": set(),
    "epoch": set(),
    "expression": set(),
    "lengths": {"expression"},
    "buffers": set(),
    "once": set(),
    "plain": set(),
    "tracebacks": set(),
    "units": set(),
    "worker": {"once"},
    "indices": {"lengths", "plain"},
    "lazy": {"tracebacks"},
    "adapters": {"arguments", "lazy"},
    "chaining": {"lazy", "tracebacks"},
    "errors": {"lazy", "tracebacks"},
    "progress": {"errors", "lazy"},
    "randomness": {"errors", "indices", "once", "plain"},
    "arguments": {"errors", "plain"},
    "error_path": {"errors", "tracebacks"},
    "iteration": {"error_path", "errors", "indices"},
    "serializable": {"arguments"},
    "set_epoch": {"arguments"},
    "whole_files": set(),
    "ahead": {"control_groups", "indices", "iteration", "lengths"},
    "view": {
        "ahead",
        "awaiting",
        "arguments",
        "chaining",
        "epoch",
        "error_path",
        "errors",
        "expression",
        "indices",
        "iteration",
        "lengths",
        "plain",
        "tracebacks",
    },
    "source": {
        "adapters",
        "ahead",
        "chaining",
        "epoch",
        "errors",
        "indices",
        "lazy",
        "lengths",
        "set_epoch",
        "view",
    },
    "values": {"lengths", "plain", "source", "view"},
}

# The parts of the engine that can be understood alone.
SELF_CONTAINED = {
    "frames",
    "processes.linux",
    "processes.segment",
    "processes.slots",
    "codec",
    "window",
    "results",
} | {
    "pickling",
    "arrow",
    "tensors",
    "maps",
    "classes",
}

ENGINES = {"torch", "ray", "dask", "distributed", "jax", "tensorflow"}
CONCURRENCY = {
    "threading",
    "_thread",
    "multiprocessing",
    "concurrent",
    "queue",
    "signal",
    "subprocess",
    "asyncio",
}
# The laws read from several threads at once, and `auto` tries whether two threads wait for each other.
CONCURRENT_ROOMS = {"engine", "testing", "observe"}
LIBRARIES = {
    "PIL",
    "datasets",
    "fsspec",
    "h5py",
    "imageio",
    "pandas",
    "polars",
    "pyarrow",
    "soundfile",
    "zarr",
}
# What others may use of threading and asyncio: it starts nothing, and waits for a loop that is there.
PASSIVE = {"Lock", "RLock", "local", "get_ident", "run_coroutine_threadsafe", "wrap_future"}


# What each room may weigh: its code lines, without docstrings, comments and blank lines. A room that needs
# more gives its reason in a decision, or cuts elsewhere. Lines that move take their budget along.
BUDGETS = {
    "__init__": 108,
    "collation": 832,
    "core": 2249,
    "engine": 6259,
    "loader": 1340,
    "observe": 2548,
    "samplers": 1104,
    "sources": 2444,
    "stores": 1195,
    "streams": 1116,
    "testing": 700,
    "torch": 153,
    "transforms": 35,
    "views": 4066,
}


def room(module: str) -> str:
    return module.split(".")[0]


@cache
def imports(module: str, *, nested: bool = True) -> list[tuple[str, str]]:
    """Return (module, name) for what a module imports; from seqkit, module names without ``seqkit.``"""
    tree = _Executed().visit(ast.parse(MODULES[module].read_text()))
    return [*_imports(module, ast.walk(tree) if nested else tree.body)]


class _Executed(ast.NodeTransformer):
    """Removes what only type checkers read."""

    def visit_If(self, node: ast.If) -> Any:
        return node.orelse or None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)


def _imports(module: str, parts: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in parts:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ["seqkit", *module.split(".")][: -node.level] if node.level else []
            full = ".".join([*base, *([node.module] if node.module else [])])
            yield from _named(full, [alias.name for alias in node.names])


def _named(full: str, names: list[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        inner = f"{full}.{name}".removeprefix("seqkit.")
        if full.startswith("seqkit") and inner in MODULES:
            yield f"seqkit.{inner}", ""
        else:
            yield full, name


def own_imports(module: str, *, nested: bool = True) -> Iterator[tuple[str, str]]:
    for imported, name in imports(module, nested=nested):
        if imported.startswith("seqkit."):
            yield imported.removeprefix("seqkit."), name


def code_lines(path: Path) -> int:
    """Count the lines of a file that are neither docstrings nor comments nor blank."""
    source = path.read_text()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


NO_CODE = {
    *{tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
}


def test_no_room_weighs_more_than_its_budget() -> None:
    weights = dict.fromkeys(BUDGETS, 0)
    for path in PACKAGE.rglob("*.py"):
        weights[path.relative_to(PACKAGE).parts[0].removesuffix(".py")] += code_lines(path)
    over = {name: lines for name, lines in weights.items() if lines > BUDGETS[name]}
    assert over == {}, f"over the budget: {over}. Cut elsewhere, or give the reason in docs/decisions"


def test_imports_run_one_way() -> None:
    assert {*map(room, MODULES)} <= {*ROOMS}, "a new room: say above which others it may import"
    found = {module: {room(imported) for imported, _ in own_imports(module)} for module in MODULES}
    for module, rooms in found.items():
        assert rooms <= ROOMS[room(module)] | {room(module)}, module


def test_imports_of_the_core_run_one_way() -> None:
    for module in [name for name in MODULES if room(name) == "core"]:
        allowed = {f"core.{other}" for other in CORE[module.removeprefix("core.")]}
        assert {imported for imported, _ in own_imports(module)} <= allowed, module


def test_no_module_imports_itself_in_a_circle() -> None:
    """Imports inside functions count, and so do names of modules in strings."""
    edges = {module: {*_resolved(module)} & {*MODULES} for module in MODULES}
    for module, folder in CHOOSES.items():
        edges[module] |= {name for name in MODULES if name.startswith(folder) and name != module}
    largest = max(circles(edges), key=len)
    print("the largest strongly connected part:", *largest)
    assert len(largest) == 1, largest


def _resolved(module: str) -> Iterator[str]:
    """Yield the modules that a module imports. A name of a package is that of the module that defines it."""
    for imported, name in own_imports(module):
        if imported in MODULES:
            yield imported
        else:
            found = getattr(importlib.import_module(f"seqkit.{imported}"), name)
            yield getattr(found, "__module__", "").removeprefix("seqkit.")


def circles(edges: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield the strongly connected parts of a graph (Tarjan, 1972)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> Iterator[list[str]]:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in numbers:
                yield from visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], numbers[other])
        if lowest[node] == numbers[node]:
            place = stack.index(node)
            yield stack[place:]
            del stack[place:]

    for node in edges:
        if node not in numbers:
            yield from visit(node)


def test_only_the_table_of_the_package_names_modules_in_strings() -> None:
    """No import is hidden in a string, in `import_module`, or in an attribute of the package."""
    for module, path in MODULES.items():
        assert "seqkit" not in {imported for imported, _ in imports(module)}, module
        # The first imports what the table says. Packages pass it the names of their own modules.
        if module == "core.lazy" or module in CHOOSES:
            continue
        tree = ast.parse(path.read_text())
        called = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
        for node in called:
            importer = ast.unparse(node.func).rpartition(".")[2]
            is_own = importer in ("import_module", "__import__") and ast.unparse(node.args[0]) not in LAZY
            assert not is_own, f"{module}: {ast.unparse(node)}"
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        named = {text.partition(":")[0].removeprefix("seqkit.") for text in texts if _names_a_module(text)}
        assert named <= COMPARED.get(module, set()), (module, named)


def _names_a_module(text: Any) -> bool:
    inner = text.partition(":")[0].removeprefix("seqkit.") if isinstance(text, str) else ""
    return inner != text and any(name == inner or name.startswith(f"{inner}.") for name in MODULES)


# The frames of these modules are compared with the names. They are not imported.
COMPARED = {"engine.processes.forking": {"engine.coroutines", "engine.threads"}}
# These choose a module of their own folder by the kind of a file.
CHOOSES: dict[str, tuple[str, ...]] = {
    "sources.read": ("sources.",),
}
# Libraries that are imported when they are needed.
LAZY = {"'torch'"}


# Names that users see twice: a loader of each kind, and a combinator beside the base of collate functions.
PUBLIC_PAIRS = {"Collate", "DataLoader", "StreamBatch", "StreamLoader"}


def test_no_two_classes_have_one_name() -> None:
    where: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(module)
    twice = {name: modules for name, modules in where.items() if len(modules) > 1}
    assert twice.keys() == PUBLIC_PAIRS, twice


def test_what_only_one_file_or_room_uses_is_in_its_place() -> None:
    users: dict[str, set[str]] = {module: set() for module in MODULES}
    for module in MODULES:
        for imported, _ in own_imports(module):
            if imported in users:
                users[imported].add(module)
    core = {
        module: {each if room(each) == "core" else room(each) for each in users[module]} for module in users
    }
    shared = {module: rooms for module, rooms in core.items() if room(module) == "core"}
    shared |= {module: users[module] for module in users if module.startswith("views.bases.")}
    from_packages = {"core.serializable"}
    assert not {module for module, rooms in shared.items() if len(rooms) < 2} - from_packages


def test_only_public_names_are_imported() -> None:
    found = [(module, name) for module in MODULES for _, name in own_imports(module)]
    assert not [(module, name) for module, name in found if name.startswith("_")]


def test_parts_of_the_engine_know_no_views() -> None:
    allowed = {
        "core.awaiting",
        "core.buffers",
        "core.errors",
        "core.indices",
        "core.tracebacks",
        "core.worker",
        "engine.culprits",
        "core.once",
        *(f"engine.{other}" for other in SELF_CONTAINED),
    }
    for part in SELF_CONTAINED:
        assert {imported for imported, _ in own_imports(f"engine.{part}")} <= allowed, part


def test_engines_and_frameworks_are_not_imported_at_import_time() -> None:
    for module in {*MODULES} - {"torch"}:
        found = {room(imported) for imported, _ in imports(module, nested=False)}
        assert not found & (ENGINES | LIBRARIES), module


def test_what_comes_with_seqkit_imports_sources_only_inside_functions() -> None:
    for module in MODULES:
        if room(module) != "sources" and not module.startswith("stores.materialize."):
            assert "sources" not in {room(name) for name, _ in own_imports(module, nested=False)}, module


def test_only_the_engine_uses_threads_and_processes() -> None:
    for module, path in MODULES.items():
        if room(module) in CONCURRENT_ROOMS:
            continue
        found = {imported for imported, _ in imports(module) if room(imported) in CONCURRENCY}
        assert found <= {"asyncio", "threading"}, module
        text = path.read_text()
        assert set(re.findall(r"\b(?:asyncio|threading)\.(\w+)", text)) <= PASSIVE, module
        assert not re.search("from (asyncio|threading)", text), module
        assert "os.fork" not in text, module


def in_a_fresh_interpreter(code: str) -> str:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=ROOT
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


# Rooms that are imported when one of their names is first used. All other public names come with seqkit.
LAZY_ROOMS = {
    "collation",
    "loader",
    "samplers",
    "sources",
    "observe",
    "engine",
    "streams",
    "testing",
    "torch",
}
NOT_WITH_SEQKIT = {
    *ENGINES,
    *{"IPython", "hypothesis", "pandas", "pytest", "scipy"},
    *{"cloudpickle", "numpy.ma", "numpy.random", "threadpoolctl"},
    *{"asyncio", "concurrent.futures", "multiprocessing", "queue", "signal", "subprocess"},
    *{"fractions", "hashlib", "html", "logging", "pathlib", "secrets", "socket", "uuid"},
}


def test_importing_seqkit_imports_little() -> None:
    code = "import sys, numpy; before = {*sys.modules}; import seqkit; print(*{*sys.modules} - before)"
    loaded = set(in_a_fresh_interpreter(code).split())
    assert not loaded & NOT_WITH_SEQKIT
    modules = {name.removeprefix("seqkit.") for name in loaded if name.startswith("seqkit.")}
    cheap = {
        *LAZY_ROOMS,
        "engine.observers",
        "collation.base",
        "collation.casting",
        "collation.default",
        "collation.leaves",
    }  # a package without its modules costs nothing
    assert {name for name in modules if room(name) in LAZY_ROOMS} <= cheap


def test_the_stub_of_the_package_names_what_it_imports() -> None:
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
    found = {
        alias.name: importlib.import_module(f".{node.module or ''}", "seqkit")
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {*found} | {"__version__"} == {*dir(sk)}
    assert all(getattr(sk, name) is getattr(module, name) for name, module in found.items())
    listed = next(node for node in tree.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(listed.value) == sk.__all__


@pytest.mark.parametrize(
    "package", ["seqkit.collation", "seqkit.loader", "seqkit.samplers", "seqkit.streams"]
)
def test_names_are_imported_lazily_from_where_type_checkers_find_them(package: str) -> None:
    loaded = importlib.import_module(package)
    assert loaded.__file__ is not None
    path = Path(loaded.__file__)
    stub = path.with_suffix(".pyi")
    for_checkers = ast.parse((stub if stub.exists() else path).read_text()).body
    if not stub.exists():
        blocks = [block for block in for_checkers if isinstance(block, ast.If)]
        for_checkers = [n for b in blocks if "not" not in ast.unparse(b.test) for n in b.body]
    found = {
        alias.name: importlib.import_module("." * node.level + (node.module or ""), package)
        for node in for_checkers
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert found
    assert {*found, *loaded.__all__} <= {*dir(loaded)}
    assert all(getattr(loaded, name) is getattr(module, name) for name, module in found.items())
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        loaded.no_such_name


@pytest.mark.parametrize(
    "name",
    ["collation", "loader", "observe", "samplers", "sources", "streams", "testing", "torch"],
)
def test_dir_of_a_room_shows_its_public_names_only(name: str) -> None:
    pytest.importorskip("torch" if name == "torch" else "seqkit")
    package = importlib.import_module(f"seqkit.{name}")
    assert dir(package) == sorted(package.__all__)


def test_dir_of_the_package_shows_no_internals() -> None:
    shown = {*dir(sk)}
    assert {*sk.__all__, "Stack", "RandomSampler", "filter", "streams", "__version__"} <= shown
    assert shown.isdisjoint({"core", "views", "lazy_names", "attach", "transforms"})
    assert [name for name in shown if name.startswith("_")] == ["__version__"]
    assert all(hasattr(sk, name) for name in shown - {"torch"})


def test_every_public_name_can_be_the_first_one_imported() -> None:
    # Also where the package of the same name was imported before.
    for code in ("sk.prefetch", "sk.view([]).prefetch", "importlib.import_module('seqkit.engine.prefetch')"):
        in_a_fresh_interpreter(f"""
import importlib, inspect, pickle
import seqkit as sk

{code}
assert "DataLoader" in dir(sk) and "DataLoader" not in vars(sk)
assert sk.prefetch is importlib.import_module("seqkit.engine.prefetch").prefetch
assert "nworkers" in inspect.signature(sk.View.prefetch).parameters
assert list(sk.view([1, 2]).prefetch(0)) == [1, 2]
assert "list of 2" in sk.view([1, 2])._repr_html_()
for name in sk.__all__:
    assert pickle.loads(pickle.dumps(getattr(sk, name))) is getattr(sk, name), name
from seqkit import *
assert DataLoader is sk.DataLoader and prefetch is sk.prefetch and not inspect.ismodule(view)
""")


def test_no_item_waits_for_an_import() -> None:
    in_a_fresh_interpreter("""
import sys
import numpy as np
import seqkit as sk

samples = [{"x": np.zeros(2), "y": (i, 0.5, np.float32(i)), "z": ["a", True]} for i in range(4)]
views = [
    sk.batch(samples, 2, collate_fn=sk.default_collate),
    sk.batch(sk.smap(lambda sample: sample["x"], samples), 2, collate_fn=sk.Stack()),
    sk.batch(sk.smap(lambda sample: sample["x"], samples), 2, collate_fn=sk.Pad()),
    sk.shuffle(samples),
    sk.random_map(lambda sample, rng: rng.random(), samples),
    sk.mix([samples, samples], [2, 1]),
    sk.mix([samples, samples], stop="all"),
    sk.smap(sk.PackSequences(4), sk.gather_groups([[1], [2]], sk.bins([1, 1], 4, long="split", seed=0))),
    sk.filter(bool, samples),
    sk.prefetch(samples, 2, "thread"),
]
loader = sk.DataLoader(samples, 2, shuffle=True)
before = {*sys.modules}
sk.default_collate(samples)
for view in [*views, loader.view]:
    view[0], next(iter(view))
assert {*sys.modules} == before, {*sys.modules} - before
""")


def test_seqkit_remembers_where_it_was_imported() -> None:
    in_a_fresh_interpreter("""
import os, seqkit
here = os.getcwd()
os.chdir("/")
from seqkit.core.worker import ORIGIN
assert ORIGIN == here
""")


ELSEWHERE = """
import os, sys

for module in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[module] = None
for name in ("eventfd", "fork", "memfd_create", "pidfd_open", "register_at_fork", "sched_getaffinity"):
    delattr(os, name)
sys.platform = "win32"

import seqkit as sk

loader = sk.DataLoader(range(6), 2, num_workers=1, method="thread")
assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]
assert list(sk.prefetch(range(9), 2, "thread")) == list(range(9))
"""


def test_without_linux_seqkit_imports_and_thread_workers_run() -> None:
    # What Windows lacks is taken away: nothing may ask for it unasked.
    run = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True, cwd=ROOT)
    assert (run.returncode, run.stderr) == (0, "")


# -------------------------------------------------------------------- every public name is complete

PUBLIC = {
    name: getattr(package, name)
    for package in (sk, samplers, collation)
    for name in (*package.__all__, *["filter"] * (package is sk))
}


def _returns_view(thing: Any) -> bool:
    if not isinstance(thing, types.FunctionType):
        return False
    returned = typing.get_type_hints(thing).get("return")
    kind = typing.get_origin(returned) or returned
    return isinstance(kind, type) and issubclass(kind, sk.View)


COMBINATORS = sorted(name for name, thing in PUBLIC.items() if _returns_view(thing))


def view_classes(base: type = sk.View) -> Iterator[type]:
    """Yield every class of view that the modules of the public combinators define."""
    public = {PUBLIC[name].__module__ for name in COMBINATORS}
    for kind in base.__subclasses__():
        if kind.__module__ in public:
            yield kind
        yield from view_classes(kind)


def test_the_public_names_are_sorted_and_exist() -> None:
    for package in (sk, samplers, collation):
        assert list(package.__all__) == sorted(package.__all__)
    assert {"smap", "batch", "gather", "prefetch"} <= set(COMBINATORS)


def test_importing_everything_shadows_no_builtin_and_no_name_of_typing() -> None:
    assert not {*sk.__all__} & {*dir(builtins), *typing.__all__}
    assert sk.filter is PUBLIC["filter"]


def test_names_of_samplers_and_collation_can_be_imported_from_seqkit() -> None:
    for package in (samplers, collation):
        assert all(getattr(sk, name) is getattr(package, name) for name in package.__all__)


def test_every_combinator_has_a_case_in_the_registry() -> None:
    assert {*COMBINATORS} <= {case.combinator for case in CASES}


def test_every_class_of_view_occurs_in_the_registry() -> None:
    seen: set[type] = set()
    for case in CASES:
        view = case.build(case.items(list(range(max(case.sizes)))))
        seen.update(type(node) for node in walk(view))
        close(view)
    assert set(view_classes()) <= seen


def test_the_names_of_cases_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def _is_made_by_a_function(thing: Any) -> bool:
    is_view = isinstance(thing, type) and issubclass(thing, sk.View) and thing is not sk.View
    return is_view or dataclasses.is_dataclass(thing)


OF_STREAMS = {name: getattr(sk.streams, name) for name in sk.streams.__all__}


def test_every_public_name_has_an_example_that_runs() -> None:
    for name, thing in {**PUBLIC, **OF_STREAMS}.items():
        assert thing.__doc__, name
        assert ">>>" in thing.__doc__ or (_is_made_by_a_function(thing) and name in PUBLIC), name


def test_every_public_name_is_in_the_reference() -> None:
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    for name, thing in {**PUBLIC, **OF_STREAMS}.items():
        assert name in pages or (_is_made_by_a_function(thing) and name in PUBLIC), name


def test_every_combinator_has_a_reference_page() -> None:
    for name in COMBINATORS:
        text = (ROOT / "docs" / "reference" / f"{name}.md").read_text()
        assert text.startswith(f"# {name}")
        assert f"](figures/{name}.svg)" in text
        assert "\nNotes\n-----\n" in (PUBLIC[name].__doc__ or "").replace("    ", ""), name  # the cost


def test_every_combinator_has_tests_of_its_own() -> None:
    for name in COMBINATORS:
        where = PUBLIC[name].__module__.split(".")[1:]
        if where[0] in ("views", "stores"):
            assert (ROOT / "tests" / where[0] / f"test_{where[-1]}.py").exists()


def test_views_leave_the_dunders_to_the_base_class() -> None:
    for kind in view_classes():
        if kind.__module__.startswith(("seqkit.views.", "seqkit.stores.")):
            found = {name for name, value in vars(kind).items() if name.startswith("__") and callable(value)}
            assert found <= {"__init__", "__reduce__"}, kind


def test_every_view_can_be_rebuilt() -> None:
    for kind in view_classes():
        assert kind._rebuild is not sk.View._rebuild, kind  # type: ignore[attr-defined]
        assert kind._get is not sk.View._get, kind  # type: ignore[attr-defined]
