"""Loaders and views in the hands of training frameworks, and sources of others in those of loaders.

Each test runs where its framework is installed: `pip install 'seqkit[test-frameworks]'`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk

from .ways import WAYS

torch = pytest.importorskip("torch")

from seqkit.torch import DataLoader  # noqa: E402

# What frameworks warn of at their import, and of how they are used here, is not ours to mend.
pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]

some_ways = pytest.mark.parametrize("way", WAYS)


def double(item: Any) -> Any:
    return item[0] * 2, item[1]


POINTS = sk.collate([np.arange(24, dtype=np.float32).reshape(12, 2), np.arange(12)])


def samples() -> sk.View[Any]:
    """The points in an order of their own, each twice as large as it was."""
    return sk.smap(double, sk.shuffle(POINTS, seed=0))


def labels(batches: Any) -> list[int]:
    return [int(label) for _, batch in batches for label in batch]


ORDER = [label for _, label in samples()]


# -------------------------------------------------------------------- accelerate


@pytest.fixture
def accelerator() -> Any:
    return pytest.importorskip("accelerate").Accelerator(cpu=True)


def test_accelerate_shards_a_loader_of_torch_over_a_view(accelerator: Any) -> None:
    loader = accelerator.prepare(torch.utils.data.DataLoader(samples(), 4))
    assert labels(loader) == ORDER
    assert labels(accelerator.skip_first_batches(loader, 2)) == ORDER[8:]


@some_ways
def test_a_loop_of_accelerate_reads_a_loader(accelerator: Any, way: dict[str, Any]) -> None:
    model, optimizer = accelerator.prepare(torch.nn.Linear(2, 1), None)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with DataLoader(samples(), 4, **way) as loader:
        prepared = accelerator.prepare(loader)
        seen = []
        for points, batch in prepared:
            optimizer.zero_grad()
            accelerator.backward(model(points.to(accelerator.device)).square().mean())
            optimizer.step()
            seen += batch.tolist()
    assert seen == ORDER


@some_ways
def test_accelerate_saves_where_a_loader_is(accelerator: Any, way: dict[str, Any], tmp_path: Path) -> None:
    with DataLoader(samples(), 4, **way) as loader:
        accelerator.register_for_checkpointing(loader)
        iterator = iter(loader)
        next(iterator)
        accelerator.save_state(tmp_path / "state")
        rest = labels(iterator)
        assert rest == ORDER[4:]
        accelerator.load_state(tmp_path / "state")
        assert labels(loader) == rest


# -------------------------------------------------------------------- lightning


def trained(loader: Any, directory: Path, save_at: int = -1, resume: Path | None = None) -> list[int]:
    """Fit a model for two epochs; return the labels that it saw."""
    lightning = pytest.importorskip("lightning")

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)
            self.seen: list[int] = []

        def training_step(self, batch: Any, _: int) -> Any:
            self.seen += batch[1].tolist()
            return self.layer(batch[0]).square().mean()

        def on_train_batch_end(self, *_: Any) -> None:
            if self.global_step == save_at:
                self.trainer.save_checkpoint(directory / "middle.ckpt")

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(
        accelerator="cpu", default_root_dir=directory, max_epochs=2, enable_checkpointing=False, **quiet
    )
    model = Model()
    trainer.fit(model, loader, ckpt_path=resume)
    return model.seen


def test_lightning_trains_on_a_loader_of_torch_over_a_view(tmp_path: Path) -> None:
    assert trained(torch.utils.data.DataLoader(samples(), 4), tmp_path) == ORDER * 2


@some_ways
def test_lightning_trains_on_a_loader(way: dict[str, Any], tmp_path: Path) -> None:
    with DataLoader(POINTS, 4, **way) as loader:
        assert trained(loader, tmp_path) == [*range(12)] * 2


@some_ways
@pytest.mark.parametrize("save_at", [4, 6, 9])
def test_lightning_goes_on_where_it_was(way: dict[str, Any], save_at: int, tmp_path: Path) -> None:
    with DataLoader(POINTS, 2, shuffle=True, seed=3, **way) as loader:
        seen = trained(loader, tmp_path, save_at)
    with DataLoader(POINTS, 2, shuffle=True, seed=3, **way) as loader:
        assert trained(loader, tmp_path, resume=tmp_path / "middle.ckpt") == seen[2 * save_at :]


# -------------------------------------------------------------------- grain, Hugging Face


def test_a_view_is_a_source_of_grain() -> None:
    grain = pytest.importorskip("grain.python")
    source = grain.MapDataset.source(samples())
    assert [int(label) for _, label in source] == ORDER
    assert labels(source.batch(4)) == ORDER


@some_ways
def test_a_source_of_grain_is_a_data_set(way: dict[str, Any]) -> None:
    grain = pytest.importorskip("grain.python")
    source = grain.MapDataset.source(np.arange(12, dtype=np.float32)).map(lambda x: x * 2)
    with DataLoader(source, 4, **way) as loader:
        assert torch.cat(list(loader)).tolist() == [2.0 * i for i in range(12)]


@some_ways
def test_a_data_set_of_hugging_face_is_a_data_set(way: dict[str, Any]) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"x": [float(i) for i in range(12)], "y": list(range(12))})
    with DataLoader(rows.with_format("torch"), 4, shuffle=True, seed=0, **way) as loader:
        batches = list(loader)
    assert sorted(int(y) for batch in batches for y in batch["y"]) == list(range(12))
    assert all((batch["x"] == batch["y"]).all() for batch in batches)
