"""Why items of a view differ between two ways to read it: experiments first, then names in its code."""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..core.randomness import changed_generators, global_states
from ..core.view import View
from ..prefetch.child import start_method
from ..prefetch.culprits import ways
from ..prefetch.repeated import repetition_warning, variables_around
from .digest import digest
from .ways import digests, of_views

__all__ = ["Evidence", "cause_of"]

LIMIT_S = 30.0
_THREADS = {"1 thread", "2 threads"}
_PROCESSES = {"1 process", "2 processes"}
_SPAWNED = "2 spawned processes"

_CLOCKS = {
    "time",
    "time_ns",
    "perf_counter",
    "perf_counter_ns",
    "monotonic",
    "now",
    "today",
    "utcnow",
    "ctime",
}
_SYSTEM = {"urandom", "uuid1", "uuid4", "token_bytes", "token_hex", "SystemRandom", "getrandbits"}
_PLACES = {"id", "getpid", "get_ident", "current_thread", "current_process", "get_worker_info"}

Cause = tuple[str, str]


@dataclass(frozen=True)
class Evidence:
    """The facts about a difference.

    `suspect` is the view or loader, `read` computes one of its differing items here. `way` differs, and so do
    the ways in `firsts`. `values` are an item without workers and read this way. `selected` is the view of
    the items that were read, and `others` are its items read this way.
    """

    suspect: Any
    read: Callable[[], Any]
    way: str
    firsts: dict[str, int]
    values: tuple[Any, Any] | None = None
    selected: View[Any] | None = None
    others: Sequence[Any] = ()


def cause_of(evidence: Evidence) -> Cause:
    """Return the probable cause of a difference, and a remedy."""
    loads = _loads(_functions(evidence.suspect))
    return (
        _global_generators(evidence)
        or _own_generator(evidence)
        or _mentioned(loads)
        or _last_bits(evidence)
        or _spawned(evidence)
        or _threads(evidence)
        or (
            "It keeps state from item to item, or uses a state that changes; each process has its own copy",
            "Compute an item from its index and its data only",
        )
    )


_RANDOM_MAP = "Use sk.random_map(f, items), which calls f(item, rng) with a generator for each item"


def _global_generators(evidence: Evidence) -> Cause | None:
    before = global_states()
    try:
        evidence.read()
    except Exception:
        pass
    drawn = [f"`{name}`" for name in changed_generators(before)]
    return (f"It draws from the global generator of {' and '.join(drawn)}", _RANDOM_MAP) if drawn else None


def _own_generator(evidence: Evidence) -> Cause | None:
    if not isinstance(evidence.suspect, View):
        return None
    text = repetition_warning(evidence.suspect)
    if text is None:
        return None
    way = text.partition("start: ")[2].partition(". Use sk.")[0]
    return f"It draws from a generator of its own, whose state each process copies: {way}", _RANDOM_MAP


def _mentioned(loads: set[str]) -> Cause | None:
    for names, what, remedy in (
        (_CLOCKS, "It reads the clock", "Keep times out of items"),
        (_SYSTEM, "It draws random numbers from the system", _RANDOM_MAP),
        (_PLACES, "It depends on the process, the thread or the address of an object", "Use an index or key"),
    ):
        if used := sorted(loads & names):
            return f"{what}: {', '.join(f'`{name}`' for name in used)}", remedy
    return None


def _last_bits(evidence: Evidence) -> Cause | None:
    if evidence.values is None or not _nearly(*evidence.values):
        return None
    return (
        "Only the last bits of floats differ: native threads (BLAS, OpenMP) add numbers in another order here"
        " than in workers, which have one native thread each",
        "Set the environment variable SEQKIT_NATIVE_THREADS=0, or OMP_NUM_THREADS=1 for the whole program",
    )


