"""Randomness as a pure function of (seed, epoch, node, index); the global generators are never changed.

Each random view has a *key* for each epoch. It is a hash, so neighbouring seeds, epochs and views have
unrelated keys. The key determines a permutation of any length (`Permutation`) and one generator per item
(`item_generator`).
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from .errors import brief
from .indices import IndexArray, Indices, as_array
from .once import cached
from .plain import as_index

__all__ = [
    "DrawnSeed",
    "Permutation",
    "as_name",
    "as_seed",
    "digest",
    "item_generator",
    "node_key",
]


class DrawnSeed(int):
    """A seed that was drawn from the system. Another process draws another one."""


def as_seed(seed: Any, who: str) -> int:
    """Return a seed as an int, drawn from the system for None, and from a generator of numpy or torch.

    >>> as_seed(7, "shuffle: seed")
    7
    >>> one, other = (as_seed(np.random.default_rng(3), "shuffle: seed") for _ in range(2))
    >>> one == other
    True
    """
    # The first use of `np.random` imports it and `hashlib`. It happens here, not while an item is computed.
    if isinstance(seed, np.random.SeedSequence):
        return int(seed.generate_state(1, np.uint64)[0])
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(1 << 63))
    if seed is None:
        return DrawnSeed(int.from_bytes(os.urandom(8), "little") >> 1)
    torch = sys.modules.get("torch")  # a generator of torch can only exist if torch was imported
    if torch is not None and isinstance(seed, torch.Generator):
        return int(torch.randint(1 << 62, (), generator=seed))
    try:
        number = as_index(seed)
    except TypeError:
        raise TypeError(f"{who} must be an int of at least 0 or None, got {brief(seed)}") from None
    if number < 0:
        raise ValueError(f"{who} must be an int of at least 0 or None, got {brief(seed)}")
    return number


def as_name(name: Any, who: str) -> str | None:
    """Return the name of a random view, checked.

    >>> as_name("noise", "shuffle: name")
    'noise'
    """
    if name is None or isinstance(name, str):
        return name
    raise TypeError(f"{who} must be a str or None, got {brief(name)}")


def node_key(kind: str, seed: int, epoch: int, salt: int | str) -> int:
    """Return the 128-bit key of a random view in one epoch."""
    return int.from_bytes(digest(repr((kind, seed, epoch, salt))), "little")


def digest(data: str | bytes) -> bytes:
    """Return a 16-byte hash of a text or of bytes, the same in every process."""
    import hashlib  # not when seqkit is imported: it loads OpenSSL

    return hashlib.blake2b(data.encode() if isinstance(data, str) else data, digest_size=16).digest()


class _Pair:
    """A generator of numpy and its source of bits, which can be set to one item after another."""

    __slots__ = ("_bits", "_counter", "_counts", "_generator", "_key", "_state")

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)
        self._counts: tuple[int, int] | None = None
        self._counter, self._key = [0, 0, 0, 0], [0, 0]
        self._state: Any = {
            "bit_generator": "Philox",
            "state": {"counter": self._counter, "key": self._key},
            "buffer": [0, 0, 0, 0],
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }

    def at(self, key: int, index: int) -> np.random.Generator | None:
        """Return the generator of an item, or None if something else refers to the generator or its bits.

        A new pair must get its first item before other code can reach it.
        """
        # From here on, a signal handler that draws random numbers in this thread sees these references.
        generator, bits = self._generator, self._bits
        counts = sys.getrefcount(generator), sys.getrefcount(bits)
        if self._counts is None:
            self._counts = counts
        elif counts != self._counts:
            return None
        # The counter has four words. The index is in an upper word, so each item has 2**128 draws.
        self._counter[2] = index
        self._key[:] = key & _MASK, key >> 64
        bits.state = self._state
        return generator


class _Own(threading.local):
    """The pair of each thread."""

    pair: _Pair | None = None


_own = _Own()
# Without the interpreter lock, reference counts may change while they are read.
_HAS_LOCK = "free-threading" not in sys.version


def item_generator(key: int, index: int) -> np.random.Generator:
    """Return the generator of one item: a block of the keyed Philox stream.

    Each thread resets one generator for each item, because a new one takes 20 µs. If anything still refers to
    it, the item gets a new one. So a generator that a function keeps does not change.
    """
    pair = _own.pair
    generator = None if pair is None else pair.at(key, index)
    if generator is None:
        pair = _Pair()
        generator = cast(np.random.Generator, pair.at(key, index))
        if _HAS_LOCK:
            _own.pair = pair
    return generator


_MASK = 0xFFFF_FFFF_FFFF_FFFF
_MIX_1 = 0x9E37_79B9_7F4A_7C15
_MIX_2 = 0xD6E8_FEB8_6659_FD93


class Permutation:
    """A random permutation of ``range(n)``, evaluated at any index in constant memory.

    Below `TABLE` items it is a table, made by sorting random numbers: a cipher on so few bits would not be
    random enough. From `TABLE` items on it is a six-round unbalanced Feistel cipher on the smallest power of
    two of at least n. A result outside ``range(n)`` is enciphered again, less than twice on average.

    Parameters
    ----------
    n : int
        Length, below 2**63.
    key : int
        128 bits, see `node_key`.

    Examples
    --------
    >>> sorted(Permutation(5, key=1).many(range(5)).tolist())
    [0, 1, 2, 3, 4]
    >>> p = Permutation(10**12, key=1)
    >>> p.one(7) == p.many([7]).item()
    True
    """

    TABLE = 1 << 16
    ROUNDS = 6
    BLOCK = 4096

    def __init__(self, n: int, key: int) -> None:
        self.n = n
        self.key = key
        bits = max(n - 1, 1).bit_length()
        self._low = bits // 2
        self._high = bits - self._low
        # Number and content of the block evaluated last. It is replaced as a whole, so threads may share it.
        self._block: tuple[int, npt.NDArray[np.int64]] = (-1, np.empty(0, np.int64))

    def __reduce__(self) -> tuple[Any, ...]:
        return Permutation, (self.n, self.key)  # without the table

    @cached
    def _table(self) -> npt.NDArray[np.int64]:
        # Raw bits, not `Generator.shuffle`: numpy guarantees that raw bits never change.
        return np.argsort(np.random.Philox(key=self.key).random_raw(self.n), kind="stable")

    @cached
    def _rounds(self) -> list[int]:
        return [int(k) for k in np.random.Philox(key=self.key).random_raw(self.ROUNDS)]

    def one(self, i: int) -> int:
        """Return the image of `i`. Takes a few microseconds, without numpy."""
        if self.n < self.TABLE:
            return self._table.item(i)
        i = self._encipher_one(i)
        while i >= self.n:
            i = self._encipher_one(i)
        return i

    def many(self, indices: Indices) -> npt.NDArray[np.int64]:
        """Return the images of `indices`. Takes about ten nanoseconds each."""
        if self.n < self.TABLE:
            return self._table[as_array(indices)]
        if isinstance(indices, range) and indices.step == 1 and 0 < len(indices) < self.BLOCK:
            return self._run(indices)
        return self._scattered(as_array(indices))

    def _run(self, indices: range) -> npt.NDArray[np.int64]:
        """Map a short run of indices. Blocks are evaluated whole, and the last one is kept."""
        number, place = divmod(indices.start, self.BLOCK)
        block = self._block
        if block[0] != number:
            start = number * self.BLOCK
            block = number, self._scattered(np.arange(start, min(start + self.BLOCK, self.n)))
            self._block = block
        found = block[1][place : place + len(indices)]
        if len(found) == len(indices):
            return found.copy()
        return np.concatenate([found, self._run(indices[len(found) :])])

    def _scattered(self, indices: IndexArray) -> npt.NDArray[np.int64]:
        values = self._encipher(indices.astype(np.uint64))
        outside = np.flatnonzero(values >= self.n)
        while outside.size:
            again = self._encipher(values[outside])
            values[outside] = again
            outside = outside[again >= self.n]
        return values.view(np.int64)

    def _encipher_one(self, x: int) -> int:
        halves = [x & ((1 << self._low) - 1), x >> self._low]
        shifts = (64 - self._low, 64 - self._high)
        for number, key in enumerate(self._rounds):
            target = number & 1
            mixed = ((halves[1 - target] ^ key) * _MIX_1) & _MASK
            mixed = ((mixed ^ (mixed >> 32)) * _MIX_2) & _MASK
            halves[target] ^= mixed >> shifts[target]
        return halves[1] << self._low | halves[0]

    def _encipher(self, x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        halves = [x & np.uint64((1 << self._low) - 1), x >> np.uint64(self._low)]
        shifts = (np.uint64(64 - self._low), np.uint64(64 - self._high))
        mixed, shifted = np.empty_like(x), np.empty_like(x)
        for number, key in enumerate(self._rounds):
            target = number & 1
            np.bitwise_xor(halves[1 - target], np.uint64(key), out=mixed)
            np.multiply(mixed, np.uint64(_MIX_1), out=mixed)
            np.right_shift(mixed, np.uint64(32), out=shifted)
            np.bitwise_xor(mixed, shifted, out=mixed)
            np.multiply(mixed, np.uint64(_MIX_2), out=mixed)
            np.right_shift(mixed, shifts[target], out=mixed)
            np.bitwise_xor(halves[target], mixed, out=halves[target])
        return (halves[1] << np.uint64(self._low)) | halves[0]
