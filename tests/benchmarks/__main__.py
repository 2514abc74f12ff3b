"""Run benchmarks by name, or all of them."""

import importlib
import sys

from .measure import machine

NAMES = (
    "delivery",
    "start",
    "views",
    "transport",
    "codec",
    "latency",
    "stages",
    "pack",
    "loader",
    "streams",
    "executors",
    "sources",
    "groups",
    "auto",
    "profile",
    "bottlenecks",
)

if __name__ == "__main__":
    chosen = sys.argv[1:] or NAMES
    unknown = set(chosen) - set(NAMES)
    if unknown:
        sys.exit(f"unknown benchmarks: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    print(machine())
    for name in chosen:
        importlib.import_module(f".bench_{name}", __package__).main()
