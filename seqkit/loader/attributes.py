"""The attributes of a `DataLoader`: its arguments, which cannot be changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from ..core.tracebacks import hiding_frames
from ..core.view import View
from .epoch_counter import EpochCounter
from .options import Options
from .pipeline import Pipeline

__all__ = ["Attributes"]

# Attributes that the loaders of PyTorch do not have.
_NOT_OF_TORCH = {
    *("shuffle", "seed", "method", "shm_size", "last_batch", "transform", "batch_transform", "batchify_fn"),
    *("on_error", "iterable_split"),
}
_ATTRIBUTES = frozenset(["view", *(field.name for field in fields(Options))])


class Attributes:
    """The base class of `DataLoader` that shows its arguments."""

    _epochs: EpochCounter
    _options: Options
    _pipeline: Pipeline

    def _attribute(self, name: str) -> Any:
        """Return an argument as the loader uses it."""
        options = self._options
        match name:
            case "seed" | "collate_fn":
                return getattr(self._pipeline, name)
            case "batch_size":
                return options.batch_size if options.makes_batches else None
            case "prefetch_factor":
                return options.batches_ahead if options.num_workers else None
            case "sampler":
                return self._epochs.shown_samplers()[0]
            case "batch_sampler":
                return self._epochs.shown_samplers()[1]
        return getattr(options, name)

    def _take_over(self, options: Options) -> None:
        """Begin to show the arguments, in place of attributes that a subclass has set before `__init__`.

        An attribute that loaders of PyTorch do not have, such as `shuffle`, stays unless it was passed on.
        """
        for name in _ATTRIBUTES & self.__dict__.keys():
            was_passed = getattr(options, name, None) != getattr(Options, name, None)
            if name not in _NOT_OF_TORCH or was_passed:
                del self.__dict__[name]
        self._options = options

    @hiding_frames()
    def __getattr__(self, name: str) -> Any:
        if "_options" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: no attribute {name!r} before DataLoader.__init__")
        if name in _ATTRIBUTES:
            return self._attribute(name)
        dataset = self._options.dataset
        if not name.startswith("_") and not isinstance(dataset, View) and name in dir(dataset):
            hint = f". The data set has it: use loader.dataset.{name}"
        else:
            hint = ""
        message = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
        raise AttributeError(message, name=name, obj=self)  # Python suggests a similar name

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *_ATTRIBUTES})

    def __setattr__(self, name: str, value: Any) -> None:
        # A subclass may set attributes of its own before it calls `__init__`; see `_take_over`.
        if "_options" in self.__dict__ and name not in self.__dict__ and not self._has_setter(name):
            if name in _ATTRIBUTES:
                raise ValueError(
                    f"DataLoader: {name} attribute should not be set after DataLoader is initialized"
                )
            if name == "epoch":
                raise AttributeError(f"DataLoader: epoch is set by set_epoch({value!r}), or by the next iter")
        super().__setattr__(name, value)

    def _has_setter(self, name: str) -> bool:
        """Return whether a subclass defines a property that can be set."""
        member = next((vars(kind)[name] for kind in type(self).__mro__ if name in vars(kind)), None)
        return getattr(member, "fset", None) is not None

    def _refuse_replaced(self) -> None:
        """Refuse to go on if a program has replaced an argument without `__setattr__`."""
        for name in sorted((_ATTRIBUTES - _NOT_OF_TORCH) & self.__dict__.keys()):
            raise ValueError(
                f"DataLoader: {name} was replaced after DataLoader was initialized, which has no effect. Pass"
                " it as an argument. For workers that stay, pass persistent_workers=True, and for batches"
                " without end sampler=seqkit.samplers.InfiniteSampler(...)"
            )
