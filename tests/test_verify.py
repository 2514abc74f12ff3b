"""`verify`: the same items in every way to read, or the right name for what makes them differ."""

from __future__ import annotations

import contextlib
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
from seqkit.observe.ways import digest

from .observe.pages import page

SPAWNED = "2 spawned processes"
SHOWN_BY_SPAWNED = {"address"}


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.stress)], ids=["forked", "all ways"])
def _ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out spawned processes, each of which imports all modules anew. `make stress` has them."""
    if not request.param and request.node.callspec.params.get("name") not in SHOWN_BY_SPAWNED:
        module = sys.modules[verify.__module__]
        given = module.ways

        def quick(is_loader: bool) -> Any:
            return {name: way for name, way in given(is_loader).items() if name != SPAWNED}

        monkeypatch.setattr(module, "ways", quick)


# -------------------------------------------------------------------- digests


class Point:
    def __init__(self, x: float) -> None:
        self.x = x


class KeyErrors:
    """An item whose missing attributes raise KeyError, so that it cannot be pickled."""

    def __init__(self, x: float) -> None:
        self.x = x

    def __getattr__(self, name: str) -> Any:
        return self.__dict__[name]

    def __reduce__(self) -> Any:  # the test of digests pickles items
        return KeyErrors, (self.x,)


class Unpicklable(KeyErrors):
    def __reduce_ex__(self, protocol: Any) -> Any:
        raise KeyError("__getnewargs_ex__")


def padded(filler: int) -> Any:
    """Return an array of fields, with bytes between them that mean nothing."""
    array = np.zeros(2, np.dtype([("a", "i1"), ("b", "i8")], align=True))
    array.view(np.uint8).reshape(2, 16)[:, 3] = filler
    return array


OVERLAPPING = np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]})

EQUAL: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
    (lambda: math.nan, lambda: math.nan),
    (lambda: np.array([1, math.nan]), lambda: np.array([1, math.nan])),
    (lambda: np.zeros((3, 2)).T, lambda: np.zeros((2, 3))),
    (lambda: {"a", "b", "c"}, lambda: {"c", "b", "a"}),
    (lambda: Point(0.5), lambda: Point(0.5)),
    (lambda: np.array([None, "x"], object), lambda: np.array([None, "x"], object)),
    (lambda: {"x": (1, [b"2"])}, lambda: {"x": (1, [b"2"])}),
    (lambda: padded(0), lambda: padded(9)),
    (lambda: padded(0)[0], lambda: padded(9)[0]),
    (lambda: np.zeros(3, OVERLAPPING), lambda: np.zeros(3, OVERLAPPING)),
    (lambda: [shared := np.ones(3), shared], lambda: [np.ones(3), np.ones(3)]),
    (lambda: KeyErrors(1), lambda: KeyErrors(1)),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (0.0, -0.0),
    (1, 1.0),
    (1, True),
    ("1", b"1"),
    ([1], (1,)),
    ([1, 2], [12]),
    ([[1], 2], [[1, 2]]),
    (np.zeros(2, "f4"), np.zeros(2, "i4")),
    (np.zeros((2, 3)), np.zeros((3, 2))),
    (np.float32(1), np.float64(1)),
    (np.ma.array([1, 2], mask=[False, True]), np.ma.array([1, 2], mask=[True, False])),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (Point(1), Point(2)),
    (np.array([("a", 1)], [("x", "U1"), ("y", int)]), np.array([("a", 2)], [("x", "U1"), ("y", int)])),
    (np.zeros(2, OVERLAPPING), np.ones(2, OVERLAPPING)),
    (10**5000, 10**5000 + 1),
    (range(10**5000), range(10**5001)),
    (memoryview(b"a"), memoryview(b"b")),
    (Unpicklable(1), Unpicklable(2)),
]


@pytest.mark.parametrize("pair", EQUAL)
def test_equal_contents_have_equal_digests(pair: tuple[Callable[[], Any], Callable[[], Any]]) -> None:
    assert digest(pair[0]()) == digest(pair[1]()) == digest(pickle.loads(pickle.dumps(pair[0]())))


@pytest.mark.parametrize("pair", DIFFERENT)
def test_other_contents_types_and_bits_have_other_digests(pair: tuple[Any, Any]) -> None:
    assert digest(pair[0]) != digest(pair[1])


def test_objects_that_contain_themselves_and_open_files_have_digests(tmp_path: Path) -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert digest(loop) == digest(loop) != digest([1, [1]])
    with (tmp_path / "a").open("w") as one, (tmp_path / "b").open("w") as other:
        assert digest(one) == digest(other)


def test_tensors_count_with_dtype_shape_and_bits() -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.arange(6, dtype=torch.bfloat16)
    assert digest(numbers.reshape(2, 3)) == digest(numbers.reshape(2, 3).clone())
    assert digest(numbers.reshape(3, 2).T) == digest(numbers.reshape(3, 2).T.contiguous())
    others = [numbers, numbers.reshape(3, 2), numbers.float(), -numbers, torch.tensor(1.0), torch.zeros(0)]
    assert len({digest(tensor) for tensor in others}) == len(others)


def test_tensors_without_bytes_have_digests() -> None:
    torch = pytest.importorskip("torch")
    meta = [torch.zeros(n, device="meta") for n in (3, 3, 4)]
    nested = [
        torch.nested.nested_tensor([torch.zeros(2), torch.full((3,), x)], layout=torch.jagged)
        for x in (0.0, 0.0, 1.0)
    ]
    for same, again, other in (meta, nested):
        assert digest(same) == digest(again) != digest(other)


def test_images_count_with_their_palette() -> None:
    image = pytest.importorskip("PIL.Image").new("P", (2, 2))
    image.putpalette([0, 1, 2] * 4)
    other = image.copy()
    other.putpalette([3, 1, 2] * 4)
    assert digest(image) == digest(image.copy()) != digest(other)


@pytest.mark.timeout(20)
def test_objects_that_occur_often_are_read_once() -> None:
    points = [Point(x) for x in range(30)]
    for point in points:
        point.__dict__.update({f"to {i}": other for i, other in enumerate(points)})
    assert digest(points) == digest(pickle.loads(pickle.dumps(points)))
    nested: list[Any] = [1]
    for _ in range(50):
        nested = [nested, nested]
    assert digest(nested) == digest(pickle.loads(pickle.dumps(nested)))


# -------------------------------------------------------------------- pipelines that are deterministic


def half(x: float) -> float:
    return x / 2


def chunks(name: int) -> Iterator[Any]:
    yield from (np.full(3, 10 * name + i) for i in range(4 + name % 3))


NUMBERS = list(map(float, range(40)))

SAME: dict[str, Callable[[], Any]] = {
    "a map": lambda: sk.smap(half, NUMBERS),
    "random views": lambda: sk.batch(
        sk.random_map(lambda x, rng: x + rng.normal(), sk.shuffle(NUMBERS, seed=0), seed=1),
        4,
        collate_fn=np.stack,
    ),
    "NaN": lambda: sk.smap(lambda x: np.array([x, math.nan]), NUMBERS),
    "a node": lambda: sk.prefetch(sk.smap(half, sk.prefetch(sk.smap(half, NUMBERS), 2)), 2, "process"),
    "failing items": lambda: sk.smap(lambda x: 1 / (x - 3), NUMBERS),
    "a stream": lambda: sk.smap(half, sk.uniter(lambda: iter(NUMBERS))),
    "a filter": lambda: sk.filter(lambda x: x % 3 == 0, NUMBERS),
    "an unbounded view": lambda: sk.cycle(NUMBERS),
    "a loader": lambda: sk.DataLoader(NUMBERS, 4, shuffle=True, seed=0),
    "a loader with a sampler": lambda: sk.DataLoader(
        NUMBERS, 4, sampler=sk.samplers.RandomSampler(NUMBERS, seed=1), num_workers=1
    ),
    "streams": lambda: sk.streams.StreamLoader(range(6), chunks, 2),
}


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("name", SAME)
def test_deterministic_pipelines_are_found_equal(name: str) -> None:
    report = verify(SAME[name](), n=12)
    assert report.ok, report
    assert report.difference is None
    assert report.check() is report
    assert "all equal" in str(report)


@pytest.mark.parametrize("name", ["random views", "a loader"])
def test_all_ways_to_read_are_compared_in_two_epochs(name: str) -> None:
    report = verify(SAME[name](), n=4)
    assert report.ok, report
    ways = {check.way for check in report.checks}
    assert {(check.way, check.epoch) for check in report.checks} == {(way, e) for way in ways for e in (0, 1)}
    expected = {"no workers", "2 threads", "2 processes", SPAWNED, "a pickled copy"}
    assert ways > expected
    assert ("resumed in the middle" in ways) == (name == "a loader")
    assert {check.way for check in report.checks if check.note} <= {"a pickled copy"}  # of a lambda


# -------------------------------------------------------------------- pipelines that are not

generator = np.random.default_rng(0)
calls: list[float] = []
scale = 1.0
matrix = np.random.default_rng(0).random((300, 300)).astype(np.float32)
buffer = np.zeros(1)


def with_random(x: float) -> float:
    return x + random.random()


def with_numpy(x: float) -> Any:
    return x + np.random.rand(2)


def with_own_generator(x: float) -> float:
    return x + generator.random()


def with_a_clock(x: float) -> tuple[float, float]:
    time.sleep(0)
    return x, time.perf_counter()


def with_an_address(x: float) -> int:
    return id(calls)


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


def above(f: Callable[[float], Any], data: Any = NUMBERS) -> Any:
    """Return a pipeline in which only the middle view is not deterministic."""
    return sk.batch(sk.smap(str, sk.smap(f, sk.smap(half, data))), 2)


VARIANTS: dict[str, tuple[Callable[[], Any], str, str]] = {  # build, stage, part of the cause
    "random": (lambda: above(with_random), "smap(with_random)", "global generator of `random`"),
    "numpy": (lambda: above(with_numpy), "smap(with_numpy)", "global generator of `numpy.random`"),
    "own generator": (
        lambda: above(with_own_generator),
        "smap(with_own_generator)",
        "such as a generator of its own",
    ),
    "clock": (lambda: above(with_a_clock), "smap(with_a_clock)", "depends on the clock"),
    "address": (lambda: above(with_an_address), "smap(with_an_address)", "Only other processes differ"),
    "process": (lambda: above(with_a_process), "smap(with_a_process)", "depends on the process"),
    "counter": (lambda: above(with_a_counter), "smap(with_a_counter)", "keeps state from item to item"),
    "epochs": (
        lambda: sk.epochs(sk.shuffle(sk.smap(with_a_counter, NUMBERS), seed=0), 2),
        "smap(with_a_counter)",
        "keeps state from item to item",
    ),
    "data set": (lambda: sk.batch(sk.smap(half, Noisy()), 2), "<Noisy of 40>", "generator of `random`"),
    "loader": (
        lambda: sk.DataLoader(sk.smap(half, Noisy()), 4, shuffle=True, seed=0),
        "<Noisy of 40>",
        "generator of `random`",
    ),
    "streams": (
        lambda: sk.streams.StreamLoader(range(4), noisy_chunks, 2),
        "StreamLoader",
        "generator of `random`",
    ),
}


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("name", VARIANTS)
def test_the_view_and_the_cause_of_a_difference_are_named(name: str) -> None:
    build, stage, cause = VARIANTS[name]
    report = verify(build(), n=8)
    found = report.difference
    assert found is not None, report
    assert not report.ok
    assert found.stage == stage, report
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
    first = {check.first for check in report.checks if check.way != "no workers"}
    assert first == {2, None}  # a lambda of a test cannot be pickled


def test_a_variable_set_at_run_time_is_missing_in_spawned_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "scale", 2.0)
    found = verify(above(with_a_setting), n=8).difference
    assert found is not None
    assert found.stage == "smap(with_a_setting)"
    # Beside threads of other tests, all processes are spawned.
    assert found.way in (SPAWNED, "2 processes")
    assert "set at run time" in found.cause


@pytest.mark.parametrize("seed", ["1", pytest.param("random", marks=pytest.mark.stress)])
def test_the_order_of_a_set_differs_between_interpreters(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    if seed != "random":  # all spawned processes have the same order then, another one than this process
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    for f in (with_a_set, with_a_dict_of_a_set):
        report = verify(above(f), n=16)
        found = report.difference
        assert found is not None, report
        assert found.stage == f"smap({f.__name__})"
        assert "order of a set" in found.cause


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


class Unreadable(dict[str, Any]):
    def items(self) -> Any:
        raise KeyError("items")

    def __reduce__(self) -> Any:
        return Unreadable, ()


def with_a_dict_of_a_set(x: float) -> dict[str, float]:
    return dict.fromkeys({f"{x}", "left", "right", "top", "bottom", "near", "far"}, 1.0)


class OneWay:
    def __init__(self, x: float) -> None:
        self.x = x

    def __getattr__(self, name: str) -> Any:
        return self.__dict__[name]  # also for __setstate__


def opened(x: float) -> Any:
    return open(__file__)


VALUES: dict[str, Callable[[float], Any]] = {
    "text file": opened,
    "binary file": lambda x: open(__file__, "rb"),  # noqa: SIM115 - the item
    "memoryview": lambda x: memoryview(b"abc"),
    "generator": lambda x: (i for i in range(3)),
    "lock": lambda x: threading.Lock(),
    "padding": lambda x: padded(int(x)),
    "pickled but not back": lambda x: OneWay(x),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("name", VALUES)
def test_items_that_processes_cannot_send_do_not_count_as_different(name: str) -> None:
    report = verify(sk.smap(VALUES[name], NUMBERS), n=3)
    assert report.ok, report
    assert not any("process" not in check.way and check.note for check in report.checks[:-1])


@pytest.mark.usefixtures("_ways")
def test_a_view_of_open_files_does_not_hide_the_view_that_differs() -> None:
    found = verify(sk.smap(lambda file: random.random(), sk.smap(VALUES["lock"], NUMBERS)), n=3).difference
    assert found is not None
    assert "generator of `random`" in found.cause


@pytest.mark.usefixtures("_ways")
def test_a_report_says_that_nothing_could_be_compared() -> None:
    report = verify(sk.smap(lambda x: Unreadable(), NUMBERS), n=3)
    assert not report.ok
    assert report.items == 0
    assert report.difference is None
    with pytest.raises(AssertionError, match="nothing could be compared"):
        report.check()


def unlikely(x: float) -> bool:
    return random.random() < 0.05  # two scans hardly ever begin with the same items


@pytest.mark.usefixtures("_ways")
def test_each_way_to_read_scans_a_filter_anew() -> None:
    chosen = sk.filter(unlikely, range(10**5))
    len(chosen)  # the scan that `chosen` keeps
    for subject in (sk.smap(half, chosen), sk.DataLoader(chosen, 2)):
        found = verify(subject, n=16).difference
        assert found is not None
        assert found.stage == "filter(unlikely)"
        assert "generator of `random`" in found.cause


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize(
    "build", [sk.filter, lambda f, data: sk.flatten(sk.smap(lambda x: [x] * f(x), data))]
)
@pytest.mark.parametrize("is_scanned", [False, True])
def test_no_more_of_a_filter_is_read_than_is_compared(build: Any, is_scanned: bool) -> None:
    read: list[float] = []

    def is_wanted(x: int) -> int:
        read.append(x)
        return x % 2

    view = build(is_wanted, range(10**4))
    if is_scanned:
        len(view)
        read.clear()
    assert verify(sk.smap(half, view), n=4).ok
    assert 0 < max(read) <= 1000


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("where", ["store", "cache"])
@pytest.mark.parametrize("above", [lambda view: view, lambda view: sk.DataLoader(view, 4)])
def test_nothing_is_added_to_a_cache(where: str, above: Any, tmp_path: Path) -> None:
    kept: dict[int, float] = {}
    keep: Any = {"store": {"store": tmp_path / "items"}, "cache": {"cache": kept}}[where]
    assert verify(above(sk.add_cache(sk.smap(half, NUMBERS), **keep)), n=4).ok
    assert not kept
    assert not any(tmp_path.iterdir())


@pytest.mark.usefixtures("_ways")
def test_global_generators_continue_where_they_were() -> None:
    before = random.getstate(), repr(np.random.get_state())
    verify(sk.smap(with_random, NUMBERS), n=2)
    verify(sk.smap(with_numpy, NUMBERS), n=2)
    assert (random.getstate(), repr(np.random.get_state())) == before


# -------------------------------------------------------------------- limits


def test_one_shot_iterators_are_refused_before_they_are_read() -> None:
    numbers = iter(NUMBERS)
    with pytest.raises(ValueError, match="cannot be read twice"):
        verify(sk.smap(half, sk.uniter(numbers)))
    with pytest.raises(ValueError, match=r"^verify: .* cannot be read twice\. Pass an object"):
        verify(sk.DataLoader(numbers, 4))
    with pytest.raises(ValueError, match="cannot be read twice"):
        verify(sk.streams.StreamLoader(numbers, chunks, 2))
    assert next(numbers) == 0.0


@pytest.mark.usefixtures("_ways")
def test_an_item_that_kills_its_worker_is_reported() -> None:
    here = os.getpid()
    report = verify(sk.smap(lambda x: os._exit(3) if os.getpid() != here else x, NUMBERS), n=4)
    assert not report.ok
    assert "exited with status 3" in str(report)


@pytest.mark.usefixtures("_ways")
def test_what_cannot_be_pickled_is_said_and_the_rest_compared() -> None:
    report = verify(sk.smap(lambda x: x, NUMBERS), n=4)
    assert report.ok
    notes = {check.way: check.note for check in report.checks if check.note}
    assert notes.keys() == {"a pickled copy"}
    assert "it cannot be pickled" in notes["a pickled copy"]


def test_fewer_items_are_compared_if_time_is_short() -> None:
    report = verify(sk.smap(half, range(10**9)), n=10**8, seconds=1)
    assert report.ok
    assert 0 < report.items < 10**8


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("build", [list, lambda: sk.filter(lambda x: x < 0, NUMBERS)])
def test_no_items_are_not_equal_items(build: Any) -> None:
    report = verify(build(), n=4)
    assert (report.ok, report.items) == (False, 0)
    assert "nothing could be compared" in str(report)


@pytest.mark.usefixtures("_ways")
def test_processes_are_compared_where_the_engine_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    why = lambda: "as on macOS"
    for name in ("seqkit.engine.engine", "seqkit.observe.ways"):
        monkeypatch.setattr(sys.modules[name], "why_not_here", why)
    report = verify(sk.smap(half, NUMBERS), n=4)
    assert report.ok
    assert [check.note for check in report.checks if check.way == "2 processes"] == [""]


def test_the_columns_of_the_report_align_in_notebooks() -> None:
    html = page(verify(sk.smap(half, NUMBERS), n=1)._repr_html_())
    assert any("monospace" in value for name, value in html.attributes if name == "style")
    assert "2 processes" in html.text


def test_verify_refuses_bad_arguments() -> None:
    with pytest.raises(ValueError, match="verify: n must be a positive int, got 0"):
        verify("abc", 0)
    with pytest.raises(ValueError, match="verify: seconds"):
        verify("abc", seconds=0)
    with pytest.raises(TypeError, match=r"^verify: a sequence needs"):
        verify(3)
