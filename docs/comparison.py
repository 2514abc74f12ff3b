"""Write the measured tables and the plot of docs/comparison.md.

``make bench`` writes results to ``build/benchmarks``. Copy them to ``docs/benchmarks/<run>/``, then run
``python docs/comparison.py``. With ``--check`` it writes nothing. It fails if the page or the plot does not
show the stored results. Ratios are taken round by round, because the libraries are measured in turn.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from figures import COLOURS, INK, PALE

FOLDER = Path(__file__).parent
PAGE, PLOT, RESULTS = FOLDER / "comparison.md", FOLDER / "comparison.svg", FOLDER / "benchmarks"

Figures = dict[str, list[float]]


def results(part: str, number: int = 0) -> list[dict[str, Any]]:
    """Return the results of the runs that measured the figure `number` of a part of the benchmarks."""
    runs = [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"*/{part}.json"))]
    return [run for run in runs if len(run["figures"]) > number]


def ratios(figures: Figures, ours: str, theirs: str, less_is_better: bool = False) -> list[float]:
    """Return how many times better ours is, round by round."""
    pairs = zip(figures[ours], figures[theirs], strict=True)
    return [b / a if less_is_better else a / b for a, b in pairs]


def spread(values: list[float]) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.2g} ({low:.2g} to {high:.2g})"


def lines(header: list[str], rows: list[list[str]]) -> str:
    rows = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def runs_of(part: str, number: int = 0) -> list[str]:
    return [f"run {run}" for run, _ in enumerate(results(part, number), 1)]


def batches() -> str:
    found = [run["figures"][0] for run in results("transport")]
    peers = [name for name in found[0] if name not in ("seqkit", "seqkit DataLoader")]
    rows = [
        [name, *(f"{statistics.median(one[name]):.0f}" for one in found)]
        + [spread(ratios(one, "seqkit", name)) for one in found]
        for name in peers
    ]
    ours = ["**seqkit**", *(f"{statistics.median(one['seqkit']):.0f}" for one in found), *["1"] * len(found)]
    runs = runs_of("transport")
    return lines(
        ["", *(f"per second, {run}" for run in runs), *(f"seqkit is, {run}" for run in runs)], [ours, *rows]
    )


def arrays() -> str:
    cases = [(size, held) for size in (4, 32) for held in (0, 2, 6)]
    rows = []
    for number, (size, held) in enumerate(cases, 1):
        found = [run["figures"][number] for run in results("transport", number)]
        peers = [name for name in found[0] if name != "seqkit"]
        best = max(peers, key=lambda name: statistics.median(found[0][name]))
        rows.append([f"{size} MiB", str(held), best, *(spread(ratios(one, "seqkit", best)) for one in found)])
    return lines(
        [
            "array",
            "results held",
            "fastest other library",
            *(f"seqkit is, {r}" for r in runs_of("transport", 7)),
        ],
        rows,
    )


def integers() -> str:
    found = [run["figures"][7] for run in results("transport", 7)]
    rows = [
        [name, *(f"{statistics.median(one[name]):,.0f}" for one in found)]
        for name in sorted(found[0], key=lambda name: -statistics.median(found[0][name]))
    ]
    return lines(["one int per item", *(f"per second, {run}" for run in runs_of("transport", 7))], rows)


def epochs() -> str:
    runs = results("loader")
    names = [row[:2] for row in runs[0]["tables"][0]["rows"][1:]]
    rows = []
    for number, (name, workers) in enumerate(names):
        cells = [spread(ratios(run["figures"][number], "seqkit.torch", "torch", True)) for run in runs]
        rows.append([name, workers, *cells])
    return lines(
        ["epoch of", "workers", *(f"seqkit.torch is faster than torch by, {r}" for r in runs_of("loader"))],
        rows,
    )


def moments() -> str:
    runs = results("loader")
    first = runs[0]["figures"][-2]
    ours, torch, again, torch_again = first
    rows = []
    for title, one, other in [
        ("first batch, 2 forked workers", ours, torch),
        ("next epoch on living workers", again, torch_again),
    ]:
        rows.append([title, *(spread(ratios(run["figures"][-2], one, other, True)) for run in runs)])
    return lines(["", *(f"faster than torch by, {run}" for run in runs_of("loader"))], rows)


def resume() -> str:
    runs = results("loader")
    rows = [
        [name.removesuffix(", ms"), *(f"{spread(run['figures'][-1][name])} ms" for run in runs)]
        for name in runs[0]["figures"][-1]
    ]
    return lines(["first batch after a resume in", *runs_of("loader")], rows)


def machines() -> str:
    found = {f"{run['machine']}, {run['date']}" for part in ("transport", "loader") for run in results(part)}
    return "\n".join(f"- {each}" for each in sorted(found))


TABLES = {
    "machines": machines,
    "batches": batches,
    "arrays": arrays,
    "integers": integers,
    "epochs": epochs,
    "moments": moments,
    "resume": resume,
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
    """Draw the rate of stacked batches: a bar for the median, a line from the lowest to the highest round."""
    runs = [run["figures"][0] for run in results("transport")]
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
