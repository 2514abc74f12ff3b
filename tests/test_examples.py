"""The examples run, the Python in the documentation runs as printed, its figures and links are right.

Each page is one script: its ```python blocks in order, without a main guard and with warnings as errors. Ten
pages are started like a user's script in a fresh interpreter, and the others in forks of a process that has
imported seqkit.
"""

import ast
import base64
import contextlib
import functools
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import seqkit as sk

from .warm import Warm

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted([*(ROOT / "examples").glob("*.ipynb"), *(ROOT / "docs" / "gallery").glob("*.ipynb")])
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "seqkit").rglob("*.md")])
FIGURES = sorted((ROOT / "docs" / "reference" / "figures").glob("*.svg"))
ROOMS = ["explanation", "gallery", "how-to", "reference"]
REFERENCE = [page for page in PAGES if page.parent.name == "reference" and page.stem != "index"]


def name(path):
    return str(path.relative_to(ROOT))


def script(page):
    """Return the Python of a page, every line where it is on the page, so that errors name the place."""
    lines, inside = [], False
    for line in page.read_text("utf-8").splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            lines.append("")
        else:
            lines.append(line if inside else "")
    return "\n".join(lines) + "\n"


SCRIPTS = {page: text for page in PAGES if (text := script(page)).strip()}


def run(path, timeout, arguments=(), options=()):
    """Run a script like a user does, and return the finished process."""
    done = subprocess.run(
        [sys.executable, *options, str(path), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=path.parent,
    )
    assert done.returncode == 0, f"{path.name} failed\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def warm():
    with Warm(ROOT) as warm:
        yield warm


ARGUMENTS = {"quickstart": ("1",)}  # one epoch; `make demo` reads more, for its medians
OPTIONAL = "PIL accelerate dask datasets fsspec h5py lightning pandas pyarrow ray soundfile torch zarr"


def needs(code):
    """Skip code that imports an optional library if it is not installed."""
    for library in OPTIONAL.split():
        imports = re.search(rf"^(import|from) {library}\b", code, re.M)
        if imports and not importlib.util.find_spec(library):
            pytest.skip(f"{library} is not installed")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_example_runs_and_checks_itself(example):
    needs(example.read_text("utf-8"))
    run(example, 280, ARGUMENTS.get(example.stem, ()))


def cells(notebook):
    """Return the code cells of a notebook, each with its source as one string."""
    found = json.loads(notebook.read_text("utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in found if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_cells_of_notebook_print_what_is_stored(notebook, tmp_path, warm):
    needs("\n".join(cell["source"] for cell in cells(notebook)))
    assert warm.run(ROOT / "docs" / "notebook.py", tmp_path, 55, ("--check", str(notebook)))[::2] == (0, "")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_notebook_is_small_and_is_reached_from_the_index(notebook):
    assert notebook.stat().st_size < 60 * 1024
    gallery = ROOT / "docs" / "gallery"
    assert f"({os.path.relpath(notebook, gallery)})" in (gallery / "index.md").read_text("utf-8")


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "gallery").glob("*.png")), ids=name)
def test_picture_of_the_gallery_is_in_its_notebook(picture):
    stored = picture.with_suffix(".ipynb").read_text("utf-8")
    assert base64.b64encode(picture.read_bytes()).decode() in stored


def test_notebook_with_another_output_is_refused(tmp_path):
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["1 + 1"]}
    changed = tmp_path / "changed.ipynb"
    changed.write_text(json.dumps({"cells": [cell]}), "utf-8")
    with pytest.raises(AssertionError, match=r"cell 1 printed '2' instead of ''"):
        run(ROOT / "docs" / "notebook.py", 55, ("--check", str(changed)))


def marked(page):
    """Mark a page that starts engines, which takes long, as a test of frameworks."""
    marks = [pytest.mark.frameworks] if re.search(r"^import ray$", SCRIPTS[page], re.M) else []
    return pytest.param(page, id=name(page), marks=marks)


# The pages whose code starts processes in most ways.
FRESH = ["README", "tutorial", "notebooks", "handles", "failing-items", "stages", "prefetch"]
FRESH += ["DataLoader", "StreamLoader", "features-of-files"]


@pytest.mark.parametrize("page", [marked(page) for page in SCRIPTS])
def test_python_on_page_runs_as_printed(page, tmp_path, warm):
    path = tmp_path / f"page_{page.stem}.py"  # not called like a module that it imports
    path.write_text(SCRIPTS[page], "utf-8")
    needs(SCRIPTS[page])
    if page == ROOT / "README.md":  # it reads a folder of photos
        run(ROOT / "docs" / "photos.py", 55, (str(tmp_path / "photos"),))
    if page.stem in FRESH:
        done = run(path, 55, options=("-W", "error"))
        status, printed, errors = done.returncode, done.stdout, done.stderr
    else:
        status, printed, errors = warm.run(path, tmp_path, 55)
    assert (status, errors) == (0, ""), printed
    if page.stem in ("README", "tutorial"):
        assert not lines_not_printed(page, printed)


