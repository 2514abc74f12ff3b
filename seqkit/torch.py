"""A `DataLoader` that is a drop-in replacement for PyTorch's: batches of tensors by its rules, in shared
memory. And a `StreamLoader` of tensors.

To port a script, change one import::

    from seqkit.torch import DataLoader, Dataset, random_split

Names that it does not define are those of `torch.utils.data`. The rest of seqkit takes and returns tensors
without this module, too: `prefetch` returns them from process workers without a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import torch
    import torch.utils.data
    from torch.utils.data._utils import collate as _rules
    from torch.utils.data._utils.pin_memory import pin_memory
except ImportError as error:  # pragma: no cover
    raise ImportError("seqkit.torch needs PyTorch: pip install 'seqkit[torch]'") from error

from .collation.base import Collate
from .collation.leaves import is_masked, stack_arrays
from .core.lazy import public_names
from .core.randomness import as_seed
from .core.worker import empty, is_placing
from .loader import loader as _loader
from .loader.loader import Batch
from .loader.pipeline import BatchKind, WorkerStart
from .streams.batch import StreamBatch as _StreamBatch
from .streams.batch import like
from .streams.loader import StreamLoader as _StreamLoader
from .views.bases.columns import Rows

__all__ = ["DataLoader", "StreamBatch", "StreamLoader", "default_collate", "default_convert"]


__dir__ = public_names(__name__)


def __getattr__(name: str) -> Any:
    """Return a name of `torch.utils.data`, such as `Dataset`, so that a script changes one import only."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(torch.utils.data, name)


def default_collate(batch: Any) -> Any:
    """Return one batch of many samples by PyTorch's rules: tensors of arrays and numbers, lists of tuples.

    Parameters
    ----------
    batch : sequence of samples
        At least one.

    Returns
    -------
    object
        The same as from ``torch.utils.data.default_collate``. In a process worker its tensors lie in the
        slot of the current item.

    Raises
    ------
    TypeError
        For masked arrays, because their mask would be lost, and for samples that PyTorch refuses.
    RuntimeError
        If shapes or lengths differ.

    Notes
    -----
    One copy of the data. `seqkit.default_collate` gives arrays, and keeps tuples.

    Examples
    --------
    >>> default_collate([(np.zeros(2, np.float32), 7), (np.ones(2, np.float32), 3)])
    [tensor([[0., 0.],
            [1., 1.]]), tensor([7, 3])]
    """
    return _rules.collate(batch, collate_fn_map=_registry())


def _registry() -> dict[Any, Any]:
    """Return the rules of PyTorch, those of users among them, with ours in place of some."""
    registry: Any = _rules.default_collate_fn_map.items()
    return {kind: _OURS.get(rule, rule) for kind, rule in registry}


def _collate_columns(columns: Mapping[Any, Sequence[Any]]) -> Any:
    """Return the batch of samples that are dicts, of the values of each key in all samples."""
    registry = _registry()
    if any(isinstance(columns, kind) for kind in registry):  # a rule of the user for dicts
        return default_collate(list(Rows(columns, len(next(iter(columns.values()))))))
    return {name: _rules.collate(list(column), collate_fn_map=registry) for name, column in columns.items()}


default_collate.collate_columns = _collate_columns  # type: ignore[attr-defined]


def default_convert(item: Any) -> Any:
    """Return a single item by PyTorch's rules: arrays and numpy scalars as tensors, lists of tuples.

    Examples
    --------
    >>> default_convert((np.arange(3), "a", 1))
    [tensor([0, 1, 2]), 'a', 1]
    """
    return torch.utils.data.default_convert(item)


def _stack(batch: Sequence[torch.Tensor], *, collate_fn_map: Any = None) -> torch.Tensor:
    first = batch[0]
    if first.is_nested or first.layout is not torch.strided:
        return _rules.collate_tensor_fn(batch)  # type: ignore[no-any-return] # raises an error
    tensors = list(batch)
    if not (is_placing() and _are_plain(tensors)):
        return torch.stack(tensors)
    return torch.stack(tensors, out=_empty((len(tensors), *first.shape), first.dtype))


