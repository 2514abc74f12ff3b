"""Shared memory without a name: who sees it, what the system knows of it, and when it goes."""

from __future__ import annotations

import gc
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from seqkit.engine.codec import Block, address
from seqkit.engine.processes.segment import PAGE, Segment

from .scripts import finished, forked
from .traces import descriptors, visible_names


def test_a_segment_has_no_name_in_dev_shm_and_gives_its_descriptor_back() -> None:
    before = descriptors()
    segment = Segment.create(PAGE)
    block = segment.block(0, PAGE)
    assert not visible_names()
    segment.close()
    assert segment.fd == -1
    del block, segment
    assert descriptors() == before


def flags_of(block: Block) -> list[str]:
    """Return what the kernel knows about the mapping that a block lies in."""
    is_there = False
    with open("/proc/self/smaps") as file:
        for line in file:
            first, _, rest = line.partition(" ")
            if "-" in first:
                start, end = (int(bound, 16) for bound in first.split("-"))
                is_there = start <= address(block) < end
            elif is_there and first == "VmFlags:":
                return rest.split()
    raise AssertionError("not mapped")


def test_a_core_dump_leaves_segments_out() -> None:
    segment = Segment.create(PAGE)
    again = Segment(os.dup(segment.fd), PAGE)  # as a worker maps it that was not forked
    private = Segment(os.dup(segment.fd), PAGE, private=True)
    assert ["dd" in flags_of(it.block(0, PAGE)) for it in (segment, again, private)] == [True] * 3
    assert "dd" not in flags_of(np.frombuffer(mmap.mmap(-1, PAGE), np.uint8))


def test_a_segment_that_cannot_be_mapped_leaves_no_descriptor() -> None:
    before = descriptors()
    with pytest.raises((OSError, OverflowError, ValueError)):
        Segment.create(1 << 62)
    assert descriptors() == before


def test_mappings_of_a_segment_share_their_memory_but_for_what_is_written_to_a_private_one() -> None:
    segment = Segment.create(PAGE)
    segment.block(0, 4)[:] = [1, 2, 3, 4]
    other, private = (Segment(os.dup(segment.fd), PAGE, private=is_private) for is_private in (False, True))
    block = private.block(0, 4)
    block += 10
    assert block.tolist() == [11, 12, 13, 14]
    assert other.block(0, 4).tolist() == segment.block(0, 4).tolist() == [1, 2, 3, 4]


def test_segments_may_be_larger_than_dev_shm_and_memory() -> None:
    segment = Segment.create(1 << 40)
    block = segment.block((1 << 40) - PAGE, PAGE)
    block[:] = 3
    assert os.fstat(segment.fd).st_blocks * 512 < 1 << 20


def test_a_callback_before_unmapping_is_not_called_in_a_fork() -> None:
    segment, calls = Segment.create(PAGE), []
    segment.at_end(lambda: calls.append(os.getpid()))

    def drop() -> bool:
        nonlocal segment
        del segment
        gc.collect()
        return not calls

    with forked(drop) as in_child:
        assert in_child()
    del segment
    gc.collect()
    assert calls == [os.getpid()]


def test_the_error_names_the_limit_of_file_sizes(tmp_path: Path) -> None:
    script = """
        import resource
        import seqkit as sk

        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
        with sk.prefetch(range(4), 2, "process") as node:
            try:
                node[0]
            except OSError as error:
                print(error)
    """
    code, out, err = finished(tmp_path, script)
    assert (code, err) == (0, "")
    assert "File too large" in out
