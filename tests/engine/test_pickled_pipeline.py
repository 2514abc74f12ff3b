"""The pickle of a pipeline for workers that are not forked."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.codec import Form, decode, encode_shared
from seqkit.engine.processes import pickled_pipeline

from .kinds import PROCESSES


def sent(value: Any) -> tuple[Any, int]:
    """Return what a worker gets, and how many bytes were copied for it."""
    tail, moved, end = encode_shared(value)
    block = np.zeros(end, np.uint8)
    for offset, buffer in moved:
        block[offset : offset + buffer.nbytes] = buffer
    return decode(Form.BUFFERS, tail, block), sum(buffer.nbytes for _, buffer in moved)


def test_arrays_that_share_memory_are_sent_once_and_share_it_again() -> None:
    whole = np.arange(4000.0)
    parts = [whole[2000:], whole, whole[:1500], whole[1000:3000], whole.reshape(40, 100), whole.view("i8")]
    found, nbytes = sent(parts)
    assert nbytes == whole.nbytes
    assert all((got == want).all() for got, want in zip(found, parts, strict=True))
    found[1][2500] = -1
    assert found[0][500] == found[3][1500] == found[4][25, 0] == -1


def test_parts_that_overlap_are_sent_once_without_the_whole() -> None:
    whole = np.arange(8000, dtype="i4")
    windows = [whole[first : first + 2000] for first in range(0, 6001, 500)]
    found, nbytes = sent(windows[::-1])
    assert nbytes == whole.nbytes
    assert all((got == want).all() for got, want in zip(found[::-1], windows, strict=True))


def test_other_arrays_stay_apart_and_aligned() -> None:
    raw = np.zeros(40_000, np.uint8)
    odd = raw[1 : 1 + 8 * 4000]
    arrays = [np.arange(5000.0), np.full(6000, 2.0), raw[8:8008].view("f8"), odd, np.zeros(3)]
    found, nbytes = sent(arrays)
    assert nbytes == sum(array.nbytes for array in [*arrays[:2], odd])
    assert all((got == want).all() for got, want in zip(found, arrays, strict=True))
    assert all(got.flags.aligned for got in found)
    assert not np.shares_memory(found[0], found[1])


def test_tensors_share_memory_with_arrays() -> None:
    torch = pytest.importorskip("torch")
    array = np.arange(4000)
    (tensor, found), nbytes = sent([torch.from_numpy(array), array])
    assert nbytes == array.nbytes
    tensor[7] = -1
    assert found[7] == -1


def test_a_large_pickle_is_warned_of_once_and_a_fork_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickled_pipeline, "WARN_BYTES", 1 << 20)
    data = np.zeros((4, 1 << 19))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with PROCESSES[0].ahead(data, 1) as node:
            assert len(list(node)) == 4
        assert not caught
        warnings.simplefilter("default")
        with sk.DataLoader(data, num_workers=1, multiprocessing_context="forkserver") as loader:
            for _ in range(2):
                assert len(list(loader)) == 4
    assert [str(warning.message) for warning in caught] == [
        "prefetch: pickled 16.0 MiB for workers that are not forked. To pickle once and not in every epoch,"
        " use DataLoader(persistent_workers=True). To pickle less, use numpy.memmap or seqkit.load_packed."
        " To pickle nothing, use context='fork' if your threads allow it."
    ]
