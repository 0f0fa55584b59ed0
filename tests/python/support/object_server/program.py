# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The server's process: one port a dialect, over the same objects, and the commands of a test."""

import json
import ssl
import sys
from collections.abc import Callable
from typing import Any

from rig_process import obey

from .azure import AzureBlob
from .connections import Listener
from .credentials import Credentials, Grant
from .dialect import Dialect, Store
from .faults import Faults
from .gcs import GoogleCloudStorage
from .hub import Hub, SignedUrls
from .objects import Objects
from .plain import Plain
from .request_log import RequestLog
from .s3 import S3


class Server:
    def __init__(self, certificate: str | None):
        self.objects, self.faults, self.log = Objects(), Faults(), RequestLog()
        self.credentials = Credentials()
        store = Store(self.objects, self.credentials, addresses={})
        tls = _tls(certificate) if certificate else None
        self.signed_urls = SignedUrls(store)
        self.hub = Hub(store, self.signed_urls)
        others = [Plain(store), S3(store), GoogleCloudStorage(store), AzureBlob(store)]
        dialects: list[Dialect] = [*others, self.hub, self.signed_urls]
        self.listeners = {each.name: Listener(each, self.faults, self.log, tls) for each in dialects}
        for name, listener in self.listeners.items():
            store.addresses[name] = f"{'https' if tls else 'http'}://127.0.0.1:{listener.port}"
        for listener in self.listeners.values():
            listener.start()
        self.addresses = store.addresses

    def close(self) -> None:
        for listener in self.listeners.values():
            listener.close()

    def put(self, name: str, data: bytes) -> str:
        return self.objects.put(name, data).etag

    def put_all(self, sizes: dict[str, int], data: bytes) -> None:
        objects, begin = {}, 0
        for name, size in sizes.items():
            objects[name] = data[begin : begin + size]
            begin += size
        self.objects.put_all(objects)

    def get(self, name: str) -> str | None:
        stored = self.objects.get(name)
        return None if stored is None else stored.data.decode("latin-1")

    def allow(self, **grant: Any) -> None:
        self.credentials.allow(Grant(**grant))

    def allow_anonymous(self) -> None:
        self.credentials.anonymous = True

    def set_clock(self, ahead: float) -> None:
        self.credentials.clock_offset = ahead

    def limit_pages(self, names: int) -> None:
        self.objects.page_limit = names

    def set_signed_lifetime(self, seconds: float) -> None:
        self.signed_urls.lifetime = seconds

    def fail(self, which: dict, what: dict, data: bytes | None = None) -> None:
        self.faults.add(which, what if data is None else {**what, "replace": data})


def _tls(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


class Program:
    """The commands, for a server that can be followed by another."""

    def __init__(self, certificate: str | None):
        self._certificate = certificate
        self.start()

    def start(self) -> dict[str, str]:
        """A new server, with nothing of the one before. Returns its addresses."""
        self.server = Server(self._certificate)
        return self.server.addresses

    def restart(self) -> dict[str, str]:
        self.server.close()
        return self.start()

    def commands(self) -> dict[str, Callable[..., Any]]:
        server = self.server
        return {
            "addresses": lambda: server.addresses,
            "restart": self.restart,
            "put": server.put,
            "put_all": server.put_all,
            "get": server.get,
            "remove": server.objects.remove,
            "allow": server.allow,
            "allow_anonymous": server.allow_anonymous,
            "expire": server.credentials.expire,
            "set_clock": server.set_clock,
            "limit_pages": server.limit_pages,
            "set_signed_lifetime": server.set_signed_lifetime,
            "limit_rate": server.hub.limit_rate,
            "fail": server.fail,
            "heal": server.faults.clear,
            "requests": server.log.entries,
            "counters": server.log.counters,
            "forget_requests": server.log.clear,
        }


def main() -> None:
    settings = json.loads(sys.argv[1])
    program = Program(settings["certificate"])
    obey(lambda name: program.commands()[name], settings["life"])
