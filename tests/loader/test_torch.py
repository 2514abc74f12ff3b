"""`seqkit.torch.DataLoader` beside `torch.utils.data.DataLoader`: the same batches of the same tensors."""

from __future__ import annotations

import collections
import gc
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.pickling import dumps, dumps_by_value
from tests.engine.traces import drawn, until
from tests.helpers import for_each, mostly_stress

from .ways import WAYS

torch = pytest.importorskip("torch")
data = torch.utils.data
ours = pytest.importorskip("seqkit.torch")

Theirs = data.DataLoader
Ours = ours.DataLoader

every_way = pytest.mark.parametrize("way", WAYS[:3])
some_ways = pytest.mark.parametrize("way", [{}, {"num_workers": 1}], ids=["no workers", "process"])


def place(state: dict[str, Any]) -> int:
    """The number of the next batch."""
    delivered: int = state["delivered"]
    return delivered // (state.get("global_batch") or 1)


def same(found: Any, expected: Any) -> None:
    """Equal in value, type, dtype and shape, through all containers."""
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert (found.dtype, found.shape, found.device) == (expected.dtype, expected.shape, expected.device)
        assert found.requires_grad == expected.requires_grad
        assert torch.equal(found.detach(), expected.detach())
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, collections.abc.Mapping):
        assert list(found) == list(expected)
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, list | tuple | collections.deque):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    else:
        assert found == expected


def agree(dataset: Any, way: dict[str, Any], epochs: int = 1, **options: Any) -> list[Any]:
    """Compare all batches of both loaders; return ours."""
    theirs = Theirs(dataset, **options)
    expected = [list(theirs) for _ in range(epochs)]
    with Ours(dataset, **options, **way) as loader:
        found = [list(loader) for _ in range(epochs)]
    same(found, expected)
    return found[0]


class Made(data.Dataset):
    """`function` of the index."""

    def __init__(self, function: Callable[[int], Any], n: int = 7) -> None:
        self.function = function
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return self.function(i)


class Point(NamedTuple):
    x: Any
    y: Any


class Bag(collections.UserDict):
    pass


KINDS: dict[str, Callable[[int], Any]] = {
    "int": lambda i: i,
    "float": lambda i: i / 3,
    "bool": lambda i: bool(i % 2),
    "int, then float": lambda i: i / 2 if i else 0,
    "float, then int": lambda i: i or 0.5,
    "str": str,
    "bytes": lambda i: b"%d" % i,
    "scalar tensor": lambda i: torch.tensor(i * 1.5),
    "array without dimensions": lambda i: np.array(i, np.int16),
    "tensor": lambda i: torch.full((3, 4), float(i)),
    "empty tensor": lambda i: torch.empty(0, 3),
    "large tensor": lambda i: torch.full((64, 65), float(i)),
    "strided tensor": lambda i: (torch.arange(12.0).reshape(3, 4) + i).T[::2],
    "conjugate tensor": lambda i: torch.tensor([1 + 1j * i, 2j]).conj(),
    "array": lambda i: np.full((2, 3), i, np.float32),
    "read-only array": lambda i: np.frombuffer(b"%8d" % i, np.uint8),
    "tuple": lambda i: (i, float(i), f"s{i}", torch.tensor([i])),
    "list": lambda i: [i, [i, i + 1], "x"],
    "dict": lambda i: {"a": np.full(3, i), "b": {"c": torch.arange(3) + i, "d": [i, str(i)]}},
    "named tuple": lambda i: Point(torch.tensor(i), b"x"),
    "ordered": lambda i: collections.OrderedDict(b=i, a=[i]),
    "default dict": lambda i: collections.defaultdict(list, a=i),
    "mapping": lambda i: Bag(a=i, b=torch.ones(2)),
    "deque": lambda i: collections.deque([i, i]),
    "range": lambda i: range(i, i + 3),
    "nested text": lambda i: {"a": (1, ["s", f"{i}"]), "b": ("t", b"u")},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "singly": {"batch_size": None},
    "batches": {"batch_size": 3},
    "whole batches": {"batch_size": 3, "drop_last": True},
    "one batch": {"batch_size": 100},
    "sampler": {"batch_size": 2, "sampler": [3, 1, 1]},
    "sampler, singly": {"batch_size": None, "sampler": [3, 1, 1]},
    "batch sampler": {"batch_sampler": [[0, 1], [2], (3, 4, 5)]},
}


read_only_arrays_are_warned_of = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")


@read_only_arrays_are_warned_of
@pytest.mark.parametrize("kind", KINDS)
def test_samples_of_every_kind_make_the_batches_that_torch_makes(kind: str) -> None:
    for options in OPTIONS.values():
        agree(Made(KINDS[kind]), {}, **options)


@read_only_arrays_are_warned_of
@every_way
@pytest.mark.parametrize("options", OPTIONS)
def test_arguments_mean_what_they_mean_to_torch(options: str, way: dict[str, Any]) -> None:
    dataset = Made(lambda i: {name: function(i) for name, function in KINDS.items()})
    agree(dataset, way, epochs=2, **OPTIONS[options])
    loader = Ours(dataset, **OPTIONS[options])
    assert len(loader) == len(Theirs(dataset, **OPTIONS[options]))


NAMES = [
    *("float64", "float32", "float16", "bfloat16", "complex128", "complex64", "bool"),
    *("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e5m2"),
]
DTYPES = [getattr(torch, name) for name in NAMES if hasattr(torch, name)]
NUMPY = [name for name in NAMES if name[:2] != "bf" and not name.startswith("float8")]


