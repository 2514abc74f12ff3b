"""Functions that make a batch of samples, field by field: where `default_collate` does not do.

`Stack`, `Pad`, `Append` and `List` make a batch of leaves; `Tuple`, `NamedTuple` and `Dict` take samples
apart and give each part to a function of its own; `PerShard` makes several batches at once. Each is a
``collate_fn``, can be pickled, and writes its arrays where `seqkit.empty` says: in a process worker, into
the slot of the current item.

Beside being called, a function may offer

- ``join(pieces, unite)``: the batch whose successive samples make up the pieces, see `prefetch`. It is None
  where results of pieces cannot be put together, as where each is padded to its own longest sample;
- ``collate_at(samples, place)``: what a call returns, with messages that name the place in the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..indices import positive_int
from .arguments import as_flag, shown
from .collate import TEXT, CollateFn, Join, Unite, joined, key_differences
from .leaves import (
    Array,
    DType,
    Place,
    as_arrays,
    check_not_empty,
    common_dtype,
    copied,
    holds_objects,
    inside,
    is_array_of_samples,
    padded,
    plain_arrays,
    stack,
)

__all__ = ["Append", "Dict", "Group", "List", "NamedTuple", "Pad", "PerShard", "Stack", "Tuple"]


class _Batchify:
    """What all functions here are: callable with a batch, or for a part of the samples of one."""

    _given: Mapping[str, Any] = {}

    def __call__(self, batch: Iterable[Any]) -> Any:
        """Return one batch of samples."""
        return self.collate_at(batch if isinstance(batch, list) else list(batch), Place(""))

    def collate_at(self, samples: Sequence[Any], place: Place) -> Any:
        """Return one batch of what lies at a place in samples, as a part of what another function makes."""
        place = place.by(type(self).__name__)
        check_not_empty(samples, place)
        return self._collate(samples, place)

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(shown(type(self), dict(self._given)))})"


def _chained(pieces: list[list[Any]], unite: Unite) -> list[Any]:
    """Return the list whose successive elements make up the pieces."""
    return list(chain.from_iterable(pieces))


# -------------------------------------------------------------------- leaves


class Stack(_Batchify):
    """Stack arrays, numbers or nested lists of one shape.

    Parameters
    ----------
    dtype : dtype-like, optional
        Dtype of the batch; values are converted as by ``numpy.ndarray.astype``. None (the default) is the
        one that numpy promotes all samples to, whatever their order.

    Raises
    ------
    TypeError
        If `dtype` is none of numbers, bools, dates or records of them; for samples that are no arrays of
        these, and for dtypes without a common one.
    ValueError
        For an empty batch, different shapes, and numbers that do not fit.

    Notes
    -----
    One copy of the data, into memory of `seqkit.empty`. Masked arrays keep their mask; tensors become
    arrays. Can be joined from pieces, see `prefetch`. After ``Stack`` of GluonNLP.

    Examples
    --------
    >>> Stack()([[1, 2], [3.5, 4]])
    array([[1. , 2. ],
           [3.5, 4. ]])
    >>> Stack("float32")([1, 2]).dtype
    dtype('float32')
    """

    takes_arrays = True  # see `Batch`
    join: ClassVar[Join] = staticmethod(joined)

    def __init__(self, dtype: npt.DTypeLike | None = None) -> None:
        self._given = {"dtype": dtype}
        self.dtype = _as_dtype(dtype, "Stack")

    def __call__(self, batch: Iterable[Any]) -> Any:
        return copied(batch, self.dtype) if is_array_of_samples(batch) else super().__call__(batch)

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        return stack(as_arrays(samples, place), place, self.dtype)


class Pad(_Batchify):
    """Stack arrays or nested lists of different lengths, the shorter ones filled up.

    Parameters
    ----------
    axis : int or "all"
        Axis of a sample along which lengths may differ, -1 being its last; ``"all"`` for every axis. 0 by
        default.
    pad_val : number
        What to fill with, 0 by default. It takes the dtype of the samples, never the other way round.
    ret_length : bool
        Return the lengths of the samples too? An int64 array of shape ``(n,)``, or ``(n, ndim)`` with
        ``axis="all"``, ndim being the number of axes of a sample. False by default.
    dtype : dtype-like, optional
        Dtype of the batch; values are converted as by ``numpy.ndarray.astype``. None (the default) is the
        one that numpy promotes all samples to.
    round_to : int, optional
        Fill up to a multiple of this, at least 1.
    to_length : int or sequence of int, optional
        Fill up to this length, at least 1; with ``axis="all"`` one for each axis, or one for all of them.
        None (the default) is the length of the longest sample in the batch.
    mask : bool
        Return too where the data lie? A bool array, True for data: of shape ``(n, length)``, or with
        ``axis="all"`` of the shape of the batch. False by default.

    Returns
    -------
    numpy.ndarray or tuple
        The batch; or ``(batch, lengths)``, ``(batch, mask)``, ``(batch, lengths, mask)``, as asked for.

    Raises
    ------
    TypeError
        For arguments of a wrong type; for samples that are no arrays, or are masked.
    ValueError
        For arguments out of range, `round_to` beside `to_length`, and a `pad_val` that the dtype cannot
        hold; for an empty batch, numbers of axes or lengths that differ where they may not, and a sample
        longer than `to_length`.

    Notes
    -----
    One copy of the data, into memory of `seqkit.empty`, and about 2 µs per sample. Samples may be empty: an
    empty list has the dtype and the other lengths of the rest of the batch. With `to_length` it can be
    joined from pieces, see `prefetch`. After ``Pad`` of GluonNLP, whose lengths are int32.

    Examples
    --------
    >>> Pad()([[1.5, 2], [3]])
    array([[1.5, 2. ],
           [3. , 0. ]])
    >>> Pad(pad_val=-1, ret_length=True, to_length=3)([[1, 2], []])
    (array([[ 1,  2, -1],
           [-1, -1, -1]]), array([2, 0]))
    >>> Pad(axis="all")([np.ones((1, 2)), np.ones((2, 1))])
    array([[[1., 1.],
            [0., 0.]],
    <BLANKLINE>
           [[1., 0.],
            [1., 0.]]])
    """

    def __init__(
        self,
        axis: int | Literal["all"] = 0,
        pad_val: Any = 0,
        ret_length: bool = False,
        dtype: npt.DTypeLike | None = None,
        round_to: int | None = None,
        *,
        to_length: int | Sequence[int] | None = None,
        mask: bool = False,
    ) -> None:
        self._given = {
            "axis": axis,
            "pad_val": pad_val,
            "ret_length": ret_length,
            "dtype": dtype,
            "round_to": round_to,
            "to_length": to_length,
            "mask": mask,
        }
        every = isinstance(axis, str) and axis == "all"
        self.axis = "all" if every else _as_axis(axis, "Pad: axis", " or 'all'")
        self.pad_val = _as_number(pad_val, "Pad: pad_val")
        self.ret_length = as_flag(ret_length, "Pad: ret_length")
        self.dtype = _as_dtype(dtype, "Pad")
        self.round_to = None if round_to is None else positive_int(round_to, "Pad: round_to")
        self.to_length = None if to_length is None else self._as_lengths(to_length)
        self.mask = as_flag(mask, "Pad: mask")
        if self.round_to is not None and self.to_length is not None:
            raise ValueError("Pad: to_length is a length already; leave out it or round_to")
        if self.dtype is not None:
            self._filler(self.dtype, "an array")

    def _as_lengths(self, to_length: int | Sequence[int]) -> int | tuple[int, ...]:
        if self.axis == "all" and isinstance(to_length, list | tuple):
            return tuple(positive_int(length, "Pad: each to_length") for length in to_length)
        return positive_int(to_length, "Pad: to_length")

    @property
    def join(self) -> Join | None:
        """How a batch is made of its pieces; None unless they all have one length."""
        return None if self.to_length is None else joined

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        arrays = _alike(samples, plain_arrays(samples, place))
        _check_dimensions(arrays, place)
        axes = self._axes(arrays[0].ndim, place)
        _check_other_axes(arrays, axes, place)
        dtype = common_dtype(arrays, place, self.dtype)
        filler = self._filler(dtype, place.at("..."))
        lengths = np.array([[array.shape[axis] for axis in axes] for array in arrays])
        shape = list(arrays[0].shape)
        for axis, length in zip(axes, self._padded_lengths(lengths, axes, place), strict=True):
            shape[axis] = length
        parts = [padded(arrays, shape, dtype, filler)]
        if self.ret_length:
            parts.append(copied(lengths if self.axis == "all" else lengths[:, 0]))
        if self.mask:
            parts.append(inside(lengths, [shape[axis] for axis in axes]))
        return tuple(parts) if len(parts) > 1 else parts[0]

    def _filler(self, dtype: DType, what: str) -> Array:
        """Return what to fill with, as that dtype."""
        if not _holds(dtype, self.pad_val):
            raise ValueError(
                f"Pad: {what} of dtype {dtype} cannot hold pad_val={self.pad_val}; choose another one, or"
                " another dtype"
            )
        return self.pad_val.astype(dtype)

    def _axes(self, dimensions: int, place: Place) -> list[int]:
        """Return the axes to pad along."""
        if isinstance(self.axis, str):
            return list(range(dimensions))
        if not -dimensions <= self.axis < dimensions:
            raise ValueError(
                f"{place.who}: {place.at(0)} has {_counted(dimensions)}, so there is no axis {self.axis}"
            )
        return [self.axis % dimensions]

    def _padded_lengths(self, lengths: Array, axes: list[int], place: Place) -> list[int]:
        """Return how long the batch is to be along each of some axes."""
        if self.to_length is None:
            multiple = self.round_to or 1
            return [-(-int(longest) // multiple) * multiple for longest in lengths.max(axis=0)]
        wanted = self.to_length if isinstance(self.to_length, tuple) else (self.to_length,) * len(axes)
        if len(wanted) != len(axes):
            raise ValueError(
                f"{place.who}: to_length has {len(wanted)} lengths, {place.at(0)} has {_counted(len(axes))}"
            )
        too_long = np.argwhere(lengths > wanted)
        if len(too_long):
            i, k = too_long[0]
            raise ValueError(
                f"{place.who}: {place.at(i)} has length {lengths[i, k]} along axis {axes[k]}, to_length is"
                f" {wanted[k]}; cut it (ClipSequence), or raise to_length"
            )
        return list(wanted)


class Append(_Batchify):
    """Make a list of arrays, one per sample, whatever their shapes.

    Parameters
    ----------
    expand : bool
        Give each array an axis of length 1 for the batch? True by default.
    batch_axis : int
        Where that axis comes to lie, -1 being last; 0 by default.

    Raises
    ------
    TypeError
        If `batch_axis` is no int; for samples that are no arrays of numbers, or are masked.
    ValueError
        If `expand` is no bool; for an empty batch, and an axis that there is no place for.

    Notes
    -----
    One copy of the data, into memory of `seqkit.empty`. Each array keeps its own dtype. Can be joined from
    pieces, see `prefetch`. After ``Append`` of Gluon.

    Examples
    --------
    >>> Append()([[1, 2], [3.5]])
    [array([[1, 2]]), array([[3.5]])]
    >>> Append(expand=False)([[1, 2], [3.5]])
    [array([1, 2]), array([3.5])]
    """

    join: ClassVar[Join] = staticmethod(_chained)

    def __init__(self, expand: bool = True, batch_axis: int = 0) -> None:
        self._given = {"expand": expand, "batch_axis": batch_axis}
        self.expand = as_flag(expand, "Append: expand")
        self.batch_axis = _as_axis(batch_axis, "Append: batch_axis")

    def _collate(self, samples: Sequence[Any], place: Place) -> list[Array]:
        arrays = plain_arrays(samples, place)
        return [copied(self._expanded(array, i, place)) for i, array in enumerate(arrays)]

    def _expanded(self, array: Array, i: int, place: Place) -> Array:
        if not self.expand:
            return array
        if not -array.ndim - 1 <= self.batch_axis <= array.ndim:
            raise ValueError(
                f"{place.who}: {place.at(i)} has {_counted(array.ndim)}, so there is no place for"
                f" batch_axis={self.batch_axis}"
            )
        return np.expand_dims(array, self.batch_axis)


class List(_Batchify):
    """Make a list of the samples as they are.

    Raises
    ------
    ValueError
        For an empty batch.

    Notes
    -----
    No copy. Can be joined from pieces, see `prefetch`. After ``List`` of GluonNLP, ``AsList`` of Gluon.

    Examples
    --------
    >>> Tuple(Stack(), List())([(1, "a"), (2, None)])
    (array([1, 2]), ['a', None])
    """

    join: ClassVar[Join] = staticmethod(_chained)

    def _collate(self, samples: Sequence[Any], place: Place) -> list[Any]:
        return list(samples)


# -------------------------------------------------------------------- composers


class _Composed(_Batchify):
    """A function of functions, each for a part of the samples."""

    @property
    def join(self) -> Join | None:
        """How a batch is made of its pieces; None unless all functions can."""
        return self._join if all(map(_join_of, self._parts())) else None

    def _parts(self) -> Iterable[CollateFn]:
        raise NotImplementedError

    def _join(self, pieces: list[Any], unite: Unite) -> Any:
        raise NotImplementedError


class Tuple(_Composed):
    """Give each position of the samples to a function of its own.

    Parameters
    ----------
    *functions : callable
        One per position: any function of a list. In place of a function, a tuple of functions means
        `Tuple`, a named tuple of them `NamedTuple`, a mapping `Dict`, to any depth.

    Returns
    -------
    tuple
        What the functions return.

    Raises
    ------
    TypeError
        If a function is not callable; for a sample that is no sequence.
    ValueError
        Without functions; for an empty batch and for samples, whichever, of another length.

    Notes
    -----
    A list per position, and what the functions cost. Can be joined from pieces if all functions can, see
    `prefetch`. After ``Tuple`` of GluonNLP and ``Group`` of Gluon, which is another name for it here.

    Examples
    --------
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

    def _parts(self) -> Iterable[CollateFn]:
        return self.functions

    def _join(self, pieces: list[Any], unite: Unite) -> tuple[Any, ...]:
        return tuple(_joined_each(self.functions, pieces, unite))

    def _collate(self, samples: Sequence[Any], place: Place) -> tuple[Any, ...]:
        arity = len(self.functions)
        for i, sample in enumerate(samples):
            _check_kind(sample, Sequence, "tuples or lists", place, i)
            if len(sample) != arity:
                raise ValueError(
                    f"{place.who}: {place.at(i)} has {len(sample)} elements, but there are {arity} functions;"
                    " there must be one for each element"
                )
        columns = zip(self.functions, zip(*samples, strict=True), strict=True)
        return tuple(_applied(fn, column, place.item(k)) for k, (fn, column) in enumerate(columns))

    def __repr__(self) -> str:
        return f"Tuple({', '.join(map(_named, self.functions))})"


