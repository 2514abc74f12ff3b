"""Loaders and views in the hands of training frameworks, and sources of others in those of loaders.

Each test runs where its framework is installed: `pip install 'seqkit[test-frameworks]'`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqkit as sk

from .ways import WAYS

torch = pytest.importorskip("torch")

from seqkit.samplers import RandomSampler  # noqa: E402
from seqkit.torch import DataLoader, default_collate  # noqa: E402

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


def make_loader(way: dict[str, Any], **options: Any) -> DataLoader[Any]:
    return DataLoader(POINTS, 4, shuffle=True, seed=3, transform=double, **way, **options)


def points(batches: Any) -> list[list[list[float]]]:
    return [batch.tolist() for batch, _ in batches]


@some_ways
def test_accelerate_skips_batches_in_each_of_three_epochs(accelerator: Any, way: dict[str, Any]) -> None:
    with make_loader(way) as loader:
        expected = [points(loader) for _ in range(3)]
    assert expected[0] != expected[1] != expected[2]
    with make_loader(way) as loader:
        prepared = accelerator.prepare(loader)
        assert [points(accelerator.skip_first_batches(prepared, 1)) for _ in range(3)] == [
            epoch[1:] for epoch in expected
        ]
    with make_loader(way) as loader:  # a resume in the second epoch
        loader.set_epoch(1)
        found = [points(accelerator.skip_first_batches(loader, 2)), points(loader)]
        assert found == [expected[1][2:], expected[2]]


@some_ways
def test_a_loader_over_a_sampler_is_skipped_by_accelerate(accelerator: Any, way: dict[str, Any]) -> None:
    def loader() -> DataLoader[Any]:
        return DataLoader(POINTS, 4, sampler=RandomSampler(POINTS, seed=5), transform=double, **way)

    with loader() as whole, loader() as cut:
        expected = [points(whole) for _ in range(3)]
        assert [points(accelerator.skip_first_batches(cut, 1)) for _ in range(3)] == [
            epoch[1:] for epoch in expected
        ]


# -------------------------------------------------------------------- transformers


def run_trainer(loader: Any, directory: Path, stop_at: int = -1, resume: bool = False) -> list[int]:
    """Train for three epochs, or up to a step; return the labels that the model saw."""
    transformers = pytest.importorskip("transformers")
    seen: list[int] = []

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def forward(self, points: Any, labels: Any) -> dict[str, Any]:
            seen.extend(labels.tolist())
            return {"loss": self.layer(points).square().mean()}

    class Trainer(transformers.Trainer):  # type: ignore[misc, name-defined]
        def get_train_dataloader(self) -> Any:
            return self.accelerator.prepare(loader)

    class Stop(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_step_end(self, _: Any, state: Any, control: Any, **__: Any) -> None:
            if state.global_step == stop_at:
                control.should_save = control.should_training_stop = True

    arguments = transformers.TrainingArguments(
        output_dir=str(directory),
        num_train_epochs=3,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        learning_rate=0.0,
    )
    trainer = Trainer(Model(), arguments, train_dataset=POINTS, callbacks=[Stop()])
    trainer.train(resume_from_checkpoint=str(directory / f"checkpoint-{stop_at}") if resume else None)
    return seen


def as_arguments(samples: Any) -> dict[str, Any]:
    points, labels = default_collate(samples)
    return {"points": points, "labels": labels}


@some_ways
@pytest.mark.parametrize("stop_at", [2, 5])
def test_a_trainer_goes_on_where_it_was(way: dict[str, Any], stop_at: int, tmp_path: Path) -> None:
    def loader() -> DataLoader[Any]:
        return make_loader(way, collate_fn=as_arguments)

    with loader() as whole, loader() as first, loader() as second:
        expected = run_trainer(whole, tmp_path / "whole")
        assert len(expected) == 36
        read = run_trainer(first, tmp_path, stop_at)
        assert read == expected[: 4 * stop_at]
        assert run_trainer(second, tmp_path, stop_at, resume=True) == expected[4 * stop_at :]


# -------------------------------------------------------------------- attributes that frameworks set


@some_ways
def test_a_collate_fn_that_is_set_after_iter_counts(way: dict[str, Any]) -> None:
    with make_loader({}) as loader:
        expected, again = labels(loader), labels(loader)
    with make_loader(way) as loader:
        iter(loader)  # a check, as Lightning does
        loader.collate_fn = as_arguments
        assert [int(label) for batch in loader for label in batch["labels"]] == expected
        if not loader.persistent_workers:  # whose workers stay as they are
            loader.collate_fn = default_collate
            assert labels(loader) == again


@some_ways
def test_a_composed_function_that_is_set_back_changes_nothing(way: dict[str, Any]) -> None:
    with make_loader(way) as loader:
        expected = points(loader)
    with make_loader(way) as loader:
        loader.collate_fn = loader.collate_fn  # transform and collation in one
        assert points(loader) == expected


# -------------------------------------------------------------------- lightning


def trained(
    loader: Any, directory: Path, save_at: int = -1, resume: Path | None = None, **options: Any
) -> list[int]:
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
        accelerator="cpu",
        default_root_dir=directory,
        max_epochs=2,
        enable_checkpointing=False,
        **quiet,
        **options,
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


@some_ways
def test_lightning_seeds_the_workers_of_a_loader(way: dict[str, Any], tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    lightning.seed_everything(1, workers=True, verbose=False)
    with make_loader(way) as loader:
        assert sorted(trained(loader, tmp_path)) == sorted([*range(12)] * 2)


class Stream:
    """Samples without a length."""

    def __iter__(self) -> Any:
        return iter(POINTS)


class Sized(Stream):
    def __len__(self) -> int:
        return 12


@pytest.mark.parametrize(("dataset", "begins_at"), [(Stream(), 6), (Sized(), 4)])
def test_lightning_is_one_batch_ahead_of_a_loader_without_length(
    dataset: Any, begins_at: int, tmp_path: Path
) -> None:
    with DataLoader(dataset, 2) as loader:
        seen = trained(loader, tmp_path, save_at=2)
    assert seen == [*range(12)] * 2
    with DataLoader(dataset, 2) as loader:
        rest = trained(loader, tmp_path, resume=tmp_path / "middle.ckpt")
    # Lightning had read the third batch to find the end of the epoch, and its state counts it as read.
    assert rest == [*range(begins_at, 12), *range(12)]


def test_lightning_refuses_what_asks_for_the_class_of_torch(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    with pytest.raises(TypeError, match="PyTorch DataLoader"):
        fabric.setup_dataloaders(DataLoader(POINTS, 2))
    with pytest.raises(ValueError, match="needs to subclass"):
        trained(DataLoader(POINTS, 2), tmp_path, overfit_batches=2)


RANKS = """
import json, sys
import lightning, torch
import seqkit.torch as st
from seqkit.samplers import DistributedSampler

