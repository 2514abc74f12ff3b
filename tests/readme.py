"""Run the first example of README.md with the installed package: ``python -I tests/readme.py``.

``make dist`` runs it in an environment with the wheel and its "examples" extra.
"""

import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import seqkit

ROOT = Path(__file__).parents[1]


def first(pattern, page):
    """Return what a pattern finds first on a page."""
    found = re.search(pattern, (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return found[1] if found else sys.exit(f"{page} has no {pattern}")


def main():
    assert not Path(seqkit.__file__).is_relative_to(ROOT / "seqkit"), "the package is not installed"
    versions = {
        "seqkit/__init__.py": seqkit.__version__,
        "the metadata": metadata.version("seqkit"),
        "the newest part of CHANGELOG.md": first(r"^## (\d\S*)", "CHANGELOG.md"),
    }
    assert len({*versions.values()}) == 1, versions
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(first(r"^```python\n(.*?)^```", "README.md"), "utf-8")
        photos = [ROOT / "docs" / "photos.py", "photos"]
        for script in (photos, ["-W", "error", "train.py"]):
            subprocess.run([sys.executable, "-E", *script], cwd=folder, check=True)
    print(f"The first example of README.md runs with seqkit {seqkit.__version__} from {seqkit.__file__}.")


if __name__ == "__main__":
    main()
