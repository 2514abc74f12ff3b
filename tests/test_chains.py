"""Random chains of combinators beside a list; a chain that goes wrong is printed as code that runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import seqkit as sk
from seqkit.core.randomness import item_generator, node_key
from seqkit.testing.reading import pick
from seqkit.testing.subject import close, expect
from tests import strategies

from .registry import chunks, dealt, mixed, shuffled, windows

seeds = st.integers(0, 3)
sizes = st.integers(1, 5)


class ChainOfViews(RuleBasedStateMachine):
    """Grows a chain of views, written as code, and the list that it must equal."""

    @initialize(n=st.integers(0, 12))
    def start(self, n: int) -> None:
        self.lines: list[str] = []
        self.view: Any = None
        self.model: list[Any] = []
        self.extend(f"sk.view(list(range({n})))", list(range(n)))

    def extend(self, code: str, model: list[Any]) -> None:
        self.lines.append(f"v = {code}")
        self.view = eval(code, {"sk": sk, "np": np, "v": self.view})
        self.model = model

    def program(self) -> str:
        return "\n".join(["import numpy as np", "import seqkit as sk", "", *self.lines])

    def expect(self, what: str, found: Any, wanted: Any) -> None:
        try:
            expect(what, found, wanted)
        except AssertionError as error:
            raise AssertionError(f"{error}, after\n\n{self.program()}\n") from None

    # ---------------------------------------------------------------- growing the chain

    @rule()
    def smap(self) -> None:
        self.extend("sk.smap(lambda x: [x], v)", [[x] for x in self.model])

    @rule()
    def smap_of_two(self) -> None:
        pairs = list(zip(self.model, self.model[::-1], strict=True))
        self.extend("sk.smap(lambda a, b: (a, b), v, v[::-1])", pairs)

    @rule()
    def starmap(self) -> None:
        self.extend("sk.starmap(lambda x: str(x), sk.collate([v]))", [str(x) for x in self.model])

    @rule(seed=seeds)
    def random_map(self, seed: int) -> None:
        key = node_key("random_map", seed, 0, self.view._random_count)
        drawn = [(x, int(item_generator(key, i).integers(9))) for i, x in enumerate(self.model)]
        self.extend(f"sk.random_map(lambda x, rng: (x, int(rng.integers(9))), v, seed={seed})", drawn)

    @rule(data=st.data())
    def slice(self, data: st.DataObject) -> None:
        key = data.draw(strategies.slices(len(self.model)))
        self.extend(f"v[{key!r}]", self.model[key])

    @rule(data=st.data())
    def gather(self, data: st.DataObject) -> None:
        batch = data.draw(strategies.index_batches(len(self.model), negative=True))
        code = f"np.array({batch.tolist()}, int)" if isinstance(batch, np.ndarray) else repr(batch)
        self.extend(f"sk.gather(v, {code})", [self.model[i] for i in batch])

    @rule(data=st.data())
    def mask(self, data: st.DataObject) -> None:
        flags = [bool(flag) for flag in data.draw(strategies.masks(len(self.model)))]
        self.extend(f"v[np.array({flags}, bool)]", pick(self.model, flags))

    @precondition(lambda self: len(self.model) < 40)
    @rule()
    def concatenate(self) -> None:
        self.extend("sk.concatenate([v, [], v[::-1]])", self.model + self.model[::-1])

    @rule()
    def collate(self) -> None:
        self.extend("sk.collate({'x': v, 'y': v})", [{"x": x, "y": x} for x in self.model])

    @rule(k=sizes, last=st.sampled_from(["keep", "discard", "pad"]))
    def batch(self, k: int, last: str) -> None:
        self.extend(f"sk.batch(v, {k}, last={last!r})", chunks(self.model, k, last))

    @rule(k=sizes)
    def unbatch(self, k: int) -> None:
        self.extend(f"sk.unbatch(sk.batch(v, {k}), {k})", self.model)

    @rule(seed=seeds)
    def shuffle(self, seed: int) -> None:
        order = shuffled(self.model, seed, salt=self.view._order_count)
        self.extend(f"sk.shuffle(v, seed={seed})", order)

    @rule(buffered=st.none() | sizes)
    def prefetch(self, buffered: int | None) -> None:
        self.extend(f"sk.prefetch(v, 0, max_buffered={buffered})", self.model)

    @precondition(lambda self: len(self.model) < 40)
    @rule(size=sizes, stride=sizes, last=st.sampled_from(["keep", "discard", "pad"]))
    def window(self, size: int, stride: int, last: str) -> None:
        self.extend(f"sk.window(v, {size}, {stride}, last={last!r})", windows(self.model, size, stride, last))

    @rule(parts=sizes, contiguous=st.booleans())
    def shard(self, parts: int, contiguous: bool) -> None:
        size = -(-len(self.model) // parts)
        mine = self.model[:size] if contiguous else self.model[::parts]
        self.extend(f"sk.shard(v, 0, {parts}, {contiguous})", mine)

    @rule(data=st.data(), told=st.booleans())
    def flatten(self, data: st.DataObject, told: bool) -> None:
        n = len(self.model)
        cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
        lengths = [stop - start for start, stop in pairwise([0, *cuts, n])]
        self.extend(f"sk.flatten(sk.split(v, {cuts}), {lengths if told else None})", self.model)

    @rule(k=st.integers(2, 4))
    def filter(self, k: int) -> None:
        kept = [x for x in self.model if len(repr(x)) % k]
        self.extend(f"sk.filter(lambda x: len(repr(x)) % {k}, v)", kept)

    @precondition(lambda self: len(self.model) < 40 and not self.view._random_count)
    @rule(n=st.integers(0, 3), seed=seeds)
    def epochs(self, n: int, seed: int) -> None:
        passes = [x for e in range(n) for x in shuffled(self.model, seed, e)]
        self.extend(f"sk.epochs(sk.shuffle(v, {seed}), {n})", passes)

    @precondition(lambda self: len(self.model) < 40)
    @rule(seed=seeds)
    def mix(self, seed: int) -> None:
        x, salt = self.model, 2 * self.view._order_count
        n = len(x) * 3 // 2
        self.extend(f"sk.mix([v, v[::-1]], [2, 1], seed={seed})", mixed([x, x[::-1]], (2, 1), n, seed, salt))

    @rule(seed=seeds)
    def random_split(self, seed: int) -> None:
        n = len(self.model)
        part = dealt(self.model, [n // 3], seed)[1]
        self.extend(f"sk.random_split(v, [{n // 3}, {n - n // 3}], seed={seed})[1]", part)

    # ---------------------------------------------------------------- reading it

    @invariant()
    def reads_like_the_list(self) -> None:
        n = len(self.model)
        self.expect("len(v)", len(self.view), n)
        self.expect("list(v)", list(self.view), self.model)
        for i in range(-n, n, 1 + n // 4):
            self.expect(f"v[{i}]", self.view[i], self.model[i])

    @rule(data=st.data())
    def select_twice(self, data: st.DataObject) -> None:
        first = data.draw(strategies.selections(len(self.model)))
        wanted = pick(self.model, first)
        second = data.draw(strategies.selections(len(wanted)))
        self.expect(f"v[{first!r}][{second!r}]", list(self.view[first][second]), pick(wanted, second))

    @rule(data=st.data())
    def follow_a_plan(self, data: st.DataObject) -> None:
        plan = data.draw(strategies.plans(len(self.model)))
        self.expect(f"items of {list(plan)}", list(self.view._iter(plan)), [self.model[i] for i in plan])

    def teardown(self) -> None:
        if getattr(self, "view", None) is not None:
            close(self.view)


ChainOfViews.TestCase.settings = settings(
    max_examples=80, stateful_step_count=10, derandomize=True, deadline=None, database=None
)
TestChainsReadLikeLists = ChainOfViews.TestCase


def test_a_printed_chain_is_code_that_builds_the_view() -> None:
    chain = ChainOfViews()
    chain.start(9)
    chain.shuffle(1)
    chain.smap_of_two()
    chain.batch(2, "keep")
    names: dict[str, Any] = {}
    exec(chain.program(), names)
    assert list(names["v"]) == chain.model
    chain.teardown()
