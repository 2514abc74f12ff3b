"""Which bytes the system is asked for, of which items, and when it is left alone. No test measures time."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqkit as sk
from seqkit.core import ahead as module
from seqkit.core import control_groups
from seqkit.core.ahead import BYTES_AHEAD, ENOUGH, LONGEST, LONGEST_PAUSE, MOST_AHEAD, PAUSE, Ahead, advised
from seqkit.sources import indexed, lines, npy, tar_members, webdataset

from ..mapped import PAGE, N, System, numbers_in, rows_in, shuffled


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    return System(monkeypatch)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return rows_in(tmp_path_factory.mktemp("rows"))


# -------------------------------------------------------------------- which bytes


def asked(view: sk.View[Any], indices: Any, width: int = 1) -> set[int]:
    """Return the rows of which `_ahead` gives any byte."""
    found = set()
    for _, starts, stops, _ in view._ahead(indices, width):
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            found |= set(range(start // PAGE, -(-stop // PAGE)))
    return found


def add(a: Any, b: Any) -> tuple[Any, Any]:
    return a, b


VIEWS: dict[str, Callable[[Any], sk.View[Any]]] = {
    "source": sk.view,
    "slice of an array": lambda rows: sk.view(rows[5::3]),
    "window": lambda rows: sk.window(rows, 3, 2),
    "window of a part": lambda rows: sk.window(sk.view(rows)[10:50], 3),
    "window of a shuffle": lambda rows: sk.window(sk.shuffle(rows, 0), 3),
    "window of windows": lambda rows: sk.window(sk.window(rows, 3, 2), 4, 3),
    "short windows": lambda rows: sk.window(rows, N - 2, 100, last="keep"),
    "batch": lambda rows: sk.batch(rows, 5),
    "batch of shuffled windows": lambda rows: sk.batch(sk.shuffle(sk.window(rows, 3, 3), 0), 7),
    "gather": lambda rows: sk.gather(rows, [7, 3, -1, 3] * 20),
    "gather by a view": lambda rows: sk.gather(rows, sk.shuffle(range(N), 0)),
    "small indices": lambda rows: sk.batch(sk.gather(rows, np.arange(200, dtype=np.uint8)), 100),
    "smap": lambda rows: sk.smap(lambda row: row, rows),
    "random_map": lambda rows: sk.random_map(lambda row, rng: row, rows, seed=0),
    "collate": lambda rows: sk.collate([rows, sk.view(rows)[::-1], range(N)]),
    "smap of two": lambda rows: sk.smap(add, rows, sk.view(rows)[::-1]),
    "concatenate": lambda rows: sk.concatenate([rows[:40], range(9), sk.window(rows[40:], 2)]),
    "cycle": lambda rows: sk.cycle(rows[:30], 90),
    "epochs": lambda rows: sk.epochs(sk.shuffle(rows[:30], 0), 3),
    "mix": lambda rows: sk.mix([rows[:100], rows[200:300]], [1, 2], seed=0),
    "interleave": lambda rows: sk.interleave([rows[:20], rows[50:80]]),
    "add_cache": lambda rows: sk.add_cache(rows, 10),
    "fallback": lambda rows: sk.fallback("replace", rows),
    "shard": lambda rows: sk.shard(rows, 1, 3),
    "shuffle_buffer": lambda rows: sk.shuffle_buffer(rows, 16, seed=0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_the_rows_that_items_are_made_of_are_asked_for_and_no_others(name: str, rows: Any) -> None:
    view = VIEWS[name](rows)
    n = len(view)
    for indices in (range(min(n, 3)), [n - 1, 0, n // 2], np.array([n - 2, 1])):
        wanted = set().union(*(numbers_in(view[int(i)]) for i in indices))
        fresh = VIEWS[name](rows)
        len(fresh)
        assert asked(fresh, indices) == wanted
        runs = [j for i in indices for j in range(i, min(i + 3, n))]
        assert asked(fresh, indices, 3) >= set().union(*(numbers_in(view[int(i)]) for i in runs))


def test_items_that_a_cache_has_are_not_asked_for(rows: Any) -> None:
    view = sk.add_cache(rows, 10)
    view[3]
    assert asked(view, range(5)) == {0, 1, 2, 4}


def test_a_row_has_its_own_bytes(rows: Any) -> None:
    data = np.memmap(rows.filename, np.uint8, "r", offset=PAGE + 24, shape=(100, 40))
    found = [*sk.view(data[10:, :])._ahead([0, 2], 1)]
    assert [(f.starts.tolist(), f.stops.tolist()) for f in found] == [
        ([24 + 400, 24 + 480], [24 + 440, 24 + 520])
    ]


@pytest.mark.parametrize(
    "take", [lambda rows: rows[:, ::2], lambda rows: rows[::-1], lambda rows: rows[:, :0]]
)
def test_rows_that_are_not_in_one_piece_are_left_alone(take: Callable[[Any], Any], rows: Any) -> None:
    assert asked(sk.view(take(rows)), range(5)) == set()


@pytest.mark.parametrize("source", [[1, 2], np.zeros((3, 4)), "ab"])
def test_views_of_data_in_memory_ask_for_nothing(source: Any, system: System) -> None:
    view = sk.batch(sk.smap(lambda x: x, source), 2)
    assert not view._advises
    assert len(list(view)) == -(-len(source) // 2)


def test_npy_files_and_tar_members_are_asked_for(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(10 * PAGE).reshape(10, -1))
    view = npy(tmp_path / "a.npy")
    assert view._advises
    ((_, starts, stops, _),) = view._ahead([0, 3], 1)
    assert (starts - 128).tolist() == [0, 3 * PAGE * 8]
    assert (stops - starts).tolist() == [PAGE * 8] * 2
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for number in range(4):
            info = tarfile.TarInfo(f"{number}")
            info.size = 100 + number
            archive.addfile(info, io.BytesIO(bytes(info.size)))
    view = sk.shuffle(tar_members(tmp_path / "a.tar"), 0)
    assert view._advises
    ((_, starts, stops, _),) = sk.view(tar_members(tmp_path / "a.tar"))._ahead([3, 1], 1)
    assert starts.tolist() == [3 * 1024 + 512, 1024 + 512]
    assert (stops - starts).tolist() == [103, 101]
    assert sorted(name for name, _ in view) == ["0", "1", "2", "3"]


def shard(path: Path, keys: Iterable[int], sizes: dict[str, int]) -> Path:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for key in keys:
            for suffix, size in sizes.items():
                info = tarfile.TarInfo(f"{key}.{suffix}")
                info.size = size
                archive.addfile(info, io.BytesIO(bytes(size)))
    return path


def places(view: sk.View[Any], indices: Any, width: int = 1) -> dict[int, set[tuple[int, int]]]:
    """Return the ranges of each file, by its size."""
    return {
        os.fstat(file).st_size: {*zip(starts.tolist(), stops.tolist(), strict=True)}
        for file, starts, stops, _ in view._ahead(indices, width)
    }


def test_lines_of_several_files_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("a\nbb\n")
    (tmp_path / "2.txt").touch()
    (tmp_path / "3.txt").write_text("ccc\n\nd")
    view = lines(tmp_path / "*.txt")
    assert places(view, [3, 0, 4, 2]) == {5: {(0, 2)}, 6: {(0, 4), (4, 5), (5, 6)}}
    assert places(sk.window(view, 2), [1]) == {5: {(2, 5)}, 6: {(0, 4)}}
    assert places(sk.shuffle(view, 0)[:0], []) == {}


def test_members_of_samples_are_asked_for(tmp_path: Path) -> None:
    shard(tmp_path / "1.tar", [7], {"jpg": 600, "json": 3})
    path = shard(tmp_path / "2.tar", [8, 9], {"json": 5, "cls": 1})
    view: Any = webdataset(tmp_path / "*.tar")
    size = os.path.getsize(path)
    assert places(view, [2]) == {size: {(2560, 2565), (3584, 3585), (2048, 2560)}}
    assert places(view.select("cls"), [2, 1]) == {size: {(3584, 3585), (1536, 1537)}}
    assert places(view.select("json", "__key__"), [0]) == {
        os.path.getsize(tmp_path / "1.tar"): {(2048, 2051), (0, 512)}
    }


def of_lines(folder: Path) -> sk.View[Any]:
    (folder / "a.txt").write_text("".join(f"{i:07}\n" * 700 + "." * i + "\n" for i in range(900)))
    return sk.shuffle(lines(folder / "a.txt")[700::701], 0)


def of_samples(folder: Path) -> sk.View[Any]:
    return sk.shuffle(webdataset(shard(folder / "a.tar", range(900), {"jpg": 5000, "json": 9})), 0)[:300]


def of_labels(folder: Path) -> sk.View[Any]:
    samples: Any = webdataset(shard(folder / "a.tar", range(900), {"jpg": 5000, "json": 9}))
    return sk.batch(sk.shuffle(samples.select("json"), 0), 4)


@pytest.mark.parametrize("make", [of_lines, of_samples, of_labels])
def test_lines_and_samples_are_asked_for_before_they_are_read_and_no_others(
    make: Callable[[Path], sk.View[Any]], system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[int] = set()
    part = indexed.LocalFile.part

    def noting(file: indexed.LocalFile, start: int, size: int) -> bytes:
        pages = set(range(start // PAGE, -(-(start + size) // PAGE)))
        assert pages <= system.pages()
        read.update(pages)
        return part(file, start, size)

    view = make(tmp_path)
    monkeypatch.setattr(indexed.LocalFile, "part", noting)
    assert len(list(view)) == len(view)
    assert read == system.pages()
    system.calls.clear()
    with sk.prefetch(view, 2) as node:
        assert len(list(node)) == len(node)


def test_of_many_files_the_first_ones_say_how_large_they_all_are(tmp_path: Path, system: System) -> None:
    for k in range(50):
        (tmp_path / f"{k}.txt").write_text(f"{'x' * (PAGE - 1)}\n" * 20)
    view = sk.shuffle(lines(tmp_path / "*.txt"), 0)
    system.free = 2 * 1000 * PAGE
    assert len(list(view[:80])) == 80
    assert sum(size for _, size in system.calls) == 80 * PAGE
    system.calls.clear()
    assert len(list(view)) == 1000
    assert len(system.calls) < 16  # the system reads whole files faster
    system.calls.clear()
    system.free = 500 * PAGE
    assert len(list(view)) == 1000
    assert sum(size for _, size in system.calls) == 1000 * PAGE


def test_files_behind_a_url_are_not_asked_for_and_not_opened() -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe("/ahead.txt", b"1\n2\n")
    assert not lines("memory://ahead.txt")._advises


# -------------------------------------------------------------------- when


def test_each_item_is_asked_for_before_it_is_read(rows: Any, system: System) -> None:
    seen = []
    for item in sk.batch(sk.smap(lambda row: row, shuffled(rows, 1500)), 4):
        assert numbers_in(item) <= system.pages()
        seen.append(len(system.pages()))
    assert seen[0] < seen[-1] == 1500


def test_calls_are_short_and_lie_side_by_side_only_if_they_are_long(rows: Any, system: System) -> None:
    list(sk.window(sk.view(rows), 64, 512))
    assert {size for _, size in system.calls} == {LONGEST}
    assert len(system.calls) == 8 * 64 * PAGE // LONGEST


@given(st.lists(st.tuples(st.integers(0, 40_000), st.integers(1, 9000)), min_size=1))
def test_pages_of_ranges(ranges: list[tuple[int, int]]) -> None:
    starts, sizes = np.array(ranges, np.int64).T
    begins, ends = module._pages(starts, starts + sizes)
    wanted = {page for start, size in ranges for page in range(start // PAGE, -(-(start + size) // PAGE))}
    assert wanted == {page for a, b in zip(begins, ends, strict=True) for page in range(a // PAGE, b // PAGE)}
    assert all(end < begin for end, begin in zip(ends, begins[1:], strict=False))


@pytest.mark.parametrize("width", [1, 64, 600])
def test_few_bytes_are_asked_for_ahead_of_the_consumer(width: int, rows: Any, system: System) -> None:
    view = sk.shuffle(sk.window(rows, width, width), seed=0)
    size = width * PAGE
    ahead = Ahead(view, range(len(view)))
    for position in range(min(500, len(view))):
        ahead.reach(position)
        assert position < ahead._asked <= position + 2 + min(BYTES_AHEAD // size, MOST_AHEAD)


def test_the_system_is_left_alone_while_it_needs_no_disk(rows: Any, system: System) -> None:
    view = sk.cycle(shuffled(rows, N), 10 * N)
    system.reads = False
    ahead, asked_at = Ahead(view, range(len(view))), [0]
    for position in range(len(view)):
        before = len(system.calls)
        ahead.reach(position)
        asked_at += [position] * (len(system.calls) > before)
    assert len(system.calls) <= ENOUGH + MOST_AHEAD + 4 * len(view) // PAUSE
    assert asked_at[-1] > len(view) - 2 * LONGEST_PAUSE  # it tries again


def test_asking_goes_on_after_a_pause_if_the_system_needs_the_disk_again(rows: Any, system: System) -> None:
    view = sk.cycle(shuffled(rows, N), 10 * N)
    system.reads = False
    ahead = Ahead(view, range(len(view)))
    for position in range(PAUSE):
        ahead.reach(position)
    pause_ends = ahead.position
    assert pause_ends > PAUSE
    system.reads = True
    system.calls.clear()
    for position in range(PAUSE, pause_ends):
        ahead.reach(position)
    assert not system.calls
    for position in range(pause_ends, pause_ends + 2 * PAUSE):
        ahead.reach(position)
        assert position < ahead._asked
    assert len(system.pages()) >= 2 * PAUSE - 1


def test_files_that_fit_in_memory_and_are_read_as_a_whole_are_left_alone(rows: Any, system: System) -> None:
    few, most = shuffled(rows, N // 20), shuffled(rows, N // 2)
    system.free = 2 * N * PAGE
    list(most)
    assert len(system.calls) < 16
    system.calls.clear()
    list(few)
    assert len(system.pages()) == N // 20
    system.calls.clear()
    system.free = N * PAGE // 2
    list(most)
    assert len(system.pages()) == N // 2


@pytest.mark.parametrize(
    ("own", "limits", "free"),
    [
        ("0::/job/step", {"job/step": ("5000", "max"), "job": ("max", "max")}, 3500),
        ("0::/job/step", {"job/step": ("5000", "4000")}, 2500),
        ("0::/job/step", {"job/step": ("5000", "max"), "job": ("4500", "max"), "": ("4600", "9999")}, 3000),
        ("1:cpu:/other\n0::/", {"": ("5000", "max"), "other": ("2", "2")}, 3500),  # in a container
        ("0::/../outside", {"": ("5000", "max")}, 3500),
        ("1:memory:/job", {"job": ("5000", "max")}, None),  # version 1 has other files
        ("0::/job", {"job": ("max", "max")}, None),
    ],
)
def test_free_memory_is_that_of_the_control_groups(
    own: str, limits: dict[str, tuple[str, str]], free: int | None, tmp_path: Path, monkeypatch: Any
) -> None:
    for group, (most, high) in limits.items():
        folder = tmp_path / "groups" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(most + "\n")
        (folder / "memory.high").write_text(high + "\n")
        (folder / "memory.stat").write_text("anon 1000\nfile 3500\nshmem 500\ninactive_file 2000\n")
    (tmp_path / "cgroup").write_text(own + "\n")
    (tmp_path / "mountinfo").write_text(f"35 24 0:30 / {tmp_path}/groups rw - cgroup2 cgroup2 rw\n")
    monkeypatch.setattr(control_groups, "PROC", tmp_path)
    assert free is None or module._free_memory() == free
    assert free is not None or module._free_memory() > 10**6


def test_a_plan_of_unknown_length_is_asked_for_until_it_has_read_much(rows: Any, system: System) -> None:
    class Unbounded(sk.View[Any]):
        def __init__(self, source: sk.View[Any]) -> None:
            super().__init__((source,), sk.cycle("a")._n)

        def _get(self, i: int) -> Any:
            return self._sources[0]._get(i % N)

        def _parts(self, i: int) -> Iterable[tuple[sk.View[Any], Iterable[int]]]:
            return ((self._sources[0], (i % N,)),)

    system.free = 2 * N * PAGE
    for _ in zip(range(2 * N), Unbounded(sk.view(rows)), strict=False):
        pass
    assert N // 10 - MOST_AHEAD <= len(system.pages()) <= N // 10 + MOST_AHEAD


def test_an_error_while_asking_is_silent_and_the_last_attempt(rows: Any, system: System) -> None:
    class Broken(sk.View[Any]):
        def __init__(self, source: sk.View[Any]) -> None:
            super().__init__((source,))
            self.calls = 0

        def _get(self, i: int) -> Any:
            return i

        def _ahead(self, indices: Any, width: int) -> Iterator[Any]:
            self.calls += 1
            raise OSError

    view = Broken(sk.view(rows))
    assert list(view) == list(range(N))
    assert view.calls == 1
    assert list(sk.prefetch(view, 2)) == list(range(N))
    assert view.calls == 2


def test_iteration_goes_on_after_an_error_and_not_after_an_interruption(rows: Any, system: System) -> None:
    def f(row: Any) -> int:
        number = int(row[0])
        if number in failing:
            raise failing[number]
        return number

    order = [int(row[0]) for row in shuffled(rows)]
    failing: dict[int, BaseException] = {
        order[0]: ValueError(),
        order[7]: ValueError(),
        order[8]: ValueError(),
    }
    items, found, failed = iter(sk.smap(f, shuffled(rows))), [], 0
    while True:
        try:
            found.append(next(items))
        except StopIteration:
            break
        except sk.EvaluationError:
            failed += 1
    assert found == [number for number in order if number not in failing]
    assert failed == 3
    failing = {order[5]: KeyboardInterrupt()}
    items = iter(sk.smap(f, shuffled(rows)))
    with pytest.raises(KeyboardInterrupt):
        list(items)
    with pytest.raises(RuntimeError, match="Begin a new one"):
        next(items)


def test_views_that_ask_for_nothing_are_iterated_as_they_are(rows: Any) -> None:
    view = sk.smap(lambda x: x, range(3))
    assert type(advised(view, range(3))) is type(view._iter(range(3)))
