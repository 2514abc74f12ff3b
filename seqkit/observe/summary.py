"""A value in a few words and a picture: type and shape, range and mean, an alarm for NaN, text, parts."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from ..core.errors import brief
from ..core.units import count, number
from .html import in_a_line, visible
from .picture import picture

__all__ = ["Summary", "summarise"]

_MOST_PARTS = 12  # of a dict, tuple or list
_MOST_IN_ALL = 200  # parts, of all levels together
_DEEPEST = 8  # levels of parts
_MOST_LETTERS_OF_A_NAME = 80
_MOST_ELEMENTS = 1 << 22  # of an array, for its range. Of larger ones some blocks are looked at
_BLOCKS = 8
_MODES_AS_THEY_ARE = ("1", "L", "RGB", "RGBA", "I", "F", "I;16", "I;16B", "I;16L")  # of Pillow
_MOST_LETTERS = 200
_MOST_SHOWN = 6  # numbers of a short array
_MOST_LABELS = 16  # of a batch of integers or flags


@dataclass(frozen=True)
class Summary:
    """The description of a value, without the value.

    Attributes
    ----------
    type : str
        Such as ``"uint8[28, 28]"``, ``"str"`` or ``"dict"``.
    shape : tuple of int or None
        Of an array, tensor or image.
    nbytes : int
        Size of arrays and texts. 0 for other values.
    text : str
        A number or a text itself, or the range and the mean of an array.
    alarm : str
        Such as ``"3 NaN"``, or "".
    parts : tuple of (str, Summary)
        The parts of a dict, tuple or list with their names. Of long ones the first 12.
    picture : str
        HTML of a small picture, or "".
    """

    type: str
    shape: tuple[int, ...] | None = None
    nbytes: int = 0
    text: str = ""
    alarm: str = ""
    parts: tuple[tuple[str, Summary], ...] = ()
    picture: str = ""

    def line(self) -> str:
        """Return the summary in one line."""
        named = ", ".join(f"{name}: {part.line()}" if name else part.line() for name, part in self.parts)
        named += f", … {self.text}" if self.parts and self.text else ""
        inner = {"tuple": f"({named})", "list": f"[{named}]"}.get(self.type, f"{{{named}}}")
        text = inner if self.parts else self.text
        shown = [self.type] if self.shape is not None or not text else []
        alarm = f"({self.alarm})" if self.alarm else ""
        return " ".join(filter(None, [*shown, text, alarm]))

    def alarms(self) -> list[str]:
        """Return the alarms of a value and of its parts."""
        inner = [f"{name}: {alarm}" for name, part in self.parts for alarm in part.alarms()]
        return [self.alarm, *inner] if self.alarm else inner

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values, without the picture."""
        found = {name: value for name, value in vars(self).items() if value not in ("", None, (), 0)}
        found.pop("picture", None)
        if self.parts:
            found["parts"] = {name or str(i): part.to_dict() for i, (name, part) in enumerate(self.parts)}
        return found


def summarise(value: Any) -> Summary:
    """Describe a value. The value is not changed and not kept. A value that fails has the name of its type.

    >>> summarise({"x": np.arange(10.0), "label": 3}).line()
    '{x: float64[10] 0 … 9, mean 4.5, label: 3}'
    """
    # Overflows and fully masked arrays warn. A display is no reason for it.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _summary(value, _MOST_IN_ALL, _DEEPEST)


def _summary(value: Any, room: int, levels: int) -> Summary:
    """Describe a value with at most `room` parts, in at most so many levels."""
    try:
        return _described(value, room, levels)
    except Exception:
        return Summary(in_a_line(type(value).__name__))


