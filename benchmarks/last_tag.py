"""Figures of the last tag: those that it has in ``docs/benchmarks``, from other days or another machine.

So only ratios are compared with them: both libraries of a ratio were measured in the same rounds.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

ROOT, STORED = Path(__file__).parents[1], "docs/benchmarks/"


def git(*arguments: str) -> str:
    """Return the output of git, or "" without git, without a repository and without a tag."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT)
    except FileNotFoundError:
        return ""
    return "" if done.returncode else done.stdout.strip()


@cache
def last_tag() -> str:
    """Return the name of the last tag below this commit, or "" if there is none."""
    return git("describe", "--tags", "--abbrev=0")


@cache
def compared() -> dict[str, dict[str, Any]]:
    """Return the figures of each library, in all runs that the tag has, for each title."""
    found: dict[str, dict[str, Any]] = {}
    tag = last_tag()
    for path in git("ls-tree", "-r", "--name-only", tag, STORED).split() if tag else ():
        for title, libraries in json.loads(git("show", f"{tag}:{path}"))["compared"].items():
            for library, fields in libraries.items():
                kept = found.setdefault(title, {}).setdefault(library, {})
                for field, values in fields.items():
                    kept.setdefault(field, []).extend(values)
    return found
