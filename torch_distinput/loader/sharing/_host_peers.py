# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where the peers of a mesh run, and where they can be reached."""

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

import torch.distributed as dist

from torch_distinput import _C
from torch_distinput.distribute._peer_values import STRANGER
from torch_distinput.distribute._store_values import posted_values
from torch_distinput.loader.sharing._network_address import NetworkAddress


@dataclass(frozen=True)
class Peer:
    """A rank: its host, the number of its process there, and where it lets readers in: `address` on its host, `network`
    from others."""

    rank: int
    host: str
    process: int
    address: bytes
    network: NetworkAddress | None


class Peers:
    """What `ranks` tell each other of themselves, each under one key of `store`."""

    def __init__(self, ranks: tuple[int, ...], store: dist.Store):
        self._ranks, self._store = ranks, store

    def tell(self, rank: int, address: bytes, network: NetworkAddress | None) -> None:
        """Tells of this process."""
        told = [host_name(), os.getpid(), address.hex(), None if network is None else network.plain()]
        self._store.set(self._key(rank), json.dumps(told))

    def find(self, timeout: float) -> list[Peer]:
        """All of them, in the order of `ranks`. Waits until all have made their loaders; raises DistributedDatasetError
        after `timeout` seconds."""
        late = (
            f"DataLoader: ranks {', '.join(map(str, self._ranks))} share what they read, but within {timeout:g} s "
            "(`peer_timeout`) not all of them have made their loaders."
        )
        posted = posted_values(self._store, [self._key(rank) for rank in self._ranks], timeout, late)
        return [_read(rank, text) for rank, text in zip(self._ranks, posted)]

    @staticmethod
    def _key(rank: int) -> str:
        return f"host/{rank}"


def host_name() -> str:
    """Equal for processes of one user that can pass each other descriptors: of one kernel, network and numbering of
    processes. `TDI_HOST_ID` tells processes of one machine apart, as for the leaders of hosts."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid")]
    except OSError:
        return _alone
    return " ".join([boot, *spaces, str(os.getuid()), os.environ.get("TDI_HOST_ID", "")])


_alone = uuid.uuid4().hex  # where the kernel does not tell, each process is a host of its own


def _read(rank: int, text: bytes) -> Peer:
    try:
        host, process, address, network = json.loads(text)
        if type(host) is str and type(process) is int and process > 0:
            place = None if network is None else NetworkAddress.of(network)
            return Peer(rank, host, process, bytes.fromhex(address), place)
    except (ValueError, TypeError):
        pass
    raise _C.DistributedDatasetError(
        f"DataLoader: rank {rank} must post its host, its process and its addresses. {STRANGER}"
    )
