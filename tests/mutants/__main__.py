"""Run the tests of a room against each of its faults, and print which ones no test noticed.

python -m tests.mutants                 all rooms
python -m tests.mutants engine core     two rooms
python -m tests.mutants --only slot     the faults with this word in their sentence or file
python -m tests.mutants --check         only see whether all of them still apply
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist")
# What a fault may come to.
KILLED, SURVIVED, UNSURE, LATE, STALE = "killed", "SURVIVED", "UNSURE", "TOO LONG", "DOES NOT APPLY"
APPLIES = "applies"
MOST_DOUBTFUL = 4
# A test that hangs ends the whole run, also if it can no longer be interrupted. A thread that hangs does not
# keep the interpreter from its end.
PYTEST = "import os, pytest, sys; status = pytest.main(sys.argv[1:]); sys.stdout.flush(); os._exit(status)"
OPTIONS = ["-x", "-v", "--tb=line", "-p", "no:cacheprovider", "--timeout-method=thread"]


@dataclass(frozen=True)
class Mutant:
    """A fault. `runs` has the arguments of each pytest run of its room."""

    room: str
    breaks: str
    file: str
    old: list[str]
    new: list[str]
    runs: tuple[str, ...]

    def applied(self, text: str) -> str:
        """Return a file with the fault. Raise LookupError unless the lines to change occur exactly once."""
        lines, wanted = text.split("\n"), _without_indentation(self.old)
        places = [
            i
            for i in range(len(lines) - len(wanted) + 1)
            if lines[i].strip() == wanted[0].strip()
            and _without_indentation(lines[i : i + len(wanted)]) == wanted
        ]
        if len(places) != 1:
            raise LookupError(f"its lines occur {len(places)} times in seqkit/{self.file}")
        (at,) = places
        indentation = min(_indentation(line) for line in lines[at : at + len(wanted)] if line)
        put = [" " * indentation + line if line else line for line in _without_indentation(self.new)]
        return "\n".join([*lines[:at], *put, *lines[at + len(wanted) :]])


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without_indentation(lines: list[str]) -> list[str]:
    common = min((_indentation(line) for line in lines if line.strip()), default=0)
    return [line[common:] for line in lines]


def mutants_of(path: Path) -> list[Mutant]:
    """Read the faults of a room."""
    text = path.read_text()
    runs = tuple(re.findall(r"^run (.+)$", text, re.MULTILINE))
    found = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip("\n").split("\n")
        heads = [line for line in lines if line[:1] not in ("@", "-", "+", "#")]
        if not any(line.startswith("@ ") for line in lines):
            continue
        (file,) = (line[2:] for line in lines if line.startswith("@ "))
        old, new = ([line[2:] for line in lines if line[:1] == sign] for sign in "-+")
        found.append(Mutant(path.stem, " ".join(heads), file, old, new, runs))
    return found


class Tree:
    """A copy of the repository whose package has at most one fault at a time."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder) / "tree"
        shutil.copytree(ROOT, self.path, ignore=LEFT_OUT)

    def write(self, file: str, text: str) -> None:
        path = self.path / "seqkit" / file
        path.write_text(text)
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)  # its time stamps count seconds only

    def pytest(self, arguments: list[str], until: float) -> tuple[int | None, str]:
        """Return the exit status, None if there was no time left, and the first test that failed."""
        command = [sys.executable, "-c", PYTEST, *OPTIONS]
        with tempfile.TemporaryFile("w+") as written:  # no pipe, which processes left behind would keep open
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=self.path,
                env={**os.environ, "PYTHONPATH": str(self.path)},
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(max(until - monotonic(), 1))
            except subprocess.TimeoutExpired:
                pass
            has_ended = process.poll() is not None
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also what a fault has left behind
            process.wait()
            if not has_ended:
                return None, ""
            written.seek(0)
            output = written.read()
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
        failed = failed or re.search(r"^(tests/.+::.+) \++ Timeout \++$", output, re.MULTILINE)
        status = 0 if process.returncode == 5 else process.returncode  # 5: no test was chosen
        # An address in the name of a case is another one the next time.
        return status, re.sub(r"\[.*0x.*", "", failed[1]) if failed else output.strip()[-300:]