Group = Tuple


class NamedTuple(_Composed):
    """Give each field of named tuples to a function of its own.

    Parameters
    ----------
    container : type
        Class of the samples and of the batch, made by ``typing.NamedTuple`` or ``collections.namedtuple``.
    functions : sequence or mapping
        One function per field, in the order of the fields or by name. What may stand in place of a
        function says `Tuple`.

    Returns
    -------
    container
        What the functions return.

    Raises
    ------
    TypeError
        If `container` is no class of named tuples, `functions` neither kind of collection, or a function
        not callable; for a sample of another class.
    ValueError
        If there are fields without a function, or functions without a field; for an empty batch.

    Notes
    -----
    A list per field, and what the functions cost. Can be joined from pieces if all functions can, see
    `prefetch`. After ``NamedTuple`` of GluonNLP.

    Examples
    --------
    >>> from collections import namedtuple
    >>> Sample = namedtuple("Sample", "words label")
    >>> collate = NamedTuple(Sample, {"words": Pad(), "label": Stack()})
    >>> collate([Sample([1, 2], 0), Sample([3], 1)])
    Sample(words=array([[1, 2],
           [3, 0]]), label=array([0, 1]))
    """

    def __init__(self, container: type[Any], functions: Sequence[Any] | Mapping[str, Any]) -> None:
        if not (
            isinstance(container, type) and issubclass(container, tuple) and hasattr(container, "_fields")
        ):
            raise TypeError(f"NamedTuple: container must be a class of named tuples, got {container!r}")
        named = _by_field(container.__name__, container._fields, functions)
        self.container: Any = container
        self.functions = {
            field: _as_function(named[field], f"NamedTuple: the function for {field!r}")
            for field in container._fields
        }

    def _parts(self) -> Iterable[CollateFn]:
        return self.functions.values()

    def _join(self, pieces: list[Any], unite: Unite) -> Any:
        return self.container._make(_joined_each(self.functions.values(), pieces, unite))

    def _collate(self, samples: Sequence[Any], place: Place) -> Any:
        for i, sample in enumerate(samples):
            _check_kind(sample, self.container, f"{self.container.__name__}s", place, i)
        return self.container._make(
            _applied(fn, [getattr(sample, field) for sample in samples], place.field(field))
            for field, fn in self.functions.items()
        )

    def __repr__(self) -> str:
        return f"NamedTuple({self.container.__name__}, {_shown_mapping(self.functions)})"


