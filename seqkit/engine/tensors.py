"""Send PyTorch tensors between processes with their memory outside the pickle, as for arrays.

Guarantees
----------
- A CPU tensor of any dtype travels like an array. Its memory is copied into a slot, or not copied if it
  already lies there. The received tensor has the same dtype, shape and `requires_grad`, and keeps the slot
  in use. It has the same strides, unless the sent tensor had gaps.
- A sparse tensor travels as a copy, as `torch.save` writes it. Torch's own pickle would keep the received
  parts alive for ever, to validate them.
- All other tensors travel as torch itself pickles them.
- A process that receives no tensors never imports torch because of this module.

Relies on
---------
- Code that has a tensor has imported torch.
"""

from __future__ import annotations

import io
import math
import pickle
import sys
from importlib import import_module
from typing import Any

import numpy as np


def reduce_tensor(tensor: Any) -> Any:
    """Return the reduced form of a tensor for pickle, as `copyreg` expects it."""
    torch: Any = sys.modules["torch"]
    if str(tensor.layout).startswith("torch.sparse_"):
        file = io.BytesIO()
        torch.save(tensor, file)
        return _load, (file.getvalue(), tensor.requires_grad)  # which torch does not save
    if not _is_plain(tensor):
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
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
        and str(tensor.layout) == "torch.strided"
        and (tensor.is_leaf or not tensor.requires_grad)
        and not (tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg())
        and not tensor.__dict__
    )


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
    flat = torch.frombuffer(np.frombuffer(memory, np.uint8), dtype=kind)
    tensor = flat.reshape([shape[dim] for dim in order]).permute([order.index(d) for d in range(len(order))])
    return tensor.requires_grad_(requires_grad)


def _load(saved: bytes, requires_grad: bool) -> Any:
    return import_module("torch").load(io.BytesIO(saved)).requires_grad_(requires_grad)
