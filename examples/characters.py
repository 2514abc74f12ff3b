"""Train a small recurrent network of PyTorch on the characters of the standard library's source files.

Every file is a stream of chunks of 32 characters. Sixteen files are read at a time, one in each row of a
batch. The state of the network goes on from batch to batch, and begins anew where a file begins. Batches are
the same for any number of workers, so the network ends with the same weights without workers and with two
processes, bit for bit. Needs the ``torch`` extra and no network connection.
"""

import sysconfig
from pathlib import Path

import numpy as np
import torch

import seqkit as sk

torch.set_num_threads(1)  # makes sums reproducible bit for bit

ROWS, LENGTH, HIDDEN, CHARACTERS = 16, 32, 64, 128


def open_file(path):
    """Return the chunks of a file: (characters, the same one further on)."""
    with open(path, "rb") as file:
        text = np.minimum(np.frombuffer(file.read(4000), np.uint8), CHARACTERS - 1)
    return sk.collate([sk.batch(part, LENGTH, collate_fn=np.asarray) for part in (text[:-1], text[1:])])


def batches(num_workers):
    paths = sk.sources.files(Path(sysconfig.get_path("stdlib")) / "[a-d]*.py")
    paths = [path for path in paths if Path(path).stat().st_size > 1000][:14]
    return sk.streams.StreamLoader(paths, open_file, ROWS, num_workers, pad_value=0, shuffle=True, seed=0)


class Network:
    """A gated recurrent unit, trained by gradient descent through one chunk."""

    def __init__(self):
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(CHARACTERS, 32)
        self.unit = torch.nn.GRU(32, HIDDEN, batch_first=True)
        self.readout = torch.nn.Linear(HIDDEN, CHARACTERS)
        self.parameters = [
            parameter for part in (self.embedding, self.unit, self.readout) for parameter in part.parameters()
        ]
        self.optimizer = torch.optim.Adam(self.parameters, lr=0.005)
        self.state = torch.zeros(1, ROWS, HIDDEN)

    def step(self, batch):
        """Learn from a batch; return the loss per character in bits."""
        inputs, targets = (torch.from_numpy(part.astype(np.int64)) for part in batch.data)
        self.state[:, batch.lane[batch.is_first]] = 0
        outputs, state = self.unit(self.embedding(inputs), self.state)
        real = torch.from_numpy(batch.mask)
        loss = torch.nn.functional.cross_entropy(self.readout(outputs)[real], targets[real])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.state = state.detach()
        return loss.item() / np.log(2)

    def result(self):
        return np.concatenate([parameter.detach().numpy().ravel() for parameter in self.parameters])


def train(num_workers):
    """Return the losses of all batches, and the weights."""
    network = Network()
    losses = [network.step(batch) for batch in batches(num_workers)]
    return losses, network.result()


alone, helped = train(num_workers=0), train(num_workers=2)
losses = alone[0]
first, last = np.mean(losses[:10]), np.mean(losses[-10:])
print(f"{len(losses)} batches, from {first:.2f} to {last:.2f} bits per character")
assert last < 0.75 * first, "the network did not learn"
assert losses == helped[0], "the losses differ"
assert alone[1].tobytes() == helped[1].tobytes(), "the trained weights differ"
print("with two workers the same in every bit")
