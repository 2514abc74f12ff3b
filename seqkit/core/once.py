"""`cached`: an attribute that is computed when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["cached"]

T = TypeVar("T")


class cached(Generic[T]):  # noqa: N801 - a decorator
    """Compute an attribute when it is first used, then keep it.

    `functools.cached_property` of Python 3.11 holds one lock for all instances while it computes. If the
    computation waits for a thread that needs the attribute of another instance, both hang. Without a lock,
    two threads may compute the same value.

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
        setattr(instance, self._name, value)  # not by `vars`: it would slow down all attributes
        return value
