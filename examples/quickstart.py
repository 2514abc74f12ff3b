"""Read real pictures and real text serially, in threads and in processes.

All methods must return the same batches, bit for bit. In each epoch the methods take turns, and the script
prints the median rate of each. Then it resumes in the middle of an epoch, and reads a folder with a missing
file. At the end it checks that no process and no file is left. It needs no network. It starts
processes that run the functions defined here, and still needs no ``if __name__ == "__main__"``.

Run it with ``make demo``, or with Python after installing the ``examples`` extra. The number of epochs is its
argument.
"""

import os
import statistics
import sys
import sysconfig
import time
import token
import tokenize
from pathlib import Path

import numpy as np
import skimage
import sklearn.datasets
from PIL import Image

import seqkit as sk

CROP, CROPS_PER_PICTURE, WORKERS = 96, 4, 2
EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 3


# ---------------------------------------------------------------- two data sets


def decode(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def augment(image, rng):
    """Cut out a random square, and mirror it with probability 1/2."""
    top, left = (rng.integers(side - CROP + 1) for side in image.shape[:2])
    crop = image[top : top + CROP, left : left + CROP]
    return (crop[:, ::-1] if rng.random() < 0.5 else crop).astype(np.float32) / 255


def picture_files():
    """Return the paths of the pictures in the scikit-image and scikit-learn packages."""
    folders = [Path(skimage.__file__).parent / "data", Path(sklearn.datasets.__file__).parent / "images"]
    return sorted(path for folder in folders for path in folder.iterdir() if path.suffix in {".png", ".jpg"})


def pictures():
    """Return random crops of all pictures."""
    paths = picture_files()
    numbers = np.arange(len(paths) * CROPS_PER_PICTURE) % len(paths)
    images = sk.smap(decode, sk.gather(paths, numbers))
    return sk.collate({"crop": sk.random_map(augment, images, seed=0), "picture": numbers})


def modules():
    """Return the number of tokens of each kind for modules of Python's standard library, A to C."""

    def count(path):
        with tokenize.open(path) as file:
            kinds = [kind for kind, *_ in tokenize.generate_tokens(file.readline)]
        return {"tokens": np.bincount(kinds, minlength=token.N_TOKENS), "size": path.stat().st_size}

    return sk.smap(count, sorted(Path(sysconfig.get_path("stdlib")).glob("[a-c]*.py")))


# ---------------------------------------------------------------- read, compare, measure


def same(a, b):
    """Return whether two lists have batches with the same fields, types, shapes and bits."""

    def bits(batch):
        return {key: (array.dtype, array.shape, array.tobytes()) for key, array in batch.items()}

    return len(a) == len(b) and all(bits(x) == bits(y) for x, y in zip(a, b, strict=True))


def timed(batches):
    start = time.perf_counter()
    return list(batches), time.perf_counter() - start


def compare(title, samples, size):
    """Read the same epochs with each method in turn. Print a line of the table."""
    # One view per step. Nothing is computed here.
    train = sk.batch(sk.shuffle(samples, seed=0), size, collate_fn=sk.default_collate)
    rates, agree = {"serial": [], "thread": [], "process": []}, True
    for epoch in range(EPOCHS):
        expected, seconds = timed(train.at_epoch(epoch))
        rates["serial"].append(len(samples) / seconds)
        for method in ("thread", "process"):
            with sk.prefetch(train, WORKERS, method) as ahead:
                found, seconds = timed(ahead.at_epoch(epoch))
            rates[method].append(len(samples) / seconds)
            agree = agree and same(found, expected)
    columns = "".join(f"{statistics.median(rate):>12,.0f}" for rate in rates.values())
    print(f"{title:<10}{len(samples):>8}{columns}  {'yes' if agree else 'NO'}")
    return agree


def resume(samples, size):
    """Stop in the middle of an epoch of a loader, and go on in another loader with other workers."""

    def loader(workers):
        return sk.DataLoader(samples, size, shuffle=True, num_workers=workers, seed=0)

    with loader(WORKERS) as first:
        batches = iter(first)
        next(batches)
        state = first.state_dict()
        expected = list(batches)
    with loader(1) as second:
        second.load_state_dict(state)
        agree = same(list(second), expected)
    found = "the same" if agree else "OTHER"
    print(f"Resumed after batch 1 of {len(first)} with other workers: {found} batches.")
    return agree


def survive(paths):
    """Read pictures, one of them missing."""
    images = sk.smap(decode, [*paths[:3], "missing.png", *paths[3:6]])
    arrived, error = 0, None
    with sk.prefetch(images, WORKERS, "process") as ahead:
        iterator = iter(ahead)
        for _ in range(len(images)):
            try:
                next(iterator)
                arrived += 1
            except sk.EvaluationError as failure:
                error = failure
    print(f"With a missing file {arrived} of {len(images)} items arrive: {str(error).splitlines()[0]}")
    return arrived == len(images) - 1 and error.index == 3


def left_behind():
    """Return the children of this process, and seqkit's files in /dev/shm."""
    found = {str(path) for path in Path("/dev/shm").glob("*seqkit*")}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # the process has ended
        if parent == os.getpid():
            found.add(f"process {status.parent.name}")
    return found


print(f"Items per second with {WORKERS} workers, start-up included; median of {EPOCHS} epochs.\n")
print(f"{'':<10}{'items':>8}{'serial':>12}{'threads':>12}{'processes':>12}  same bits")
before = left_behind()
results = [compare("pictures", pictures(), 16), compare("modules", modules(), 8)]
print("\nDecoding pictures releases the interpreter lock, so threads help; tokenizing in Python does not.")
results += [resume(pictures(), 64), survive(picture_files())]
left = left_behind() - before
print("Left behind:", ", ".join(sorted(left)) or "nothing")
sys.exit(0 if all(results) and not left else "quickstart: batches differ, or a process or file is left")
