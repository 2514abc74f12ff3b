"""A generator that draws the same numbers in every process worker is named, and no other one."""

from __future__ import annotations

import copy
import os
import random
import warnings
from collections.abc import Callable
from functools import partial
from random import choice
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.generators import generators

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
    "slot": (lambda rng: sk.smap(Slotted(rng), [1]), "smap → `Slotted` → attribute `rng`"),
    "bound": (lambda rng: sk.smap(Slotted(rng).__call__, [1]), "`__call__` → `Slotted` → attribute `rng`"),
    "closure": (lambda rng: sk.smap(lambda x: rng.random(), [1]), "`<lambda>` → closure `rng`"),
    "nested": (lambda rng: sk.smap(lambda x: [rng.random() for _ in "a"], [1]), "`<lambda>` → closure `rng`"),
    "default": (lambda rng: sk.smap(lambda x, g=rng: g.random(), [1]), "→ default `g`"),
    "keyword": (lambda rng: sk.smap(lambda x, *, g=rng: g.random(), [1]), "→ default `g`"),
    "partial": (lambda rng: sk.smap(partial(lambda g, x: g.random(), rng), [1]), "smap → `partial` → item 0"),
    "method of C": (lambda rng: sk.smap(rng.random, [1]), "smap → `random`"),
    "method": (lambda rng: sk.smap(rng.choice, [[1, 2]]), "smap → `choice`"),
    "composed": (lambda rng: sk.smap(Composed(abs, Slotted(rng)), [1]), "attribute `steps` → item 1"),
    "dict": (lambda rng: sk.smap((lambda d: lambda x: d["g"].random())({"g": rng}), [1]), "key 'g'"),
    "collate": (lambda rng: sk.batch([1], 1, collate_fn=lambda b: rng.random()), "batch → `<lambda>`"),
    "stream": (lambda rng: sk.uniter(lambda: iter([rng.random()])), "uniter → `<lambda>` → closure `rng`"),
    "random_map": (lambda rng: sk.random_map(lambda x, own: rng.random(), [1]), "`<lambda>` → closure `rng`"),
}


def warnings_of(view: Any, kind: Kind = PROCESSES[0], **options: Any) -> list[str]:
    """Return the warnings while a node reads a view, twice and with new workers."""
    with warnings.catch_warnings(record=True) as caught, kind.ahead(view, **options) as ahead:
        warnings.simplefilter("always")
        assert len(list(ahead)) == len(list(ahead))
        assert ahead.statistics().restarts == 0
        ahead.restart()
        list(ahead)
    assert all(one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


KINDS_OF_GENERATORS = [np.random.default_rng(0), np.random.RandomState(0), random.Random(0)]


def test_a_held_generator_is_found_with_the_way_to_it() -> None:
    for holder, (build, way) in HOLDERS.items():
        for rng in KINDS_OF_GENERATORS:
            found = [text for (text, _), held in generators(build(rng).batch(2)).items() if held is rng]
            assert len(found) == 1, holder
            assert way in found[0]
            assert f".{type(rng).__name__})" in found[0]


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
@pytest.mark.parametrize("nworkers", [1, 3])
def test_every_start_method_warns_once(kind: Kind, nworkers: int) -> None:
    (text,) = warnings_of(Samples(np.random.default_rng(0)), kind, nworkers=nworkers, chunk_size=1)
    assert "source → attribute `rng` (numpy.random.Generator)" in text
    assert "sk.random_map" in text


def test_globals_and_class_attributes_are_searched() -> None:
    found = ["".join(warnings_of(sk.smap(f, [1]))) for f in (from_global, OfClass())]
    assert "`from_global` → global `RNG` (numpy.random.Generator)" in found[0]
    assert "smap → `OfClass` → attribute `state` (numpy.random.mtrand.RandomState)" in found[1]


def test_generators_of_torch_are_found_also_in_modules_of_modules() -> None:
    torch: Any = pytest.importorskip("torch")

    class Noise(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.generator = torch.Generator()

        def forward(self, x: Any) -> Any:
            return torch.rand(1, generator=self.generator)

    for model in (Noise(), torch.nn.Sequential(Noise())):
        (text,) = warnings_of(sk.smap(model, [1]))
        assert "attribute `generator` (torch.Generator)" in text


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


class SeedsItself(Samples):
    """Makes a generator for each process."""

    def __init__(self, rng: Any) -> None:
        super().__init__(rng)
        self.pid = os.getpid()

    def __getitem__(self, i: int) -> Any:
        if self.pid != os.getpid():
            self.rng, self.pid = np.random.default_rng(), os.getpid()
        return self.rng.random()


class Other:
    """Has an attribute of the name of a global generator."""

    def __init__(self) -> None:
        self.RNG = [1.0]

    def __call__(self, x: Any) -> Any:
        return self.RNG[0]


HARMLESS: dict[str, Callable[[], sk.View[Any]]] = {
    "unused": lambda: sk.view(Splits(RNG)),
    "renewed": lambda: sk.view(Renews(RNG)),
    "of each process": lambda: sk.view(SeedsItself(np.random.default_rng(0))),
    "copied": lambda: sk.smap(lambda x: copy.deepcopy(RNG).random(), [1]),
    "a name": lambda: sk.smap(Other(), [1]),
    "of the system": lambda: sk.view(Samples(random.SystemRandom())),
    "of the module random": lambda: sk.smap(lambda x: choice([x]) + random.random(), [1]),
    "of numpy": lambda: sk.view(Samples(np.random.mtrand._rand)),  # type: ignore[attr-defined]
    "given to random_map": lambda: sk.random_map(lambda x, rng: rng.random(), [1], seed=RNG),
}


def test_a_generator_that_repeats_nothing_is_not_named() -> None:
    every = sk.concatenate([build() for build in HARMLESS.values()])
    assert warnings_of(every, nworkers=1, chunk_size=len(every)) == []


@pytest.mark.parametrize("kind", PROCESSES, ids=str)
def test_a_start_hook_that_seeds_the_generator_takes_care_of_it(kind: Kind) -> None:
    def seed(worker: int) -> None:
        samples = sk.get_worker_info()
        assert samples is not None
        held.rng.bit_generator.state = np.random.default_rng(worker + 1).bit_generator.state

    held = Samples(np.random.default_rng(0))
    assert warnings_of(sk.smap(lambda i: held[i], range(4)), PROCESSES[0], start_hook=seed) == []
    assert len(warnings_of(held, kind, start_hook=lambda: None)) == 1


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
    assert warnings_of(Samples(np.random.default_rng(0)), Kind("thread")) == []
