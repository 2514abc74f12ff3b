"""Time in which the program was stopped, as by Ctrl-Z. It does not count for the time limit of items."""

from __future__ import annotations

# A wait that takes so much longer than asked was stopped.
LATE_NS = 500_000_000


class Pauses:
    """Notes when the consumer waits, and returns how long items have run without the pauses.

    While the consumer does not wait, a pause cannot be told from its own work. Then only a time longer than
    the limit counts as a pause.

    Examples
    --------
    >>> SECOND = 10**9
    >>> pauses = Pauses(2.0)
    >>> pauses.wait(0, 1.0)  # a wait of one second begins, and takes an hour
    >>> pauses.waited(3600 * SECOND)
    >>> pauses.ran_s(3601 * SECOND, [3601.5, 0.5])
    [1.5, 0.5]
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_ns = int(min(limit_s, 1e9) * 1e9)
        self._began_ns = self._until_ns = self._left_ns = 0
        self._pauses: list[tuple[int, int]] = []  # length of a pause, for items that began before a time

    def wait(self, now_ns: int, wait_s: float) -> None:
        """Note that a wait begins."""
        self._began_ns, self._until_ns = now_ns, now_ns + int(wait_s * 1e9)

    def waited(self, now_ns: int) -> None:
        """Note that a wait is over."""
        self._left_ns = now_ns
        if now_ns - self._until_ns > LATE_NS:
            self._pauses.append((self._until_ns, now_ns - self._began_ns))

    def ran_s(self, now_ns: int, items_s: list[float]) -> list[float]:
        """Return the times that items have run, without the pauses. Call this before `wait`."""
        if self._left_ns and now_ns - self._left_ns > self._limit_ns:
            self._pauses.append((self._left_ns, now_ns - self._left_ns))
            self._left_ns = 0
        if self._pauses:
            oldest_ns = now_ns - int(max(items_s, default=0.0) * 1e9)
            self._pauses = [pause for pause in self._pauses if pause[0] > oldest_ns]
        return [ran_s - self._paused_ns(now_ns - int(ran_s * 1e9)) / 1e9 for ran_s in items_s]

    def _paused_ns(self, began_ns: int) -> int:
        return sum(length_ns for before_ns, length_ns in self._pauses if began_ns < before_ns)
