"""`default_collate` and `default_convert`: the collate functions of a loader that has no others.

Samples are collated along the structure of the first sample. Each leaf becomes one array. In a process
worker it is written directly into shared memory (`seqkit.empty`). All samples must have the structure of
the first one. Messages name the place of a difference as an expression, ``batch[3]['image']``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..core.errors import as_given
from ..core.view import View
from .base import Collate, Place, as_samples, check_not_empty
from .leaves import (
    ARRAYS,
    as_arrays,
    copied,
    is_array_like,
    is_array_of_samples,
    is_object_array,
    is_tensor,
    stack,
    stack_tensors,
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
    masked arrays                                  one masked array
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
        For None, arrays of objects or text, arrays with a unit, samples of different kinds, dtypes without a
        common one, and objects of unknown type. For a batch that is a mapping, text or a table.

    Notes
    -----
    One copy of the data, about 0.1 µs per array. Types of containers are kept if they can be rebuilt: dict,
    list and their subclasses by copying, others by ``type(sample)(parts)``. Otherwise the result is a plain
    dict, list or tuple. Array subclasses become plain arrays, except masked arrays. Modelled on
    ``torch.utils.data.default_collate``, which makes lists of tuples.

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
    keeps_columns = True  # a batch of dicts is a dict of batches, see `Batch`

    def __call__(
        self,
        batch: Iterable[Any],
        *,
        collate_fn_map: CollateMap | None = None,
        objects: Literal["raise", "list"] = "raise",
    ) -> Any:
        if objects not in ("raise", "list"):
            raise ValueError(f"default_collate: objects must be 'raise' or 'list', got {as_given(objects)}")
        if collate_fn_map is not None and not isinstance(collate_fn_map, Mapping):
            raise TypeError(
                "default_collate: collate_fn_map must be a mapping of types to callables or None, got"
                f" {as_given(collate_fn_map)}"
            )
        if is_array_of_samples(batch) and not collate_fn_map:
            return copied(batch)
        samples = as_samples(batch, "default_collate")
        place = Place(self.__name__)
        check_not_empty(samples, place)
        return _collate(samples, place, _Rules(collate_fn_map or {}, objects == "list"))

    def collate_at(self, samples: Sequence[Any], place: Place) -> Any:
        place = place.by(self.__name__)
        check_not_empty(samples, place)
        return _collate(samples, place, _Rules({}, False))

    def __reduce__(self) -> str:
        return self.__name__

    def __repr__(self) -> str:
        return self.__name__


default_collate = _DefaultCollate()


def default_convert(item: Any, *, convert_fn_map: Mapping[Any, Callable[[Any], Any]] | None = None) -> Any:
    """Convert a single sample of a loader without batches: return it unchanged, or with its leaves converted.

    Parameters
    ----------
    item : object
    convert_fn_map : mapping of types to callables, optional
        ``fn(leaf)`` for leaves of the given type or, in the order of the mapping, of a subclass. Mappings
        and sequences keep their type as in `default_collate`. None (the default) converts nothing.

    Returns
    -------
    object
        `item` itself without `convert_fn_map`.

    Notes
    -----
    Modelled on ``torch.utils.data.default_convert``, which makes tensors of arrays and lists of tuples.

    Examples
    --------
    >>> default_convert((1, {"x": "a"}))
    (1, {'x': 'a'})
    >>> default_convert((1, {"x": "a"}), convert_fn_map={str: str.upper})
    (1, {'x': 'A'})
    """
    return _convert(item, convert_fn_map) if convert_fn_map else item


def _convert(item: Any, convert_fn_map: Mapping[Any, Callable[[Any], Any]]) -> Any:
    convert = _registered(type(item), convert_fn_map)
    if convert is not None:
        return convert(item)
    if isinstance(item, Mapping):
        return _like_mapping(item, {key: _convert(item[key], convert_fn_map) for key in item})
    if isinstance(item, Sequence) and not isinstance(item, TEXT):
        return _like_sequence(item, [_convert(part, convert_fn_map) for part in item])
    return item


# -------------------------------------------------------------------- the tree


@dataclass(frozen=True, slots=True)
class _Rules:
    """The caller's rules for types."""

    registry: CollateMap
    lists_objects: bool


def _collate(batch: Sequence[Any], place: Place, rules: _Rules) -> Any:
    """Collate the parts that lie at `place` in samples."""
    collate = _registered(type(batch[0]), rules.registry)
    if collate is not None:
        return collate(batch, collate_fn_map=rules.registry)
    found = {_rule(kind, rules.registry) for kind in set(map(type, batch))}
    rule = found.pop()
    if rule is None or found:
        raise _refusal(batch, place, rules.registry)
    return rule(batch, place, rules)


Rule = Callable[[Sequence[Any], Place, _Rules], Any]


def _rule(kind: type, registry: CollateMap) -> Rule | None:
    """Return the function that collates samples of a type, or None if there is none."""
    if registry and _registered(kind, registry) is not None:
        return None  # the first sample is of another kind
    if issubclass(kind, str):
        return _list_text
    if issubclass(kind, TEXT):
        return _list_bytes
    if issubclass(kind, ARRAYS) or is_array_like(kind):
        return _stack
    if issubclass(kind, Mapping):
        return _collate_mappings
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _collate_named_tuples
    if issubclass(kind, Sequence):
        return _collate_sequences
    return _stack_tensors if is_tensor(kind) else None