class Dict(_Composed):
    """Give each key of mappings to a function of its own.

    Parameters
    ----------
    functions : mapping
        Function by key. What may stand in place of a function says `Tuple`.
    extra : "raise", "drop" or callable
        What becomes of other keys: an error (the default), nothing, or what this function makes of each of
        them; all samples must have those of the first then.

    Returns
    -------
    dict
        What the functions return, in the order of `functions`, extra keys behind.

    Raises
    ------
    TypeError
        If `functions` is no mapping or a function not callable; for a sample that is no mapping.
    ValueError
        If `extra` is another word, or `functions` empty without a function for extra keys; for an empty
        batch and for samples, whichever, that lack a key or have others.

    Notes
    -----
    A list per key, and what the functions cost. Can be joined from pieces if all functions can, see
    `prefetch`. After ``Dict`` of GluonNLP, which drops extra keys.

    Examples
    --------
    >>> collate = Dict({"words": Pad()}, extra=List())
    >>> collate([{"words": [1, 2], "id": "a"}, {"words": [3], "id": "b"}])
    {'words': array([[1, 2],
           [3, 0]]), 'id': ['a', 'b']}
    """

    def __init__(
        self, functions: Mapping[Any, Any], extra: Literal["raise", "drop"] | Callable[..., Any] = "raise"
    ) -> None:
        if not isinstance(functions, Mapping):
            raise TypeError(f"Dict: functions must be a mapping of keys to functions, got {functions!r}")
        if isinstance(extra, str) and extra not in ("raise", "drop"):
            raise ValueError(f"Dict: extra must be 'raise', 'drop' or a function, got {extra!r}")
        self.functions = {
            key: _as_function(fn, f"Dict: the function for {key!r}") for key, fn in functions.items()
        }
        self.extra = extra
        self._rest = None if isinstance(extra, str) else _as_function(extra, "Dict: extra")
        if not functions and self._rest is None:
            raise ValueError("Dict: at least one function is needed, or one for extra keys")

    def _parts(self) -> Iterable[CollateFn]:
        return [*self.functions.values(), *([] if self._rest is None else [self._rest])]

    def _join(self, pieces: list[Any], unite: Unite) -> dict[Any, Any]:
        keys = list(pieces[0])
        if any(piece.keys() != pieces[0].keys() for piece in pieces):
            raise ValueError("pieces of different keys")
        rows = [[piece[key] for key in keys] for piece in pieces]
        return dict(zip(keys, _joined_each(map(self._function, keys), rows, unite), strict=True))

    def _function(self, key: Any) -> Any:
        return self.functions.get(key, self._rest)

    def _collate(self, samples: Sequence[Any], place: Place) -> dict[Any, Any]:
        _check_kind(samples[0], Mapping, "mappings", place, 0)
        keys = dict.fromkeys([*self.functions, *([] if self._rest is None else samples[0])])
        for i, sample in enumerate(samples):
            _check_kind(sample, Mapping, "mappings", place, i)
            found = sample.keys() & keys.keys() if self.extra == "drop" else sample.keys()
            if found != keys.keys():
                raise ValueError(
                    f"{place.who}: {place.at(i)} {key_differences(keys, found)}; each sample must have the"
                    f" keys {list(keys)}: extra='drop' leaves out others, a function as extra collates them"
                )
        return {
            key: _applied(self._function(key), [sample[key] for sample in samples], place.item(key))
            for key in keys
        }

    def __repr__(self) -> str:
        extra = repr(self.extra) if self._rest is None else _named(self._rest)
        return f"Dict({_shown_mapping(self.functions)}, extra={extra})"


