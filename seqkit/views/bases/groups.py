"""`ItemsOfGroups`: the base of views of the items of groups, each of which is read once for successive items.

A group is an item of the first source, such as a file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from ...core.adapters import recognise
from ...core.errors import EndOfSequence, fail
from ...core.indices import Endless, IndexArray, Indices, Plan, Translated, as_list
from ...core.iteration import surviving
from ...core.lengths import UNKNOWN
from ...core.source import PLAIN, Source, owned
from ...core.view import View
from ...core.worker import get_worker_info

__all__ = ["Group", "Groups", "ItemsOfGroups", "KeptGroups"]


class Group:
    """A group that was read. Its `size` is -1 until `check` has compared it."""

    __slots__ = ("items", "number", "size", "start")

    def __init__(self, number: int, items: Any) -> None:
        self.number = number
        self.items = items
        self.size = self.start = -1

    def pick(self, i: int) -> Any:
        """Return item `i` of the sequence of all items."""
        item = self.items[i - self.start]
        return item if type(item) in PLAIN else owned(item)

    def check(self, size: int, who: str, start: int = 0) -> None:
        """Raise ValueError if the group has not this many items. `start` is the index of its first item.

        From now on a table or column is read by position.
        """
        self.items = recognise(self.items, f"{who} {self.number}")
        if len(self.items) != size:
            raise ValueError(f"{who} {self.number} has {len(self.items)} items, expected {size}")
        self.size, self.start = size, start


class _Recent(threading.local):
    groups: tuple[Group, ...] = ()  # the last one read comes first
    pid = -1


class KeptGroups:
    """The last group that each thread has read, and in workers the group before it.

    A worker that reads a file in several jobs loads it once. The rest of a job may come to it while it reads
    the next file. A forked process does not use a group of its parent, which may be an open file. Copies and
    pickles are empty.

    Groups of lists and arrays in memory are not kept: it costs nothing to read them again, and they may
    change.

    Examples
    --------
    >>> import seqkit as sk
    >>> kept = KeptGroups(sk.smap(str.split, ["a b", "c"]))
    >>> group = kept.read(0)
    >>> kept.read(0) is group, kept.read(1) is group, kept.read(0) is group
    (True, False, False)
    """

    def __init__(self, groups: View[Any]) -> None:
        self._groups = groups
        self._in_memory = isinstance(groups, Source) and type(groups._data) in _IN_MEMORY
        self._recent = _Recent()

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptGroups, (self._groups,)

    def find(self, number: int) -> Group | None:
        """Return a group if this thread has kept it."""
        recent = self._recent
        if recent.pid != os.getpid():
            recent.groups, recent.pid = (), os.getpid()
        return next((group for group in recent.groups if group.number == number), None)

    def read(self, number: int) -> Group:
        """Return a group that is kept, or else read and keep it."""
        group = self.find(number)
        if group is None:
            self._make_room()  # before the next one is loaded
            group = self._keep(Group(number, self._groups._get(number)))
        return group

    def iterate(self, plan: Plan) -> Groups:
        """Return the groups of a plan, to be read in its order.

        In a worker the iteration may be a part of a longer one. So its groups are kept, for the next part.
        """
        if not self._groups._reads_ahead and get_worker_info() is not None:
            return Groups(self.read)
        groups = self._groups._iter(plan)
        return Groups(lambda number: Group(number, next(groups)))

    def _make_room(self) -> None:
        self._recent.groups = () if get_worker_info() is None else self._recent.groups[:1]

    def _keep(self, group: Group) -> Group:
        if not self._in_memory:
            self._recent.groups = group, *self._recent.groups
        return group


_IN_MEMORY = {list, tuple, dict, str, bytes, np.ndarray}


class Groups:
    """The groups of an iteration. Each is read once for successive items, even if reading it fails.

    Parameters
    ----------
    read : callable
        Reads the group of a number.

    Examples
    --------
    >>> groups = Groups(lambda number: print("reading") or Group(number, "abc"))
    >>> groups.read(4).items, groups.read(4).items
    reading
    ('abc', 'abc')
    """

    def __init__(self, read: Callable[[int], Group]) -> None:
        self._read = read
        self._number = -1
        self._group: Group | None = None
        self._failure: Exception | None = None

    def read(self, number: int) -> Group:
        """Return a group. If reading it failed, raise the same error for each of its items."""
        if number != self._number:
            self._number, self._group, self._failure = number, None, None
            try:
                self._group = self._read(number)
            except StopIteration:
                self._failure = EndOfSequence("there is no further group")
            except Exception as error:
                self._failure = error
            except BaseException:
                self._number = -1
                raise
        if self._group is None:
            assert self._failure is not None
            raise self._failure
        return self._group


class ItemsOfGroups(View[Any]):
    """A view whose item i is an item of the group number ``_which(i)``."""

    _kept: KeptGroups

    def _which(self, i: int) -> int:
        """Return the number of the group of item `i`."""
        raise NotImplementedError

    def _whiches(self, indices: Indices) -> IndexArray:
        """Return the numbers of the groups of a batch of items."""
        raise NotImplementedError

    def _check_group(self, group: Group) -> None:
        """Call `Group.check` with the size that a group must have."""
        raise NotImplementedError

    def _pick(self, i: int, group: Group) -> Any:
        try:
            if group.size < 0:
                self._check_group(group)
            if i < group.start + group.size:
                return group.pick(i)
        except Exception as error:
            fail(self, i, error)
        raise EndOfSequence(f"the sequence ends before index {i}")

    def _get(self, i: int) -> Any:
        return self._pick(i, self._kept.read(self._which(i)))

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        wanted, numbers = as_list(indices), as_list(self._whiches(indices))
        groups = {number: self._kept.read(number) for number in dict.fromkeys(numbers)}
        return [self._pick(i, groups[number]) for i, number in zip(wanted, numbers, strict=True)]

    def _iter(self, plan: Plan) -> Iterator[Any]:
        """Read each group once for all its consecutive items in the plan. If that fails, each item fails."""
        read_once = plan if isinstance(plan, Endless) else _WithoutRepeats(Translated(plan, self._whiches))
        groups = self._kept.iterate(read_once)
        numbers = iter(Translated(plan, self._whiches))

        def read(i: int) -> Any:
            number = next(numbers)
            try:
                group = groups.read(number)
            except EndOfSequence as end:
                if self._n is UNKNOWN:
                    raise
                fail(self, i, end)  # it is not the end of this view
            return self._pick(i, group)

        return surviving(self, plan, read)

    def _parts(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ((self._sources[0], (self._which(i),)),)

    def _needs(self, i: int) -> Iterable[tuple[View[Any], Iterable[int]]]:
        return ()  # one item of the source serves many items, of which any may come first


class _WithoutRepeats:
    """A plan without immediate repeats of an index."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __iter__(self) -> Iterator[int]:
        return (i for i, _ in groupby(self.plan))
