"""`watch`: progress of an iteration in displays, bars, functions and lines of JSON."""

import io
import json
import sys

import pytest

import seqkit as sk
from seqkit.observe import watch
from seqkit.observe.watch import ProgressMeter, _Notebook, _TextLine, display_of, to_stderr
from seqkit.streams import StreamLoader
from seqkit.testing.failing import by_iteration

from ..helpers import Clock


@pytest.fixture
def clock(monkeypatch):
    """Return the clock of the displays, which stands still until a function works."""
    found = Clock()
    monkeypatch.setattr(ProgressMeter, "clock", staticmethod(found))
    return found


@pytest.fixture
def _ticks(monkeypatch):
    """Let a second pass at each look at the clock, so that each item is shown."""
    monkeypatch.setattr(ProgressMeter, "clock", staticmethod(iter(range(10**6)).__next__))


def watched(sequence, clock, seconds=1, **more):
    """Return what is shown of an iteration whose items take so many seconds."""
    shown = []
    items = list(watch(sk.smap(clock.work(seconds), sequence), shown.append, interval=1, **more))
    assert items == list(sequence)
    return shown


def test_the_rate_and_the_remaining_time_follow_from_the_clock(clock):
    shown = watched(range(4), clock, seconds=2)
    assert [progress.done for progress in shown] == [1, 2, 3, 4]
    assert [progress.remaining_s for progress in shown] == [6, 4, 2, 0]
    assert {progress.total for progress in shown} == {4}
    assert {progress.rate for progress in shown} == {0.5}
    assert shown[-1].seconds == 8


def test_the_consumers_own_time_is_not_waiting(clock):
    shown = []
    work = clock.work(3)
    for item in watch(sk.smap(clock.work(1), range(3)), shown.append, interval=4):
        work(item)
    assert [progress.waited_share for progress in shown] == [0.25, 0.25, 0.25]


def test_it_shows_no_more_often_than_asked_for(clock):
    shown = []
    list(watch(sk.smap(clock.work(1), range(100)), shown.append, interval=20))
    assert [progress.done for progress in shown] == [20, 40, 60, 80, 100]


@pytest.mark.usefixtures("_ticks")
def test_workers_are_shown():
    shown = []
    with sk.prefetch(range(50), 2) as node:
        items = iter(watch(node, shown.append))
        assert [next(items) for _ in range(3)] == [0, 1, 2]
    assert shown[-1].workers == 2
    assert "workers 2, busy" in str(shown[-1])


@pytest.mark.usefixtures("_ticks")
@pytest.mark.parametrize("method", ["thread", "process"])
def test_loaders_are_watched(method):
    shown = []
    loader = sk.DataLoader(range(64), batch_size=8, num_workers=2, method=method)
    assert len(list(watch(loader, shown.append))) == 8
    assert max(progress.workers for progress in shown) == 2
    assert (shown[-1].done, shown[-1].total) == (8, 8)
    assert not (method == "process" and max(progress.slots for progress in shown) == 0)


@pytest.mark.usefixtures("_ticks")
def test_stream_loaders_are_watched():
    shown = []
    loader = StreamLoader(range(2), lambda n: iter(range(8)), 2, num_workers=1, method="thread")
    assert len(list(watch(loader, shown.append))) == 8
    assert max(progress.workers for progress in shown) == 1


@pytest.mark.usefixtures("_ticks")
@pytest.mark.parametrize(
    "build",
    [
        lambda: sk.DataLoader(range(40), 4),
        lambda: sk.DataLoader(range(40), 4, num_workers=1, method="thread"),
        lambda: StreamLoader(range(2), lambda n: iter(range(10)), 2, batches_per_epoch=10),
    ],
)
def test_a_resumed_loader_begins_at_its_batch(build):
    with build() as first, build() as resumed:
        batches = iter(first)
        for _ in range(6):
            next(batches)
        resumed.load_state_dict(first.state_dict())
        for begun in (6, 0):
            shown = []
            assert len(list(watch(resumed, shown.append)))
            assert (shown[0].done, shown[0].rate) == (begun, 0)
            assert (shown[-1].done, shown[-1].total, shown[-1].remaining_s) == (10, 10, 0)
            assert {status.rate for status in shown[1:]} == {0.5}


def test_each_iteration_begins_anew():
    items = watch(sk.arange(3), lambda progress: None)
    assert list(items) == list(items) == [0, 1, 2]
    assert items.status.done == 3
    assert len(items) == 3
    assert "3 of 3" in repr(items)


def test_an_error_passes_and_the_iteration_goes_on():
    items = iter(watch(sk.smap(lambda x: 1 / x, [1, 0, 2]), lambda progress: None))
    found = by_iteration(items)
    assert len(found) == 3
    assert found[2] == 0.5


