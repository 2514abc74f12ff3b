"""Write the measured tables of docs/comparison.md, their charts and the spread of their figures.

``make bench`` writes results to ``build/benchmarks``. Copy them to ``docs/benchmarks/<run>/``, then run
``python docs/comparison.py``. It writes the tables into the page, a chart of each table to
``docs/comparison``, and all medians with their spread to ``docs/comparison/spread.csv``. With ``--check`` it
writes nothing. It fails if one of them does not show the stored results. Ratios are taken round by round,
because the libraries are measured in turn.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from figures import COLOURS, INK, PALE

FOLDER = Path(__file__).parent
PAGE, RESULTS, CHARTS = FOLDER / "comparison.md", FOLDER / "benchmarks", FOLDER / "comparison"

# The libraries that only the charts and the CSV have.
CHARTS_ONLY = {
    "StatefulDataLoader",
    "torchdata.nodes",
    "SPDL, 2 threads in a process",
    "joblib",
    "Hugging Face datasets",
    "multiprocessing.Pool",
}

# One entry for each figure that a run of `benchmarks/compare.py` measures: is less better?
LESS = {"per_second": False, "first_ms": True, "consumer_us": True, "worker_mib": True}


def results(part: str) -> list[dict[str, Any]]:
    """Return the results of a part of the benchmarks, one for each run."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"*/{part}.json"))]


def compared(part: str, title: str, field: str) -> list[dict[str, list[float]]]:
    """Return the figures of each library, for each run."""
    return [{name: fields[field] for name, fields in run["compared"][title].items()} for run in results(part)]


def ratios(ours: list[float], theirs: list[float], less_is_better: bool) -> list[float]:
    """Return how many times better ours is, round by round."""
    return [b / a if less_is_better else a / b for a, b in zip(ours, theirs, strict=True)]


def number(value: float) -> str:
    """Return two digits, or all digits before the point."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


@dataclass(frozen=True)
class Table:
    """Measured figures: the rounds of all runs for each row and column, perhaps none."""

    corner: str
    columns: list[str]
    rows: dict[str, list[list[float]]]
    unit: str = ""
    own: str = ""  # the row of values that are no ratios, which the chart leaves out

    def text(self) -> str:
        """Return the table of the page: the median of all rounds in each cell, of a few libraries."""
        lines = []
        for name, cells in self.rows.items():
            if name in CHARTS_ONLY:
                continue
            medians = [number(statistics.median(cell)) + self.unit if cell else "" for cell in cells]
            lines.append([f"**{name}**" if name == self.own else name, *medians])
        rows = [f"| {' | '.join(line)} |" for line in ([self.corner, *self.columns], *lines)]
        return "\n".join([rows[0], f"|{'---|' * (len(self.columns) + 1)}", *rows[1:]])

    def spread(self, title: str) -> list[str]:
        """Return lines of CSV."""
        return [
            f'{title},"{name}","{column}",{statistics.median(cell):.4g},{min(cell):.4g},{max(cell):.4g}'
            for name, cells in self.rows.items()
            for column, cell in zip(self.columns, cells, strict=True)
            if cell
        ]

    def chart(self) -> str:
        """Draw a point for each median and a line from the lowest to the highest round, in powers of ten."""
        rows = {name: cells for name, cells in self.rows.items() if name != self.own}
        values = list(chain.from_iterable(chain.from_iterable(rows.values())))
        first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        left, top, height = 350, 20 + 18 * len(self.columns), 22
        bottom = top + height * len(rows)

        def at(value: float) -> float:
            return left + 420 * (math.log10(value) - first) / (last - first)

        drawn = []
        for power in range(first, last + 1):
            value = 10.0**power
            x, colour = at(value), INK if power == 0 else PALE
            drawn.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="{colour}"/>'
                f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="{INK}">{value:,g}</text>'
            )
        for k, column in enumerate(self.columns):
            drawn.append(
                f'<circle cx="{left + 6}" cy="{12 + 18 * k}" r="5" fill="{COLOURS["abcde"[k]]}"/>'
                f'<text x="{left + 18}" y="{16 + 18 * k}" fill="{INK}">{column}</text>'
            )
        for row, (name, cells) in enumerate(rows.items()):
            y = top + height * row + height / 2
            drawn.append(f'<text x="{left - 12}" y="{y + 4}" text-anchor="end" fill="{INK}">{name}</text>')
            for k, cell in enumerate(cells):
                if cell:
                    colour, here = COLOURS["abcde"[k]], y + 3 * (k - (len(cells) - 1) / 2)
                    drawn.append(
                        f'<line x1="{at(min(cell)):.1f}" x2="{at(max(cell)):.1f}" y1="{here}" y2="{here}"'
                        f' stroke="{colour}" stroke-width="2"/>'
                        f'<circle cx="{at(statistics.median(cell)):.1f}" cy="{here}" r="4" fill="{colour}"/>'
                    )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="{bottom + 26}"'
            f' viewBox="0 0 800 {bottom + 26}" font-family="sans-serif" font-size="13">'
            f"{''.join(drawn)}</svg>\n"
        )


def joined(runs: list[list[float]]) -> list[float]:
    return [value for run in runs for value in run]


def versus(part: str, columns: dict[str, str], field: str = "per_second") -> Table:
    """Return seqkit's own figure, then how many times better seqkit is than each library."""
    found = [compared(part, title, field) for title in columns.values()]
    own = "seqkit, measured"
    rows = {own: [joined([run["seqkit"] for run in runs]) for runs in found]}
    for name in dict.fromkeys(name for runs in found for run in runs for name in run if name != "seqkit"):
        cells = [cell(runs, name, LESS[field]) for runs in found]
        if any(cells):
            rows[name] = cells
    return Table("seqkit, relative to", list(columns), rows, own=own)


