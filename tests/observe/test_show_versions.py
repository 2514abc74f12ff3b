"""The lines of `show_versions`: versions, the system, and how workers would start."""

import multiprocessing
import subprocess
import sys
import threading
from importlib import metadata

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.processes import linux


@pytest.fixture
def shown(capsys):
    """Return a function that calls `show_versions` and returns its lines as a dict."""

    def show():
        sk.show_versions()
        return dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())

    return show


def test_versions_are_those_of_the_installed_packages(shown):
    found = shown()
    assert found["seqkit"] == sk.__version__
    assert found["numpy"] == np.__version__
    assert found["Python"].startswith(sys.version.split()[0])


def test_a_package_that_is_not_installed_has_no_line(shown, monkeypatch):
    def version(package):
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", version)
    assert "numpy" not in shown()


def test_at_most_25_lines_are_printed(capsys, monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda package: "1.0")
    monkeypatch.setenv("SEQKIT_DEBUG", "1")
    monkeypatch.setenv("SEQKIT_NATIVE_THREADS", "1")
    sk.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert "environment    SEQKIT_DEBUG=1, SEQKIT_NATIVE_THREADS=1" in lines
    assert len(lines) == 24


def test_threads_that_make_forking_unsafe_are_named(shown):
    if linux.missing():
        pytest.skip(linux.missing())
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="logger")
    thread.start()
    try:
        assert "from a template, because of thread 'logger'" in " ".join(shown().values())
    finally:
        over.set()
        thread.join()


def test_a_start_method_that_the_program_set_is_named(shown, monkeypatch):
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none: "spawn")
    assert shown()["workers"] == "by spawn, which multiprocessing.set_start_method chose"


def test_other_systems_have_the_standard_pool(shown, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert shown()["workers"] == "from the standard pool: it needs Linux, this is darwin"


def test_no_optional_package_is_imported():
    code = """
import sys, seqkit
seqkit.show_versions()
optional = "torch ray distributed tqdm datasets fsspec h5py imageio pandas PIL polars pyarrow soundfile zarr"
assert not {*sys.modules} & {*optional.split()}, {*sys.modules} & {*optional.split()}
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "workers        by fork: no other thread matters\n" in done.stdout or linux.missing()
