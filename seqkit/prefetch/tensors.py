"""PyTorch's tensors on their way between processes: their memory beside the pickle, as that of arrays.

Guarantees
----------
- a CPU tensor of any dtype travels like an array: into a slot, or not at all if it lies there; what arrives
  has the same dtype, shape and `requires_grad`, the same strides unless there were gaps, and keeps the slot;
- a sparse one travels as the dense ones that it is made of: torch would keep all that arrive, to check them;
- all others travel as torch itself pickles them;
- torch is never imported for it in a process that has no tensors.

Relies on
---------
- whoever has a tensor having imported torch.
"""

from __future__ import annotations

import math
import pickle
import sys
from importlib import import_module
from typing import Any

import numpy as np


def as_array(tensor: Any) -> np.ndarray[Any, Any] | None:
    """Return a CPU tensor as an array over the same memory; None if numpy cannot have it."""
    if str(tensor.layout) != "torch.strided" or tensor.requires_grad or not _is_plain(tensor):
        return None
    try:
        return tensor.numpy()  # type: ignore[no-any-return]
    except TypeError:  # a dtype that numpy lacks
        return None


def reduce_tensor(tensor: Any) -> Any:
    """Return what to pickle for a tensor, as `copyreg` has it."""
    torch = sys.modules["torch"]
    if not _is_plain(tensor):
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    if tensor.layout is not torch.strided:
        layout, parts = str(tensor.layout), _parts(torch, tensor)
        is_coalesced = tensor.layout is torch.sparse_coo and tensor.is_coalesced()
        return _rebuild_sparse, (layout, parts, tuple(tensor.shape), is_coalesced, tensor.requires_grad)
    order = _dense_order(tensor)
    flat = tensor.detach().permute(order).reshape(-1).contiguous()  # which copies what has gaps
    flat = flat.as_strided(flat.shape, (1,))  # of fewer than two numbers, the stride may be anything
    memory = pickle.PickleBuffer(flat.view(torch.uint8).numpy())
    dtype = str(tensor.dtype).removeprefix("torch.")
    return _rebuild, (memory, dtype, tuple(tensor.shape), order, tensor.requires_grad)


def _is_plain(tensor: Any) -> bool:
    """Is it nothing but numbers in memory, and perhaps a leaf that wants a gradient?"""
    return bool(
        tensor.device.type == "cpu"
        and str(tensor.layout) in _LAYOUTS
        and (tensor.is_leaf or not tensor.requires_grad)
        and not (tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg())
        and not tensor.__dict__
    )


_LAYOUTS = {"torch.strided", "torch.sparse_coo"} | {
    f"torch.sparse_{kind}" for kind in ("csr", "csc", "bsr", "bsc")
}


def _parts(torch: Any, tensor: Any) -> tuple[Any, ...]:
    """Return the dense tensors that a sparse one is made of."""
    tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    return tensor.ccol_indices(), tensor.row_indices(), tensor.values()


def _rebuild_sparse(
    layout: str, parts: tuple[Any, ...], shape: tuple[int, ...], is_coalesced: bool, requires_grad: bool
) -> Any:
    torch: Any = import_module("torch")
    options: dict[str, Any] = {"check_invariants": False, "requires_grad": requires_grad}
    if layout == "torch.sparse_coo":
        return torch.sparse_coo_tensor(*parts, shape, is_coalesced=is_coalesced, **options)
    options["layout"] = getattr(torch, layout.removeprefix("torch."))
    return torch.sparse_compressed_tensor(*parts, shape, **options)


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
