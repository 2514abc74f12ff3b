"""`watch`: the progress of an iteration, told to a function or on standard error."""

import io
import sys
from types import SimpleNamespace

import pytest

import seqkit as sk
from seqkit.observe import watch
from seqkit.observe.watch import Watch, to_stderr
from seqkit.streams import StreamLoader
from seqkit.testing.failing import by_iteration

from ..helpers import Clock


@pytest.fixture
def clock(monkeypatch):
    """Return the clock of the displays, which stands still until a function works."""
    found = Clock()
    monkeypatch.setattr(Watch, "clock", staticmethod(found))
    return found


@pytest.fixture
def _ticks(monkeypatch):
    """Let a second pass at each look at the clock, so that each item is shown."""
    monkeypatch.setattr(Watch, "clock", staticmethod(iter(range(10**6)).__next__))


def statuses(sequence, **options):
    shown = []
    list(watch(sequence, shown.append, **options))
    return shown


def test_rate_and_remaining_time_follow_from_the_clock(clock):
    shown = statuses(sk.smap(clock.work(2), range(4)), interval=1)
    assert [(s.done, s.total, s.rate, s.remaining_s) for s in shown] == [
        (done, 4, 0.5, 2 * (4 - done)) for done in (1, 2, 3, 4)
    ]
    assert shown[-1].seconds == 8
    often = statuses(sk.smap(clock.work(1), range(100)), interval=20)
    assert [status.done for status in often] == [20, 40, 60, 80, 100]


def test_the_rate_follows_a_change_slowly(clock):
    shown = statuses(sk.smap(lambda x: clock.work(x)(x), [1, 1, 2]), interval=1)
    assert [round(status.rate, 2) for status in shown] == [1, 1, 0.85]


def test_the_consumers_own_time_is_not_waiting(clock):
    shown, work = [], clock.work(3)
    for item in watch(sk.smap(clock.work(1), range(3)), shown.append, interval=4):
        work(item)
    assert [status.waited_share for status in shown] == [0.25, 0.25, 0.25]


@pytest.mark.usefixtures("_ticks")
@pytest.mark.parametrize("method", ["thread", "process"])
def test_the_workers_of_loaders_are_shown(method):
    shown = statuses(sk.DataLoader(range(64), batch_size=8, num_workers=2, method=method))
    assert {status.workers for status in shown[1:]} == {2}
    assert (shown[-1].done, shown[-1].total) == (8, 8)
    assert (max(status.slots for status in shown) > 0) == (method == "process")
    for part in ("8 of 8, rate ", ", took ", ", waited ", ", workers 2, busy ", ", queue "):
        assert part in str(shown[-1])
    streams = StreamLoader(range(2), lambda n: iter(range(8)), 2, num_workers=1, method=method)
    assert max(status.workers for status in statuses(streams)) == 1


@pytest.mark.usefixtures("_ticks")
@pytest.mark.parametrize("method", ["thread", "process"])
def test_the_queue_is_shown(method):
    shown = []
    with sk.prefetch(range(50), 1, method, max_buffered=8, chunk_size=1) as node:
        items = iter(watch(node, shown.append, interval=1))
        assert [next(items) for _ in range(20)] == list(range(20))
    assert all(0 < status.ready + status.in_work <= 8 for status in shown[1:-10])
    assert f"queue {shown[5].ready} ready, {shown[5].in_work} in work" in str(shown[5])


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
            shown = statuses(resumed)
            assert (shown[0].done, shown[0].rate) == (begun, 0)
            assert (shown[-1].done, shown[-1].total, shown[-1].remaining_s) == (10, 10, 0)
            assert {status.rate for status in shown[1:]} == {0.5}


@pytest.mark.usefixtures("_ticks")
def test_an_iteration_is_that_of_the_sequence():
    items = watch(sk.arange(3), lambda status: None)
    assert list(items) == list(items) == [0, 1, 2]
    assert (len(items), items.status.done) == (3, 3)
    found = by_iteration(iter(watch(sk.smap(lambda x: 1 / x, [1, 0, 2]), lambda status: None)))
    assert (len(found), found[2]) == (3, 0.5)  # an error passes
    endless = statuses(i for i in range(3))
    assert endless[-1].total is None
    assert "left" not in str(endless[-1])


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


@pytest.mark.usefixtures("_ticks")
@pytest.mark.parametrize("stream", [lambda: None, Broken, closed, Full])
def test_a_display_never_ends_the_iteration(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    assert list(watch(sk.arange(3))) == [0, 1, 2]


class Stream(io.TextIOWrapper):
    """A file or a terminal."""

    def __init__(self, is_terminal, encoding="utf-8"):
        super().__init__(io.BytesIO(), encoding)
        self.isatty = lambda: is_terminal

    @property
    def text(self):
        return self.buffer.getvalue().decode(self.encoding)


@pytest.mark.usefixtures("_ticks")
@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_terminal_has_one_line_that_is_written_over(is_terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Stream(is_terminal))
    monkeypatch.setenv("COLUMNS", "40")
    list(watch(sk.arange(3)))
    lines = sys.stderr.text.strip().replace("\r", "\n").split("\n")
    assert [line[:13] for line in lines] == [f"{done} of 3, rate " for done in range(4)]
    assert sys.stderr.text.count("\n") == (1 if is_terminal else 4)
    assert {len(line) for line in lines[1:]} == ({39} if is_terminal else {41})


@pytest.mark.usefixtures("_ticks")
def test_notebooks_have_one_line_that_is_written_over(monkeypatch):
    pytest.importorskip("IPython.display")
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=None))
    monkeypatch.setattr(sys, "stderr", Stream(is_terminal=False))
    list(watch(sk.arange(3)))
    assert [text[:13] for text in sys.stderr.text[1:].split("\r")] == [
        f"{done} of 3, rate " for done in range(4)
    ]


def test_letters_that_an_encoding_lacks_become_escapes(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Stream(False, "ascii"))
    to_stderr("12 µs → 3 °\n")
    assert sys.stderr.text == "12 \\xb5s \\u2192 3 \\xb0\n"


def test_bad_arguments_are_refused():
    for error, arguments, message in [
        (TypeError, (3,), "watch: the sequence must be iterable"),
        (TypeError, ([1], 3), "watch: report must be callable"),
    ]:
        with pytest.raises(error, match=message):
            watch(*arguments)
    with pytest.raises(ValueError, match="watch: interval must be a number of seconds above 0"):
        watch([1], interval=0)
    for running in (iter(sk.DataLoader(range(8))), watch(sk.DataLoader(range(8)))):
        with pytest.raises(TypeError, match=rf"profile: a sequence needs .*got {type(running).__name__}"):
            sk.profile(running)
