"""Benchmarks show the ratios of the last tag, from the results that the repository keeps."""

import json
import shutil
import subprocess

import pytest

from benchmarks import compare, last_tag


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Return a function that calls git in a new repository, which is that of the benchmarks."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "tag.gpgsign=false"]

    def git(*arguments):
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "--message=first")
    monkeypatch.setattr(last_tag, "ROOT", tmp_path)
    for cached in (last_tag.last_tag, last_tag.compared):
        cached.cache_clear()
    yield git
    for cached in (last_tag.last_tag, last_tag.compared):
        cached.cache_clear()


def stored(folder, rate):
    folder.mkdir(parents=True)
    figures = {"seqkit": {"per_second": [rate]}, "a peer": {"per_second": [2.0]}}
    (folder / "transport.json").write_text(json.dumps({"compared": {"ints": figures}}))


def test_figures_of_all_runs_of_the_last_tag_are_found(repository, tmp_path):
    stored(tmp_path / "docs" / "benchmarks" / "run-1", 4.0)
    stored(tmp_path / "docs" / "benchmarks" / "run-2", 8.0)
    repository("add", ".")
    repository("commit", "--message=results")
    repository("tag", "v1")
    (tmp_path / "docs" / "benchmarks" / "run-1" / "transport.json").write_text("{}")
    assert last_tag.last_tag() == "v1"
    assert last_tag.compared()["ints"]["seqkit"] == {"per_second": [4.0, 8.0]}
    assert compare.ratios(last_tag.compared()["ints"])["a peer"] == ["3.00", "", "", ""]


def test_without_a_tag_there_are_no_figures(repository):
    assert last_tag.last_tag() == ""
    assert last_tag.compared() == {}
    assert compare.ratios({}) == {}
