"""A generator that a pipeline holds is named before process workers repeat its numbers."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import choice
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.prefetch.repeated import repetition_warning

from ..registry import CASES, Case
from .kinds import PROCESSES, Kind

RNG = np.random.default_rng(0)


def from_global(x: Any) -> float:
    return RNG.random()


class Samples:
    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        return self.rng.random()


class WithHelper(Samples):
    def __getitem__(self, i: int) -> Any:
        return self._drawn()

    def _drawn(self) -> Any:
        return self.rng.random()


class WithSuper(Samples):
    def __getitem__(self, i: int) -> Any:
        return super().__getitem__(i)


class Slotted:
    __slots__ = ("rng",)

    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def __call__(self, *_: Any) -> Any:
        return self.rng.random()


class OfClass:
    state = np.random.RandomState(0)

    def __call__(self, _: Any) -> Any:
        return self.state.rand()


class Composed:
    def __init__(self, *steps: Callable[[Any], Any]) -> None:
        self.steps = steps

    def __call__(self, x: Any) -> Any:
        for step in self.steps:
            x = step(x)
        return x


HOLDERS: dict[str, tuple[Callable[[Any], sk.View[Any]], str]] = {
    "attribute": (lambda rng: sk.view(Samples(rng)), "source → attribute `rng`"),
    "helper": (lambda rng: sk.view(WithHelper(rng)), "source → attribute `rng`"),
    "super": (lambda rng: sk.view(WithSuper(rng)), "source → attribute `rng`"),
    "slot": (lambda rng: sk.smap(Slotted(rng), [1]), "smap → `Slotted` → attribute `rng`"),
    "bound": (lambda rng: sk.smap(Slotted(rng).__call__, [1]), "`__call__` → `Slotted` → attribute `rng`"),
    "closure": (lambda rng: sk.smap(lambda x: rng.random(), [1]), "`<lambda>` uses `rng`"),
    "nested": (lambda rng: sk.smap(lambda x: [rng for _ in "a"], [1]), "`<lambda>` uses `rng`"),
    "default": (lambda rng: sk.smap(lambda x, g=rng: g.random(), [1]), "uses default `g`"),
    "keyword": (lambda rng: sk.smap(lambda x, *, g=rng: g.random(), [1]), "uses default `g`"),
    "partial": (lambda rng: sk.smap(partial(lambda g, x: g.random(), rng), [1]), "smap → `partial` → item 0"),
    "method": (lambda rng: sk.smap(rng.random, [1]), "smap → `random`"),
    "composed": (lambda rng: sk.smap(Composed(abs, Slotted(rng)), [1]), "attribute `steps` → item 1"),
    "dict": (lambda rng: sk.smap((lambda d: lambda x: d["g"].random())({"g": rng}), [1]), "key 'g'"),
    "filter": (lambda rng: sk.filter(lambda x: rng.random() > 0.5, [1]), "filter → `<lambda>` uses `rng`"),
    "collate": (lambda rng: sk.batch([1], 1, collate_fn=lambda b: rng.random()), "batch → `<lambda>`"),
    "stream": (lambda rng: sk.uniter(lambda: iter([rng.random()])), "uniter → `<lambda>` uses `rng`"),
    "random_map": (lambda rng: sk.random_map(lambda x, own: rng.random(), [1]), "`<lambda>` uses `rng`"),
}


@pytest.mark.parametrize(
    "rng",
    [np.random.default_rng(0), np.random.RandomState(0), random.Random(0)],
    ids=lambda r: type(r).__name__,
)
@pytest.mark.parametrize(("build", "way"), HOLDERS.values(), ids=HOLDERS)
def test_a_held_generator_is_named_with_the_way_to_it(build: Any, way: str, rng: Any) -> None:
    text = repetition_warning(build(rng).batch(2))
    assert text is not None
    assert way in text
    assert f".{type(rng).__name__})" in text
    assert "sk.random_map" in text


def test_globals_and_class_attributes_are_searched() -> None:
    found = [
        repetition_warning(sk.smap(f, [1])) or "" for f in (from_global, lambda x: from_global(x), OfClass())
    ]
    assert ["global `RNG`" in text for text in found] == [True, True, False]
    assert "smap → `OfClass` → attribute `state` (numpy.random.mtrand.RandomState)" in found[2]


def test_generators_of_torch_are_found_also_in_modules_of_modules() -> None:
    torch: Any = pytest.importorskip("torch")

    class Noise(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.generator = torch.Generator()

        def forward(self, x: Any) -> Any:
            return torch.rand(1, generator=self.generator)

    for model in (Noise(), torch.nn.Sequential(Noise())):
        assert "attribute `generator` (torch.Generator)" in (repetition_warning(sk.smap(model, [1])) or "")


class Splits(Samples):
    """Draws once, when it is made."""

    def __init__(self, rng: Any) -> None:
        super().__init__(rng)
        self.first = self.rng.random()

    def __getitem__(self, i: int) -> Any:
        return i


class Renews(Samples):
    def __getitem__(self, i: int) -> Any:
        self.rng = np.random.default_rng(i)
        return self.rng.random()


class Reseeds(Samples):
    def __getitem__(self, i: int) -> Any:
        self.rng.seed(i)
        return self.rng.random()


class Trainer:
    """Has a generator for its sampler, and a function that does not use it."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.sampler = Slotted(self.rng)

    def load(self, i: int) -> int:
        return i

    def loader(self) -> Any:
        return sk.DataLoader(sk.smap(self.load, range(4)), 2, sampler=self.sampler(), generator=self.rng)


