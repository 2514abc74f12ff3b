"""`verify`: the same items in every way to read, or the right name for what makes them differ."""

from __future__ import annotations

import contextlib
import copy
import math
import os
import pickle
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.observe import verify
from seqkit.observe.digest import digest

from .observe.pages import page

SPAWNED = "2 spawned processes"


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.stress)], ids=["forked", "all ways"])
def _ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out spawned processes, each of which imports all modules anew. `make stress` has them."""
    module = sys.modules[verify.__module__]
    given = module.ways
    left_out = set() if request.param else {SPAWNED}

    def quick(is_loader: bool) -> Any:
        return {name: way for name, way in given(is_loader).items() if name not in left_out}

    monkeypatch.setattr(module, "ways", quick)


# -------------------------------------------------------------------- digests


class Point:
    def __init__(self, x: float) -> None:
        self.x = x


def padded(filler: int) -> Any:
    """Return an array of fields, with bytes between them that mean nothing."""
    array = np.zeros(2, np.dtype([("a", "i1"), ("b", "i8")], align=True))
    array.view(np.uint8).reshape(2, 16)[:, 3] = filler
    return array


OVERLAPPING = np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]})
FIELDS = np.dtype([("x", "U1"), ("y", int)])
SHARED, WITHIN_ITSELF = np.ones(3), [1]
WITHIN_ITSELF.append(WITHIN_ITSELF)  # type: ignore[arg-type]
NAN = np.array([1, math.nan])
MASKS = [np.ma.array([1, 2], mask=mask) for mask in ([False, True], [True, False])]
# Items of different digests. Those in a pair have the same digest.
DIFFERENT: list[Any] = [
    *(0.0, -0.0, math.nan, 1, 1.0, True, "1", b"1", 10**5000, 10**5000 + 1, range(10**5000), range(10**5001)),
    *([1], (1,), [1, 2], [12], [[1], 2], [[1, 2]], [1, [1]], WITHIN_ITSELF, [SHARED, SHARED]),
    *({"a", "b"}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"x": (1, [b"2"])}, Point(0.5), Point(2)),
    *(np.float32(1), np.float64(1), np.zeros((3, 2)), np.zeros((2, 3)), np.zeros(2, "f4"), np.zeros(2, "i4")),
    *(NAN, *MASKS, np.array([None, "x"], object), np.zeros(3, OVERLAPPING), np.ones(3, OVERLAPPING)),
    *(padded(0), padded(0)[0], np.array([("a", 1)], FIELDS), np.array([("a", 2)], FIELDS)),
]
EQUAL: list[tuple[Any, Any]] = [
    (np.zeros((3, 2)).T, np.zeros((2, 3))),
    ({"a", "b", "c"}, {"c", "b", "a"}),
    ([SHARED, SHARED], [np.ones(3), np.ones(3)]),
    (padded(0), padded(9)),
    (padded(0)[0], padded(9)[0]),
    (np.zeros(3, OVERLAPPING), np.zeros(3, OVERLAPPING)),
]


def test_items_have_equal_digests_if_their_contents_types_and_bits_are_equal() -> None:
    assert len({digest(item) for item in DIFFERENT}) == len(DIFFERENT)
    for one, other in EQUAL + [(item, pickle.loads(pickle.dumps(item))) for item in DIFFERENT]:
        assert digest(one) == digest(other), one


def test_tensors_and_images_count_with_their_bits_and_palettes() -> None:
    torch, images = pytest.importorskip("torch"), pytest.importorskip("PIL.Image")
    numbers = torch.arange(6, dtype=torch.bfloat16)
    shapes = [
        numbers,
        numbers.reshape(2, 3),
        numbers.reshape(3, 2),
        numbers.float(),
        -numbers,
        torch.zeros(0),
    ]
    meta = [torch.zeros(n, device="meta") for n in (3, 4)]
    nested = [
        torch.nested.nested_tensor([torch.zeros(2), torch.full((3,), x)], layout=torch.jagged)
        for x in (0.0, 1.0)
    ]
    palettes = [images.new("P", (2, 2)) for _ in range(2)]
    for number, image in enumerate(palettes):
        image.putpalette([number, 1, 2] * 4)
    different = [*shapes, *meta, *nested, *palettes]
    assert len({digest(item) for item in different}) == len(different)
    for item in different:
        assert digest(item) == digest(copy.deepcopy(item))
    assert digest(numbers.reshape(3, 2).T) == digest(numbers.reshape(3, 2).T.contiguous())


@pytest.mark.timeout(20)
def test_objects_that_occur_often_are_read_once(tmp_path: Path) -> None:
    points = [Point(x) for x in range(30)]
    for point in points:
        point.__dict__.update({f"to {i}": other for i, other in enumerate(points)})
    nested: list[Any] = [1]
    for _ in range(50):
        nested = [nested, nested]
    for item in (points, nested):
        assert digest(item) == digest(pickle.loads(pickle.dumps(item)))
    with (tmp_path / "a").open("w") as one, (tmp_path / "b").open("w") as other:
        assert digest(one) == digest(other)  # they count as their class


# -------------------------------------------------------------------- pipelines that are deterministic


def half(x: float) -> float:
    return x / 2


def chunks(name: int) -> Iterator[Any]:
    yield from (np.full(3, 10 * name + i) for i in range(4 + name % 3))


def noisy(x: float, rng: Any) -> float:
    return x + float(rng.normal())


NUMBERS = list(map(float, range(40)))

SAME: dict[str, Callable[[], Any]] = {
    "a map": lambda: sk.smap(half, NUMBERS),
    "random views": lambda: sk.batch(sk.random_map(noisy, sk.shuffle(NUMBERS, seed=0), seed=1), 4),
    "NaN": lambda: sk.smap(lambda x: np.array([x, math.nan]), NUMBERS),
    "a node": lambda: sk.prefetch(sk.smap(half, sk.prefetch(sk.smap(half, NUMBERS), 2)), 2, "process"),
    "failing items": lambda: sk.smap(lambda x: 1 / (x - 3), NUMBERS),
    "a stream": lambda: sk.smap(half, sk.uniter(lambda: iter(NUMBERS))),
    "a filter": lambda: sk.filter(lambda x: x % 3 == 0, NUMBERS),
    "an unbounded view": lambda: sk.cycle(NUMBERS),
    "a loader": lambda: sk.DataLoader(NUMBERS, 4, shuffle=True, seed=0),
    "a sampler": lambda: sk.DataLoader(NUMBERS, 4, sampler=sk.samplers.RandomSampler(NUMBERS, seed=1)),
    "streams": lambda: sk.streams.StreamLoader(range(6), chunks, 2),
    "binary files": lambda: sk.smap(lambda x: open(__file__, "rb"), NUMBERS),  # noqa: SIM115 - the item
    "generators": lambda: sk.smap(lambda x: (i for i in range(3)), NUMBERS),
    "locks": lambda: sk.smap(lambda x: threading.Lock(), NUMBERS),
    "padding": lambda: sk.smap(lambda x: padded(int(x)), NUMBERS),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("name", SAME)
def test_deterministic_pipelines_are_found_equal(name: str) -> None:
    report = verify(SAME[name](), n=12)
    assert report.ok, report
    assert report.difference is None
    assert report.check() is report
    assert "all equal" in str(report)
    notes = {check.way: check.note for check in report.checks if check.note}
    assert notes.keys() <= {"2 processes", SPAWNED}  # locks


@pytest.mark.parametrize("name", ["random views", "a loader"])
def test_all_ways_to_read_are_compared_in_two_epochs(name: str) -> None:
    report = verify(SAME[name](), n=4)
    assert report.ok, report
    ways = {"no workers", "no workers, again", "2 threads", "2 processes", SPAWNED}
    ways |= {"resumed in the middle"} if name == "a loader" else set()
    assert [(check.way, check.epoch) for check in report.checks if check.note] == []
    assert {(check.way, check.epoch) for check in report.checks} == {(way, e) for way in ways for e in (0, 1)}
    html = page(report._repr_html_())
    assert any("monospace" in value for name, value in html.attributes if name == "style")
    assert "2 processes" in html.text


# -------------------------------------------------------------------- pipelines that are not

generator = np.random.default_rng(0)
calls: list[float] = []
scale = 1.0
buffer = np.zeros(1)


def with_random(x: float) -> float:
    return x + random.random()


def any_random(x: Any) -> float:
    return random.random()


def with_numpy(x: float) -> Any:
    return x + np.random.rand(2)


def with_own_generator(x: float) -> float:
    return x + generator.random()


def with_a_clock(x: float) -> tuple[float, float]:
    time.sleep(0)
    return x, time.perf_counter()


def with_a_process(x: float) -> int:
    return os.getpid()


def with_a_set(x: float) -> list[str]:
    return list({f"{x}", "left", "right", "top", "bottom"})


def with_a_counter(x: float) -> float:
    calls.append(x)
    return len(calls)


def with_a_setting(x: float) -> float:
    return x * scale


class Noisy:
    def __len__(self) -> int:
        return 40

    def __getitem__(self, i: int) -> float:
        return random.gauss(0, 1)


def noisy_chunks(name: int) -> Iterator[Any]:
    yield from (np.full(3, random.random()) for _ in range(4))


def unlikely(x: float) -> bool:
    return random.random() < 0.05  # two scans hardly ever begin with the same items


def above(f: Callable[[float], Any]) -> Any:
    """Return a pipeline in which only the middle view is not deterministic."""
    return sk.batch(sk.smap(str, sk.smap(f, sk.smap(half, NUMBERS))), 2)


def scanned() -> Any:
    chosen = sk.filter(unlikely, range(900))
    len(chosen)  # the scan that `chosen` keeps
    return chosen


COUNTER = sk.shuffle(sk.smap(with_a_counter, NUMBERS), seed=0)
RANDOM, STATE = "global generator of `random`", "keeps state from item to item"
VARIANTS: list[tuple[Callable[[], Any], str, str]] = [  # build, stage, part of the cause
    (lambda: above(with_random), "smap(with_random)", RANDOM),
    (lambda: above(with_numpy), "smap(with_numpy)", "global generator of `numpy.random`"),
    (lambda: above(with_own_generator), "smap(with_own_generator)", "such as a generator of its own"),
    (lambda: above(with_a_clock), "smap(with_a_clock)", "depends on the clock"),
    (lambda: above(with_a_process), "smap(with_a_process)", "depends on the process"),
    (lambda: above(with_a_counter), "smap(with_a_counter)", STATE),
    (lambda: sk.epochs(COUNTER, 2), "smap(with_a_counter)", STATE),
    (lambda: sk.batch(sk.smap(half, Noisy()), 2), "<Noisy of 40>", RANDOM),
    (lambda: sk.DataLoader(sk.smap(half, Noisy()), 4, shuffle=True, seed=0), "<Noisy of 40>", RANDOM),
    (lambda: sk.streams.StreamLoader(range(4), noisy_chunks, 2), "StreamLoader", RANDOM),
    (lambda: sk.smap(half, scanned()), "filter(unlikely)", RANDOM),
    (lambda: sk.DataLoader(scanned(), 2), "filter(unlikely)", RANDOM),
    (lambda: sk.smap(any_random, sk.smap(lambda x: threading.Lock(), NUMBERS)), "", RANDOM),
]


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_view_and_the_cause_of_a_difference_are_named(variant: Any) -> None:
    build, stage, cause = variant
    report = verify(build(), n=8)
    found = report.difference
    assert found is not None, report
    assert not report.ok
    assert found.stage == (stage or found.stage), report
    assert cause in found.cause, report
    assert found.remedy
    assert found.cause in str(report)
    assert repr(report) == str(report)
    assert stage in unescape(report._repr_html_())
    with pytest.raises(AssertionError, match="they differ"):
        report.check()


@pytest.mark.usefixtures("_ways")
def test_the_first_index_that_differs_is_named() -> None:
    report = verify(sk.batch(sk.smap(lambda x: with_random(x) if x >= 5 else x, NUMBERS), 2), n=8)
    assert report.difference is not None
    assert report.difference.index == 2
    assert {check.first for check in report.checks if check.way != "no workers"} == {2}


def test_differences_of_spawned_processes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "scale", 2.0)
    # All spawned processes have the same order of a set then, another one than this process.
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    for f, cause in [(with_a_setting, "set at run time"), (with_a_set, "order of a set")]:
        report = verify(above(f), n=8)
        found = report.difference
        assert found is not None, report
        assert found.stage == f"smap({f.__name__})"
        assert found.way in (SPAWNED, "2 processes")  # beside threads of other tests, all are spawned
        assert cause in found.cause


@pytest.mark.usefixtures("_ways")
def test_a_race_of_threads_is_told_from_other_differences() -> None:
    turn = threading.Barrier(2)

    def reused(x: float) -> Any:  # two threads fill one buffer before either returns it
        buffer[0] = x
        worker = sk.get_worker_info()
        if worker is not None and worker.method == "thread" and worker.num_workers == 2:
            with contextlib.suppress(threading.BrokenBarrierError):  # at the end only one thread is left
                turn.wait(0.2)
        return buffer

    report = verify(sk.smap(reused, NUMBERS), n=8)
    assert {check.way for check in report.checks if check.first is not None} >= {"2 threads"}
    assert not report.ok


# -------------------------------------------------------------------- what is read


@pytest.mark.usefixtures("_ways")
def test_no_more_of_a_filter_is_read_than_is_compared() -> None:
    read: list[float] = []

    def is_wanted(x: int) -> int:
        read.append(x)
        return x % 2

    for build in (sk.filter, lambda f, data: sk.flatten(sk.smap(lambda x: [x] * f(x), data))):
        view: Any = build(is_wanted, range(10**4))  # type: ignore[operator]
        for _ in range(2):
            read.clear()
            assert verify(sk.smap(half, view), n=4).ok
            assert 0 < max(read) <= 1000
            len(view)  # also of one that was scanned


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("build", [lambda view: view, lambda view: sk.DataLoader(view, 4)])
def test_nothing_is_added_to_a_cache(build: Any, tmp_path: Path) -> None:
    kept: dict[int, float] = {}
    for keep in ({"store": tmp_path / "items"}, {"cache": kept}):
        cache: Any = sk.add_cache(sk.smap(half, NUMBERS), **keep)  # type: ignore[arg-type]
        assert verify(build(cache), n=4).ok
    assert not kept
    assert not any(tmp_path.iterdir())


@pytest.mark.usefixtures("_ways")
def test_global_generators_continue_where_they_were() -> None:
    before = random.getstate(), repr(np.random.get_state())
    verify(sk.smap(with_random, NUMBERS), n=2)
    verify(sk.smap(with_numpy, NUMBERS), n=2)
    assert (random.getstate(), repr(np.random.get_state())) == before


# -------------------------------------------------------------------- limits


class Unreadable(dict[str, Any]):
    def items(self) -> Any:
        raise KeyError("items")


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize(
    "build",
    [list, lambda: sk.filter(lambda x: x < 0, NUMBERS), lambda: sk.smap(lambda x: Unreadable(), NUMBERS)],
)
def test_nothing_compared_is_not_equal(build: Any) -> None:
    report = verify(build(), n=4)
    assert (report.ok, report.items, report.difference) == (False, 0, None)
    with pytest.raises(AssertionError, match="nothing could be compared"):
        report.check()


@pytest.mark.usefixtures("_ways")
def test_an_item_that_kills_its_worker_is_reported() -> None:
    here = os.getpid()
    report = verify(sk.smap(lambda x: os._exit(3) if os.getpid() != here else x, NUMBERS), n=4)
    assert not report.ok
    assert "exited with status 3" in str(report)


@pytest.mark.usefixtures("_ways")
def test_processes_are_compared_where_the_engine_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    why = lambda: "as on macOS"
    for name in ("seqkit.engine.engine", "seqkit.observe.ways"):
        monkeypatch.setattr(sys.modules[name], "why_not_here", why)
    report = verify(sk.smap(half, NUMBERS), n=4)
    assert report.ok
    assert [check.note for check in report.checks if check.way == "2 processes"] == [""]


def test_bad_arguments_and_one_shot_iterators_are_refused() -> None:
    numbers = iter(NUMBERS)
    refused: list[tuple[type[Exception], Any, dict[str, Any], str]] = [
        (ValueError, "abc", {"n": 0}, "verify: n must be a positive int, got 0"),
        (TypeError, 3, {}, "^verify: a sequence needs"),
        (ValueError, sk.smap(half, sk.uniter(numbers)), {}, "cannot be read twice"),
        (ValueError, sk.DataLoader(numbers, 4), {}, r"cannot be read twice\. Pass an object"),
        (ValueError, sk.streams.StreamLoader(numbers, chunks, 2), {}, "cannot be read twice"),
    ]
    for error, sequence, arguments, message in refused:
        with pytest.raises(error, match=message):
            verify(sequence, **arguments)
    assert next(numbers) == 0.0
