# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Hosts of a network that is in this machine alone: network namespaces with an address each, joined by a bridge.

The addresses are those that RFC 5737 sets aside for examples; nothing leaves the namespaces.
"""

import contextlib
import ctypes
import os
import subprocess
import uuid
from collections.abc import Iterator

import pytest

_CLONE_NEWNET = 0x40000000


class Network:
    """`addresses[k]` is that of host k. `enter(k)` brings the calling process to it, and what it starts."""

    def __init__(self, hosts: int):
        # Names of interfaces have at most 15 characters.
        self.name = f"td{uuid.uuid4().hex[:6]}"
        self.addresses = [f"192.0.2.{host + 1}" for host in range(hosts)]

    def enter(self, host: int) -> None:
        """Call it before the process has other threads."""
        with open(f"/run/netns/{self.name}h{host}") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")

    def make(self) -> None:
        switch = f"{self.name}s"
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for host, address in enumerate(self.addresses):
            space, port = f"{self.name}h{host}", f"{self.name}p{host}"
            _ip("netns", "add", space)
            _ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", switch)
            _ip("-n", switch, "link", "set", port, "master", "bridge")
            _ip("-n", switch, "link", "set", port, "up")
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            for interface in ("lo", "eth0"):
                _ip("-n", space, "link", "set", interface, "up")

    def remove(self) -> None:
        for space in [f"{self.name}s", *(f"{self.name}h{host}" for host in range(len(self.addresses)))]:
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "del", space)


def set_link(state: str) -> None:
    """Cuts this process's host off ("down"), or joins it again ("up")."""
    _ip("link", "set", "eth0", state)


@contextlib.contextmanager
def network(hosts: int) -> Iterator[Network]:
    """A network that lasts as long as the context; the test is skipped where none can be made."""
    made = Network(hosts)
    try:
        try:
            made.make()
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces can be made here (user {os.getuid()}): {error}")
        yield made
    finally:
        made.remove()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)
