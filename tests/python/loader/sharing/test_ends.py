# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A reader and its followers, here in one process: each follower gets what was given, in order, and then knows that
nothing comes."""

import os
import socket

import pytest
from forks import forked
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.base._sealed_memory import write_sealed
from torch_distinput.loader.sharing._follower_end import FollowerEnd
from torch_distinput.loader.sharing._host_link import HostDoor, reach
from torch_distinput.loader.sharing._host_peers import Peer
from torch_distinput.loader.sharing._reader_end import AHEAD, ReaderEnd
from torch_distinput.loader.sharing._watched_process import WatchedProcess

HERE = os.getpid()


def reader(*doors, number=1, timeout=10.0, process=HERE):
    reached = [reach(Peer(1, "here", process, door.address, None), number) for door in doors]
    return ReaderEnd([each for each in reached if each], timeout)


def follower(door, number=1, timeout=10.0, process=HERE):
    watched = WatchedProcess(process)
    return FollowerEnd(door.connection(number, watched, timeout, "late"), watched, timeout, "late")


def descriptors():
    return len(os.listdir("/proc/self/fd"))


class Model:
    """A follower as the schedule knows it: what it has taken, and whether it has begun or left."""

    def __init__(self, door):
        self.door, self.end, self.taken, self.left = door, None, 0, False

    def take(self):
        if self.end is None:
            self.end = follower(self.door)
        return self.end.take()


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 3), st.lists(st.sampled_from(["give", "give", "take", "leave", "fail"]), max_size=40), st.data())
def test_followers_get_what_was_given(count, schedule, data):
    before = descriptors()
    play(count, schedule, data)
    assert descriptors() == before


def play(count, schedule, data):
    models = [Model(HostDoor()) for _ in range(count)]
    end, given, failed_at = reader(*(model.door for model in models)), 0, None

    def take(model):
        got = model.take()
        if model.taken < given and model.taken != failed_at:
            assert got.value == model.taken
            model.taken += 1
        else:
            assert got is None
            assert model.end.failure == (None if failed_at is None or model.taken < failed_at else f"row {failed_at}")
            model.left = True

    for act in schedule:
        model = models[data.draw(st.integers(0, count - 1))]
        if act in ("give", "fail"):
            if any(given - model.taken >= AHEAD for model in models if not model.left):
                continue  # the reader would wait
            left = end.wait_for_room()
            assert left or all(model.left for model in models)
            if act == "fail" and failed_at is None:
                end.fail(f"row {given}")
                failed_at = given
            else:
                end.give(write_sealed(given))
            given += 1
        elif act == "take" and not model.left and model.taken < given:
            take(model)
        elif act == "leave" and not model.left and model.end is not None:
            model.end.close()
            model.left = True
    end.close()
    for model in models:
        while not model.left:
            take(model)
        assert model.take() is None
        model.end.close()
        model.door.close()


def test_a_reader_leaves_a_follower_that_does_not_begin():
    door = HostDoor()
    end = reader(door, timeout=0.05)
    for number in range(AHEAD + 1):
        assert end.wait_for_room() == (number < AHEAD)
        end.give(write_sealed(number))


def test_a_follower_does_not_wait_longer_than_its_timeout():
    door = HostDoor()
    with pytest.raises(tdi.DistributedDatasetError, match="late"):
        follower(door, timeout=0.05)
    end = reader(door)
    waits = follower(door, timeout=0.05)
    with pytest.raises(tdi.DistributedDatasetError, match="late"):
        waits.take()
    end.give(write_sealed("then"))
    assert waits.take().value == "then"


def test_iterators_are_told_apart_by_their_numbers():
    door = HostDoor()
    ends = {number: reader(door, number=number) for number in (1, 2, 4)}
    for number, end in ends.items():
        end.give(write_sealed(number))
        end.close()
    second = follower(door, number=2)  # the first is dropped
    assert second.take().value == 2
    assert follower(door, number=3).take() is None  # the reader is at a later one
    assert follower(door, number=4).take().value == 4


def test_a_reader_whose_follower_has_closed_its_loader_is_alone():
    door = HostDoor()
    end = reader(door)
    assert end.wait_for_room()
    door.close()
    assert not end.wait_for_room()
    assert not reader(door).wait_for_room()


def test_what_cannot_be_shared_is_the_same_error_for_followers():
    door = HostDoor()
    end, takes = reader(door), follower(door)
    end.refuse("an error with \N{GREEK SMALL LETTER ALPHA}")
    with pytest.raises(TypeError, match="^an error with \N{GREEK SMALL LETTER ALPHA}$"):
        takes.take().batch()
    assert takes.take() is None


def test_forked_children_keep_no_connection():
    door = HostDoor()
    end, takes = reader(door), follower(door)
    with forked():
        end.close()
        assert takes.take() is None
    end = reader(door, number=2)
    takes = follower(door, number=2)
    with forked():
        takes.close()
        assert not end.wait_for_room()


def test_processes_that_are_no_peers_get_nothing_and_are_not_listened_to():
    door = HostDoor()
    assert not reader(door, process=1).wait_for_room()  # the door is not process 1's
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stranger.connect(door.address)
    stranger.send(b"1".zfill(20))
    with pytest.raises(tdi.DistributedDatasetError, match="late"):
        follower(door, timeout=0.05, process=1)


def test_a_number_that_is_none_is_not_listened_to():
    door = HostDoor()
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stranger.connect(door.address)
    stranger.send(b"x" * 20)
    with pytest.raises(tdi.DistributedDatasetError, match="late"):
        follower(door, timeout=0.05)
