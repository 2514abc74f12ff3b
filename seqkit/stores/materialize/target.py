"""What writes the items of a view to a file, whatever its kind: the plan, and how a later call goes on."""

import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ...core.errors import EvaluationError, fail, summary
from ...core.view import View
from ...core.worker import private_memory
from ..directory import replace_file
from .failed_items import OnError, tolerating

__all__ = ["Ahead", "Target"]

Ahead: TypeAlias = Callable[[View[Any]], Any]


class Target(ABC):
    """Writes the items of a view, each as soon as it is computed.

    Parameters
    ----------
    source : View
    path : str
        Where the result belongs.
    folder : str
        Where it is written.
    chunk_size : int or None
        Rows of a Parquet file.
    """

    def __init__(self, source: View[Any], path: str, folder: str, chunk_size: int | None) -> None:
        self.source = source
        self.n: int = len(source)
        self.path = path
        self.folder = folder
        self.chunk_size = chunk_size
        self.about: dict[str, Any] = {"items": self.n, "expression": repr(source)}
        self.first = 0  # the first item that did not fail

    def start(self, on_error: OnError) -> dict[int, str]:
        """Write the first item, or check that it is that of the folder. Return errors of items before it."""
        try:
            with open(self.within("plan.json")) as file:
                plan = json.load(file)
        except FileNotFoundError:
            plan = None
        if plan is None:  # begin outside of the handler, or it would be the context of an error of an item
            return self._begin(on_error)
        self._resume(plan, on_error)
        return {}

    def _begin(self, on_error: OnError) -> dict[int, str]:
        failed: dict[int, str] = {}
        item = self._first_item(on_error, failed)
        for name in os.listdir(self.folder):
            if name != "lock":  # files of a call that was killed before its plan was written
                os.unlink(self.within(name))
        self.begin(item)
        self.put(self.first, item)
        self._save_plan()
        return failed

    def _first_item(self, on_error: OnError, failed: dict[int, str]) -> Any:
        with private_memory(), tolerating(on_error):
            while True:
                try:
                    return self.source._get(self.first)
                except EvaluationError as error:
                    if callable(on_error):
                        return on_error(error)
                    if on_error == "raise" or self.first == self.n - 1:
                        raise
                    failed[self.first] = summary(error.__cause__ or error)
                    self.first += 1

    def _save_plan(self) -> None:
        plan = {**self.about, "chunk_size": self.chunk_size, "first": self.first, "type": self.type()}
        text = json.dumps(plan).encode()
        replace_file(self.within("plan.json"), lambda file: file.write(text))

    def _resume(self, plan: dict[str, Any], on_error: OnError) -> None:
        same = {name: plan[name] for name in self.about} == self.about
        if not same or self.chunk_size not in (None, plan["chunk_size"]):
            rows = f" in pieces of {plan['chunk_size']}" if plan["chunk_size"] else ""
            raise ValueError(
                f"materialize: {self.folder} holds a part of {plan['expression']}, {plan['items']} items"
                f"{rows}. Delete it to write {self.about['expression']}."
            )
        self.chunk_size, self.first = plan["chunk_size"], plan["first"]
        self.resume(plan["type"])
        # The first item alone may be equal by chance, such as 0 times any factor.
        for i in sorted({self.first, *np.flatnonzero(self.done())[-1:].tolist()}):
            self._check_unchanged(i, on_error)

    def _check_unchanged(self, i: int, on_error: OnError) -> None:
        try:
            with private_memory(), tolerating(on_error):
                found = self.source._get(i)
        except EvaluationError:
            if on_error == "raise":
                raise
            return  # `on_error` may have made the item that is stored
        if not _alike(self.stored(i), self.as_stored(found)):
            raise ValueError(
                f"materialize: item {i} differs from the item {i} in {self.folder}. The function or the data"
                " has changed, or items are random without a seed. Delete the folder to begin again."
            )

    def within(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def refuse(self, i: int, reason: str) -> NoReturn:
        fail(self.source, i, ValueError(reason), "to be written")

    def check(self, failure: OSError | None) -> None:
        """Raise the error of the files, if there was one."""
        if failure is not None:
            failure.add_note(f"The items that were written are in {self.folder}. Call again to continue.")
            raise failure

    def as_stored(self, item: Any) -> Any:
        return item

    def put(self, i: int, item: Any) -> None:
        """Write an item, in any process. It survives if the process is killed afterwards."""
        self.write(i, self.record(i, item))

    def prepare(self) -> None:  # noqa: B027
        """Import what `complete` and `view` need, in another thread while workers compute."""

    @abstractmethod
    def type(self) -> Any:
        """Return the type of items, as a value of JSON."""

    @abstractmethod
    def begin(self, first: Any) -> None:
        """Find the type of items by the first one."""

    @abstractmethod
    def resume(self, kind: Any) -> None:
        """Take the type of the items that were written."""

    @abstractmethod
    def stored(self, i: int) -> Any:
        """Return an item that was written."""

    @abstractmethod
    def record(self, i: int, item: Any) -> Any:
        """Return what `write` writes for an item. Refuse an item that does not fit. May run its code."""

    @abstractmethod
    def write(self, i: int, record: Any) -> None:
        """Write a record. Runs no code of the item, so an OSError comes from the files."""

    @abstractmethod
    def done(self) -> npt.NDArray[np.bool_]:
        """Return which items are written."""

    @abstractmethod
    def complete(self, kept: npt.NDArray[np.intp], ahead: Ahead) -> None:
        """Move the result, with the items at some indices, to its place."""

    @abstractmethod
    def view(self) -> View[Any]:
        """Return a view of the result."""


def _alike(a: Any, b: Any) -> bool:
    """Return whether two results of a computation are equal. Sums of floats may be rounded otherwise."""
    if type(a) is not type(b) and not (isinstance(a, dict | list) and isinstance(b, dict | list)):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, np.ndarray | np.generic):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return False
        if a.dtype.kind in "fc":
            return bool(np.allclose(a, b, rtol=1e-3, equal_nan=True))
        return bool(a.tobytes() == b.tobytes())
    if isinstance(a, float):
        return math.isclose(a, b, rel_tol=1e-3) or (a != a and b != b)
    return bool(a == b)
