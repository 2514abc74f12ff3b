"""`tune`: its text and settings. See also tests/observe/test_choose.py."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import seqkit as sk
from seqkit.observe import tune

from .observe.pages import page

NUMBERS = range(200)


def decode(data: int) -> int:
    return data


def test_the_settings_are_arguments_of_prefetch() -> None:
    view = sk.smap(decode, NUMBERS)
    found = view.tune(0.05)
    with sk.prefetch(view, **found.settings) as ahead:
        assert list(ahead) == list(NUMBERS)
    text = str(found)
    assert text == repr(found)
    assert text.startswith("tune: smap(decode)\nMeasured here, just now, ")
    for part in (found.code, found.choice.why, "items/s"):
        assert part in text
    assert text.count("chosen") == 1
    html = page(found._repr_html_())
    assert any("monospace" in value for name, value in html.attributes if name == "style")  # columns align
    assert "tune: smap(decode)" in html.text
    assert tune(sk.prefetch(view, 7), seconds=0.05).view == "smap(decode)"  # without the node


def test_a_loader_gets_its_own_arguments() -> None:
    loader = sk.DataLoader(sk.smap(decode, NUMBERS), 4, worker_init_fn=lambda number: None)
    found = tune(loader, seconds=0.05)
    assert found.settings["num_workers"] == found.choice.workers
    assert found.settings.keys() <= {"num_workers", "method"}
    assert str(found).startswith("tune: DataLoader\n")
    assert str(found).endswith(" to DataLoader.")
    with sk.DataLoader(sk.smap(decode, NUMBERS), 4, **found.settings) as tuned:
        assert len(list(tuned)) == 50


class Rows:
    def __iter__(self) -> Any:
        return iter(range(100))


def test_one_worker_reads_a_stream() -> None:
    streams: list[Any] = [sk.uniter(Rows()), sk.DataLoader(Rows(), 4)]
    for found in map(tune, streams):
        assert (found.choice.workers, found.choice.measured) == (1, None)
        assert "one worker reads a stream" in str(found)
    loader: Any = sk.streams.StreamLoader(range(2), lambda stream: [stream], 1)
    for measure in (tune, sk.profile):
        with pytest.raises(TypeError, match=r"StreamLoader .* reads streams.* watch\."):
            measure(loader)


def test_failing_items_and_bad_arguments_are_told() -> None:
    found = tune(sk.smap(lambda x: 1 / 0, NUMBERS), seconds=0.05)
    assert " failed: ZeroDivisionError" in str(found)
    assert found.settings["method"] == "thread"
    assert tune([], seconds=0.05).choice.why == "There are no items."
    with pytest.raises(ValueError, match="tune: seconds must be a number of seconds above 0"):
        tune(NUMBERS, seconds=0)
    with pytest.raises(TypeError, match=r"^tune: a sequence needs"):
        tune(3)


def busy(i: int) -> int:
    return sum(k * i for k in range(50_000))


@pytest.mark.filterwarnings("ignore:prefetch. shared memory is not available")
def test_processes_are_tried_where_the_engine_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("seqkit.engine.engine", "seqkit.observe.choose"):
        monkeypatch.setattr(sys.modules[name], "why_not_here", lambda: "as on macOS")
    measured = tune(sk.smap(busy, range(10**6)), seconds=1).choice.measured
    assert measured is not None
    assert measured.of("process") is not None
