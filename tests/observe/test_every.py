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
    return sum(range(20_000)) / (i - 119)

if __name__ == "__main__":
    try:
        with sk.prefetch(sk.batch(sk.smap(decode, range(120)), 2), 2, "METHOD", chunk_size=5) as node:
            for batch in node:
                assert len(batch) == 2
    except sk.EvaluationError as error:
        print([line.replace("prefetch[59] → ", "") for line in str(error).splitlines()[:2]], error.index)
"""
LINE = r"seqkit: (\d+) items, ([\d,.e+]+) per second; waited \d+ %, 2 workers busy \d+ %; (.*)"
STAGE = r"(.+?) [\d.]+ % \([\d.]+ (?:ns|µs|ms|s) each\)(?:, )?"


def run(script, number, **options):
    environment = os.environ | {every.VARIABLE: number}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run([sys.executable, "-c", script], text=True, env=environment, **options)


@pytest.mark.parametrize("method", ["thread", "process"])
def test_a_line_is_printed_every_so_many_items_and_errors_stay_as_they_are(method):
    script = SCRIPT.replace("METHOD", method)
    found, without = run(script, "20"), run(script, "0")
    lines = [re.match(LINE, line) for line in found.stderr.splitlines()]
    assert [line.group(1) for line in lines] == ["20", "40", "60"], found.stderr
    names = {name for line in lines for name in re.findall(STAGE, line.group(3))}
    assert names == {"batch(2)", "smap(decode)", "<range of 120>"}
    assert without.stderr == ""
    assert found.stdout == without.stdout
    assert "smap" in found.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_lines_that_cannot_be_printed_do_not_end_the_program():
    with open("/dev/full", "w") as full:
        assert "smap" in run(SCRIPT.replace("METHOD", "thread"), "20", stderr=full).stdout
    found = run("import seqkit", "often")
    assert "SEQKIT_PROFILE_EVERY must be a number of items, 0 for none, got 'often'" in found.stderr


def test_each_node_has_lines_of_its_own_with_the_rate_since_the_last(monkeypatch, capsys):
    monkeypatch.setattr(observers, "prepare", observers.prepare)
    every.install("10")
    below = sk.prefetch(sk.smap(abs, range(10)), 1, chunk_size=1)
    assert list(sk.prefetch(sk.smap(str, below), 1, chunk_size=1)) == [str(i) for i in range(10)]
    lines = capsys.readouterr().err.splitlines()
    assert sorted("smap(abs)" in line for line in lines) == [False, True]
    monkeypatch.setattr(every, "perf_counter", iter(range(10**6)).__next__)  # a second between two lines
    list(sk.prefetch(sk.smap(spin, range(30)), 1, chunk_size=1))
    lines = [
        re.search(r"([\d.]+) items, ([\d.]+) per", line) for line in capsys.readouterr().err.splitlines()
    ]
    assert len(lines) > 1
    assert sum(float(line.group(2)) for line in lines) == float(lines[-1].group(1))


def spin(i):
    return sum(range(20_000))
