"""Run notebooks without Jupyter, and store or check the outputs of their cells.

``python docs/notebook.py examples/*.ipynb`` runs each notebook in its own process and stores the outputs. The
first picture among them is also stored in a file next to the notebook, for the index of the gallery.
With ``--check`` it writes nothing and fails if a text output differs from the stored one. Cells with the tag
``varies`` are run but not compared, because their outputs depend on the installed versions.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import linecache
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

Cell = dict[str, Any]


def main() -> None:
    check, paths = "--check" in sys.argv, [name for name in sys.argv[1:] if name != "--check"]
    if len(paths) == 1:
        (compare if check else store)(Path(paths[0]))
    else:
        for path in paths:
            subprocess.run([sys.executable, __file__, path, *["--check"] * check], check=True)


def store(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    for number, (cell, outputs) in enumerate(run(notebook), 1):
        cell.update(execution_count=number, outputs=outputs)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if picture := first_picture(notebook):
        path.with_suffix(".png").write_bytes(picture)


def compare(path: Path) -> None:
    for number, (cell, outputs) in enumerate(run(json.loads(path.read_text("utf-8"))), 1):
        stored, found = text(cell["outputs"]), text(outputs)
        if found != stored and "varies" not in cell["metadata"].get("tags", []):
            change = f"cell {number} printed {found!r} instead of {stored!r}"
            sys.exit(f"{path}: {change}. Run without --check to store it.")


def first_picture(notebook: Cell) -> bytes | None:
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    return base64.b64decode(pictures[0]) if pictures else None


def text(outputs: list[Cell]) -> str:
    """Return the text of all outputs. Jupyter may store lines that are printed together as two outputs."""
    return "".join("".join(output.get("text") or output["data"]["text/plain"]) for output in outputs)


def run(notebook: Cell) -> list[tuple[Cell, list[Cell]]]:
    """Run the code cells in order, in one namespace; return each with its outputs."""
    main_module = sys.modules["__main__"] = ModuleType("__main__")  # where Jupyter runs cells, too
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [(cell, run_cell(cell, number, vars(main_module))) for number, cell in enumerate(cells, 1)]


def run_cell(cell: Cell, number: int, names: dict[str, Any]) -> list[Cell]:
    source, filename = "".join(cell["source"]), f"Cell In[{number}]"
    linecache.cache[filename] = len(source), None, source.splitlines(keepends=True), filename
    tree, last = ast.parse(source, filename), None
    if isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, filename, "exec"), names)
        value = eval(compile(last, filename, "eval"), names) if last else None
    outputs = []
    if lines := printed.getvalue().splitlines(keepends=True):
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = {"data": formats(value), "execution_count": number, "metadata": {}}
        outputs.append({**data, "output_type": "execute_result"})
    return outputs


def formats(value: Any) -> Cell:
    """Return the value in the formats that Jupyter shows."""
    data: Cell = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    return data


if __name__ == "__main__":
    main()
