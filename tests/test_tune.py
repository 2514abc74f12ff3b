"""`tune`: its text and settings. See also tests/engine/test_choose.py."""

from __future__ import annotations

from typing import Any

import pytest

import seqkit as sk
from seqkit.observe import tune
from seqkit.observe.tune import Tuning

from .observe.pages import page

NUMBERS = range(200)


def decode(data: int) -> int:
    return data


def test_the_settings_are_arguments_of_prefetch() -> None:
    found = tune(sk.smap(decode, NUMBERS), seconds=0.05)
    with sk.prefetch(sk.smap(decode, NUMBERS), **found.settings) as ahead:
        assert list(ahead) == list(NUMBERS)
    text = str(found)
    assert text == repr(found)
    assert text.startswith("tune: smap(decode)\nMeasured here, just now, ")
    assert found.code in text
    assert found.choice.why in text
    assert "items/s" in text
    assert text.count("chosen") == 1
    html = page(found._repr_html_())
    assert any("monospace" in value for name, value in html.attributes if name == "style")  # columns align
    assert "tune: smap(decode)" in html.text


def test_a_node_is_measured_without_itself() -> None:
    view = sk.smap(decode, NUMBERS)
    assert tune(sk.prefetch(view, 7), seconds=0.05).view == "smap(decode)"
    assert view.tune(0.05).view == "smap(decode)"


def test_a_loader_gets_its_own_arguments() -> None:
    loader = sk.DataLoader(sk.smap(decode, NUMBERS), 4, worker_init_fn=lambda number: None)
    found = tune(loader, seconds=0.05)
    assert found.settings["num_workers"] == found.choice.workers
    assert found.settings.keys() <= {"num_workers", "method"}
    assert str(found).endswith(" to DataLoader.")
    assert str(found).startswith("tune: DataLoader\n")
    with sk.DataLoader(sk.smap(decode, NUMBERS), 4, **found.settings) as tuned:
        assert len(list(tuned)) == 50


class Rows:
    def __iter__(self) -> Any:
        return iter(range(100))


def test_one_worker_reads_a_stream() -> None:
    found: list[Tuning] = [tune(sk.uniter(Rows())), tune(sk.DataLoader(Rows(), 4))]
    for one in found:
        assert (one.choice.workers, one.choice.measured) == (1, None)
        assert "one worker reads a stream" in str(one)


@pytest.mark.parametrize("measure", [tune, sk.profile])
def test_loaders_of_streams_are_refused_with_another_way(measure: Any) -> None:
    with pytest.raises(TypeError, match=r"StreamLoader .* reads streams.* watch\."):
        measure(sk.streams.StreamLoader(range(2), lambda stream: [stream], 1))


def test_failing_items_are_shown() -> None:
    found = tune(sk.smap(lambda x: 1 / 0, NUMBERS), seconds=0.05)
    assert " failed: ZeroDivisionError" in str(found)
    assert found.settings["method"] == "thread"


def test_an_empty_view_has_a_default() -> None:
    assert tune([], seconds=0.05).choice.why == "There are no items."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seconds": 0}, "tune: seconds must be a number of seconds above 0"),
        ({"seconds": -1}, "tune: seconds"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tune(NUMBERS, **arguments)
    with pytest.raises(TypeError, match=r"^tune: a sequence needs"):
        tune(3)  # type: ignore[arg-type]
