"""The modes of PyTorch that belong to a thread. Workers get those of the thread that started them.

Thread workers get a copy of the context variables, such as `numpy.errstate`. PyTorch keeps its modes in the
thread instead: whether gradients are recorded, inference mode, the default device and autocast.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from importlib import import_module
from typing import Any

Modes = list[tuple[Any, ...]]

_DEFAULTS: Modes = [("inference_mode", False), ("set_grad_enabled", True), ("device", "cpu")]


def current_modes() -> Modes:
    """Return the modes of this thread: for each the function of torch that sets it, and the arguments."""
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "get_autocast_dtype"):  # torch is not imported yet, or older than 2.4
        return _DEFAULTS
    values = torch.is_inference_mode_enabled(), torch.is_grad_enabled(), str(torch.get_default_device())
    modes: Modes = [(name, value) for (name, _), value in zip(_DEFAULTS, values, strict=True)]
    kinds = filter(torch.is_autocast_enabled, ("cpu", "cuda", "xpu", "mps"))
    return modes + [("autocast", kind, torch.get_autocast_dtype(kind)) for kind in kinds]


def in_modes(modes: Modes) -> ExitStack:
    """Return a context in which this thread has these modes."""
    contexts = ExitStack()
    for mode in modes:
        if mode not in current_modes():
            name, *arguments = mode
            contexts.enter_context(getattr(import_module("torch"), name)(*arguments))
    return contexts
