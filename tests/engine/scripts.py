"""Programs of their own, for what a test process cannot do to itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["PATIENCE_S", "finished", "forked", "running"]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 50


def _write(folder: Path, code: str) -> Path:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code))
    return script


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


@contextmanager
def running(folder: Path, code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script in a session of its own; whatever is left of its process group is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, str(_write(folder, code)), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()


def finished(
    folder: Path, code: str, *arguments: str, patience_s: float = PATIENCE_S
) -> tuple[int, str, str]:
    """Run a script to its end; return its exit status and what it wrote."""
    with running(folder, code, *arguments) as process:
        out, err = process.communicate(timeout=patience_s)
        return process.returncode, out, err


@contextmanager
def forked(ask: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """Fork this process; the child lives inside the block, and answers when it is asked."""
    go, answer = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        while os.read(go[0], 1):
            os.write(answer[1], b"y" if ask() else b"n")

    def asked() -> bool:
        os.write(go[1], b"!")
        return os.read(answer[0], 1) == b"y"

    try:
        yield asked
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for end in (*go, *answer):
            os.close(end)
