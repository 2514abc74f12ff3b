"""The modes of PyTorch that belong to a thread. Workers get those of the thread that started them.

Thread workers get a copy of the context variables, such as `numpy.errstate`. PyTorch keeps its modes in the
thread instead: whether gradients are recorded, inference mode, the default device and autocast.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, NamedTuple

_KINDS = ("cpu", "cuda", "xpu", "mps")  # of devices that have autocast


class TorchModes(NamedTuple):
    """The modes of a thread. They can be pickled.

    Attributes
    ----------
    grad : bool
        Whether gradients are recorded.
    inference : bool
    device : str
        The default device.
    autocast : tuple
        Pairs of a kind of device and the name of its dtype, where autocast is on.
    """

    grad: bool = True
    inference: bool = False
    device: str = "cpu"
    autocast: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_this_thread(cls) -> TorchModes:
        """Return the modes of this thread, or those of a new thread if torch is not imported."""
        torch: Any = sys.modules.get("torch")
        if not hasattr(torch, "get_autocast_dtype"):  # torch is being imported, or older than 2.4
            return cls()
        kinds = [kind for kind in _KINDS if torch.is_autocast_enabled(kind)]
        return cls(
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            str(torch.get_default_device()),
            tuple((kind, str(torch.get_autocast_dtype(kind)).removeprefix("torch.")) for kind in kinds),
        )

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Return a context in which this thread has these modes."""
        own = TorchModes.of_this_thread()
        if own == self:
            yield
            return
        torch: Any = import_module("torch")
        with ExitStack() as modes:
            if own.inference != self.inference:
                modes.enter_context(torch.inference_mode(self.inference))
            if torch.is_grad_enabled() != self.grad:  # inference mode has set it
                modes.enter_context(torch.set_grad_enabled(self.grad))
            if own.device != self.device:
                modes.enter_context(torch.device(self.device))
            for kind, dtype in set(self.autocast) - set(own.autocast):
                modes.enter_context(torch.autocast(kind, getattr(torch, dtype)))
            yield