def of_dtype(dtype: Any, shape: tuple[int, ...]) -> Made:
    """A data set of tensors of any dtype."""

    def tensor(i: int) -> Any:
        n = int(np.prod(shape))
        values = torch.arange(i, i + n).remainder(2 if dtype is torch.bool else 100)
        return values.to(torch.float32).to(dtype).reshape(shape)

    return Made(tensor, 5)


def bits(tensor: Any) -> Any:
    """What a tensor is, its memory included, for dtypes too that torch does not compare."""
    flat = tensor.flatten().clone(memory_format=torch.contiguous_format)
    return tensor.dtype, tensor.shape, flat.view(torch.uint8).tolist()


@every_way
def test_tensors_of_all_dtypes_arrive_as_they_are(way: dict[str, Any]) -> None:
    columns = [of_dtype(dtype, shape) for dtype in DTYPES for shape in [(), (3,), (40, 50)]]
    with Ours(Made(lambda i: [each[i] for each in columns], 5), 2, **way) as loader:
        found = list(loader)
    for start, batch in zip((0, 2, 4), found, strict=True):
        for tensor, each in zip(batch, columns, strict=True):
            expected = torch.stack([each[i] for i in range(start, min(start + 2, 5))])
            assert bits(tensor) == bits(expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t[:0],
        lambda t: t[::2],
        lambda t: t[:1].expand(4, 3),
        lambda t: t[::9, 0],
        lambda t: t[:0:9, 0],
        lambda t: t[:, 0],
        lambda t: t[:, 1:2],
        lambda t: t.T[1],
        lambda t: t.flatten()[1::2],
        lambda t: t[0, :1].expand(6),
    ],
    ids=[
        "empty",
        "with gaps",
        "repeated",
        "single with a stride",
        "empty with a stride",
        "column",
        "narrow",
        "row of the transposed",
        "every other",
        "one repeated",
    ],
)
def test_tensors_of_all_dtypes_arrive_even_if_they_are_no_dense_memory(change: Any) -> None:
    sources = [of_dtype(dtype, (5, 3)) for dtype in DTYPES]
    with Ours(Made(lambda i: [change(each[i]) for each in sources], 2), None, num_workers=1) as loader:
        found = list(loader)
    for i in range(2):
        assert [bits(tensor) for tensor in found[i]] == [bits(change(each[i])) for each in sources]


@every_way
@pytest.mark.parametrize("batch_size", [None, 3])
def test_numpy_of_all_dtypes_becomes_what_torch_makes_of_it(
    batch_size: int | None, way: dict[str, Any]
) -> None:
    def item(i: int) -> Any:
        arrays = [np.full((2, 3), i % 2, dtype) for dtype in NUMPY]
        scalars = [array[0, 0] for array in arrays if array.dtype != np.uint64]
        return arrays, scalars, [np.array(scalar) for scalar in scalars]

    agree(Made(item, 4), way, batch_size=batch_size)


@some_ways
def test_samples_of_different_dtypes_are_promoted_as_torch_does(way: dict[str, Any]) -> None:
    agree(Made(lambda i: torch.ones(2, dtype=torch.float64 if i % 2 else torch.float32)), way, batch_size=3)


class Mark:
    def __init__(self, x: int) -> None:
        self.x = x


def test_a_type_that_is_registered_with_torch_later_is_collated_by_its_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch.utils.data._utils.collate import default_collate_fn_map

    rule = lambda points, *, collate_fn_map=None: torch.tensor([p.x for p in points])
    monkeypatch.setitem(default_collate_fn_map, Mark, rule)
    loader = Ours([Mark(3), Mark(5)], 2, num_workers=1)
    assert [batch.tolist() for batch in loader] == [[3, 5]]


def test_gradients_are_kept_without_workers() -> None:
    dataset = Made(lambda i: torch.full((2,), float(i), requires_grad=True))
    (batch, *_) = Ours(dataset, 3)
    assert batch.requires_grad
    expected = next(iter(Theirs(dataset, 3)))
    assert torch.equal(batch, expected)


# -------------------------------------------------------------------- torch's data sets


TENSORS = torch.arange(30.0).reshape(10, 3), torch.arange(10), torch.arange(10, 20).to(torch.bfloat16)


def stored(*which: int) -> Any:
    return data.TensorDataset(*[TENSORS[k] for k in which or (0, 1)])


class Fetching(data.Dataset):
    """Reads many at once, as a Hugging Face data set does."""

    def __len__(self) -> int:
        return 9

    def __getitem__(self, i: int) -> Any:
        if isinstance(i, list):
            return {"tokens": [[k] * 3 for k in i]}
        return {"tokens": [i] * 3, "text": f"t{i}"}

    def __getitems__(self, indices: list[int]) -> list[Any]:
        assert {type(i) for i in indices} == {int}
        return [self[i] for i in indices]


DATASETS: dict[str, Callable[[], Any]] = {
    "TensorDataset": stored,
    "TensorDataset of one": lambda: stored(0),
    "TensorDataset of many": lambda: stored(0, 1, 2, 0, 1),
    "Subset": lambda: data.Subset(stored(), [3, 1, 9, 9, 2]),
    "Subset of a Subset": lambda: data.Subset(data.Subset(stored(), range(2, 9)), [0, 6]),
    "Subset of what fetches": lambda: data.Subset(Fetching(), [8, 0, 3]),
    "StackDataset": lambda: data.StackDataset(TENSORS[0], TENSORS[1]),
    "StackDataset by name": lambda: data.StackDataset(image=TENSORS[0], label=Fetching2()),
    "ConcatDataset": lambda: data.ConcatDataset([stored(), data.Subset(stored(), [7]), stored()]),
    "sum of data sets": lambda: stored() + stored(),
    "random_split": lambda: data.random_split(
        stored(), [0.3, 0.7], generator=torch.Generator().manual_seed(1)
    )[1],
    "fetching": Fetching,
    "tensor": lambda: TENSORS[0],
    "list of tensors": lambda: list(TENSORS[0]),
}


