"""Make the displays on the reference pages, and take their pictures: ``python docs/displays.py``.

Each display is made by a real pipeline over drawn pictures. The site makes it anew whenever it is built, and
shows it as it is. Code browsers show a picture of it. The picture of the README is made by its own example,
over the photos of ``photos.py``. Chromium draws each twice: ``x.png`` for light pages and ``x-dark.png`` for
dark ones. The displays contain times, so the tests do not compare the pictures. Names on the command line
select displays: ``python docs/displays.py photos``.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageChops

import seqkit as sk

DOCS = Path(__file__).resolve().parent
FIGURES = DOCS / "reference" / "figures"
MARGIN, WIDTH, HEIGHT = 12, 1280, 600
THEMES = {"": ("#111", "#fff"), "-dark": ("#ddd", "#14181e")}
PAGE = '<meta charset="utf-8"><body style="margin:{}px;font:13px sans-serif;color:{};background:{}">{}'

# ---------------------------------------------------------------- the pipeline

COUNT, BROKEN = 64, 3


def landscape(number: int) -> np.ndarray[Any, Any]:
    """Draw a sun above three rows of hills."""
    rng = np.random.default_rng(number)
    height, width = 200, 190 + number % 4 * 10
    y, x = np.mgrid[:height, :width]
    picture = rng.integers(80, 160, 3) + (90 * y / height).astype(int)[..., None] + [0, 0, 60]
    picture[np.hypot(y - rng.integers(25, 60), x - rng.integers(20, 170)) < 18] = 255, 220, 90
    for row in range(3):
        hills = 90 + 35 * row + 15 * np.sin(x[0] / rng.uniform(12, 30) + rng.uniform(0, 6))
        picture[y > hills] = np.array([70, 130, 80]) - [15 * row, 30 * row, 10 * row]
    return picture.clip(0, 255).astype("uint8")


def write_pictures() -> list[str]:
    os.mkdir("train")
    paths = [f"train/{number:04}.png" for number in range(COUNT)]
    for number, path in enumerate(paths):
        Image.fromarray(landscape(number)).save(path)
    Path(paths[BROKEN]).write_bytes(b"not a picture")
    return paths


def load(path: str) -> dict[str, Any]:
    time.sleep(0.004)  # stands for a slow disk
    return {"image": np.asarray(Image.open(path)), "label": int(path[6:10]) % 10}


def augment(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    top, left = rng.integers(0, 30, 2)
    crop = sample["image"][top : top + 160, left : left + 160]
    return {**sample, "image": (crop * rng.uniform(0.6, 1) / 255).astype("float32")}


def batches(paths: list[str], size: int) -> sk.View[Any]:
    images = sk.shuffle(sk.smap(load, paths), seed=1)
    return sk.batch(sk.random_map(augment, images, seed=0), size, collate_fn=sk.default_collate)


# ---------------------------------------------------------------- the displays


def noisy(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {**sample, "image": sample["image"] + rng.random()}


def explained() -> str:
    images = np.zeros((60_000, 28, 28), "uint8")
    data = sk.collate(image=sk.smap(lambda x: x / 255, images), label=np.zeros(60_000, int))
    augmented = sk.random_map(noisy, sk.add_cache(data, cache_size=10_000), seed=0)
    loader = sk.DataLoader(augmented, batch_size=128, shuffle=True, num_workers=2, method="thread", seed=3)
    batches = iter(loader)
    next(batches)  # the drawing shows that workers run, and what the cache holds
    return loader.explain()._repr_html_()


def traced(paths: list[str]) -> str:
    train = batches(paths, 2)
    failing = next(i for i in range(len(train)) if BROKEN in train.trace(i).sources()["<list of 64>"])
    return train.trace(failing)._repr_html_()


def photographed() -> str:
    """Run the first example of the README, and show what its sentence about `preview` names."""
    import photos  # needs the examples extra

    photos.write(Path("photos"))
    readme = (DOCS.parent / "README.md").read_text("utf-8")
    names: dict[str, Any] = {"__name__": "readme"}
    exec(re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S)[0], names)
    [call] = re.findall(r"`(\w+\.preview\(.*?\))`", readme)
    return eval(call, names)._repr_html_()


def displays() -> dict[str, Callable[[], str]]:
    """Return functions that return HTML. They read pictures that are written to the current folder."""
    paths = write_pictures()
    good = [path for path in paths if path != paths[BROKEN]]
    return {
        "explain": explained,
        "preview": lambda: sk.smap(load, paths).preview(4)._repr_html_(),
        "preview-stages": lambda: batches(good, 4).preview(1, stages=True)._repr_html_(),
        "trace": lambda: traced(paths),
    }


# ---------------------------------------------------------------- the pictures


def photograph(page: str, paper: str) -> bytes:
    """Return the page as a PNG that ends a margin after its last line."""
    Path("page.html").write_text(page, "utf-8")
    chromium = shutil.which("chromium") or sys.exit("displays.py needs Chromium: apt-get install chromium")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--screenshot=page.png"]
    address = Path("page.html").resolve().as_uri()
    command = [chromium, *options, f"--window-size={WIDTH},{HEIGHT}", address]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    picture = Image.open("page.png").convert("RGB")
    used = ImageChops.difference(picture, Image.new("RGB", picture.size, paper)).getbbox()
    right, bottom = used[2:] if used else picture.size
    written = io.BytesIO()
    picture.crop((0, 0, min(right + MARGIN, WIDTH), min(bottom + MARGIN, HEIGHT))).quantize(128).save(
        written, "PNG"
    )
    return written.getvalue()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, make in {**displays(), "photos": photographed}.items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            display = make()
            place = DOCS if name == "photos" else FIGURES
            for suffix, (ink, paper) in THEMES.items():
                picture = photograph(PAGE.format(MARGIN, ink, paper, display), paper)
                (place / f"{name}{suffix}.png").write_bytes(picture)
        os.chdir("/")


if __name__ == "__main__":
    main()