def outcome_of(mutant: Mutant, tree: Tree, seconds: float) -> tuple[str, str]:
    """Return what a fault comes to, and the test that noticed it."""
    path = tree.path / "seqkit" / mutant.file
    try:
        original = path.read_text()
        faulty = mutant.applied(original)
    except (OSError, LookupError) as error:
        return STALE, str(error)
    until, doubtful = monotonic() + seconds, list[str]()
    try:
        for run in [*_named_alike(tree, mutant), *mutant.runs]:
            while True:
                tree.write(mutant.file, faulty)
                left_out = [f"--deselect={test}" for test in doubtful]
                status, failed = tree.pytest([*run.split(), *left_out], until)
                if status is None:
                    return LATE, run
                if not status:
                    break
                if "::" not in failed:  # nothing could be imported
                    return KILLED, failed
                always = tree.pytest([failed], monotonic() + 120)[0] != 0
                tree.write(mutant.file, original)
                if always and tree.pytest([failed], monotonic() + 120)[0] == 0:
                    return KILLED, failed
                doubtful.append(failed)  # it fails without the fault, or only sometimes
                if len(doubtful) > MOST_DOUBTFUL:
                    return (
                        UNSURE,
                        f"tests fail without the fault, too, or only sometimes: {', '.join(doubtful)}",
                    )
    finally:
        tree.write(mutant.file, original)
    return SURVIVED, ""


def _named_alike(tree: Tree, mutant: Mutant) -> list[str]:
    """Return the test file that is named like the file with the fault, to run it first."""
    words = {word for run in mutant.runs for word in run.split() if not word.startswith("-")}
    files = [f"{word}/test_{Path(mutant.file).stem}.py" for word in words]
    return [file for file in files if (tree.path / file).exists()]


def main() -> int:
    rooms = sorted(path.stem for path in Path(__file__).parent.glob("*.txt"))
    parser = argparse.ArgumentParser("python -m tests.mutants", description="Break the package, and see.")
    parser.add_argument("rooms", nargs="*", metavar="room", help=f"of {', '.join(rooms)}")
    parser.add_argument("--only", default="", metavar="word", help="only faults with this word")
    parser.add_argument("--check", action="store_true", help="run no tests")
    parser.add_argument("--seconds", type=float, default=900, help="most for one fault (default 900)")
    options = parser.parse_args()
    if unknown := set(options.rooms) - set(rooms):
        parser.error(f"unknown room {unknown.pop()!r}, there are {', '.join(rooms)}")
    chosen = [
        mutant
        for room in options.rooms or rooms
        for mutant in mutants_of(Path(__file__).with_name(f"{room}.txt"))
        if options.only in mutant.breaks + mutant.file
    ]
    found: dict[str, list[Mutant]] = {}
    with tempfile.TemporaryDirectory(prefix="seqkit-mutants-") as folder:
        tree = Tree(folder)
        for mutant in chosen:
            begun = monotonic()
            if options.check:
                result, detail = _applies(mutant)
            else:
                result, detail = outcome_of(mutant, tree, options.seconds)
            found.setdefault(result, []).append(mutant)
            print(f"{result:9} {monotonic() - begun:4.0f} s  {mutant.room}: {mutant.breaks}", flush=True)
            if detail:
                print(f"{'':19}{detail}", flush=True)
    print(", ".join(f"{len(mutants)} {result.lower()}" for result, mutants in found.items()) or "no mutants")
    return int(not set(found) <= {KILLED, APPLIES})


def _applies(mutant: Mutant) -> tuple[str, str]:
    try:
        mutant.applied((ROOT / "seqkit" / mutant.file).read_text())
    except (OSError, LookupError) as error:
        return STALE, str(error)
    return APPLIES, ""


if __name__ == "__main__":
    sys.exit(main())