HARMLESS: dict[str, Callable[[], sk.View[Any]]] = {
    "unused": lambda: sk.view(Splits(RNG)),
    "renewed": lambda: sk.view(Renews(RNG)),
    "reseeded": lambda: sk.view(Reseeds(random.Random(0))),
    "copied": lambda: sk.smap(lambda x: copy.deepcopy(RNG).random(), [1]),
    "of another method": lambda: sk.smap(Trainer().load, [1]),
    "of the system": lambda: sk.view(Samples(random.SystemRandom())),
    "of the module random": lambda: sk.smap(lambda x: choice([x]) + random.random(), [1]),
    "of numpy": lambda: sk.view(Samples(np.random.mtrand._rand)),  # type: ignore[attr-defined]
    "opened in each process": lambda: sk.per_process(lambda: RNG, lambda g, i: g.random(), [1]),
    "given to random_map": lambda: sk.random_map(lambda x, rng: rng.random(), [1], seed=RNG),
}


@pytest.mark.parametrize("build", HARMLESS.values(), ids=HARMLESS)
def test_a_generator_that_repeats_nothing_is_not_named(build: Any) -> None:
    assert repetition_warning(build()) is None


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_view_of_seqkit_holds_a_generator(case: Case) -> None:
    assert repetition_warning(case.build(case.items(list(range(3))))) is None


def test_a_start_hook_that_mentions_the_generator_takes_care_of_it() -> None:
    def through_the_data_set(worker: int) -> None:
        sk.get_worker_info().dataset.state = worker  # type: ignore[union-attr]

    def by_name(worker: int) -> None:
        setattr(Samples, "rng", worker)  # noqa: B010

    assert repetition_warning(sk.view(Samples(RNG)), through_the_data_set) is None
    assert repetition_warning(sk.view(Samples(RNG)), by_name) is None
    assert repetition_warning(sk.view(Samples(RNG)), lambda worker: np.random.seed(worker)) is not None


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_a_node_warns_when_process_workers_start(kind: Kind) -> None:
    with kind.ahead(Samples(np.random.default_rng(0)), 1) as ahead:
        with pytest.warns(RuntimeWarning, match="same copy .* source → attribute `rng`") as caught:
            ahead.start()
        assert len(caught) == 1
        assert caught[0].filename == __file__


def test_a_loader_warns_and_its_sampler_may_have_a_generator() -> None:
    with (
        sk.DataLoader(Samples(np.random.default_rng(0)), 2, num_workers=1) as loader,
        pytest.warns(RuntimeWarning, match="attribute `rng`"),
    ):
        list(loader)
    with sk.DataLoader(
        range(4), 2, num_workers=1, shuffle=True, generator=np.random.default_rng(0)
    ) as loader:
        list(loader)


def test_threads_share_the_generator_and_warn_of_nothing() -> None:
    with warnings.catch_warnings(), ThreadPoolExecutor(1) as pool:
        warnings.simplefilter("error")
        for method in ("thread", pool):
            with sk.prefetch(Samples(np.random.default_rng(0)), 1, method) as ahead:
                assert len({*ahead}) == 4
