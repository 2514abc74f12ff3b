"""When nobody looks, observing costs no Python call per item."""

import sys
import threading
from collections import Counter

import pytest

import seqkit as sk

N = 1000


def calls(run):
    """Return how often each Python function is called by `run`, in all threads that it starts."""
    found = Counter()

    def count(frame, event, _):
        if event == "call":
            found[frame.f_code.co_filename, frame.f_code.co_name] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def same(x):
    return x


def read(*workers):
    with sk.prefetch(sk.smap(same, range(N)), *workers, chunk_size=100) as node:
        assert sum(1 for _ in node) == N


PIPELINES = {
    "threads": lambda: read(1, "thread"),
    "processes": lambda: read(1, "process"),
    "loader": lambda: list(sk.DataLoader(sk.smap(same, range(N)), num_workers=0)),
    "view": lambda: list(sk.smap(same, range(N))),
    "indexing": lambda: [view[i] for view in [sk.smap(same, range(N))] for i in range(N)],
}


@pytest.mark.parametrize("name", PIPELINES)
def test_no_function_that_observes_is_called(name):
    PIPELINES[name]()  # modules are imported now
    found = calls(PIPELINES[name])
    assert not [file for file, _ in found if "/seqkit/observe/" in file]
    if name == "view":
        assert found[__file__, "same"] == N
        assert found.total() < 2 * N + 100  # each item also resumes the generator of the map
    if name in ("threads", "processes"):  # a chunk is handed out and counted by one call
        handing_out = sum(number for (_, called), number in found.items() if called == "_hand_out")
        assert 10 <= handing_out < N / 10  # on a busy machine a chunk may come in parts
