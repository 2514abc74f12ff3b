"""Jobs of several real processes that go on with another number of them: PyTorch, Accelerate, Lightning."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import seqkit as sk
from seqkit.collation import PackSequences
from seqkit.samplers import DistributedSampler

pytest.importorskip("torch")

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]

N, STEP = 60, 12

# Reads `steps` steps from a state, and writes what it read, and the state that follows.
PLAIN = """
import json, os, sys
import numpy as np, torch.distributed as dist
import seqkit as sk, seqkit.torch as st
from seqkit.collation import PackSequences
from seqkit.samplers import DistributedSampler

directory, steps = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
world, rank = dist.get_world_size(), dist.get_rank()
if sys.argv[4] == "draws":
    data = sk.random_map(lambda x, rng: (x, int(rng.integers(1 << 30))), range(60), seed=4)
else:  # packed documents of a language model
    documents = [list(range(1, 2 + 7 * i % 40)) for i in range(1, 400)]
    packs = sk.bins(list(map(len, documents)), 64, long="split", seed=3)
    rows = sk.smap(PackSequences(64), sk.gather_groups(documents, packs))
    data = sk.smap(lambda row: row["tokens"].tolist() + row["positions"].tolist(), rows)[:60]
sampler = DistributedSampler(60, seed=5, global_batch=12)
loader = st.DataLoader(data, 12 // world, sampler=sampler, collate_fn=list, num_workers=rank % 2)
if os.path.exists(f"{directory}/state.json"):
    loader.load_state_dict(json.load(open(f"{directory}/state.json")))
seen, batches = [], iter(loader)
for _ in range(steps):
    seen.append(next(batches))
state = loader.state_dict()
states = [None] * world
dist.all_gather_object(states, state)
assert all(one == state for one in states)
json.dump(seen, open(f"{directory}/seen-{rank}.json", "w"))
dist.barrier()
if rank == 0:
    json.dump(state, open(f"{directory}/state.json", "w"))
loader.close()
dist.destroy_process_group()
"""

# The same with a checkpoint of Accelerate.
ACCELERATE = """
import json, os, sys
import accelerate, torch
import seqkit.torch as st
from seqkit.samplers import DistributedSampler

directory, steps = sys.argv[1], int(sys.argv[2])
accelerator = accelerate.Accelerator(cpu=True)
world, rank = accelerator.num_processes, accelerator.process_index
sampler = DistributedSampler(60, world, rank, seed=5, global_batch=12)
loader = st.DataLoader(torch.arange(60), 12 // world, sampler=sampler)
accelerator.register_for_checkpointing(loader)
if os.path.exists(f"{directory}/saved"):
    accelerator.load_state(f"{directory}/saved")
batches = iter(loader)
seen = [next(batches).tolist() for _ in range(steps)]
json.dump(seen, open(f"{directory}/seen-{rank}.json", "w"))
accelerator.wait_for_everyone()
accelerator.save_state(f"{directory}/saved")
accelerator.wait_for_everyone()
"""

# The same with a checkpoint of Lightning, which starts the processes itself.
LIGHTNING = """
import json, os, sys
import lightning, torch
import seqkit.torch as st
from seqkit.samplers import DistributedSampler

directory, steps, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen = []

    def train_dataloader(self):
        sampler = DistributedSampler(60, world, self.global_rank, seed=5, global_batch=12)
        return st.DataLoader(torch.arange(60.0)[:, None], 12 // world, sampler=sampler)

    def training_step(self, batch, _):
        self.seen.append(batch[:, 0].int().tolist())
        return self.layer(batch).square().mean()

    def on_train_batch_end(self, *_):
        if len(self.seen) == steps:
            self.trainer.save_checkpoint(f"{directory}/saved.ckpt")
            self.trainer.should_stop = True

    def on_train_end(self):
        with open(f"{directory}/seen-{self.global_rank}.json", "w") as file:
            json.dump(self.seen, file)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


if __name__ == "__main__":
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    saved = f"{directory}/saved.ckpt"
    trainer = lightning.Trainer(
        accelerator="cpu", devices=world, strategy="ddp", max_epochs=3, enable_checkpointing=False,
        use_distributed_sampler=False, default_root_dir=directory, **quiet
    )
    trainer.fit(Model(), ckpt_path=saved if os.path.exists(saved) else None)
"""


def jitter(x: int, rng: Any) -> tuple[int, int]:
    return x, int(rng.integers(1 << 30))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def run(script: str, directory: Path, world: int, steps: int, data: str = "") -> list[list[Any]]:
    """Run a script in so many processes. Return what all of them read in each step, in the common order."""
    path = directory / "script.py"
    path.write_text(script)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world)}
    starts_itself = script is LIGHTNING
    processes = [
        subprocess.Popen(
            [sys.executable, str(path), str(directory), str(steps), str(world), data],
            env={
                **os.environ,
                **({} if starts_itself else place | {"RANK": str(rank), "LOCAL_RANK": str(rank)}),
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(1 if starts_itself else world)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    seen = [json.loads((directory / f"seen-{rank}.json").read_text()) for rank in range(world)]
    return [list(interleaved(batches)) for batches in zip(*seen, strict=True)]


def interleaved(batches: tuple[list[Any], ...]) -> Iterator[Any]:
    for row in zip(*batches, strict=True):
        yield from row


def alone(data: Any, steps: int) -> list[list[Any]]:
    """Return the steps that one process would read."""
    sampler = DistributedSampler(N, 1, 0, seed=5, global_batch=STEP)
    return list(islice(sk.DataLoader(data, STEP, sampler=sampler, collate_fn=list), steps))


@pytest.mark.parametrize("job", [0, 1, *(pytest.param(i, marks=pytest.mark.stress) for i in range(2, 12))])
def test_processes_of_pytorch_go_on_with_another_number_of_them(job: int, tmp_path: Path) -> None:
    rng, data = random.Random(job), ("draws", "packs")[job % 2]
    lengths = [rng.randrange(1, 3) for _ in range(2)]
    worlds = rng.sample([1, 2, 3, 4], 2)
    runs = zip(worlds, lengths, strict=True)
    found = [step for world, steps in runs for step in run(PLAIN, tmp_path, world, steps, data)]
    assert found == run_alone(data, sum(lengths))


def run_alone(data: str, steps: int) -> list[list[Any]]:
    if data == "draws":
        return [list(map(list, step)) for step in alone(sk.random_map(jitter, range(N), seed=4), steps)]
    documents = [list(range(1, 2 + 7 * i % 40)) for i in range(1, 400)]
    packs = sk.bins(list(map(len, documents)), 64, long="split", seed=3)
    rows = sk.smap(PackSequences(64), sk.gather_groups(documents, packs))
    return alone(sk.smap(both, rows)[:N], steps)


def both(row: Any) -> list[int]:
    return [*row["tokens"].tolist(), *row["positions"].tolist()]


@pytest.mark.parametrize("library", ["accelerate", "lightning"])
def test_checkpoints_of_two_processes_are_resumed_by_one_and_by_three(library: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    script = ACCELERATE if library == "accelerate" else LIGHTNING
    (tmp_path / "alone").mkdir()
    expected = run(script, tmp_path / "alone", 1, 4)
    found = [
        step for world, steps in [(2, 2), (1, 1), (3, 1)] for step in run(script, tmp_path, world, steps)
    ]
    assert found == expected
