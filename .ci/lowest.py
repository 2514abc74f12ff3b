"""Print the lowest versions that pyproject.toml allows, as requirements for pip."""

import tomllib
from pathlib import Path

EXTRAS = ("displays", "examples", "sources")

project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8"))["project"]
extras = project["optional-dependencies"]
required = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
print("\n".join(sorted({line.replace(">=", "==") for line in required})))
