"""Fetch 600 documents from a slow server that fails now and then, and keep their features in Parquet files.

The first run is killed in the middle. The second one goes on: only the parts in work are fetched again. The
server runs in a thread of this program, so no network is needed.

    python examples/http_features.py
"""

from __future__ import annotations

import asyncio
import collections
import subprocess
import sys
import tempfile
import threading
from typing import Any

import numpy as np

import seqkit as sk

N, AT_ONCE, PART = 600, 50, 25


# ---------------------------------------------------------------- the pipeline


async def fetch(address: tuple[str, int], number: int) -> bytes:
    """Return a document. Raise OSError if the server fails, or hangs up."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(b"GET /%d HTTP/1.0\r\n\r\n" % number)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    if not head.startswith(b"HTTP/1.0 200"):
        raise OSError(head.partition(b"\r\n")[0].decode() or "the server hung up")
    return body


def features(document: bytes) -> dict[str, Any]:
    counts = np.bincount(np.frombuffer(document, np.uint8), minlength=256)
    return {"size": len(document), "letters": int(counts[97:123].sum()), "spaces": int(counts[32])}


def table(address: tuple[str, int], folder: str) -> sk.View[dict[str, Any]]:
    async def fetched(number: int) -> bytes:
        return await fetch(address, number)

    documents = sk.retry(sk.smap(fetched, range(N)), 5, wait=0.02)
    with sk.prefetch(documents, AT_ONCE, "async", max_buffered=AT_ONCE) as ahead:
        return sk.materialize(sk.smap(features, ahead), folder, nworkers=0, chunk_size=PART)


# ---------------------------------------------------------------- the server


def document(number: int) -> bytes:
    return f"document {number} ".encode() * (1 + number % 97)


class Server:
    """Answers after 20 ms. Each seventh document fails at first, and each fiftieth hangs up at first."""

    def __init__(self) -> None:
        self.requests: collections.Counter[int] = collections.Counter()
        self.has_seen_half = threading.Event()
        self._is_up = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._is_up.wait()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.address = server.sockets[0].getsockname()[:2]
        self._is_up.set()
        await server.serve_forever()

    async def _answer(self, reader: Any, writer: Any) -> None:
        line = await reader.readline()
        number = int(line.split()[1][1:])
        self.requests[number] += 1
        if self.requests.total() >= N // 2:
            self.has_seen_half.set()
        await asyncio.sleep(0.02)
        is_first = self.requests[number] == 1
        if is_first and number % 7 == 0:
            writer.write(b"HTTP/1.0 503 Service Unavailable\r\n\r\n")
        elif not (is_first and number % 50 == 3):
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + document(number))
        writer.close()


# ---------------------------------------------------------------- two runs


def main() -> None:
    server, folder = Server(), f"{tempfile.mkdtemp()}/features.parquet"
    host, port = server.address
    first = subprocess.Popen([sys.executable, __file__, host, str(port), folder])
    while not server.has_seen_half.wait(0.1):
        assert first.poll() is None, "the first run has failed"
    first.kill()  # as if the machine had gone down
    first.wait()
    before = server.requests.total()

    rows = table(server.address, folder)
    expected = [features(document(number)) for number in range(N)]
    assert [dict(row) for row in rows] == expected

    failures = sum(number % 7 == 0 or number % 50 == 3 for number in range(N))
    again = server.requests.total() - N - failures
    print(f"requests: {N} for documents, {failures} that failed, {again} again because of the kill")
    print(f"the kill came after {before} requests")
    assert 0 <= again <= 2 * PART + AT_ONCE


if __name__ == "__main__":
    if len(sys.argv) > 1:
        table((sys.argv[1], int(sys.argv[2])), sys.argv[3])
    else:
        main()