class Fetching2(Fetching):
    def __len__(self) -> int:
        return 10


@every_way
@pytest.mark.parametrize("name", DATASETS)
def test_data_sets_of_torch_are_read_as_torch_reads_them(name: str, way: dict[str, Any]) -> None:
    dataset = DATASETS[name]()
    agree(dataset, way, batch_size=4)
    if not way:
        agree(dataset, way, batch_size=None)


@some_ways
def test_what_fetches_many_is_asked_once_per_batch(way: dict[str, Any]) -> None:
    class Counting(Fetching):
        calls = 0

        def __getitem__(self, i: int) -> Any:
            return [i, self.calls]

        def __getitems__(self, indices: list[int]) -> list[Any]:
            self.calls += 1
            return [self[i] for i in indices]

    with Ours(Counting(), 3, **way) as loader:
        assert [numbers.tolist() for numbers, _ in loader] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    with Ours(Counting(), 3, **way) as loader:
        calls = [call.tolist() for _, call in loader]
    assert [len(set(each)) for each in calls] == [1, 1, 1]
    assert [each[0] for each in calls] == [1, 2, 3]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: data.Subset(stored(), [3, 99]), IndexError),
        (lambda: data.StackDataset(TENSORS[0], Wrong()), ValueError),
    ],
    ids=["index beyond the end", "wrong number of items"],
)
@some_ways
def test_errors_of_data_sets_arrive_with_their_type(
    make: Any, error: type[Exception], way: dict[str, Any]
) -> None:
    with Ours(make(), 2, **way) as loader:
        found = drawn(iter(loader))
    assert isinstance(found[0], sk.EvaluationError)
    assert isinstance(found[0].__cause__, error)


class Wrong(Fetching2):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [0]


# -------------------------------------------------------------------- data sets that can only be iterated


class Counted(data.IterableDataset):
    """Its workers all give everything."""

    def __init__(self, n: int = 11) -> None:
        self.n = n

    def __iter__(self) -> Iterator[Any]:
        return iter([{"x": torch.full((3,), float(i)), "i": i} for i in range(self.n)])


class Dealt(Counted):
    """Deals itself out to the workers that there are."""

    def __iter__(self) -> Iterator[Any]:
        info = data.get_worker_info()
        items = list(super().__iter__())
        return iter(items if info is None else items[info.id :: info.num_workers])


class Known(Counted):
    def __len__(self) -> int:
        return self.n


ITERABLE = {
    "plain": Counted,
    "dealt out": Dealt,
    "of known length": Known,
    "chain": lambda: data.ChainDataset([Counted(4), Counted(3)]),
    "sum": lambda: Counted(4) + Counted(3),
}


@every_way
@pytest.mark.parametrize("name", ITERABLE)
@pytest.mark.parametrize(
    "options", [{"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}], ids=str
)
def test_each_item_of_an_iterable_comes_once_in_order_whatever_the_workers(
    name: str, options: dict[str, Any], way: dict[str, Any]
) -> None:
    agree(ITERABLE[name](), way, epochs=1 if way else 2, **options)


@pytest.mark.parametrize("drop_last", [False, True])
def test_the_length_of_an_iterable_is_that_of_torch(drop_last: bool) -> None:
    options = {"batch_size": 3, "drop_last": drop_last}
    assert len(Ours(Known(), **options)) == len(Theirs(Known(), **options))
    for kind in (Ours, Theirs):
        with pytest.raises(TypeError):
            len(kind(Counted(), **options))


@pytest.mark.parametrize(
    "options",
    [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}, {"shuffle": True, "sampler": [0]}],
)
def test_iterables_take_no_indices(options: dict[str, Any]) -> None:
    for kind in (Ours, Theirs):
        with pytest.raises(ValueError, match="expected unspecified"):
            kind(Counted(), **options)


# -------------------------------------------------------------------- torch's samplers


def seeded(seed: int = 3) -> Any:
    return torch.Generator().manual_seed(seed)


SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "sequential": data.SequentialSampler,
    "random": lambda d: data.RandomSampler(d, generator=seeded()),
    "random, more than there are": lambda d: data.RandomSampler(d, num_samples=25, generator=seeded()),
    "with replacement": lambda d: data.RandomSampler(d, True, 40, generator=seeded()),
    "subset": lambda d: data.SubsetRandomSampler([8, 1, 5, 3], generator=seeded()),
    "weighted": lambda d: data.WeightedRandomSampler(
        [1.0, 0, 3, 0, 5, 0, 0, 0, 0, 1], 12, generator=seeded()
    ),
    "weighted once": lambda d: data.WeightedRandomSampler(range(10), 6, False, generator=seeded()),
    "distributed": lambda d: data.DistributedSampler(d, 3, 1, seed=4),
    "distributed in order": lambda d: data.DistributedSampler(d, 3, 2, shuffle=False, drop_last=True),
}


@some_ways
@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_of_torch_give_the_order_that_they_give_to_torch(name: str, way: dict[str, Any]) -> None:
    dataset = stored()

    def options() -> dict[str, Any]:
        return {"batch_size": 4, "sampler": SAMPLERS[name](dataset)}

    theirs = Theirs(dataset, **options())
    with Ours(dataset, **options(), **way) as loader:
        assert len(loader) == len(theirs)
        for epoch in range(2):
            for sampler in (theirs.sampler, loader.sampler):
                getattr(sampler, "set_epoch", int)(epoch)
            same(list(loader), list(theirs))


