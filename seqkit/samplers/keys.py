"""Indices and keys that users give to samplers, checked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy.typing as npt

from ..core.arguments import int_at_least
from ..core.plain import plain
from ..core.source import as_view
from ..core.values import is_single
from ..core.view import View
from ..views.smap import smap

__all__ = ["Order", "as_key", "check_keys", "check_sequence", "keys_of", "sample_count"]


# Indices or keys that can be indexed.
Order = Sequence[Any] | npt.NDArray[Any]


def keys_of(indices: Order, who: str) -> View[Any]:
    """Return given indices or keys as a view. They become plain Python values. A bool is not a key.

    >>> import numpy as np
    >>> list(keys_of(np.array([2, 0]), "SequentialSampler: indices"))
    [2, 0]
    """
    check_sequence(indices, who)
    return smap(partial(as_key, who), as_view(indices, who))


def as_key(who: str, key: Any) -> Any:
    """Return an index or key as a plain Python value. A bool is refused, because it would mean 0 or 1.

    >>> import numpy as np
    >>> as_key("SequentialSampler: indices", np.int32(2))
    2
    """
    value = key if type(key) is int else plain(key)
    if isinstance(value, bool):
        raise TypeError(
            f"{who} must be indices or keys, got {key!r}, a bool. Pass numpy.flatnonzero(mask) for a mask."
        )
    return value


def check_keys(indices: Order, who: str) -> None:
    """Refuse what is not a sequence of keys, such as a mask. A view is checked when it is read."""
    check_sequence(indices, who)
    if not isinstance(indices, View) and len(indices):
        as_key(who, as_view(indices, who)._get(0))


def check_sequence(values: Any, who: str) -> None:
    """Refuse an object that has no length or cannot be indexed."""
    if not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        raise TypeError(f"{who} should be a sequence or an array, but got {values!r}")


def sample_count(data_source: Any, who: str, name: str = "data_source") -> int:
    """Return a number of samples, given as an int or as a data source with a length.

    >>> sample_count("abc", "RandomSampler"), sample_count(4, "RandomSampler")
    (3, 4)
    """
    if hasattr(data_source, "__len__") and not is_single(data_source):
        return len(data_source)
    return int_at_least(data_source, f"{who}: {name} (an int, or anything with len)", 0)