def _nearly(one: Any, other: Any) -> bool:
    """Are two items equal but for the last bits of floats?"""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(_nearly(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_nearly, one, other))
    if isinstance(one, float | np.floating | np.ndarray) or hasattr(one, "detach"):
        try:
            first, second = np.asarray(one), np.asarray(other)
            is_float = first.dtype.kind == "f" and first.shape == second.shape
            return digest(one) == digest(other) or (
                is_float and bool(np.allclose(first, second, rtol=1e-4, atol=1e-6, equal_nan=True))
            )
        except Exception:
            return False
    return digest(one) == digest(other)


def _spawned(evidence: Evidence) -> Cause | None:
    # Where forking is unsafe, beside other threads, all processes are spawned.
    are_spawned = {_SPAWNED} if start_method() is None else {_SPAWNED, *_PROCESSES}
    if evidence.way not in are_spawned or evidence.selected is None:
        return None
    way, view = next(way for way in of_views() if way.name == _SPAWNED), evidence.selected
    again = digests(way.read(view, len(view), LIMIT_S))
    if again != digests(iter(evidence.others)) or _reordered(evidence.values):
        return (
            "The order of a set, or the hash of a text, which differ between interpreters",
            "Sort the set: sorted(s). Or set PYTHONHASHSEED for the whole program",
        )
    return (
        "It uses a variable that the program has set at run time; spawned processes import modules anew and"
        " do not see it",
        "Set it in start_hook (worker_init_fn of a loader), or pass it as an argument with functools.partial",
    )


def _reordered(values: tuple[Any, Any] | None) -> bool:
    """Are two items lists or dicts of the same elements in another order?"""
    if values is None or not all(isinstance(value, list | tuple | dict) for value in values):
        return False
    lists = [list(value.items()) if isinstance(value, dict) else value for value in values]
    one, other = ([digest(part) for part in value] for value in lists)
    return one != other and sorted(one) == sorted(other)


def _threads(evidence: Evidence) -> Cause | None:
    if not evidence.firsts.keys() <= _THREADS:
        return None
    return (
        "Threads change an object that they share while others use it",
        "Make a new object for each item, or use processes",
    )


# -------------------------------------------------------------------- code


def _functions(suspect: Any) -> list[FunctionType]:
    """Return the functions of the user that a view calls itself, and those that they call."""
    found: list[FunctionType] = []

    def note(value: Any) -> bool:
        if isinstance(value, FunctionType) and not value.__module__.startswith("seqkit."):
            found.append(value)
        return False

    for _ in ways(_own(suspect), note):
        pass
    return found


def _own(suspect: Any) -> Any:
    """Return the objects of a view itself, without the views below it."""
    if not isinstance(suspect, View):
        return suspect
    if not suspect._sources:
        try:
            return [suspect._wrapped()]
        except AttributeError:
            return suspect
    if chain := getattr(suspect, "_chain", None):  # a map holds the functions of the maps below, too
        return [chain.layers[-1][0]]
    return [value for name, value in vars(suspect).items() if name not in ("_sources", "_site")]


def _loads(functions: list[FunctionType]) -> set[str]:
    """Return the functions of modules and classes, and the global functions, that code uses.

    Attributes of other objects do not count: ``row.time`` is no clock.
    """
    names: set[str] = set()
    for function in functions:
        known = function.__globals__ | variables_around(function)
        imported: set[str] = set()
        is_module = False  # whether the latest value is a module or a class
        for instruction in dis.get_instructions(function.__code__):
            operation, name = instruction.opname, instruction.argval
            if operation in ("LOAD_ATTR", "LOAD_METHOD"):
                if is_module:
                    names.add(name)
            elif operation in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
                is_module = isinstance(known.get(name), type | ModuleType)
                if name not in known or (callable(known[name]) and not is_module):
                    names.add(name)
            elif operation in ("IMPORT_NAME", "IMPORT_FROM"):
                is_module = True
                if operation == "IMPORT_FROM":
                    names.add(name)
            elif operation.startswith("STORE_"):
                if is_module:
                    imported.add(name)
            elif operation != "PUSH_NULL":
                is_module = operation.startswith("LOAD_FAST") and name in imported
    return names
