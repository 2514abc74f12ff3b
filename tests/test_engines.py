"""Items computed by Dask and Ray, each where it is installed: `pip install 'seqkit[test-frameworks]'`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import pytest

import seqkit as sk
from seqkit.engine.executors import named

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which nobody there has

# What engines warn of is not ours to mend.
pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(120)]


@pytest.mark.parametrize(
    ("name", "module", "how"),
    [
        ("dask", "distributed", r"method='dask' needs a client: make a distributed.Client first"),
        ("ray", "ray", r"method='ray' needs Ray running: call ray.init first"),
    ],
)
def test_an_error_says_how_to_start_an_engine_that_does_not_run(name: Any, module: str, how: str) -> None:
    pytest.importorskip(module)
    with pytest.raises(ValueError, match=how):
        sk.prefetch(range(3), method=name)


@pytest.mark.parametrize(("name", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_an_error_names_an_engine_that_is_not_installed(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ImportError, match=rf"method='{name}' needs it installed \(pip install 'seqkit\[{name}\]'"
    ):
        sk.prefetch(range(3), method=name)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def dask() -> Iterator[str]:
    distributed = pytest.importorskip("distributed")
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
        yield "dask"


@pytest.fixture(scope="module")
def ray() -> Iterator[str]:
    ray = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=10**8)
    yield "ray"
    ray.shutdown()


@pytest.fixture(scope="module", params=["dask", "ray"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def jitter(x: int, rng: np.random.Generator) -> int:
    return x * 1000 + int(rng.integers(1000))


def test_a_node_equals_its_source(engine: Any) -> None:
    source = sk.random_map(jitter, sk.shuffle(range(500), seed=1), seed=2)
    with sk.prefetch(source, method=engine) as ahead:
        assert "nworkers=2," in repr(ahead)
        assert list(ahead) == list(source)
        assert list(ahead.at_epoch(3)) == list(source.at_epoch(3))
        assert [ahead[i] for i in (7, -1, 8, 9)] == [source[i] for i in (7, -1, 8, 9)]


def test_arrays_belong_to_the_reader(engine: Any) -> None:
    batches = sk.batch(np.arange(6e5).reshape(60, 10_000), 6, collate_fn=np.stack)
    with sk.prefetch(batches, method=engine) as ahead:
        for found, expected in zip(ahead, batches, strict=True):
            np.testing.assert_array_equal(found, expected)
            found += 1


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def test_a_failing_item_affects_no_other_item(engine: Any) -> None:
    points = sk.smap(lambda x: Point(1 // (x - 5)), range(10))
    with sk.prefetch(points, method=engine) as ahead:
        with pytest.raises(sk.EvaluationError) as caught:
            list(ahead)
        assert caught.value.index == 5
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert isinstance(ahead[6], Point)


def test_an_item_that_kills_its_worker_is_named(engine: Any) -> None:
    fatal = sk.smap(lambda x: os._exit(3) if x == 3 else x, range(6))
    # One at a time: those that are lost with it Dask gives up as well.
    with sk.prefetch(fatal, 1, method=engine, max_buffered=1, chunk_size=1, retries=0) as ahead:
        items = iter(ahead)
        assert [next(items) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(
            sk.WorkerDied, match=r"prefetch\[3\]: a worker of the executor was lost"
        ) as caught:
            next(items)
        assert caught.value.index == 3
        assert list(items) == [4, 5]


def test_dropping_an_iterator_leaves_the_engine_unchanged(
    engine: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    slow = sk.smap(lambda x: time.sleep(0.05) or x, range(40))
    with sk.prefetch(slow, method=engine, chunk_size=1) as ahead:
        for _ in range(3):
            assert next(iter(ahead)) == 0
        assert ahead[7] == 7
    assert "Traceback" not in capfd.readouterr().err


def test_a_node_within_a_task_of_its_engine_has_threads(engine: Any) -> None:
    def item(x: int) -> list[int]:
        return list(sk.prefetch(range(x), method=engine))

    with sk.prefetch(sk.smap(item, range(4)), method=engine) as ahead:
        assert list(ahead) == [[], [0], [0, 1], [0, 1, 2]]


@pytest.mark.parametrize("method", ["thread", "process"])
def test_stages_above_and_below_an_engine(engine: Any, method: Any) -> None:
    expected = [[i, i + 2] for i in range(0, 120, 4)]
    doubled = sk.smap(lambda x: 2 * x, range(60))
    with sk.prefetch(doubled, method=engine) as node, sk.prefetch(sk.batch(node, 2), 2, method) as stage:
        assert list(stage) == expected
    with sk.prefetch(doubled, 4, method) as node, sk.prefetch(sk.batch(node, 2), method=engine) as stage:
        assert list(stage) == expected


def test_several_readers_share_an_engine(engine: Any) -> None:
    with sk.prefetch(sk.smap(abs, range(-50, 0)), method=engine) as ahead:
        for one, other in zip(ahead, ahead, strict=True):
            assert one == other


def test_a_node_that_was_made_outside_of_a_task_does_without_tasks_in_it() -> None:
    distributed = pytest.importorskip("distributed")
    options: Any = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "processes": False}
    with distributed.Client(**options, set_as_default=False) as client:
        sys.modules["inner_node"] = ModuleType("inner_node")
        reading = sk.smap(lambda i: sys.modules["inner_node"].__dict__["node"][i], range(4))
        with client.as_current():
            inner, outer = (
                sk.prefetch(view, method="dask") for view in (sk.smap(abs, range(-4, 0)), reading)
            )
        sys.modules["inner_node"].__dict__["node"] = inner
        with inner, outer:
            assert list(outer) == [4, 3, 2, 1]
        del sys.modules["inner_node"]


# -------------------------------------------------------------------- engines that end; these come last


def told(method: Any, end: Any) -> None:
    """End an engine amid a pass: the reader is told, and does not wait for ever."""
    ahead = sk.prefetch(sk.smap(lambda x: time.sleep(0.05) or x, range(200)), method=method, chunk_size=1)
    items = iter(ahead)
    assert next(items) == 0
    end()
    with pytest.raises(RuntimeError, match="prefetch: the executor takes no more tasks: RuntimeError"):
        list(items)
    with pytest.raises(RuntimeError, match="prefetch: the executor takes no more tasks: RuntimeError"):
        ahead[0]
    ahead.close()


def test_a_closed_client_of_dask_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        client = distributed.Client(cluster, set_as_default=False)
        with client.as_current():
            told("dask", client.close)
    assert "Traceback" not in capfd.readouterr().err


def test_an_executor_of_dask_is_refused_with_the_name_to_use(dask: Any) -> None:
    distributed = pytest.importorskip("distributed")
    with pytest.raises(ValueError, match=r"cannot be an executor of Dask\. Use method='dask'"):
        sk.prefetch(range(3), method=distributed.get_client().get_executor())


def test_tasks_of_dask_that_others_cancel_are_sent_again(dask: Any) -> None:
    distributed = pytest.importorskip("distributed")
    executor: Any = named(dask)
    slow = sk.smap(lambda x: time.sleep(0.02) or x, range(40))
    with sk.prefetch(slow, method=executor, chunk_size=1) as ahead:
        items = iter(ahead)
        assert next(items) == 0
        under_way = list(executor._tasks.values())
        assert under_way
        distributed.get_client().cancel(under_way)
        assert list(items) == list(range(1, 40))


@pytest.mark.stress  # it starts Ray again
def test_ray_that_is_shut_down_is_reported(ray: Any) -> None:
    module = pytest.importorskip("ray")
    not_started = sk.prefetch(range(3), method=ray)
    told(ray, module.shutdown)
    with pytest.raises(RuntimeError, match="Ray has been shut down"):
        not_started[0]
    assert not module.is_initialized()
