"""`fallback`: go on where an item cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, TypeVar

from ..core.arguments import check_callable
from ..core.errors import EvaluationError, errstate, fail, seterr
from ..core.expression import name_of
from ..core.indices import Indices, Plan
from ..core.iteration import surviving
from ..core.lengths import Unsized
from ..core.source import as_view
from ..core.view import Indexable, View
from .bases.forwards import next_item
from .filter import Filter
from .uniter import Uniter

__all__ = ["Fallback", "Skipping", "fallback"]

T = TypeVar("T")
U = TypeVar("U")


def fallback(
    f: Callable[[EvaluationError], U] | Literal["replace", "skip"], sequence: Indexable[T]
) -> View[T | U]:
    """Return the view of the items of a sequence, with something else in place of an item that fails.

    Parameters
    ----------
    f : callable, "replace" or "skip"
        A function is called with the error of the item, and returns the item to use. "replace" uses the next
        item that can be read; the first item follows the last one. "skip" leaves the item out.
    sequence : View or indexable
        "replace" needs a length, and "skip" too unless the view is only iterated.

    Returns
    -------
    View
        As long as `sequence`, or shorter with "skip".

    Raises
    ------
    TypeError
        If `f` is neither callable nor a word, or `sequence` cannot be indexed.
    ValueError
        For another word than these.
    EvaluationError
        With "replace", for an item if no item can be read. For an iterable that breaks, because nothing can
        be read after it.

    Notes
    -----
    The function is called with an `EvaluationError` under any `seterr` policy: ``error.index`` is the index
    of the item in ``error.view``, and ``error.__cause__`` the exception. Ctrl-C, and errors of the function
    itself, are raised. "skip" costs what `filter` costs: the length needs a scan of all items.
    An item that the scan could read, and that fails later, raises its error.
    ``DataLoader(on_error=...)`` does the same for its samples, and lists them in ``loader.failed``.

    Examples
    --------
    >>> import seqkit as sk
    >>> numbers = sk.smap(int, ["1", "two", "3"])
    >>> list(fallback(lambda error: None, numbers))
    [1, None, 3]
    >>> list(fallback("replace", numbers)), list(fallback("skip", numbers))
    ([1, 3, 3], [1, 3])
    >>> failed = []
    >>> def note(error):
    ...     failed.append(str(error.__cause__))
    ...     return 0
    >>> sum(fallback(note, numbers)), failed
    (4, ["invalid literal for int() with base 10: 'two'"])
    """
    if not isinstance(f, str):
        check_callable(f, "fallback: f")
    elif f not in ("skip", "replace"):
        raise ValueError(f"fallback: f must be callable, 'replace' or 'skip', got {f!r}")
    source = as_view(sequence, "fallback")
    if f == "skip":
        return Skipping(_is_read, source)
    return Fallback(f, source)


class Missing:
    """The item in place of one that fails, while a scan finds out which items can be read."""

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


def _is_read(item: Any) -> bool:
    return not isinstance(item, Missing)


Note = Callable[[Any, EvaluationError], object]


class Fallback(View[Any]):
    """The view that `fallback` returns. Below a loader its indices may be keys of any kind."""

    def __init__(self, f: Any, source: View[Any]) -> None:
        super().__init__((source,))
        self._f = f

    def _get(self, i: Any) -> Any:
        return self._item(i, self._sources[0]._get, i)

    def _iter(self, plan: Plan) -> Iterator[Any]:
        items = self._sources[0]._iter(plan)

        def read(i: int) -> Any:
            return self._item(i, next_item, items, i)

        return surviving(self, plan, read)

    def _getmany(self, indices: Indices) -> Sequence[Any]:
        return list(self._iter(indices))  # a batched read that fails would read the other items again

    def _item(self, i: Any, read: Callable[..., Any], *arguments: Any) -> Any:
        """Return ``read(*arguments)``, which is item `i` of the source, or the item in its place."""
        errors: list[EvaluationError] = []
        try:
            for item in self._found(i, lambda i, error: errors.append(error), read, *arguments):
                return item
            raise _as_policy_says(errors[0])
        finally:
            errors.clear()  # so that no error refers to itself

    def _found(self, i: Any, note: Note, read: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Yield an item, or the item in its place if there is one. Call `note` for each error on the way."""
        for k in chain([i], self._others(i)):
            try:
                # Under either error policy, a failure arrives here as an EvaluationError.
                with errstate("wrap"):
                    item = read(*arguments) if k is i else self._sources[0]._get(k)
            except EvaluationError as error:
                if isinstance(error.view, Uniter):  # nothing can be read after it
                    raise _as_policy_says(error) from error.__cause__
                note(k, error)
                if not callable(self._f):
                    continue
                item = self._instead(k, error)
            yield item
            return

    def _instead(self, i: Any, error: EvaluationError) -> Any:
        try:
            return self._f(error)
        except EvaluationError as again:
            raise _as_policy_says(again) from again.__cause__
        except Exception as own:
            fail(self, i, own, "in f")

    def _others(self, i: Any) -> Iterable[int]:
        if self._f != "replace" or not isinstance(i, int) or isinstance(n := self._n, Unsized):
            return ()
        return chain(range(i + 1, n), range(i))

    def _rebuild(self, sources: tuple[View[Any], ...]) -> View[Any]:
        return type(self)(self._f, sources[0])

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self._f,) if callable(self._f) else ()

    def _arguments(self, sources: list[str]) -> list[str]:
        return [name_of(self._f) if callable(self._f) else repr(self._f), *sources]


class Skipping(Filter[Any]):
    """The view that `fallback` returns for "skip": the items that a scan could read.

    The first scan decides which items these are. If one of them fails later, its error is raised.
    """

    def _to_scan(self) -> View[Any]:
        return Fallback(Missing, self._sources[0])

    def _is_wanted(self, j: int, item: Any) -> bool:
        wanted = super()._is_wanted(j, item)
        if wanted and isinstance(item, Missing):  # an earlier scan could read it
            raise _as_policy_says(item.error)
        return wanted

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return ()

    def _arguments(self, sources: list[str]) -> list[str]:
        return [repr("skip"), *sources]


Skipping._name = Fallback._name


def _as_policy_says(error: EvaluationError) -> BaseException:
    """Return the error to raise in place of one that was asked for under the policy "wrap"."""
    return error.__cause__ if seterr() == "passthrough" and error.__cause__ is not None else error
