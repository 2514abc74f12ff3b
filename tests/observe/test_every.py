"""Lines about the stages after every N items, in programs that run with an environment variable."""

import os
import re
import subprocess
import sys

import pytest

import seqkit as sk
from seqkit.engine import observers
from seqkit.observe import every

SCRIPT = """
import seqkit as sk

def decode(i):
    return sum(range(20_000))

if __name__ == "__main__":
    with sk.prefetch(sk.batch(sk.smap(decode, range(120)), 2), 2, "METHOD", chunk_size=5) as node:
        assert list(node) == [[sum(range(20_000))] * 2] * 60
"""
LINE = r"seqkit: (\d+) items, [\d,.e+]+ per second; waited \d+ %, 2 workers busy \d+ %; (.*)"
STAGE = r"(.+?) [\d.]+ % \([\d.]+ (?:ns|µs|ms|s) each\)(?:, )?"


def run(script, number):
    environment = os.environ | {every.VARIABLE: number}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("method", ["thread", "process"])
def test_a_line_is_printed_every_so_many_items(method):
    found = run(SCRIPT.replace("METHOD", method), "20")
    lines = found.stderr.splitlines()
    assert found.returncode == 0, found.stderr
    assert [re.match(LINE, line).group(1) for line in lines] == ["20", "40", "60"]
    names = {name for line in lines for name in re.findall(STAGE, re.match(LINE, line).group(2))}
    assert names == {"batch(2)", "smap(decode)", "<range of 120>"}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_lines_that_cannot_be_printed_do_not_end_the_program():
    environment = os.environ | {every.VARIABLE: "20"}
    with open("/dev/full", "w") as full:
        script = SCRIPT.replace("METHOD", "thread") + '    print("done")\n'
        found = subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=full, text=True, env=environment
        )
    assert found.stdout == "done\n"


def test_nothing_is_printed_for_0():
    assert run(SCRIPT.replace("METHOD", "thread"), "0").stderr == ""


def test_the_number_must_be_a_number():
    found = run("import seqkit", "often")
    assert "SEQKIT_PROFILE_EVERY must be a number of items, 0 for none, got 'often'" in found.stderr


def test_each_node_has_lines_of_its_own(monkeypatch, capsys):
    monkeypatch.setattr(observers, "prepare", observers.prepare)
    every.install("10")
    below = sk.prefetch(sk.smap(abs, range(10)), 1, chunk_size=1)
    assert list(sk.prefetch(sk.smap(str, below), 1, chunk_size=1)) == [str(i) for i in range(10)]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert sum("smap(abs)" in line for line in lines) == 1
    assert sum("smap(str)" in line for line in lines) == 1


@pytest.mark.parametrize("method", ["thread", "process"])
def test_errors_are_those_of_a_program_without_lines(method):
    script = """
import seqkit as sk

if __name__ == "__main__":
    view = sk.batch(sk.smap(lambda x: 6 / (x - 3), range(8)), 2)
    try:
        list(sk.prefetch(view, 1, "METHOD"))
    except sk.EvaluationError as error:
        print([line.replace("prefetch[1] → ", "") for line in str(error).splitlines()[:2]], error.index)
""".replace("METHOD", method)
    with_lines, without = run(script, "100"), run(script, "0")
    assert with_lines.returncode == 0, with_lines.stderr
    assert with_lines.stdout == without.stdout
    assert "smap" in without.stdout
