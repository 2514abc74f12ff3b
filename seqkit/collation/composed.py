"""Collate functions for samples of several parts.

`Tuple`, `NamedTuple` and `Dict` give each part of the samples to a function of its own. `PerShard` makes
several batches at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..core.arguments import refuse_async
from ..core.errors import brief
from .base import Collate, Place, as_collate
from .default import TEXT, key_differences

__all__ = ["Dict", "Group", "NamedTuple", "PerShard", "Tuple"]


class Tuple(Collate):
    """Collate each position of the samples with its own function.

    Parameters
    ----------
    *functions : callable
        One for each position: any function of a list. A tuple of functions stands for `Tuple`, a named
        tuple for `NamedTuple`, a mapping for `Dict`, to any depth.

    Returns
    -------
    tuple
        The results of the functions.

    Raises
    ------
    TypeError
        If a function is not callable, or a sample is not a sequence.
    ValueError
        Without functions, for an empty batch, and if any sample has another length.

    Notes
    -----
    One list per position, and the cost of the functions. `Group` is another name. Modelled on ``Tuple`` of
    GluonNLP and ``Group`` of Gluon.

    Examples
    --------
    >>> from seqkit.collation import List, Pad, Stack
    >>> Tuple(Pad(), Stack())([([1, 2], 0), ([3], 1)])
    (array([[1, 2],
           [3, 0]]), array([0, 1]))
    >>> Tuple(Stack(), (Stack(), List()))
    Tuple(Stack(), Tuple(Stack(), List()))
    """

    def __init__(self, *functions: Any) -> None:
        if not functions:
            raise ValueError("Tuple: at least one function is needed, one for each position of the samples")
        self.functions = tuple(_as_function(fn, f"Tuple: function {i}") for i, fn in enumerate(functions))

    def _collate(self, samples: Sequence[Any], place: Place) -> tuple[Any, ...]:
        arity = len(self.functions)
        for i, sample in enumerate(samples):
            _check_kind(sample, Sequence, "tuples or lists", place, i)
            if len(sample) != arity:
                raise ValueError(
                    f"{place.who}: {place.at(i)} has {len(sample)} elements, but there are {arity} functions;"
                    " there must be one for each element"
                )
        columns = zip(self.functions, map(list, zip(*samples, strict=True)), strict=True)
        return tuple(fn.collate_at(column, place.item(k)) for k, (fn, column) in enumerate(columns))

    def __repr__(self) -> str:
        return f"Tuple({', '.join(map(repr, self.functions))})"


Group = Tuple


class NamedTuple(Collate):
    """Collate each field of named tuples with its own function.

    Parameters
    ----------
    container : type
        The class of samples and batch, from ``typing.NamedTuple`` or ``collections.namedtuple``.
    functions : sequence or mapping
        One function for each field, in their order or by name. `Tuple` describes functions.

    Returns
    -------
    container
        The results of the functions.

    Raises
    ------
    TypeError
        If `container` is not a class of named tuples, a function is not callable, or a sample is of another
        class.
    ValueError
        If fields and functions do not match, and for an empty batch.

    Notes
    -----
    One list per field, and the cost of the functions. Modelled on ``NamedTuple`` of GluonNLP.

    Examples
    --------
    >>> from collections import namedtuple
    >>> Sample = namedtuple("Sample", "words label")
    >>> from seqkit.collation import Pad, Stack
    >>> collate = NamedTuple(Sample, {"words": Pad(), "label": Stack()})
    >>> collate([Sample([1, 2], 0), Sample([3], 1)])
    Sample(words=array([[1, 2],
           [3, 0]]), label=array([0, 1]))
    """

    def __init__(self, container: type[Any], functions: Sequence[Any] | Mapping[str, Any]) -> None:
        fields = getattr(container, "_fields", None)
        if fields is None or not isinstance(container, type):
            raise TypeError(f"NamedTuple: container must be a class of named tuples, got {brief(container)}")
        given = functions if isinstance(functions, Mapping) else dict(zip(fields, functions, strict=False))
        if len(functions) != len(fields) or given.keys() != set(fields):
            raise ValueError(
                f"NamedTuple: one function for each of the fields {fields} of {container.__name__} is needed,"
                f" got {list(functions) if given is functions else len(functions)}"
            )
        self.container: Any = container
        self.functions = {
            field: _as_function(given[field], f"NamedTuple: the function for {field!r}") for field in fields
        }

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        for i, sample in enumerate(samples):
            _check_kind(sample, self.container, f"{self.container.__name__}s", place, i)
        return self.container._make(
            fn.collate_at([getattr(sample, field) for sample in samples], place.field(field))
            for field, fn in self.functions.items()
        )

    def __repr__(self) -> str:
        return f"NamedTuple({self.container.__name__}, {self.functions!r})"


class Dict(Collate):
    """Collate each key of mappings with its own function.

    Parameters
    ----------
    functions : mapping
        Functions by key. `Tuple` describes functions.
    extra : "raise" or "drop"
        For keys without a function: raise ValueError (the default), or leave them out.

    Returns
    -------
    dict
        The results of the functions, in their order.

    Raises
    ------
    TypeError
        If `functions` is not a mapping, a function is not callable, or a sample is not a mapping.
    ValueError
        If `extra` is unknown, the batch is empty, or a sample has missing or unexpected keys.

    Notes
    -----
    One list per key, and the cost of the functions. Modelled on ``Dict`` of GluonNLP, which drops extra keys.

    Examples
    --------
    >>> from seqkit.collation import List, Pad
    >>> collate = Dict({"words": Pad(), "id": List()}, extra="drop")
    >>> collate([{"words": [1, 2], "id": "a"}, {"words": [3], "id": "b", "note": "short"}])
    {'words': array([[1, 2],
           [3, 0]]), 'id': ['a', 'b']}
    """

    def __init__(self, functions: Mapping[Any, Any], extra: Literal["raise", "drop"] = "raise") -> None:
        if not isinstance(functions, Mapping):
            raise TypeError(f"Dict: functions must be a mapping of keys to functions, got {brief(functions)}")
        if extra not in ("raise", "drop"):
            raise ValueError(f"Dict: extra must be 'raise' or 'drop', got {brief(extra)}")
        self.functions = {
            key: _as_function(fn, f"Dict: the function for {key!r}") for key, fn in functions.items()
        }
        self.extra = extra

    def _collate(self, samples: Sequence[Any], place: Place) -> dict[Any, Any]:
        functions = self.functions
        for i, sample in enumerate(samples):
            _check_kind(sample, Mapping, "mappings", place, i)
            found = sample.keys() & functions.keys() if self.extra == "drop" else sample.keys()
            if found != functions.keys():
                raise ValueError(
                    f"{place.who}: {place.at(i)} {key_differences(functions, found)}; each sample must have"
                    f" the keys {list(functions)}, and extra='drop' leaves out others"
                )
        return {
            key: fn.collate_at([sample[key] for sample in samples], place.item(key))
            for key, fn in functions.items()
        }

    def __repr__(self) -> str:
        return f"Dict({self.functions!r}, extra={self.extra!r})"


class PerShard(Collate):
    """Make a list of batches of a list of lists of samples, each batch on its own.

    For devices that each compute a part of a step. Each part is padded to its own longest sample.

    Parameters
    ----------
    f : callable
        Collates the samples of one shard. `Tuple` describes functions.

    Returns
    -------
    list
        One batch per shard.

    Raises
    ------
    TypeError
        If `f` is not callable, or a shard is neither a sequence nor an array.
    ValueError
        For no shards, and for an empty shard if `f` refuses it.

    Notes
    -----
    The cost of the function. Modelled on ``ShardedDataLoader`` of GluonNLP, which recognises shards by
    their type.

    Examples
    --------
    >>> from seqkit.collation import Pad
    >>> PerShard(Pad())([[[1, 2], [3]], [[4], [5]]])
    [array([[1, 2],
           [3, 0]]), array([[4],
           [5]])]
    """

    def __init__(self, f: Any) -> None:
        self.f = _as_function(f, "PerShard: f")

    def _collate(self, samples: Sequence[Any], place: Place) -> list[Any]:
        for i, shard in enumerate(samples):
            _check_kind(shard, (Sequence, np.ndarray), "lists of samples", place, i)
        return [
            self.f.collate_at(list(shard), Place("", batch=place.at(i))) for i, shard in enumerate(samples)
        ]

    def __repr__(self) -> str:
        return f"PerShard({self.f!r})"


# -------------------------------------------------------------------- functions within functions


def _as_function(value: Any, who: str) -> Collate:
    """Return a function as it is, and a tuple or mapping of functions as one."""
    if isinstance(value, tuple):
        return NamedTuple(type(value), value) if hasattr(value, "_fields") else Tuple(*value)
    if isinstance(value, Mapping):
        return Dict(value)
    if not callable(value):
        raise TypeError(f"{who} must be callable, or a tuple or mapping of functions, got {brief(value)}")
    refuse_async(value, who)
    return as_collate(value)


def _check_kind(sample: Any, kind: Any, allowed: str, place: Place, i: int) -> None:
    if not isinstance(sample, kind) or isinstance(sample, TEXT):
        raise TypeError(
            f"{place.who}: {place.at(i)} is of type {type(sample).__name__}; allowed are {allowed}:"
            " convert it, or pass another collate_fn"
        )
