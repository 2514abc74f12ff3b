"""Lines and samples that coroutines of a file system fetch: items, errors, attempts, and what is left."""

from __future__ import annotations

import asyncio
import io
import pickle
import subprocess
import sys
import tarfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk
from seqkit import sources

fsspec = pytest.importorskip("fsspec")
asyn = pytest.importorskip("fsspec.asyn")


class Server:
    """The files of an asynchronous file system, and the reads of them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.reads: Counter[tuple[str, int]] = Counter()
        self.running = self.most = self.cancelled = 0
        self.answer: Callable[[str, int, bytes], Any] = lambda path, start, data: data

    async def read(self, path: str, start: int, end: int) -> bytes:
        self.reads[path, start] += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            found = self.answer(path, start, self.files[path][start:end])
            return await found if asyncio.iscoroutine(found) else found
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1


def tasks_left() -> int:
    """Return how many reads go on after the loop of fsspec has had time to cancel them."""

    async def count() -> int:
        for _ in range(20):
            await asyncio.sleep(0)
        return len(asyncio.all_tasks()) - 1

    return asyncio.run_coroutine_threadsafe(count(), asyn.loop[0]).result(30)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the URLs ``waits://``. The loop of fsspec ends with the test: later ones may fork."""
    found = Server()

    class Waits(asyn.AsyncFileSystem):  # type: ignore[misc]
        protocol = "waits"
        cachable = False

        async def _info(self, path: str, **_: Any) -> dict[str, Any]:
            if path not in found.files:
                raise FileNotFoundError(path)
            return {"name": path, "size": len(found.files[path]), "type": "file"}

        async def _cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> bytes:
            return await found.read(path, start, end)

        def _open(self, path: str, *_: Any, **__: Any) -> Any:
            return io.BytesIO(found.files[path])

    fsspec.register_implementation("waits", Waits, clobber=True)
    yield found
    loop, thread = asyn.loop[0], asyn.iothread[0]
    assert tasks_left() == 0
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    asyn.reset_lock()
    assert [one.name for one in threading.enumerate() if one.name.startswith("seqkit-")] == []


def shard(keys: list[str], format: int = tarfile.USTAR_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as archive:
        for i, key in enumerate(keys):
            for suffix, data in {"jpg": b"j" * (3000 * (i % 3)), "json": b"[%d]" % i}.items():
                info = tarfile.TarInfo(f"{key}.{suffix}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def put(server: Server) -> None:
    server.files |= {
        "t-0.tar": shard([f"{i:03}" for i in range(20)]),
        "t-1.tar": shard([f"{'long' * 40}{i}é" for i in range(20)], tarfile.PAX_FORMAT),
        "1.txt": b"a\n\nb\r\nlast",
        "2.txt": b"",
        "3.txt": b"".join(b"%d\n" % i for i in range(30)),
    }


def views(at: str) -> dict[str, sk.View[Any]]:
    samples: Any = sources.webdataset(f"{at}t-{{0..1}}.tar", {"json": len})
    return {
        "samples": samples,
        "members": samples.select("json"),
        "keys and members": samples.select("__key__", "json"),
        "lines": sources.lines([f"{at}{i}.txt" for i in (1, 2, 3)]),
        "numbers": sources.jsonl(f"{at}3.txt"),
    }


@pytest.mark.parametrize("name", ["samples", "members", "keys and members", "lines", "numbers"])
def test_items_are_those_of_blocking_reads(name: str, server: Server, tmp_path: Path) -> None:
    put(server)
    for path, data in server.files.items():
        (tmp_path / path).write_bytes(data)
    expected = list(views(f"{tmp_path}/")[name])
    view = views("waits://")[name]
    assert list(view) == expected
    server.most = 0
    for source in (view, pickle.loads(pickle.dumps(view))):
        with sk.prefetch(source, 7, "async") as node:
            assert list(node) == expected
            assert node[-1] == expected[-1]
    assert 1 <= server.most <= 7
    order = sk.shuffle(view, seed=0)
    with sk.prefetch(view, 3, "async") as node:
        assert list(sk.shuffle(node, seed=0)) == list(order)


def test_a_failing_read_is_an_error_of_its_item_and_retry_reads_it_again(server: Server) -> None:
    put(server)
    view = sources.lines("waits://3.txt")
    bad = set(range(0, 20, 4))  # the first ten lines take two bytes each

    def fails(path: str, start: int, data: bytes) -> bytes:
        if start in bad:
            raise ConnectionError("hung up")
        return data

    server.answer = fails
    with sk.prefetch(view, 5, "async") as node:
        for i in range(30):
            if i < 10 and i % 2 == 0:
                with pytest.raises(sk.EvaluationError, match=rf"lines\[{i}\].*hung up; file: waits://3\.txt"):
                    node[i]
            else:
                assert node[i] == f"{i}\n"
    server.reads.clear()

    def fails_once(path: str, start: int, data: bytes) -> bytes:
        if server.reads[path, start] == 1:
            raise ConnectionError("hung up")
        return data

    server.answer = fails_once
    with sk.prefetch(sk.retry(view, 2, wait=0), 5, "async") as node:
        assert list(node) == [f"{i}\n" for i in range(30)]
    assert {*server.reads.values()} == {2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1] or b"", "is shorter than before"),
        (lambda data: data + b"xx", "no ranges of bytes"),
    ],
)
def test_other_numbers_of_bytes_are_an_error(
    change: Callable[[bytes], bytes], message: str, server: Server
) -> None:
    put(server)
    view = sources.lines("waits://3.txt")
    server.answer = lambda path, start, data: change(data[:1])
    with sk.prefetch(view, 2, "async") as node, pytest.raises(sk.EvaluationError, match=message):
        node[0]


