# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Slabs of a worker's answers are written again, and no answer that somebody views changes."""

import gc
import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.base._batch_format import pack, view
from torch_distinput.executors._answer_slabs import GivenSlabs, OwnSlabs

pytestmark = pytest.mark.usefixtures("only_new_garbage")


def mapped():
    with open("/proc/self/maps") as maps:
        return sum("torch_distinput_slab" in line for line in maps)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


class Ends:
    """Both ends of a worker's slabs, in one process."""

    def __init__(self):
        self.own, self.given = OwnSlabs(), GivenSlabs()
        self.sent = 0

    def answer(self, value):
        place, fd = self.own.write(pack(value))
        self.sent += fd is not None
        memory = self.given.lent(place, None if fd is None else os.dup(fd))
        return view(memory.numpy(), memory)

    def tell(self):
        self.own.free(self.given.freed())


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["answer", "answer", "drop", "tell"]), st.integers(1, 40_000), st.integers(0, 9))
    )
)
def test_what_is_viewed_never_changes(schedule):
    gc.collect()
    before = mapped(), descriptors()
    play(schedule)
    gc.collect()
    assert (mapped(), descriptors()) == before


def play(schedule):
    ends, held, most = Ends(), {}, 0
    for number, (act, size, which) in enumerate(schedule):
        if act == "answer":
            held[number] = ends.answer({"x": torch.full((size,), number), "name": f"{number}"})
            most = max(most, len(held) + len(ends.given._freed))
        elif act == "drop" and held:
            del held[sorted(held)[which % len(held)]]
        elif act == "tell":
            ends.tell()
        assert all(batch["name"] == f"{value}" and (batch["x"] == value).all() for value, batch in held.items())
    assert len(ends.own._slabs) <= most


def test_one_slab_does_for_answers_that_are_dropped_at_once():
    ends = Ends()
    places = set()
    for number in range(20):
        places.add(ends.answer([torch.full((100,), number)])[0].data_ptr())
        ends.tell()
    assert len(places) == ends.sent == 1


def test_a_larger_answer_takes_the_place_of_a_free_slab():
    gc.collect()
    ends, before = Ends(), mapped()
    for size in (1000, 100_000, 200_000, 10):
        ends.answer([torch.zeros(size)])
        ends.tell()
    assert ends.sent == 3 and mapped() == before + 2  # one slab at either end


def test_an_answer_takes_a_free_slab_that_has_room():
    ends = Ends()
    small, large = ends.answer([torch.zeros(10)]), ends.answer([torch.zeros(100_000)])
    del small, large
    ends.tell()
    ends.answer([torch.zeros(100_000)])
    assert ends.sent == 2


def test_a_slab_that_was_not_given_is_refused():
    with pytest.raises(tdi.DistributedDatasetError, match="no slab 3"):
        GivenSlabs().lent(3)
