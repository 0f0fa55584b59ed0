# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A server as tests see it."""

import base64
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from rig_process import RigProcess

from .faults import Fault, Rule
from .request_log import Entry

# Known to each server from its start.
S3_KEY, S3_SECRET = "AKIDEXAMPLE0RIG", "rig/Secret+Key=0123456789"
TOKEN = "rig-token"
AZURE_ACCOUNT, AZURE_KEY = "rigaccount", base64.b64encode(b"the rig's secret: 0123456789").decode()

LIFE = 300.0  # seconds

_FAULT = {each.name for each in dataclasses.fields(Fault)}
_RULE = {each.name for each in dataclasses.fields(Rule)} - {"fault"}


class ObjectServer:
    """An object server in a process of its own, on the loopback. Close it, or use it in a `with`.

    It holds objects by name, `bucket/key`, and answers each dialect on a port of its own: `server.url("s3")`. It is
    strict: what a store would refuse, it refuses. Faults are asked for with `fail`; `requests` says what was asked.
    `certificate`: a PEM file with a key and its certificate; all ports then speak TLS. The process ends by itself
    when no method was called for `life` seconds.
    """

    def __init__(self, *, certificate: str | None = None, life: float = LIFE):
        self._process = RigProcess("object_server", {"certificate": certificate}, life)
        try:
            self._begin("addresses")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "ObjectServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.close()

    def is_running(self) -> bool:
        return self._process.is_running()

    def restart(self) -> None:
        """All is as in a new server, on other ports; connections end. Takes less time than a new process."""
        self._begin("restart")

    def _begin(self, command: str) -> None:
        self._addresses: dict[str, str] = self._process.ask(command)
        self.allow_s3_key(S3_KEY, S3_SECRET)
        self.allow_token(TOKEN)
        self.allow_azure_key(AZURE_ACCOUNT, AZURE_KEY)

    def url(self, dialect: str, path: str = "") -> str:
        """The address of a dialect, with `path` behind its slash: "http", "s3", "gcs", "azure", "hub", or "cdn", where
        the Hub's redirects lead."""
        return f"{self._addresses[dialect]}/{path}" if path else self._addresses[dialect]

    # Objects

    def put(self, name: str, data: bytes | memoryview) -> str:
        """Makes or replaces an object. Returns its ETag (of http and s3), with quotes."""
        return self._process.ask("put", data, name=name)

    def put_all(self, objects: Mapping[str, bytes]) -> None:
        """As `put`, of many at once."""
        sizes = {name: len(data) for name, data in objects.items()}
        self._process.ask("put_all", b"".join(objects.values()), sizes=sizes)

    def get(self, name: str) -> bytes | None:
        """The bytes of an object; None if there is none."""
        text = self._process.ask("get", name=name)
        return None if text is None else text.encode("latin-1")

    def remove(self, name: str) -> None:
        self._process.ask("remove", name=name)

    # Credentials. Each expires after `requests` of them, or at `expires` (seconds since 1970).

    def allow_s3_key(self, key: str, secret: str, session_token: str = "", **until: float) -> None:
        self._process.ask("allow", kind="s3", name=key, secret=secret, session_token=session_token, **until)

    def allow_token(self, token: str, **until: float) -> None:
        """A bearer token, of "gcs", "azure" and "hub"."""
        self._process.ask("allow", kind="bearer", name=token, **until)

    def allow_refresh_token(self, token: str, client: str, secret: str) -> None:
        """Of "gcs": what `token`, below its url, exchanges for bearer tokens that are good for an hour."""
        self._process.ask("allow", kind="refresh", name=token, secret=f"{client} {secret}")

    def allow_azure_key(self, account: str, key: str, **until: float) -> None:
        """The shared key of an account, in base64."""
        self._process.ask("allow", kind="azure", name=account, secret=key, **until)

    def allow_sas(self, query: str, **until: float) -> None:
        """A shared access signature, as the query that it is: `sv=…&se=…&sig=…`. Its `se` is obeyed too."""
        signature = dict(parse_qsl(query))["sig"]
        self._process.ask("allow", kind="sas", name=signature, secret=query, **until)

    def expire(self, kind: str, name: str) -> None:
        """From now on the server calls this credential expired. `kind`: "s3", "bearer", "azure" or "sas" (by its
        `sig`)."""
        self._process.ask("expire", kind=kind, name=name)

    def allow_anonymous(self) -> None:
        """From now on nobody is asked for credentials."""
        self._process.ask("allow_anonymous")

    def set_clock(self, ahead: float) -> None:
        """Sets the server's clock ahead of this machine's by so many seconds."""
        self._process.ask("set_clock", ahead=ahead)

    def limit_pages(self, names: int) -> None:
        """No page of a list has more names from now on."""
        self._process.ask("limit_pages", names=names)

    def set_signed_lifetime(self, seconds: float) -> None:
        """How long the addresses that the Hub's redirects lead to can be read from."""
        self._process.ask("set_signed_lifetime", seconds=seconds)

    # Faults

    def limit_rate(self, bucket: str, *, requests: int, seconds: float) -> None:
        """The Hub answers 429 beyond so many requests in so many seconds, to those of a bucket ("resolvers", "api")."""
        self._process.ask("limit_rate", bucket=bucket, requests=requests, seconds=seconds)

    def fail(self, **rule: Any) -> None:
        """From now on requests that `rule` is true of fail as it says: its names are the members of `faults.Rule`
        (which requests) and of `faults.Fault` (what happens): `fail(object="x", nth=3, status=503, retry_after=1)`."""
        if unknown := rule.keys() - _RULE - _FAULT:
            raise TypeError(f"fail: there is no {sorted(unknown)}")
        if not rule.keys() & _FAULT:
            raise TypeError("fail: nothing is to happen")
        data = rule.pop("replace", None)
        what = {name: value for name, value in rule.items() if name in _FAULT}
        self._process.ask("fail", data, which={k: v for k, v in rule.items() if k in _RULE}, what=what)

    def heal(self) -> None:
        """Ends all faults."""
        self._process.ask("heal")

    # What was asked

    def requests(self, **members: Any) -> Sequence[Entry]:
        """The requests so far, oldest first, whose members have these values: `requests(method="GET", status=206)`."""
        entries = [Entry(**fields) for fields in self._process.ask("requests")]
        for entry in entries:
            entry.range = None if entry.range is None else (entry.range[0], entry.range[1])
        return [entry for entry in entries if all(getattr(entry, name) == value for name, value in members.items())]

    def counters(self) -> dict[str, int]:
        """`requests`, `sent` (bytes of bodies), `connections`, and how many of both there were at a time:
        `most_requests`, `most_connections`."""
        return self._process.ask("counters")

    def forget_requests(self) -> None:
        """`requests` and `counters` begin anew."""
        self._process.ask("forget_requests")
