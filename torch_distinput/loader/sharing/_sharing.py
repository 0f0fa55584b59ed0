# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Who of the peers of a loader reads, and how each of its iterators shares what it reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch.distributed as dist

from torch_distinput import _C
from torch_distinput.loader.sharing._follower_end import FollowerEnd, Given
from torch_distinput.loader.sharing._host_link import HostDoor
from torch_distinput.loader.sharing._host_link import reach as reach_on_host
from torch_distinput.loader.sharing._host_peers import Peer, Peers
from torch_distinput.loader.sharing._network_link import NetworkDoor, UnreachableKey, arrive
from torch_distinput.loader.sharing._network_link import reach as reach_over_network
from torch_distinput.loader.sharing._reader_end import AHEAD, ReaderEnd
from torch_distinput.loader.sharing._slabs import SlabRing
from torch_distinput.loader.sharing._watched_process import WatchedProcess

_Value = TypeVar("_Value")


class Sharing:
    """The sharing of one loader over the peers `ranks` of `rank`: on each host the first of them reads, or with
    `over_network` the first of all, which sends to the first on each other host. All of them begin to read their
    iterators in the same order, which numbers them. `store`: their part of the group's. `timeout`: seconds that peers
    may keep this process waiting. `to_device`: batches go to devices at once."""

    def __init__(
        self,
        ranks: tuple[int, ...],
        rank: int,
        store: dist.Store,
        timeout: float,
        over_network: bool,
        to_device: bool,
    ):
        self._rank, self._store, self._timeout, self._iterators = rank, store, timeout, 0
        self._to_device = to_device
        self._host_door, self._network_door = HostDoor(), NetworkDoor(store) if over_network else None
        self._posted = Peers(ranks, store)
        network = None if self._network_door is None else self._network_door.address
        self._posted.tell(rank, self._host_door.address, network)

    @cached_property
    def _peers(self) -> list[Peer]:
        """All peers. Waits for them, as `Peers.find`."""
        return self._posted.find(self._timeout)

    @cached_property
    def _here(self) -> list[Peer]:
        """Those on this host, its reader first."""
        here = next(peer.host for peer in self._peers if peer.rank == self._rank)
        return [peer for peer in self._peers if peer.host == here]

    @cached_property
    def _readers(self) -> list[Peer]:
        """The first peer of each host."""
        first: dict[str, Peer] = {}
        for peer in self._peers:
            first.setdefault(peer.host, peer)
        return list(first.values())

    @property
    def _reads_for_host(self) -> bool:
        return self._here[0].rank == self._rank

    @property
    def follows(self) -> bool:
        """Whether another rank reads for this one."""
        return not self._reads_for_host or (self._network_door is not None and self._readers[0].rank != self._rank)

    @property
    def reader(self) -> int:
        """The rank whose batches this one takes, where it follows."""
        return self._readers[0].rank if self._reads_for_host else self._here[0].rank

    def open(self) -> Ends:
        """This process's ends of the sharing for the next iterator. Raises DistributedDatasetError where its reader
        does not begin to read within the timeout."""
        self._iterators += 1
        if self._reads_for_host:
            return self._ends_for_host()
        reader, late = WatchedProcess(self._here[0].process), self._late(self._here[0])
        connection = self._host_door.connection(self._iterators, reader, self._timeout, late)
        return Ends(FollowerEnd(connection, reader, self._timeout, late), None)

    def _ends_for_host(self) -> Ends:
        """Those of the process that reads for its host, or passes on what comes from another one."""
        followers = [*filter(None, (reach_on_host(peer, self._iterators) for peer in self._here[1:]))]
        if self._network_door is None:
            return Ends(None, ReaderEnd(followers, self._timeout, SlabRing(AHEAD) if self._to_device else None))
        if not self.follows:
            followers += reach_over_network(self._readers[1:], self._iterators, self._tell_unreachable)
            return Ends(None, ReaderEnd(followers, self._timeout))
        onward, late = ReaderEnd(followers, self._timeout), self._late(self._readers[0])
        unreachable = self._unreachable(self._rank)
        remote = self._network_door.connection(self._iterators, unreachable, self._timeout, late)
        connection = None if remote is None else arrive(remote)
        return Ends(FollowerEnd(connection, WatchedProcess(os.getpid()), self._timeout, late, onward), onward)

    def _tell_unreachable(self, peer: Peer) -> None:
        self._unreachable(peer.rank).set()

    def _unreachable(self, rank: int) -> UnreachableKey:
        return UnreachableKey(self._store, self._iterators, rank)

    def _late(self, reader: Peer) -> str:
        return (
            f"DataLoader: rank {reader.rank} reads for this one, but has kept it waiting for {self._timeout:g} s "
            "(`peer_timeout`)."
        )


class Ends(NamedTuple):
    """The ends of one iterator: towards its reader and towards its followers; None: it has none."""

    reader: FollowerEnd | None
    followers: ReaderEnd | None


class SharingError(_C.DistributedDatasetError):
    """A DistributedDatasetError of sharing, which numbers ranks as the job does."""


class SharedReads:
    """What one iterator reads for peers, or takes from one that reads. Opened by the first batch. One thread at a
    time. `follows`: whether batches are taken from a reader."""

    def __init__(self, sharing: Sharing):
        self._sharing, self.follows = sharing, sharing.follows

    @cached_property
    def _ends(self) -> Ends:
        return self._sharing.open()

    def take(self, release: Callable[[], None]) -> Given | None:
        """The reader's next batch; None, now and from now on, where this process has to read it. `release` as for
        `FollowerEnd.take`. Raises SharingError as that and `Sharing.open` raise DistributedDatasetError."""
        if not self.follows:
            return None
        try:
            given = None if self._ends.reader is None else self._ends.reader.take(release)
        except _C.DistributedDatasetError as error:
            raise SharingError(str(error)) from None
        self.follows = given is not None
        return given

    @property
    def lost(self) -> str:
        """Why the reader hands over nothing, for messages."""
        reader, end = self._sharing.reader, self._ends.reader
        failure = None if end is None else end.failure
        return f"rank {reader} " + ("has left its loop or ended" if failure is None else f"failed: {failure}")

    def fail(self, why: str) -> None:
        """Tells followers that this process has nothing more for them."""
        if self._ends.followers is not None:
            self._ends.followers.fail(why)

    def give(
        self, read: Callable[[], _Value], shown: Callable[[_Value], object], names: tuple[str, ...] = ()
    ) -> _Value:
        """What `read` returns, after followers have got `shown` of it. Where it raises, they are told why. Raises
        TypeError, as they do, for what cannot be shared; `names` as for `pack`."""
        followers = self._ends.followers
        if followers is None or not followers.wait_for_room():
            return read()
        try:
            value = read()
        except Exception as error:
            followers.fail(str(error))
            raise
        try:
            fd = followers.write(shown(value), names)
        except TypeError as error:
            followers.refuse(str(error))
            raise
        except Exception as error:
            followers.fail(str(error))
            raise
        followers.give(fd)
        return value

    def close(self) -> None:
        """Ends the sharing; followers can still take what was given."""
        if "_ends" in self.__dict__:
            reader, followers = self._ends
            if reader is not None:
                reader.close()
            if followers is not None:
                followers.close()
