"""Train a small convolutional network of PyTorch on scikit-learn's digits.

The script is an ordinary PyTorch script, except for the import of the loader. With ``--torch`` it uses
PyTorch's own loader. It needs the ``examples`` and ``torch`` extras and no network connection.
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch.utils.data import Dataset

if "--torch" in sys.argv:
    from torch.utils.data import DataLoader
else:
    from seqkit.torch import DataLoader

EPOCHS, BATCH, TEST = 5, 64, 450


class Digits(Dataset):
    """Pictures of 8 x 8 grey values, each with its digit."""

    def __init__(self, train):
        digits = load_digits()
        order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
        chosen = order[TEST:] if train else order[:TEST]
        self.pictures = torch.tensor(digits.images / 16, dtype=torch.float32)[chosen, None]
        self.labels = torch.tensor(digits.target)[chosen]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.pictures[i], self.labels[i]


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 16, 10),
    )


def train(num_workers):
    """Return the trained network and the test accuracy."""
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    loader = DataLoader(
        Digits(train=True),
        BATCH,
        shuffle=True,
        num_workers=num_workers,
        drop_last=True,
        generator=torch.Generator().manual_seed(1),
        persistent_workers=num_workers > 0,
    )
    for _ in range(EPOCHS):
        for pictures, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(pictures), labels).backward()
            optimizer.step()
    with torch.no_grad():
        right = sum(
            (model(pictures).argmax(1) == labels).sum().item()
            for pictures, labels in DataLoader(Digits(train=False), TEST)
        )
    return model, right / TEST


if __name__ == "__main__":
    torch.set_num_threads(1)  # makes sums reproducible bit for bit
    alone, accuracy = train(num_workers=0)
    helped, _ = train(num_workers=2)
    weights = zip(alone.parameters(), helped.parameters(), strict=True)
    print(f"test accuracy: {accuracy:.1%} of {TEST} pictures")
    same = all(torch.equal(a, b) for a, b in weights)
    print("with two workers the weights are", "identical" if same else "different")
    assert accuracy > 0.95