directory, resume = sys.argv[1], sys.argv[2] == "resume"


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen = []

    def train_dataloader(self):
        data = torch.arange(24.0)[:, None]
        return st.DataLoader(data, 2, sampler=DistributedSampler(24, seed=5), num_workers=1)

    def training_step(self, batch, _):
        self.seen += batch[:, 0].int().tolist()
        return self.layer(batch).square().mean()

    def on_train_batch_end(self, *_):
        if self.global_step == 9 and not resume:
            self.trainer.save_checkpoint(f"{directory}/middle.ckpt")

    def on_train_end(self):
        with open(f"{directory}/{sys.argv[2]}-{self.global_rank}.json", "w") as file:
            json.dump(self.seen, file)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


if __name__ == "__main__":
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, enable_checkpointing=False,
        use_distributed_sampler=False, default_root_dir=directory, **quiet
    )
    trainer.fit(Model(), ckpt_path=f"{directory}/middle.ckpt" if resume else None)
"""


@pytest.mark.timeout(300)
def test_lightning_goes_on_with_two_ranks_where_they_were(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    script = tmp_path / "train.py"
    script.write_text(RANKS)
    for run in ("first", "resume"):
        command = [sys.executable, str(script), str(tmp_path), run]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    seen = [json.loads((tmp_path / f"first-{rank}.json").read_text()) for rank in range(2)]
    rest = [json.loads((tmp_path / f"resume-{rank}.json").read_text()) for rank in range(2)]
    for epoch in (0, 1):
        parts = [share[12 * epoch : 12 * (epoch + 1)] for share in seen]
        assert sorted(parts[0] + parts[1]) == list(range(24))
    assert seen[0][:12] != seen[0][12:]
    assert rest == [share[18:] for share in seen]


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