class PerShard(_Batchify):
    """Make a list of batches of a list of lists of samples, each batch on its own.

    For several devices that each get a part of what one step needs: every part is padded to its own longest
    sample only.

    Parameters
    ----------
    function : callable
        Makes a batch of the samples of one shard. What may stand in place of it says `Tuple`.

    Returns
    -------
    list
        One batch per shard.

    Raises
    ------
    TypeError
        If `function` is not callable; for a shard that is neither a sequence nor an array.
    ValueError
        For no shards, and for an empty shard where `function` refuses it.

    Notes
    -----
    What the function costs. Can be joined from pieces, see `prefetch`: a piece is some of the shards. After
    ``ShardedDataLoader`` of GluonNLP, which recognises shards by their type.

    Examples
    --------
    >>> PerShard(Pad())([[[1, 2], [3]], [[4], [5]]])
    [array([[1, 2],
           [3, 0]]), array([[4],
           [5]])]
    """

    join: ClassVar[Join] = staticmethod(_chained)

    def __init__(self, function: Any) -> None:
        self.function = _as_function(function, "PerShard: function")

    def _collate(self, samples: Sequence[Any], place: Place) -> list[Any]:
        for i, shard in enumerate(samples):
            _check_kind(shard, (Sequence, np.ndarray), "lists of samples", place, i)
        return [
            _applied(self.function, shard, Place("", batch=place.at(i))) for i, shard in enumerate(samples)
        ]

    def __repr__(self) -> str:
        return f"PerShard({_named(self.function)})"


