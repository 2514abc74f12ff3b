"""PyTorch's tensors on their way between processes: their memory beside the pickle, as that of arrays.

Guarantees
----------
- a CPU tensor of any dtype travels like an array: into a slot, or not at all if it lies there; what arrives
  has the same dtype, shape and `requires_grad`, the same strides unless there were gaps, and keeps the slot;
- all others travel as torch itself pickles them;
- torch is never imported for it in a process that has no tensors.

Relies on
---------
- whoever has a tensor having imported torch.
"""

from __future__ import annotations

import copyreg
import io
import math
import pickle
import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import cloudpickle
import numpy as np

__all__ = ["dumps", "dumps_by_value", "refer_to_main"]


def dumps(value: Any, **options: Any) -> bytes:
    """Pickle as `pickle.dumps` does, tensors by their memory."""
    return _dumps(pickle.Pickler, value, options)


def dumps_by_value(value: Any, **options: Any) -> bytes:
    """Pickle with cloudpickle: lambdas, closures and what `__main__` defines travel by value."""
    return _dumps(_by_value, value, options)


class _ReferringToMain(cloudpickle.Pickler):  # type: ignore[misc]
    """Leaves out what the main module defines: it is to be the reader's own, not a copy."""

    def reducer_override(self, obj: Any) -> Any:
        is_main = isinstance(obj, type | FunctionType) and obj.__module__ == "__main__"
        if is_main and getattr(sys.modules["__main__"], obj.__qualname__, None) is obj:
            return NotImplemented
        return super().reducer_override(obj)


_by_value: type[cloudpickle.Pickler] = cloudpickle.Pickler


def refer_to_main() -> None:
    """Have this process, a fork of the reader's, refer to what their main module defines."""
    global _by_value
    _by_value = _ReferringToMain


def _dumps(pickler: type[pickle.Pickler], value: Any, options: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    torch = sys.modules.get("torch")
    if hasattr(torch, "Tensor"):  # and not only half imported
        pickler = _with_tensors(pickler)  # type: ignore[arg-type]  # it can be hashed
    pickler(file, **options).dump(value)
    return file.getvalue()


@cache
def _with_tensors(pickler: type[pickle.Pickler]) -> type[pickle.Pickler]:
    """Return the same pickler, which pickles tensors our way."""
    by_value = issubclass(pickler, cloudpickle.Pickler)
    reducers = cloudpickle.Pickler.dispatch_table if by_value else copyreg.dispatch_table
    table = _Reducers(sys.modules["torch"], reducers)
    # An attribute of the class: that of an instance is too late for one whose class has it.
    return type(pickler.__name__, (pickler,), {"dispatch_table": table})


class _Reducers(dict[type, Callable[[Any], Any]]):
    """How to pickle what, by its type: tensors our way, all others as ever."""

    def __init__(self, torch: Any, reducers: Any) -> None:
        super().__init__({torch.Tensor: _reduce})
        self._reducers = reducers

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        return self._reducers[kind]  # type: ignore[no-any-return]


def _reduce(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    if not _is_plain(torch, tensor):
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    order = _dense_order(tensor)
    flat = tensor.detach().permute(order).reshape(-1)  # which copies what has gaps
    flat = flat.as_strided(flat.shape, (1,))  # of fewer than two numbers, the stride may be anything
    memory = pickle.PickleBuffer(flat.view(torch.uint8).numpy())
    dtype = str(tensor.dtype).removeprefix("torch.")
    return _rebuild, (memory, dtype, tuple(tensor.shape), order, tensor.requires_grad)


def _is_plain(torch: Any, tensor: Any) -> bool:
    """Is it nothing but numbers in memory, and perhaps a leaf that wants a gradient?"""
    return bool(
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and (tensor.is_leaf or not tensor.requires_grad)
        and not (tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg())
        and not tensor.__dict__
    )


def _dense_order(tensor: Any) -> list[int]:
    """Return the order of dimensions in memory; the usual one for a tensor with gaps or repeated numbers."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda dim: -strides[dim])
    return order if tensor.permute(order).is_contiguous() else list(range(tensor.dim()))


def _rebuild(memory: Any, dtype: str, shape: tuple[int, ...], order: list[int], requires_grad: bool) -> Any:
    import torch

    kind = getattr(torch, dtype)
    if not math.prod(shape):
        return torch.empty(shape, dtype=kind, requires_grad=requires_grad)
    if memoryview(memory).readonly:
        memory = bytearray(memory)
    flat = torch.frombuffer(np.frombuffer(memory, np.uint8), dtype=kind)
    tensor = flat.reshape([shape[dim] for dim in order]).permute([order.index(d) for d in range(len(order))])
    return tensor.requires_grad_(requires_grad)
