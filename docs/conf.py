"""Build the site: ``make docs`` writes it to ``build/docs``.

The source folder is the repository, so every link between its pages works on the site and in a code browser.
Links to Python, numpy and PyTorch need the indexes of these sites. ``make docs LINKS=1`` reads them from the
network, and ``make docs LINKS=folder`` from the files ``python.inv``, ``numpy.inv`` and ``torch.inv``.
"""

import os
import re
import sys
import tempfile
import urllib.request
from contextlib import chdir
from functools import cache
from pathlib import Path

from sphinx.application import Sphinx

import seqkit

sys.path.insert(0, str(Path(__file__).parent))
import displays

project = "seqkit"
author = copyright = "The seqkit developers"
release = version = seqkit.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "examples/*.ipynb",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "seqkit/*/README.md",
]
exclude_patterns = ["docs/_*"]

# ---------------------------------------------------------------- pages

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # tests/test_examples.py runs the notebooks and compares their outputs
suppress_warnings = ["myst.header"]  # a page may begin with a figure

# ---------------------------------------------------------------- docstrings

default_role = "py:obj"
autodoc_typehints = "none"  # the docstrings state types in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
autodoc_mock_imports = ["torch"]  # seqkit.torch is shown without PyTorch
add_module_names = False

# ---------------------------------------------------------------- links to other sites

SITES = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "torch": "https://docs.pytorch.org/docs/stable",
}
TYPES = [  # linked in tables of parameters
    *("bool", "callable", "dict", "float", "int", "list", "object", "range", "str", "tuple", "numpy.ndarray"),
    *("FileNotFoundError", "IndexError", "KeyError", "OSError", "RuntimeError", "TypeError", "ValueError"),
    *("seqkit.DataLoader", "seqkit.streams.StreamLoader", "seqkit.View"),
]


def index_of(name: str, links: str) -> Path | None:
    """Return a file with the names that a site explains, or say why its links are left out."""
    path, address = Path(links) / f"{name}.inv", f"{SITES[name]}/objects.inv"
    try:
        if links == "1":
            path = Path(tempfile.mkdtemp()) / path.name
            with urllib.request.urlopen(address, timeout=10) as answer:
                path.write_bytes(answer.read())
        return path.resolve(strict=True)
    except OSError as error:
        print(
            f"conf.py: the pages have no links to {name}. {address if links == '1' else path}: {error}",
            file=sys.stderr,
        )
        return None


if links := os.environ.get("LINKS"):
    extensions.append("sphinx.ext.intersphinx")
    indexes = {name: index_of(name, links) for name in SITES}
    intersphinx_mapping = {name: (SITES[name], str(path)) for name, path in indexes.items() if path}
    if len(intersphinx_mapping) == len(SITES):
        numpydoc_xref_param_type = True
        numpydoc_xref_ignore = "all"
        numpydoc_xref_aliases = {name.split(".")[-1]: f":obj:`~{name}`" for name in TYPES}
        numpydoc_xref_aliases["callable"] = ":obj:`callable <callable>`"
        nitpicky = True  # a name with a dot has a target; a name without one is a parameter
        nitpick_ignore_regex = [("py:obj", r"[^.]*|(datasets|cloudpickle|WorkerInfo)\..*")]

# ---------------------------------------------------------------- versions

# A list of published versions that all of them read from one address: docs/developers/release.md.
switcher = os.environ.get("VERSIONS")

# ---------------------------------------------------------------- looks

html_theme = "pydata_sphinx_theme"
html_title = f"seqkit {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]  # the start page sends its reader to docs/
html_show_sourcelink = False
html_theme_options: dict[str, object] = {
    "logo": {"text": project if switcher else html_title},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "github-dark",
}
if switcher:
    html_theme_options["switcher"] = {"json_url": switcher, "version_match": version}
    html_theme_options["navbar_start"] = ["navbar-logo", "version-switcher"]
    html_theme_options["check_switcher"] = False  # the first release adds the file after its build
    html_theme_options["show_version_warning_banner"] = True
# Indexes whose tables are the groups of the sidebar.
GROUPED = {"docs/how-to/index", "docs/reference/index", "docs/explanation/index"}
html_sidebars: dict[str, list[str]] = {"docs/index": [], "docs/tutorial": [], "docs/comparison": []}


def show_dark_twins(source: list[str], folder: Path) -> None:
    """Let a dark page show ``x-dark.png`` in place of ``x.png``, where there is such a file."""

    def twins(found: re.Match[str]) -> str:
        text, path = found.groups()
        dark = f"{path}-dark.png"
        if not folder.joinpath(dark).exists():
            return found[0]
        return f"![{text}]({path}.png){{.only-light}} ![{text}]({dark}){{.only-dark}}"

    source[0] = re.sub(r"!\[([^]]*)\]\((\S+)\.png\)", twins, source[0])


@cache
def drawn() -> dict[str, str]:
    """Return the displays of seqkit as HTML."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        return {name: make() for name, make in displays.displays().items()}


def show_displays(source: list[str]) -> None:
    """Show a display itself in place of its picture, so that it is that of this version."""

    def display(found: re.Match[str]) -> str:
        name = found[1]
        return f"```{{raw}} html\n{drawn()[name]}\n```" if name in drawn() else found[0]

    source[0] = re.sub(r"^!\[[^]]*\]\(figures/(\S+)\.png\)$", display, source[0], flags=re.MULTILINE)


def add_groups(page: str, source: list[str]) -> None:
    """Give the index of a room a sidebar: a group for each of its tables, with the pages of its links."""
    if page not in GROUPED:
        return
    text, seen = source[0], set[str]()
    for title, rows in re.findall(
        r"^\| ([^|]+) \| \|\n\|---\|---\|\n((?:\|.*\n)+)", text, flags=re.MULTILINE
    ):
        names = [name for name in re.findall(r"\]\(([\w-]+)\.md\)", rows) if name not in seen]
        seen.update(names)
        pages = "\n".join(names)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title.capitalize()}\n\n{pages}\n```\n"


def add_cards(page: str, source: list[str]) -> None:
    """Show the table of the gallery as cards, which ``_static/site.css`` draws."""
    if page == "docs/gallery/index":
        table = r"^\| \| \|\n(?:\|.*\n)+"
        source[0] = re.sub(table, r":::{container} cards\n\g<0>:::\n", source[0], flags=re.MULTILINE)


def name_tests(source: list[str]) -> None:
    """Name a test by its path. A link to it would download the file."""
    source[0] = re.sub(r"\[[^]]+\]\((?:\.\./)+(tests/[^)]+)\)", r"`\1`", source[0])


def setup(app: Sphinx) -> None:
    def folder(path: str | Path) -> Path:
        return Path(app.srcdir, path).parent

    app.connect("source-read", lambda _, page, source: add_groups(page, source))
    app.connect("source-read", lambda _, page, source: add_cards(page, source))
    app.connect("source-read", lambda _, page, source: name_tests(source))
    app.connect("source-read", lambda _, page, source: show_displays(source), priority=1)
    app.connect("source-read", lambda _, page, source: show_dark_twins(source, folder(page)))
    app.connect("include-read", lambda _, path, page, source: show_dark_twins(source, folder(path)))
