"""Small pictures of arrays, within HTML: thumbnails as PNG, curves as SVG. No library is needed."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["curve", "picture", "png"]

Array = npt.NDArray[Any]

_SIDE = 96  # pixels of a thumbnail, at most
_LEAST = 8  # pixels of the short side of an image
_LONG = 16  # times its height: longer rows are curves
_TILES = 9  # images of a batch that are shown
_POINTS = 160  # of a curve
_CHANNELS = (1, 3, 4)


def picture(array: Array) -> str:
    """Return HTML of a picture of an array, or "" for an array that is no image, batch of images or curve.

    Images are of shape (H, W), (H, W, C) or (C, H, W) with 1, 3 or 4 channels, and at least 8 by 8 pixels. Of
    several curves, and of rows that are much longer than there are rows, the first is shown.

    >>> picture(np.zeros((2, 28, 28, 3), np.uint8))[:32], picture(np.zeros((3, 4)))
    ('<img src="data:image/png;base64,', '')
    """
    if array.dtype.kind not in "biuf" or not array.size:
        return ""
    is_wide = array.ndim == 2 and (array.shape[0] < _LEAST or array.shape[1] > _LONG * array.shape[0])
    if array.ndim == 1 or is_wide:
        row = array if array.ndim == 1 else array[0]
        return curve(row) if len(row) >= _LEAST else ""
    if array.ndim == 2 or (array.ndim == 3 and not {array.shape[0], array.shape[2]} & {*_CHANNELS}):
        array = array[..., None]
    tiles = array[None] if array.ndim == 3 else array
    if tiles.ndim == 4 and tiles.shape[3] not in _CHANNELS:
        tiles = np.moveaxis(tiles, 1, 3)
    if tiles.ndim != 4 or tiles.shape[3] not in _CHANNELS or min(tiles.shape[1:3]) < _LEAST:
        return ""
    step = math.ceil(max(tiles.shape[1:3]) / _SIDE)
    return _img(_grid([*_in_bytes(tiles[:_TILES, ::step, ::step])]))


def _in_bytes(images: Array) -> Array:
    """Return images as bytes. Floats in [0, 1] are shares of white, others are spread over their range."""
    if images.dtype == np.uint8:
        return images
    values = np.nan_to_num(images.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0) / 4  # cannot overflow
    low, high = float(values.min()), float(values.max())
    if images.dtype.kind in "bf" and low >= 0 and high <= 0.25:
        low, high = 0.0, 0.25
    elif low >= 0 and 0.25 < high <= 255 / 4:
        low, high = 0.0, 255 / 4
    return ((values - low) * (255 / (high - low or 1.0))).round().astype(np.uint8)


def _grid(tiles: list[Array]) -> Array:
    """Return images of one size beside and below each other, with gaps that are transparent."""
    if len(tiles) == 1:
        return tiles[0]
    columns = math.ceil(math.sqrt(len(tiles)))
    height, width = tiles[0].shape[:2]
    rows = math.ceil(len(tiles) / columns)
    grid = np.zeros((rows * (height + 2) - 2, columns * (width + 2) - 2, 4), np.uint8)
    for number, tile in enumerate(tiles):
        y, x = (number // columns) * (height + 2), (number % columns) * (width + 2)
        grid[y : y + height, x : x + width, :3] = tile[..., :3]  # one channel is grey
        grid[y : y + height, x : x + width, 3] = tile[..., 3] if tile.shape[2] == 4 else 255
    return grid


def _img(image: Array) -> str:
    """Return an image as HTML. Small images are enlarged, with visible pixels."""
    height, width = image.shape[:2]
    scale = max(_SIDE // max(height, width), 1)
    data = base64.b64encode(png(image)).decode()
    style = f"width:{width * scale}px;height:{height * scale}px;image-rendering:pixelated;display:block"
    return f'<img src="data:image/png;base64,{data}" alt="" style="{style};margin:2px 0;max-width:none">'


def png(image: Array) -> bytes:
    """Return the PNG file of an image of bytes of shape (H, W, C) with 1 (grey), 3 or 4 channels.

    >>> png(np.zeros((2, 3, 1), np.uint8))[:4]
    b'\\x89PNG'
    """

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, channels = image.shape
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = image.reshape(height, -1)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes())) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


def curve(values: Array) -> str:
    """Return a curve as SVG: the least and the largest value at each of at most 160 points.

    >>> curve(np.arange(10.0)).count("<polyline")
    1
    """
    edges = np.linspace(0, len(values), min(len(values), _POINTS) + 1).astype(int)
    pieces = np.split(values.astype(np.float64) / 4, edges[1:-1])  # a quarter cannot overflow
    finite = [(x, piece[np.isfinite(piece)]) for x, piece in enumerate(pieces)]
    spans = [(x, piece.min(), piece.max()) for x, piece in finite if piece.size]
    if not spans:
        return ""
    low, high = min(span[1] for span in spans), max(span[2] for span in spans)
    across, up = 160 / max(len(pieces) - 1, 1), 32 / (high - low or 1.0)
    ends = [(x * across, 34 - up * (y - low)) for x, *span in spans for y in span]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
    line = f'<polyline points="{points}" fill="none" stroke="#3b82c4" stroke-width="1.2"/>'
    style = "display:block;margin:2px 0"
    return f'<svg width="160" height="36" viewBox="0 0 160 36" style="{style}">{line}</svg>'