def _described(value: Any, room: int, levels: int) -> Summary:
    kind = in_a_line(type(value).__name__)
    if isinstance(value, str):
        text = value[:_MOST_LETTERS] + "…" * (len(value) > _MOST_LETTERS)
        return Summary(kind, nbytes=len(value), text=visible(repr(text)))
    if isinstance(value, bytes):
        text = repr(value[:_MOST_LETTERS])
        is_long = len(text) > _MOST_LETTERS
        return Summary(kind, nbytes=len(value), text=text[:_MOST_LETTERS] + "…" * is_long)
    if isinstance(value, np.generic) or value is None or isinstance(value, bool | int | float | complex):
        alarm = "NaN" if isinstance(value, float | np.floating) and value != value else ""
        return Summary(kind, text=visible(str(value)[:_MOST_LETTERS]), alarm=alarm)
    if isinstance(value, Mapping):
        return _of_parts("dict", len(value), ((_name(key), _item(value, key)) for key in value), room, levels)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _of_parts(kind, len(value), zip(value._fields, value, strict=True), room, levels)
    if isinstance(value, list | tuple):
        return _of_parts(kind, len(value), (("", part) for part in value), room, levels)
    try:
        array = np.asarray(value) if _is_image(value) else value if _is_array(value) else None
        if array is not None:
            return _of_array(array, value)
    except Exception:  # the array of another library that cannot be read, such as a quantised tensor
        pass
    return Summary(kind, text=visible(brief(value)))


def _of_parts(kind: str, n: int, parts: Iterable[tuple[str, Any]], room: int, levels: int) -> Summary:
    """Describe the first parts. All parts of one value have the same room for parts of their own."""
    shown = min(n, _MOST_PARTS, room) if levels else 0
    inner = (room - shown) // max(shown, 1)
    few = islice(parts, shown)
    found = tuple(
        (name, part.summary if isinstance(part, _Unreadable) else _summary(part, inner, levels - 1))
        for name, part in few
    )
    size = sum(part.nbytes for _, part in found)
    more = f"{n:,} part{'s' * (n != 1)}" if n > shown else ""
    return Summary(kind, nbytes=size, text=more if n else "empty", parts=found)


@dataclass(frozen=True)
class _Unreadable:
    """In place of a part that cannot be read."""

    summary: Summary


def _item(mapping: Mapping[Any, Any], key: Any) -> Any:
    """Return the part of a mapping, which may read it from a file only now."""
    try:
        return mapping[key]
    except Exception as error:
        return _Unreadable(Summary("unreadable", text=brief(error), alarm="cannot be read"))


def _name(key: Any) -> str:
    """Return a key as a name of limited length."""
    try:
        text = str(key)
    except Exception:
        text = f"<{type(key).__name__}>"
    is_long = len(text) > _MOST_LETTERS_OF_A_NAME
    return in_a_line(text[: _MOST_LETTERS_OF_A_NAME - 1] + "…" if is_long else text)


# ---------------------------------------------------------------- arrays


# A tensor or an image can exist only if its library was imported already.
def _is_tensor(value: Any) -> bool:
    return isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ()))


def _is_image(value: Any) -> bool:
    return isinstance(value, getattr(sys.modules.get("PIL.Image"), "Image", ()))


def _is_array(value: Any) -> bool:
    """Return whether a value is an array or tensor of any library, which may be in a file."""
    if isinstance(value, np.ndarray):
        return True
    if _is_tensor(value):
        return bool(value.layout == sys.modules["torch"].strided)
    return hasattr(value, "__array__") and hasattr(value, "shape") and hasattr(value, "dtype")


def _in_memory(part: Any) -> np.ndarray[Any, Any]:
    """Return an array of any library, or a part of it, as an array of numpy."""
    if isinstance(part, np.ma.MaskedArray):
        return part
    if isinstance(part, np.ndarray):
        return part.view(np.ndarray)  # a matrix has two dimensions whatever its part
    if _is_tensor(part):
        part = part.detach().cpu()
        part = part.float() if part.dtype == sys.modules["torch"].bfloat16 else part
    return np.asarray(part)


