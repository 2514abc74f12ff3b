"""Packing of documents into rows: seqkit, nanochat's rule, TRL and Grain, and memory for many documents.

python -m benchmarks packs
"""

from __future__ import annotations

import importlib.util
import re
import sysconfig
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

import seqkit as sk

from .measure import apart, table

CAPACITY = 2048
MANY = 10_000_000
Documents = list[Any]


def texts() -> list[np.ndarray[Any, Any]]:
    """Return the bytes of Python's language reference, by topic, and of the definitions in its library."""
    from pydoc_data.topics import topics

    library = Path(sysconfig.get_path("stdlib"))
    paths = sorted([*library.glob("*.py"), *library.glob("[!st]*/*.py")])  # without site-packages and tests
    files = [path.read_text("utf-8", "replace") for path in paths]
    parts = [part for text in files for part in re.split(r"\n+(?=\S|    def )", text)]
    return [np.frombuffer(text.encode(), np.uint8) for text in [*topics.values(), *parts] if text]


class Packed(NamedTuple):
    """The lengths of the pieces in each row, the CPU seconds of packing, and the bytes of an index."""

    rows: list[list[int]]
    seconds: float
    index: int = 0


def seqkit(documents: Documents, workers: int, long: Any) -> Packed:
    lengths = np.array([*map(len, documents)])
    begun = process_time()
    bins: Any = sk.bins(lengths, CAPACITY, long=long, seed=0)
    bins[len(bins) - 1]
    seconds = process_time() - begun
    window = bins._window(0)
    sums = sum(each.values.nbytes + each._sampled.nbytes for each in (window.full, window.pieces))
    with sk.prefetch(bins, workers, "process") as ahead:
        rows = [(group[:, 2] - group[:, 1]).tolist() for group in ahead]
    return Packed(rows, seconds, window.documents.nbytes + sums)


def with_tokens(documents: Documents, workers: int) -> Packed:
    begun = process_time()
    bins = sk.bins(map(len, documents), CAPACITY, long="split", max_items=512, seed=0)
    packs = sk.smap(sk.PackSequences(CAPACITY, max_items=512), sk.gather_groups(documents, bins))
    with sk.prefetch(packs, workers, "process") as ahead:
        rows = [lengths_in(row["segment_ids"]) for row in ahead]
    return Packed(rows, process_time() - begun)


def nanochat(documents: Documents, workers: int) -> Packed:
    """Fill each row with the longest document of a buffer of 1,000 that fits, then crop the shortest one."""
    begun, rows = process_time(), list[list[int]]()
    for worker in range(max(workers, 1)):
        waiting = iter([*map(len, documents[worker :: max(workers, 1)])])
        buffer: list[int] = []
        while True:
            row, room = list[int](), CAPACITY
            while room:
                buffer.extend(islice(waiting, 1000 - len(buffer)))
                if not buffer:
                    break
                fitting = [length for length in buffer if length <= room]
                chosen = max(fitting) if fitting else min(buffer)
                buffer.remove(chosen)
                row.append(min(chosen, room))
                room -= row[-1]
            if not row:
                break
            rows.append(row)
    return Packed(rows, process_time() - begun)


def trl(documents: Documents, workers: int, strategy: str) -> Packed:
    from datasets import Dataset, disable_progress_bars
    from trl import pack_dataset

    disable_progress_bars()
    data = Dataset.from_dict({"input_ids": documents})
    begun = process_time()
    packed = pack_dataset(
        data, CAPACITY, strategy, {"batch_size": len(documents), "num_proc": workers or None}
    )
    seconds = process_time() - begun
    is_known = "seq_lengths" in packed.column_names
    rows = packed["seq_lengths"] if is_known else [[len(row)] for row in packed["input_ids"]]
    return Packed([*rows], seconds)


def grain(documents: Documents, workers: int, kind: str) -> Packed:
    import grain.python as pygrain
    from grain import experimental

    data = pygrain.MapDataset.source(documents).map(lambda text: {"tokens": text[:CAPACITY].astype(np.int32)})
    make = getattr(experimental, f"{kind}PackIterDataset")
    begun = process_time()
    packed = make(data.to_iter_dataset(), length_struct={"tokens": CAPACITY}, num_packing_bins=64)
    if workers:
        packed = packed.mp_prefetch(pygrain.MultiprocessingOptions(num_workers=workers))
    rows = [lengths_in((row[0] if isinstance(row, tuple) else row)["tokens_segment_ids"]) for row in packed]
    return Packed(rows, process_time() - begun)


def lengths_in(segment_ids: Any) -> list[int]:
    return np.bincount(segment_ids)[1:].tolist()  # type: ignore[no-any-return]


