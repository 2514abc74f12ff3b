"""Compute once: `cached`, an attribute, and `Deferred`, a value for which other threads wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["Deferred", "cached"]

T = TypeVar("T")


class cached(Generic[T]):  # noqa: N801 - a decorator
    """Compute an attribute when it is first used, then keep it.

    `functools.cached_property` of Python 3.11 holds one lock for all instances while it computes. If the
    computation waits for a thread that needs the attribute of another instance, both hang. Without a lock,
    two threads may compute the same value. Use `Deferred` where that is expensive.

    Examples
    --------
    >>> class Circle:
    ...     radius = 2
    ...     @cached
    ...     def area(self) -> int:
    ...         print("computing")
    ...         return 3 * self.radius**2
    >>> circle = Circle()
    >>> circle.area, circle.area
    computing
    (12, 12)
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = self._compute(instance)
        object.__setattr__(instance, self._name, value)  # not by `vars`: it would slow down all attributes
        return value


class Deferred(Generic[T]):
    """A value that the first thread to need it computes, while other threads wait.

    If the computation fails, the error is raised, and the next call tries again. A value may also be offered
    by others. The first value counts. Copies and pickles contain the value if it is known.

    Examples
    --------
    >>> length = Deferred()
    >>> length.known, length.get(lambda: 3), length.known, length.get(lambda: 4)
    (False, 3, True, 3)
    """

    def __init__(self, *value: T) -> None:
        self._values = list(value)  # the first one counts, which needs no lock
        # Reentrant, so that a computation that needs its own value fails and does not hang.
        self._lock = threading.RLock()
        self._pid = os.getpid()

    @property
    def known(self) -> bool:
        return bool(self._values)

    def offer(self, value: T) -> None:
        """Keep a value, unless there is one."""
        self._values.append(value)
        del self._values[1:]

    def get(self, compute: Callable[[], T]) -> T:
        if not self._values:
            if self._pid != os.getpid():  # a forked child: the thread that held the lock does not exist
                self._lock, self._pid = threading.RLock(), os.getpid()
            with self._lock:
                if not self._values:
                    self.offer(compute())
        return self._values[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return Deferred, tuple(self._values[:1])