@every_way
@pytest.mark.parametrize("drop_last", [False, True])
def test_batch_samplers_of_torch_too(drop_last: bool, way: dict[str, Any]) -> None:
    def sampler() -> Any:
        return data.BatchSampler(data.RandomSampler(range(10), generator=seeded()), 4, drop_last)

    theirs = list(Theirs(stored(), batch_sampler=sampler()))
    with Ours(stored(), batch_sampler=sampler(), **way) as loader:
        same(list(loader), theirs)
    theirs = list(Theirs(TENSORS[0], batch_size=None, sampler=sampler()))
    with Ours(TENSORS[0], batch_size=None, sampler=sampler(), **way) as loader:
        same(list(loader), theirs)


def test_set_epoch_of_a_distributed_sampler_is_obeyed() -> None:
    def orders(kind: Any) -> list[Any]:
        sampler = data.DistributedSampler(stored(), 2, 1, seed=4)
        loader, found = kind(stored(), 3, sampler=sampler), []
        for epoch in (5, 0, 5):
            sampler.set_epoch(epoch)
            found.append(list(loader))
        return found

    same(orders(Ours), orders(Theirs))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_same_generator_shuffles_in_the_same_way(num_workers: int) -> None:
    def epochs(seed: int) -> list[Any]:
        generator = torch.Generator().manual_seed(seed)
        with Ours(range(40), 40, True, num_workers=num_workers, generator=generator) as loader:
            return [batch.tolist() for _ in range(2) for batch in loader]

    first = epochs(1)
    assert epochs(1) == first
    assert epochs(2) != first
    assert first[0] != first[1]
    assert sorted(first[0]) == list(range(40))


def test_reading_with_a_seed_leaves_torchs_generator_alone() -> None:
    before = torch.get_rng_state()
    list(Ours(range(10), 2, shuffle=True, seed=0))
    with Ours(range(10), 2, shuffle=True, num_workers=1, generator=seeded()) as loader:
        list(loader)
    assert torch.equal(torch.get_rng_state(), before)


def plain(loader: Any) -> list[Any]:
    return [batch.tolist() for batch in loader]


@every_way
def test_manual_seed_determines_the_orders_as_in_torch(way: dict[str, Any]) -> None:
    def orders(seed: int, seeds_first: bool = True) -> list[Any]:
        if seeds_first:
            torch.manual_seed(seed)
        with Ours(range(10), 4, shuffle=True, **way) as loader:
            if not seeds_first:
                torch.manual_seed(seed)  # the first epoch draws the seed
            found = [plain(loader) for _ in range(3)]
            loader.set_epoch(1)
            assert plain(loader) == found[1]
        return found

    first = orders(0)
    assert len({str(order) for order in first}) == 3
    assert orders(0) == orders(0, seeds_first=False) == first
    assert orders(1) != first


class Epochs:
    """Says which epoch it was told."""

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> int:
        return self.epoch


def test_the_same_seed_in_every_epoch_does_not_stop_what_counts_epochs() -> None:
    numbers = Ours(Epochs(), 2, shuffle=True)
    shares = Ours(range(10), 10, sampler=data.DistributedSampler(range(10), 1, 0))
    orders = []
    for epoch in range(3):
        torch.manual_seed(42)
        assert plain(numbers) == [[epoch, epoch]]
        torch.manual_seed(42)
        shares.sampler.set_epoch(epoch)
        orders += plain(shares)
    assert len({str(order) for order in orders}) == 3


@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize(
    ("options", "numbers"),
    [({}, 0), ({"shuffle": True}, 2), ({"shuffle": True, "seed": 1}, 0), ({"sampler": [3, 1]}, 2)],
    ids=str,
)
def test_shuffled_epochs_take_one_number_each_from_torchs_generator(
    options: dict[str, Any], numbers: int, way: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    with Ours(range(10), 4, **options, **way) as loader:
        list(loader)
        list(loader)
    after = torch.get_rng_state()
    torch.manual_seed(0)
    for _ in range(numbers):
        torch.randint(1 << 62, ())
    assert torch.equal(torch.get_rng_state(), after)


def test_a_copy_goes_on_whatever_torchs_generator_gives() -> None:
    loader = Ours(range(10), 4, shuffle=True)
    batches = iter(loader)
    next(batches)
    copied = pickle.loads(pickle.dumps(loader))
    expected = plain(loader)
    torch.manual_seed(5)
    assert plain(copied) == expected


def test_a_state_without_a_seed_goes_on_whatever_torchs_generator_gives() -> None:
    loader = Ours(range(10), 4, shuffle=True)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    expected = [[batch.tolist() for batch in batches], plain(loader)]
    other = Ours(range(10), 4, shuffle=True)
    other.load_state_dict(state)
    torch.manual_seed(5)
    assert [plain(other), plain(other)] == expected


# -------------------------------------------------------------------- memory


SPARSE = {
    "coo": lambda t: t.to_sparse(),
    "coo, hybrid": lambda t: t.to_sparse(1),
    "coo, not coalesced": lambda t: torch.sparse_coo_tensor([[0, 0], [1, 1]], [t[1, 1], t[0, 1]], (4, 6)),
    "coo, empty": lambda t: (0 * t).to_sparse(),
    "csr": lambda t: t.to_sparse_csr(),
    "csc": lambda t: t.to_sparse_csc(),
    "bsr": lambda t: t.to_sparse_bsr((2, 3)),
    "bsc": lambda t: t.to_sparse_bsc((2, 3)),
    "leaf": lambda t: t.to_sparse().requires_grad_(),
}


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # torch calls some of them a beta
@pytest.mark.parametrize("make", SPARSE.values(), ids=SPARSE)
def test_sparse_tensors_arrive_as_they_are_and_are_kept_by_nobody(make: Any) -> None:
    source = [torch.arange(24.0).remainder(5).reshape(4, 6) * i for i in range(1, 5)]
    with Ours(Made(lambda i: make(source[i]), 4), None, num_workers=1) as loader:
        for dense, found in zip(source, loader, strict=True):
            expected = make(dense)
            assert (found.layout, found.shape, found.dtype) == (expected.layout, (4, 6), torch.float32)
            assert found.requires_grad == expected.requires_grad
            if found.layout is torch.sparse_coo:
                assert found.is_coalesced() == expected.is_coalesced()
            assert torch.equal(found.detach().to_dense(), expected.detach().to_dense())
    assert not torch._utils._sparse_tensors_to_validate


def test_large_tensors_arrive_without_a_copy() -> None:
    dataset = Made(lambda i: {"x": torch.full((256, 256), float(i)), "h": np.full(70_000, i, np.int16)}, 24)
    with Ours(dataset, 2, num_workers=1, persistent_workers=True) as loader:
        for number, batch in enumerate(loader):
            assert batch["x"].shape == (2, 256, 256)
            assert (batch["x"][1] == 2 * number + 1).all()
            assert (batch["h"][0] == 2 * number).all()
        statistics = loader.view.statistics()
    assert statistics.items == 12
    assert (statistics.copies, statistics.misses) == (0, 0)
    assert statistics.nbytes >= 12 * 2 * (256 * 256 * 4 + 140_000)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool], ids=str)