WAYS: dict[str, Callable[..., Packed]] = {
    "seqkit, split": partial(seqkit, long="split"),
    "seqkit, split, with the tokens": with_tokens,
    "seqkit, clip": partial(seqkit, long="clip"),
    "nanochat's rule, buffer of 1,000": nanochat,
    "TRL, bfd_split": partial(trl, strategy="bfd_split"),
    "TRL, bfd": partial(trl, strategy="bfd"),
    "Grain, FirstFit, 64 bins, with the tokens": partial(grain, kind="FirstFit"),
    "Grain, BestFit, 64 bins, with the tokens": partial(grain, kind="BestFit"),
}


def summary(documents: Documents) -> None:
    total = sum(map(len, documents))
    columns = (
        "",
        "rows",
        "tokens kept",
        "fill",
        "µs a document",
        "index, bytes a document",
        "equal for 2 workers",
    )
    lines: list[tuple[str, ...]] = [columns]
    for name, pack in WAYS.items():
        if name.startswith("TRL") and not importlib.util.find_spec("trl"):
            continue
        packed, other = (apart(partial(pack, documents, workers)) for workers in (0, 2))
        kept = sum(map(sum, packed.rows))
        row = f"{len(packed.rows):,}", f"{kept / total:.4f}", f"{kept / len(packed.rows) / CAPACITY:.4f}"
        cost = f"{packed.seconds / len(documents) * 1e6:.1f}"
        index = f"{packed.index / len(documents):.1f}" if packed.index else "–"
        lines.append((name, *row, cost, index, "yes" if packed.rows == other.rows else "no"))
    table(f"{len(documents):,} documents of {total:,} bytes in rows of {CAPACITY:,}", lines)


def lognormal() -> Any:
    rng = np.random.default_rng(0)
    parts = [rng.lognormal(np.log(1023) - 0.5, 1, MANY // 10).astype(np.uint32) + 1 for _ in range(10)]
    return np.concatenate(parts)


def pack_all(lengths: Any, capacity: int) -> float:
    """Pack all windows, and return how full the bins are."""
    bins: Any = sk.bins(lengths, capacity, long="split", seed=0)
    for start in np.cumsum([0, *bins.group_sizes[:-1]]).tolist():
        bins[start]
    return float(lengths.sum() / (len(bins) * capacity))


def time_of(capacity: int) -> tuple[float, float]:
    lengths, begun = lognormal(), process_time()
    return pack_all(lengths, capacity), process_time() - begun


def memory_of(capacity: int) -> float:
    lengths = lognormal()
    tracemalloc.start()
    pack_all(lengths, capacity)
    return tracemalloc.get_traced_memory()[1] / 2**20


def mixtures() -> None:
    """Compare the shares of four sources with the exact ones, at each of 200,000 indices."""
    n, k = 200_000, 4
    rng = np.random.default_rng(0)
    sizes = [rng.lognormal(6, 1, n).astype(np.int64) + 1 for _ in range(k)]
    stages = {0: [8, 4, 2, 1], 60_000: [1, 1, 1, 1], 120_000: [0, 1, 5, 7]}
    ways: dict[str, tuple[Any, Any]] = {
        "one set of weights": ({0: [8, 4, 2, 1]}, None),
        "three stages": (stages, None),
        "three stages, by tokens": (stages, sizes),
    }
    lines: list[tuple[str, ...]] = [("weights", "most off the exact share", "µs an index")]
    for name, (weights, widths) in ways.items():
        begun = process_time()
        view: Any = sk.mix([range(n)] * k, weights, 0, sizes=widths)
        which, ranks = view._turns.many(range(n))
        seconds = process_time() - begun
        width = np.ones(n) if widths is None else np.array(widths)[which, ranks]
        shares = np.concatenate([np.full((n, k), each) for each in weights.values()]).reshape(-1, n, k)
        stage = np.searchsorted([*weights], np.arange(n), "right") - 1
        rates = shares[stage, np.arange(n)] / shares[stage, np.arange(n)].sum(axis=1, keepdims=True)
        due = np.cumsum(rates * width[:, None], axis=0)
        had = np.cumsum((which[:, None] == np.arange(k)) * width[:, None], axis=0)
        unit = "items" if widths is None else "of the largest item"
        lines.append(
            (name, f"{np.abs(had - due).max() / width.max():.3f} {unit}", f"{seconds / n * 1e6:.2f}")
        )
    table("shares of four sources at each of 200,000 indices", lines)


def main() -> None:
    mixtures()
    summary(texts())
    lines: list[tuple[str, ...]] = [
        ("capacity", "fill", "µs a document", "peak memory above the lengths, MiB")
    ]
    for capacity in (2048, 4096, 8192):
        (fill, spent), peak = apart(partial(time_of, capacity)), apart(partial(memory_of, capacity))
        lines.append((f"{capacity:,}", f"{fill:.5f}", f"{spent / MANY * 1e6:.2f}", f"{peak:.0f}"))
    table(f"{MANY:,} documents of lognormal lengths, mean 1,023, split; the lengths take 38 MiB", lines)


if __name__ == "__main__":
    main()
