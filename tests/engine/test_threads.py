"""The backend of threads, without a scheduler."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import seqkit as sk
from seqkit.engine import threads
from seqkit.engine.hooks import worker_info
from seqkit.engine.protocol import Done
from seqkit.engine.threads import Threads, _Run

from .fake import a_job
from .traces import drawn


def test_urgent_jobs_run_first_and_in_the_order_in_which_they_were_asked_for() -> None:
    has_begun, is_open = threading.Event(), threading.Event()

    def work(i: int) -> int:
        if i == 0:
            has_begun.set()
            is_open.wait()
        return i

    pipeline = sk.view(sk.smap(work, range(10)))
    backend = Threads(pipeline, sk.prefetch(pipeline, 1, max_buffered=8, seed=0)._settings)
    backend.start()
    try:
        backend.submit(a_job(0, [0]))
        has_begun.wait()
        for ticket, is_urgent in enumerate([False, True, True, False, True], 1):
            backend.submit(a_job(ticket, [ticket], is_urgent=is_urgent))
        is_open.set()
        order: list[int] = []
        while len(order) < 6:
            order += [event.job.ticket for event in backend.receive(10) if isinstance(event, Done)]
    finally:
        backend.close()
    assert order == [0, 2, 3, 5, 1, 4]


def test_the_clock_of_an_item_never_shows_its_wait_for_a_stage_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer may look at any moment, also while the clock is set going again."""
    now_ns = 10**12

    class Watched(_Run):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name in ("item_ns", "_stood_ns") and hasattr(self, "_stood_ns"):
                seen.append(self.ran_s())

    seen: list[float] = []
    monkeypatch.setattr(threads, "monotonic_ns", lambda: now_ns)
    run = Watched(threading.current_thread(), worker_info(0, 1, 0, "thread"), a_job(1, [0]))
    with run:
        now_ns += 60 * 10**9
    now_ns += 10**9
    assert max(seen) == 0.0
    assert run.ran_s() == 1.0


def test_an_error_keeps_its_place_if_its_job_is_delivered_in_parts() -> None:
    may_go_on = threading.Event()

    def item(i: int) -> int:
        if i == 1:
            assert may_go_on.wait(30)
        if i == 2:
            raise ValueError(i)
        return i

    with sk.prefetch(sk.smap(item, range(4)), 1, "thread", chunk_size=4) as node:
        items = iter(node)
        assert next(items) == 0  # while the job waits at item 1
        may_go_on.set()
        one, error, three = drawn(items)
    assert (one, error.index, three) == (1, 2, 3)