def test_tensors_of_a_function_of_ones_own_arrive_without_a_copy(dtype: Any) -> None:
    def stacked(samples: list[Any]) -> Any:
        return torch.stack(samples)

    dataset = Made(lambda i: torch.ones(300, 300).to(dtype), 12)
    with Ours(dataset, 2, num_workers=1, collate_fn=stacked, persistent_workers=True) as loader:
        for batch in loader:
            assert batch.dtype is dtype
            assert batch.all()
        statistics = loader.view.statistics()
    assert (statistics.copies, statistics.misses) == (0, 0)


@every_way
def test_tensors_belong_to_the_reader(way: dict[str, Any]) -> None:
    dataset = Made(lambda i: torch.full((2000,), float(i)), 60)
    with Ours(dataset, 2, **way) as loader:
        kept = []
        for batch in loader:
            kept.append(batch.neg_())
        again = list(loader)
    for number, (one, other) in enumerate(zip(kept, again, strict=True)):
        assert (one[0] == -2 * number).all()
        assert torch.equal(one, -other)


def test_parts_of_a_batch_keep_its_memory() -> None:
    dataset = Made(lambda i: torch.full((5000,), float(i)), 80)
    with Ours(dataset, 4, num_workers=1) as loader:
        rows = [batch[1] for batch in loader]
    gc.collect()
    assert [row.unique().tolist() for row in rows] == [[4.0 * number + 1] for number in range(20)]


# -------------------------------------------------------------------- workers


def test_torch_knows_who_the_worker_is() -> None:
    class Asking(data.Dataset):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, i: int) -> Any:
            info, own = data.get_worker_info(), sk.get_worker_info()
            assert own is not None
            return [info.id, info.num_workers, info.seed, info.dataset is self, own.id, own.num_workers]

    with Ours(Asking(), batch_size=None, num_workers=2) as loader:
        found = list(loader)
    assert data.get_worker_info() is None
    for number, workers, seed, is_own, own_number, own_workers in found:
        assert (number, workers) == (own_number, own_workers)
        assert number in range(2)
        assert (workers, is_own) == (2, True)
        assert 0 <= seed < 2**63
    assert len({seed for _, _, seed, *_ in found}) == len({number for number, *_ in found})


@pytest.mark.parametrize("loader_class", [sk.DataLoader, Ours])
def test_a_data_set_of_torch_chooses_its_part_in_loaders_of_both_kinds(loader_class: Any) -> None:
    class Parts(data.IterableDataset):
        def __iter__(self) -> Any:
            info = data.get_worker_info()
            return iter(range(info.id, 7, info.num_workers))

    with loader_class(Parts(), 2, num_workers=2, iterable_split="workers") as loader:
        assert sorted(int(i) for batch in loader for i in batch) == list(range(7))


def test_worker_init_fn_finds_torchs_worker_info(tmp_path: Any) -> None:
    def begin(number: int) -> None:
        info = data.get_worker_info()
        (tmp_path / str(number)).write_text(f"{info.id} {info.num_workers} {len(info.dataset)}")

    with Ours(stored(), num_workers=1, worker_init_fn=begin) as loader:
        list(loader)
    assert (tmp_path / "0").read_text() == "0 1 10"


def test_workers_draw_different_random_tensors_and_the_same_ones_again(tmp_path: Any) -> None:
    def drawn_by_workers(run: str, seed: int) -> list[str]:
        folder = tmp_path / run
        folder.mkdir()

        def begin(number: int) -> None:
            part = folder / f"part {number}"
            part.write_text(str(torch.rand(()).item()))
            part.rename(folder / str(number))

        with Ours(range(20), num_workers=2, worker_init_fn=begin, seed=seed) as loader:
            next(iter(loader))
            until(lambda: {path.name for path in folder.iterdir()} == set("01"))
        return [(folder / name).read_text() for name in "01"]

    first = drawn_by_workers("first", 1)
    assert first[0] != first[1]
    assert drawn_by_workers("again", 1) == first
    assert not set(drawn_by_workers("other", 2)) & set(first)


@pytest.mark.parametrize("context", mostly_stress("forkserver", "fork", "spawn"))
def test_tensors_come_through_every_start_method(context: str) -> None:
    with Ours(stored(0, 1, 2), 4, num_workers=1, multiprocessing_context=context) as loader:
        same(list(loader), list(Theirs(stored(0, 1, 2), 4)))


