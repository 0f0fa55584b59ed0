# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where a process can be reached from other hosts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

_SIOCGIFADDR = 0x8915  # netdevice(7)
_MOST_HOSTS = 16


@dataclass(frozen=True)
class NetworkAddress:
    """`hosts`: addresses of one machine, of which others may reach only some. `token`: what those that may connect
    know."""

    hosts: tuple[str, ...]
    port: int
    token: str

    def plain(self) -> list[Any]:
        """Its fields, for `of`."""
        return [list(self.hosts), self.port, self.token]

    @staticmethod
    def of(fields: Any) -> NetworkAddress:
        """Raises ValueError or TypeError for other fields."""
        hosts, port, token = fields
        texts = [*hosts, token]
        if not all(type(text) is str for text in texts) or type(port) is not int or len(hosts) > _MOST_HOSTS:
            raise ValueError
        return NetworkAddress(tuple(hosts), port, token)


def own_hosts(store: dist.Store) -> tuple[str, ...]:
    """Addresses of this machine, the likeliest first: that of the interface that `GLOO_SOCKET_IFNAME` names, that from
    which it reaches the store's host, and those of its name."""
    found: list[str] = []
    for name in filter(None, os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            answer = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            found.append(socket.inet_ntoa(answer[20:24]))
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if isinstance(store, dist.TCPStore):
        found += _toward(store.host, store.port)
    with contextlib.suppress(OSError):
        found += [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)]
    return tuple(dict.fromkeys(found))[:_MOST_HOSTS]


def _toward(host: str, port: int) -> list[str]:
    """The address of the interface by which this machine sends to `host`."""
    with contextlib.suppress(OSError):
        for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind) as asked:
                asked.connect(address)  # sends nothing
                return [str(asked.getsockname()[0])]
    return []
