# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Slabs are written again, and no batch that a follower still needs changes."""

import fcntl
import gc
import os

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.loader.sharing._slabs import SlabRing, SlabViews

pytestmark = pytest.mark.usefixtures("only_new_garbage")

COUNT = 4


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def mapped():
    with open("/proc/self/maps") as maps:
        return sum("torch_distinput_slab" in line for line in maps)


def batch_of(number, size):
    return {"x": torch.full((size,), number), "name": f"{number}", "bytes": b"%d" % number * size}


def is_whole(number, batch):
    wanted = batch_of(number, len(batch["x"]))
    return torch.equal(batch.pop("x"), wanted.pop("x")) and batch == wanted


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["give", "give", "free", "renew"]), st.integers(1, 40_000), st.integers(0, 3)),
        max_size=30,
    )
)
def test_what_a_follower_holds_never_changes(schedule):
    before = descriptors(), mapped()
    play(schedule)
    gc.collect()
    assert (descriptors(), mapped()) == before


def play(schedule):
    ring, views = SlabRing(COUNT), SlabViews(COUNT)
    held, given_, answered, freed = {}, 0, 0, set()
    for act, size, which in schedule:
        if act == "give" and given_ - answered < COUNT:
            held[given_] = views.read(ring.write(batch_of(given_, size)))
            given_ += 1
        elif act == "free" and held:
            number = sorted(held)[which % len(held)]
            del held[number]
            freed.add(number)
        elif act == "renew":
            ring.renew()
        answered += views.answers()
        assert answered == next(number for number in range(len(freed) + 1) if number not in freed)
        assert all(is_whole(number, dict(batch)) for number, batch in held.items())


def test_a_slab_is_mapped_once_until_it_is_too_small():
    gc.collect()
    before = mapped()
    ring, views = SlabRing(COUNT), SlabViews(COUNT)
    places = set()
    for number in range(40):
        places.add(views.read(ring.write(batch_of(number, 1000)))["x"].data_ptr())
        assert views.answers() == 1
    assert len(places) == COUNT
    for number in range(COUNT):
        views.read(ring.write(batch_of(number, 10_000)))
    assert mapped() - before == 2 * COUNT  # by the reader and by the follower, here one process


def test_what_does_not_go_to_a_device_is_copied_out():
    ring, views = SlabRing(1), SlabViews(1)
    first = views.read(ring.write([numpy.arange(3), b"abc", numpy.float32(2)]))
    assert views.answers() == 1
    views.read(ring.write([numpy.zeros(3, dtype=int), b"xyz", numpy.float32(3)]))
    assert first[0].tolist() == [0, 1, 2] and first[1:] == [b"abc", 2]


def test_slabs_outlive_the_reader():
    gc.collect()
    before, views = mapped(), SlabViews(COUNT)
    kept = views.read(SlabRing(COUNT).write(batch_of(7, 5)))
    del views
    gc.collect()
    assert kept["x"].tolist() == [7] * 5
    del kept
    assert mapped() == before


@pytest.mark.parametrize(("size", "seals"), [(1 << 16, 0), (1 << 15, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)])
def test_memory_that_may_shrink_is_refused(size, seals):
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    with pytest.raises(tdi.DistributedDatasetError, match="must be sealed"):
        SlabViews(1).read(fd)


def test_a_description_beyond_the_slab_is_refused():
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 1 << 16)
    os.pwrite(fd, (1 << 16).to_bytes(8, "little"), 0)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    with pytest.raises(tdi.DistributedDatasetError, match="must end within"):
        SlabViews(1).read(fd)
