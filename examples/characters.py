"""Train small recurrent networks on the characters of the standard library's source files.

Every file is a stream of chunks of 32 characters. Sixteen files are read at a time, one in each row of a
batch. The state of the network goes on from batch to batch, and begins anew where a file begins. The first
network is written in numpy, the second in PyTorch, if that is installed. Batches are the same for any
number of workers, so each network ends with the same weights without workers and with two processes, bit
for bit. Needs no network connection.
"""

import importlib.util
import sysconfig
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import seqkit as sk

# The matrices are small: threads of the linear algebra would only wait for each other.
threadpool_limits(1)

ROWS, LENGTH, HIDDEN, CHARACTERS = 16, 32, 64, 128


def open_file(path):
    """Return the chunks of a file: (characters, the same one further on)."""
    with open(path, "rb") as file:
        text = np.minimum(np.frombuffer(file.read(4000), np.uint8), CHARACTERS - 1)
    return sk.collate([sk.batch(part, LENGTH, collate_fn=np.asarray) for part in (text[:-1], text[1:])])


def batches(num_workers):
    paths = sk.sources.files(Path(sysconfig.get_path("stdlib")) / "[a-d]*.py")
    paths = [path for path in paths if Path(path).stat().st_size > 1000][:14]
    return sk.streams.StreamLoader(
        paths, open_file, ROWS, num_workers, pad_value=0, time_first=True, shuffle=True, seed=0
    )


class Recurrent:
    """A layer of Elman's network and a layer above it, trained by gradient descent through one chunk."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.weights = {
            "in": rng.normal(0, 0.1, (CHARACTERS, HIDDEN)),
            "on": rng.normal(0, 0.1, (HIDDEN, HIDDEN)),
            "out": rng.normal(0, 0.1, (HIDDEN, CHARACTERS)),
        }
        self.squares = {name: np.zeros_like(weight) for name, weight in self.weights.items()}
        self.state = np.zeros((ROWS, HIDDEN))

    def step(self, batch):
        """Learn from a batch; return the loss per character in bits."""
        (inputs, targets), mask = batch.data, batch.mask
        self.state[batch.lane[batch.is_first]] = 0
        w = self.weights
        states, errors, loss = [self.state], [], 0.0
        for now, then, real in zip(inputs, targets, mask, strict=True):
            states.append(np.tanh(w["in"][now] + states[-1] @ w["on"]))
            scores = states[-1] @ w["out"]
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            odds /= odds.sum(axis=1, keepdims=True)
            loss -= np.log2(odds[np.arange(ROWS), then])[real].sum()
            odds[np.arange(ROWS), then] -= 1
            errors.append(odds * real[:, None])
        gradients = {name: np.zeros_like(weight) for name, weight in w.items()}
        back = np.zeros((ROWS, HIDDEN))
        for t in reversed(range(len(inputs))):
            gradients["out"] += states[t + 1].T @ errors[t]
            back = (back + errors[t] @ w["out"].T) * (1 - states[t + 1] ** 2)
            np.add.at(gradients["in"], inputs[t], back)
            gradients["on"] += states[t].T @ back
            back = back @ w["on"].T
        for name, gradient in gradients.items():
            gradient /= mask.sum()
            self.squares[name] += 0.05 * (gradient**2 - self.squares[name])
            w[name] -= 0.01 * gradient / (np.sqrt(self.squares[name]) + 1e-3)
        self.state = states[-1]
        return loss / mask.sum()

    def result(self):
        return np.concatenate([weight.ravel() for weight in self.weights.values()])


class Gated:
    """The same with the gated recurrent unit of PyTorch."""

    def __init__(self):
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.torch = torch
        self.embedding = torch.nn.Embedding(CHARACTERS, 32)
        self.unit = torch.nn.GRU(32, HIDDEN)
        self.readout = torch.nn.Linear(HIDDEN, CHARACTERS)
        self.parameters = [
            parameter for part in (self.embedding, self.unit, self.readout) for parameter in part.parameters()
        ]
        self.optimizer = torch.optim.Adam(self.parameters, lr=0.005)
        self.state = torch.zeros(1, ROWS, HIDDEN)

    def step(self, batch):
        inputs, targets = (self.torch.from_numpy(part.astype(np.int64)) for part in batch.data)
        self.state[:, batch.lane[batch.is_first]] = 0
        outputs, state = self.unit(self.embedding(inputs), self.state)
        real = self.torch.from_numpy(batch.mask)
        loss = self.torch.nn.functional.cross_entropy(self.readout(outputs)[real], targets[real])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.state = state.detach()
        return loss.item() / np.log(2)

    def result(self):
        return np.concatenate([parameter.detach().numpy().ravel() for parameter in self.parameters])


def train(network, num_workers, epochs=1):
    """Return the losses of all batches, and the weights."""
    loader = batches(num_workers)
    losses = [network.step(batch) for _ in range(epochs) for batch in loader]
    return losses, network.result()


networks = [Recurrent, Gated] if importlib.util.find_spec("torch") else [Recurrent]
for kind in networks:
    runs = [train(kind(), num_workers) for num_workers in (0, 2)]
    losses = runs[0][0]
    first, last = np.mean(losses[:10]), np.mean(losses[-10:])
    print(f"{kind.__name__}: {len(losses)} batches, from {first:.2f} to {last:.2f} bits per character")
    assert last < 0.75 * first, "the network did not learn"
    assert runs[0][0] == runs[1][0], "the losses differ"
    assert runs[0][1].tobytes() == runs[1][1].tobytes(), "the trained weights differ"
print("with two workers the same in every bit")