@pytest.mark.parametrize("context", mostly_stress("spawn", "fork", "forkserver"))
def test_tensors_of_all_dtypes_may_be_in_the_source(context: str) -> None:
    sources = [torch.arange(50).reshape(5, 10).to(torch.float32).to(dtype) for dtype in DTYPES]
    with sk.prefetch(sk.collate(sources), 1, "process", context=context) as ahead:  # type: ignore[arg-type]
        for i, found in enumerate(ahead):
            assert [bits(tensor) for tensor in found] == [bits(source[i]) for source in sources]


@pytest.mark.parametrize("pickled", [dumps, dumps_by_value])
def test_the_memory_of_a_tensor_is_no_part_of_its_pickle(pickled: Callable[..., bytes]) -> None:
    buffers: list[pickle.PickleBuffer] = []
    data = pickled(torch.ones(10_000), protocol=5, buffer_callback=buffers.append)
    assert [len(buffer.raw()) for buffer in buffers] == [40_000]
    assert torch.equal(pickle.loads(data, buffers=buffers), torch.ones(10_000))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_travel_as_torch_pickles_them() -> None:
    ragged = torch.nested.nested_tensor([torch.rand(4, 3), torch.rand(5, 3)])
    with sk.prefetch(sk.smap(lambda i: ragged, range(2)), 1, "process", context="fork") as ahead:
        for found in ahead:
            same(list(found.unbind()), list(ragged.unbind()))


def test_errors_keep_their_type_index_and_the_batches_around_them() -> None:
    def item(i: int) -> Any:
        if i == 5:
            raise LookupError("five")
        return torch.tensor(i)

    with Ours(Made(item, 8), 2, num_workers=2) as loader:
        found = drawn(iter(loader))
    assert [batch.tolist() for batch in found[:2] + found[3:]] == [[0, 1], [2, 3], [6, 7]]
    assert isinstance(found[2], sk.EvaluationError)
    assert (found[2].index, repr(found[2].__cause__)) == (5, "LookupError('five')")


# -------------------------------------------------------------------- what torch would lose in silence


@some_ways
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("masked", [[0, 1], [1]], ids=["all masked", "one masked"])
def test_masks_are_refused_rather_than_lost(nested: bool, masked: list[int], way: dict[str, Any]) -> None:
    def item(i: int) -> Any:
        array = np.ma.array([1.0, 2.0], mask=[True, False]) if i in masked else np.ones(2)
        return {"x": array} if nested else array

    with Ours(Made(item, 2), 2, **way) as loader, pytest.raises(sk.EvaluationError) as caught:
        list(loader)
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize(
    "function",
    [
        lambda i: None,
        lambda i: {1, 2},
        lambda i: np.array(["a"]),
        lambda i: np.array([None]),
        lambda i: torch.ones(i + 1),
        lambda i: [0] * (i + 1),
        lambda i: torch.ones(2).to_sparse(),
    ],
    ids=["None", "set", "text", "objects", "shapes", "lengths", "sparse"],
)
def test_what_torch_refuses_is_refused(function: Any) -> None:
    dataset = Made(function, 2)
    with pytest.raises((TypeError, RuntimeError)) as theirs:
        list(Theirs(dataset, 2))
    with pytest.raises(sk.EvaluationError) as mine:
        list(Ours(dataset, 2))
    assert type(mine.value.__cause__) is type(theirs.value)


# -------------------------------------------------------------------- arguments


def test_the_arguments_are_those_of_torch_in_their_order() -> None:
    import inspect

    mine = inspect.signature(Ours.__init__).parameters
    theirs = inspect.signature(Theirs.__init__).parameters
    assert list(mine)[: len(theirs)] == list(theirs)
    for name, parameter in theirs.items():
        assert mine[name].kind == parameter.kind
        assert mine[name].default == parameter.default


REFUSED: list[dict[str, Any]] = [
    {"num_workers": -1},
    {"timeout": -1},
    {"prefetch_factor": 2},
    {"prefetch_factor": -1, "num_workers": 1},
    {"persistent_workers": True},
    {"sampler": [0], "shuffle": True},
    {"batch_sampler": [[0]], "batch_size": 2},
    {"batch_sampler": [[0]], "batch_size": None},
    {"batch_sampler": [[0]], "shuffle": True},
    {"batch_sampler": [[0]], "sampler": [0]},
    {"batch_sampler": [[0]], "drop_last": True},
    {"batch_size": None, "drop_last": True},
    {"batch_size": 0},
    {"batch_size": -1},
    {"batch_size": True},
    {"batch_size": 1.5},
    {"drop_last": "no"},
    {"multiprocessing_context": "fork"},
    {"multiprocessing_context": "bad", "num_workers": 1},
    {"multiprocessing_context": object(), "num_workers": 1},
]


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_what_torch_refuses_at_construction_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Theirs([1, 2, 3], **options)
    with pytest.raises((TypeError, ValueError)) as mine:
        Ours([1, 2, 3], **options)
    assert any(name in str(mine.value) for name in options)


def test_what_differs_from_torch_on_purpose() -> None:
    with pytest.raises(ValueError, match="timeout"):
        Ours(range(3), timeout=1)
    assert [batch.tolist() for batch in Ours(range(3), np.int64(2))] == [[0, 1], [2]]
    assert list(Ours([], shuffle=True)) == []
    with pytest.raises(ValueError, match="should be a boolean value"):
        Ours(range(3), shuffle="yes")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is memory to lock")
@some_ways
def test_without_an_accelerator_pinning_is_warned_of_and_left_out(way: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="pin_memory"):
        loader = Ours(stored(), 5, pin_memory=True, **way)
    with loader:
        batches = list(loader)
    same(batches, list(Theirs(stored(), 5)))


