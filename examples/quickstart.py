"""Read real pictures and real text serially, in threads and in processes.

All methods must return the same batches, bit for bit. The script prints the speed of each method. At the end
it checks that no process and no file is left. It needs no network. It starts processes that run the functions
defined here, and still needs no ``if __name__ == "__main__"``.

Run it with ``make demo``, or with Python after installing the ``examples`` extra.
"""

import os
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

CROP, CROPS_PER_PICTURE, WORKERS = 96, 16, 2


# ---------------------------------------------------------------- two data sets


def decode(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def augment(image, rng):
    """Cut out a random square, and mirror it with probability 1/2."""
    top, left = (rng.integers(side - CROP + 1) for side in image.shape[:2])
    crop = image[top : top + CROP, left : left + CROP]
    return (crop[:, ::-1] if rng.random() < 0.5 else crop).astype(np.float32) / 255


def pictures():
    """Return random crops of the pictures in the scikit-image and scikit-learn packages."""
    folders = [Path(skimage.__file__).parent / "data", Path(sklearn.datasets.__file__).parent / "images"]
    paths = sorted(path for folder in folders for path in folder.iterdir() if path.suffix in {".png", ".jpg"})
    numbers = np.arange(len(paths) * CROPS_PER_PICTURE) % len(paths)
    images = sk.smap(decode, sk.gather(paths, numbers))
    return sk.collate({"crop": sk.random_map(augment, images, seed=0), "picture": numbers})


def modules():
    """Return the number of tokens of each kind for modules of Python's standard library."""

    def count(path):
        with tokenize.open(path) as file:
            kinds = [kind for kind, *_ in tokenize.generate_tokens(file.readline)]
        return {"tokens": np.bincount(kinds, minlength=token.N_TOKENS), "size": path.stat().st_size}

    return sk.smap(count, sorted(Path(sysconfig.get_path("stdlib")).glob("[a-p]*.py")))


# ---------------------------------------------------------------- read, compare, measure


def same(a, b):
    """Return whether two batches have the same fields, types, shapes and bits."""

    def bits(array):
        return array.dtype, array.shape, array.tobytes()

    return a.keys() == b.keys() and all(bits(a[key]) == bits(b[key]) for key in a)


def read(batches):
    start = time.perf_counter()
    return list(batches), time.perf_counter() - start


def compare(title, serial, ahead):
    """Read `serial`, then ``ahead(method)`` for each method. Print a line of the table."""
    expected, seconds = read(serial)
    items = sum(len(next(iter(batch.values()))) for batch in expected)
    rates, agree = [items / seconds], True
    for method in ("thread", "process"):
        with ahead(method) as batches:
            found, seconds = read(batches)
        rates.append(items / seconds)
        agree = agree and len(found) == len(expected) and all(map(same, found, expected))
    columns = "".join(f"{rate:>12,.0f}" for rate in rates)
    print(f"{title:<22}{items:>8}{columns}  {'yes' if agree else 'NO'}")
    return agree


def show(title, samples, size):
    # One view per step. Nothing is computed here.
    train = sk.batch(sk.shuffle(samples, seed=0), size, collate_fn=sk.default_collate)
    views_agree = compare(f"{title}, views", train, lambda method: sk.prefetch(train, WORKERS, method))

    # The same pipeline with the arguments of a training script.
    def loader(workers, method="process"):
        return sk.DataLoader(samples, size, shuffle=True, num_workers=workers, seed=0, method=method)

    loaders_agree = compare(f"{title}, DataLoader", loader(0), lambda method: loader(WORKERS, method))

    # A batch that is read alone is the same batch. The next epoch has another order and other crops.
    alone_agrees = same(train[3], next(iter(train[3:]))) and not same(train[3], train.at_epoch(1)[3])
    return views_agree and loaders_agree and alone_agrees


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


print(f"Items per second with {WORKERS} workers, start-up included; 'same' compares every bit.\n")
print(f"{'':<22}{'items':>8}{'serial':>12}{'threads':>12}{'processes':>12}  same")
before = left_behind()
results = [show("pictures", pictures(), 16), show("modules", modules(), 8)]
left = left_behind() - before
print("\nDecoding pictures releases the interpreter lock, so threads help; tokenizing in Python does not.")
print("Left behind:", ", ".join(sorted(left)) or "nothing")
sys.exit(0 if all(results) and not left else "quickstart: batches differ, or a process or file is left")
