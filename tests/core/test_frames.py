"""Wrong indices and names show the line of the user, without a frame of seqkit."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import numpy as np

import seqkit as sk

NUMBERS = sk.smap(abs, range(5))
SIFTED = sk.filter(bool, range(5))
WRONG: dict[str, Callable[[], object]] = {
    "an index": lambda: NUMBERS[99],
    "a negative index": lambda: NUMBERS[-99],
    "a name": lambda: NUMBERS["image"],  # type: ignore[call-overload]
    "a float": lambda: NUMBERS[1.5],  # type: ignore[call-overload]
    "a pair": lambda: NUMBERS[1, 2],  # type: ignore[call-overload]
    "a mask": lambda: NUMBERS[[True]],
    "a step of 0": lambda: NUMBERS[::0],
    "an index after a scan": lambda: SIFTED[99],
    "an index to set": lambda: NUMBERS.__setitem__(99, 1),
    "a name to set": lambda: NUMBERS.__setitem__("a", 1),
    "a value": lambda: NUMBERS.index(77),
    "a length": lambda: len(sk.cycle("ab")),
    "an epoch": lambda: NUMBERS.at_epoch(-1),
    "a number of items": lambda: NUMBERS.head(-1),
    "a number of items to skip": lambda: NUMBERS.skip(-1),
    "an attribute": lambda: NUMBERS.imag,
    "a function": lambda: sk.batchh,
    "an attribute of a loader": lambda: sk.DataLoader([1]).datset,
    "an index of indices": lambda: list(sk.gather(range(3), np.array([7]))),
}


def test_wrong_indices_and_names_show_no_frame_of_seqkit() -> None:
    for name, call in WRONG.items():
        try:
            call()
        except Exception as error:
            files = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
            assert files == {__file__}, name
        else:
            raise AssertionError(f"no error for {name}")
