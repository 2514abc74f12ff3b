"""A value in a few words and a picture: type and shape, range and mean, an alarm for NaN, text, parts."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from ..core.errors import brief
from ..core.units import count
from .html import in_a_line, visible
from .picture import picture
from .units import number

__all__ = ["Summary", "structure", "summarise"]


_MOST_PARTS = 12  # of a dict, tuple or list; fewer of each part, and so on
_MOST_LETTERS_OF_A_NAME = 80
_MOST_ELEMENTS = 1 << 26  # of an array, for its range and picture
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


def summarise(value: Any) -> Summary:
    """Describe a value. The value is not changed and not kept. A value that fails has the name of its type.

    >>> summarise({"x": np.arange(10.0), "label": 3}).line()
    '{x: float64[10] 0 … 9, mean 4.5, label: 3}'
    """
    # Overflows and fully masked arrays warn. A display is no reason for it.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _summary(value, _MOST_PARTS)


def _summary(value: Any, most: int) -> Summary:
    """Describe a value with at most so many parts."""
    try:
        return _described(value, most)
    except Exception:
        return Summary(in_a_line(type(value).__name__))


def _described(value: Any, most: int) -> Summary:
    kind = in_a_line(type(value).__name__)
    if isinstance(value, str | bytes):
        more = "…" * (len(value) > _MOST_LETTERS)
        return Summary(kind, nbytes=len(value), text=visible(repr(value[:_MOST_LETTERS])) + more)
    if isinstance(value, np.generic) or value is None or isinstance(value, bool | int | float | complex):
        alarm = "NaN" if isinstance(value, float | np.floating) and value != value else ""
        return Summary(kind, text=visible(str(value)[:_MOST_LETTERS]), alarm=alarm)
    if isinstance(value, Mapping):
        named = ((_name(key), value[key]) for key in value)
        return _of_parts("dict", len(value), named, most)
    if isinstance(value, list | tuple):
        names = getattr(value, "_fields", [""] * len(value))
        return _of_parts(kind, len(value), zip(names, value, strict=True), most)
    if _is_array(value) or _is_image(value):
        return _of_array(value)
    return Summary(kind, text=visible(brief(value)))


def _of_parts(kind: str, n: int, parts: Iterable[tuple[str, Any]], most: int) -> Summary:
    """Describe the first parts."""
    most_within = most // 3 + 1 if most > 1 else 0
    found = [(name, _summary(part, most_within)) for name, part in islice(parts, most)]
    more = f"{n:,} part{'s' * (n != 1)}" if n > len(found) else ""
    nbytes = sum(part.nbytes for _, part in found)
    return Summary(kind, nbytes=nbytes, text=more if n else "empty", parts=tuple(found))


def _name(key: Any) -> str:
    """Return a key as a name of limited length."""
    text = key if isinstance(key, str) else brief(key)
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
    if _is_tensor(value):
        return bool(value.layout == sys.modules["torch"].strided)
    return hasattr(value, "__array__") and hasattr(value, "shape") and hasattr(value, "dtype")


def _in_memory(part: Any) -> np.ndarray[Any, Any]:
    """Return an array of any library, or a part of it, as an array of numpy."""
    if isinstance(part, np.ma.MaskedArray):
        return part
    if _is_tensor(part):
        part = part.detach().cpu()
        part = part.float() if part.dtype == sys.modules["torch"].bfloat16 else part
    return np.asarray(part)


def _of_array(value: Any) -> Summary:
    array = np.asarray(value) if _is_image(value) else value
    shape = tuple(int(n) for n in array.shape)
    size = math.prod(shape)
    dtype = str(array.dtype).removeprefix("torch.")
    names, itemsize = (getattr(array.dtype, name, None) for name in ("names", "itemsize"))
    if names is not None:
        dtype = f"record({', '.join(names)})"
    elif _is_image(value):
        dtype = f"{value.mode} image"
    text, alarm, drawn = "", "", ""
    if size <= _MOST_ELEMENTS:  # a larger one may be in a file
        values = _in_memory(array)
        text, alarm = _range(values)
        drawn = "" if text.startswith("[") else picture(values)
    if _is_image(value) and value.mode in ("P", "CMYK"):
        drawn = picture(np.asarray(value.convert("RGB")))
    kind = f"{_name(dtype)}[{', '.join(map(str, shape))}]"
    return Summary(kind, shape, size * (itemsize or 0), text, alarm, picture=drawn)


def _range(array: np.ndarray[Any, Any]) -> tuple[str, str]:
    """Return the range and the mean of an array, and an alarm for values that are not finite."""
    if array.dtype.kind not in "biuf" or not array.size:
        return (visible(brief(array.tolist())) if 0 < array.size <= _MOST_SHOWN else ""), ""
    is_float, is_masked = array.dtype.kind == "f", isinstance(array, np.ma.MaskedArray)
    values = array.compressed() if isinstance(array, np.ma.MaskedArray) else np.asarray(array).ravel()
    nans = int(np.isnan(values).sum()) if is_float else 0
    others = int(np.isinf(values).sum()) if is_float else 0
    found = {"NaN": nans, "infinite": others, "masked": array.size - values.size}
    alarm = ", ".join(f"{count(n)} {name}" for name, n in found.items() if n)
    if array.ndim == 1 and not is_masked and array.size <= (_MOST_SHOWN if is_float else _MOST_LABELS):
        return str([float(number(x)) if is_float else x for x in array.tolist()]), alarm
    values = values[np.isfinite(values)] if nans or others else values
    if not values.size:
        return "", alarm
    low, high, mean = (float(x) for x in (values.min(), values.max(), values.mean(dtype=np.float64)))
    return f"{number(low)} … {number(high)}, mean {number(mean)}", alarm


def structure(items: Sequence[Summary], *, is_part: bool = False) -> str:
    """Return the structure of some items, with the range of the lengths that differ. A part has brackets.

    >>> import numpy as np
    >>> from .summary import summarise
    >>> structure([summarise({"x": np.zeros((n, 3), "u1"), "y": 1}) for n in (5, 8)])
    'x: uint8[5–8, 3], y: int'
    """
    kinds = list(dict.fromkeys(_kind(item) for item in items))
    if len(kinds) > 1:
        groups = ([item for item in items if _kind(item) == kind] for kind in kinds)
        return " | ".join(structure(group, is_part=True) for group in groups)
    first = items[0]
    if first.shape is not None:
        sizes = zip(*[item.shape or () for item in items], strict=True)
        return f"{first.type.partition('[')[0]}[{', '.join(map(_span, sizes))}]"
    if not first.parts:
        return first.type
    lengths = [_count(item) for item in items]
    if first.type == "list" and (min(lengths) < max(lengths) or len(set(_kinds(items))) == 1):
        inner = structure([part for item in items for _, part in item.parts], is_part=True)
        return f"list of {_span(lengths)} × {f'({inner})' if ' | ' in inner else inner}"
    columns = zip(*[item.parts for item in items], strict=False)  # some are cut where others are not
    found = [(column[0][0], structure([part for _, part in column], is_part=True)) for column in columns]
    text = ", ".join(f"{name}: {part}" if name else part for name, part in found)
    if first.type in ("tuple", "list"):
        return f"({text})" if first.type == "tuple" else f"[{text}]"
    return f"{{{text}}}" if is_part else text


def _kinds(items: Sequence[Summary]) -> list[tuple[object, ...]]:
    return [_kind(part) for item in items for _, part in item.parts]


def _kind(item: Summary) -> tuple[object, ...]:
    """Return the properties that items of one structure share."""
    if item.shape is not None:
        return item.type.partition("[")[0], len(item.shape)
    names = () if item.type == "list" else tuple(name for name, _ in item.parts)
    return item.type, bool(item.parts), names


def _count(item: Summary) -> int:
    """Return the length of a list. Its summary has only the first parts."""
    return int(item.text.partition(" ")[0].replace(",", "")) if item.text else len(item.parts)


def _span(sizes: Sequence[int]) -> str:
    low, high = min(sizes), max(sizes)
    return str(low) if low == high else f"{low}–{high}"
