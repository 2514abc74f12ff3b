"""What type checkers know: mypy proves the types and the refusals, pytest runs the same lines.

A second checker, pyrefly, proves the types. Where it infers another one, the line says so.

A wrong program is marked with the code of the error; mypy fails where it finds none.
"""

from __future__ import annotations

import inspect
import operator
import typing
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt
import pytest

import seqkit as sk
from seqkit.observe import Profile, Tuning, Verification
from seqkit.observe.taps import MonitorThroughput
from seqkit.stores.add_cache.add_cache import AddCache
from seqkit.stores.pack.pack import Pack
from seqkit.views.filter import Filter

Floats = npt.NDArray[np.float64]

numbers: list[int] = [3, 1, 2]
words: tuple[str, ...] = ("a", "bc", "def")
table: Floats = np.zeros((3, 2))


class Pictures:
    """A data set as PyTorch knows them."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[Floats, int]:
        return np.full(2, float(range(3)[index])), index


class Untyped:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return index


class Evens(sk.View[int]):
    def _get(self, i: int) -> int:
        return 2 * i

    def _rebuild(self, sources: tuple[sk.View[Any], ...]) -> sk.View[int]:
        return self


def halve(x: float) -> float:
    return x / 2


def stack(items: list[Floats]) -> Floats:
    return np.stack(items)


# -------------------------------------------------------------------- sources


def test_any_indexable_object_is_a_source() -> None:
    assert_type(sk.view(numbers), sk.View[int])
    assert_type(sk.view(words), sk.View[str])
    assert_type(sk.view(words[0]), sk.View[str])
    assert_type(sk.view(b"abc"), sk.View[int])
    assert_type(sk.view(range(3)), sk.View[int])
    assert_type(sk.view({0: "a", 1: "b"}), sk.View[str])
    assert_type(sk.view(Pictures()), sk.View[tuple[Floats, int]])
    assert_type(sk.view(Untyped()), sk.View[Any])
    assert_type(sk.view(table), sk.View[Any])
    assert_type(sk.view(sk.view(numbers)), sk.View[int])


def test_what_cannot_be_indexed_is_no_source() -> None:
    with pytest.raises(TypeError):
        sk.view(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        sk.shuffle({1, 2})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        sk.batch(iter(numbers), 2)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        sk.view({"a": 1})  # type: ignore[dict-item]


def test_views_are_sequences() -> None:
    view = sk.view(words)
    assert_type(view[0], str)
    assert_type(view[np.int64(0)], str)
    assert_type(view[1:], sk.View[str])
    assert_type(view[[2, 0]], sk.View[str])
    assert_type(view[[True, False, True]], sk.View[str])
    assert_type(view[np.array([2, 0])], sk.View[str])
    assert_type(view[np.array([True, False, True])], sk.View[str])
    assert_type(view[sk.arange(2)], sk.View[str])
    assert_type(view.at_epoch(1), sk.View[str])
    assert_type(list(view), list[str])
    assert_type(next(reversed(view)), str)
    with pytest.raises(TypeError):
        view["a"]  # type: ignore[index]
    with pytest.raises(TypeError):
        view[1.0]  # type: ignore[call-overload]


# -------------------------------------------------------------------- maps


def test_smap() -> None:
    assert_type(sk.smap(str, numbers), sk.View[str])
    assert_type(sk.smap(len, words), sk.View[int])
    assert_type(sk.smap(halve, numbers), sk.View[float])
    assert_type(sk.smap(halve, table), sk.View[float])
    assert_type(sk.smap(lambda x: [x], words), sk.View[list[str]])
    assert_type(sk.smap(operator.itemgetter(0), words), sk.View[Any])
    assert_type(sk.smap(max, numbers, numbers), sk.View[Any])
    assert_type(sk.smap(lambda x, y: [x, y], numbers, words), sk.View[list[Any]])
    assert_type(sk.smap(lambda x, y, z: "", numbers, words, table, zip="shortest"), sk.View[str])
    assert_type(sk.smap(lambda *items: len(items), *[numbers] * 4), sk.View[int])


def test_smap_refuses_a_function_of_other_items() -> None:
    sk.smap(len, numbers)  # type: ignore[arg-type]
    sk.smap(halve, words)  # type: ignore[arg-type]
    sk.smap(halve, numbers, numbers)
    sk.smap(operator.add, numbers)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        sk.smap("halve", numbers)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="zip"):
        sk.smap(max, numbers, numbers, zip="longest")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="at least one"):
        sk.smap(halve)  # type: ignore[call-overload]


def test_starmap() -> None:
    def repeated(word: str, times: int) -> str:
        return word * times

    assert_type(sk.starmap(repeated, [("a", 2), ("b", 3)]), sk.View[str])
    assert_type(sk.starmap(repeated, [{"word": "a", "times": 2}]), sk.View[str])
    assert_type(sk.starmap(repeated, sk.collate((words, numbers))), sk.View[str])
    assert_type(sk.view(words).collate(numbers).starmap(repeated), sk.View[str])
    sk.starmap(max, numbers)  # type: ignore[arg-type]


def test_random_map() -> None:
    def noisy(x: int, rng: np.random.Generator) -> float:
        return x + rng.normal()

    assert_type(sk.random_map(noisy, numbers, seed=0), sk.View[float])
    assert_type(sk.random_map(lambda x, rng: [x], words, seed=0), sk.View[list[str]])
    sk.random_map(noisy, words)  # type: ignore[arg-type]
    sk.random_map(halve, numbers)  # type: ignore[arg-type]


def test_filter() -> None:
    assert_type(sk.filter(str.isupper, words), Filter[str])
    assert_type(sk.filter(lambda x: x > 1, numbers)[0], int)
    sk.filter(str.isupper, numbers)  # type: ignore[arg-type]


# -------------------------------------------------------------------- the same items


def test_order() -> None:
    assert_type(sk.gather(words, [2, 0]), sk.View[str])
    assert_type(sk.gather(words, np.array([2, 0])), sk.View[str])
    assert_type(sk.take(words, range(2)), sk.View[str])
    assert_type(sk.gather_groups(words, [[0], [1, 0]]), sk.View[list[str]])
    assert_type(sk.gather_groups(words, sk.bins([1, 1], 2, long="error")), sk.View[list[str]])
    assert_type(sk.shuffle(words, seed=0), sk.View[str])
    assert_type(sk.cycle(words), sk.View[str])
    assert_type(sk.shard(words, 0, 2), sk.View[str])
    assert_type(sk.epochs(words, 2), sk.View[str])
    assert_type(sk.random_split(words, [0.5, 0.5], seed=0), tuple[sk.View[str], ...])
    with pytest.raises(TypeError):
        sk.gather(words, "ab")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        sk.gather(words, [0.5])  # type: ignore[list-item]


def test_kept_and_watched() -> None:
    assert_type(sk.add_cache(words), AddCache[str])
    assert_type(sk.materialize(words), sk.View[str])
    assert_type(sk.pack(numbers), Pack[int])
    assert_type(sk.debug(words, lambda i, word: print(i, word.upper())), sk.View[str])
    assert_type(sk.monitor_throughput(words), MonitorThroughput[str])
    assert_type(sk.profile(words), Profile)
    assert_type(sk.explain(words), sk.observe.Explanation)
    assert_type(sk.tune(words), Tuning)
    assert_type(sk.verify(words), Verification)


def test_prefetch() -> None:
    with sk.prefetch(sk.smap(len, words), nworkers=0) as ahead:
        assert_type(ahead, sk.Prefetch[int])
        assert_type(ahead[0], int)
        assert_type(list(ahead), list[int])
        assert_type(ahead.batch(2), sk.View[list[int]])
    with pytest.raises(ValueError, match="method"):
        sk.prefetch(words, method="threads")  # type: ignore[arg-type]


# -------------------------------------------------------------------- groups


def test_batch() -> None:
    assert_type(sk.batch(words, 2), sk.View[list[str]])
    assert_type(sk.batch(words, 2, True), sk.View[list[str]])
    assert_type(sk.batch(words, 2, collate_fn="".join), sk.View[str])
    assert_type(sk.batch([table, table], 2, collate_fn=stack), sk.View[Floats])
    assert_type(sk.batch(table, 2, collate_fn=stack), sk.View[Floats])
    assert_type(sk.batch(words, 2, False, None, len), sk.View[int])
    assert_type(sk.batch(numbers, 2, collate_fn=sk.default_collate), sk.View[Any])
    assert_type(sk.window(words, 2), sk.View[Any])
    sk.batch(words, 2, collate_fn=stack)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        sk.batch(words, "2")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="last"):
        sk.batch(words, 2, last="rollover")  # type: ignore[call-overload]


def test_groups_taken_apart() -> None:
    assert_type(sk.unbatch(sk.batch(numbers, 2), 2), sk.View[int])
    assert_type(sk.unbatch([table, table], 3), sk.View[Any])
    assert_type(sk.flatten([[1], [2, 3]]), sk.View[int])
    assert_type(sk.flatten(words, lengths=[1, 2, 3]), sk.View[str])
    sk.unbatch(numbers, 2)  # type: ignore[arg-type]
    sk.flatten(numbers)  # type: ignore[arg-type]


def test_split() -> None:
    assert_type(sk.split(numbers, [1]), sk.View[list[int]])
    assert_type(sk.split(sk.view(words), 2), sk.View[sk.View[str]])
    assert_type(sk.split(table, [(0, 2), (1, 3)]), sk.View[Any])
    with pytest.raises(TypeError):
        sk.split(numbers, 1.5)  # type: ignore[call-overload]


# -------------------------------------------------------------------- several sequences


def test_one_after_another() -> None:
    assert_type(sk.concatenate([numbers, range(3)]), sk.View[int])
    assert_type(sk.concatenate(sk.view(words)[i:] for i in range(3)), sk.View[str])
    assert_type(sk.concatenate([numbers, words, table, Pictures()]), sk.View[Any])  # pyrefly: ignore
    assert_type(sk.interleave(numbers, range(3)), sk.View[int])
    assert_type(sk.mix([numbers, sk.view(numbers)], [1, 2], seed=0), sk.View[int])
    assert_type(sk.mix({"a": numbers}, {0: {"a": 1}}, seed=0, sizes={"a": numbers}), sk.View[int])
    several: list[Any] = [numbers, words, Pictures()]
    assert_type(sk.mix(several, seed=0), sk.View[Any])
    with pytest.raises(TypeError):
        sk.concatenate([numbers, 3])  # type: ignore[arg-type]


def test_side_by_side() -> None:
    assert_type(sk.collate((numbers, words)), sk.View[tuple[int, str]])
    assert_type(sk.collate((numbers, words, table)), sk.View[tuple[int, str, Any]])
    assert_type(sk.collate([numbers, words]), sk.View[tuple[Any, ...]])
    assert_type(sk.collate((numbers,) * 4), sk.View[tuple[Any, ...]])
    assert_type(sk.view(words).collate(numbers), sk.View[tuple[str, int]])
    assert_type(sk.view(words).collate(numbers, words), sk.View[tuple[str, int, str]])
    named: Mapping[str, sk.View[int]] = {"x": sk.view(numbers)}
    assert_type(sk.collate(named), sk.View[dict[str, Any]])
    assert_type(sk.collate({"x": numbers, "y": words}), sk.View[dict[str, Any]])
    with pytest.raises(TypeError):
        sk.collate(numbers)  # type: ignore[arg-type]


def test_one_of_several() -> None:
    assert_type(sk.switch([True, False, True], numbers, words), sk.View[int | str])
    assert_type(sk.switch(table, numbers, [4, 5, 6]), sk.View[int])
    assert_type(sk.case([0, 1, 0], numbers, range(3)), sk.View[int])
    sk.case(words, numbers, numbers)  # type: ignore[arg-type]


# -------------------------------------------------------------------- from other things


def test_views_of_no_sequence() -> None:
    def letters() -> Iterator[str]:
        yield from "abc"

    assert_type(sk.arange(3), sk.View[int])
    assert_type(sk.repeat("a", 3), sk.View[str])
    assert_type(sk.uniter(words), sk.View[str])
    assert_type(sk.uniter(letters), sk.View[str])
    assert_type(sk.shuffle_buffer(sk.uniter(letters), 2), sk.View[str])
    with pytest.raises(TypeError):
        sk.arange(0.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        sk.uniter(3)  # type: ignore[arg-type]


# -------------------------------------------------------------------- chains


def test_a_chain_of_methods_has_the_types_of_the_functions() -> None:
    assert_type(sk.view(numbers).smap(str).batch(2), sk.View[list[str]])
    assert_type(sk.view(numbers).smap(str).shuffle(seed=0).batch(2, collate_fn="".join), sk.View[str])
    assert_type(sk.view(table).smap(halve).window(2).smap(len)[0], int)
    assert_type(Evens((), 4).gather([1]).cycle(), sk.View[int])
    assert_type(sk.repeat("a").prefetch(0), sk.Prefetch[str])


def test_every_method() -> None:
    view = sk.view(numbers)
    assert_type(view.add_cache(), AddCache[int])
    assert_type(view.batch(2), sk.View[list[int]])
    assert_type(view.batch(2).flatten(), sk.View[int])
    assert_type(view.batch(2).starmap(lambda *items: len(items)), sk.View[int])
    assert_type(view.batch(2).unbatch(2), sk.View[int])
    assert_type(view.cycle(5), sk.View[int])
    assert_type(view.debug(print), sk.View[int])
    assert_type(view.epochs(2), sk.View[int])
    assert_type(view.explain(), sk.observe.Explanation)
    assert_type(view.filter(lambda x: x > 1), Filter[int])
    assert_type(view.gather([0]), sk.View[int])
    assert_type(view.interleave([4, 5]), sk.View[int])
    assert_type(view.interleave(words), sk.View[int | str])
    assert_type(view.materialize(), sk.View[int])
    assert_type(view.monitor_throughput(), MonitorThroughput[int])
    assert_type(view.pack(), Pack[int])
    assert_type(view.prefetch(0), sk.Prefetch[int])
    assert_type(view.profile(), Profile)
    assert_type(view.tune(), Tuning)
    assert_type(view.verify(), Verification)
    assert_type(view.random_map(lambda x, rng: x + rng.normal(), 0), sk.View[float])
    assert_type(view.random_split([1, 2]), tuple[sk.View[int], ...])
    assert_type(view.shard(0, 2), sk.View[int])
    assert_type(view.shuffle(), sk.View[int])
    assert_type(view.smap(halve), sk.View[float])
    assert_type(view.smap(max, numbers), sk.View[Any])
    assert_type(view.smap(lambda x, y, z: "", words, table), sk.View[str])
    assert_type(view.split([1]), sk.View[sk.View[int]])
    assert_type(view.window(2), sk.View[Any])


def test_a_chain_refuses_what_the_functions_refuse() -> None:
    view = sk.view(numbers)
    view.smap(len)  # type: ignore[arg-type]
    view.smap(operator.add)  # type: ignore[arg-type]
    view.filter(str.isupper)  # type: ignore[arg-type]
    view.unbatch(2)  # type: ignore[misc]
    view.starmap(max)  # type: ignore[misc]
    with pytest.raises(TypeError):
        view.batch("2")  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        view.filter(predicate=bool)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        view.smapp(len)  # type: ignore[attr-defined]


def test_a_loader_has_the_type_of_its_batches_if_it_is_annotated() -> None:
    loader: sk.DataLoader[Floats] = sk.DataLoader(table, 2)
    assert_type(next(iter(loader)), Floats)
    assert_type(next(iter(sk.DataLoader(table, 2))), Any)
    assert_type([len(batch) for batch in sk.DataLoader[str]("abc", collate_fn="".join)], list[int])


# -------------------------------------------------------------------- overloads and functions agree

FUNCTIONS = {
    name: thing for name in (*sk.__all__, "filter") if isinstance(thing := getattr(sk, name), FunctionType)
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_overloads_have_the_parameters_and_defaults_of_the_function(name: str) -> None:
    takes = inspect.signature(FUNCTIONS[name]).parameters
    for overload in typing.get_overloads(FUNCTIONS[name]):
        for parameter in inspect.signature(overload).parameters.values():
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                assert takes[parameter.name].kind is parameter.kind
                assert parameter.default in (takes[parameter.name].default, parameter.empty, ...)


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"load_packed", "read", "window"}))
def test_functions_say_what_items_their_views_have(name: str) -> None:
    first: Callable[..., Any] = next(iter(typing.get_overloads(FUNCTIONS[name])), FUNCTIONS[name])
    returned = typing.get_type_hints(first)["return"]
    kind = typing.get_origin(returned)
    if isinstance(kind, type) and issubclass(kind, sk.View):
        assert typing.get_args(returned) != (Any,)


def test_batches_of_streams() -> None:
    for batch in sk.streams.StreamLoader(numbers, range, 2, lengths=numbers, resume=None):
        assert_type(batch, sk.streams.StreamBatch)
        assert_type(batch.is_first, npt.NDArray[np.bool_])
    with pytest.raises(ValueError, match="resume must be one of"):
        sk.streams.StreamLoader(numbers, range, 2, resume="tell")  # type: ignore[arg-type]
    torch = pytest.importorskip("seqkit.torch")
    assert isinstance(next(iter(torch.StreamLoader(numbers, range, 2))), torch.StreamBatch)
