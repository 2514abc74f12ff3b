"""A smoke test of an installed seqkit, without pytest: ``python -I tests/smoke.py``.

CI runs it on macOS and Windows, where process workers come from the pool of the standard library, and
``make dist`` runs it with the wheel.
"""

import sys
import time
import warnings

import numpy as np

import seqkit as sk


def decode(i):
    time.sleep(0.001)
    return np.full((4, 1000), i, np.float32)


def main():
    sk.show_versions()
    images = sk.smap(decode, range(40))
    noisy = sk.random_map(lambda image, rng: image + rng.random(), images, seed=0)
    train = sk.batch(sk.shuffle(noisy, seed=0), 8, collate_fn=np.stack)
    expected = list(train)
    for method in ("inline", "thread", "process", "auto"):
        with sk.prefetch(train, 2, method) as ahead:
            assert all(map(np.array_equal, ahead, expected)), method
            assert np.array_equal(ahead[-1], expected[-1]), method
        print(f"{method}: as without workers")

    loader = sk.DataLoader(images, 8, shuffle=True, seed=0, num_workers=2)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = list(batches)
    loader = sk.DataLoader(images, 8, shuffle=True, seed=0, num_workers=2)
    loader.load_state_dict(state)
    assert len(rest) == 4
    assert all(map(np.array_equal, loader, rest))
    print("DataLoader: goes on after a state")


if __name__ == "__main__":
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        main()
    messages = [str(warning.message) for warning in caught]
    pool = any("process pool of the standard library" in message for message in messages)
    assert pool == (sys.platform != "linux"), messages
    print("standard pool" if pool else "own processes")
