"""Follow a moving square through animated images, decoded frame by frame.

Every animation is a stream of frames. Four are read at a time, one in each row of a batch. A tracker keeps
the last frame of each lane. The pixels that changed since then are the square. It forgets the frame where
an animation begins. The animations are made here, with Pillow, and read with imageio. The tracks are the
same for any number of workers. Needs the ``examples`` extra and no network connection.
"""

import tempfile
from pathlib import Path

import imageio.v3 as iio
import numpy as np

import seqkit as sk

ROWS, SIZE, SQUARE = 4, 48, 8


def make_animation(path, rng):
    """Draw a square that moves by a few pixels per frame. Return the place of its corner in each frame."""
    frames, corners = [], []
    corner, speed = rng.integers(10, 30, 2), rng.choice([-2, -1, 1, 2], 2)
    for _ in range(int(rng.integers(3, 12))):
        frame = np.zeros((SIZE, SIZE), np.uint8)
        frame[corner[0] : corner[0] + SQUARE, corner[1] : corner[1] + SQUARE] = 255
        frames.append(frame)
        corners.append(tuple(corner.tolist()))
        speed = np.where((corner + speed < 0) | (corner + speed > SIZE - SQUARE), -speed, speed)
        corner = corner + speed
    iio.imwrite(path, np.stack(frames), duration=40, loop=0)
    return corners


def open_animation(path):
    """Decode one frame at a time."""
    with iio.imopen(path, "r", plugin="pillow") as file:
        for frame in file.iter():
            yield frame.reshape(SIZE, SIZE, -1)[..., 0]


class Tracker:
    """Where something bright appears, for each lane."""

    def __init__(self):
        self.before = np.zeros((ROWS, SIZE, SIZE), np.int16)

    def step(self, batch):
        """Return the corner of the new pixels in each row."""
        self.before[batch.lane[batch.is_first]] = 0
        now = batch.data.astype(np.int16)
        moved = np.abs(now - self.before[batch.lane]).max(axis=(1, 2)) > 128
        assert moved.all(), "a frame equals the one before in its lane"
        self.before[batch.lane] = now
        bright = now > 128
        return np.stack([bright.any(axis=2).argmax(axis=1), bright.any(axis=1).argmax(axis=1)], axis=1)


def tracks(paths, num_workers):
    """Return the track of every animation."""
    tracker, found = Tracker(), [[] for _ in paths]
    loader = sk.streams.StreamLoader(paths, open_animation, ROWS, num_workers, padding="drop_rows")
    for batch in loader:
        for stream, corner in zip(batch.stream, tracker.step(batch), strict=True):
            found[stream].append(tuple(corner.tolist()))
    return found


with tempfile.TemporaryDirectory() as folder:
    rng = np.random.default_rng(0)
    true = [make_animation(Path(folder) / f"square{number}.gif", rng) for number in range(12)]
    paths = sk.sources.files(Path(folder) / "*.gif")
    alone, shared = tracks(paths, num_workers=0), tracks(paths, num_workers=2)

assert alone == true, "the tracks are wrong"
assert shared == alone, "the tracks differ"
print(f"followed {len(true)} squares through {sum(map(len, true))} frames, with two workers as without")
