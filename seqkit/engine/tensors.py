"""Send PyTorch tensors between processes with their memory outside the pickle, as for arrays.

Guarantees
----------
- A CPU tensor of any dtype travels like an array. Its memory is copied into a slot, or not copied if it
  already lies there. The received tensor has the same dtype, shape and `requires_grad`, and keeps the slot
  in use. It has the same strides, unless the sent tensor had gaps.
- A sparse tensor travels as its dense parts. Torch's own pickle would keep the received parts alive, to
  validate them.
- All other tensors travel as torch itself pickles them.
- A process that receives no tensors never imports torch because of this module.

Relies on
---------
- Code that has a tensor has imported torch.
"""

from __future__ import annotations

import math
import pickle
import sys
from importlib import import_module
from typing import Any

import numpy as np


def as_array(tensor: Any) -> np.ndarray[Any, Any] | None:
    """Return a CPU tensor as an array over the same memory, or None if numpy cannot represent it."""
    if str(tensor.layout) != "torch.strided" or tensor.requires_grad or not _is_plain(tensor):
        return None
    try:
        return tensor.numpy()  # type: ignore[no-any-return]
    except (TypeError, RuntimeError):  # numpy has no such dtype, or the tensor no memory
        return None


def reduce_tensor(tensor: Any) -> Any:
    """Return the reduced form of a tensor for pickle, as `copyreg` expects it."""
    torch = sys.modules["torch"]
    if not _is_plain(tensor):
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    if tensor.layout is not torch.strided:
        layout, parts = str(tensor.layout), _parts(torch, tensor)
        is_coalesced = tensor.layout is torch.sparse_coo and tensor.is_coalesced()
        return _rebuild_sparse, (layout, parts, tuple(tensor.shape), is_coalesced, tensor.requires_grad)
    order = _dense_order(tensor)
    flat = tensor.detach().permute(order).reshape(-1).contiguous()  # copies a tensor with gaps
    flat = flat.as_strided(flat.shape, (1,))  # a tensor of fewer than two numbers may have any stride
    memory = pickle.PickleBuffer(flat.view(torch.uint8).numpy())
    dtype = str(tensor.dtype).removeprefix("torch.")
    return _rebuild, (memory, dtype, tuple(tensor.shape), order, tensor.requires_grad)


def _is_plain(tensor: Any) -> bool:
    """Return whether a tensor is only numbers in CPU memory, and at most a leaf that requires a
    gradient."""
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
    """Return the dense tensors that make up a sparse tensor."""
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
    """Return the order of dimensions in memory, or the default order if there are gaps or overlaps."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda dim: -strides[dim])
    return order if tensor.permute(order).is_contiguous() else list(range(tensor.dim()))


def _rebuild(memory: Any, dtype: str, shape: tuple[int, ...], order: list[int], requires_grad: bool) -> Any:
    import torch

    kind = getattr(torch, dtype)
    if not math.prod(shape):
        return torch.empty(shape, dtype=kind, device="cpu", requires_grad=requires_grad)
    if memoryview(memory).readonly:
        memory = bytearray(memory)
    flat = torch.frombuffer(np.frombuffer(memory, np.uint8), dtype=kind)
    tensor = flat.reshape([shape[dim] for dim in order]).permute([order.index(d) for d in range(len(order))])
    return tensor.requires_grad_(requires_grad)
