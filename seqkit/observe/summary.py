"""A value in a few words and a picture: type and shape, range and mean, an alarm for NaN, text, parts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import brief
from ..core.units import count, number
from .picture import picture

__all__ = ["Summary", "summarise"]

_MOST_PARTS = 12  # of a dict, tuple or list
_MOST_ELEMENTS = 1 << 22  # of an array, for its range. Of larger ones a part is looked at
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
    """Describe a value. The value is not changed and not kept.

    >>> summarise({"x": np.arange(10.0), "label": 3}).line()
    '{x: float64[10] 0 … 9, mean 4.5, label: 3}'
    """
    if isinstance(value, str | bytes):
        text = value if isinstance(value, str) else repr(value)
        clipped = text[:_MOST_LETTERS] + "…" * (len(text) > _MOST_LETTERS)
        return Summary(
            type(value).__name__, nbytes=len(value), text=repr(clipped) if text is value else clipped
        )
    if isinstance(value, np.generic) or value is None or isinstance(value, bool | int | float | complex):
        alarm = "NaN" if isinstance(value, float | np.floating) and value != value else ""
        return Summary(type(value).__name__, text=str(value), alarm=alarm)
    if isinstance(value, Mapping):
        return _of_parts("dict", [(str(name), part) for name, part in value.items()])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _of_parts(type(value).__name__, list(zip(value._fields, value, strict=True)))
    if isinstance(value, list | tuple):
        return _of_parts(type(value).__name__, [("", part) for part in value])
    array = _as_array(value)
    return Summary(type(value).__name__, text=brief(value)) if array is None else _of_array(array, value)


def _of_parts(kind: str, parts: list[tuple[str, Any]]) -> Summary:
    found = [(name, summarise(part)) for name, part in parts[:_MOST_PARTS]]
    size = sum(part.nbytes for _, part in found)
    more = f"{len(parts):,} parts" if len(parts) > len(found) else ""
    return Summary(kind, nbytes=size, text=more if found else "empty", parts=tuple(found))


def _is_of(library: str, value: Any) -> bool:
    return any(kind.__module__.partition(".")[0] == library for kind in type(value).__mro__)


def _as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """Return an array, tensor or image of another library as an array, or None for other values."""
    if isinstance(value, np.ndarray):
        return value
    try:
        if _is_of("PIL", value) and hasattr(value, "convert"):
            return np.asarray(value if value.mode in ("L", "RGB", "RGBA") else value.convert("RGB"))
        if _is_of("torch", value) and hasattr(value, "detach"):
            tensor = value.detach().cpu()
            torch = sys.modules["torch"]
            return np.asarray(tensor.float() if tensor.dtype == torch.bfloat16 else tensor)
        if hasattr(value, "__array__") and hasattr(value, "shape") and hasattr(value, "dtype"):
            return np.asarray(value)
    except Exception:  # the array of another library that cannot be read, such as a quantised tensor
        pass
    return None


def _of_array(array: np.ndarray[Any, Any], value: Any) -> Summary:
    dtype = str(getattr(value, "dtype", array.dtype)).removeprefix("torch.")
    if array.dtype.names is not None:
        dtype = f"record({', '.join(array.dtype.names)})"
    elif _is_of("PIL", value):
        dtype = f"{value.mode} image"
    kind = f"{dtype}[{', '.join(map(str, array.shape))}]"
    text, alarm = _range(array)
    drawn = "" if text.startswith("[") else picture(array)  # all values are shown
    return Summary(kind, tuple(array.shape), array.nbytes, text, alarm, picture=drawn)


def _range(array: np.ndarray[Any, Any]) -> tuple[str, str]:
    """Return the range and the mean of an array, and an alarm for values that are not finite."""
    if array.dtype.kind not in "biuf" or not array.size:
        return (brief(array.tolist()) if 0 < array.size <= _MOST_SHOWN else ""), ""
    values, alarm = _some(array).ravel(), ""
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
        array.ndim == 1
        and array.size <= (_MOST_SHOWN if is_float else _MOST_LABELS)
        and "masked" not in alarm
    ):
        return str([float(number(x)) if is_float else x for x in array.tolist()]), alarm
    low, high, mean = (float(x) for x in (values.min(), values.max(), values.mean(dtype=np.float64)))
    return f"{number(low)} … {number(high)}, mean {number(mean)}", alarm


def _some(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array, or equally spaced rows of a large one, which may be a file."""
    if array.size <= _MOST_ELEMENTS:
        return array
    longest = int(np.argmax(array.shape))
    step = -(-array.size // _MOST_ELEMENTS)
    return array[(slice(None),) * longest + (slice(None, None, step),)]