def _of_array(array: Any, value: Any) -> Summary:
    shape = tuple(int(n) for n in array.shape)
    size = math.prod(shape)
    is_whole = size <= _MOST_ELEMENTS
    values = _in_memory(array) if is_whole else _blocks(array, shape)
    dtype = str(getattr(value, "dtype", values.dtype)).removeprefix("torch.")
    if values.dtype.names is not None:
        dtype = f"record({', '.join(values.dtype.names)})"
    elif _is_image(value):
        dtype = f"{value.mode} image"
    kind = f"{_name(dtype)}[{', '.join(map(str, shape))}]"
    text, alarm = _range(values, shape)
    if not is_whole and text:
        text += ", of a part"
    elif not is_whole and alarm:
        alarm += " in a part"
    drawn = "" if text.startswith("[") else picture(_drawable(array, values, value, shape))
    return Summary(kind, shape, size * values.dtype.itemsize, text, alarm, picture=drawn)


def _drawable(array: Any, values: np.ndarray[Any, Any], value: Any, shape: tuple[int, ...]) -> Any:
    """Return what `picture` gets: an array in memory, or a curve that may be in a file."""
    if _is_image(value) and value.mode not in _MODES_AS_THEY_ARE:
        return np.asarray(value.convert("RGB"))
    if math.prod(shape) <= _MOST_ELEMENTS:
        return values
    if isinstance(array, np.ndarray):
        return _in_memory(array)
    if len(shape) == 1:
        return array
    is_batch = len(shape) == 4 or (len(shape) == 3 and shape[2] > 4)
    few = array[:_MOST_PARTS] if is_batch and shape[0] > _MOST_PARTS else array
    is_small = math.prod(few.shape) <= _MOST_ELEMENTS
    return _in_memory(few) if is_small or _is_tensor(few) else np.zeros(0)  # no picture


def _blocks(array: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return the values of a few blocks of a large array, which may be in a file.

    Elements that lie apart would be slow to read, and wrong for values that repeat.
    """
    window, rest = list(shape), _MOST_ELEMENTS // _BLOCKS
    for axis in range(len(shape)):
        others = math.prod(window[axis + 1 :])
        window[axis] = min(shape[axis], max(rest // others, 1))
        rest = max(rest // window[axis], 1)
    found = []
    for which in range(_BLOCKS):
        starts = [(n - wide) * which // (_BLOCKS - 1) for n, wide in zip(shape, window, strict=True)]
        block = array[tuple(slice(i, i + wide) for i, wide in zip(starts, window, strict=True))]
        found.append(_in_memory(block).ravel())
    is_masked = any(isinstance(block, np.ma.MaskedArray) for block in found)
    joined: np.ndarray[Any, Any] = (np.ma.concatenate if is_masked else np.concatenate)(found)
    return joined


def _range(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> tuple[str, str]:
    """Return the range and the mean of an array, and an alarm for values that are not finite."""
    if array.dtype.kind not in "biuf" or not array.size:
        return (visible(brief(array.tolist())) if 0 < array.size <= _MOST_SHOWN else ""), ""
    values, alarm = array.ravel(), ""
    if isinstance(values, np.ma.MaskedArray):
        values, masked = values.compressed(), int(np.ma.getmaskarray(values).sum())
        alarm = f"{count(masked)} masked" if masked else ""
    if values.dtype.kind == "f":
        finite = np.isfinite(values)
        if not finite.all():
            nans = int(np.isnan(values).sum())
            others = int(values.size - finite.sum()) - nans
            alarm = ", ".join(
                [f"{count(nans)} NaN"] * (nans > 0) + [f"{count(others)} infinite"] * (others > 0)
            )
            values = values[finite]
    if not values.size:
        return "", alarm
    is_float = array.dtype.kind == "f"
    if (
        len(shape) == 1
        and array.size <= (_MOST_SHOWN if is_float else _MOST_LABELS)
        and "masked" not in alarm
    ):
        return str([float(number(x)) if is_float else x for x in array.tolist()]), alarm
    low, high, mean = (float(x) for x in (values.min(), values.max(), values.mean(dtype=np.float64)))
    return f"{number(low)} … {number(high)}, mean {number(mean)}", alarm