def lines_not_printed(page, printed):
    """Return the lines of outputs on a page that were not printed. Lines with times vary, or are cut by …"""
    shown = "".join(
        re.findall(r"^```text\n(.*?)^```", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    )
    shown, printed = (re.sub(r"\S+\.py:\d+", "line of code", text).splitlines() for text in (shown, printed))
    return [line for line in shown if line not in printed and not re.search(r"\d [nµm]s\b|…", line)]


@pytest.mark.parametrize("page", REFERENCE, ids=name)
def test_reference_page_has_an_example_that_checks_something(page):
    assert "assert " in SCRIPTS.get(page, "")


@pytest.mark.parametrize("room", ROOMS)
def test_each_page_is_reached_from_the_index_of_its_room(room):
    index = ROOT / "docs" / room / "index.md"
    linked = set(links(index))
    assert not [page.name for page in index.parent.glob("*.md") if page.name not in linked | {"index.md"}]


@pytest.mark.parametrize("room", ["explanation", "how-to", "reference"])
def test_each_page_is_in_one_of_at_most_five_groups_of_the_sidebar(room):
    folder = ROOT / "docs" / room  # docs/conf.py makes a group of each table without titles
    tables = re.findall(
        r"^\| [^|]+ \| \|\n\|---\|---\|\n((?:\|.*\n)+)", (folder / "index.md").read_text("utf-8"), flags=re.M
    )
    assert len(tables) <= 5
    pages = {page.stem for page in folder.glob("*.md")} - {"index"}
    assert not pages - set(re.findall(r"\]\(([\w-]+)\.md\)", "".join(tables)))


@pytest.mark.parametrize("room", ROOMS)
def test_each_page_begins_with_a_sentence(room):
    paragraphs = {
        page.name: page.read_text("utf-8").split("\n\n")[1] for page in (ROOT / "docs" / room).glob("*.md")
    }
    assert not [page for page, first in paragraphs.items() if not re.fullmatch(r"[\w`[].*[.:]", first, re.S)]


@pytest.mark.parametrize("page", REFERENCE, ids=name)
def test_reference_page_shows_the_docstrings_of_names_that_exist(page):
    shown = re.findall(r"^\.\. auto(?:function|class):: (\S+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    assert shown, (
        "show the docstring with a directive, as docs/reference/batch.md does below its first example"
    )
    assert all(inspect.getdoc(functools.reduce(getattr, path.split(".")[1:], sk)) for path in shown)


@pytest.mark.parametrize("drawing", ["figures.py", "pipeline.py", "model.py", "comparison.py"])
def test_figures_show_what_the_code_does(drawing):
    run(ROOT / "docs" / drawing, 55, ("--check",))


@pytest.mark.parametrize("figure", FIGURES, ids=name)
def test_figure_is_on_its_page(figure):
    pages = {"stages": "prefetch"}
    page = figure.parents[1] / f"{pages.get(figure.stem, figure.stem)}.md"
    assert f"(figures/{figure.name})" in page.read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_have_targets(page):
    broken = [link for link in links(page) if not leads_somewhere(page, link)]
    assert not broken


def links(page):
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text)
    return [link for link in found if not link.startswith(("http://", "https://"))]


def leads_somewhere(page, link):
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in headings(target))


def headings(page):
    """Return the anchors of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


# -------------------------------------------------------------------- calls within sentences

# Pages that tell of the past, or of the classes of PyTorch that have the same names.
NOT_CHECKED = {"CHANGELOG.md", "docs/explanation/pytorch.md"}
CHECKED = [page for page in PAGES if name(page) not in NOT_CHECKED and page.parent.name != "decisions"]


def calls(page):
    """Yield the calls and signatures in the sentences of a page, as they are written and as syntax trees."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`([^`\n]+\([^`\n]*\)[^`\n]*)`", text):
        code = span.replace("\\|", "|").replace("…", "...")
        try:
            yield from ((span, node) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
        except SyntaxError:  # it may be a signature, such as `npz(path, *, name)`
            with contextlib.suppress(SyntaxError):
                yield span, ast.parse(f"def {code.split(' -> ')[0]}: ...").body[0]


def documented(node):
    """Return the function that a call or signature names, or None if it is not one of seqkit."""
    names = [node.name] if isinstance(node, ast.FunctionDef) else ast.unparse(node.func).split(".")
    places = {name: getattr(sk, name) for name in ("sources", "samplers", "collation", "streams")} | {
        "sk": sk
    }
    if names[0] in places and len(names) > 1:
        return functools.reduce(getattr, names[1:], places[names[0]])
    if len(names) > 1:
        return None
    return next((getattr(place, names[0]) for place in places.values() if names[0] in place.__all__), None)


@pytest.mark.parametrize("page", CHECKED, ids=name)
def test_calls_in_sentences_have_the_parameters_of_the_function(page):
    for span, node in calls(page):
        if not callable(function := documented(node)):
            continue
        signature = inspect.signature(function)
        if isinstance(node, ast.FunctionDef):
            written = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
            assert {*written} <= {*signature.parameters}, span
        else:
            keywords = {keyword.arg: None for keyword in node.keywords if keyword.arg}
            positional = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
            signature.bind_partial(*positional, **keywords)
