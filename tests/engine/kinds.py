"""The ways to compute ahead that the prefetch tests run over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import seqkit as sk

__all__ = ["CONTEXTS", "KINDS", "PROCESSES", "Kind"]


@dataclass(frozen=True)
class Kind:
    """A method, and for processes how they start."""

    method: str
    context: str | None = None

    def __str__(self) -> str:
        return self.context or self.method

    def ahead(self, source: Any, nworkers: int = 2, **options: Any) -> sk.Prefetch:
        return sk.prefetch(source, nworkers, self.method, context=self.context, **options)  # type: ignore[arg-type]


CONTEXTS = ("fork", "forkserver", "spawn")
PROCESSES = [Kind("process", context) for context in CONTEXTS]
KINDS = [Kind("thread"), *PROCESSES]
