"""An assignment writes everything or nothing, however far in the value does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import seqkit as sk

BUILDS: list[tuple[str, Callable[[Any], Any], Any, Any]] = [
    ("batch", lambda s: sk.batch(s, 2), slice(0, 2), [[9, 9], [9]]),
    ("split", lambda s: sk.split(s, 1), slice(0, 2), [[9, 9], [9]]),
    ("collate", lambda s: sk.collate([s, s]), slice(0, 2), [(9, 9), (9,)]),
    ("collate of a batch", lambda s: sk.collate([sk.view(s)[:2], sk.batch(s, 2)]), 0, (9, [9])),
    ("batch of a collate", lambda s: sk.batch(sk.collate([s, s]), 2), 0, [(9, 9), (9,)]),
    ("gather", lambda s: sk.gather(s, [0, 9]), slice(0, 2), [9, 9]),
    ("concatenate", lambda s: sk.concatenate([sk.batch(s, 2), sk.batch(s, 4)]), slice(1, 3), [[9, 9], [9]]),
    ("cache", lambda s: sk.add_cache(sk.batch(s, 2)), slice(0, 2), [[9, 9], [9]]),
    ("repeat", lambda s: sk.collate([s, sk.repeat(0, 4), sk.batch(s, 1)]), 0, (9, 9, [])),
]


@pytest.mark.parametrize(("name", "build", "key", "values"), BUILDS, ids=[row[0] for row in BUILDS])
def test_nothing_is_written_if_a_later_value_does_not_fit(
    name: str, build: Callable[[Any], Any], key: Any, values: Any
) -> None:
    numbers = [1, 2, 3, 4]
    view = build(numbers)
    before = list(view) if name != "gather" else []
    with pytest.raises((ValueError, IndexError)):
        view[key] = values
    assert numbers == [1, 2, 3, 4]
    assert name == "gather" or list(view) == before
