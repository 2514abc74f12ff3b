"""The structure that several items share: `image: uint8[256, 213–256, 3], label: int64`."""

from __future__ import annotations

from collections.abc import Sequence

from .summary import Summary

__all__ = ["structure"]


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
