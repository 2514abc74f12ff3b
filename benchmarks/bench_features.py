"""Features of other libraries, tried out: index, slice, resume, errors, killed workers.

Prints one line for each library and feature: the result, or the first words of the error.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

import seqkit as sk

from .measure import apart, table
from .peers import installed, seqkit
from .work import WORKERS, Unsuited, Work

COUNT, CULPRIT, HUGE, LIMIT_S = 100, 37, 10**12, 10


class Faulty:
    """A hundred numbers, and one fails or kills its process."""

    def __init__(self, kill: bool) -> None:
        self.kill = kill

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, i: int) -> int:
        if i == CULPRIT and self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if i == CULPRIT:
            raise ValueError("this sample is broken")
        return i


def outcome(make: Callable[[Work], Iterable[Any]], kill: bool) -> str:
    """Say how many results came, and whether the error names the sample."""
    count = 0
    try:
        for _ in make(Work(Faulty(kill))):
            count += 1
    except Unsuited:
        return ""
    except BaseException as error:
        words = " ".join([str(error), *getattr(error, "__notes__", ())])
        named = re.search(rf"(?<!line )\b{CULPRIT}\b", words) is not None
        return f"{count} of {COUNT} results, {type(error).__name__}, sample {'' if named else 'not '}named"
    return f"{count} of {COUNT} results, no error"


def late(*_: Any) -> None:
    raise TimeoutError(f"nothing came in {LIMIT_S} s")


def in_time(run: Callable[[], str]) -> str:
    signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT_S)
    said = run()
    signal.alarm(0)
    return said


def grain_dataset() -> Any:
    import grain

    return grain.MapDataset.range(COUNT).seed(0).shuffle().map(float).batch(4)


def grain_iterator(workers: int = WORKERS) -> Any:
    import grain

    dataset = grain_dataset().to_iter_dataset(grain.ReadOptions(0, 0))
    return iter(dataset.mp_prefetch(grain.MultiprocessingOptions(workers)))


def grain_shuffle() -> Any:
    import grain

    return grain.MapDataset.range(HUGE).seed(0).shuffle()


def torch_loader() -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(range(COUNT), 4, shuffle=True)  # type: ignore[arg-type]


def seqtools_view(prefetched: bool = False) -> Any:
    import seqtools

    view = seqtools.batch(seqtools.smap(float, seqtools.gather(range(COUNT), range(COUNT - 1, -1, -1))), 4)
    return seqtools.prefetch(view, WORKERS, "thread") if prefetched else view


def huggingface_rows() -> Any:
    import datasets

    return datasets.Dataset.from_dict({"x": range(COUNT)}).shuffle(seed=0).map(lambda row: row)


def seqkit_view(prefetched: bool = False) -> Any:
    view = sk.batch(sk.smap(float, sk.shuffle(range(COUNT), seed=0)), 4)
    return sk.prefetch(view, WORKERS) if prefetched else view


def stateful(workers: int) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader(range(COUNT), 4, num_workers=workers)  # type: ignore[arg-type]


def resumed(iterator: Any, save: Callable[[], Any], other: Callable[[Any], Any]) -> str:
    """Go on with another number of workers, and compare the next batch."""
    list(islice(iterator, 3))
    found = other(save())
    return "the next batch" if list(found) == list(next(iterator)) else "another batch"


def resumed_loader(make: Callable[[int], Any]) -> str:
    def go_on(state: Any) -> Any:
        loader = make(3)
        loader.load_state_dict(state)
        return next(iter(loader))

    loader = make(2)
    return resumed(iter(loader), loader.state_dict, go_on)


def resumed_grain() -> str:
    def go_on(state: Any) -> Any:
        iterator = grain_iterator(3)
        iterator.set_state(state)
        return next(iterator)

    iterator = grain_iterator(2)
    return resumed(iterator, iterator.get_state, go_on)


def seqkit_loader(workers: int) -> Any:
    return sk.DataLoader(range(COUNT), 4, num_workers=workers)


def attempt(run: Callable[[], Any]) -> str:
    try:
        return f"gives {' '.join(str(run()).split())[:40]}"
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:40]}"


ATTEMPTS: dict[str, dict[str, Callable[[], Any]]] = {
    "index after shuffle and map": {
        "seqkit": lambda: seqkit_view()[3],
        "torch DataLoader": lambda: torch_loader()[3],
        "Grain": lambda: grain_dataset()[3],
        "SeqTools": lambda: seqtools_view()[3],
        "Hugging Face datasets": lambda: huggingface_rows()[3],
    },
    "index after a shuffle of 10**12 items": {
        "seqkit": lambda: sk.shuffle(range(HUGE), seed=0)[3],
        "Grain": lambda: grain_shuffle()[3],
    },
    "slice through prefetch": {
        "seqkit": lambda: seqkit_view(True)[1:3][0],
        "Grain": lambda: grain_iterator()[1:3],
        "SeqTools": lambda: seqtools_view(True)[1:3],
    },
    "resume with 3 workers instead of 2": {
        "seqkit": lambda: resumed_loader(seqkit_loader),
        "StatefulDataLoader": lambda: resumed_loader(stateful),
        "Grain": resumed_grain,
    },
}


def main() -> None:
    rows: list[tuple[str, ...]] = [
        (title, name, apart(partial(in_time, partial(attempt, run))))
        for title, runs in ATTEMPTS.items()
        for name, run in runs.items()
    ]
    for name, make in {"seqkit": seqkit, **installed()}.items():
        for title, kill in (("a sample fails", False), ("a worker is killed", True)):
            if said := apart(partial(in_time, partial(outcome, make, kill))):
                rows.append((title, name, said))
    table("features", [("feature", "library", "outcome"), *sorted(rows)])
