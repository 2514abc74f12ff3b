"""Numbers as people read them: `1.2 MiB`, `1.2 million`."""

from __future__ import annotations

__all__ = ["count", "plural", "size"]


def size(nbytes: float) -> str:
    """Return a number of bytes in a readable unit.

    >>> size(812), size(73_728), size(1_234_567)
    ('812 bytes', '72 KiB', '1.2 MiB')
    """
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= length:
            return f"{nbytes / length:.1f} {unit}".replace(".0 KiB", " KiB")
    return f"{nbytes:.0f} bytes"


def count(n: float) -> str:
    """Return a number of things, with separators. A million and more are shortened.

    >>> count(999), count(54_000), count(1_281_167), count(2**40)
    ('999', '54,000', '1.28 million', '1,100 billion')
    """
    for word, length in (("billion", 1e9), ("million", 1e6)):
        if n >= length:
            return f"{_short(n / length)} {word}"
    return f"{n:,.0f}"


def plural(n: int, noun: str) -> str:
    """Return a number of things with their noun.

    >>> plural(1, "worker"), plural(2, "worker"), plural(1200, "hit")
    ('1 worker', '2 workers', '1,200 hits')
    """
    return f"{count(n)} {noun}{'' if n == 1 else 's'}"


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if value < 100 else f"{value:,.0f}"
