"""Run scripts in forks of one process that has imported seqkit, which saves each of them half a second.

``python -W error -m tests.warm`` reads a line of JSON for each script, and answers with its exit status. The
fork ends like an interpreter that ran the script, or by SIGALRM if it runs too long.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType

PRELOADED = (
    "engine.prefetch",
    "loader",
    "streams",
    "stores.add_cache.add_cache",
    "collation",
    "samplers",
    "observe",
)


class Warm:
    """The process, in which scripts run one by one."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.warm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            text=True,
        )

    def run(
        self, path: Path, folder: Path, seconds: int, arguments: Sequence[str] = ()
    ) -> tuple[int, str, str]:
        """Run a script. Return its exit status, and what it has written, by way of files in `folder`."""
        out, err = folder / "out", folder / "err"
        request = {"argv": [str(path), *arguments], "out": str(out), "err": str(err), "seconds": seconds}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        status = self._process.stdout.readline()  # type: ignore[union-attr]
        return int(status), out.read_text("utf-8"), err.read_text("utf-8")

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()


def main() -> None:
    for name in PRELOADED:
        import_module(f"seqkit.{name}")
    for line in sys.stdin:
        request = json.loads(line)
        if (pid := os.fork()) == 0:
            signal.alarm(request["seconds"])
            _run(request["argv"], request["out"], request["err"])
            return
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _run(argv: list[str], out: str, err: str) -> None:
    """Become an interpreter that runs a script."""
    for number, path in ((0, os.devnull), (1, out), (2, err)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    script = ModuleType("__main__")
    script.__file__ = argv[0]
    sys.modules["__main__"], sys.argv, sys.path[0] = script, argv, os.path.dirname(argv[0])
    os.chdir(sys.path[0])
    exec(compile(Path(argv[0]).read_text("utf-8"), argv[0], "exec"), vars(script))


if __name__ == "__main__":
    main()
