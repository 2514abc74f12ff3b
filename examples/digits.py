"""Train a small network on scikit-learn's digits, once without workers and once with two processes.

The order of the samples and every random shift depend only on the seed, the epoch and the sample. So both
runs see the same batches and must end with the same weights, bit for bit. The network has one hidden layer,
written in numpy. The script needs the ``examples`` extra and no network connection.
"""

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import seqkit as sk

# The matrices are so small that several linear-algebra threads would only wait for each other.
threadpool_limits(1)

EPOCHS, BATCH, HIDDEN, TEST = 10, 32, 256, 450


def shift(sample, rng):
    """Move the picture by at most one pixel in each direction."""
    picture, label = sample
    rows, columns = rng.integers(-1, 2, size=2)
    moved = np.zeros_like(picture)
    moved[max(rows, 0) : 8 + min(rows, 0), max(columns, 0) : 8 + min(columns, 0)] = picture[
        max(-rows, 0) : 8 + min(-rows, 0), max(-columns, 0) : 8 + min(-columns, 0)
    ]
    return moved, label


def forward(weights, pictures):
    first, second = weights
    hidden = np.maximum(with_ones(pictures.reshape(len(pictures), -1)) @ first, 0)
    return hidden, with_ones(hidden) @ second


def with_ones(x):
    return np.column_stack([x, np.ones(len(x), x.dtype)])


def step(weights, speeds, pictures, labels, rate, momentum=0.9):
    """Update the weights in place with one step of gradient descent on the cross entropy."""
    hidden, scores = forward(weights, pictures)
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = odds / odds.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    back = (error @ weights[1][:-1].T) * (hidden > 0)
    inputs = with_ones(pictures.reshape(len(pictures), -1))
    for weight, speed, gradient in zip(
        weights, speeds, (inputs.T @ back, with_ones(hidden).T @ error), strict=True
    ):
        speed *= momentum
        speed -= rate * gradient
        weight += speed


def train(num_workers):
    """Return the trained weights and the test accuracy."""
    digits = load_digits()
    samples = sk.collate([(digits.images / 16).astype(np.float32), digits.target])
    order = np.random.default_rng(0).permutation(len(samples))
    training, test = sk.gather(samples, order[TEST:]), sk.gather(samples, order[:TEST])

    rng = np.random.default_rng(0)
    shapes = (8 * 8 + 1, HIDDEN), (HIDDEN + 1, 10)
    weights = [rng.normal(0, 0.1, shape).astype(np.float32) for shape in shapes]
    speeds = [np.zeros_like(weight) for weight in weights]

    shifted = sk.random_map(shift, training, seed=0)
    with sk.DataLoader(
        shifted, BATCH, shuffle=True, num_workers=num_workers, seed=0, persistent_workers=num_workers > 0
    ) as loader:
        for epoch in range(EPOCHS):
            for pictures, labels in loader:  # the next epoch: new order, new shifts
                step(weights, speeds, pictures, labels, rate=0.1 * (1 - epoch / EPOCHS))

    pictures, labels = sk.default_collate(list(test))
    _, scores = forward(weights, pictures)
    return weights, (scores.argmax(axis=1) == labels).mean()


alone, accuracy_alone = train(num_workers=0)
shared, accuracy_shared = train(num_workers=2)
print(f"test accuracy without workers: {accuracy_alone:.4f}")
print(f"test accuracy with 2 workers:  {accuracy_shared:.4f}")

assert accuracy_alone > 0.9, "the network did not learn"
for a, b in zip(alone, shared, strict=True):
    assert a.tobytes() == b.tobytes(), "the trained weights differ"
print("the trained weights are identical")
