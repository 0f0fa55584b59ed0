# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A reader and a follower on another host, here in one process: over TCP, the ends see what they see on one host."""

import os
import queue
import signal
import socket
import struct

import pytest
import torch
import torch.distributed as dist
from forks import forked
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.base._sealed_memory import write_sealed
from torch_distinput.loader.sharing._follower_end import FollowerEnd
from torch_distinput.loader.sharing._host_peers import Peer
from torch_distinput.loader.sharing._network_address import NetworkAddress, own_hosts
from torch_distinput.loader.sharing._network_link import NetworkDoor, arrive, reach
from torch_distinput.loader.sharing._reader_end import AHEAD, ReaderEnd
from torch_distinput.loader.sharing._watched_process import WatchedProcess

HERE = WatchedProcess(os.getpid())


@pytest.fixture
def door():
    opened = NetworkDoor(dist.HashStore())
    yield opened
    opened.close()


def at_home(address):
    return Peer(1, "there", 1, b"", NetworkAddress(("127.0.0.1",), address.port, address.token))


def pair(door, number=1, timeout=10.0):
    """A reader's end and a follower's."""
    end = ReaderEnd(reach([at_home(door.address)], number, lambda peer: None), timeout)
    remote = door.connection(number, HERE, timeout, "late")
    return end, FollowerEnd(arrive(remote), HERE, timeout, "late")


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 300_000), max_size=12), st.sampled_from(["close", "fail", "refuse"]))
def test_a_follower_gets_what_was_given(sizes, end_by):
    door = NetworkDoor(dist.HashStore())
    end, takes = pair(door)
    for begin in range(0, len(sizes), AHEAD):
        part = sizes[begin : begin + AHEAD]
        for size in part:
            assert end.wait_for_room()
            end.give(write_sealed(torch.full((size,), size % 251, dtype=torch.uint8)))
        for size in part:
            value = takes.take().batch()
            assert value.numel() == size and bool((value == size % 251).all())
    if end_by == "refuse":
        end.refuse("no")
        with pytest.raises(TypeError, match="no"):
            takes.take().batch()
    elif end_by == "fail":
        end.fail("why")
    end.close()
    assert takes.take() is None
    assert takes.failure == ("why" if end_by == "fail" else None)
    door.close()


def test_what_was_given_arrives_after_the_reader_has_left(door):
    end, takes = pair(door)
    for number in range(AHEAD):
        end.give(write_sealed([number] * 100_000))
    end.close()
    assert [takes.take().value[0] for _ in range(AHEAD)] == list(range(AHEAD))
    assert takes.take() is None


def test_a_reader_that_is_killed_after_it_began_is_missed_at_once(door):
    address = at_home(door.address)
    reader = os.fork()
    if reader == 0:
        try:
            reach([address], 1, lambda peer: None)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(reader, 0)
    remote = door.connection(1, HERE, 0, "late")
    assert FollowerEnd(arrive(remote), HERE, 10, "late").take() is None


def test_a_reader_learns_that_its_follower_has_left(door):
    end, takes = pair(door)
    for _ in range(AHEAD):
        end.give(write_sealed(1))
    takes.close()
    assert not end.wait_for_room()  # after a wait


def test_forked_children_keep_no_connection(door):
    end, takes = pair(door)
    with forked():
        end.close()
        assert takes.take() is None
    end, takes = pair(door, number=2)
    with forked():
        takes.close()
        for _ in range(AHEAD):
            end.give(write_sealed(1))
        assert not end.wait_for_room()


def test_a_reader_tells_of_a_follower_that_it_cannot_reach():
    told: queue.SimpleQueue = queue.SimpleQueue()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    peer = Peer(1, "there", 1, b"", NetworkAddress(("127.0.0.1",), port, "0" * 32))
    ReaderEnd(reach([peer], 1, told.put), 10)
    assert told.get(timeout=10) is peer


def test_who_does_not_know_the_token_is_not_let_in(door):
    for token in ("0" * 32, "0" * 31 + "\xe9"):
        with socket.create_connection(("127.0.0.1", door.address.port)) as stranger:
            stranger.sendall((token + "1".zfill(20)).encode()[:52])
            with pytest.raises(tdi.DistributedDatasetError, match="late"):
                door.connection(1, HERE, 0.05, "late")


@pytest.mark.parametrize(
    "bytes_",
    [
        b"",
        b"b",
        struct.pack("<cQ", b"b", 100),
        struct.pack("<cQ", b"x", 2) + b"xx",
        struct.pack("<cQ", b"r", 2**60),
        struct.pack("<cQ", b"b", 2**63),
    ],
)
def test_bytes_that_are_no_message_end_the_sharing(bytes_):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs = listener.accept()[0]
    takes = FollowerEnd(arrive(theirs), HERE, 10, "late")
    ours.sendall(bytes_)
    ours.shutdown(socket.SHUT_WR)
    assert takes.take() is None


def test_addresses_of_this_machine(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo,none")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    hosts = own_hosts(dist.PrefixStore("a", store))
    assert hosts[0] == "127.0.0.1" and len(set(hosts)) == len(hosts)


@pytest.mark.parametrize("fields", [[], [["a"], "1", "t"], [[1], 1, "t"], [["a"] * 99, 1, "t"], None, [["a"], 1, None]])
def test_an_address_that_breaks_a_rule_is_refused(fields):
    with pytest.raises((ValueError, TypeError)):
        NetworkAddress.of(fields)
