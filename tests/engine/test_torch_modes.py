"""Workers have the modes of torch of the thread that started them, as they would have without workers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import seqkit as sk

from .kinds import KINDS, PROCESSES, Kind

torch: Any = pytest.importorskip("torch")

WEIGHTS = torch.ones(2, 2, requires_grad=True)


def compute(_: int) -> tuple[bool, bool, str, str]:
    product = WEIGHTS @ torch.ones(2, 2, device="cpu")
    return product.requires_grad, product.is_inference(), str(product.dtype), torch.empty(1).device.type


MODES: list[tuple[Callable[[], AbstractContextManager[Any]], tuple[bool, bool, str, str]]] = [
    (nullcontext, (True, False, "torch.float32", "cpu")),
    (torch.no_grad, (False, False, "torch.float32", "cpu")),
    (torch.inference_mode, (False, True, "torch.float32", "cpu")),
    (lambda: torch.device("meta"), (True, False, "torch.float32", "meta")),
    (lambda: torch.autocast("cpu"), (True, False, "torch.bfloat16", "cpu")),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_items_are_computed_in_the_modes_of_the_thread_that_started_the_workers(kind: Kind) -> None:
    for mode, expected in MODES:
        with kind.ahead(sk.smap(compute, range(3)), 1) as ahead:
            with mode():
                ahead.start()
            assert list(ahead) == [expected] * 3


def test_tasks_of_an_executor_of_threads_leave_its_modes_as_they_were() -> None:
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(compute, 0).result()
        for mode, expected in MODES:
            with sk.prefetch(sk.smap(compute, range(3)), method=pool) as ahead:
                with mode():
                    ahead.start()
                assert list(ahead) == [expected] * 3
            assert pool.submit(compute, 0).result() == before


def test_a_default_device_of_the_consumer_moves_no_tensor_of_an_item() -> None:
    with sk.prefetch(sk.smap(lambda i: torch.empty(0, i), range(2)), 1, "process") as ahead:
        ahead.start()
        with torch.device("meta"):
            assert [tensor.device.type for tensor in ahead] == ["cpu", "cpu"]


def test_workers_without_modes_do_not_import_torch_for_them() -> None:
    with PROCESSES[1].ahead(sk.smap(lambda i: "torch" in sys.modules, range(1)), 1) as ahead:
        assert list(ahead) == [False]
