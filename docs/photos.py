"""Write a folder of photos from pictures in scikit-image and scikit-learn: ``python docs/photos.py FOLDER``.

The first example of the README reads this folder, in the tests and for its picture.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from PIL import Image, ImageOps

NAMES = "astronaut chelsea china coffee flower hubble_deep_field motorcycle_left rocket"
HEIGHT = 240


def packaged(name: str) -> Path:
    """Return the file of a picture in the packages, without importing them."""
    for package, folder in ("skimage", "data"), ("sklearn", "datasets/images"):
        spec = find_spec(package)
        for place in spec.submodule_search_locations or () if spec else ():
            for path in Path(place, folder).glob(f"{name}.*"):
                return path
    sys.exit(f"photos.py: no picture {name}. Install the examples extra: pip install '.[examples]'")


def write(folder: Path) -> None:
    """Write the photos as JPEG files of one height."""
    folder.mkdir(exist_ok=True)
    for name in NAMES.split():
        with Image.open(packaged(name)) as photo:
            small = ImageOps.contain(photo.convert("RGB"), (10_000, HEIGHT))
            small.save(folder / f"{name}.jpg", quality=90)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