# -------------------------------------------------------------------- functions within functions


def _as_function(value: Any, who: str) -> CollateFn:
    """Return a function as it is, and a tuple or mapping of functions as one."""
    if isinstance(value, tuple):
        return NamedTuple(type(value), value) if hasattr(value, "_fields") else Tuple(*value)
    if isinstance(value, Mapping):
        return Dict(value)
    if isinstance(value, type) and issubclass(value, _Batchify):
        raise TypeError(f"{who} is the class {value.__name__}; pass what it makes: {value.__name__}(...)")
    if not callable(value):
        raise TypeError(f"{who} must be callable, or a tuple or mapping of functions, got {value!r}")
    function: CollateFn = value
    return function


def _by_field(
    container: str, fields: tuple[str, ...], functions: Sequence[Any] | Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the functions of `NamedTuple` by name, one for each field."""
    if not isinstance(functions, list | tuple | Mapping):
        raise TypeError(f"NamedTuple: functions must be a sequence or a mapping, got {functions!r}")
    if not isinstance(functions, Mapping):
        if len(functions) != len(fields):
            raise ValueError(
                f"NamedTuple: {len(functions)} functions for {container}, which has"
                f" {len(fields)} fields: {fields}"
            )
        return dict(zip(fields, functions, strict=True))
    if set(functions) != set(fields):
        raise ValueError(
            f"NamedTuple: the mapping of functions {key_differences(fields, functions)}; {container} has the"
            f" fields {fields}"
        )
    return functions


def _applied(fn: CollateFn, samples: Sequence[Any], place: Place) -> Any:
    """Return what a function makes of what lies at a place in samples; its errors name the place."""
    column = samples if isinstance(samples, list) else list(samples)
    collate_at = getattr(fn, "collate_at", None)
    if collate_at is not None:
        return collate_at(column, place)
    try:
        return fn(column)
    except Exception as error:
        error.add_note(f"raised by {_named(fn)} for {place.at('...')}")
        raise


def _join_of(fn: CollateFn) -> Join | None:
    join: Join | None = getattr(fn, "join", None)
    return join


def _joined_each(fns: Iterable[CollateFn], pieces: Iterable[Any], unite: Unite) -> list[Any]:
    """Join the pieces of each column by the function that made them."""
    columns = zip(fns, zip(*pieces, strict=True), strict=True)
    return [_join_of(fn)(list(column), unite) for fn, column in columns]  # type: ignore[misc]


def _check_kind(sample: Any, kind: Any, allowed: str, place: Place, i: int) -> None:
    if not isinstance(sample, kind) or isinstance(sample, TEXT):
        raise TypeError(
            f"{place.who}: {place.at(i)} is of type {type(sample).__name__}; allowed are {allowed}:"
            " convert it, or pass another collate_fn"
        )


def _named(fn: CollateFn) -> str:
    return repr(fn) if isinstance(fn, _Batchify) else getattr(fn, "__name__", type(fn).__name__)


def _shown_mapping(functions: Mapping[Any, CollateFn]) -> str:
    return f"{{{', '.join(f'{key!r}: {_named(fn)}' for key, fn in functions.items())}}}"


# -------------------------------------------------------------------- arguments


def _as_dtype(value: npt.DTypeLike | None, who: str) -> DType | None:
    try:
        dtype = None if value is None else np.dtype(value)
    except TypeError:
        dtype = np.dtype(object)
    if dtype is not None and holds_objects(dtype):
        raise TypeError(
            f"{who}: dtype must be one of numbers, bools, dates or records of them, got {value!r}"
        )
    return dtype


def _as_axis(value: Any, who: str, other: str = "") -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(f"{who} must be an int{other}, got {value!r}")
    return int(value)


def _as_number(value: Any, who: str) -> Array:
    """Return a number as an array without axes."""
    number = np.asarray(value)
    if number.ndim or holds_objects(number.dtype):
        raise TypeError(f"{who} must be a number, got {value!r}")
    return number


def _holds(dtype: DType, number: Array) -> bool:
    """Can arrays of a dtype hold a number, rounded to their precision but not changed otherwise?

    >>> _holds(np.dtype("f4"), np.array(0.1)), _holds(np.dtype("u1"), np.array(-1))
    (True, False)
    """
    if np.can_cast(number.dtype, dtype):
        return True
    with np.errstate(all="ignore"):
        if dtype.kind in "fc":
            of_its_kind = np.can_cast(number.dtype, dtype, "same_kind")
            return of_its_kind and bool(np.isfinite(number.astype(dtype)) or not np.isfinite(number))
        numeric = dtype.kind in "biu" and number.dtype.kind in "biuf"
        return numeric and bool(number.astype(dtype) == number)


# -------------------------------------------------------------------- arrays


def _alike(samples: Sequence[Any], arrays: list[Array]) -> list[Array]:
    """Return the arrays, those of lists without elements with the dtype of the others.

    Such a list does not say what its elements would be; a flat one not even how many axes they would have.
    """
    bare = [
        isinstance(sample, list | tuple) and not array.size
        for sample, array in zip(samples, arrays, strict=True)
    ]
    if all(bare):
        return arrays
    like = np.atleast_1d(arrays[bare.index(False)])[:0]
    return [
        (like if array.ndim == 1 else np.empty(array.shape, like.dtype)) if is_bare else array
        for array, is_bare in zip(arrays, bare, strict=True)
    ]


def _check_dimensions(arrays: Sequence[Array], place: Place) -> None:
    """Refuse numbers, and samples of different numbers of axes."""
    for i, array in enumerate(arrays):
        if not array.ndim:
            raise ValueError(f"{place.who}: {place.at(i)} is a single number; Stack makes an array of such")
        if array.ndim != arrays[0].ndim:
            raise ValueError(
                f"{place.who}: {place.at(i)} has {_counted(array.ndim)}, {place.at(0)} has {arrays[0].ndim};"
                " the samples of a batch must have as many, reshape them or pass another collate_fn"
            )


def _check_other_axes(arrays: Sequence[Array], axes: Sequence[int], place: Place) -> None:
    """Refuse samples of different lengths along an axis that is not padded."""
    first = arrays[0].shape
    others = [axis for axis in range(len(first)) if axis not in axes]
    for i, array in enumerate(arrays if others else ()):
        if any(array.shape[axis] != first[axis] for axis in others):
            raise ValueError(
                f"{place.who}: {place.at(i)} has shape {array.shape}, {place.at(0)} has {first}; they may"
                f" differ along axis {axes[0]} only: make them equal, or pad with axis='all'"
            )


def _counted(dimensions: int) -> str:
    return f"{dimensions} dimension{'s' * (dimensions != 1)}"
