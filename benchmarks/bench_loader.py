"""Loaders beside torch's: epochs of small samples, the next epoch, resume; resume of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np

import seqkit as sk

from .measure import consume, in_turn, seconds, table

try:
    import torch
    import torch.utils.data

    import seqkit.torch
except ImportError:
    torch = None  # type: ignore[assignment]


class Numbers:
    def __len__(self) -> int:
        return 20_000

    def __getitem__(self, i: int) -> int:
        return i


class Pictures:
    """Tensors of 48 kB that are there already, and labels."""

    def __init__(self) -> None:
        self.pictures = torch.rand(64, 3, 64, 64)

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, i: int) -> Any:
        return self.pictures[i % 64], i % 10


class Dicts:
    def __len__(self) -> int:
        return 5000

    def __getitem__(self, i: int) -> Any:
        return {"x": np.zeros(10, np.float32), "y": i, "more": {"z": float(i)}}


class Many:
    """128 small arrays in every sample."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, i: int) -> Any:
        return {str(k): np.full(4, i, np.float32) for k in range(128)}


def loaders(dataset: Any, **options: Any) -> dict[str, Any]:
    persistent = {"persistent_workers": True} if options.get("num_workers") else {}
    made = {
        "seqkit": sk.DataLoader(dataset, **options, **persistent),
        "seqkit.torch": seqkit.torch.DataLoader(dataset, **options, **persistent),
        "torch": torch.utils.data.DataLoader(dataset, **options, **persistent),
    }
    for loader in made.values():
        consume(loader)  # workers are there, and have touched their memory
    return made


def epochs() -> None:
    rows: list[tuple[str, ...]] = [("ms an epoch", "workers", "seqkit", "seqkit.torch", "torch", "torch is")]
    kinds: dict[str, tuple[Callable[[], Any], int]] = {
        "20,000 ints by 32": (Numbers, 32),
        "4,000 pictures by 32": (Pictures, 32),
        "5,000 dicts by 64": (Dicts, 64),
        "200 x 128 arrays by 8": (Many, 8),
    }
    for name, (kind, size) in kinds.items():
        for workers in (0, 2):
            made = loaders(kind(), batch_size=size, shuffle=True, num_workers=workers)
            runs = {who: partial(seconds, partial(consume, loader)) for who, loader in made.items()}
            found = in_turn(runs, rounds=5)
            cells = [f"{1e3 * value:.1f}" for value in found.values()]
            slower = found["torch"] / max(found["seqkit"], found["seqkit.torch"])
            rows.append((name, str(workers), *cells, f"{slower:.1f}x"))
    table("a loader's epoch; torch's beside the slower one of ours", rows)


def next_epoch() -> None:
    def turn(kind: Callable[..., Any]) -> float:
        loader = kind(range(1000), 10, num_workers=2, shuffle=True, persistent_workers=True)
        consume(loader)
        return seconds(lambda: next(iter(loader))) * 1e3

    theirs, ours = torch.utils.data.DataLoader, sk.DataLoader
    runs = {"seqkit": lambda: turn(ours), "torch": lambda: turn(theirs)}
    found = in_turn(runs, rounds=5)
    table("next epoch on living workers, ms", [(name, f"{value:.2f}") for name, value in found.items()])


def resuming() -> None:
    def begin(n: int, share: float) -> float:
        loader = sk.DataLoader(range(n), 32, shuffle=True, seed=0)
        state = {**loader.state_dict(), "batch": int(share * len(loader))}
        loader.load_state_dict(state)
        return seconds(lambda: next(iter(loader))) * 1e3

    def sampled(n: int, share: float) -> float:
        loader = sk.DataLoader(range(n), 32, sampler=sk.RandomSampler(n, seed=0))
        loader.load_state_dict({**loader.state_dict(), "batch": int(share * len(loader))})
        return seconds(lambda: next(iter(loader))) * 1e3

    runs: dict[str, Callable[[], float]] = {}
    for n in (10**8, 10**12):
        for share in (0.0, 0.5):
            runs[f"{n:.0e} shuffled samples, from {share:.0%}, ms"] = partial(begin, n, share)
    runs["1e+08 samples of a RandomSampler, from 50%, ms"] = partial(sampled, 10**8, 0.5)
    table("resume", [(name, f"{value:.2f}") for name, value in in_turn(runs, rounds=5).items()])


SAMPLES, SIZE = 200_000, 32


def seqkit_loader() -> Any:
    return sk.DataLoader(range(SAMPLES), SIZE, shuffle=True, seed=0)


def stateful_loader() -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader(range(SAMPLES), SIZE, shuffle=True)  # type: ignore[arg-type]


def nodes_loader() -> Any:
    from torchdata import nodes
    from torchdata.stateful_dataloader.sampler import RandomSampler

    sampler = RandomSampler(range(SAMPLES), generator=torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    return nodes.Loader(nodes.Batcher(nodes.SamplerWrapper(sampler), SIZE))


class GrainLoader:
    """Grain keeps its state in the iterator."""

    def __init__(self) -> None:
        import grain

        shuffled = grain.MapDataset.range(SAMPLES).seed(0).shuffle().batch(SIZE)
        self.iterator = iter(shuffled.to_iter_dataset(grain.ReadOptions(0, 0)))
        self.state_dict, self.load_state_dict = self.iterator.get_state, self.iterator.set_state

    def __iter__(self) -> Any:
        return self.iterator


def resumed(make: Callable[[], Any]) -> float:
    """Return how many ms a new loader takes to the first batch after a state in the middle of an epoch."""
    loader = make()
    iterator = iter(loader)
    consume(islice(iterator, SAMPLES // SIZE // 2))
    state, expected = loader.state_dict(), next(iterator)
    loader = make()
    loader.load_state_dict(state)
    begun = perf_counter()
    found = next(iter(loader))
    taken = perf_counter() - begun
    np.testing.assert_array_equal(found, expected)
    return taken * 1e3


def resuming_elsewhere() -> None:
    makers = {
        "seqkit": seqkit_loader,
        "StatefulDataLoader": stateful_loader,
        "torchdata.nodes": nodes_loader,
        "Grain": GrainLoader,
    }
    runs = {name: partial(resumed, make) for name, make in makers.items()}
    found = in_turn(runs, rounds=3)
    title = "resume in the middle of 200,000 shuffled samples, ms"
    table(title, [(name, f"{value:.2f}") for name, value in found.items()])


def main() -> None:
    if torch is None:
        print("The benchmarks of loaders need torch.")
        return
    torch.set_num_threads(1)
    epochs()
    next_epoch()
    resuming()
    resuming_elsewhere()