def cell(runs: list[dict[str, list[float]]], name: str, less_is_better: bool) -> list[float]:
    """Return the ratios, or nothing where a run has no figure."""
    if not all(name in run and all(run[name]) for run in runs):
        return []
    return joined([ratios(run["seqkit"], run[name], less_is_better) for run in runs])


TRANSPORT = {
    "stacked images, 18 MiB": "stacked images, 18 MiB",
    "arrays of 4 MiB": "arrays of 4 MiB, 0 held",
    "arrays of 32 MiB, 6 held": "arrays of 32 MiB, 6 held",
    "one int per item": "one int per item",
}
PIPELINES = {name: name for name in ("JPEG, augmented", "token windows", "table rows", "straggler")}
STARTS = {
    "fork": "start, fork",
    "fork, with a progress bar": "start, fork, beside a progress bar",
    "spawn": "start, spawn",
}


def processor() -> Table:
    pictures = {name: name for name in ("JPEG, augmented", "token windows", "table rows")}
    return versus("pipelines", pictures, "consumer_us")


def memory() -> Table:
    return versus("start", {name: title for name, title in STARTS.items() if "bar" not in name}, "worker_mib")


def stages() -> Table:
    runs = results("stages")
    header, *lines = runs[0]["tables"][0]["rows"]
    names = header[2:]
    rows = {
        line[0]: [joined([run["figures"][k].get(name, []) for run in runs]) for name in names]
        for k, line in enumerate(lines)
    }
    return Table("time, as a multiple of the slowest stage's", names, rows)


def epochs() -> Table:
    runs = results("loader")
    rows: dict[str, list[list[float]]] = {}
    for k, (title, workers, *_) in enumerate(runs[0]["tables"][0]["rows"][1:]):
        figures = [run["figures"][k] for run in runs]
        found = joined([ratios(one["seqkit.torch"], one["torch"], True) for one in figures])
        rows.setdefault(title, []).append(found)
        assert workers == ("0", "2")[len(rows[title]) - 1]
    return Table("seqkit.torch, relative to torch", ["no workers", "2 workers"], rows)


def resume() -> Table:
    runs = results("loader")
    elsewhere = "200,000 shuffled samples, from 50%, "
    figures = [
        {**{elsewhere + name: values for name, values in run["figures"][-1].items()}, **run["figures"][-2]}
        for run in runs
    ]
    rows = {name.removesuffix(", ms"): [joined([one[name] for one in figures])] for name in figures[0]}
    return Table("first batch after a resume", ["takes"], rows, " ms")


def machines() -> str:
    found = {f"{run['machine']}, {run['date']}" for part in PARTS for run in results(part)}
    return "\n".join(f"- {each}" for each in sorted(found))


PARTS = ("transport", "pipelines", "start", "stages", "loader")
TABLES: dict[str, Callable[[], Table]] = {
    "transport": partial(versus, "transport", TRANSPORT),
    "pipelines": partial(versus, "pipelines", PIPELINES),
    "processor": processor,
    "start": partial(versus, "start", STARTS, "first_ms"),
    "memory": memory,
    "stages": stages,
    "resume": resume,
    "epochs": epochs,
}

# The page has a chart and a sentence of these.
WITHOUT_TABLE = {"processor", "memory", "resume"}


def files() -> dict[Path, str]:
    """Return the text of each file to write."""
    text, csv, written = PAGE.read_text("utf-8"), ["table,row,column,median,lowest,highest"], {}
    shown = {"machines": machines()}
    for name, make in TABLES.items():
        table = make()
        if name not in WITHOUT_TABLE:
            shown[name] = table.text()
        csv += table.spread(name)
        written[CHARTS / f"{name}.svg"] = table.chart()
    for name, inner in shown.items():
        begin, end = f"<!-- {name} -->", "<!-- end -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        assert found, f"docs/comparison.md needs a place for the table {name}"
        text = f"{before}{begin}\n\n{inner}\n\n{end}{after}"
    return {PAGE: text, CHARTS / "spread.csv": "\n".join(csv) + "\n", **written}


def main() -> None:
    CHARTS.mkdir(exist_ok=True)
    for path, text in files().items():
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != text:
            sys.exit(
                f"docs/{path.relative_to(FOLDER)} does not show the stored results: run docs/comparison.py"
            )


if __name__ == "__main__":
    main()
