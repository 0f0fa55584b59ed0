# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The kinds of stores that the object server speaks for, each with the credentials that it takes."""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass

from object_server import AZURE_ACCOUNT, AZURE_KEY, S3_KEY, S3_SECRET, TOKEN, ObjectServer

from torch_distinput import _C

SAS = "sv=2023-11-03&se=2100-01-01T00%3A00%3A00Z&sr=c&sp=rlw&sig=a%2Bb%2Fc%3D"

# Names that a request, a list or an answer must encode.
ODD_NAMES = (
    "plain",
    "d/a b",
    "d/e/f",
    "ü/日本 🙂",
    "a+b",
    "100%",
    "50%25",
    "q?x=1&y=2",
    "h#1",
    "k=v;,@:'\"<>&",
    "~tilde*!()[]{}|^`$",
    "dots/../x",
)

# What this process knows of a bucket outlives a test.
_numbers = itertools.count()


@dataclass(frozen=True)
class Kind:
    name: str
    dialect: str
    front: str  # of URLs, before the bucket
    path: str  # of the endpoint
    known: dict[str, str]  # credentials that the server takes
    wrong: dict[str, str]

    def __str__(self) -> str:
        return self.name


WRONG = "wr0ngs3cretA"
_KEYS = {"key": S3_KEY, "secret": S3_SECRET}
_WRONG_KEYS = {"key": S3_KEY, "secret": WRONG}
_ACCOUNT = {"account": AZURE_ACCOUNT}

KINDS = (
    Kind("s3", "s3", "s3://", "", _KEYS, _WRONG_KEYS),
    Kind("gs", "gcs", "gs://", "", {"token": TOKEN}, {"token": WRONG}),
    Kind("gs-hmac", "gcs", "gs://", "", _KEYS, _WRONG_KEYS),
    Kind("az-key", "azure", "az://", AZURE_ACCOUNT, {**_ACCOUNT, "key": AZURE_KEY}, {**_ACCOUNT, "key": WRONG}),
    Kind("az-sas", "azure", "az://", AZURE_ACCOUNT, {"sas_token": "?" + SAS}, {"sas_token": f"sv=1&sig={WRONG}"}),
    Kind("az-token", "azure", "az://", AZURE_ACCOUNT, {"token": TOKEN}, {"token": WRONG}),
    Kind("hf", "hub", "hf://datasets/", "", {"token": TOKEN}, {"token": WRONG}),
)


class Bucket:
    """A bucket of the server that no test has used before, asked with `options`, or those of the kind."""

    def __init__(self, kind: Kind, server: ObjectServer, **options: str):
        self.kind, self.server = kind, server
        number = next(_numbers)
        self.name = f"owner{number}/data" if kind.dialect == "hub" else f"bucket-{number}"
        self.url = f"{kind.front}{self.name}/"
        if kind.name == "az-sas":
            server.allow_sas(SAS)
        self.configure(kind.known | options)

    def configure(self, options: dict[str, str], credentials: Callable | None = None, **others: str) -> None:
        endpoint = self.server.url(self.kind.dialect, self.kind.path)
        _C.set_storage_options(self.url, {"endpoint_url": endpoint, **options, **others}, credentials)

    def put(self, objects: dict[str, bytes]) -> None:
        self.server.put_all({f"{self.name}/{name}": data for name, data in objects.items()})

    def open(self, name: str) -> "_C.InputFile":
        return _C.InputFile(self.url + name, "test")

    def read(self, name: str) -> bytes:
        return self.open(name).read_at(0, 1 << 30)

    def list(self, prefix: str = "") -> dict[str, int]:
        return dict(_C.list_objects(self.url + prefix))


def versions_of(error: Exception) -> tuple[str, str]:
    """The version that was wanted and the one that was there."""
    match = re.search(r"version (\S+) of \d+ bytes was wanted, (\S+) of \d+ bytes is there", str(error))
    assert match, str(error)
    return match[1], match[2]