def _registered(kind: type, registry: Mapping[Any, Callable[..., Any]]) -> Callable[..., Any] | None:
    if not registry:
        return None
    if kind in registry:
        return registry[kind]
    return next((fn for known, fn in registry.items() if issubclass(kind, known)), None)


def _list_text(batch: Sequence[Any], place: Place, rules: _Rules) -> Any:
    return list(batch)


def _list_bytes(batch: Sequence[Any], place: Place, rules: _Rules) -> Any:
    return list(batch)


def _stack(batch: Sequence[Any], place: Place, rules: _Rules) -> Any:
    if rules.lists_objects and any(map(is_object_array, batch)):
        return list(batch)
    return stack(as_arrays(batch, place), place)


def _stack_tensors(batch: Sequence[Any], place: Place, rules: _Rules) -> Any:
    return stack_tensors(batch, place)


def _collate_mappings(batch: Sequence[Any], place: Place, rules: _Rules) -> Any:
    first = batch[0]
    keys = first.keys()
    for i, sample in enumerate(batch):
        if sample.keys() != keys:
            raise ValueError(
                f"default_collate: {place.at(i)} {key_differences(keys, sample.keys())};"
                f" {place.at(0)} has the keys {list(keys)}"
            )
    return _like_mapping(
        first, {key: _collate([sample[key] for sample in batch], place.item(key), rules) for key in first}
    )


def _collate_named_tuples(batch: Sequence[Any], place: Place, rules: _Rules) -> Any:
    fields = type(batch[0])._fields
    for i, sample in enumerate(batch):
        if type(sample)._fields != fields:
            raise ValueError(
                f"default_collate: {place.at(i)} has the fields {type(sample)._fields},"
                f" {place.at(0)} has {fields}; the samples of a batch must be alike"
            )
    columns = zip(*batch, strict=True)
    named = zip(fields, columns, strict=True)
    return _like_sequence(batch[0], [_collate(column, place.field(field), rules) for field, column in named])


def _collate_sequences(batch: Sequence[Any], place: Place, rules: _Rules) -> Any:
    length = len(batch[0])
    for i, sample in enumerate(batch):
        if len(sample) != length:
            raise ValueError(
                f"default_collate: {place.at(i)} has {len(sample)} elements, {place.at(0)} has {length};"
                " pad them, or pass another collate_fn"
            )
    columns = enumerate(zip(*batch, strict=True))
    return _like_sequence(
        batch[0], [_collate(column, place.item(position), rules) for position, column in columns]
    )


# -------------------------------------------------------------------- types kept


def _like_mapping(sample: Any, parts: dict[Any, Any]) -> Any:
    """Return `parts` as a mapping of the type of `sample`, or as a dict if that is not possible."""
    if type(sample) is dict:
        return parts
    try:
        if isinstance(sample, dict):
            result = copy.copy(sample)  # keeps a default factory; the items lie in the copy itself
            for key, part in parts.items():
                result[key] = part
        else:
            result = type(sample)(parts)
    except Exception:
        return parts
    return result if list(result) == list(parts) else parts


def _like_sequence(sample: Any, parts: list[Any]) -> Any:
    """Return `parts` as a sequence of the type of `sample`, or as a tuple or list if that is not possible."""
    kind = type(sample)
    if kind is list or isinstance(sample, View):
        return parts
    plain = tuple(parts) if isinstance(sample, tuple) else parts
    if kind is tuple:
        return plain
    try:
        if isinstance(sample, list):
            result = copy.copy(sample)
            result[:] = parts
        else:
            # `__new__` of a class of named tuples may convert its arguments once more.
            result = kind._make(parts) if hasattr(kind, "_make") else kind(parts)
        return result if len(result) == len(parts) else plain
    except Exception:
        return plain


# -------------------------------------------------------------------- refusals


def _refusal(batch: Sequence[Any], place: Place, registry: CollateMap) -> TypeError:
    """Return the error of the first sample that cannot be collated, alone or together with the first."""
    first = _rule(type(batch[0]), registry)
    i = next(
        (i for i, sample in enumerate(batch) if sample is None or _rule(type(sample), registry) is not first),
        0,
    )
    where = f"default_collate: {place.at(i)} is"
    if batch[i] is None:
        return TypeError(f"{where} None; leave such samples out, or pass another collate_fn")
    kind = type(batch[i]).__name__
    if i:
        return TypeError(
            f"{where} of type {kind}, {place.at(0)} of type {type(batch[0]).__name__};"
            " the samples of a batch must be alike"
        )
    return TypeError(
        f"{where} of type {kind}; allowed are arrays, numbers, text, mappings, sequences and tensors:"
        " convert it, name its type in collate_fn_map, or pass another collate_fn"
    )


def key_differences(wanted: Iterable[Any], found: Iterable[Any]) -> str:
    """Return in words which keys are missing and which are unexpected.

    >>> key_differences("ab", "bc")
    "lacks ['a'] and has also ['c']"
    """
    wanted, found = list(wanted), list(found)
    missing = [key for key in wanted if key not in found]
    extra = [key for key in found if key not in wanted]
    return " and ".join([f"lacks {missing}"] * bool(missing) + [f"has also {extra}"] * bool(extra))