@pytest.mark.parametrize("way", WAYS[:3])
def test_batches_of_workers_are_pinned_and_workers_know_their_part(
    way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dealt(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[int]:
            info = sk.get_worker_info()
            return iter(range(8) if info is None else range(info.id, 8, info.num_workers))

    monkeypatch.setattr(Ours._kind, "pin", lambda batch: ("pinned", batch.tolist()), raising=False)
    monkeypatch.setattr(type(Ours._kind), "pinner", property(lambda self: object()))
    with Ours(Dealt(), 2, pin_memory=True, iterable_split="workers", **way) as loader:
        found = list(loader)
    expected = [[0, 2], [1, 3], [4, 6], [5, 7]] if way else [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert found == [("pinned", batch) for batch in expected]


def test_attributes_are_those_of_torch() -> None:
    options: dict[str, Any] = {"batch_size": 2, "num_workers": 1, "drop_last": True, "timeout": 5}
    mine, theirs = Ours(stored(), **options), Theirs(stored(), **options)
    for name in ("batch_size", "num_workers", "drop_last", "timeout", "prefetch_factor", "pin_memory"):
        assert getattr(mine, name) == getattr(theirs, name)
    for name in ("persistent_workers", "in_order", "worker_init_fn", "generator"):
        assert getattr(mine, name) == getattr(theirs, name)
    assert list(mine.sampler) == list(theirs.sampler)
    assert list(mine.batch_sampler) == list(theirs.batch_sampler)
    assert mine.collate_fn([1, 2]).tolist() == [1, 2]


@every_way
def test_a_loader_goes_on_where_another_one_was(way: dict[str, Any]) -> None:
    def loader(**more: Any) -> Any:
        return Ours(stored(), 3, sampler=data.RandomSampler(range(10), generator=seeded()), **more)

    expected = list(loader())
    with loader(**way) as one:
        batches = iter(one)
        next(batches)
        state = one.state_dict()
    with loader(**way) as other:  # whose generator is seeded again
        other.load_state_dict(state)
        same(list(other), expected[1:])
        other.load_state_dict(state)  # but now the generator has gone on
        with pytest.raises(ValueError, match="other"):
            next(iter(other))


# -------------------------------------------------------------------- the other way round


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_view_is_a_data_set_for_torchs_own_loader(num_workers: int) -> None:
    view = sk.smap(
        lambda i: {"x": torch.full((3,), float(i)), "y": i}, sk.concatenate([range(5), range(7, 12)])
    )
    expected = list(Ours(view, 4))
    for dataset in (view, sk.shuffle(view, seed=0)[:], sk.gather(view, range(10))):
        found = list(Theirs(dataset, 4, num_workers=num_workers, multiprocessing_context=None))
        assert len(found) == 3
        if dataset is not view:
            assert sorted(int(y) for batch in found for y in batch["y"]) == [*range(5), *range(7, 12)]
            found = expected
        same(found, expected)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_prefetched_view_is_a_data_set_for_torchs_own_loader(num_workers: int) -> None:
    view = sk.smap(lambda i: np.full(3, i, np.float32), range(10))
    with sk.prefetch(view, 1, "thread") as ahead:
        same(list(Theirs(ahead, 4, num_workers=num_workers)), list(Theirs(list(view), 4)))


def test_samplers_of_seqkit_serve_torchs_own_loader() -> None:
    sampler = sk.BatchSampler(sk.RandomSampler(10, seed=0), 4)
    expected = list(sk.BatchSampler(sk.RandomSampler(10, seed=0), 4))
    found = [batch[1].tolist() for batch in Theirs(stored(), batch_sampler=sampler)]
    assert found == expected


def test_workers_do_not_multiply_threads() -> None:
    class Threads(data.Dataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> int:
            return int(torch.get_num_threads())

    with Ours(Threads(), batch_size=None, num_workers=1) as loader:
        assert list(loader) == [1, 1]


NUMBERS = "?bhilqBHILQefdFDgG"


def kinds_of_arrays() -> Iterator[Any]:
    for code in [*NUMBERS, ">f4", "U3", "M8[s]"]:
        for shape in [(), (0,), (3,), (2, 0), (2, 3)]:
            yield pytest.param([np.full(shape, i % 2).astype(code) for i in range(3)], id=f"{code} {shape}")
    yield pytest.param([np.zeros(2, "f4"), np.zeros(2, "f8")], id="two dtypes")
    yield pytest.param([np.zeros(2), np.zeros(3)], id="two shapes")
    yield pytest.param([np.zeros((3, 2)).T, np.ones((2, 3))], id="Fortran order")
    yield pytest.param([np.arange(9.0)[::3], np.ones(3)], id="gaps")
    yield pytest.param([np.zeros(2), torch.zeros(2)], id="an array and a tensor")
    yield pytest.param([np.zeros(3).view(np.recarray), np.ones(3)], id="a subclass")


@for_each("arrays", list(kinds_of_arrays()))
def test_arrays_that_numpy_stacks_give_what_torch_gives(arrays: list[Any]) -> None:
    def tried(collate: Any) -> Any:
        try:
            batch = collate(list(arrays))
        except Exception as error:
            return type(error)
        return batch.dtype, batch.shape, batch.tolist(), batch.is_contiguous()

    assert tried(ours.default_collate) == tried(torch.utils.data.default_collate)


def test_stacked_arrays_are_a_copy() -> None:
    arrays = [np.zeros(3), np.ones(3)]
    batch = ours.default_collate(arrays)
    batch[:] = 7
    assert [array.tolist() for array in arrays] == [[0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize(
    "batch",
    [
        [np.array([1, 2]), [3, 4]],
        [np.array([1, 2]), 3],
    ],
    ids=["a list", "a number"],
)
def test_arrays_beside_something_else_are_collated_as_torch_does(batch: list[Any]) -> None:
    def tried(collate: Any) -> Any:
        try:
            return repr(collate(batch))
        except Exception as error:
            return type(error)

    assert tried(ours.default_collate) == tried(torch.utils.data.default_collate)


def test_arrays_that_run_backwards_are_stacked() -> None:  # torch refuses them
    assert ours.default_collate([np.arange(3)[::-1], np.arange(3)]).tolist() == [[2, 1, 0], [0, 1, 2]]


# -------------------------------------------------------------------- streams


class Frame(NamedTuple):
    image: Any
    name: str


def frames(stream: list[int]) -> Iterator[Frame]:
    for chunk, steps in enumerate(stream):
        yield Frame(np.full((steps, 2), 10 * len(stream) + chunk, np.float32), "abc"[chunk])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("method", ["thread", "process"])
def test_a_stream_loader_gives_the_same_batches_as_tensors(workers: int, method: Any) -> None:
    options: dict[str, Any] = {"pad_value": 0, "lengths": [3, 1, 2]}
    streams = [[3, 3, 2], [4], [1, 2]]
    plain = list(sk.streams.StreamLoader(streams, frames, 2, **options))
    loader = ours.StreamLoader(streams, frames, 2, workers, method=method, **options)
    batches = list(loader)
    assert len(batches) == len(plain)
    for batch, expected in zip(batches, plain, strict=True):
        assert isinstance(batch, ours.StreamBatch)
        assert isinstance(batch.data, Frame)
        assert batch.data.name == expected.data.name
        assert batch.data.image.dtype == torch.float32
        for one, other in zip(
            (batch.data.image, *batch[1:]),
            (expected.data.image, *expected[1:]),
            strict=True,
        ):
            assert isinstance(one, torch.Tensor)
            assert one.tolist() == other.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("workers", [0, 2])
def test_functions_of_collation_give_tensors(workers: int) -> None:
    data = [{"tokens": [1, 2, 3], "pair": (0, "a")}, {"tokens": [4], "pair": (1, "b")}]
    collate = sk.Dict({"tokens": sk.Pad(ret_length=True, mask=True), "pair": (sk.Stack(), sk.List())})
    (batch,) = ours.DataLoader(data, 2, num_workers=workers, collate_fn=collate)
    tokens, lengths, mask = batch["tokens"]
    assert all(isinstance(part, torch.Tensor) for part in (tokens, lengths, mask, batch["pair"][0]))
    assert tokens.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert (lengths.tolist(), mask.sum().item()) == ([3, 1], 4)
    assert batch["pair"][1] == ["a", "b"]
    (arrays,) = ours.DataLoader(np.eye(2), 2, num_workers=workers, collate_fn=sk.Stack("float32"))
    assert (arrays.dtype, arrays.tolist()) == (torch.float32, [[1, 0], [0, 1]])


def test_the_mask_of_chunks_without_a_length_has_one_value_a_row() -> None:
    for batch in ours.StreamLoader([2, 1], range, 2):
        assert torch.equal(batch.mask, ~batch.is_padding)


def test_tensors_are_chunks_too() -> None:
    streams = [[1.0, 2.0], [3.0]]

    def tensors(stream: list[float]) -> Iterator[torch.Tensor]:
        yield from map(torch.tensor, [[x] for x in stream])

    batches = list(ours.StreamLoader(streams, tensors, 2, pad_value=-1))
    assert [batch.data.tolist() for batch in batches] == [[[1], [3]], [[2], [-1]]]
    collated = list(ours.StreamLoader(streams, tensors, 2, 0, torch.stack, pad_value=-1))
    assert [batch.data.tolist() for batch in collated] == [[[1], [3]], [[2], [-1]]]
    with pytest.raises(ValueError, match=r"chunks of torch.int64 cannot hold pad_value=0\.5"):
        list(ours.StreamLoader([1], lambda n: [torch.arange(3)], 2, 0, torch.stack, pad_value=0.5))


def test_a_recurrent_state_is_kept_by_lane() -> None:
    state = torch.zeros(2)
    totals = {}
    for batch in ours.StreamLoader([[3, 3, 2], [4], [1, 2]], frames, 2, pad_value=0):
        state[batch.lane[batch.is_first]] = 0
        state[batch.lane] += (batch.data.image[..., 0] * batch.mask).sum(dim=1)
        totals.update(zip(batch.stream.tolist(), state.tolist(), strict=True))
    assert totals == {0: 3 * 30 + 3 * 31 + 2 * 32, 1: 40, 2: 20 + 2 * 21}


def test_dir_lists_the_public_names_alone():
    assert dir(ours) == sorted(ours.__all__)


@pytest.mark.parametrize("read", [1, 3, 5])
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_resumed_loader_draws_as_before_for_samplers_of_torch(read: int, epoch: int) -> None:
    def loader() -> Any:
        torch.manual_seed(3)
        return Ours(range(10), 2, sampler=torch.utils.data.RandomSampler(range(10)))

    def batches(loader: Any) -> Any:
        return [batch.tolist() for batch in loader]

    whole = loader()
    epochs = [batches(whole) for _ in range(3)]
    first = loader()
    for _ in range(epoch):
        list(first)
    reading = iter(first)
    for _ in range(read):
        next(reading)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the state does not contain the draws
        state = first.state_dict()
    again = loader()
    rest = epochs[epoch][read:]
    for _ in range(epoch if rest else epoch + 1):  # the draws of the epochs before
        list(again)
    again.load_state_dict(state)
    assert batches(again) == (rest or epochs[epoch + 1])
