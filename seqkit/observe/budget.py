"""The time and the bytes that a display may cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .steps import Step

__all__ = ["Budget"]


class Budget:
    """Counts the time and the bytes of the items of one display."""

    def __init__(self, clock: Callable[[], float], max_seconds: float | None, max_bytes: int) -> None:
        self._clock, self._max_seconds, self._max_bytes = clock, max_seconds, max_bytes
        self._begun = clock()
        self.nbytes = 0
        self.is_cut = False

    def spent(self) -> float:
        return self._clock() - self._begun

    def within(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Yield steps as long as the budget lasts. The first one is always within it."""
        is_first = self.nbytes == 0
        while is_first or not self._is_used_up():
            step = next(steps, None)
            if step is None:
                return
            is_first = False
            self.nbytes += step.value.nbytes if step.value is not None else 0
            yield step
        self.is_cut = True

    def _is_used_up(self) -> bool:
        late = self._max_seconds is not None and self.spent() >= self._max_seconds
        return late or self.nbytes >= self._max_bytes
