"""Run benchmarks by name, or all of them. Print tables, and write results to build/benchmarks/<name>.json.

Tables of several libraries show each ratio with that of the last tag.
"""

import importlib
import json
import sys
from datetime import date
from pathlib import Path

from .measure import machine, recorded

NAMES = (
    "delivery",
    "pipelines",
    "start",
    "views",
    "transport",
    "codec",
    "collation",
    "latency",
    "coroutines",
    "stages",
    "pack",
    "loader",
    "streams",
    "executors",
    "sources",
    "lines",
    "cold",
    "groups",
    "packs",
    "auto",
    "bottlenecks",
    "looking",
    "features",
)

if __name__ == "__main__":
    chosen = sys.argv[1:] or NAMES
    unknown = set(chosen) - set(NAMES)
    if unknown:
        sys.exit(f"unknown benchmarks: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    print(machine())
    folder = Path("build", "benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        importlib.import_module(f".bench_{name}", __package__).main()
        results = {"machine": machine(), "date": date.today().isoformat(), **recorded()}
        (folder / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
