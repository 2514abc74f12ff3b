"""Write the measured tables and the plot of docs/comparison.md.

``make bench`` writes results to ``build/benchmarks``. Copy them to ``docs/benchmarks/<run>/``, then run
``python docs/comparison.py``. With ``--check`` it writes nothing. It fails if the page or the plot does not
show the stored results. Ratios are taken round by round, because the libraries are measured in turn.
"""

from __future__ import annotations

import json
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

from figures import COLOURS, INK, PALE

FOLDER = Path(__file__).parent
PAGE, PLOT, RESULTS = FOLDER / "comparison.md", FOLDER / "comparison.svg", FOLDER / "benchmarks"

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


def spread(runs: list[list[float]]) -> str:
    """Return the median of each run, then the lowest and the highest round of all."""
    rounds = [value for run in runs for value in run]
    medians = " and ".join(number(statistics.median(run)) for run in runs)
    return f"{medians} ({number(min(rounds))} to {number(max(rounds))})"


def lines(header: list[str], rows: list[list[str]]) -> str:
    rows = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def versus(part: str, columns: dict[str, str], field: str = "per_second") -> str:
    """Return a table: seqkit's own figure, then how many times better seqkit is than each library."""
    found = [compared(part, title, field) for title in columns.values()]
    rows = [["**seqkit**, measured", *(spread([run["seqkit"] for run in runs]) for runs in found)]]
    for name in dict.fromkeys(name for runs in found for run in runs for name in run if name != "seqkit"):
        cells = [cell(runs, name, LESS[field]) for runs in found]
        if any(cells):
            rows.append([name, *cells])
    return lines(["seqkit, relative to", *columns], rows)


def cell(runs: list[dict[str, list[float]]], name: str, less_is_better: bool) -> str:
    """Return the ratios, or nothing where a run has no figure."""
    if not all(name in run and all(run[name]) for run in runs):
        return ""
    return spread([ratios(run["seqkit"], run[name], less_is_better) for run in runs])


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


def processor() -> str:
    pictures = {name: name for name in ("JPEG, augmented", "token windows", "table rows")}
    return versus("pipelines", pictures, "consumer_us")


def memory() -> str:
    return versus("start", {name: title for name, title in STARTS.items() if "bar" not in name}, "worker_mib")


def stages() -> str:
    runs = results("stages")
    titles = [row[0] for row in runs[0]["tables"][0]["rows"][1:]]
    names = runs[0]["tables"][0]["rows"][0][2:]
    rows = [
        [
            title,
            *(
                spread([run["figures"][k][name] for run in runs]) if name in runs[0]["figures"][k] else ""
                for name in names
            ),
        ]
        for k, title in enumerate(titles)
    ]
    return lines(["time, as a multiple of the slowest stage's", *names], rows)


def epochs() -> str:
    runs = results("loader")
    rows = [
        [
            *row[:2],
            spread(
                [
                    ratios(one["seqkit.torch"], one["torch"], True)
                    for one in (run["figures"][k] for run in runs)
                ]
            ),
        ]
        for k, row in enumerate(runs[0]["tables"][0]["rows"][1:])
    ]
    return lines(["epoch of", "workers", "seqkit.torch, relative to torch"], rows)


def resume() -> str:
    runs = results("loader")
    elsewhere = "200,000 shuffled samples, from 50%, "
    figures = [
        {**{elsewhere + name: values for name, values in run["figures"][-1].items()}, **run["figures"][-2]}
        for run in runs
    ]
    rows = [
        [name.removesuffix(", ms"), f"{spread([one[name] for one in figures])} ms"] for name in figures[0]
    ]
    return lines(["first batch after a resume", "takes"], rows)


def machines() -> str:
    found = {f"{run['machine']}, {run['date']}" for part in PARTS for run in results(part)}
    return "\n".join(f"- {each}" for each in sorted(found))


PARTS = ("transport", "pipelines", "start", "stages", "loader")
TABLES = {
    "machines": machines,
    "transport": partial(versus, "transport", TRANSPORT),
    "pipelines": partial(versus, "pipelines", PIPELINES),
    "processor": processor,
    "start": partial(versus, "start", STARTS, "first_ms"),
    "memory": memory,
    "stages": stages,
    "resume": resume,
    "epochs": epochs,
}


def page() -> str:
    text = PAGE.read_text("utf-8")
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->", "<!-- end -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        assert found, f"docs/comparison.md needs a place for the table {name}"
        text = f"{before}{begin}\n\n{table()}\n\n{end}{after}"
    return text


def plot() -> str:
    """Draw the rate of stacked images: a bar for the median, a line from the lowest to the highest round."""
    runs = compared("transport", TRANSPORT["stacked images, 18 MiB"], "per_second")
    rates = {name: [rate for run in runs for rate in run[name]] for name in runs[0]}
    height, left, scale = 26, 290, 290 / max(map(max, rates.values()))
    drawn = []
    for number, (name, values) in enumerate(rates.items()):
        y = 4 + number * height
        colour = COLOURS["a"] if name.startswith("seqkit") else PALE
        middle, low, high = (scale * f(values) for f in (statistics.median, min, max))
        drawn.append(
            f'<text x="{left - 8}" y="{y + 15}" text-anchor="end" fill="{INK}">{name}</text>'
            f'<rect x="{left}" y="{y}" width="{middle:.1f}" height="20" fill="{colour}"/>'
            f'<line x1="{left + low:.1f}" x2="{left + high:.1f}" y1="{y + 10}" y2="{y + 10}" stroke="{INK}"'
            f' stroke-width="2"/><text x="{left + high + 6:.1f}" y="{y + 15}" fill="{INK}">'
            f"{statistics.median(values):.0f}</text>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{8 + len(rates) * height}"'
        f' viewBox="0 0 640 {8 + len(rates) * height}" font-family="sans-serif" font-size="13">'
        f"{''.join(drawn)}</svg>\n"
    )


def main() -> None:
    if "--check" not in sys.argv:
        PAGE.write_text(page(), "utf-8")
        PLOT.write_text(plot(), "utf-8")
    elif PAGE.read_text("utf-8") != page() or PLOT.read_text("utf-8") != plot():
        sys.exit("docs/comparison.md does not show the stored results: run python docs/comparison.py")


if __name__ == "__main__":
    main()
