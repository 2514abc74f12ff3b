"""`preview` and `trace` of loaders: samplers, keys of any kind, iterators that would be used up."""

import io

import numpy as np
import pytest

import seqkit as sk
from seqkit.observe.summary import summarise

torch = pytest.importorskip("torch")
from torch.utils.data import BatchSampler, RandomSampler, SubsetRandomSampler  # noqa: E402

X = np.arange(40)
LOOKS = (sk.preview, lambda sequence: sk.trace(sequence, 0))


class OnlyIter:
    def __iter__(self):
        raise AssertionError("the sampler was read")


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 3, "sampler": SubsetRandomSampler([35, 36, 37])},
        {"batch_size": 1, "sampler": RandomSampler(X)},
        {"batch_size": 3, "sampler": OnlyIter()},
        {"batch_size": 3, "sampler": sk.InfiniteSampler(range(40))},
        {"batch_sampler": BatchSampler(SubsetRandomSampler([35, 36, 37]), 2, False)},
    ],
)
def test_a_sampler_whose_order_is_not_known_is_not_read(arguments):
    loader = sk.DataLoader(X, **arguments)
    before = torch.get_rng_state()
    for look in LOOKS:
        with pytest.raises(TypeError, match="must be read to know its order"):
            look(loader)
    assert torch.equal(torch.get_rng_state(), before)
    assert loader.epoch == 0


class Lines(torch.utils.data.IterableDataset):
    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter(range(10 * self.epoch, 10 * self.epoch + 10))


def test_a_data_set_that_is_iterated_is_shown():
    loader = sk.DataLoader(Lines(), batch_size=3, iterable_split="none")
    for epoch in range(3):
        assert loader.preview(1).items[0].value.text.startswith("[0, 1, 2]" if epoch == 0 else "[")
        assert loader.epoch == epoch
        assert next(iter(loader)).tolist()[0] == 10 * epoch
    with pytest.raises(TypeError, match="the batches of this DataLoader cannot be read by index"):
        sk.DataLoader(Lines(), batch_size=3, iterable_split="reader").preview()


class Keyed:
    """A data set that takes keys of any kind."""

    def __len__(self):
        return 40

    def __getitem__(self, key):
        if isinstance(key, slice):
            return X[key].sum()
        if isinstance(key, list | np.ndarray):
            return {"many": X[key]}
        return sum(key) if isinstance(key, tuple) else X[key]


KEYS = [
    {"sampler": [(1, 2), (3, 4)], "batch_size": None},
    {"sampler": [(1, 2), (3, 4)], "batch_size": 2},
    {"sampler": [slice(0, 3), slice(3, 9)], "batch_size": None},
    {"sampler": [[1, 2], [3, 4]], "batch_size": None},
    {"sampler": np.array([[1, 2], [3, 4]]), "batch_size": None},
    {"sampler": torch.tensor([[1, 2], [3, 4]]), "batch_size": None},
    {"batch_sampler": np.array([[1, 2], [3, 4]])},
    {"batch_sampler": torch.tensor([[1, 2], [3, 4]])},
    {"sampler": torch.tensor([5, 3]), "batch_size": 2},
    {"sampler": [-1, -2], "batch_size": 2},
]


@pytest.mark.parametrize("data", [Keyed(), X, sk.smap(int, X), X.tolist()], ids=type)
@pytest.mark.parametrize("arguments", KEYS)
def test_keys_of_any_kind_are_shown_as_they_are_read(arguments, data):
    loader = sk.DataLoader(data, **arguments)
    try:
        expected = [summarise(item).line() for item in loader]
    except Exception:
        assert loader.preview(1).items[0].failed()  # this data set does not take these keys
        return
    shown = loader.preview(len(expected))
    assert [step.value and step.value.line() for step in shown.items] == expected, str(shown)
    for i, line in enumerate(expected):
        found = loader.trace(i)
        assert found.step.value.line() == line
        assert "__held" not in str(found) + repr(found.step)


def test_a_view_as_a_value_has_the_name_of_its_source():
    parts = sk.split(sk.smap(abs, range(6)), 2)
    assert "held" not in str(sk.trace(parts, 0))
    assert sk.trace(sk.smap(list, parts), 1).step.value.line() == str(list(parts[1]))


@pytest.mark.parametrize(
    "build",
    [
        lambda: sk.uniter(io.StringIO("a\nb\nc\n")),
        lambda: sk.batch(sk.smap(str, sk.uniter(iter("abc"))), 2),
        lambda: sk.DataLoader(iter(range(9)), batch_size=3),
        lambda: sk.DataLoader(iter(range(9)), batch_size=3, iterable_split="reader"),
        lambda: sk.DataLoader(X, batch_size=3, sampler=iter(range(9))),
    ],
)
def test_a_one_shot_iterator_is_not_used_up(build):
    sequence = build()
    for look in LOOKS:
        with pytest.raises(ValueError, match=r"iterators? that cannot begin again, so a .* would use"):
            look(sequence)
    assert len(list(sequence)) in (2, 3)


def inverse(x):
    return 6 / (x - 1)


@pytest.mark.parametrize(
    ("build", "items"),
    [
        (lambda: sk.filter(lambda x: x > 0, sk.smap(inverse, range(9))), 3),
        (lambda: sk.filter(inverse, range(9)), 3),
        (lambda: sk.flatten(sk.smap(lambda x: [inverse(x)], range(9))), 3),
        (lambda: sk.batch(sk.filter(lambda x: x > 0, sk.smap(inverse, range(9))), 2), 3),
        (lambda: sk.concatenate([sk.filter(inverse, range(9)), [1]]), 1),  # its length fails
    ],
)
def test_a_failing_item_of_a_view_of_unknown_length_is_a_red_card(build, items):
    found = build().preview(3)
    assert "✗ ZeroDivisionError" in str(found)
    assert found._repr_html_().count("1px solid #d9534f") == 1
    assert [step.index for step in found.items] == list(range(items))


def test_no_worker_is_started_below_a_view_of_unknown_length():
    with sk.prefetch(sk.smap(lambda x: x + 1, range(9)), 2, "thread") as node:
        for view in (sk.filter(bool, node), sk.flatten(node.smap(lambda x: [x]))):
            assert [step.value.text for step in view.preview(2).items] == ["1", "2"]
            assert view.trace(1).step.value.text == "2"
            assert "idle" in sk.explain(node)


def test_large_batches_take_linear_time():
    batch = sk.batch(sk.smap(abs, sk.shuffle(range(200_000), seed=0)), 20_000, collate_fn=np.array)
    assert len(batch.trace(0).sources()["<range of 200000>"]) == 20_000
    reads = []

    class Index(int):
        def __eq__(self, other):
            reads.append(other)
            return int(self) == other

        __hash__ = int.__hash__

    keys = [Index(i) for i in range(2_000)]
    loader = sk.DataLoader(dict(enumerate(range(2_000))), sampler=[*keys], batch_size=2_000)
    assert not loader.preview(1).items[0].error
    assert len(reads) <= 20_000
