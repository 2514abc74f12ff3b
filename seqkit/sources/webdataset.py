"""`webdataset`: samples in tar archives, each of the neighbouring members with one stem."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from os import PathLike
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.arguments import check_callable
from ..core.errors import brief
from ..core.progress import Progress, check_progress
from ..core.view import View
from .columns import listed
from .files import name_file, naming, written_again
from .indexed import Bytes, IndexedFile, IndexedRows, Read, count_items, indexed_files
from .per_process import PerProcess
from .tar_headers import FILE, FOLDER, HEADER, NAME, OTHER, PREFIX, SPARSE, in_blocks, scan

__all__ = ["webdataset"]

KEY = "__key__"
ENCODING = tarfile.ENCODING, "surrogateescape"
META = re.compile(r"__[^/]*__($|/)")  # members that WebDataset leaves out
# A member in the index: the block where its data begin, the lower and the upper bits of their size, and the
# number of its suffix. The mark says that the header before the data has not its name.
MEMBER = np.dtype([("block", "<u4"), ("low", "<u4"), ("high", "<u2"), ("suffix", "<u2")])
ODD = 1 << 15
# Members that are so close to each other are read together, with the headers between them.
GAP_BYTES = 4 * HEADER
Decoders = Mapping[str, Callable[[bytes], Any]]


def webdataset(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    decode: Decoders | None = None,
    *,
    beside: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> View[dict[str, Any]]:
    """Return a view of the samples in tar archives of the WebDataset format, at any index.

    Neighbouring members with one stem, which ends at the first dot of the name, are a sample:
    ``photos/017.jpg`` and ``photos/017.json`` are ``{"jpg": bytes, "json": bytes, "__key__": "photos/017"}``.

    Parameters
    ----------
    path : path-like or sequence of path-like
        An archive, a glob pattern, a pattern with a range of numbers such as ``"train-{000..511}.tar"``, or
        one of these behind a URL of fsspec. Not compressed.
    decode : mapping of str to callable, optional
        Functions that decode members, by suffix: ``{"json": json.loads}``. Other members are bytes.
    beside : bool
        True: keep the index of an archive in its folder, under a hidden name. False (the default): use an
        index that is there, or keep one in the cache folder of the user, ``$XDG_CACHE_HOME`` or ``~/.cache``.
    progress : True or callable, optional
        True shows a bar of tqdm while the archives are scanned. A function is called with the number of
        archives that are scanned and of all archives.
    storage_options : mapping, optional
        For the file system of a URL: keys, end points. It is pickled with the view.

    Returns
    -------
    View
        ``select("json")`` reads the bytes of these members only, and ``select("json", "__key__")`` of these
        and of one header.

    Raises
    ------
    FileNotFoundError
        If there is no file.
    ValueError
        If an archive is compressed, if a member of a sample is a link or sparse, if a sample has two members
        of one suffix, or if its members do not follow each other. If `decode` has a suffix that no sample
        has. When an item is read: if the archive was replaced by another one.
    tarfile.ReadError
        If an archive is damaged.

    Notes
    -----
    An archive is scanned once, at 5 to 20 µs a member, for an index of at most 16 bytes a member, which is
    kept. It is built again when the size or the time of the archive has changed. An access is one read for
    members that follow each other. Suffixes are in lower case. Left out are members whose name has no dot or
    begins with one, folders, and names such as ``__meta__``.

    Each archive is one group of `shuffle_groups`, which then reads one archive after the other.

    Examples
    --------
    >>> import io, json, tarfile
    >>> with tarfile.open(path := getfixture("tmp_path") / "train-000.tar", "w") as archive:
    ...     for name, data in {"7.txt": b"seven", "7.json": b"[7]", "8.txt": b"eight"}.items():
    ...         info = tarfile.TarInfo(name); info.size = len(data)
    ...         archive.addfile(info, io.BytesIO(data))
    >>> samples = webdataset(path, decode={"json": json.loads})
    >>> samples[1]
    {'txt': b'eight', '__key__': '8'}
    >>> samples[0], list(samples.select("txt"))
    ({'txt': b'seven', 'json': [7], '__key__': '7'}, [b'seven', b'eight'])
    """
    check_progress(progress, "webdataset: progress")
    decoders = _checked(decode)
    paths, open_fn, name, where = indexed_files(
        "webdataset", path, "sk-shard", _scan, beside, storage_options
    )
    counts, suffixes = zip(*count_items(paths, open_fn, _contents, progress, "webdataset"), strict=True)
    names = tuple(dict.fromkeys(suffix for each in suffixes for suffix in each))
    unknown = [suffix for suffix in decoders if suffix not in names]
    if unknown:
        raise ValueError(
            f"webdataset: decode must have suffixes of members, got {unknown}. There are {listed(names)}."
        )
    rows = partial(ShardRows, paths, np.array(counts), open_fn, (*names, KEY), decoders)
    return PerProcess(rows, "webdataset", name, where=where)


def _checked(decode: Any) -> dict[str, Callable[[bytes], Any]]:
    if not isinstance(decode, Mapping | None):
        raise TypeError(f"webdataset: decode must be a mapping of suffixes to functions, got {brief(decode)}")
    for suffix, function in (decode or {}).items():
        check_callable(function, f"webdataset: decode[{suffix!r}]")
    return dict(decode or {})


# -------------------------------------------------------------------- the index


def _scan(file: BinaryIO, size: int) -> list[Any]:
    """Return the first member of each sample and the number of members, the members, and their suffixes."""
    rows, firsts, suffixes = list[tuple[int, ...]](), list[int](), dict[str, int]()
    current, keys, held = "", set[str](), set[str]()
    if size > HEADER << 32:
        raise ValueError("the archive is larger than 2 TiB. Divide it.")
    for key, suffix, start, length, is_odd in _members(file):
        if key != current:
            if key in keys:
                raise ValueError(
                    f"the members of sample {key!r} do not follow each other. Pack them again in the order of"
                    " their names, for example with tar --sort=name."
                )
            current = key
            keys.add(key)
            firsts.append(len(rows))
            held = {KEY}
        if suffix in held:
            raise ValueError(f"sample {key!r} has two members {suffix!r}. Give them different names.")
        held.add(suffix)
        number = suffixes.setdefault(suffix, len(suffixes))
        if number >= ODD:
            raise ValueError(f"there are more than {ODD} suffixes, such as {suffix!r}. Rename the members.")
        rows.append((start // HEADER, length & 0xFFFFFFFF, length >> 32, number | ODD * is_odd))
    text = "".join(f"{suffix}\0" for suffix in suffixes)
    return [np.array([*firsts, len(rows)], "<u4"), np.array(rows, MEMBER), text.encode(*ENCODING)]


def _members(file: BinaryIO) -> Iterator[tuple[str, str, int, int, bool]]:
    """Yield the members of samples: key, suffix, start, size, and whether the header has another name."""
    end = 0  # of the member before
    for name, kind, start, size, _ in scan(file):
        is_plain = start == end + HEADER
        end = start + (0 if kind == FOLDER else in_blocks(size))
        parts = _split(name)
        if kind in (FOLDER, OTHER) or parts is None:
            continue
        if kind != FILE:
            why = "is sparse" if kind == SPARSE else "is a link"
            raise ValueError(
                f"{name!r} {why}, and cannot be read in place. Pack the files again, for example with tar"
                " --dereference --hard-dereference."
            )
        is_odd = False
        if not is_plain:
            file.seek(start - HEADER)
            is_odd = _name_in(file.read(HEADER)) != name
        yield *parts, start, size, is_odd


def _split(name: str) -> Any:
    """Return the key and the suffix of a member, or None if it is of no sample.

    >>> _split("photos/v1.0/017.seg.PNG"), _split("photos/README"), _split("photos/._017.png")
    (('photos/v1.0/017', 'seg.png'), None, None)
    """
    folder, slash, base = name.rpartition("/")
    stem, dot, suffix = base.partition(".")
    return (folder + slash + stem, suffix.lower()) if stem and dot and not META.match(name) else None


def _name_in(header: bytes) -> str:
    """Return the name in the header of a file, as `tarfile` reads it."""
    name, folder = (header[field].partition(b"\0")[0] for field in (NAME, PREFIX))
    return (folder + b"/" + name if folder else name).decode(*ENCODING)


class Member(NamedTuple):
    """A member of a sample. `start` and `size` are those of its data."""

    suffix: str
    start: int
    size: int
    is_odd: bool = False

    @property
    def stop(self) -> int:
        return self.start + self.size


class OpenShard:
    """An open archive and its index."""

    def __init__(self, file: IndexedFile) -> None:
        self.file = file
        firsts, rows, suffixes = file.index
        self._firsts, self._rows = np.frombuffer(firsts, "<u4"), np.frombuffer(rows, MEMBER)
        self.suffixes = bytes(suffixes).decode(*ENCODING).split("\0")[:-1]

    def __len__(self) -> int:
        return len(self._firsts) - 1

    def sample(self, g: int) -> list[Member]:
        """Return the members of a sample."""
        return self._members(int(self._firsts[g]), int(self._firsts[g + 1]))

    def _members(self, first: int, stop: int) -> list[Member]:
        return [
            Member(self.suffixes[suffix & ~ODD], block * HEADER, high << 32 | low, bool(suffix & ODD))
            for block, low, high, suffix in self._rows[first:stop].tolist()
        ]

    def places(self, samples: Bytes, names: Sequence[str]) -> tuple[Bytes, Bytes]:
        """Return where some members of samples begin, and where they end."""
        firsts = self._firsts[samples].astype(np.int64)
        counts = self._firsts[samples + 1] - firsts
        ends = np.cumsum(counts)
        rows = self._rows[np.repeat(firsts - ends + counts, counts) + np.arange(counts.sum())]
        numbers = [number for number, suffix in enumerate(self.suffixes) if suffix in names]
        rows = rows[np.isin(rows["suffix"] % ODD, numbers)]
        starts = rows["block"].astype(np.int64) * HEADER
        stops = starts + rows["low"] + (rows["high"].astype(np.int64) << 32)
        if KEY not in names:
            return starts, stops
        headers = self._rows["block"][firsts].astype(np.int64) * HEADER
        return np.append(starts, headers - HEADER), np.append(stops, headers)

    async def key(self, g: int, read: Read, header: bytes = b"") -> str:
        """Return the key of a sample, given the header before its first data if that was read."""
        row = int(self._firsts[g])
        (member,) = self._members(row, row + 1)
        if member.is_odd:
            name = await self._long_name(row, member.start, read)
        else:
            name = _name_in(header or await read(member.start - HEADER, HEADER))
        parts = _split(name)
        if parts is None:  # there is no header any more
            raise written_again("webdataset", self.file.path)
        return str(parts[0])

    async def _long_name(self, row: int, start: int, read: Read) -> str:
        """Return the name of a member from all headers between the member before and its data."""
        end = sum(in_blocks(member.stop) for member in self._members(max(row - 1, 0), row))
        headers = BytesIO(await read(end, start - end))
        with tarfile.open(fileobj=headers, mode="r:") as archive:
            return next(info.name for info in archive if info.offset_data == start - end)


def _contents(file: IndexedFile) -> tuple[int, list[str]]:
    """Return the number of samples in an archive, and the suffixes of their members."""
    shard = OpenShard(file)
    return len(shard), shard.suffixes


# -------------------------------------------------------------------- the samples


class ShardRows(IndexedRows):
    """The samples of opened archives.

    Parameters
    ----------
    paths : sequence of str
    counts : array of int
        The number of samples of each archive.
    open_fn : callable
        Returns the `IndexedFile` of a path.
    names : sequence of str
        Names of the members that samples may have, and of the key.
    decode : mapping
    chosen : bool
        Each sample must have all of `names`.
    """

    def __init__(
        self,
        paths: Sequence[str],
        counts: npt.NDArray[np.int64],
        open_fn: Callable[[str], IndexedFile],
        names: Sequence[str],
        decode: Decoders,
        chosen: bool = False,
    ) -> None:
        super().__init__(counts, partial(_opened, paths, counts, open_fn))
        self._arguments = paths, counts, open_fn
        self.names, self._decode, self._chosen = tuple(names), decode, chosen

    @property
    def group_sizes(self) -> list[int]:
        return self._counts.tolist()  # type: ignore[no-any-return]

    def select(self, names: Sequence[str]) -> ShardRows:
        return ShardRows(*self._arguments, names, self._decode, True)

    def _places(self, opened: OpenShard, indices: Bytes) -> tuple[Bytes, Bytes]:
        return opened.places(indices, self.names)

    async def _item(self, opened: OpenShard, row: int, read: Read) -> dict[str, Any]:
        try:
            return await self._sample(opened, row, read)
        except Exception as error:
            name_file(error, opened.file.path)
            raise

    async def _sample(self, shard: OpenShard, g: int, read: Read) -> dict[str, Any]:
        members = shard.sample(g)
        members.insert(0, Member(KEY, members[0].start - HEADER, HEADER))
        names = self.names if self._chosen else [*(member.suffix for member in members[1:]), KEY]
        data = await _read([member for member in members if member.suffix in names], read)
        if not shard.file.has_its_size():
            raise written_again("webdataset", shard.file.path)
        if missing := [name for name in names if name not in data]:
            raise KeyError(f"sample {await shard.key(g, read)!r} has no {listed(missing)}")
        return {name: await self._decoded(shard, g, read, name, data[name]) for name in names}

    async def _decoded(self, shard: OpenShard, g: int, read: Read, name: str, data: bytes) -> Any:
        if name == KEY:
            return await shard.key(g, read, data)
        try:
            return self._decode[name](data) if name in self._decode else data
        except Exception as error:
            error.add_note(f"member: {name!r} of sample {await shard.key(g, read)!r}")
            raise


def _opened(
    paths: Sequence[str], counts: npt.NDArray[np.int64], open_fn: Callable[[str], IndexedFile], k: int
) -> OpenShard:
    with naming(paths[k]):
        shard = OpenShard(open_fn(paths[k]))
    if len(shard) != counts[k]:
        raise written_again("webdataset", paths[k])
    return shard


async def _read(members: list[Member], read: Read) -> dict[str, bytes]:
    """Return the data of members in the order of the file. Members close to each other are read together."""
    found: dict[str, bytes] = {}
    while rest := members[len(found) :]:
        together = rest[:1]
        for member in rest[1:]:
            if member.start - together[-1].stop > GAP_BYTES:
                break
            together.append(member)
        begin = together[0].start
        data = await read(begin, together[-1].stop - begin)
        for member in together:
            found[member.suffix] = data[member.start - begin : member.stop - begin]
    return found
