"""`default_collate` and `default_convert`: the collate functions of a loader that has no others.

Samples are collated along the structure of the first sample. Each leaf becomes one array. In a process
worker it is written directly into shared memory (`seqkit.empty`). All samples must have the structure of
the first one. Messages name the place of a difference as an expression, ``batch[3]['image']``.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from ..core.awaiting import is_awaited, unawaited
from ..core.errors import brief
from ..core.view import View
from .base import Collate, Place, as_samples
from .leaves import (
    ARRAYS,
    check_shapes,
    copied,
    is_array_like,
    is_array_of_samples,
    is_object_array,
    is_tensor,
    stack,
)

__all__ = [
    "TEXT",
    "CollateFn",
    "CollateMap",
    "default_collate",
    "default_convert",
    "key_differences",
]

CollateFn = Callable[..., Any]
CollateMap = Mapping[Any, CollateFn]

TEXT = (str, bytes, bytearray, memoryview)


class _DefaultCollate(Collate):
    """Make one batch of many samples: the structure of a sample, with stacked arrays for leaves.

    =============================================  =====================================================
    samples                                        batch
    =============================================  =====================================================
    arrays of one shape, memory maps               one contiguous array
    numbers, numpy scalars, 0-d arrays             one array: int64, float64, bool, complex128, or their own
    str, bytes, bytearray, memoryview              the list of them
    objects with ``__array__`` or DLPack           one array, as of JAX; lists of numbers in columns of tables
    mappings with the same keys                    the same type of mapping, every value collated
    tuples, named tuples, lists, other sequences   the same type, position by position
    PyTorch tensors                                one tensor
    =============================================  =====================================================

    Parameters
    ----------
    batch : iterable of samples
        At least one. An array of samples gives a copy of it.
    collate_fn_map : mapping of types to callables, optional
        Rules that precede the table: ``fn(samples, collate_fn_map=collate_fn_map)`` for samples of the given
        type or, in the order of the mapping, of a subclass.
    objects : "raise" or "list"
        For arrays of Python objects or text, which cannot be stacked: ``"raise"`` (the default) raises
        TypeError, ``"list"`` makes a list of the arrays.

    Returns
    -------
    object
        Arrays own their memory, or lie in the slot of the current item in a process worker. The dtype is
        the one that numpy promotes all samples to, not that of the first. Ints stay ints.

    Raises
    ------
    ValueError
        For an empty batch, different shapes, lengths, keys or fields, tables whose columns have other names,
        numbers that would change in the common dtype, such as ints beyond 2**53 beside floats, and an
        unknown `objects`.
    TypeError
        For None, masked arrays, arrays of objects or text, samples of different kinds, dtypes without a
        common one, and objects of unknown type. For a batch that is a mapping, text or a table.

    Notes
    -----
    One copy of the data, about 0.1 µs per array. `batch` gives it the columns of a table, not its rows.
    Types of containers are kept if they can be rebuilt: dicts by copying, others by
    ``type(sample)(parts)``. Otherwise the result is a plain dict, list or tuple. Array subclasses become
    plain arrays, without units and labels. Modelled on ``torch.utils.data.default_collate``, which makes
    lists of tuples.

    Examples
    --------
    >>> default_collate([{"x": 1, "name": "a"}, {"x": 2.5, "name": "b"}])
    {'x': array([1. , 2.5]), 'name': ['a', 'b']}
    >>> import numpy as np
    >>> images, labels = default_collate([(np.zeros((2, 2)), 7), (np.ones((2, 2)), 3)])
    >>> images.shape, labels
    ((2, 2, 2), array([7, 3]))
    >>> from fractions import Fraction
    >>> as_floats = {Fraction: lambda batch, *, collate_fn_map: np.array(batch, float)}
    >>> default_collate([Fraction(1, 2), Fraction(1, 4)], collate_fn_map=as_floats)
    array([0.5 , 0.25])
    >>> default_collate([{"x": np.zeros(2)}, {"x": np.zeros(3)}])
    Traceback (most recent call last):
    ValueError: default_collate: batch[1]['x'] has shape (3,), batch[0]['x'] has (2,); ...
    """

    __name__ = "default_collate"
    takes_arrays = True

    def __init__(self, registry: CollateMap, lists_objects: bool) -> None:
        self._registry = registry
        self._lists_objects = lists_objects

    def __call__(
        self,
        batch: Iterable[Any],
        *,
        collate_fn_map: CollateMap | None = None,
        objects: Literal["raise", "list"] = "raise",
    ) -> Any:
        if objects not in ("raise", "list"):
            raise ValueError(f"default_collate: objects must be 'raise' or 'list', got {brief(objects)}")
        if is_array_of_samples(batch) and not collate_fn_map:
            return copied(batch)
        collate = _DefaultCollate(collate_fn_map or {}, objects == "list")
        return collate.collate_at(as_samples(batch, self.__name__), Place(""))

    def collate_columns(self, columns: Mapping[Any, Sequence[Any]]) -> dict[Any, Any]:
        """Return the batch of samples that are dicts, of the values of each key in all samples."""
        place = Place(self.__name__)
        return {key: self._collate_column(column, place.item(key)) for key, column in columns.items()}

    def _collate_column(self, column: Sequence[Any], place: Place) -> Any:
        array = np.asarray(column) if isinstance(column, memoryview) else column
        if is_array_of_samples(array):
            return copied(array)
        return self._collate(column if isinstance(column, list) else list(column), place)

    def __reduce__(self) -> str:
        return self.__name__

    def __repr__(self) -> str:
        return self.__name__

    def _collate(self, batch: Sequence[Any], place: Place) -> Any:
        """Collate the parts that lie at `place` in samples."""
        registered = self._registered(type(batch[0]))
        if registered is not None:
            return registered(batch, collate_fn_map=self._registry)
        rules = set(map(self._rule, set(map(type, batch))))
        rule = rules.pop()
        if rule is None or rules:
            raise self._refusal(batch, place)
        if rule == "mappings":
            return self._collate_mappings(batch, place)
        if rule in ("named tuples", "sequences"):
            return self._collate_sequences(batch, place)
        if rule == "tensors":
            check_shapes(batch, place)
            return sys.modules["torch"].stack(list(batch))
        if rule == "arrays" and not (self._lists_objects and any(map(is_object_array, batch))):
            return stack(batch, place)
        return list(batch)

    def _registered(self, kind: type) -> CollateFn | None:
        if kind in self._registry:
            return self._registry[kind]
        return next((fn for known, fn in self._registry.items() if issubclass(kind, known)), None)

    def _rule(self, kind: type) -> str | None:
        """Return how samples of a type are collated. None if they cannot be, or the registry has the type."""
        if self._registered(kind) is not None:
            return None
        if issubclass(kind, TEXT):
            return "text" if issubclass(kind, str) else "bytes"
        if issubclass(kind, ARRAYS) or is_array_like(kind):
            return "arrays"
        if issubclass(kind, Mapping):
            return "mappings"
        if issubclass(kind, Sequence):
            return "named tuples" if hasattr(kind, "_fields") else "sequences"
        return "tensors" if is_tensor(kind) else None

    def _collate_mappings(self, batch: Sequence[Any], place: Place) -> Any:
        first = batch[0]
        keys = first.keys()
        for i, sample in enumerate(batch):
            if sample.keys() != keys:
                raise ValueError(
                    f"{place.who}: {place.at(i)} {key_differences(keys, sample.keys())}; {place.at(0)} has"
                    f" the keys {list(keys)}"
                )
        parts = {key: self._collate(list(map(itemgetter(key), batch)), place.item(key)) for key in first}
        if isinstance(first, dict) and type(first) is not dict:
            result = copy.copy(first)  # keeps a default factory
            dict.update(result, parts)
            return result
        return _like(first, parts)

    def _collate_sequences(self, batch: Sequence[Any], place: Place) -> Any:
        first = batch[0]
        fields = getattr(first, "_fields", ())
        for i, sample in enumerate(batch):
            if len(sample) != len(first) or getattr(sample, "_fields", ()) != fields:
                one, other = (
                    f"the fields {s._fields}" if fields else f"{len(s)} elements" for s in (sample, first)
                )
                raise ValueError(
                    f"{place.who}: {place.at(i)} has {one}, {place.at(0)} has {other}; make them alike, or"
                    " pass another collate_fn"
                )
        places = map(place.field, fields) if fields else map(place.item, range(len(first)))
        parts = list(map(self._collate, zip(*batch, strict=True), places))
        return _like(first, tuple(parts) if isinstance(first, tuple) else parts)

    def _refusal(self, batch: Sequence[Any], place: Place) -> TypeError:
        """Return the error of the first sample that cannot be collated, alone or together with the first."""
        if is_awaited(type(batch[0])):
            return unawaited(batch[0])
        rules = [self._rule(type(sample)) for sample in batch]
        i = next((i for i, rule in enumerate(rules) if batch[i] is None or rule != rules[0]), 0)
        if batch[i] is None:
            why = "None; leave such samples out, or pass another collate_fn"
        else:
            beside = f", {place.at(0)} of type {type(batch[0]).__name__}" if i else ""
            why = (
                f"of type {type(batch[i]).__name__}{beside}; allowed are arrays, numbers, text, mappings,"
                " sequences and tensors, all of one kind: convert it, name its type in collate_fn_map, or"
                " pass another collate_fn"
            )
        return TypeError(f"{place.who}: {place.at(i)} is {why}")


default_collate = _DefaultCollate({}, False)


def _like(sample: Any, parts: Any) -> Any:
    """Return a dict, list or tuple of parts in the type of a sample, or unchanged if that is not possible."""
    kind = type(sample)
    if kind is type(parts) or isinstance(sample, View):
        return parts
    try:
        # `__new__` of a class of named tuples may convert its arguments once more.
        result = kind._make(parts) if hasattr(kind, "_make") else kind(parts)
        return result if len(result) == len(parts) else parts
    except Exception:
        return parts


def default_convert(item: Any) -> Any:
    """Return a single sample of a loader without batches unchanged.

    It is the default of a `DataLoader` without batches. The one of `seqkit.torch` makes tensors of arrays.

    Examples
    --------
    >>> default_convert((1, {"x": "a"}))
    (1, {'x': 'a'})
    """
    return item


def key_differences(wanted: Iterable[Any], found: Iterable[Any]) -> str:
    """Return in words which keys are missing and which are unexpected.

    >>> key_differences("ab", "bc")
    "lacks ['a'] and has also ['c']"
    """
    wanted, found = list(wanted), list(found)
    missing = [key for key in wanted if key not in found]
    extra = [key for key in found if key not in wanted]
    return " and ".join([f"lacks {missing}"] * bool(missing) + [f"has also {extra}"] * bool(extra))