def test_closing_cancels_the_reads(server: Server) -> None:
    put(server)
    view = sources.lines("waits://3.txt")
    begun = threading.Semaphore(0)

    async def for_ever(path: str, start: int, data: bytes) -> bytes:
        begun.release()
        await asyncio.sleep(3600)
        return data

    server.answer = for_ever
    node = sk.prefetch(view, 4, "async")
    reader = node.open(range(30))
    reader.prepare()
    for _ in range(4):
        assert begun.acquire(timeout=30)
    node.close()
    assert tasks_left() == 0
    assert server.cancelled == 4


def test_files_without_coroutines_are_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n")
    fsspec.filesystem("memory").pipe("/fetching.txt", b"1\n")
    for path in (tmp_path / "a.txt", "memory://fetching.txt"):
        view = sources.lines(path)
        for source in (view, sk.retry(view, 2)):
            with pytest.raises(
                TypeError, match=r"method='async' .* got lines\. Use threads: prefetch\(…, 32\)"
            ):
                sk.prefetch(source, 9, "async")


def test_a_web_server_with_ranges(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    (tmp_path / "a.tar").write_bytes(shard([f"{i:03}" for i in range(50)]))
    code = """
import asyncio, sys, threading
from aiohttp import web
import seqkit as sk
from seqkit import sources
ready, requests = threading.Event(), []
async def serve():
    async def get(request):
        if request.method == "GET":
            requests.append(request.headers.get("Range"))
        return web.FileResponse(f"{sys.argv[1]}/a.tar")
    app = web.Application()
    app.router.add_get("/a.tar", get)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    global port
    port = site._server.sockets[0].getsockname()[1]
    ready.set()
    await asyncio.Event().wait()
threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
ready.wait(30)
view = sources.webdataset(f"http://127.0.0.1:{port}/a.tar")
requests.clear()
with sk.prefetch(view, 10, "async") as node:
    found = list(node)
assert found == list(sources.webdataset(f"{sys.argv[1]}/a.tar"))
assert len(requests) == 50 and None not in requests
assert not [one for one in threading.enumerate() if one.name.startswith("seqkit-")]
"""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=50
    )
    assert (run.returncode, run.stderr) == (0, "")