@pytest.mark.usefixtures("_ticks")
def test_iterables_without_a_length_have_no_remaining_time():
    shown = []
    list(watch((i for i in range(3)), shown.append))
    assert shown[-1].total is None
    assert "left" not in shown[-1].figures


@pytest.mark.usefixtures("_ticks")
def test_a_file_gets_lines_of_json():
    file = io.StringIO()
    list(watch(sk.arange(3), file))
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [line["done"] for line in lines][-1] == 3
    assert lines[-1]["total"] == 3


@pytest.mark.usefixtures("_ticks")
def test_a_bar_of_tqdm_is_moved():
    tqdm = pytest.importorskip("tqdm").tqdm
    with tqdm(file=io.StringIO()) as bar:
        list(watch(sk.arange(3), bar))
        assert (bar.n, bar.total) == (3, 3)


@pytest.mark.usefixtures("_ticks")
def test_without_a_terminal_lines_go_to_standard_error(capsys):
    list(watch(sk.arange(2)))
    assert capsys.readouterr().err.splitlines()[-1].startswith("2 of 2, rate ")


class Broken(io.StringIO):
    def write(self, text):
        raise BrokenPipeError("gone")


class Full(io.StringIO):
    def flush(self):
        raise OSError(28, "No space left on device")


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {
    "none": lambda: None,
    "broken pipe": Broken,
    "closed": closed,
    "full": Full,
    "ascii": lambda: io.TextIOWrapper(io.BytesIO(), "ascii"),
}


@pytest.mark.usefixtures("_ticks")
@pytest.mark.parametrize("name", STREAMS)
def test_a_display_never_ends_the_iteration(name, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stderr", STREAMS[name]())
    numbers = sk.smap(float, range(3))
    assert list(watch(numbers)) == [0, 1, 2]
    assert list(sk.materialize(numbers, tmp_path / "numbers.npy", progress=True)) == [0, 1, 2]
    to_stderr("12 µs → 3 °\n")
    if name == "ascii":
        assert sys.stderr.buffer.getvalue().decode().endswith("12 \\xb5s \\u2192 3 \\xb0\n")


@pytest.mark.usefixtures("_ticks")
def test_a_terminal_has_one_line_that_is_written_over(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    line = _TextLine("reading")
    shown = []
    list(watch(sk.arange(3), shown.append))
    for progress in shown:
        line.show(progress)
    line.close()
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert text.count("\r") == len(shown)
    assert max(map(len, text.rstrip().split("\r"))) == 39


@pytest.mark.usefixtures("_ticks")
def test_the_last_status_still_shows_the_workers_and_how_long_it_took():
    shown = []
    list(watch(sk.DataLoader(range(64), batch_size=8, num_workers=2, method="thread"), shown.append))
    assert {"took", "workers", "queue"} <= shown[-1].figures.keys()
    assert "left" not in shown[-1].figures


def test_notebooks_replace_one_output(monkeypatch):
    shown = pytest.importorskip("IPython.display")
    outputs = []

    class Handle:
        def update(self, output):
            outputs.append(output.data)

    monkeypatch.setattr(shown, "display", lambda output, display_id: Handle())
    display = _Notebook("")
    list(watch(sk.arange(3), lambda progress: display.show(progress)))
    assert "3 of 3" in outputs[-1]
    assert "width:100.0%" in outputs[-1]


def test_watch_refuses_bad_arguments():
    with pytest.raises(TypeError, match="watch: the sequence"):
        watch(3)
    with pytest.raises(TypeError, match="watch: report"):
        display_of(3, "watch: report")
    with pytest.raises(ValueError, match="watch: interval must be a number of seconds above 0"):
        watch([1], interval=0)


@pytest.mark.usefixtures("_ticks")
@pytest.mark.parametrize("method", ["thread", "process"])
def test_the_queue_is_shown(method):
    shown = []
    with sk.prefetch(range(50), 1, method, max_buffered=8, chunk_size=1) as node:
        items = iter(watch(node, shown.append, interval=1))
        assert [next(items) for _ in range(20)] == list(range(20))
    assert all(0 < status.ready + status.in_work <= 8 for status in shown[1:-10])
    assert "in work" in shown[5].figures["queue"]


def test_profile_refuses_an_iteration_and_names_the_remedy():
    loader = sk.DataLoader(range(8))
    for running in (iter(loader), watch(loader)):
        with pytest.raises(TypeError, match=rf"profile: a sequence needs .*got {type(running).__name__}"):
            sk.profile(running)
    with pytest.raises(TypeError, match=r"profile: .*StreamLoader .*watch\b"):
        sk.profile(StreamLoader([3], range, 1))


def test_profile_leaves_the_workers_that_run_alone():
    with sk.prefetch(range(100), 1) as node:
        items = iter(node)
        assert next(items) == 0
        assert sk.profile(node, 4, try_workers=False).items == 4
        assert node.engine.is_running()
        assert list(items) == list(range(1, 100))
