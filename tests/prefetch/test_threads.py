"""The backend of threads, without a dispatcher."""

from __future__ import annotations

import threading

import seqkit as sk
from seqkit.prefetch.hooks import worker_info
from seqkit.prefetch.protocol import Done, Job
from seqkit.prefetch.threads import Threads


def test_urgent_jobs_run_first_and_in_the_order_in_which_they_were_asked_for() -> None:
    has_begun, is_open = threading.Event(), threading.Event()

    def work(i: int) -> int:
        if i == 0:
            has_begun.set()
            is_open.wait()
        return i

    backend = Threads(sk.view(sk.smap(work, range(10))), [worker_info(0, 1, 0, "thread")], None, capacity=8)
    backend.start()
    try:
        backend.submit(Job(0, -1, [0]))
        has_begun.wait()
        for ticket, is_urgent in enumerate([False, True, True, False, True], 1):
            backend.submit(Job(ticket, -1, [ticket], is_urgent=is_urgent))
        is_open.set()
        order: list[int] = []
        while len(order) < 6:
            order += [event.ticket for event in backend.receive(10) if isinstance(event, Done)]
    finally:
        backend.close()
    assert order == [0, 2, 3, 5, 1, 4]