def _are_plain(tensors: list[torch.Tensor]) -> bool:
    """Return whether the stack of tensors is in ordinary memory, of their dtype, without a gradient."""
    return (
        len({tensor.dtype for tensor in tensors}) == 1
        and set(map(type, tensors)) == {torch.Tensor}
        and all(tensor.is_cpu and not tensor.requires_grad for tensor in tensors)
    )


def _empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor in memory of `seqkit.empty`, of any dtype, also of those that numpy lacks."""
    row_bytes = dtype.itemsize * math.prod(shape[1:])
    if not shape[0] * row_bytes:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(empty((shape[0], row_bytes), np.uint8)).view(dtype).reshape(shape)


def _stack_arrays(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    if any(map(is_masked, set(map(type, batch)))):
        raise TypeError("default_collate: a masked array would lose its mask; pass another collate_fn")
    if not _are_alike(batch):
        return _rules.collate_numpy_array_fn(batch, collate_fn_map=collate_fn_map)
    return torch.from_numpy(stack_arrays(batch, batch[0].dtype))


def _are_alike(batch: Sequence[Any]) -> bool:
    """Return whether these are plain arrays of one shape and of one dtype that torch has, too."""
    if set(map(type, batch)) != {np.ndarray} or len({(array.dtype, array.shape) for array in batch}) > 1:
        return False
    dtype = batch[0].dtype
    return dtype.char in _STACKED_BY_NUMPY and dtype.isnative and batch[0].ndim > 0


# Torch makes tensors of these dtypes from arrays. Numpy stacks small arrays 6 to 15 times faster than torch.
_STACKED_BY_NUMPY = frozenset("?bhilqBHILQefdFD")


# In place of the rules of PyTorch that are the keys. Its registry has them, and those that users add.
_OURS: dict[Any, Any] = {
    _rules.collate_tensor_fn: _stack,
    _rules.collate_numpy_array_fn: _stack_arrays,
}


class _WorkerStart(WorkerStart):
    """Also imports PyTorch in the worker, because it is defined in this module."""


class _AsTensors:
    """A function of `seqkit.collation` with tensors in place of its arrays, which share their memory."""

    def __init__(self, function: Collate) -> None:
        self.function = function
        self.takes_arrays = function.takes_arrays

    def __call__(self, samples: Any) -> Any:
        return _tensors(self.function(samples))

    def __repr__(self) -> str:
        return repr(self.function)


class _Tensors(BatchKind):
    collate = staticmethod(default_collate)
    convert = staticmethod(default_convert)
    start = _WorkerStart
    rows_are_keys = True
    no_pinning = "no accelerator is found"
    pin = staticmethod(pin_memory)

    @property
    def pinner(self) -> Any:
        return CudaPinner() if torch.cuda.is_available() else None

    def adapted(self, collate_fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return _AsTensors(collate_fn) if isinstance(collate_fn, Collate) else collate_fn

    def seed(self) -> int:
        """Return the number that PyTorch's generator gives next, without drawing it."""
        peek = torch.Generator()
        peek.set_state(torch.get_rng_state())
        return as_seed(peek, "DataLoader: seed")

    def draw(self) -> int:
        return as_seed(torch.default_generator, "DataLoader: seed")


