"""Measurements as people read them: `8.9 ms`, `38 %`."""

from __future__ import annotations

__all__ = ["number", "percent", "rounded", "seconds"]

_SECONDS = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


def seconds(value: float) -> str:
    """Return a time in seconds in a readable unit, with two or three digits.

    >>> seconds(0.0088709), seconds(12.345), seconds(150), seconds(4e-7), seconds(0)
    ('8.9 ms', '12.3 s', '2.5 min', '400 ns', '0 s')
    """
    for unit, length in _SECONDS:
        if value >= length:
            return f"{value / length:.{int(value < 99.95 * length)}f}".removesuffix(".0") + f" {unit}"
    return "0 s" if value <= 0 else "< 1 ns"


def percent(share: float) -> str:
    """Return a share as a percentage.

    >>> percent(0.384), percent(0.004), percent(0)
    ('38 %', '0.4 %', '0 %')
    """
    return f"{100 * share:.1f} %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def number(value: float) -> str:
    """Return a value of an array with at most four digits.

    >>> number(0.123456), number(255), number(3.0), number(-1e-9), number(1e7)
    ('0.1235', '255', '3', '-1e-09', '1e+07')
    """
    return f"{value:.4g}"


def rounded(number: float, digits: int = 3) -> str:
    """Return a number with so many digits, and without an exponent.

    >>> rounded(3086.7), rounded(0.0513, 2), rounded(97)
    ('3,087', '0.051', '97')
    """
    return f"{number:,.0f}" if number >= 10 ** (digits - 1) else f"{number:.{digits}g}"