class DataLoader(_loader.DataLoader[Batch]):
    """`torch.utils.data.DataLoader` as a drop-in: the same arguments, tensors out.

    It has all features of `seqkit.DataLoader`: the same batches for any number of workers, exact resume,
    ``method="thread"``, batches in shared memory without a file for each tensor.

    Parameters
    ----------
    dataset : Dataset, IterableDataset, View or indexable
    collate_fn : callable, optional
        `seqkit.torch.default_collate` by default, and `default_convert` without batches. Functions of
        `seqkit.collation`, such as `Pad`, give tensors here.
    pin_memory : bool
        Yield tensors in page-locked memory if there is CUDA. Otherwise there is a warning.
    seed : int, optional
        None (the default), without a `generator`: each `iter` draws a number from PyTorch's generator. The
        first one after ``torch.manual_seed`` is the seed, so the same ``manual_seed`` gives the same orders.
    others
        See `seqkit.DataLoader`.

    Raises
    ------
    TypeError, ValueError
        See `seqkit.DataLoader`.

    Notes
    -----
    It takes PyTorch's samplers and generators. ``shuffle=True`` gives another order for a seed than
    PyTorch. PyTorch's ``RandomSampler`` as `sampler` gives PyTorch's order.
    ``torch.utils.data.get_worker_info()`` works in process workers.

    Examples
    --------
    >>> loader = DataLoader([(x, x % 2) for x in range(3)], batch_size=2)
    >>> list(loader)
    [[tensor([0, 1]), tensor([0, 1])], [tensor([2]), tensor([0])]]
    """

    _kind = _Tensors()


class StreamBatch(_StreamBatch):
    """A `seqkit.streams.StreamBatch` of tensors: its arrays of numbers, also in `data`, are tensors.

    Examples
    --------
    >>> loader = StreamLoader([[1, 2], [3]], lambda steps: [np.array(steps)], 2, pad_value=0)
    >>> next(iter(loader)).mask
    tensor([[ True,  True],
            [ True, False]])
    """

    if TYPE_CHECKING:
        lane: torch.Tensor  # type: ignore[assignment]
        stream: torch.Tensor  # type: ignore[assignment]
        chunk: torch.Tensor  # type: ignore[assignment]
        is_first: torch.Tensor  # type: ignore[assignment]
        is_padding: torch.Tensor  # type: ignore[assignment]
        lengths: torch.Tensor | None  # type: ignore[assignment]
        mask: torch.Tensor  # type: ignore[assignment]


class StreamLoader(_StreamLoader):
    """A `seqkit.streams.StreamLoader` of tensors.

    Parameters
    ----------
    arguments
        Those of `seqkit.streams.StreamLoader`.

    Notes
    -----
    The tensors share the memory of the arrays. Text, other objects, and the result of a `collate_fn` stay as
    they are.

    Examples
    --------
    >>> for batch in StreamLoader([2, 1], range, 2):
    ...     print(batch.data, batch.is_padding)
    tensor([0, 0]) tensor([False, False])
    tensor([1, 0]) tensor([False,  True])
    """

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[StreamBatch]: ...  # type: ignore[override]

    def _collate(self) -> Callable[[Any, Any], StreamBatch]:
        collate = super()._collate()

        def as_tensors(rows: Any, form: Any) -> StreamBatch:
            batch = collate(rows, form)
            data = _tensors(batch.data) if self._collation.collate_fn is None else batch.data
            return StreamBatch(data, *map(_tensors, batch[1:]))

        return as_tensors


def _tensors(value: Any) -> Any:
    """Return a structure with tensors in place of arrays of numbers."""
    if isinstance(value, dict):
        return {key: _tensors(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return like(value, [_tensors(part) for part in value])
    if isinstance(value, list):
        return [_tensors(part) for part in value]
    if (
        isinstance(value, np.ndarray)
        and value.dtype.char in _STACKED_BY_NUMPY | {"e"}
        and value.dtype.isnative
    ):
        return torch.from_numpy(value)
    return value


class CudaPinner:
    """Lock pages for CUDA, and find out when copies from them have finished.

    It assumes that copies run in the current stream of the current device, as with ``.to("cuda",
    non_blocking=True)``. A copy in another stream needs the current stream to wait for it.
    """

    def pin(self, address: int, nbytes: int) -> None:
        status = int(torch.cuda.cudart().cudaHostRegister(address, nbytes, 0))
        if status:
            raise RuntimeError(
                f"DataLoader: CUDA refuses to lock memory for pin_memory=True, status {status}"
            )

    def unpin(self, address: int) -> None:
        torch.cuda.cudart().cudaHostUnregister(address)

    def fence(self) -> Callable[[], bool]:
        event = torch.cuda.Event()
        event.record()
        return event.query  # type: ignore[no-any-return]
